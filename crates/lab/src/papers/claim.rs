//! Measurements for the rows on endurance. Such a row names a part in place of a setup.
//!
//! Most of these measures are ratios, as the document states factors. Rows on reads, and on blocks written
//! alternately, are measured on a simulated chip with its driver, and name a setup as usual.

use crate::endurance::{self, Experiment, Latency, Pages, Pattern, Subject, cycles};
use floatgate_config::{Library, Override};
use floatgate_mtd::Nanos;
use floatgate_mtd::random::{Random, hash};
use floatgate_sim::error::Error;
use floatgate_sim::rig::{self, Rig, RigOptions};

/// Prefix of the measures of this module.
pub(super) const PREFIX: &str = "endurance: ";

/// Measure computed from a chip's endurance report.
type OfReport = fn(&Subject, &Trial) -> Result<f64, Error>;

/// Measure taken on a chip with its driver.
type OfRig = fn(&mut Rig, u64) -> Result<f64, Error>;

const OF_REPORTS: [(&str, OfReport); 17] = [
    ("life over nominal", |s, t| t.life(s, |_| {}).map(|life| life / s.nominal_cycles as f64)),
    ("life, one page over whole block", |s, t| t.ratio(s, |_| {}, |e| e.pages = Pages::All)),
    ("life, 80 C over 25 C", |s, t| t.ratio(s, |e| e.temperature_c = 80.0, |_| {})),
    ("life, 5 C over 25 C", |s, t| t.ratio(s, |e| e.temperature_c = 5.0, |_| {})),
    ("life, erases alone over programs and erases", |s, t| t.ratio(s, |e| e.erase_only = true, |_| {})),
    ("life, ones over zeroes", |s, t| t.ratio(s, |e| e.pattern = Pattern::Ones, |_| {})),
    ("life, random data over zeroes", |s, t| t.ratio(s, |e| e.pattern = Pattern::Random, |_| {})),
    ("life, checkerboard over zeroes", |s, t| t.ratio(s, |e| e.pattern = Pattern::Checker, |_| {})),
    ("program, last over first", |s, t| t.program(s).map(|l| l.change)),
    ("erase, last over first", |s, t| t.erase(s).map(|l| l.change)),
    ("program, slowest over first", |s, t| t.program(s).map(|l| l.slowest_us / l.first_100_us)),
    ("program, typical over data sheet", |s, t| {
        t.program(s).map(|l| l.typical_us / s.program.typ.as_us_f64())
    }),
    ("erase, typical over data sheet", |s, t| t.erase(s).map(|l| l.typical_us / s.erase.typ.as_us_f64())),
    ("read over data sheet", |s, _| Ok(s.read.typ.as_us_f64() / s.read.max.as_us_f64())),
    ("cycles of the slowest programs", Trial::break_in),
    ("different program times", |s, t| t.different(s, |stretch| stretch.program)),
    ("different erase times", |s, t| t.different(s, |stretch| stretch.erase)),
];

const OF_RIGS: [(&str, OfRig); 3] = [
    ("writes, blocks in turn over one by one", |rig, _| {
        Ok(write_blocks(rig, true)?.as_ns() as f64 / write_blocks(rig, false)?.as_ns() as f64)
    }),
    ("reads, random over sequential", |rig, seed| {
        Ok(read_pages(rig, Some(seed))?.as_ns() as f64 / read_pages(rig, None)?.as_ns() as f64)
    }),
    ("reads, worn block over new", |rig, _| {
        let new = read_pages(rig, None)?;
        cycle_blocks(rig)?;
        Ok(read_pages(rig, None)?.as_ns() as f64 / new.as_ns() as f64)
    }),
];

/// Measures `what`, which is the name without the prefix.
///
/// # Errors
/// An unknown measure, part or setup; a failing experiment or operation.
pub(super) fn measure(
    library: &Library,
    name: &str,
    sets: &[Override],
    what: &str,
    (seed, blocks): (u64, u32),
) -> Result<f64, Error> {
    if let Some((_, of_report)) = OF_REPORTS.iter().find(|(known, _)| *known == what) {
        return of_report(&Subject::new(library, name, sets)?, &Trial { seed, blocks });
    }
    let Some((_, of_rig)) = OF_RIGS.iter().find(|(known, _)| *known == what) else {
        return Err(unknown(what));
    };
    let config = library.resolve(&library.setup(name)?, sets)?;
    let options = RigOptions { stores: false, ..RigOptions::default() };
    of_rig(&mut rig::wire(library, &config, options)?, seed)
}

fn unknown(what: &str) -> Error {
    let known: Vec<&str> =
        OF_REPORTS.iter().map(|known| known.0).chain(OF_RIGS.iter().map(|known| known.0)).collect();
    Error::request(
        format!("no measure is called \"{PREFIX}{what}\""),
        format!("after \"{PREFIX}\" there may stand {}", known.join("; ")),
    )
}

/// Chips, blocks and seed with which a claim is measured.
struct Trial {
    seed: u64,
    blocks: u32,
}

impl Trial {
    fn experiment(&self, change: fn(&mut Experiment)) -> Experiment {
        let mut experiment = Experiment { seed: self.seed, blocks: self.blocks, ..Experiment::default() };
        change(&mut experiment);
        experiment
    }

    fn report(&self, s: &Subject, change: fn(&mut Experiment)) -> Result<endurance::Report, Error> {
        endurance::run(s, &self.experiment(change))
    }

    /// Mean life in cycles.
    fn life(&self, s: &Subject, change: fn(&mut Experiment)) -> Result<f64, Error> {
        Ok(self.report(s, change)?.life.mean)
    }

    fn ratio(
        &self,
        s: &Subject,
        over: fn(&mut Experiment),
        under: fn(&mut Experiment),
    ) -> Result<f64, Error> {
        Ok(self.life(s, over)? / self.life(s, under)?)
    }

    fn program(&self, s: &Subject) -> Result<Latency, Error> {
        let report = self.report(s, |_| {})?;
        report.program.ok_or_else(|| Error::request("nothing was programmed", "do not erase only"))
    }

    fn erase(&self, s: &Subject) -> Result<Latency, Error> {
        Ok(self.report(s, |_| {})?.erase)
    }

    /// Mean number of cycles until programs are faster than the first one.
    fn break_in(s: &Subject, trial: &Self) -> Result<f64, Error> {
        let until = |life: &[endurance::Stretch]| {
            let first = life.first().map(|stretch| stretch.program);
            let faster = life.iter().find(|stretch| Some(stretch.program) < first);
            faster.map_or_else(|| cycles(life), |stretch| stretch.from) as f64
        };
        let e = trial.experiment(|_| {});
        e.check()?;
        let lives = (0..e.blocks).map(|block| until(&s.block_life(&e, 0, block)));
        Ok(lives.sum::<f64>() / f64::from(e.blocks))
    }

    /// Maximum number of different times of an operation in the life of a block.
    fn different(&self, s: &Subject, time: fn(&endurance::Stretch) -> Nanos) -> Result<f64, Error> {
        let e = self.experiment(|_| {});
        e.check()?;
        let count = |block| {
            let mut times: Vec<Nanos> = s.block_life(&e, 0, block).iter().map(time).collect();
            times.sort_unstable();
            times.dedup();
            times.len()
        };
        Ok((0..e.blocks).map(count).max().unwrap_or(0) as f64)
    }
}

/// Number of blocks in measures on chips with a driver.
const BLOCKS: u64 = 4;

/// Number of erase and program cycles that wear a block, for the measures on worn blocks.
const CYCLES: u32 = 2000;

/// Time to write all pages of some erased blocks: block by block or, if `in_turn`, one page of each block
/// alternately.
fn write_blocks(rig: &mut Rig, in_turn: bool) -> Result<Nanos, Error> {
    let (block, page) = sizes(rig);
    erase(rig, BLOCKS)?;
    let data = vec![0; page as usize];
    let start = rig.now();
    let mut now = start;
    let pages = block / page;
    for i in 0..BLOCKS * pages {
        let addr = if in_turn { i % BLOCKS * block + i / BLOCKS * page } else { i * page };
        now = rig.device.write(now, addr, &data).map_err(Error::flash("writing a page"))?.at;
    }
    Ok(now.since(start))
}

/// Time to read all pages of some blocks one by one: in order, or in an order shuffled with a seed.
fn read_pages(rig: &mut Rig, shuffled: Option<u64>) -> Result<Nanos, Error> {
    let (block, page) = sizes(rig);
    let mut order: Vec<u64> = (0..BLOCKS * block / page).collect();
    if let Some(seed) = shuffled {
        let mut random = Random::new(hash(seed, 0, 0));
        order.sort_by_cached_key(|_| random.bits());
    }
    let mut data = vec![0; page as usize];
    let start = rig.now();
    let mut now = start;
    for at in order {
        now = rig.device.read(now, at * page, &mut data).map_err(Error::flash("reading a page"))?.at;
    }
    Ok(now.since(start))
}

/// Wears the first block.
fn cycle_blocks(rig: &mut Rig) -> Result<(), Error> {
    let (_, page) = sizes(rig);
    let data = vec![0; page as usize];
    for _ in 0..CYCLES {
        erase(rig, 1)?;
        let now = rig.now();
        rig.device.write(now, 0, &data).map_err(Error::flash("writing a page"))?;
    }
    Ok(())
}

fn erase(rig: &mut Rig, blocks: u64) -> Result<(), Error> {
    let (block, _) = sizes(rig);
    let now = rig.now();
    rig.device.erase(now, 0, blocks * block).map_err(Error::flash("erasing blocks"))?;
    Ok(())
}

/// Size of a block and of a page, bytes.
fn sizes(rig: &Rig) -> (u64, u64) {
    let geometry = rig.device.geometry();
    (u64::from(geometry.erase_bytes), u64::from(geometry.write_bytes))
}

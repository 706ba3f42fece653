//! Measures the figures of one candidate.

use super::{Candidate, FigureInterval, Figures, Missing, Quantity, Unfit, Use, Workload};
use crate::advise::card::{DeviceFacts, at_least_the_traces, enlarged, flash_blocks};
use crate::advise::flash::{self, AdviceOptions, Board, Scope};
use crate::age::FILL_PERCENT;
use crate::card::compare::{NamedCard, compare};
use crate::card::life::{BUDGET, TraceWear, by_trace};
use crate::card::shipped::{CREATED_BYTES, ShippedTrace, everyday_traces, traces};
use crate::card::speed::{CardTest, essentials};
use crate::card::spread::{self, Spread};
use crate::card::state::CardState;
use crate::card::{LoadedCard, is_card, load};
use crate::energy;
use crate::fs_compare::{FsComparison, Subject, Test};
use crate::life::{DAYS_PER_YEAR, Endurance, FlashLife, HOT, Wear};
use crate::show::number::three;
use crate::speed::{SpeedOptions, Test as SpeedTest};
use crate::speed_run;
use floatgate_config::{Config, ConfigError, Kind, Library, Override, Part, Problem};
use floatgate_device::host::HostProfile;
use floatgate_mtd::size::text as size;
use floatgate_sim::error::Error;
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::partition;
use floatgate_sim::rig::{self, RigOptions};
use std::path::Path;

/// Default size of the partition of raw flash that is measured, bytes.
pub(crate) const PARTITION_BYTES: u64 = 64 << 20;
/// Minimum number of eraseblocks of that partition: on a large chip, UBI reserves about 40 for bad blocks.
pub(crate) const PARTITION_BLOCKS: u64 = 128;
/// Temperature of raw flash, degrees Celsius.
const TEMPERATURE_C: f64 = 40.0;
/// Size of a small synchronised write, bytes: of a record of `fs`, and of a file of the trace `create`.
const SMALL_BYTES: f64 = CREATED_BYTES as f64;
const MIB: f64 = (1 << 20) as f64;
/// State of a card before it is measured.
const STATE: CardState = CardState::Used;

/// Measures a setup, a part or a card with its overrides.
///
/// # Errors
/// An unknown name; a wrong file. Figures that cannot be measured are listed in the result.
pub fn measure(library: &Library, target: &Path, sets: &[Override], use_: &Use) -> Result<Candidate, Error> {
    let mut candidate = match is_card(library, target) {
        true => of_card(library, target, sets, use_)?,
        false => of_flash(library, target, sets, use_)?,
    };
    if let Some(years) = candidate.figures.life_years.filter(|years| *years < use_.years) {
        candidate.unfit.push(Unfit::WearsOut { years, wanted_years: use_.years });
    }
    Ok(candidate)
}

/// True for the error of a board that refuses its chip. A wrong value in a file of the user is not a refusal, but an
/// error of that file.
fn is_refusal(error: &ConfigError) -> bool {
    matches!(error.problem(), Problem::WrongValue | Problem::MissingKey) && !error.is_in_users_file()
}

impl Candidate {
    /// Candidate without figures.
    fn empty(target: &Path, title: String, kind: String) -> Self {
        Self {
            target: target.display().to_string(),
            title,
            kind,
            filesystem: None,
            figures: Figures::default(),
            intervals: Vec::new(),
            missing: Vec::new(),
            unfit: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Candidate without figures, because it cannot be used.
    fn refused(target: &Path, reason: &str) -> Self {
        let mut new = Self::empty(target, target.display().to_string(), String::new());
        new.cannot_be_used(reason);
        new
    }

    /// Candidate without figures. Its price is for `bytes`.
    fn new(target: &Path, title: String, part: &Part, bytes: u64) -> Self {
        let mut new = Self::empty(target, title, part.kind.clone());
        match &part.price {
            Some(price) => {
                new.figures.usd_per_gb = Some(price.usd_per_gb);
                new.figures.usd = Some(price.usd_per_gb * bytes as f64 / 1e9);
                new.remarks.push(format!("The price is of {}: {}.", price.date, price.from));
            }
            None => {
                new.lacks(Quantity::Price, "none is in the part's file, which may have a table `[price]`")
            }
        }
        new
    }

    fn lacks(&mut self, quantity: Quantity, reason: impl Into<String>) {
        self.missing.push(Missing { quantity, reason: reason.into() });
    }

    /// Fills in the figures, or the reason why the candidate cannot be used. A wrong file is an error.
    fn filled(mut self, fill: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<Self, Error> {
        match fill(&mut self) {
            Err(Error::Config(error)) if !is_refusal(&error) => return Err(error.into()),
            Err(error) => {
                // Without figures, no remark is needed.
                self.remarks.clear();
                self.missing.retain(|missing| missing.quantity == Quantity::Price);
                self.cannot_be_used(&error.to_string());
            }
            Ok(()) => {}
        }
        let figures = &mut self.figures;
        let paid = figures.usd.filter(|usd| *usd > 0.0);
        figures.write_mib_s_per_usd = figures.write_mib_s.zip(paid).map(|(mib_s, usd)| mib_s / usd);
        Ok(self)
    }

    fn cannot_be_used(&mut self, reason: &str) {
        self.lacks(Quantity::All, reason);
        self.unfit.push(Unfit::Unusable { reason: reason.to_owned() });
    }
}

/// Candidate of raw flash with the most suitable filesystem.
fn of_flash(library: &Library, target: &Path, sets: &[Override], use_: &Use) -> Result<Candidate, Error> {
    let is = |kind| target.to_str().is_some_and(|name| library.has(kind, name));
    let setup = match library.setup(target) {
        Err(_) if is(Kind::Part) => {
            return Ok(Candidate::refused(target, "no board of the catalogue drives a chip of this kind"));
        }
        setup => setup?,
    };
    let resolved = library.resolve(&setup, sets).and_then(|own| {
        let mut chip_bytes = own.chip()?.facts().size_bytes;
        for other in library.concatenated(&own)? {
            chip_bytes += other.chip()?.facts().size_bytes;
        }
        Ok((own, chip_bytes))
    });
    let (own, chip_bytes) = match resolved {
        Err(error) if is_refusal(&error) => return Ok(Candidate::refused(target, &error.to_string())),
        resolved => resolved?,
    };
    let candidate = Candidate::new(target, speed_run::title(&own), own.part(), chip_bytes);
    let board = Board { name: candidate.target.clone(), setup, sets: sets.to_vec() };
    candidate.filled(|candidate| {
        if own.board().is_some() {
            candidate.remarks.push(format!("It runs on: {}.", candidate.title));
        }
        fill_energy(library, candidate, &own)?;
        if own.extract_or_default::<HostProfile>("host")?.firmware {
            let remark = "The board runs firmware: its figures are those of a filesystem under Linux.";
            candidate.remarks.push(remark.to_owned());
        }
        let (largest, partition_bytes) = partition_bytes(library, &own, use_)?;
        if let Some(wanted_bytes) = use_.partition_bytes.filter(|wanted| *wanted > largest) {
            candidate.unfit.push(Unfit::TooSmall { bytes: largest, wanted_bytes });
        }
        fill_from_flash(library, candidate, (&board, partition_bytes), use_)
    })
}

/// Fills in the energy per MiB written to the bare flash in whole eraseblocks, including their erases.
fn fill_energy(library: &Library, candidate: &mut Candidate, own: &Config) -> Result<(), Error> {
    let Some(supply) = &own.part().supply else {
        candidate.lacks(
            Quantity::Energy,
            "no supply current is in the part's file, which may have a table `[supply]`",
        );
        return Ok(());
    };
    let options = RigOptions { stores: false, ..RigOptions::default() };
    let tests = SpeedOptions { blocks: Some(1), ..SpeedOptions::default() };
    let run = speed_run::measure(library, own, options, &tests)?;
    let of = |test: SpeedTest| {
        let measured = run.report.tests.iter().find(|measured| measured.name == test.name())?;
        energy::mj_per_mib(supply, measured)
    };
    candidate.figures.write_mj_per_mib =
        of(SpeedTest::Write(0)).zip(of(SpeedTest::Erase(1))).map(|(write, erase)| write + erase);
    let remark = format!(
        "The energy is that of the chip, with an erase for each eraseblock: {} ({:.0} % sure).",
        supply.from,
        supply.confidence * 100.0
    );
    candidate.remarks.push(remark);
    Ok(())
}

/// Maximum size of the partition, and the size that is measured, bytes. Both are whole eraseblocks.
fn partition_bytes(library: &Library, own: &Config, use_: &Use) -> Result<(u64, u64), Error> {
    let wired = rig::wire(library, own, RigOptions { stores: false, ..RigOptions::default() })?;
    let erase_bytes = u64::from(wired.device.geometry().erase_bytes.max(1));
    let largest = partition::largest(library, own)? / erase_bytes * erase_bytes;
    let usual = PARTITION_BYTES.max(PARTITION_BLOCKS * erase_bytes);
    let wanted = use_.partition_bytes.unwrap_or(usual).min(largest);
    Ok((largest, wanted.div_ceil(erase_bytes) * erase_bytes))
}

/// Name of the compared row of `fs`.
const WRITE: &str = "write random 64 KiB";
const READ: &str = "read first";
const MOUNT: &str = "mount many small files";
const FREE: &str = "free after mkfs";
const SYNCED: &str = "sync: fsync after each write";

fn scope() -> Scope {
    let mut options = Scope::options(vec![Test::Write, Test::Read, Test::Mount, Test::Space, Test::Sync]);
    options.only = [WRITE, READ, MOUNT, FREE, SYNCED].map(str::to_owned).to_vec();
    Scope { sizes: |geometry| vec![geometry.size_bytes], options }
}

fn fill_from_flash(
    library: &Library,
    candidate: &mut Candidate,
    (board, partition_bytes): (&Board, u64),
    use_: &Use,
) -> Result<(), Error> {
    let wanted = AdviceOptions {
        partition_bytes: Some(partition_bytes),
        years: use_.years,
        temperature_c: TEMPERATURE_C,
        write_bytes_per_day: use_.write_bytes_per_day,
        seed: use_.seed,
    };
    let all = flash::Candidate::all(library, board, &wanted, &board.configured(library, &wanted)?, &scope())?;
    let best = flash::Candidate::best(&all);
    let choice = best.compared.last().and_then(|compared| Some((compared, compared.choice()?)));
    let Some((compared, choice)) = choice else {
        let refused = best.compared.last().and_then(|compared| compared.refused.first());
        let reason = refused.map_or("no filesystem can be measured on it", |refused| refused.why.as_str());
        candidate.cannot_be_used(reason);
        return Ok(());
    };
    let (Some(subject), Some(kind)) = (choice.subject, flash::kind(compared)) else {
        let why = |subject| compared.space(subject).and_then(Result::err).unwrap_or_default();
        let [jffs2, ubifs] = [Subject::Jffs2, Subject::Ubifs].map(why);
        candidate.cannot_be_used(&format!("neither JFFS2 ({jffs2}) nor UBIFS ({ubifs}) is possible on it"));
        return Ok(());
    };
    candidate.filesystem = Some(subject.title().to_owned());
    if let Some(kernel) = best.kernel {
        candidate.remarks.push(format!("The figures are of a kernel with {kernel}."));
    }
    if !compared.cpu_is_known {
        candidate.remarks.push("The time of the CPU is not known and is missing in the times.".to_owned());
    }
    if kind == FilesystemKind::Jffs2 {
        candidate.lacks(Quantity::Attach, "JFFS2 needs no UBI");
        let remark = "JFFS2 is ready when its thread has checked all nodes: until then a file that is opened waits for its own.";
        candidate.remarks.push(remark.to_owned());
    }
    fill_from_comparison(&mut candidate.figures, compared, subject);
    candidate.intervals = intervals(compared, subject);
    candidate
        .remarks
        .push("The mount is that of a filesystem with small files in 80 % of its space.".to_owned());
    let space = candidate.figures.space_bytes.unwrap_or(0);
    if let Some(reason) = use_.workload.impossible_on(kind).or_else(|| use_.workload.too_large_for(space)) {
        candidate.lacks(Quantity::Life, reason.clone());
        candidate.unfit.push(Unfit::Unusable { reason });
        return Ok(());
    }
    let piece = piece(use_.workload);
    if piece < HOT {
        candidate.remarks.push(format!(
            "The life counts an fsync after each {} of a file; `floatgate life` counts files that are written without fsync, which wear less.",
            size(piece)
        ));
    }
    let life = FlashLife {
        endurance: Endurance::of_config(&best.config, &best.geometry, wanted.ecc_use())?,
        wear: Wear::measure(library, &best.config, kind, FILL_PERCENT, piece)?,
    };
    candidate.figures.life_years = Some(years(life.bytes(), use_));
    Ok(())
}

fn fill_from_comparison(figures: &mut Figures, compared: &FsComparison, subject: Subject) {
    let value = |name: &str| compared.value(subject, name);
    figures.attach_s = value(&format!("{MOUNT}: attach"));
    figures.mount_s = value(MOUNT);
    figures.ready_s = compared.mounted_s(subject).map(|(_, ready)| ready);
    figures.read_mib_s = value(READ);
    figures.write_mib_s = value(WRITE);
    figures.synced_write_ms = value(SYNCED).map(|mib_s| SMALL_BYTES / MIB / mib_s * 1e3);
    figures.space_bytes = value(FREE).map(|kib| (kib * 1024.0) as u64);
}

/// 80 % intervals of the figures of [`fill_from_comparison`].
fn intervals(compared: &FsComparison, subject: Subject) -> Vec<FigureInterval> {
    let synced = SMALL_BYTES / MIB * 1e3;
    [
        ("mount_s", MOUNT, 1.0, false),
        ("read_mib_s", READ, 1.0, false),
        ("write_mib_s", WRITE, 1.0, false),
        ("synced_write_ms", SYNCED, synced, true),
    ]
    .into_iter()
    .filter_map(|(figure, row, scale, inverse)| {
        let interval = compared.interval(subject, row)?.scaled(scale, inverse);
        Some(FigureInterval { figure: figure.to_owned(), interval })
    })
    .collect()
}

/// Bytes between two fsync calls of a workload on raw flash. Without fsync calls, write-back writes many pages at once.
const fn piece(workload: Workload) -> u64 {
    match workload {
        Workload::Create => SMALL_BYTES as u64,
        Workload::Sqlite => 8 << 10,
        Workload::Journald => 24 << 10,
        Workload::Swap => 32 << 10,
        Workload::Camera => 2 << 20,
        Workload::Postmark
        | Workload::Dbench
        | Workload::KernelBuild
        | Workload::Log2ram
        | Workload::Docker => HOT,
    }
}

fn years(bytes: f64, use_: &Use) -> f64 {
    bytes / use_.write_bytes_per_day.max(1) as f64 / DAYS_PER_YEAR
}

/// Candidate of a card with the filesystem that is fastest for the workload.
fn of_card(library: &Library, target: &Path, sets: &[Override], use_: &Use) -> Result<Candidate, Error> {
    let card = match load(library, target, sets) {
        Err(error) if is_refusal(&error) => return Ok(Candidate::refused(target, &error.to_string())),
        card => card?,
    };
    let name = target.display().to_string();
    let known = DeviceFacts::of_card(&name, &card);
    let candidate = Candidate::new(target, known.title.clone(), &card.part, card.spec.capacity_bytes);
    candidate.filled(|candidate| {
        let remark = "The space is the size of the partition; the filesystem needs a part of it.";
        candidate.remarks.push(remark.to_owned());
        if let Some(reason) = known.untrusted_reason() {
            candidate.unfit.push(Unfit::Unsound { reason });
        }
        let bytes = known.partition_bytes();
        if let Some(reason) = use_.workload.too_large_for(bytes) {
            return Err(Error::request(reason, "choose a larger card"));
        }
        if let Some(wanted_bytes) = use_.partition_bytes.filter(|wanted| *wanted > bytes) {
            candidate.unfit.push(Unfit::TooSmall { bytes, wanted_bytes });
        }
        candidate.figures.space_bytes = Some(bytes);
        fill_from_requests(candidate, &card, use_)?;
        fill_from_traces(candidate, (&known, &card), use_)
    })
}

fn fill_from_requests(candidate: &mut Candidate, card: &LoadedCard, use_: &Use) -> Result<(), Error> {
    let measured = essentials(&card.spec, STATE, use_.seed)?;
    let mib_s = |test: &CardTest| test.mb_s * 1e6 / MIB;
    let figures = &mut candidate.figures;
    figures.attach_s = Some(measured.power_on_us / 1e6);
    figures.read_mib_s = Some(mib_s(&measured.read));
    figures.write_mib_s = Some(mib_s(&measured.write));
    candidate.remarks.push(format!(
        "Reads and writes are those of a used card in `floatgate speed`: {} and {} MB/s in order{}.",
        three(measured.read.mb_s),
        three(measured.write.mb_s),
        if measured.write.is_steady { "" } else { ", writes not in their steady state" }
    ));
    for (figure, test) in [("read_mib_s", &measured.read), ("write_mib_s", &measured.write)] {
        if let Some(interval) = test.interval {
            let interval = interval.scaled(1e6 / MIB, false);
            candidate.intervals.push(FigureInterval { figure: figure.to_owned(), interval });
        }
    }
    if card.spec.host.bus.is_none() {
        let remark = "No host limits the bus of the card, which runs in its fastest mode: the key `card.host.bus` sets the mode of a host.";
        candidate.remarks.push(remark.to_owned());
    }
    let rows = |measure| Spread::of(measure).map(|spread| spread.map_or(0, |spread| spread.rows));
    candidate.remarks.push(format!(
        "The intervals of reads and writes are those of the residuals of {} and {} rows in `floatgate papers cards`.",
        rows(spread::READ_IN_ORDER)?,
        rows(spread::WRITE_IN_ORDER)?
    ));
    let figures = &mut candidate.figures;
    match card.part.source_of("card.power") {
        Some(_) => figures.write_mj_per_mib = Some(measured.write.mj_per_mib),
        None => candidate.lacks(Quantity::Energy, "no supply current is in the card's file"),
    }
    Ok(())
}

fn fill_from_traces(
    candidate: &mut Candidate,
    (known, card): (&DeviceFacts, &LoadedCard),
    use_: &Use,
) -> Result<(), Error> {
    let wanted = [use_.workload, Workload::Create].map(Workload::name);
    let is_wanted = |trace: &ShippedTrace| trace.is_complete() && wanted.contains(&trace.workload);
    let everyday = everyday_traces();
    let traces: Vec<ShippedTrace> = traces().into_iter().chain(everyday).filter(is_wanted).collect();
    let replayed = at_least_the_traces(card.clone());
    candidate.remarks.extend(enlarged(card, &replayed, &traces)?);
    let named = NamedCard { name: known.target.clone(), card: replayed };
    let matrix = compare(&[named], &traces, STATE, use_.seed, &|_| ())?;
    let of = |workload: Workload| {
        matrix.cells.iter().filter(move |cell| cell.is_ranked && cell.workload == workload.name())
    };
    let fastest = of(use_.workload).min_by(|a, b| a.time_us.total_cmp(&b.time_us));
    let Some(cell) = fastest else { return Ok(()) };
    candidate.filesystem = Some(cell.filesystem.clone());
    let mount_s = cell.mount_us / 1e6;
    candidate.figures.mount_s = Some(mount_s);
    candidate.figures.ready_s = candidate.figures.attach_s.map(|attach_s| attach_s + mount_s);
    let remark = "The mount is that of a new filesystem of 3 GiB, with the requests that Linux made, its first look at the free space included.";
    candidate.remarks.push(remark.to_owned());
    let trace = |workload: Workload| {
        traces.iter().find(|trace| trace.filesystem == cell.filesystem && trace.workload == workload.name())
    };
    let created = of(Workload::Create).find(|created| created.filesystem == cell.filesystem);
    let files = trace(Workload::Create).and_then(|trace| trace.files);
    candidate.figures.synced_write_ms =
        created.zip(files).map(|(created, files)| created.time_us / 1e3 / files as f64);
    if let Some(trace) = trace(use_.workload) {
        fill_life(candidate, (known, card), trace, use_)?;
    }
    Ok(())
}

/// Years until the trace has used up the rated cycles, as in `life`. If the trace states the bytes of its files, the bytes per day are bytes of
/// files, as for raw flash.
fn fill_life(
    candidate: &mut Candidate,
    (known, card): (&DeviceFacts, &LoadedCard),
    trace: &ShippedTrace,
    use_: &Use,
) -> Result<(), Error> {
    if let Some(reason) = known.loses_data() {
        candidate.lacks(Quantity::Life, format!("it does not keep what is written: {reason}"));
        return Ok(());
    }
    let large = at_least_the_traces(card.clone());
    let wear = TraceWear {
        trace: *trace,
        state: STATE,
        write_bytes_per_day: use_.write_bytes_per_day,
        requests_max: BUDGET,
        seed: use_.seed,
    };
    let worn = match by_trace(&large, &wear, &|_| ()) {
        Ok(worn) => worn,
        Err(error) => {
            candidate.lacks(Quantity::Life, error.to_string());
            return Ok(());
        }
    };
    // For a card that is smaller than the trace, the number of blocks is scaled. An enhanced area keeps its own.
    let blocks = |card: &LoadedCard| flash_blocks(&card.spec, card.spec.capacity_bytes) as f64;
    let share = if worn.is_enhanced { 1.0 } else { blocks(card) / blocks(&large) };
    let per_byte = trace.written_per_byte(card.spec.au_bytes)?;
    candidate.figures.life_years = Some(worn.rated_years * share / per_byte.unwrap_or(1.0));
    candidate.remarks.push(match per_byte {
        Some(per_byte) => format!(
            "{} writes {} bytes to the card for each byte of the files: {} bytes a day, as `floatgate life` counts them.",
            trace.filesystem,
            three(per_byte),
            (use_.write_bytes_per_day as f64 * per_byte).round()
        ),
        None => format!(
            "The trace does not tell the bytes of the files: the bytes a day are those that {} writes to the card, as in `floatgate life`.",
            trace.filesystem
        ),
    });
    if !worn.has_static_levelling {
        candidate.remarks.push(format!(
            "It has no static wear levelling: its life is that of the {} of {} blocks that the workload reaches.",
            worn.wearing_blocks, worn.blocks
        ));
    }
    Ok(())
}

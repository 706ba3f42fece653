//! Studies and other results. Each is returned as its command prints it with `--json`.

use crate::advice::in_python;
use crate::arguments::{arguments, extract};
use crate::cancel::{Cancel, interruptible};
use crate::failure::Failure;
use crate::library;
use crate::speed::{Named, filesystem_kind};
use floatgate_card::{CardOptions, Fake};
use floatgate_config::{Kind, Override};
use floatgate_host::disk::{Host, holders};
use floatgate_image::ecc::{Code, EccError};
use floatgate_lab::advise::card::{AdviceOptions as CardAdviceOptions, DeviceFacts};
use floatgate_lab::advise::flash::{AdviceOptions as FlashAdviceOptions, Board};
use floatgate_lab::advise::{self, ecc};
use floatgate_lab::card::shipped::ShippedTrace;
use floatgate_lab::card::state::CardState;
use floatgate_lab::endurance::{PAPER_CHIPS, Subject};
use floatgate_lab::powercut::{self, CutKind, FlashId, SecondCut, SetupFlash, Summary};
use floatgate_lab::report::{
    Concluded, Origin, ResultKind, Rows, documented_kinds, schema_of, schema_of_all,
};
use floatgate_lab::study::{Age, Context, Endurance, Finished, Papers, Registered, STUDIES, SpeedOfCard};
use floatgate_lab::trace::Operation;
use floatgate_lab::{card, catalogue, fit, fs_compare, trace};
use floatgate_probe::partition::Layout;
use floatgate_probe::{Noise, Probe, ProbeOptions, Report, Simulated, conclude, probe_simulated};
use floatgate_sim::machine::FilesystemKind;
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// JSON of a result in its envelope, as its command prints it with `--json`.
pub(crate) fn in_envelope(origin: &Origin, result: &(impl Serialize + Concluded)) -> Result<String, Failure> {
    Ok(serde_json::to_string(&origin.around(result))?)
}

/// Entry of `all` with this name.
fn chosen<T: Copy>(what: &str, name: &str, all: &[(&'static str, T)]) -> Result<T, Failure> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|(known, _)| format!("`{known}`")).collect();
        Failure::new(format!("no {what} is called {name:?}"), Some(format!("there are {}", names.join(", "))))
    })
}

/// Returns an error for the first argument outside its range. A rule contains the outcome of the check,
/// the name of the argument, and its range in words.
fn check_ranges(rules: &[(bool, &str, &str)]) -> Result<(), Failure> {
    rules.iter().find(|(is_in, ..)| !is_in).map_or(Ok(()), |(_, name, range)| {
        Err(Failure::new(format!("{name} is out of range"), Some(format!("give {range}"))))
    })
}

#[pyfunction]
pub(crate) fn setups(py: Python<'_>) -> PyResult<String> {
    Ok(py.detach(|| -> Result<_, Failure> {
        in_envelope(&ResultKind::Setups.of_nothing(), &Rows { rows: &catalogue::setups(library())? })
    })?)
}

#[pyfunction]
pub(crate) fn parts(py: Python<'_>) -> PyResult<String> {
    Ok(py.detach(|| -> Result<_, Failure> {
        in_envelope(&ResultKind::Parts.of_nothing(), &Rows { rows: &catalogue::parts(library())? })
    })?)
}

/// JSON Schema of the results of one kind, or of all kinds.
#[pyfunction]
pub(crate) fn result_schema(kind: Option<&str>) -> PyResult<String> {
    let Some(kind) = kind else { return Ok(schema_of_all().to_string()) };
    let schema = schema_of(kind).ok_or_else(|| {
        let near = floatgate_config::did_you_mean(kind, documented_kinds().iter().map(|known| known.kind));
        Failure::new(format!("no result is of the kind {kind:?}"), Some(near).filter(|near| !near.is_empty()))
    })?;
    Ok(schema.to_string())
}

fn finished(
    study: &dyn Registered,
    options: Value,
    cancel: &Cancel,
) -> Result<Finished, floatgate_lab::Error> {
    let progress = |_| cancel.check();
    study.run(options, &Context { library: library(), progress: &progress, table: None, plot: None })
}

/// Runs a study by its name with options in JSON. Returns its result with the rows, and the keys of the
/// rows.
#[pyfunction]
pub(crate) fn run_study<'py>(py: Python<'py>, name: String, options: String) -> PyResult<(String, String)> {
    interruptible(py, move |cancel| {
        let all = STUDIES.iter().map(|study| (study.name(), *study)).collect::<Vec<_>>();
        let finished = finished(chosen("study", &name, &all)?, serde_json::from_str(&options)?, cancel)?;
        Ok((in_envelope(&finished.origin, &finished)?, serde_json::to_string(&finished.rows)?))
    })
}

#[pyfunction]
pub(crate) fn trace_operation<'py>(
    py: Python<'py>,
    named: Named,
    operation: &Bound<'py, PyAny>,
) -> PyResult<String> {
    extract!(operation: String);
    Ok(py.detach(|| -> Result<_, Failure> {
        let operation = chosen("operation", &operation, &Operation::ALL)?;
        let named = named.sized()?;
        let (setup, sets) = named.open(&[])?;
        let config = library().resolve(&setup, &sets)?;
        let traced = trace::trace(library(), &config, named.options(), operation)?;
        in_envelope(&named.origin(ResultKind::Trace, &setup), &traced)
    })?)
}

/// Compares a paper, a table or a user's file; with an empty name, all built-in papers.
#[pyfunction]
pub(crate) fn compare_papers<'py>(
    py: Python<'py>,
    table: PathBuf,
    seed: &Bound<'py, PyAny>,
) -> PyResult<String> {
    extract!(seed: u64);
    interruptible(py, move |cancel| {
        let table = Some(table.display().to_string()).filter(|table| !table.is_empty());
        let options = json!({ "table": table, "seed": seed });
        let finished = finished(&Papers, options, cancel)?;
        in_envelope(&finished.origin, &finished)
    })
}

arguments! {
    pub(crate) struct Wear {
        blocks: u32,
        chips: u32,
        seed: u64,
        pages: String,
        temperature_c: f64,
        pattern: String,
        erase_only: bool,
        interleave: u32,
    }
}

impl Wear {
    fn options(&self, chip: Option<String>, set: Vec<String>) -> Result<Value, Failure> {
        let patterns = ["zeroes", "ones", "random", "checker"].map(|name| (name, ()));
        chosen("choice of pages", &self.pages, &[("1", ()), ("all", ())])?;
        chosen("pattern", &self.pattern, &patterns)?;
        Ok(json!({
            "chip": chip,
            "set": set,
            "blocks": self.blocks,
            "chips": self.chips,
            "seed": self.seed,
            "pages": self.pages,
            "temperature": self.temperature_c,
            "pattern": self.pattern,
            "erase_only": self.erase_only,
            "interleave": self.interleave,
        }))
    }
}

/// Endurance reports of the paper's chips, or of a given chip.
#[pyfunction]
pub(crate) fn wear_out(
    py: Python<'_>,
    chip: Option<String>,
    set: Vec<String>,
    wear: Wear,
) -> PyResult<String> {
    interruptible(py, move |cancel| {
        let sets = Override::parse_all(&set)?;
        let names = chip.as_deref().map_or_else(|| PAPER_CHIPS.to_vec(), |chip| vec![chip]);
        // Lives of NOR are not simulated.
        let subjects: Result<Vec<Subject>, _> =
            names.into_iter().map(|name| Subject::new(library(), name, &sets)).collect();
        subjects.map_err(|error| Failure::of_name("chip", error))?;
        let finished = finished(&Endurance, wear.options(chip, set)?, cancel)?;
        in_envelope(&finished.origin, &finished)
    })
}

arguments! {
    pub(crate) struct Comparison {
        filesystems: Vec<String>,
        tests: Option<Vec<String>>,
        bytes: u64,
        fill_percent: u32,
    }
}

impl Comparison {
    fn options(&self) -> Result<fs_compare::Options, Failure> {
        let subject = |name: &String| {
            let help = "there are `jffs2`, `ubifs`, `mtdblock`, `mtdchar`, and `raw` for the last two";
            fs_compare::Subject::named(name).ok_or_else(|| {
                Failure::new(format!("nothing to compare is called {name:?}"), Some(help.into()))
            })
        };
        let known = fs_compare::Test::ALL.map(|test| (test.name(), test));
        let tests =
            self.tests.as_ref().map(|names| names.iter().map(|name| chosen("test", name, &known)).collect());
        let mut subjects = self.filesystems.iter().map(subject).collect::<Result<Vec<_>, _>>()?.concat();
        let mut tests: Vec<_> = tests.unwrap_or_else(|| Ok(fs_compare::Test::ALL.to_vec()))?;
        subjects.sort();
        subjects.dedup();
        tests.sort();
        tests.dedup();
        check_ranges(&[
            (self.bytes > 0, "bytes", "1 or more"),
            ((1..=95).contains(&self.fill_percent), "fill_percent", "1 to 95"),
        ])?;
        let (bytes, fill_percent) = (self.bytes, self.fill_percent);
        Ok(fs_compare::Options { subjects, tests, bytes, fill_percent, ..fs_compare::Options::default() })
    }
}

#[pyfunction]
pub(crate) fn compare_filesystems(py: Python<'_>, named: Named, comparison: Comparison) -> PyResult<String> {
    interruptible(py, move |cancel| {
        let named = named.sized()?;
        let (setup, sets) = named.open(&[])?;
        let config = library().resolve(&setup, &sets)?;
        let options = comparison.options()?;
        let compared =
            fs_compare::compare(library(), &config, named.options(), &options, &|_| cancel.check())?;
        if let (true, Some(refused)) = (compared.rows.is_empty(), compared.refused.first()) {
            let help = "choose another chip, partition or filesystem";
            return Err(Failure::new(
                format!("{}: {}", refused.subject.name(), refused.why),
                Some(help.to_owned()),
            ));
        }
        in_envelope(&named.origin(ResultKind::Fs, &setup), &compared)
    })
}

arguments! {
    pub(crate) struct Lives {
        fs: String,
        years: f64,
        temperature_c: f64,
        write_bytes_per_day: u64,
        fill_percent: u32,
        scrub_days: Option<u32>,
        chips: u32,
    }
}

impl Lives {
    fn options(&self, named: &Named) -> Result<Value, Failure> {
        check_ranges(&[
            ((0.1..=100.0).contains(&self.years), "years", "0.1 to 100"),
            ((-55.0..=150.0).contains(&self.temperature_c), "temperature_c", "-55 to 150 degrees Celsius"),
            ((1..=80).contains(&self.fill_percent), "fill_percent", "1 to 80"),
            ((1..=10_000).contains(&self.chips), "chips", "1 to 10000"),
            (self.scrub_days != Some(0), "scrub_days", "1 or more, or None"),
        ])?;
        // JFFS2 has no ubihealthd, so its period is ignored.
        let is_scrubbed = filesystem_kind(&self.fs)? == FilesystemKind::Ubifs;
        let scrub_days: Vec<_> = is_scrubbed.then_some(self.scrub_days).into_iter().collect();
        let mut options = named.study_options()?;
        options["fs"] = json!(self.fs);
        options["years"] = json!(self.years);
        options["temperature"] = json!(self.temperature_c);
        options["write_per_day"] = json!(self.write_bytes_per_day);
        options["fill"] = json!(self.fill_percent);
        options["scrub_days"] = json!(scrub_days);
        options["chips"] = json!(self.chips);
        Ok(options)
    }
}

#[pyfunction]
pub(crate) fn live(py: Python<'_>, named: Named, lives: Lives) -> PyResult<String> {
    interruptible(py, move |cancel| {
        let finished = finished(&Age, lives.options(&named.sized()?)?, cancel)?;
        in_envelope(&finished.origin, &finished)
    })
}

arguments! {
    pub(crate) struct Campaign {
        fs: String,
        mode: String,
        cuts: u64,
        steps: u32,
        second: String,
        fast: bool,
        faults: bool,
        partition: Option<u64>,
    }
}

impl Campaign {
    fn options(&self, flash: &SetupFlash, seed: u64) -> Result<powercut::Options, Failure> {
        let modes = [
            ("linear", powercut::Mode::Linear(self.cuts)),
            ("log", powercut::Mode::Log),
            ("exhaustive", powercut::Mode::Exhaustive),
            ("random", powercut::Mode::Random(self.cuts)),
            ("unmount", powercut::Mode::Unmount),
        ];
        let seconds = [
            ("never", SecondCut::Never),
            ("sampled", SecondCut::Sampled),
            ("exhaustive", SecondCut::Exhaustive),
        ];
        check_ranges(&[
            (self.cuts > 0, "cuts", "1 or more"),
            (
                (1..=powercut::MAX_STEPS).contains(&self.steps),
                "steps",
                &format!("1 to {}", powercut::MAX_STEPS),
            ),
        ])?;
        Ok(powercut::Options {
            flash: if self.fast { FlashId::Ram(flash.geometry.clone()) } else { flash.id() },
            fs: filesystem_kind(&self.fs)?,
            seed,
            steps: self.steps as usize,
            faults: self.faults,
            mode: chosen("mode", &self.mode, &modes)?,
            second: chosen("second cut", &self.second, &seconds)?,
            kinds: CutKind::ALL.to_vec(),
        })
    }
}

#[pyfunction]
pub(crate) fn cut_power<'py>(
    py: Python<'py>,
    setup: PathBuf,
    set: Vec<String>,
    seed: &Bound<'py, PyAny>,
    campaign: Campaign,
) -> PyResult<String> {
    extract!(seed: u64);
    interruptible(py, move |cancel| {
        let of = (filesystem_kind(&campaign.fs)?, campaign.partition);
        let flash = SetupFlash::of_setup(library(), &setup, &Override::parse_all(&set)?, of)?;
        let options = campaign.options(&flash, seed)?;
        // An error ends the campaign at the next workload; the progress callback ends it at the next
        // run.
        let make = |seed| match options.flash {
            _ if cancel.is_asked_for() => Err("cancelled".to_owned()),
            FlashId::Ram(_) => powercut::erased(&flash.geometry, campaign.faults, seed),
            FlashId::Chip { .. } => flash.chip(library(), seed, campaign.faults),
        };
        let report = powercut::explore_on(&options, &make, &|_| cancel.check());
        let report = report.map_err(|error| {
            Failure::new(
                error,
                Some("choose another chip, a larger `partition`, more `steps` or another `seed`".to_owned()),
            )
        })?;
        let origin = ResultKind::Powercut.of(&setup).with(&set).seeded(seed);
        in_envelope(&origin, &Summary::new(&flash, &options, &report))
    })
}

arguments! {
    pub(crate) struct Storage {
        years: f64,
        temperature_c: f64,
        reads: f64,
        uber: f64,
    }
}

impl Storage {
    fn use_(&self) -> Result<ecc::Use, Failure> {
        check_ranges(&[
            ((0.0..=1000.0).contains(&self.years), "years", "0 to 1000"),
            ((-55.0..=150.0).contains(&self.temperature_c), "temperature_c", "-55 to 150 degrees Celsius"),
            ((0.0..=1e12).contains(&self.reads), "reads", "0 to 1e12"),
            ((1e-40..=1e-2).contains(&self.uber), "uber", "1e-40 to 0.01"),
        ])?;
        let Self { years, temperature_c, reads, uber } = *self;
        Ok(ecc::Use { years, temperature_c, reads, uber })
    }
}

#[pyfunction]
pub(crate) fn advise_ecc<'py>(
    py: Python<'py>,
    chip: String,
    set: Vec<String>,
    codes: &Bound<'py, PyAny>,
    storage: Storage,
) -> PyResult<String> {
    extract!(codes: Vec<String>);
    Ok(py.detach(|| -> Result<_, Failure> {
        let parse = |text: &String| text.parse::<Code>().map_err(EccError::from);
        let codes = codes.iter().map(parse).collect::<Result<Vec<_>, _>>();
        let codes = codes.map_err(|error| {
            Failure::new(
                error,
                Some("codes are `hamming/256`, `hamming/512`, `bch8/512` and the like".to_owned()),
            )
        })?;
        let origin = ResultKind::EccAdvise.of(&chip).with(&set);
        let chip = ecc::Chip::named(library(), &chip, &Override::parse_all(&set)?);
        let chip = chip.map_err(|error| Failure::of_name("chip", error))?;
        let advice = ecc::advise(chip, storage.use_()?, &codes);
        in_envelope(&origin, &advice)
    })?)
}

#[pyfunction]
pub(crate) fn card_speed<'py>(
    py: Python<'py>,
    name: PathBuf,
    set: Vec<String>,
    sizes: &Bound<'py, PyAny>,
    requests: &Bound<'py, PyAny>,
    seed: &Bound<'py, PyAny>,
) -> PyResult<String> {
    extract!(sizes: Vec<u64>, requests: u32, seed: u64);
    interruptible(py, move |cancel| {
        let card = serde_json::to_value(name)?;
        let options = json!({ "card": card, "set": set, "sizes": sizes, "requests": requests, "seed": seed });
        let finished = finished(&SpeedOfCard, options, cancel);
        let finished = finished.map_err(|error| Failure::of_name("name", error))?;
        in_envelope(&finished.origin, &finished)
    })
}

/// Probes a simulated card in virtual time.
#[pyfunction]
pub(crate) fn probe_card<'py>(
    py: Python<'py>,
    name: PathBuf,
    set: Vec<String>,
    write: &Bound<'py, PyAny>,
    noise: &Bound<'py, PyAny>,
    seed: &Bound<'py, PyAny>,
) -> PyResult<String> {
    extract!(write: bool, noise: f64, seed: u64);
    interruptible(py, move |cancel| {
        check_ranges(&[((0.0..=100.0).contains(&noise), "noise", "0 to 100")])?;
        let spec = card::load(library(), &name, &Override::parse_all(&set)?)?.spec;
        let make = |stores| {
            let made = Fake::of_spec(&spec, CardOptions { seed, stores });
            let made =
                made.map_err(|bad| Failure::new(format!("card.{}: {}", bad.key, bad.problem), None))?;
            Ok::<_, Failure>(Simulated::new(made, Some(Noise { seed, scale: noise })))
        };
        let (samples, trouble) = probe_simulated(make, seed, write, |_| cancel.is_asked_for())?;
        if let Some(trouble) = trouble {
            return Err(Failure::new(format!("{}: {trouble}", name.display()), None));
        }
        let mut report = Report::new(name.display().to_string(), &samples, conclude(&samples), true);
        report.judge(&samples, &[], &card::stated_classes(&spec));
        let origin = ResultKind::Probe.of(&name).with(&set).seeded(seed);
        in_envelope(&origin, &report)
    })
}

arguments! {
    /// Inputs of an advice on a card or a chip: its workload, its partition, and its life.
    pub(crate) struct AdviceArgs {
        filesystems: Vec<String>,
        workloads: Vec<String>,
        state: String,
        write_bytes_per_day: Option<u64>,
        partition_bytes: Option<u64>,
        years: f64,
        temperature_c: f64,
        seed: u64,
    }
}

impl AdviceArgs {
    /// Traces of the named filesystems and workloads; all if none are named.
    fn traces(&self) -> Result<Vec<ShippedTrace>, Failure> {
        let all = card::shipped::traces_for(&self.workloads);
        let of = |argument: &str, chosen: &[String], key: fn(&ShippedTrace) -> &'static str| match chosen
            .iter()
            .find(|name| !all.iter().any(|trace| key(trace) == name.as_str()))
        {
            None => Ok(()),
            Some(name) => {
                let mut names: Vec<&str> = all.iter().map(key).collect();
                names.sort_unstable();
                names.dedup();
                Err(Failure::new(
                    format!("{argument}: there is no trace of {name:?}"),
                    Some(format!("there are {}", names.join(", "))),
                ))
            }
        };
        of("filesystems", &self.filesystems, |trace| trace.filesystem)?;
        of("workloads", &self.workloads, |trace| trace.workload)?;
        let is_chosen =
            |chosen: &[String], name: &str| chosen.is_empty() || chosen.iter().any(|own| own == name);
        let mut traces = all;
        traces.retain(|trace| {
            is_chosen(&self.filesystems, trace.filesystem) && is_chosen(&self.workloads, trace.workload)
        });
        Ok(traces)
    }

    fn state(&self) -> Result<CardState, Failure> {
        let found = CardState::ALL.into_iter().find(|state| state.name() == self.state);
        found.ok_or_else(|| {
            let names = CardState::ALL.map(CardState::name).join(", ");
            Failure::new(format!("state: no card is {:?}", self.state), Some(format!("there are {names}")))
        })
    }
}

/// Advice on a card, on raw flash, or on the result of a probe (its JSON).
#[pyfunction]
pub(crate) fn advise_on(
    py: Python<'_>,
    target: PathBuf,
    probed: Option<String>,
    set: Vec<String>,
    args: AdviceArgs,
) -> PyResult<String> {
    interruptible(py, move |_| {
        let traces = args.traces()?;
        let state = args.state()?;
        let AdviceArgs { write_bytes_per_day, partition_bytes, years, temperature_c, seed, .. } = args;
        let sets = Override::parse_all(&set)?;
        let wanted = CardAdviceOptions {
            needs: Vec::new(),
            traces,
            state,
            write_bytes_per_day: write_bytes_per_day.unwrap_or(advise::card::BYTES_PER_DAY),
            seed,
        };
        let name = target.display().to_string();
        let is_card = || library().names(Kind::Card).any(|card| card.eq_ignore_ascii_case(&name));
        let advice = if let Some(json) = probed {
            let known = DeviceFacts::of_probe(&name, &json)?;
            advise::card::advise(library(), &known, None, &wanted, &|_| ())?
        } else if is_card() {
            let card = card::load(library(), &target, &sets)?;
            advise::card::advise(
                library(),
                &DeviceFacts::of_card(&name, &card),
                Some(&card),
                &wanted,
                &|_| (),
            )?
        } else {
            let board = Board::named(library(), &target, &sets)?;
            let write_bytes_per_day = write_bytes_per_day.unwrap_or(advise::flash::BYTES_PER_DAY);
            let wanted =
                FlashAdviceOptions { partition_bytes, years, temperature_c, write_bytes_per_day, seed };
            advise::flash::advise(library(), &board, &wanted, &|_| {})?
        };
        let advice = advice.rendered(in_python);
        let origin = ResultKind::Advise.of(&advice.target).with(&set).seeded(seed);
        in_envelope(&origin, &advice)
    })
}

/// Probes a file or block device by reads only.
#[pyfunction]
pub(crate) fn probe_device<'py>(
    py: Python<'py>,
    path: PathBuf,
    seed: &Bound<'py, PyAny>,
) -> PyResult<String> {
    extract!(seed: u64);
    interruptible(py, move |cancel| {
        let failed = |why: &dyn std::fmt::Display| Failure::of_file(&path, why, None);
        let users = holders(&path).map_err(|error| failed(&error))?;
        if !users.is_empty() {
            let help = "end that first; nothing was read or written".to_owned();
            return Err(Failure::new(
                format!("{} is in use: {}", path.display(), users.join("; ")),
                Some(help),
            ));
        }
        let mut host = Host::open(&path, false).map_err(|error| failed(&error))?;
        let options = ProbeOptions { seed, usable_bytes: 0, limits: None };
        let mut probe = Probe::new(&mut host, options).watched(|_| cancel.is_asked_for());
        probe.measure_reads().map_err(|trouble| failed(&trouble))?;
        let samples = probe.into_samples();
        let answers = conclude(&samples);
        let mut report = Report::new(path.display().to_string(), &samples, answers.clone(), true);
        report.partition = Layout::read(&mut host).ok().flatten();
        if let Some(layout) = &mut report.partition {
            layout.judge(&answers, None);
        }
        in_envelope(&ResultKind::Probe.of(&path).seeded(seed), &report)
    })
}

/// Report of a fit, and the fitted setup as TOML based on `base`.
#[pyfunction]
pub(crate) fn fit_results<'py>(
    py: Python<'py>,
    setup: PathBuf,
    set: Vec<String>,
    results: &Bound<'py, PyAny>,
    free: &Bound<'py, PyAny>,
    base: String,
) -> PyResult<(String, String)> {
    extract!(results: Vec<u8>, free: Vec<String>);
    interruptible(py, move |_| {
        if results.len() as u64 > fit::RESULTS_MAX_BYTES {
            let help = format!("give at most {} MiB", fit::RESULTS_MAX_BYTES >> 20);
            return Err(Failure::new(format!("results of {} bytes", results.len()), Some(help)));
        }
        let sets = Override::parse_all(&set)?;
        let opened = library().setup(&setup)?;
        let report = fit::fit(library(), &opened, &sets, &fit::parse(&results), &free, &|_| ())?;
        let toml = fit::to_toml(&report, library(), (&opened, &base), &sets)?;
        let origin = ResultKind::Fit.of_setup(&setup, &opened).with(&set);
        Ok((in_envelope(&origin, &report)?, toml))
    })
}

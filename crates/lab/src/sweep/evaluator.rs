//! Evaluator of designs: resolves the overrides, and measures one chip or a population.

use super::batch::{Batch, Record};
use super::fault::help_on;
use super::figures::{ChipFigures, Figure};
use super::measure::{Measure, MeasureKind, MeasureSubject, OPTIONS, SETUP};
use super::population;
use super::space::{Space, Work};
use super::spec::{Population, Spec};
use super::waves::{Piece, Waves};
use crate::certainty::Heads;
use floatgate_config::{Config, Library, Override, Prepared, Problem};
use floatgate_sim::error::Error;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Prefix of the reason of a design that is not measured because it misses a condition of `screen`.
pub(super) const SCREENED: &str = "screened out: ";

/// Maximum number of prepared setups in the cache: a sweep over the chips of a catalogue uses all of them repeatedly.
const PREPARED_MAX: usize = 1024;

/// Everything that is needed to measure designs of a sweep.
pub struct Evaluator {
    library: Arc<Library>,
    spec: Spec,
    base: Vec<Override>,
    tests: Vec<String>,
    screen_tests: Vec<String>,
    members: Option<Space>,
    /// Prepared setups, by name and by the overrides that name files.
    prepared: RwLock<BTreeMap<Vec<String>, Arc<Prepared>>>,
    /// Heads of the files of setups, for the intervals of figures.
    heads: Heads,
}

/// Overrides of a key by their text, or the reason why a text is not a value. Each text is parsed once, because a grid
/// repeats values.
type Parsed<'w> = BTreeMap<&'w str, Result<Override, Error>>;

/// Parts of a design, which are given by its keys: setup, overrides of the setup, and options of the measurement.
struct Design<'a> {
    setup: &'a str,
    sets: Vec<Override>,
    options: Vec<(&'a str, &'a Override)>,
}

impl Evaluator {
    /// Reads a specification, which may lack the space of designs.
    ///
    /// # Errors
    /// Wrong overrides, options, tests or numbers.
    pub fn new(library: Arc<Library>, spec: &Spec) -> Result<Self, Error> {
        let base: Result<Vec<Override>, _> = (1..)
            .zip(&spec.set)
            .map(|(number, set)| Override::parse_of(&format!("set #{number}"), set))
            .collect();
        let tests = match spec.tests.as_slice() {
            [] => Measure::default_tests(spec.measure),
            tests if tests.iter().any(|test| test == "all") => Vec::new(),
            tests => tests.to_vec(),
        };
        if spec.measure == MeasureKind::Speed {
            super::measure::speed_tests(&tests)?;
        }
        let members = match &spec.population {
            Some(Population { vary, members, .. }) => Space::members(vary, *members, spec.seed)
                .map_err(|why| Error::request(why, help_on("population")))?,
            None => None,
        };
        let mut screen_tests: Vec<String> = spec.screen.iter().map(|one| one.test().to_owned()).collect();
        screen_tests.dedup();
        Ok(Self {
            library,
            spec: spec.head(),
            base: base?,
            tests,
            screen_tests,
            members,
            prepared: RwLock::default(),
            heads: Heads::default(),
        })
    }

    /// Specification without its designs.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Name of the setup whose board the part of the specification runs on; `None` if the specification names a setup.
    pub(super) fn board(&self) -> Option<String> {
        let setup = self.spec.measure.wires_a_setup().then(|| self.library.setup(&self.spec.setup))?;
        setup.ok()?.board().map(str::to_owned)
    }

    /// Text of everything on which the figures depend besides the specification: this version, and the setup with its
    /// files.
    pub(super) fn basis(&self) -> Result<String, Error> {
        let setup = match self.spec.measure {
            MeasureKind::Endurance => {
                format!(
                    "{:?}",
                    self.library.load(floatgate_config::Kind::Part, &self.spec.setup)?.table.value
                )
            }
            MeasureKind::Card => self.library.card(&self.spec.setup, &self.base)?.to_toml(),
            _ => self.library.resolve(&self.library.setup(&self.spec.setup)?, &self.base)?.to_toml(),
        };
        Ok(format!("{}\n{setup}", env!("CARGO_PKG_VERSION")))
    }

    /// Measures some designs, on all threads of the pool or on this one. `each` is called after each design. Members in
    /// `waves` are not measured again.
    ///
    /// # Errors
    /// Errors that concern all designs, such as an unknown key or a setup that cannot be read. Other errors concern one
    /// design, and are in its row.
    pub fn measure(
        &self,
        work: &Work,
        is_parallel: bool,
        waves: &Waves,
        each: &(dyn Fn() + Sync),
    ) -> Result<Batch, Error> {
        let parsed = self.parse(work)?;
        let one = |number: usize| {
            let record = self.design(&parsed, work, number, waves);
            each();
            record
        };
        let numbers = 0..work.designs.len();
        let records: Vec<Result<Option<Record>, Error>> =
            if is_parallel { numbers.into_par_iter().map(one).collect() } else { numbers.map(one).collect() };
        // Of several errors, the first one is returned, regardless of the number of threads.
        let records: Result<Vec<Record>, Error> = records.into_iter().filter_map(Result::transpose).collect();
        Ok(Batch::new(work.first, records?))
    }

    /// Measures some designs on this thread for a remote client. If the members of a single design take long, it
    /// measures only their next wave. The client stores the wave and sends the remaining work.
    ///
    /// # Errors
    /// The errors of [`measure`](Self::measure).
    pub fn measure_piece(&self, work: &Work) -> Result<Piece, Error> {
        let waves = Waves::of_work(work);
        let batch = self.measure(work, false, &waves, &|| ())?;
        Ok(waves.into_piece(batch))
    }

    /// Parses the values of each key.
    fn parse<'w>(&self, work: &'w Work) -> Result<Vec<Parsed<'w>>, Error> {
        let of_key = |(axis, key): (usize, &'w String)| {
            // A key that is wrong for one design is wrong for all.
            Override::parse_of("space", &format!("{key}=0"))?;
            let mut known = Parsed::new();
            for text in work.designs.iter().filter_map(|values| values.get(axis)?.as_deref()) {
                known.entry(text).or_insert_with(|| {
                    Override::parse_of("space", &format!("{key}={text}"))
                        .map_err(|error| Error::from(error).within(format!("{key}={text}")))
                });
            }
            Ok(known)
        };
        work.keys.iter().enumerate().map(of_key).collect()
    }

    /// Record of a design; `None` if more waves of its members must be measured.
    fn design(
        &self,
        parsed: &[Parsed<'_>],
        work: &Work,
        number: usize,
        waves: &Waves,
    ) -> Result<Option<Record>, Error> {
        let values = work.designs.get(number).into_iter().flatten();
        let own: Result<Vec<&Override>, &Error> = parsed
            .iter()
            .zip(values)
            .filter_map(|(known, text)| Some(known.get(text.as_deref()?)?.as_ref()))
            .collect();
        let own = match own {
            Ok(own) => own,
            Err(error) => return Ok(Some(refused(error))),
        };
        let found = match &self.spec.population {
            None => self.member(&own, self.spec.seed).map(|found| Some(record(&found))),
            Some(population) => self.population(&own, population, (work.first + number, waves)),
        };
        found.or_else(
            |error| {
                if is_of_all_designs(&error, &own) { Err(error) } else { Ok(Some(refused(&error))) }
            },
        )
    }

    /// Measures a design on one chip.
    fn member(&self, own: &[&Override], seed: u64) -> Result<ChipFigures, Error> {
        let design = self.split(own);
        let measure = Measure::new(self.spec.measure, &self.spec.options, &design.options)?;
        let (library, heads) = (&*self.library, &self.heads);
        let of = MeasureSubject { library, heads, setup: design.setup, sets: &design.sets, seed };
        let mut screened = self.screen(&of)?;
        let config = match self.spec.measure.wires_a_setup() {
            true => Some(self.config(&of, measure.corner())?),
            false => None,
        };
        let found = measure.run(&of, config.as_ref(), &self.tests)?;
        screened.figures.extend(found.figures);
        let board = config.as_ref().and_then(Config::board);
        let board = board.map(|board| ("board".into(), board.to_owned()));
        Ok(ChipFigures { texts: board.into_iter().chain(found.texts).collect(), ..screened })
    }

    /// Figures of `speed` that are measured before the real measurement.
    fn screen(&self, of: &MeasureSubject<'_>) -> Result<ChipFigures, Error> {
        if self.spec.screen.is_empty() {
            return Ok(ChipFigures::default());
        }
        let speed = Measure::new(MeasureKind::Speed, &toml::Table::new(), &[])?;
        let found = speed.run(of, Some(&self.config(of, speed.corner())?), &self.screen_tests)?;
        for wanted in &self.spec.screen {
            let Some((_, figure)) = found.figures.iter().find(|(name, _)| *name == wanted.column) else {
                let names = found.figures.iter().map(|(name, _)| name);
                return Err(Error::no_column("screen", &wanted.column, names));
            };
            let value = figure.mean();
            if !wanted.holds(Some(value)) {
                let message =
                    format!("{SCREENED}{} is {value:.1}, and `{wanted}` is asked for", wanted.column);
                return Err(Error::request(message, "change `screen`"));
            }
        }
        Ok(ChipFigures { figures: found.figures, texts: Vec::new() })
    }

    fn population(
        &self,
        own: &[&Override],
        population: &Population,
        (design, waves): (usize, &Waves),
    ) -> Result<Option<Record>, Error> {
        if let Some(stop) = &population.stop {
            let measure = Measure::new(self.spec.measure, &self.spec.options, &self.split(own).options)?;
            let mut figures: Vec<String> = self.spec.screen.iter().map(|one| one.column.clone()).collect();
            figures.extend(measure.figures(&self.tests)?);
            population::check_column(stop, &figures)?;
        }
        // Repeating a fast measurement takes less time than reading its result from the file.
        let takes_long = self.spec.measure.takes_long();
        let keep = |wave: &[ChipFigures]| {
            if takes_long {
                waves.keep(design, wave);
            }
        };
        let sink = (waves.most().filter(|_| takes_long), keep);
        population::measure(population, &self.spec.constraints, waves.members(design), sink, |number| {
            let values =
                self.members.as_ref().map_or_else(Vec::new, |members| members.values(number as usize));
            let keys = self.members.iter().flat_map(Space::keys);
            let drawn: Result<Vec<Override>, _> = keys
                .zip(&values)
                .filter_map(|(key, value)| Some(format!("{key}={}", value.as_deref()?)))
                .map(|text| Override::parse_of("population.vary", &text))
                .collect();
            let drawn = drawn?;
            let all: Vec<&Override> = own.iter().copied().chain(&drawn).collect();
            self.member(&all, self.spec.seed.wrapping_add(u64::from(number)))
        })
    }

    /// Splits the keys of a design into overrides of the setup, options of the measurement, and another setup.
    fn split<'a>(&'a self, own: &[&'a Override]) -> Design<'a> {
        let mut design = Design { setup: &self.spec.setup, sets: self.base.clone(), options: Vec::new() };
        for set in own {
            match set.keys()[..] {
                [SETUP] => design.setup = set.value_text(),
                [prefix, key] if format!("{prefix}.") == OPTIONS => design.options.push((key, *set)),
                _ => design.sets.push((*set).clone()),
            }
        }
        design
    }

    fn config(
        &self,
        of: &MeasureSubject<'_>,
        corner: floatgate_config::corner::Corner,
    ) -> Result<Config, Error> {
        let library = of.library;
        if corner == floatgate_config::corner::Corner::Typical {
            return Ok(self.prepared(of.setup, of.sets)?.with(of.sets)?);
        }
        let setup = library.setup(of.setup)?;
        Ok(library.resolve(&setup, &corner.over(library, &setup, of.sets)?.0)?)
    }

    /// Setup with its files, which are read once.
    fn prepared(&self, setup: &str, sets: &[Override]) -> Result<Arc<Prepared>, Error> {
        let naming = sets.iter().filter(|set| set.names_a_base()).map(ToString::to_string);
        let name: Vec<String> = std::iter::once(setup.to_owned()).chain(naming).collect();
        if let Some(known) = self.prepared.read().unwrap_or_else(PoisonError::into_inner).get(&name) {
            return Ok(Arc::clone(known));
        }
        let prepared = Arc::new(self.library.prepare(&self.library.setup(setup)?, sets)?);
        let mut all = self.prepared.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= PREPARED_MAX {
            all.clear();
        }
        all.insert(name, Arc::clone(&prepared));
        Ok(prepared)
    }
}

/// True if this error does not depend on the values of a design: an unknown column, an unused key, or a fault in the files of
/// the setup. If a design names its own files, its error concerns only this design.
fn is_of_all_designs(error: &Error, own: &[&Override]) -> bool {
    if matches!(error, Error::NoColumn { .. }) {
        return true;
    }
    let names_files = |set: &&Override| set.names_a_base() || set.keys() == [SETUP];
    let is_of_a_value = |problem| matches!(problem, Problem::WrongValue | Problem::MissingKey);
    error.config().is_some_and(|error| !is_of_a_value(error.problem())) && !own.iter().any(names_files)
}

/// Record of an impossible design, with the reason.
fn refused(error: &Error) -> Record {
    Record { refused: Some(error.to_string()), ..Record::default() }
}

/// Record of the figures of one chip.
fn record(found: &ChipFigures) -> Record {
    let figures = found.figures.iter().map(|(name, figure)| (name.clone(), Some(figure.mean()))).collect();
    Record { figures, texts: found.texts.clone(), refused: None }
}

impl Figure {
    /// The value, or for a share the number of hits divided by the number of tries.
    pub(super) fn mean(self) -> f64 {
        match self {
            Self::Value(value) => value,
            Self::Share { hits, tries } => hits as f64 / tries.max(1) as f64,
        }
    }
}

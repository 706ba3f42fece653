//! Study for tests of the interface: it throws a die.

use floatgate_lab::Error;
use floatgate_lab::progress::Progress;
use floatgate_lab::report::Origin;
use floatgate_lab::study::report::{Bar, Cell, Section, Table};
use floatgate_lab::study::{Context, Report, Study};
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) struct Toy;

/// Throw a die
#[derive(clap::Args, Deserialize)]
#[command(after_help = "Examples:\n  floatgate card toy --sides 20")]
#[serde(default, deny_unknown_fields)]
pub(super) struct ToyOptions {
    /// Number of its sides
    #[arg(long, default_value_t = Self::default().sides)]
    sides: u32,
}

impl Default for ToyOptions {
    fn default() -> Self {
        Self { sides: 6 }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Throws {
    sides: u32,
    throws: Vec<Throw>,
}

#[derive(Serialize, Deserialize)]
struct Throw {
    hand: String,
    pips: u32,
}

impl Study for Toy {
    type Options = ToyOptions;
    type Output = Throws;

    const NAME: &'static str = "card toy";

    fn origin(_options: &ToyOptions, kind: Origin) -> Origin {
        kind.about("die").seeded(3)
    }

    fn run(options: &ToyOptions, context: &Context<'_>) -> Result<Throws, Error> {
        if options.sides < 2 {
            return Err(Error::request("a die of less than 2 sides", "take another one"));
        }
        (context.progress)(Progress::Steps(2));
        let throw = |hand: &str, pips| Throw { hand: hand.to_owned(), pips: 1 + pips % options.sides };
        Ok(Throws { sides: options.sides, throws: vec![throw("left", 3), throw("right", 17)] })
    }

    fn report(output: &Throws) -> Report {
        let row = |throw: &Throw| vec![throw.hand.as_str().into(), Cell::count(throw.pips)];
        let table = Table::new(&["hand"], &["pips"], output.throws.iter().map(row));
        let table = table.titled(format!("thrown with {} sides", output.sides));
        let table = Table { key: "throws", below: vec!["two throws".to_owned()], ..table };
        let bars =
            [("high", 3), ("lower", 1)].map(|(name, count)| Bar { name: name.to_owned(), count }).into();
        let advice = advice! { "see ", Command::Parts, " <for more>" };
        Report {
            title: "A die".to_owned(),
            head: vec!["made of wood".to_owned()],
            sections: vec![
                Section::Table(table),
                Section::Text(Vec::new()),
                Section::Bars { caption: "sides".to_owned(), bars },
                Section::Advice(vec![advice]),
            ],
            conclusion: "4 and 18".to_owned(),
        }
    }

    fn rows(output: &Throws, _table: Option<&str>) -> serde_json::Result<Value> {
        serde_json::to_value(&output.throws)
    }

    fn found_problem(output: &Throws) -> bool {
        output.throws.iter().all(|throw| throw.pips == 1)
    }
}

//! `floatgate keystore`.

use crate::common::{Corner, Grounded, Outcome, SetupArgs};
use crate::output::ReportFormat;
use crate::table::Table;
use floatgate_lab::keystore::{self, Driver, Line};
use floatgate_lab::report::ResultKind;
use serde::Serialize;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate keystore
  floatgate keystore --set firmware.tick_us=100
  floatgate keystore --set chip=w25q128jv --json

The test program of the Cryptech project: the whole chip is read, erased in three ways, verified, written and verified, \
once by a driver that waits a tick after each SPI call and once without these delays.")]
pub(crate) struct Args {
    /// A setup with a firmware table and a SPI NOR, or the path of a TOML file
    #[arg(default_value = "stm32-n25q128a")]
    setup: std::path::PathBuf,

    /// Override any field: --set firmware.delay_ticks=0
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Times of the chip's array: typical ones, or the maxima that its data sheet guarantees
    #[arg(long, value_enum, default_value_t = Corner::Typ)]
    corner: Corner,

    /// Seed from which the slow subsectors follow
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(Serialize)]
struct Both {
    title: String,
    chip: String,
    with_delays: Vec<Line>,
    without_delays: Vec<Line>,
}

/// A line of the CSV.
#[derive(Serialize)]
struct Row<'a> {
    driver: &'static str,
    #[serde(flatten)]
    line: &'a Line,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let setup = SetupArgs {
        setup: args.setup.clone(),
        set: args.set.clone(),
        corner: args.corner,
        seed: args.seed,
        bad_blocks: 0,
    };
    let named = setup.open()?;
    let config = named.config()?;
    let both = Both {
        title: floatgate_lab::speed_run::title(&config),
        chip: format!("{} {}", config.part().maker, config.part().name).trim().to_owned(),
        with_delays: keystore::on(&config, Driver::WithDelays, args.seed)?,
        without_delays: keystore::on(&config, Driver::WithoutDelays, args.seed)?,
    };
    let origin = setup.origin(ResultKind::Keystore);
    if args.format.csv {
        let lines = [("with delays", &both.with_delays), ("without delays", &both.without_delays)];
        let rows: Vec<Row<'_>> = lines
            .into_iter()
            .flat_map(|(driver, lines)| lines.iter().map(move |line| Row { driver, line }))
            .collect();
        return args.format.finish_rows(&origin, &rows, String::new);
    }
    let basis = named.basis(|config| {
        let lines = keystore::on(config, Driver::WithDelays, args.seed).ok()?;
        Some(lines.iter().map(|line| line.ns).collect::<Vec<_>>())
    })?;
    let answer = Grounded { answer: &both, basis };
    args.format.finish(&origin, &answer, "", || {
        format!("{}\n{}\n\n{}\n\n{}", both.title, both.chip, table(&both), answer.basis)
    })
}

fn table(both: &Both) -> Table {
    let header = ["test", "rounds", "with delays, s", "ms each", "without, s", "ms each", "faster"];
    let mut table = Table::new(header).numbers(1..);
    for (slow, fast) in both.with_delays.iter().zip(&both.without_delays) {
        let ((slow_s, slow_ms), (fast_s, fast_ms)) = (slow.printed(), fast.printed());
        let factor = format!("x{:.1}", slow.ns as f64 / fast.ns.max(1) as f64);
        let row = [slow.test.to_owned(), slow.rounds.to_string(), slow_s, slow_ms, fast_s, fast_ms, factor];
        table.row(row);
    }
    table
}

//! `floatgate card amplification`.

use crate::common::Outcome;
use crate::output::ReportFormat;
use crate::table::Table;
use floatgate_card::Collector;
use floatgate_lab::card::amplification::{AmplificationOptions, AmplificationRow, measure};
use floatgate_lab::report::ResultKind;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate card amplification
  floatgate card amplification --over-provisioning 7,14,21,28 --collector greedy --json
  floatgate card amplification --blocks 2048 --units-per-block 64 --csv

Writes 4 KiB at random places to a full page-mapped card until it is in its steady state, and compares its write amplification with the analysis of Desnoyers \
(SYSTOR 2012) for greedy and FIFO cleaning. Over-provisioning is what whole blocks make of the percentage asked for.")]
pub(crate) struct Args {
    /// Space beyond the logical one, in percent of that
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "7,10,14,20,28")]
    over_provisioning: Vec<f64>,

    /// Choice of the block that is cleaned
    #[arg(long, value_enum, value_delimiter = ',', default_value = "greedy,fifo")]
    collector: Vec<Which>,

    /// Number of blocks
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..=65536))]
    blocks: u32,

    /// Map units of 4 KiB in a block
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    units_per_block: u32,

    /// Seed of the places that are written
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// The block with the fewest valid units
    Greedy,
    /// The block that was opened first
    Fifo,
}

impl Which {
    const fn collector(self) -> Collector {
        match self {
            Self::Greedy => Collector::Greedy,
            Self::Fifo => Collector::Fifo,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let rows = measure(&AmplificationOptions {
        collectors: args.collector.iter().map(|which| which.collector()).collect(),
        over_provisioning: args.over_provisioning.clone(),
        blocks: args.blocks,
        units_per_block: args.units_per_block,
        seed: args.seed,
    })?;
    args.format
        .finish_rows(&ResultKind::CardAmplification.of_nothing().seeded(args.seed), &rows, || text(&rows))
}

fn text(rows: &[AmplificationRow]) -> String {
    let header = ["cleaning", "over-provisioning", "write amplification", "published", "difference"];
    let mut table = Table::new(header).numbers(1..);
    for row in rows {
        table.row([
            match row.collector {
                Collector::Greedy => "greedy".to_owned(),
                Collector::Fifo => "FIFO".to_owned(),
            },
            format!("{:.1} %", row.over_provisioning_percent),
            format!("{:.3}", row.write_amplification),
            format!("{:.3}", row.published),
            format!("{:+.1} %", row.difference_percent),
        ]);
    }
    table.to_string()
}

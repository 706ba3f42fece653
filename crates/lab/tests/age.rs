//! Tests of `floatgate life`: each parameter changes the life in the expected direction.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::{Library, Override};
use floatgate_lab::age::{Options, Report, run};
use floatgate_sim::machine::FilesystemKind;

const OPTIONS: Options = Options {
    kind: FilesystemKind::Ubifs,
    years: 4.0,
    temperature_c: 40.0,
    write_bytes_per_day: 1 << 20,
    fill_percent: 50,
    scrub_days: Some(30),
    chips: 2,
    seed: 0,
};

/// A board with Hamming codes, and a board with BCH.
const HAMMING: &str = "arm926-nand01gw3b";
const BCH: &str = "imx6-mx30lf2g18ac";

fn aged(sets: &[&str], options: &Options) -> Report {
    on(HAMMING, sets, options)
}

fn on(setup: &str, sets: &[&str], options: &Options) -> Report {
    let library = Library::built_in();
    // A sample of the chip, with a share of its reserve for bad blocks.
    let sample = ["partition.offset=0", "partition.size=8MiB", "filesystem.ubi_bad_limit_of_partition=true"];
    let sets = [&sample, sets].concat();
    let setup = library.setup(setup).unwrap();
    let config = library.resolve(&setup, &Override::parse_all(&sets).unwrap()).unwrap();
    run(&library, &config, options, &|_| ()).unwrap()
}

fn moved(report: &Report) -> u64 {
    report.lives.iter().map(|life| life.moved).sum()
}

#[test]
fn a_new_chip_lives_on() {
    let report = aged(&[], &OPTIONS);
    assert_eq!(report.survived, 2, "{:?}", report.lives);
    assert_eq!(report.probability, None, "chips that live alike show nothing of how they differ");
    assert_eq!(report, aged(&[], &OPTIONS), "the same every time");
    for life in &report.lives {
        assert!(life.failed_after_years.is_none() && life.failure.is_none());
        assert!(life.cycles.least <= life.cycles.mean && life.cycles.mean <= life.cycles.most);
        assert!(life.cycles.mean > 500, "it began with 500: {:?}", life.cycles);
    }
}

/// The example in `examples/`: data on measured MLC cells is lost after some years, unless UBI rewrites it in time.
#[test]
fn data_of_the_example_survive_with_scrubbing_only() {
    let library = Library::built_in();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/mlc-slc-mode.toml");
    let config = library.resolve(&library.setup(example).unwrap(), &[]).unwrap();
    let life = |scrub_days| {
        let options = Options {
            years: 10.0,
            write_bytes_per_day: 64 << 10,
            fill_percent: 5,
            scrub_days,
            chips: 1,
            ..OPTIONS
        };
        run(&library, &config, &options, &|_| ()).unwrap().lives.remove(0)
    };
    let (scrubbed, left) = (life(Some(91)), life(None));
    assert!(scrubbed.failure.is_none() && scrubbed.moved > 0, "{scrubbed:?}");
    let lost = left.failed_after_years.unwrap();
    assert!((3.0..8.0).contains(&lost) && left.failure.unwrap().contains("of those that stay"), "{lost}");
}

const WORN: &str = "cells.cycles=90000";

#[test]
fn heat_and_wear_cost_bits_and_ubihealthd_moves_them() {
    let hot = Options { temperature_c: 85.0, ..OPTIONS };
    let two_bits = "ecc.strength=2";
    let often = on(BCH, &[WORN, two_bits], &hot);
    assert!(moved(&often) > moved(&on(BCH, &[WORN, two_bits], &OPTIONS)), "heat");
    assert!(moved(&often) > moved(&on(BCH, &[two_bits], &hot)), "wear");
    assert_eq!(moved(&on(BCH, &[WORN, two_bits], &Options { scrub_days: None, ..hot })), 0);
    let strong = on(BCH, &[WORN], &hot);
    assert_eq!(strong.survived, 2, "{:?}", strong.lives);
    let weak = on(BCH, &[WORN, "ecc.strength=1"], &hot);
    assert_eq!(weak.survived, 0, "{:?}", weak.lives);
    let lost = weak.lives[0].failed_after_years.unwrap();
    assert!(lost > 0.0 && lost <= 4.1 && weak.lives[0].failure.is_some(), "{lost}");
}

#[test]
fn jffs2_moves_nothing_for_bit_errors() {
    let options = Options { kind: FilesystemKind::Jffs2, temperature_c: 85.0, ..OPTIONS };
    assert_eq!(moved(&on(BCH, &[WORN], &options)), 0);
}

#[test]
fn what_is_written_wears() {
    let much_of = Options { write_bytes_per_day: 20 << 20, ..OPTIONS };
    let (little, much) = (aged(&[], &OPTIONS), aged(&[], &much_of));
    assert!(much.lives[0].cycles.mean > 5 * (little.lives[0].cycles.mean - 500));
    // Each byte is programmed at least once, and free eraseblocks are used in rotation.
    for (report, options) in [(&little, &OPTIONS), (&much, &much_of)] {
        let written = options.years * 365.0 * options.write_bytes_per_day as f64;
        let least = (written / f64::from(8 << 20)) as u32;
        let cycles = &report.lives[0].cycles;
        assert!(cycles.mean - 500 >= least, "{cycles:?}, and each block is programmed {least} times");
    }
    let endless = Options { write_bytes_per_day: 4 << 30, years: 10.0, chips: 1, ..OPTIONS };
    let report = aged(&[], &endless);
    assert_eq!(report.survived, 0, "{:?}", report.lives);
    assert!(report.lives[0].failure.is_some() && report.lives[0].failed_after_years.unwrap() < 10.1);
}

/// Cells of NOR are not simulated. Its life ends with the promised cycles and the promised retention.
#[test]
fn nor_lasts_as_long_as_its_part_promises() {
    let library = Library::built_in();
    let sets = Override::parse_all(&["partition.size=1MiB", "driver.erase_bytes=64KiB"]).unwrap();
    let config = library.resolve(&library.setup("sama5d2-mx25l25635e").unwrap(), &sets).unwrap();
    let nor = Options { kind: FilesystemKind::Jffs2, years: 10.0, scrub_days: None, ..OPTIONS };
    let aged = |options: &Options| run(&library, &config, options, &|_| ()).unwrap();
    let little = aged(&nor);
    assert_eq!((little.survived, little.probability, little.lives.len()), (1, None, 1), "{little:?}");
    assert_eq!((little.wear.cycles, little.promised_retention_years), (100_000, Some(20)));
    let failure = |options: &Options| {
        let life = aged(options).lives.remove(0);
        (life.failed_after_years.unwrap(), life.failure.unwrap())
    };
    let (years, worn) = failure(&Options { write_bytes_per_day: 256 << 20, ..nor });
    assert!(years < 10.0 && worn.contains("100000 cycles"), "{years} {worn}");
    let (years, faded) = failure(&Options { years: 25.0, write_bytes_per_day: 4096, ..nor });
    assert!(years == 20.0 && faded.contains("retention"), "{years} {faded}");
}

/// A weak ECC ends a life before the promised cycles, and the simulated wear of the blocks equals the stated wear.
#[test]
fn wear_is_stated_as_it_is_simulated() {
    let options = Options { write_bytes_per_day: 20 << 20, chips: 1, ..OPTIONS };
    let report = on(BCH, &[], &options);
    let (stated, most) = (report.wear.cycles_at_end, u64::from(report.lives[0].cycles.most));
    assert!(stated.abs_diff(most) <= stated / 20, "{stated} stated, {most} simulated");
    let weak = on(BCH, &["ecc.strength=1"], &options).wear;
    assert!(weak.cycles < report.wear.cycles && weak.reason.contains("the setup's own hamming"), "{weak:?}");
    assert!(weak.worn_out_after_years < report.wear.worn_out_after_years.or(Some(f64::INFINITY)), "{weak:?}");
}

#[test]
fn years_end_where_they_should_and_passes_come_when_they_are_due() {
    let weak = ["ecc.strength=1", WORN];
    let short = Options { years: 0.1, scrub_days: Some(400), temperature_c: 110.0, chips: 1, ..OPTIONS };
    let report = on(BCH, &weak, &short);
    assert!(report.lives[0].failed_after_years.is_none_or(|years| years <= 0.1), "{report:?}");
    assert_eq!(moved(&report), 0, "the first pass would be after 400 days");
    // The number of ubihealthd passes does not affect the amount of written data.
    let wear = |scrub_days| {
        aged(&[], &Options { scrub_days: Some(scrub_days), chips: 1, ..OPTIONS }).lives[0].cycles
    };
    let (often, seldom) = (wear(7), wear(91));
    assert!(often.mean.abs_diff(seldom.mean) <= seldom.mean / 50, "{often:?} {seldom:?}");
}

/// On a small partition, the static files and the overwritten file are small enough.
#[test]
fn a_partition_of_a_megabyte_ages() {
    for (kind, size) in [(FilesystemKind::Jffs2, "1MiB"), (FilesystemKind::Ubifs, "4MiB")] {
        let sets = [format!("partition.size={size}")];
        let options = Options { kind, chips: 1, ..OPTIONS };
        let report = aged(&[&sets[0]], &options);
        assert_eq!(report.survived, 1, "{kind:?}: {:?}", report.lives);
    }
}

#[test]
fn what_no_flash_can_do_is_refused() {
    let library = Library::built_in();
    let sets = Override::parse_all(&["partition.offset=0", "partition.size=8MiB"]).unwrap();
    let config = library.resolve(&library.setup(BCH).unwrap(), &sets).unwrap();
    let refused = |options: &Options| run(&library, &config, options, &|_| ()).unwrap_err().to_string();
    let too_fast = refused(&Options { write_bytes_per_day: 1 << 42, ..OPTIONS });
    assert!(too_fast.contains("a day"), "{too_fast}");
    let slc_mode = library.resolve(&library.setup("chip-h27ucg8t2etr-bc").unwrap(), &[]).unwrap();
    let jffs2 = Options { kind: FilesystemKind::Jffs2, ..OPTIONS };
    let on_mlc = run(&library, &slc_mode, &jffs2, &|_| ()).unwrap_err().to_string();
    assert!(on_mlc.contains("MLC"), "{on_mlc}");
}

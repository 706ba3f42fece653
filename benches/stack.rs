//! How fast the simulation itself is: `cargo bench --bench stack`. Results in docs/performance.md.
#![allow(missing_docs, reason = "a benchmark has no users")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use floatgate_lab::config::{Library, Override};
use floatgate_lab::papers;
use floatgate_lab::rig::{self, Rig, RigOptions};
use floatgate_mtd::{Instant, Mtd, Nanos};

fn main() {
    divan::main();
}

fn wire(setup: &str, sets: &[&str], stores: bool) -> Rig {
    let library = Library::built_in();
    let config =
        library.resolve(&library.setup(setup).unwrap(), &Override::parse_all(sets).unwrap()).unwrap();
    rig::wire(&library, &config, RigOptions { stores, ..RigOptions::default() }).unwrap()
}

/// Pages read per iteration, so that the loop around them does not count.
const PAGES: u64 = 4096;

/// Timing-only page reads through driver, ECC engine, controller, bus and chip.
#[divan::bench(args = ["am62a-nopm-w35n01jw", "ma35d1-w25n02jw", "imx6-mx30lf2g18ac", "zc702-mx25uw12845g"])]
fn timing_only_page_reads(bencher: Bencher<'_, '_>, setup: &str) {
    let mut rig = wire(setup, &[], false);
    let page = u64::from(rig.device.geometry().write_bytes).max(512);
    let mut buf = vec![0; page as usize];
    let mut now = rig.now();
    bencher.counter(ItemsCount::new(PAGES)).bench_local(|| {
        for i in 0..PAGES {
            now = rig.device.read(now, i * page, &mut buf).unwrap().at;
        }
        black_box(now)
    });
}

/// Write, read and verify a whole NAND of 1 Gbit, with data.
#[divan::bench(args = ["am62a-nopm-w35n01jw", "imx6-1gbit"], sample_count = 5)]
fn write_read_verify_1_gbit(bencher: Bencher<'_, '_>, setup: &str) {
    let sets: &[&str] = if setup == "imx6-1gbit" { &["chip=mx30lf1g18ac"] } else { &[] };
    let name = if setup == "imx6-1gbit" { "imx6-mx30lf2g18ac" } else { setup };
    let size = wire(name, sets, true).device.geometry().size_bytes;
    bencher
        .counter(BytesCount::new(size))
        .with_inputs(|| wire(name, sets, true))
        .bench_local_values(|mut rig| write_read_verify(&mut rig));
}

fn write_read_verify(rig: &mut Rig) -> Instant {
    let geometry = rig.device.geometry().clone();
    let block = geometry.erase_bytes as usize;
    let data: Vec<u8> = (0..block).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut got = vec![0; block];
    let mut now = rig.now();
    for addr in (0..geometry.size_bytes).step_by(block) {
        now = rig.device.write(now, addr, &data).unwrap().at;
    }
    for addr in (0..geometry.size_bytes).step_by(block) {
        now = rig.device.read(now, addr, &mut got).unwrap().at;
        assert_eq!(got, data);
    }
    now + Nanos::ZERO
}

/// All published tables.
#[divan::bench(sample_count = 5)]
fn papers_whole() -> usize {
    let report = papers::compare(&Library::built_in(), &papers::built_in().unwrap()).unwrap();
    report.rows.len()
}

//! How fast the simulation itself is: `cargo bench --bench stack`. Results in docs/performance.md.
#![allow(missing_docs, reason = "a benchmark has no users")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use floatgate_config::corner::Corner;
use floatgate_config::{Config, Library, Override, sweep};
use floatgate_device::host::HostProfile;
use floatgate_device::raw_nand::{
    ChipOptions, NandBoard, NandController, NandProfile, RawNand, RawNandDriver, RawNandSpec,
};
use floatgate_lab::endurance::{self, Experiment, PAPER_CHIPS, Subject};
use floatgate_lab::speed::SpeedOptions;
use floatgate_lab::{papers, speed_run};
use floatgate_mtd::{Geometry, Instant, Mtd, RamFlash};
use floatgate_sim::rig::{self, Rig, RigOptions};
use floatgate_stack::fs::{FileSystem, NewFile, NewKind};
use floatgate_stack::jffs2::{Jffs2, MountOptions};

/// The allocator of the `floatgate` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn config(library: &Library, setup: &str, sets: &[&str]) -> Config {
    library.resolve(&library.setup(setup).unwrap(), &Override::parse_all(sets).unwrap()).unwrap()
}

fn wire(setup: &str, sets: &[&str], stores: bool) -> Rig {
    let library = Library::built_in();
    let config = config(&library, setup, sets);
    rig::wire(&library, &config, RigOptions { stores, ..RigOptions::default() }).unwrap()
}

/// All tests of `speed` on one eraseblock, from the name of the setup to its figures, which are dropped as in Python. `scripts/bench-python` compares
/// Python with it.
#[divan::bench(args = ["am62a-w35n01jw", "imx6-mx30lf2g18ac", "stm32-n25q128a"], sample_count = 1000, sample_size = 1)]
fn speed_of_a_setup(bencher: Bencher<'_, '_>, setup: &str) {
    let library = Library::built_in();
    let tests = SpeedOptions { blocks: Some(1), ..SpeedOptions::default() };
    bencher.bench_local(|| {
        let config = config(&library, black_box(setup), &["bus.clock_hz=25e6"]);
        drop(speed_run::measure(&library, &config, RigOptions::default(), &tests).unwrap());
    });
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

/// Setup and overrides with a chip of 1 Gbit.
fn gbit(kind: &str) -> (&'static str, &'static [&'static str]) {
    match kind {
        "spi-nand" => ("am62a-nopm-w35n01jw", &[]),
        _ => ("imx6-mx30lf2g18ac", &["chip=mx30lf1g18ac"]),
    }
}

/// Write, read and verify a whole NAND of 1 Gbit, with data. The device is new, so its memory comes from the operating
/// system, as for any first write; giving it back is not counted.
#[divan::bench(args = ["spi-nand", "raw-nand"], sample_count = 10)]
fn write_read_verify_1_gbit(bencher: Bencher<'_, '_>, kind: &str) {
    let (setup, sets) = gbit(kind);
    let size = wire(setup, sets, true).device.geometry().size_bytes;
    bencher
        .counter(BytesCount::new(size))
        .with_inputs(|| wire(setup, sets, true))
        .bench_local_refs(write_read_verify);
}

fn write_read_verify(rig: &mut Rig) -> Instant {
    let geometry = rig.device.geometry().clone();
    let block = geometry.erase_bytes as usize;
    let data = pattern(block);
    let mut got = vec![0; block];
    let mut now = rig.now();
    for addr in (0..geometry.size_bytes).step_by(block) {
        now = rig.device.write(now, addr, &data).unwrap().at;
    }
    for addr in (0..geometry.size_bytes).step_by(block) {
        now = rig.device.read(now, addr, &mut got).unwrap().at;
        assert_eq!(got, data);
    }
    now
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// A raw NAND of 1 Gbit, full but for its last page.
fn nearly_full() -> RawNandDriver<NandController<RawNand>> {
    let library = Library::built_in();
    let (setup, sets) = gbit("raw-nand");
    let config = config(&library, setup, sets);
    let spec: RawNandSpec = config.extract("chip").unwrap();
    let profile: NandProfile = config.extract("controller").unwrap();
    let board: NandBoard = config.extract_or_default("bus").unwrap();
    let ecc = config.extract("ecc").unwrap();
    let bus = NandController::new(profile, board, RawNand::package(&spec, ChipOptions::default()).unwrap());
    let mut device =
        RawNandDriver::probe(bus, &[spec], HostProfile::default(), ecc, Default::default()).unwrap();
    let geometry = device.geometry().clone();
    let data = pattern((geometry.size_bytes - u64::from(geometry.write_bytes)) as usize);
    let now = device.ready_at();
    device.write(now, 0, &data).unwrap();
    device
}

/// A copy of a full device: what a power-cut exploration does at each operation.
#[divan::bench]
fn clone_full_1_gbit(bencher: Bencher<'_, '_>) {
    let device = nearly_full();
    bencher.bench_local(|| device.clone());
}

/// The first write to such a copy.
#[divan::bench]
fn first_page_write_to_a_clone(bencher: Bencher<'_, '_>) {
    let device = nearly_full();
    let geometry = device.geometry().clone();
    let last = geometry.size_bytes - u64::from(geometry.write_bytes);
    let page = pattern(geometry.write_bytes as usize);
    bencher
        .with_inputs(|| device.clone())
        .bench_local_refs(|fork| fork.write(fork.ready_at(), last, &page).unwrap().at);
}

/// A JFFS2 of 128 MiB with 100 MiB of files of 64 KiB, in memory.
fn full_jffs2() -> RamFlash {
    let geometry = Geometry { oob_bytes: 0, oob_free_bytes: 0, ..Geometry::nand_2048(1024) };
    let options = MountOptions { compressors: Vec::new(), ..MountOptions::default() };
    let mut fs = Jffs2::mount(RamFlash::new(geometry), Instant::ZERO, &options).ok().unwrap();
    let (root, data) = (fs.root(), pattern(64 << 10));
    let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    for number in 0..1600 {
        let file = fs.create(root, format!("file-{number}").as_bytes(), &new).unwrap();
        fs.write(file, 0, &data).unwrap();
    }
    fs.unmount().ok().unwrap()
}

/// Mounting it for reading: the headers of all nodes are looked at.
#[divan::bench]
fn mount_full_jffs2_of_128_mib(bencher: Bencher<'_, '_>) {
    let flash = full_jffs2();
    bencher.with_inputs(|| flash.clone()).bench_local_values(|flash| {
        Jffs2::mount(flash, Instant::ZERO, &MountOptions::read_only()).ok().unwrap()
    });
}

/// `floatgate speed` of 1000 combinations, on all cores.
#[divan::bench(sample_count = 3)]
fn sweep_of_1000_combinations() -> usize {
    let library = Library::built_in();
    let setup = library.setup("am62a-nopm-w35n01jw").unwrap();
    let axes = [
        "bus.clock_hz=1e6,2e6,3e6,5e6,7e6,9e6,12e6,15e6,20e6,25e6",
        "host.call_us=0,1,2,3,4,5,6,7,8,9",
        "host.page_us=0,1,2,3,4,5,6,7,8,9",
    ];
    let options = RigOptions { stores: false, ..RigOptions::default() };
    let combinations = sweep(&library, &axes).unwrap();
    let tests = SpeedOptions::default();
    let rows =
        speed_run::sweep(&library, &setup, (&[], Corner::Typical), options, &tests, &combinations, false)
            .unwrap();
    rows.into_iter().filter(|row| row.is_ok()).count()
}

/// All published tables.
#[divan::bench(sample_count = 5)]
fn papers_whole() -> usize {
    let report = papers::compare(&Library::built_in(), &papers::built_in().unwrap()).unwrap();
    report.rows.len()
}

/// `floatgate life --all`: whole lives of 10 blocks of each of the eight chips.
#[divan::bench]
fn endurance_of_8_chips(bencher: Bencher<'_, '_>) {
    let library = Library::built_in();
    let subjects = PAPER_CHIPS.map(|part| Subject::new(&library, part, &[]).unwrap());
    bencher.bench_local(|| endurance::run_all(&subjects, &Experiment::default()).unwrap());
}

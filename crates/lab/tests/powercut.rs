//! Tests that a filesystem loses nothing else at a power loss, and that the checks detect real losses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::{Kind, Library, Override};
use floatgate_lab::powercut::{
    CutKind, Flash, FlashId, Mode, Options, Powered, Report, SecondCut, SetupFlash, Stage, WorkloadError,
    explore, explore_on, on_threads, replay, replay_on,
};
use floatgate_mtd::account::Breakdown;
use floatgate_mtd::{Done, Error, Geometry, Instant, Interrupted, Mtd, OobMode, PowerCut, RamFlash, Tear};
use floatgate_sim::machine::FilesystemKind;
use floatgate_testing::few_or_all;

/// Flash of each kind, at least 1 MB: every page size, with and without sub-pages, and NOR.
fn geometries() -> [Geometry; 5] {
    [
        Geometry::nand_512(96),
        Geometry::nand_2048(64),
        Geometry::nand_2048(64).with_sub_pages(2048),
        Geometry::nand_4096(64),
        Geometry::nor(64, 65536),
    ]
}

fn options(geometry: Geometry, mode: Mode, second: SecondCut) -> Options {
    Options { mode, second, ..Options::exhaustive(geometry, 1, 60) }
}

fn explored(options: &Options) -> Report {
    explore(options, &|_| {}).unwrap()
}

fn assert_sound(report: &Report, what: &str) {
    assert_eq!(report.failures, [], "{what}");
    assert_eq!(report.failure_count, 0, "{what}");
}

/// The flash of every setup can lose power without any override.
#[test]
fn every_setup_can_be_cut() {
    let library = Library::built_in();
    for name in library.names(Kind::Setup) {
        let flash = SetupFlash::of_setup(&library, name, &[], (FilesystemKind::Ubifs, None)).unwrap();
        let report = explored(&options(flash.geometry, Mode::Linear(3), SecondCut::Never));
        assert_sound(&report, name);
        assert_eq!(report.runs, 3, "{name}");
    }
}

/// For JFFS2, SPI NOR keeps its smallest sectors, which are too small for UBIFS.
#[test]
fn small_sectors_are_enough_for_jffs2() {
    let library = Library::built_in();
    let of = |fs| SetupFlash::of_setup(&library, "stm32-n25q128a", &[], (fs, None)).unwrap();
    let (jffs2, ubifs) = (of(FilesystemKind::Jffs2), of(FilesystemKind::Ubifs));
    assert_eq!((jffs2.geometry.erase_bytes, jffs2.too_small_bytes), (4 << 10, None));
    assert_eq!((ubifs.geometry.erase_bytes, ubifs.too_small_bytes), (64 << 10, Some(4 << 10)));
    let base = options(jffs2.geometry, Mode::Linear(40), SecondCut::Sampled);
    assert_sound(&explored(&Options { fs: FilesystemKind::Jffs2, ..base }), "sectors of 4 KiB");
}

/// Tests JFFS2 on each kind of flash, also with cuts of the recovery, with faults, and with an unmount after every
/// step.
#[test]
fn jffs2_loses_nothing() {
    for (number, geometry) in geometries().into_iter().enumerate() {
        let seed = number as u64;
        let jffs2 = |mode, second| Options {
            fs: FilesystemKind::Jffs2,
            seed,
            ..options(geometry.clone(), mode, second)
        };
        assert_sound(&explored(&jffs2(Mode::Linear(150), SecondCut::Sampled)), &format!("{geometry:?}"));
        assert_sound(&explored(&jffs2(Mode::Random(150), SecondCut::Sampled)), &format!("{geometry:?}"));
        assert_sound(&explored(&jffs2(Mode::Unmount, SecondCut::Never)), &format!("{geometry:?}"));
        if geometry.oob_bytes > 0 {
            let faults = Options { faults: true, ..jffs2(Mode::Linear(60), SecondCut::Never) };
            assert_sound(&explored(&faults), &format!("{geometry:?} with faults"));
        }
    }
}

#[test]
fn a_run_that_cuts_nothing_is_an_error() {
    let geometry = Geometry::nand_2048(64);
    let modes = [Mode::Exhaustive, Mode::Log, Mode::Linear(7), Mode::Random(7)];
    for mode in modes {
        let steps = Options { mode, ..Options::exhaustive(geometry.clone(), 0, 3) };
        assert_eq!(explore(&steps, &|_| {}), Err(WorkloadError::NoOperations(3)), "{mode:?}");
    }
    let none = Options { mode: Mode::Unmount, ..Options::exhaustive(geometry, 0, 0) };
    assert_eq!(explore(&none, &|_| {}), Err(WorkloadError::NoOperations(0)));
}

/// Cuts every operation in every way, and one operation of each recovery.
#[test]
fn every_operation_can_be_the_last() {
    let mut cuts = 0;
    for (geometry, seed) in geometries().into_iter().zip([1, 2, 3, 6, 5]).take(few_or_all(2, 5)) {
        let what = format!("{geometry:?}");
        let report = explored(&Options { seed, ..options(geometry, Mode::Exhaustive, SecondCut::Sampled) });
        assert_sound(&report, &what);
        assert_eq!(report.kinds().map(|(_, runs)| runs).min(), report.kinds().map(|(_, runs)| runs).max());
        cuts += report.cuts;
    }
    assert!(cuts > few_or_all(1000, 7000) as u64, "{cuts} cuts");
}

/// SPI NOR programs 256 bytes at once and parallel NOR up to 1024. LEBs begin 128 bytes after the start of a program
/// unit.
#[test]
fn a_torn_program_may_reach_over_what_lebs_are_aligned_to() {
    for buffer_bytes in [128, 256, 1024] {
        let geometry = Geometry { buffer_bytes, ..Geometry::nor(64, 65536) };
        let exhaustive = options(geometry, Mode::Exhaustive, SecondCut::Never);
        let report = explored(&Options { seed: 77, ..exhaustive });
        assert_sound(&report, &format!("programs of {buffer_bytes} bytes"));
        assert!(report.cuts > 500, "{} cuts", report.cuts);
    }
}

/// Cuts every operation of every recovery in every way.
#[test]
fn every_operation_of_a_recovery_can_be_the_last() {
    let mut cuts = 0;
    for (geometry, steps) in geometries().into_iter().zip([3, 6, 6, 6, 30]) {
        let what = format!("{geometry:?}");
        // NOR is written in small pieces, so each recovery has hundreds of operations.
        let mode = if geometry.oob_bytes == 0 { Mode::Linear(1) } else { Mode::Exhaustive };
        let report = explored(&Options { mode, ..Options::exhaustive(geometry, 4, steps) });
        assert_sound(&report, &what);
        assert!(report.cuts > 500, "{what}: {} cuts", report.cuts);
        cuts += report.cuts;
    }
    assert!(cuts > 4000, "{cuts} cuts");
}

/// Tests filesystems of all kinds with up to four consecutive cuts.
#[test]
fn recoveries_can_be_cut_again_and_again() {
    let mut cuts = 0;
    for (geometry, seed) in geometries().into_iter().zip([100, 200, 300, 400, 500]) {
        let what = format!("{geometry:?}");
        let random = Options { seed, steps: 100, ..options(geometry, Mode::Random(600), SecondCut::Sampled) };
        let report = explored(&random);
        assert_sound(&report, &what);
        assert_eq!(report.runs, 600);
        cuts += report.cuts;
    }
    assert!(cuts > 4500, "{cuts} cuts");
}

#[test]
fn faults_lose_nothing_either() {
    for geometry in geometries().into_iter().filter(|geometry| geometry.oob_bytes > 0) {
        let what = format!("{geometry:?}");
        for (seed, mode) in [(1, Mode::Unmount), (2, Mode::Unmount), (3, Mode::Random(150))] {
            let faulty = Options {
                seed,
                steps: 100,
                faults: true,
                ..options(geometry.clone(), mode, SecondCut::Sampled)
            };
            let report = explored(&faulty);
            assert_sound(&report, &what);
            // 2 % of the blocks are bad from the factory.
            assert!(report.bad_pebs_max > geometry.blocks().div_ceil(50), "{what}: no block went bad");
        }
    }
}

#[test]
fn the_report_is_the_same_with_any_number_of_threads() {
    let random = options(Geometry::nand_512(96), Mode::Random(300), SecondCut::Sampled);
    let one = on_threads(1, || explored(&random)).unwrap();
    let three = on_threads(3, || explored(&random)).unwrap();
    assert_eq!(one, three);
    assert_eq!(one.kinds().map(|(_, runs)| runs).sum::<u64>(), 300);
}

#[test]
fn modes_choose_operations() {
    let flash = Geometry::nand_2048(64);
    let all = explored(&options(flash.clone(), Mode::Exhaustive, SecondCut::Never));
    assert_eq!(all.runs, 4 * all.operations);
    let runs = |mode| explored(&options(flash.clone(), mode, SecondCut::Never)).runs;
    assert_eq!(runs(Mode::Linear(10)), 10);
    assert_eq!(runs(Mode::Linear(1_000_000)), all.operations);
    assert_eq!(runs(Mode::Log), 4 * u64::from(all.operations.ilog2() + 1));
    assert_eq!(runs(Mode::Unmount), 60);
    let late = vec![CutKind::During(Stage::Late)];
    let some = explored(&Options { kinds: late, ..options(flash, Mode::Exhaustive, SecondCut::Never) });
    assert_eq!(some.kinds().collect::<Vec<_>>()[3], ("late", some.operations));
}

/// Workloads in which data was once lost.
#[test]
fn what_failed_once_does_not_fail_again() {
    let kept = [
        (Geometry::nand_512(80), [0, 8, 9, 11, 15, 20].as_slice()),
        (Geometry::nand_2048(128), &[0, 9]),
        (Geometry::nand_4096(64), &[100, 104, 400]),
        (Geometry::nor(128, 65536), &[8]),
    ];
    for (geometry, seeds) in kept {
        for &seed in seeds {
            let random = options(geometry.clone(), Mode::Random(200), SecondCut::Sampled);
            let report = explored(&Options { seed, steps: 150, ..random });
            assert_sound(&report, &format!("{geometry:?}, seed {seed}"));
        }
    }
    for (geometry, seed) in
        [(Geometry::nand_512(80), 2), (Geometry::nand_512(80), 3), (Geometry::nand_512(80), 5)]
    {
        let random = options(geometry, Mode::Random(200), SecondCut::Sampled);
        let report = explored(&Options { seed, steps: 150, faults: true, ..random });
        assert_sound(&report, &format!("faults, seed {seed}"));
    }
}

/// Two former faults of JFFS2. The live copy of a node was in an eraseblock whose erase was interrupted, so the next
/// read returned other data. And the first of several nodes of a page stated the final size of the file, so data from
/// before a truncation reappeared.
#[test]
fn what_jffs2_has_lost_once_is_not_lost_again() {
    for id in [
        "nand128x131072_2048.2048.2048_64.34_4.512.3:1.300j:298.early",
        "nor4096x4096_1.256.1_0.0_0.0.0:2.150j:8577.late",
        "nor4096x4096_1.256.1_0.0_0.0.0:2.150j:8620.before",
        "nor4096x4096_1.256.1_0.0_0.0.0:2.150j:8628.early",
        "nand128x131072_2048.2048.2048_64.34_4.512.3:6.400j:598.early",
        "nand128x131072_2048.2048.2048_64.34_4.512.3:10.400j:678.early",
    ] {
        assert_eq!(replay(&id.parse().unwrap()), Ok(None), "{id}");
    }
}

/// The id of a run is sufficient to repeat it.
#[test]
fn ids_repeat_runs() {
    let text = "nand64x131072_2048.2048.512_64.34_4.512.3:1.60:3.late-7.middle.5";
    assert_eq!(replay(&text.parse().unwrap()), Ok(None));
    let beyond = "nand64x131072_2048.2048.512_64.34_4.512.3:1.60:1000000.late";
    let failure = replay(&beyond.parse().unwrap()).unwrap().unwrap();
    assert_eq!((failure.id.as_str(), failure.what.contains("operations")), (beyond, true));
}

/// Failures that campaigns of a million cuts found.
#[test]
fn failures_of_the_past_stay_mended() {
    let ids = [
        // The recovery drops the only page of a LEB, because it is unreadable. After the next cut it is readable, but
        // the LEB counts as empty.
        "nand128x131072_2048.2048.512_64.34_4.512.3:0.150:238.late-51.middle",
        // A file is renamed onto itself in a synchronous directory, so nothing is synced.
        "nand128x131072_2048.2048.512_64.34_4.512.3:357.150:112.early.19047",
        // A program is torn from its first to its last byte, and LEBs do not begin at a program unit.
        "nor256x65536_1.256.1_0.0_0.0.0:0.150:449.middle",
    ];
    for id in ids {
        assert_eq!(replay(&id.parse().unwrap()), Ok(None), "{id}");
    }
}

/// Fault of flash that reports a success although data is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// The last program is lost if power is cut in the middle of an operation.
    Drops,
    /// As `Drops`, but the interrupted operation is complete: it was programmed first.
    Reorders,
    /// The block erased last still has its old contents.
    KeepsErased,
}

#[derive(Clone, Debug)]
struct Liar {
    lie: Lie,
    now: RamFlash,
    /// State before the last program or before the last erase.
    before: RamFlash,
}

impl Liar {
    fn new(geometry: &Geometry, lie: Lie) -> Self {
        let flash = RamFlash::new(geometry.clone());
        Self { lie, before: flash.clone(), now: flash }
    }
}

impl Mtd for Liar {
    fn geometry(&self) -> &Geometry {
        self.now.geometry()
    }

    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.now.read(now, addr, buf)
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        if self.lie != Lie::KeepsErased {
            self.before = self.now.clone();
        }
        self.now.write(now, addr, data)
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.before = self.now.clone();
        self.now.erase(now, addr, len)
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.now.read_oob(now, addr, data, oob, mode)
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.now.write_oob(now, addr, data, oob, mode)
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        self.now.is_bad(now, addr)
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        self.now.mark_bad(now, addr)
    }

    fn breakdown(&self) -> Breakdown {
        self.now.breakdown()
    }
}

impl Tear for Liar {
    fn tear(&mut self, operation: Interrupted<'_>, stage: Stage, seed: u64) {
        self.now = self.before.clone();
        match operation {
            Interrupted::Program { addr, data } if self.lie == Lie::Reorders => {
                // The write may fail, because it may need data that was dropped.
                let _ = self.now.write(Instant::ZERO, addr, data);
            }
            operation => self.now.tear(operation, stage, seed),
        }
    }
}

impl Flash for Liar {
    fn duplicate(&self) -> Box<dyn Flash> {
        Box::new(self.clone())
    }
}

/// The checks detect each fault, and the id of each failure repeats it.
#[test]
fn flash_that_lies_is_found_out() {
    for lie in [Lie::Drops, Lie::Reorders, Lie::KeepsErased] {
        let geometry = Geometry::nand_2048(64);
        let make = |_| -> Result<Box<dyn Powered>, String> {
            let liar: Box<dyn Flash> = Box::new(Liar::new(&geometry, lie));
            Ok(Box::new(PowerCut::new(liar)))
        };
        let late = vec![CutKind::During(Stage::Late)];
        let some = Options { kinds: late, ..options(geometry.clone(), Mode::Exhaustive, SecondCut::Never) };
        let report = explore_on(&some, &make, &|_| {}).unwrap();
        assert!(report.failure_count > 0, "{lie:?} is not found");
        for failure in report.failures.iter().take(5) {
            let again = replay_on(&failure.id.parse().unwrap(), &make).unwrap();
            assert_eq!(again.as_ref(), Some(failure), "{lie:?}");
        }
    }
}

/// Chips of all kinds of flash, with their own commands, torn pages and ECC, lose nothing, and an id repeats a run.
#[test]
fn chips_lose_power() {
    let library = Library::built_in();
    let setups = ["imx6-mx30lf2g18ac", "am62a-w35n01jw", "stm32-n25q128a", "memory-bus-s29gl128p"];
    let filesystems = [FilesystemKind::Ubifs, FilesystemKind::Jffs2];
    let each = setups.into_iter().zip([3, 4, 5, 6]).flat_map(|setup| filesystems.map(|fs| (setup, fs)));
    for ((name, seed), fs) in each {
        let flash = SetupFlash::of_setup(&library, name, &[], (fs, None)).unwrap();
        let make = |seed| flash.chip(&library, seed, false);
        let base = Options { fs, ..Options::exhaustive(flash.geometry.clone(), seed, 60) };
        let some = Options {
            flash: flash.id(),
            mode: Mode::Linear(few_or_all(15, 60) as u64),
            second: SecondCut::Sampled,
            ..base
        };
        let report = explore_on(&some, &make, &|_| {}).unwrap();
        assert_sound(&report, name);
        // A mount of JFFS2 writes little.
        assert!(report.cuts > report.runs || fs == FilesystemKind::Jffs2, "{name}: no recovery was cut");
        let one = FlashId::Chip { setup: 0, blocks: 1 };
        assert!(matches!(
            explore(&Options { flash: one, ..some }, &|_| {}),
            Err(WorkloadError::Failed { .. })
        ));
    }
}

/// Power cuts combined with factory bad blocks and worn cells.
#[test]
fn a_chip_with_worn_cells_still_keeps_what_was_synchronised() {
    let library = Library::built_in();
    let sets = Override::parse_all(&["cells.cycles=30000"]).unwrap();
    let flash =
        SetupFlash::of_setup(&library, "imx6-mx30lf2g18ac", &sets, (FilesystemKind::Ubifs, None)).unwrap();
    let base = Options::exhaustive(flash.geometry.clone(), 7, 60);
    let some =
        Options { flash: flash.id(), mode: Mode::Linear(40), second: SecondCut::Never, faults: true, ..base };
    let report = explore_on(&some, &|seed| flash.chip(&library, seed, true), &|_| {}).unwrap();
    assert_sound(&report, "worn, with bad blocks");
    assert!(report.bad_pebs_max > 0);
}

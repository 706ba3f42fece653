//! Tests of complete rigs: timelines never overlap, times add up, time does not depend on data, and data reads back.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use crate::common::{TIMING_ONLY, bytes, config, library, names, rig, rig_of};
use floatgate_config::Kind;
use floatgate_config::corner::Corner;
use floatgate_device::OtpArea;
use floatgate_device::{Resource, Span};
use floatgate_lab::papers;
use floatgate_lab::trace::{Operation, Traced, trace};
use floatgate_mtd::{FlashKind, Mtd, Phase};
use floatgate_sim::rig::{Rig, RigOptions};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const WIRES: [Phase; 4] = [Phase::Command, Phase::Address, Phase::Dummy, Phase::Data];

fn traced(name: &str, operation: Operation, options: RigOptions) -> Traced {
    let what = operation.name();
    trace(library(), &config(name, &[]), options, operation).unwrap_or_else(|e| panic!("{name}, {what}: {e}"))
}

fn by_resource(spans: &[Span]) -> BTreeMap<Resource, Vec<Span>> {
    let mut all: BTreeMap<Resource, Vec<Span>> = BTreeMap::new();
    for span in spans {
        all.entry(span.resource).or_default().push(*span);
    }
    all
}

fn length(span: &Span) -> u64 {
    span.end.since(span.start).as_ns()
}

/// Calls `check` with every setup and operation. Each is traced once for all tests.
fn each(mut check: impl FnMut(&str, &str, Operation, &Traced)) {
    static ALL: OnceLock<Vec<(String, Operation, Traced)>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let names = names();
        // Operations of a filesystem need eraseblocks with a filesystem, and data: `machine.rs` tests them.
        let of_flash = |operation: &Operation| !matches!(operation, Operation::File(_));
        let operations = || Operation::ALL.into_iter().map(|(_, operation)| operation).filter(of_flash);
        let cases = names.iter().flat_map(|name| operations().map(move |operation| (name, operation)));
        let cases: Vec<_> = cases.collect();
        let run = |&(name, operation): &(&String, Operation)| {
            (name.clone(), operation, traced(name, operation, RigOptions::default()))
        };
        cases.par_iter().map(run).collect()
    });
    for (name, operation, run) in all {
        check(name, &format!("{name}, {}", operation.name()), *operation, run);
    }
}

#[test]
fn nothing_happens_twice_at_once_on_one_resource() {
    each(|_, what, _, run| {
        assert!(!run.spans.is_empty(), "{what}");
        for (resource, spans) in by_resource(&run.spans) {
            for pair in spans.windows(2) {
                assert!(
                    pair[0].end <= pair[1].start,
                    "{what}: {resource:?} does {:?} and {:?}",
                    pair[0],
                    pair[1]
                );
            }
            for span in spans {
                assert!(span.start < span.end && !span.what.is_empty(), "{what}: {span:?}");
                assert!(span.end.as_ns() <= run.ns, "{what}: {span:?} is not over after {} ns", run.ns);
            }
        }
    });
}

#[test]
fn books_add_up() {
    each(|_, what, operation, run| {
        assert!(run.ns > 0 && run.bytes > 0, "{what}");
        assert_eq!(run.breakdown_ns.total().as_ns(), run.ns, "{what}: {:?}", run.breakdown_ns);
        if operation == Operation::ReadWhileWrite {
            return;
        }
        for phase in WIRES {
            let wires = run.spans.iter().filter(|s| s.resource == Resource::Bus && s.phase == phase);
            let seen: u64 = wires.map(length).sum();
            assert_eq!(
                seen,
                run.breakdown_ns[phase].as_ns(),
                "{what}: {phase:?} on the wires and in the books"
            );
        }
        let array: u64 =
            run.spans.iter().filter(|s| matches!(s.resource, Resource::Die(_))).map(length).sum();
        assert!(
            run.breakdown_ns[Phase::Array].as_ns() <= array,
            "{what}: waited longer than any array worked"
        );
    });
}

#[test]
fn arrays_begin_where_their_command_ends() {
    each(|name, what, operation, run| {
        if config(name, &[]).part().kind == "raw-nand" || operation == Operation::ReadWhileWrite {
            return;
        }
        // CS# stays low until a slow host has served its FIFO; a bridge ends its cycle.
        let moves = |s: &&Span| {
            s.resource == Resource::Bus || s.what.starts_with("FIFO") || s.what.starts_with("bridge")
        };
        let ends: Vec<_> = run.spans.iter().filter(moves).map(|s| s.end).collect();
        for span in run.spans.iter().filter(|s| matches!(s.resource, Resource::Die(_))) {
            let behind = span.what.contains("behind");
            assert!(
                behind || ends.contains(&span.start),
                "{what}: nothing on the bus ends where {span:?} begins"
            );
        }
    });
}

/// In a continuous read, each page except the first is read from the array while the previous page is on the bus.
#[test]
fn continuous_reads_show_the_hidden_array_reads() {
    for name in ["SPI NAND, Macronix's continuous reads", "SPI NAND, Winbond's continuous reads"] {
        let run = traced(name, Operation::ReadBlock, RigOptions::default());
        let pages = 64;
        let dies = by_resource(&run.spans).remove(&Resource::Die(0)).unwrap();
        assert_eq!(dies.len(), pages, "{name}");
        let data = run.spans.iter().find(|s| s.phase == Phase::Data && length(s) > 100_000).unwrap();
        for hidden in &dies[1..] {
            assert!(
                data.start <= hidden.start && hidden.end <= data.end,
                "{name}: {hidden:?} beside {data:?}"
            );
        }
        let waited = run.breakdown_ns[Phase::Array].as_ns();
        assert!(waited > 0 && waited <= length(&dies[0]), "{name}: only the first page is waited for");
    }
}

#[test]
fn time_does_not_depend_on_data() {
    each(|name, what, operation, stored| {
        let timed = traced(name, operation, TIMING_ONLY);
        assert_eq!((stored.ns, stored.breakdown_ns), (timed.ns, timed.breakdown_ns), "{what}");
        assert_eq!(stored.spans, timed.spans, "{what}");
    });
}

#[test]
fn recording_takes_no_virtual_time() {
    for name in names() {
        let read = |record: bool| {
            let mut rig = rig(&name);
            let mut buf = vec![0; 4 * rig.device.geometry().buffer_bytes as usize];
            rig.device.host().record(record);
            let now = rig.now();
            rig.device.read(now, 0, &mut buf).unwrap().at
        };
        assert_eq!(read(true), read(false), "{name}");
    }
}

/// All observable state of a rig after some work: bytes, times, factory data, bad blocks.
fn fingerprint(name: &str, seed: u64) -> (Vec<u8>, Vec<Span>, Vec<bool>) {
    let bad_blocks = if config(name, &[]).part().kind.ends_with("nand") { 3 } else { 0 };
    let mut rig = rig_of(&config(name, &[]), RigOptions { seed, bad_blocks, ..RigOptions::default() });
    let mut seen = Vec::new();
    let now = rig.now();
    if let Some(otp) = rig.device.otp().filter(|otp| otp.otp_regions(OtpArea::Factory) > 0) {
        let (region, now) = otp.otp_info(now, OtpArea::Factory, 0).unwrap();
        seen = vec![0; region.len.min(4096) as usize];
        otp.otp_read(now, OtpArea::Factory, 0, &mut seen).unwrap();
    }
    let block = u64::from(rig.device.geometry().erase_bytes);
    let bad = (0..64).map(|i| {
        let now = rig.now();
        rig.device.is_bad(now, i * block).unwrap().0
    });
    let bad = bad.collect();
    let data = bytes(seed, rig.device.geometry().buffer_bytes as usize);
    let (got, record) = rig.record(|device, now| {
        let now = device.erase(now, 0, block).unwrap().at;
        let now = device.write(now, 0, &data).unwrap().at;
        let mut got = vec![0; data.len()];
        device.read(now, 0, &mut got).unwrap();
        got
    });
    seen.extend(got);
    (seen, record.spans, bad)
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_times() {
    for name in names() {
        assert_eq!(fingerprint(&name, 7), fingerprint(&name, 7), "{name}");
        assert_ne!(fingerprint(&name, 7).0, fingerprint(&name, 8).0, "{name}");
    }
}

#[test]
fn reports_do_not_depend_on_the_number_of_threads() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let papers = papers::select(papers::built_in().unwrap(), "P0").unwrap();
        let report = pool.install(|| papers::compare(library(), &papers)).unwrap();
        serde_json::to_string(&report).unwrap()
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(5));
}

/// Page of `flash_speed`, which is not a unit of the chip on NOR.
fn page(rig: &Rig) -> usize {
    let geometry = rig.device.geometry();
    if geometry.kind == FlashKind::Nor { 512 } else { geometry.write_bytes as usize }
}

#[test]
fn what_was_written_comes_back() {
    for name in names() {
        let mut rig = rig(&name);
        let (page, geometry) = (page(&rig), rig.device.geometry().clone());
        let block = geometry.erase_bytes as usize;
        // Two adjacent blocks, which may be on two planes, and the last one, which may be on another die.
        let last = u64::from(geometry.blocks() - 1) * block as u64;
        let pair = bytes(1, 2 * block);
        let single = bytes(2, block);
        let mut now = rig.now();
        now = rig.device.erase(now, 0, 2 * block as u64).unwrap().at;
        now = rig.device.erase(now, last, block as u64).unwrap().at;
        now = rig.device.write(now, 0, &pair).unwrap().at;
        for (at, chunk) in (last..).step_by(page).zip(single.chunks(page)) {
            now = rig.device.write(now, at, chunk).unwrap().at;
        }
        let mut read = |at: u64, len: usize| {
            let mut got = vec![0; len];
            now = rig.device.read(now, at, &mut got).unwrap().at;
            got
        };
        assert!(read(0, 2 * block) == pair, "{name}: blocks 0 and 1");
        assert!(read(last, block) == single, "{name}: the last block");
        for (at, chunk) in (0..).step_by(page).zip(pair.chunks(page)) {
            assert!(read(at, page) == chunk, "{name}: page at {at:#x}");
        }
        for (at, len) in [(13, 777), (page - 1, 2), (block - 5, 10), (block / 2 + 1, block)] {
            assert!(read(at as u64, len) == pair[at..at + len], "{name}: {len} bytes at {at}");
        }
    }
}

/// Expected change of an operation's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Slower,
    Faster,
}

use Effect::{Faster, Slower};

#[test]
fn overrides_of_every_table_take_effect() {
    use Operation::{Erase, ReadBlock, ReadPage, WritePage};
    const BOARD: &str = "am62a-w35n01jw";
    const NOR: &str = "parallel NOR, CFI 2";
    let changes = [
        (BOARD, "chip.timing.t_rd_ecc_us=100", ReadPage, Slower),
        (BOARD, "chip.timing.t_prog_us={ typ = 100, max = 700 }", WritePage, Faster),
        (BOARD, "chip.timing.t_bers_us={ typ = 5000, max = 9000 }", Erase, Slower),
        (BOARD, "bus.mode=1-1-1", ReadPage, Slower),
        (BOARD, "bus.clock_hz=12e6", ReadPage, Slower),
        (BOARD, "bus.phy=true", ReadPage, Faster),
        (BOARD, "controller.divider=any", ReadPage, Faster),
        (BOARD, "controller.exec.setup_us=30", WritePage, Slower),
        (BOARD, "controller.dirmap.window_bytes=1 KiB", ReadPage, Slower),
        (BOARD, "controller.dirmap.read=false", ReadPage, Slower),
        (BOARD, "controller.dirmap.write=false", WritePage, Slower),
        ("am62a-nopm-w35n01jw", "controller.dirmap.read=false", ReadPage, Slower),
        ("am62a-nopm-w35n01jw", "controller.dirmap.write=false", WritePage, Slower),
        ("am62a-nopm-w35n01jw", "host.wakeup_us=30", ReadPage, Slower),
        (BOARD, "controller.dirmap.rx.ns_per_byte=200", ReadPage, Slower),
        (BOARD, "host.call_us=50", ReadPage, Slower),
        (BOARD, "host.wakeup_us=0", WritePage, Faster),
        (BOARD, "driver.continuous=true", ReadBlock, Faster),
        (BOARD, "ecc={ engine = 'software', decode_ns_per_kb = 50000 }", ReadPage, Slower),
        // The array is 15 us faster without on-die ECC, and the check of a page without errors takes less.
        (BOARD, "ecc={ engine = 'software' }", ReadPage, Faster),
        (BOARD, "ecc={ engine = 'software', algo = 'bch' }", WritePage, Slower),
        (BOARD, "ecc={ engine = 'external' }", WritePage, Slower),
        ("imx6-mx30lf2g18ac", "ecc.engine=external", ReadPage, Slower),
        ("imx6-mx30lf2g18ac", "ecc.engine=software", ReadPage, Slower),
        ("imx6-mx30lf2g18ac", "ecc.engine=software", WritePage, Slower),
        ("imx6-mx30lf2g18ac", "bus.interface=sdr0", ReadPage, Slower),
        ("imx6-mx30lf2g18ac", "bus.no_ready_pin=true", WritePage, Slower),
        ("imx6-mx30lf2g18ac", "ecc.setup_us=40", ReadPage, Slower),
        ("imx6-mx30lf2g18ac", "driver.continuous=false", ReadBlock, Slower),
        ("imx6-mx30lf2g18ac", "controller.step_us=20", ReadPage, Slower),
        ("zynqmp-arasan-16k", "ecc.engine=pipelined", ReadPage, Faster),
        ("zynqmp-arasan-16k", "controller.nvddr_modes=[0]", ReadPage, Slower),
        ("zc702-mx25uw12845g", "bus.reset_pin=false", ReadPage, Slower),
        ("zc702-mx25uw12845g", "controller.rx.ns_per_byte=500", ReadPage, Slower),
        ("zc702-mx25uw12845g", "driver.poll_interval_us=200", WritePage, Slower),
        (NOR, "bus.bits=8", ReadPage, Slower),
        (NOR, "controller.page_mode=false", ReadPage, Slower),
        (NOR, "chip.timing.t_acc_ns=200", ReadPage, Slower),
    ];
    for (name, set, operation, effect) in changes {
        let before = traced(name, operation, TIMING_ONLY).ns;
        let changed = trace(library(), &config(name, &[set]), TIMING_ONLY, operation);
        let after = changed.unwrap_or_else(|e| panic!("{name} {set}: {e}")).ns;
        let seen = if after > before { Slower } else { Faster };
        assert!(after != before && seen == effect, "{name} {set}: {before} ns before, {after} after");
    }
}

/// The cost of an engine depends on its kind, its code and the CPU. In an earlier version every kind had the same cost.
#[test]
fn ecc_engines_cost_what_they_are() {
    let time = |sets: &[&str], operation| {
        let all: Vec<&str> = ["bus.mode=1-8-8"].into_iter().chain(sets.iter().copied()).collect();
        trace(library(), &config("am62a-w35n01jw", &all), TIMING_ONLY, operation).unwrap().ns
    };
    for operation in [Operation::ReadPage, Operation::WritePage] {
        let engine = |kind: &str, more: &[&str]| {
            let kind = format!("ecc.engine={kind}");
            let all: Vec<&str> = [&*kind].into_iter().chain(more.iter().copied()).collect();
            time(&all, operation)
        };
        let pipelined = engine("pipelined", &[]);
        assert!(pipelined < engine("external", &[]), "data passes the external one after the bus");
        let hamming = engine("software", &["ecc.algo=hamming"]);
        let bch = |strength: u32| engine("software", &["ecc.algo=bch", &format!("ecc.strength={strength}")]);
        assert!(pipelined < hamming && hamming < bch(1) && bch(1) < bch(8), "{operation:?}");
        let slow = engine("software", &["host.bch.clock_hz=400e6", "ecc.algo=bch", "ecc.strength=8"]);
        assert!(slow > bch(8), "the same core at a lower clock takes longer");
        assert!(slow > engine("external", &["ecc.strength=8"]));
    }
    let refused = |sets: &[&str]| {
        let problem = floatgate_sim::rig::wire(library(), &config("am62a-w35n01jw", sets), TIMING_ONLY).err();
        problem.map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(&["ecc.engine=software", "host.instruction_ps=0"]).contains("how fast"));
    let much = refused(&["ecc.engine=software", "ecc.algo=hamming", "ecc.strength=4"]);
    assert!(much.contains("corrects 1 bit"), "{much}");
    assert!(refused(&["ecc.algo=rs"]).contains("rs"));
}

/// Software BCH costs CPU cycles. An external engine has a second pass at any CPU clock. Which of them is slower
/// depends on clock and strength. An earlier version scaled the encode time of an ARMv7 by its Dhrystone speed relative
/// to an ARM926EJ-S.
#[test]
fn software_bch_on_a_slow_armv7_is_slower_than_an_external_engine() {
    let time = |sets: &[&str], operation| {
        trace(library(), &config("imx6-mx30lf2g18ac", sets), TIMING_ONLY, operation).unwrap().ns
    };
    for operation in [Operation::ReadPage, Operation::WritePage] {
        let pipelined = time(&[], operation);
        let external = |more: &[&str]| time(&[&["ecc.engine=external"], more].concat(), operation);
        let software = |more: &[&str]| time(&[&["ecc.engine=software"], more].concat(), operation);
        // Lowest operating point of an i.MX6.
        let slow = "host.bch.clock_hz=396e6";
        assert!(pipelined < external(&[]) && external(&[]) < software(&[slow]), "{operation:?}");
        assert!(pipelined < software(&[]) && software(&[]) < software(&[slow]), "{operation:?}");
        let strong = "ecc.strength=8";
        assert!(external(&[strong]) < software(&[strong]), "{operation:?}: 4 words of ECC bytes at 1 GHz");
        // Counted: 37 cycles for each of 512 words.
        let cost = software(&[]) - pipelined;
        assert!((18_500..19_500).contains(&cost), "{operation:?}: {cost} ns");
    }
}

/// If a requested setting is not available, the link states the reason. An impossible value is refused.
#[test]
fn clocks_and_modes_are_what_was_asked_for() {
    let wired =
        |name: &str, sets: &[&str]| floatgate_sim::rig::wire(library(), &config(name, sets), TIMING_ONLY);
    let notes = |name: &str, sets: &[&str]| wired(name, sets).unwrap().device.link().not_given.join("; ");
    assert!(notes("ma35d1-w25n02jw", &["bus.clock_hz=80e6"]).contains("gets 60 MHz: 180 MHz / 3"));
    let above = notes("ma35d1-w25n02jw", &["bus.clock_hz=200e6"]);
    assert!(above.contains("180 MHz / 2; the controller makes 100 MHz at most"), "{above}");
    assert_eq!(notes("ma35d1-w25n02jw", &["bus.clock_hz=60e6"]), "");
    let by_chip = notes("ideal-w35n01jw", &["bus.clock_hz=166e6"]);
    assert!(by_chip.contains("asks for 166 MHz and gets 120 MHz in 8D-8D-8D"), "{by_chip}");
    let refused = |name: &str, sets: &[&str]| {
        wired(name, sets).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (name, set) in [
        ("ma35d1-w25n02jw", "bus.clock_hz=30"),
        ("ma35d1-w25n02jw", "controller.reference_hz=180"),
        ("zc702-mx25uw12845g", "bus.clock_hz=16"),
        ("imx6-mx30lf2g18ac", "bus.clock_hz=33"),
    ] {
        assert!(refused(name, &[set]).contains("is no clock"), "{name} {set}");
    }
    assert!(refused("am62a-w35n01jw", &["bus.clock_hz=1e6"]).contains("166.67 MHz / 32"));
    // An earlier version used the controller's four lanes without a message.
    let lanes = refused("ma35d1-w25n02jw", &["bus.lanes=8"]);
    assert!(lanes.contains("8 lanes, and the controller has 4 lanes"), "{lanes}");
    assert!(refused("stm32-n25q128a", &["bus.lanes=4"]).contains("the controller has 1 lane"));
    assert_eq!(refused("ma35d1-w25n02jw", &["bus.lanes=2"]), "");
    // An earlier version read this in 1S-8S-8S.
    let octal = ["bus.mode=8D-8D-8D", "bus.phy=true"];
    assert!(refused("am62a-w35n01jw", &octal).contains("the PHY runs at 166.67 MHz"));
    let fits = [octal[0], octal[1], "controller.reference_hz=80e6", "controller.phy.clock_hz=80e6"];
    assert_eq!(wired("am62a-w35n01jw", &fits).unwrap().device.link().mode, "8D-8D-8D");
}

/// Options and interfaces that chip, controller or board do not support are not active, and the link states the reason.
#[test]
fn what_is_asked_and_not_given_is_said() {
    for (name, sets, says) in [
        ("nand-mt29f2g08abaea", &["bus.interface=nvddr5"][..], "asks for nvddr5 and gets sdr5: the chip"),
        ("imx6-mx30lf2g18ac", &["bus.interface=nvddr0"], "the chip does not offer it"),
        ("zynqmp-arasan-16k", &["bus.interface=nvddr5", "bus.no_ready_pin=true"], "without R/B#"),
        ("zynqmp-arasan-16k", &["bus.interface=nvddr5", "controller.nvddr_modes=[0,1]"], "the controller"),
        ("imx6-mx30lf2g18ac", &["driver.continuous=true", "controller.cached_reads=false"], "cached reads"),
        ("imx6-mx30lf2g18ac", &["driver.cached_programs=true", "chip.program_cache=false"], "programs"),
        ("imx6-mx30lf2g18ac", &["driver.multi_plane=true", "chip.multi_plane=false"], "one plane"),
        ("ma35d1-w25n02jw", &["driver.continuous=true", "chip=mx35lf1ge4ab"], "no continuous reads"),
        ("am62a-w35n01jw", &["driver.continuous=true", "ecc.engine=external"], "no OOB"),
        ("imx6-mx30lf2g18ac", &["ecc.engine=external", "ecc.algo=hamming"], "asks for 4 bits in 512 B"),
        ("imx6-mx30lf2g18ac", &["bus.clock_hz=120e6"], "120 MHz, and sdr5 makes 50 MHz at most"),
    ] {
        let mut notes = rig_of(&config(name, sets), TIMING_ONLY).device.link().not_given;
        notes.retain(|note| !note.starts_with("bus.clock_hz") || says.contains("MHz"));
        assert!(notes.len() == 1 && notes[0].contains(says), "{name} {sets:?}: {notes:?}");
    }
    for name in names() {
        let notes = rig_of(&config(&name, &[]), TIMING_ONLY).device.link().not_given;
        assert!(notes.iter().all(|note| note.starts_with("bus.clock_hz")), "{name}: {notes:?}");
    }
}

/// Values that are impossible for any chip, code or setup are refused with the reason.
#[test]
fn values_without_sense_are_refused() {
    for (name, set, says) in [
        ("imx6-mx30lf2g18ac", "chip.timing.t_prog_us.typ=700", "700 us, is longer than the maximum, 600 us"),
        ("imx6-mx30lf2g18ac", "chip.timing.t_prog_us.typ=0", "no array works in no time"),
        ("ma35d1-w25n02jw", "chip.timing.t_rd_us=0", "no array works in no time"),
        ("nor-serialised", "chip.timing.t_pp_us={typ=2,max=1}", "is longer than the maximum"),
        ("imx6-mx30lf2g18ac", "ecc.strength=0", "no code corrects 0 bits"),
        ("am62a-w35n01jw", "ecc.strength=100000", "no code corrects 100000 bits"),
        ("am62a-w35n01jw", "firmware.tick_us=3", "has no firmware"),
        ("stm32-n25q128a", "firmware.tick_us=\"2 s\"", "between 1 us and 1 s"),
        ("stm32-n25q128a", "firmware.tick_us=0", "between 1 us and 1 s"),
        ("am62a-w35n01jw", "controller.max_hz=0", "no clock of a flash memory"),
    ] {
        let refused = floatgate_sim::rig::wire(library(), &config(name, &[set]), TIMING_ONLY).err().unwrap();
        assert!(refused.to_string().contains(says), "{name} {set}: {refused}");
    }
    let whole = rig_of(&config("imx6-mx30lf2g18ac", &["cells.cycles=1e4"]), TIMING_ONLY);
    assert_eq!(whole.chip, "MX30LF2G18AC", "a whole number may be written as a float");
}

/// A chip with the longest times of its data sheet still meets the deadlines of its driver.
#[test]
fn every_setup_works_in_its_slowest_corner() {
    let tests = floatgate_lab::speed::SpeedOptions { blocks: Some(1), ..Default::default() };
    for name in library().names(Kind::Setup) {
        let setup = library().setup(name).unwrap();
        let (sets, slowest) = Corner::Slowest.over(library(), &setup, &[]).unwrap();
        let config = library().resolve(&setup, &sets).unwrap();
        let run = floatgate_lab::speed_run::measure(library(), &config, TIMING_ONLY, &tests);
        assert!(run.is_ok() && !slowest.unwrap().sets.is_empty(), "{name}: {}", run.err().unwrap());
    }
}

/// Advice names only clocks that the controller makes.
#[test]
fn advice_names_clocks_that_exist() {
    let (library, setup) = (library(), library().setup("ma35d1-w25n02jw").unwrap());
    let tests = floatgate_lab::speed::SpeedOptions { blocks: Some(1), ..Default::default() };
    let run =
        floatgate_lab::speed_run::measure_with_advice(library, &setup, &[], TIMING_ONLY, &tests).unwrap();
    let sets: Vec<String> = run.advice.into_iter().filter_map(|a| a.next).map(|next| next.set).collect();
    let clocks: Vec<u64> =
        sets.iter().filter_map(|set| set.strip_prefix("bus.clock_hz=")?.parse().ok()).collect();
    assert!(!clocks.is_empty(), "{sets:?}");
    for hz in clocks {
        assert!(hz <= 100_000_000 && 180_000_000 % hz == 0, "{hz} Hz is no clock of 180 MHz / n");
    }
}

/// Cells of a setup: worn chips erase more slowly and program faster. Impossible values are refused by name.
#[test]
fn setups_have_cells() {
    let times = |name: &str, sets: &[&str]| {
        let mut rig = rig_of(&config(name, sets), TIMING_ONLY);
        let (page, block) = (rig.device.geometry().write_bytes, rig.device.geometry().erase_bytes);
        let start = rig.now();
        let written = rig.device.write(start, 0, &vec![0; page as usize]).unwrap().at;
        let erased = rig.device.erase(written, 0, block.into()).unwrap().at;
        (written.since(start), erased.since(written))
    };
    for name in ["imx6-mx30lf2g18ac", "ma35d1-w25n02jw"] {
        let new = times(name, &[]);
        let warm = times(name, &["cells.temperature_c=85"]);
        assert_eq!(new, warm, "{name}: heat changes no time");
        let worn = times(name, &["cells.cycles=300000", "cells.temperature_c=85"]);
        assert!(worn.0 < new.0 && worn.1 > new.1, "{name}: {worn:?}, new {new:?}");
    }
    let refused = |name: &str, set: &str| {
        let problem = floatgate_sim::rig::wire(library(), &config(name, &[set]), TIMING_ONLY).err();
        problem.map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused("imx6-mx30lf2g18ac", "cells.temperature_c=1000").contains("-55 to 150"));
    assert!(refused("imx6-mx30lf2g18ac", "cells.cicles=1").contains("cicles"));
    assert!(refused("zc702-mx25uw12845g", "cells.cycles=1").contains("NOR"));
}

/// A part is a setup: it uses the board that was written for it, or a board of its kind, which the title names.
#[test]
fn every_part_runs_on_a_board() {
    let title = |name: &str| floatgate_lab::speed_run::title(&config(name, &[]));
    assert_eq!(title("w35n01jw"), format!("{} (the board am62a-w35n01jw)", title("am62a-w35n01jw")));
    assert!(title("w25n01jw").ends_with("on the board ma35d1-w25n02jw"), "{}", title("w25n01jw"));
    let parts: Vec<&str> = library().names(Kind::Part).collect();
    let fails = |part: &&str| {
        let setup = library().setup(part).map_err(|error| error.to_string());
        let config =
            setup.and_then(|setup| library().resolve(&setup, &[]).map_err(|error| error.to_string()));
        let wired = config.and_then(|config| {
            floatgate_sim::rig::wire(library(), &config, TIMING_ONLY)
                .map(drop)
                .map_err(|error| error.to_string())
        });
        wired.err().map(|error| format!("{part}: {error}"))
    };
    let failed: Vec<String> = parts.par_iter().filter_map(fails).collect();
    // A chip without on-die ECC, and two chips of studies whose OOB size or pairing is unknown: each message says so.
    let refused = ["mx35lf2g14ac", "study-mlc-2y-nm", "study-tlc-72-layers"];
    let is_known = |failed: &String| refused.iter().any(|part| failed.starts_with(&format!("{part}: ")));
    assert!(parts.len() > 60 && failed.iter().all(is_known), "{failed:#?}");
}

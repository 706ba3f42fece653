//! Tests of cycles that the chip rejects, and of its state afterwards.

use super::Bench;
use crate::raw_nand::testing::{mx30lf2g18ac, nand128w3a2bn, nv_ddr};
use crate::raw_nand::timing::DataInterface;
use crate::raw_nand::{ChipOptions, RawNand};
use crate::violation::Violation;
use floatgate_mtd::Nanos;

/// A step of a sequence.
#[derive(Clone, Copy, Debug)]
enum Do {
    Cmd(u8),
    /// Column and row cycles.
    At(u32, u32),
    Row(u32),
    Bytes(&'static [u8]),
    Put(usize),
    Get(usize),
    Wait,
}

use Do::{At, Bytes, Cmd, Get, Put, Row, Wait};

fn run(bench: &mut Bench, steps: &[Do]) -> Result<(), Violation> {
    for step in steps {
        match *step {
            Cmd(opcode) => bench.cmd(opcode)?,
            At(column, row) => bench.at(column, row)?,
            Row(row) => bench.row(row)?,
            Bytes(bytes) => bench.addr(bytes)?,
            Put(len) => bench.put(&vec![0; len])?,
            Get(len) => bench.get(len).map(drop)?,
            Wait => drop(bench.wait()),
        }
    }
    Ok(())
}

/// Checks that only the last step of each sequence is rejected, and that the chip then reads as before.
fn refuses(spec: &crate::raw_nand::RawNandSpec, sequences: &[&[Do]]) {
    for steps in sequences {
        let mut bench = Bench::new(spec);
        let (last, before) = steps.split_last().unwrap();
        run(&mut bench, before).unwrap_or_else(|error| panic!("{steps:?}: {error} too early"));
        assert!(run(&mut bench, &[*last]).is_err(), "{steps:?} was accepted");
        bench.wait();
        bench.cmd(0xFF).unwrap();
        bench.wait();
        assert_eq!(bench.read(0, 1, 1).unwrap(), [0xFF], "{steps:?} left something behind");
    }
}

#[test]
fn sequences_that_make_no_sense() {
    refuses(
        &mx30lf2g18ac(),
        &[
            &[Cmd(0x42)],
            &[Cmd(0x01)],
            &[Cmd(0x30)],
            &[Cmd(0x10)],
            &[Cmd(0xD0)],
            &[Cmd(0xE0)],
            &[Cmd(0x3F)],
            &[Cmd(0x31)],
            &[Cmd(0x85), At(0, 0)],
            &[Get(1)],
            &[Put(1)],
            &[At(0, 0)],
            &[Cmd(0x00), Bytes(&[0, 0, 0])],
            &[Cmd(0x60), At(0, 0)],
            &[Cmd(0x90), Bytes(&[0, 0])],
            &[Cmd(0x00), At(2112, 0)],
            &[Cmd(0x00), At(0, 2048 * 64)],
            &[Cmd(0x80), At(0, 0), Cmd(0x00)],
            &[Cmd(0x80), At(0, 0), Put(2113)],
            &[Cmd(0x80), At(2048, 0), Put(65)],
            &[Cmd(0x80), Cmd(0x10)],
            &[Cmd(0x60), Row(0), Cmd(0x10)],
            &[Cmd(0x00), At(0, 0), Cmd(0x80)],
            &[Cmd(0x00), At(0, 0), Get(1)],
            &[Cmd(0x05), Bytes(&[0, 0]), Cmd(0x30)],
            &[Cmd(0x00), At(0, 0), Cmd(0x30), Wait, Get(2113)],
            &[Cmd(0xEF), Bytes(&[0x01]), Put(3)],
            &[Cmd(0xEF), Bytes(&[0x55])],
            &[Cmd(0xEC), Bytes(&[0]), Wait, Put(1)],
            &[Cmd(0xED), Bytes(&[1])],
        ],
    );
}

#[test]
fn busy_chips_take_only_status_and_reset() {
    let reading: &[Do] = &[Cmd(0x00), At(0, 1), Cmd(0x30)];
    let erasing: &[Do] = &[Cmd(0x60), Row(64), Cmd(0xD0)];
    for busy in [reading, erasing] {
        for next in [Cmd(0x00), Cmd(0x80), Cmd(0x60), Cmd(0x90), Cmd(0xEE), Cmd(0xEC), Get(1)] {
            let mut bench = Bench::new(&mx30lf2g18ac());
            run(&mut bench, busy).unwrap();
            assert!(run(&mut bench, &[next]).is_err(), "{next:?} while busy");
        }
        let mut bench = Bench::new(&mx30lf2g18ac());
        run(&mut bench, busy).unwrap();
        run(&mut bench, &[Cmd(0x70), Get(1), Cmd(0xFF), Wait]).unwrap();
        assert_eq!(bench.read(0, 1, 1).unwrap(), [0xFF]);
    }
}

#[test]
fn cached_reads_have_an_end() {
    let start = [Cmd(0x00), At(0, 61), Cmd(0x30), Wait, Cmd(0x31), Wait];
    let with = |more: &[Do]| [&start, more].concat();
    refuses(
        &mx30lf2g18ac(),
        &[
            &with(&[Cmd(0x60)]),
            &with(&[Cmd(0x80)]),
            &with(&[Cmd(0x00), At(0, 0), Cmd(0x30)]),
            &with(&[Cmd(0x31), Wait, Cmd(0x31)]),
            &with(&[Cmd(0x3F), Wait, Cmd(0x3F)]),
            &[Cmd(0x60), Row(64), Cmd(0xD0), Wait, Cmd(0x31)],
        ],
    );
}

#[test]
fn planes_of_one_operation_fit_together() {
    refuses(
        &mx30lf2g18ac(),
        &[
            &[Cmd(0x80), At(0, 128), Put(1), Cmd(0x11), Wait, Cmd(0x80), At(0, 256)],
            &[Cmd(0x80), At(0, 128), Put(1), Cmd(0x11), Wait, Cmd(0x80), At(0, 193)],
            &[Cmd(0x80), At(0, 128), Put(1), Cmd(0x11), Wait, Cmd(0x60)],
            &[Cmd(0x00), At(0, 128), Cmd(0x32), Wait, Cmd(0x60)],
            &[Cmd(0x60), Row(128), Cmd(0xD1), Wait, Cmd(0x80)],
            &[Cmd(0x60), Row(128), Cmd(0x60), Row(256)],
            &[Cmd(0x00), At(0, 128), Cmd(0x35), Wait, Cmd(0x85), At(0, 192)],
        ],
    );
}

#[test]
fn chips_lack_what_their_specification_lacks() {
    let mut plain = mx30lf2g18ac();
    (plain.read_cache, plain.program_cache, plain.copyback, plain.multi_plane) = (false, false, false, false);
    (plain.features.set, plain.features.get) = (false, false);
    plain.onfi = None;
    refuses(
        &plain,
        &[
            &[Cmd(0x00), At(0, 0), Cmd(0x30), Wait, Cmd(0x31)],
            &[Cmd(0x00), At(0, 0), Cmd(0x32)],
            &[Cmd(0x00), At(0, 0), Cmd(0x35)],
            &[Cmd(0x80), At(0, 64), Put(1), Cmd(0x15)],
            &[Cmd(0x80), At(0, 64), Put(1), Cmd(0x11)],
            &[Cmd(0x60), Row(0), Cmd(0xD1)],
            &[Cmd(0x81)],
            &[Cmd(0x85)],
            &[Cmd(0xEE)],
            &[Cmd(0xEF)],
            &[Cmd(0xEC)],
            &[Cmd(0xED)],
            &[Cmd(0x78)],
        ],
    );
    refuses(&nand128w3a2bn(), &[&[Cmd(0x05)], &[Cmd(0x00), At(0, 0), Wait, Cmd(0x31)], &[Cmd(0x30)]]);
}

/// A command out of place is reported with the command before it and what the chip expects.
#[test]
fn commands_out_of_place_say_what_is_expected() {
    let text = |steps: &[Do]| {
        let mut bench = Bench::new(&mx30lf2g18ac());
        let (last, before) = steps.split_last().unwrap();
        before.iter().for_each(|step| {
            let _ = run(&mut bench, &[*step]);
        });
        run(&mut bench, &[*last]).unwrap_err().to_string()
    };
    assert_eq!(
        text(&[Cmd(0x10)]),
        "command 0x10 after 0xff: it ends a program, which 80h, an address and data begin"
    );
    assert_eq!(
        text(&[Cmd(0x80), Bytes(&[0, 0]), Cmd(0x10)]),
        "command 0x10 after 0x80, which was refused: it ends a program, which 80h, an address and data begin"
    );
    assert_eq!(
        text(&[Cmd(0x00), At(0, 0), Cmd(0x10)]),
        "command 0x10 after 0x00: a read was begun: expected is 30h, which ends its address"
    );
    assert_eq!(text(&[Cmd(0x42)]), "unknown command 0x42");
}

#[test]
fn the_first_command_is_reset() {
    let mut bench = Bench::asleep(&mx30lf2g18ac());
    assert!(matches!(bench.cmd(0x90), Err(Violation::Sequence(_))));
    bench.cmd(0xFF).unwrap();
}

#[test]
fn programs_keep_to_nop_order_and_protection() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    for column in 0..4 {
        bench.program(column * 512, 0, &[0]).unwrap();
    }
    assert_eq!(bench.program(2048, 0, &[0]), Err(Violation::TooManyPrograms));
    bench.set_feature(0xA0, 0x38).unwrap();
    assert_eq!(bench.program(0, 1, &[0]), Err(Violation::Protected));
    assert_eq!(bench.erase(0), Err(Violation::Protected));
    let mut bench = Bench::new(&nv_ddr());
    bench.program(0, 3, &[0]).unwrap();
    assert_eq!(bench.program(0, 2, &[0]), Err(Violation::OutOfOrder));
    assert_eq!(bench.program(0, 3, &[0]), Err(Violation::TooManyPrograms));
    bench.program(0, 4, &[0]).unwrap();
    bench.erase(0).unwrap();
    bench.program(0, 2, &[0]).unwrap();
}

/// In an earlier version, the first three programs of the same bytes were accepted.
#[test]
fn a_sub_page_is_programmed_once_by_every_way_in() {
    for stores in [true, false] {
        let mut bench = Bench::new(&mx30lf2g18ac());
        if !stores {
            bench.chip = RawNand::package(&mx30lf2g18ac(), ChipOptions::timing_only()).unwrap().remove(0);
            bench.cmd(0xFF).unwrap();
            bench.wait();
        }
        bench.program(0, 2, &[0xF0; 512]).unwrap();
        let ways: [&[Do]; 6] = [
            &[Cmd(0x80), At(0, 2), Put(1), Cmd(0x10)],
            &[Cmd(0x80), At(511, 2), Put(2), Cmd(0x10)],
            &[Cmd(0x80), At(0, 2), Put(1), Cmd(0x15)],
            &[Cmd(0x80), At(0, 2), Put(1), Cmd(0x11)],
            &[Cmd(0x80), At(600, 2), Put(1), Cmd(0x85), Bytes(&[0, 0]), Put(1), Cmd(0x10)],
            &[Cmd(0x00), At(0, 130), Cmd(0x35), Wait, Cmd(0x85), At(0, 2), Put(1), Cmd(0x10)],
        ];
        for _ in 0..2 {
            for steps in ways {
                assert_eq!(run(&mut bench, steps), Err(Violation::NotErased), "{stores} {steps:?}");
                bench.wait();
            }
        }
        // Ones change no cell, and the other parts are not programmed yet.
        bench.program(0, 2, &[0xFF; 2112]).unwrap();
        bench.program(512, 2, &[0; 1536]).unwrap();
        bench.program(2050, 2, &[0x85, 0x19]).unwrap();
        assert_eq!(bench.program(2052, 2, &[0]), Err(Violation::TooManyPrograms));
    }
}

#[test]
fn cycles_are_no_faster_than_the_mode_in_force() {
    let mut bench = Bench::new(&nv_ddr());
    for interface in [DataInterface::Sdr(1), DataInterface::NvDdr(0)] {
        bench.interface = interface;
        assert!(matches!(bench.cmd(0x70), Err(Violation::Timing(_))), "{interface}");
    }
    bench.interface = DataInterface::POWER_ON;
    bench.set_feature(0x01, 3).unwrap();
    bench.interface = DataInterface::Sdr(3);
    bench.cmd(0x70).unwrap();
    bench.interface = DataInterface::Sdr(4);
    assert!(bench.get(1).is_err());
    let mut slow = mx30lf2g18ac();
    slow.sdr_modes = crate::raw_nand::Modes::up_to(2);
    let mut bench = Bench::new(&slow);
    bench.interface = DataInterface::Sdr(3);
    assert!(bench.cmd(0x70).is_err());
}

/// Each data cycle that comes 1 ns before the end of its delay is rejected, and is accepted at the end.
#[test]
fn delays_are_kept() {
    let t = DataInterface::POWER_ON.timing();
    let sequences: [(&[Do], Nanos, Do); 5] = [
        (&[Cmd(0x70)], t.whr, Get(1)),
        (&[Cmd(0x90), Bytes(&[0])], t.whr, Get(1)),
        (&[Cmd(0x80), At(0, 0)], t.adl, Put(1)),
        (&[Cmd(0x80), At(0, 0), Put(1), Cmd(0x85), Bytes(&[9, 0])], t.ccs, Put(1)),
        (&[Cmd(0x00), At(0, 0), Cmd(0x30), Wait, Cmd(0x05), Bytes(&[0, 0]), Cmd(0xE0)], t.ccs, Get(1)),
    ];
    for (steps, delay, data) in sequences {
        for (early, accepted) in [(1, false), (0, true)] {
            let mut bench = Bench::new(&mx30lf2g18ac());
            run(&mut bench, steps).unwrap();
            // The test host takes 600 ns for a step.
            let step = Nanos::from_ns(600 + early);
            bench.now = floatgate_mtd::Instant::from_ns((bench.now + delay).as_ns() - step.as_ns());
            assert_eq!(run(&mut bench, &[data]).is_ok(), accepted, "{steps:?} {early}");
        }
    }
}

#[test]
fn data_waits_for_t_rr() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    run(&mut bench, &[Cmd(0x00), At(0, 0), Cmd(0x30)]).unwrap();
    let ready = crate::raw_nand::bus::NandChip::ready_at(&bench.chip);
    let t_rr = DataInterface::POWER_ON.timing().rr;
    for (early, accepted) in [(1, false), (0, true)] {
        run(&mut bench, &[Wait, Cmd(0xFF), Wait, Cmd(0x00), At(0, 0), Cmd(0x30)]).unwrap();
        let ready_now = crate::raw_nand::bus::NandChip::ready_at(&bench.chip);
        assert!(ready_now > ready);
        bench.now = floatgate_mtd::Instant::from_ns((ready_now + t_rr).as_ns() - 600 - early);
        assert_eq!(bench.get(1).is_ok(), accepted);
    }
}

/// A value that does not fit the parameter page is rejected, because the page would contain another one.
#[test]
fn what_the_parameter_page_cannot_state_is_refused() {
    let with = |change: fn(&mut crate::raw_nand::RawNandSpec)| {
        let mut spec = mx30lf2g18ac();
        change(&mut spec);
        RawNand::package(&spec, ChipOptions::default()).map(|_| ()).map_err(|bad| bad.key)
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|spec| spec.timing.t_bers_us.max = Nanos::from_us(65_536)), Err("timing.t_bers_us"));
    assert_eq!(with(|spec| spec.ecc.strength = 256), Err("ecc.strength"));
}

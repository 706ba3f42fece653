//! Tests of flash and its clock.

use crate::small;
use floatgate::config::{Library, Override};
use floatgate::mtd::Mtd;
use floatgate::sim::machine;
use floatgate::sim::rig::{self, RigOptions};
use floatgate::{Error, Instant, Nanos, Phase, Setup};

/// A device built by `sim` directly, without this crate, for comparison.
fn rig(name: &str, sets: &[&str], options: RigOptions) -> rig::Rig {
    let library = Library::built_in();
    let sets = Override::parse_all(sets).unwrap();
    let config = library.resolve(&library.setup(name).unwrap(), &sets).unwrap();
    rig::wire(&library, &config, options).unwrap()
}

#[test]
fn figures_are_those_of_lab() {
    let (name, set) = ("imx6-mx30lf2g18ac", "chip=mx30lf1g18ac");
    let mut flash = Setup::named(name).unwrap().with(set).unwrap().seed(42).bad_blocks(5).flash().unwrap();
    let options = RigOptions { seed: 42, bad_blocks: 5, ..RigOptions::default() };
    let mut rig = rig(name, &[set], options);
    assert_eq!(flash.now(), rig.now());

    let mut page = [0; 2048];
    let erased = flash.erase_block(3).unwrap();
    let written = flash.write(3 << 17, &[0xA5; 2048]).unwrap();
    let read = flash.read(3 << 17, &mut page).unwrap();
    assert_eq!(page, [0xA5; 2048]);

    let begin = rig.now();
    let done = rig.device.erase(begin, 3 << 17, 1 << 17).unwrap();
    assert_eq!(erased.total, done.at.since(begin));
    let begin = done.at;
    let done = rig.device.write(begin, 3 << 17, &[0xA5; 2048]).unwrap();
    assert_eq!(written.total, done.at.since(begin));
    let (begin, before) = (done.at, rig.device.breakdown());
    let done = rig.device.read(begin, 3 << 17, &mut page).unwrap();
    assert_eq!((read.total, read.breakdown), (done.at.since(begin), rig.device.breakdown() - before));
    assert_eq!(flash.now(), done.at);
}

#[test]
fn a_breakdown_adds_up_and_is_printed() {
    let mut flash = Setup::named("imx6-mx30lf2g18ac").unwrap().flash().unwrap();
    let took = flash.read(0, &mut [0; 2048]).unwrap();
    assert_eq!(took.breakdown.total(), took.total);
    assert!(took.breakdown[Phase::Array] > Nanos::ZERO && took.breakdown[Phase::Data] > Nanos::ZERO);
    let printed = took.to_string();
    assert!(
        printed.starts_with(&format!("{}: array ", took.total)) && printed.contains(", data "),
        "{printed}"
    );
}

#[test]
fn corrected_bits_are_counted() {
    let board = Setup::named("ma35d1-w25n02jw").unwrap();
    let old =
        ["chip=mx35lf2ge4ad", "cells.cycles=60000", "cells.age_days=365", "cells.age_temperature_c=125"];
    let setup = old.iter().try_fold(board, |setup, change| setup.with(change)).unwrap();
    let mut flash = setup.flash().unwrap();
    let bytes = flash.geometry().erase_bytes as usize;
    flash.erase_block(0).unwrap();
    flash.write(0, &vec![0x5A; bytes]).unwrap();
    let mut data = vec![0; bytes];
    let took = flash.read(0, &mut data);
    match took {
        Ok(took) if took.bitflips > 0 => assert!(took.to_string().ends_with(" corrected"), "{took}"),
        took => panic!("no wrong bits in an old block: {took:?}"),
    }
}

#[test]
fn factory_bad_blocks_follow_from_the_seed() {
    let bad = |seed| {
        let mut flash =
            Setup::named("am62a-nopm-w35n01jw").unwrap().seed(seed).bad_blocks(5).flash().unwrap();
        let blocks = 0..flash.geometry().blocks();
        blocks.filter(|&block| flash.is_bad(block).unwrap()).collect::<Vec<u32>>()
    };
    assert_eq!(bad(7).len(), 5);
    assert_eq!(bad(7), bad(7));
    assert_ne!(bad(7), bad(8));
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut flash = small().flash().unwrap();
    flash.erase_block(0).unwrap();
    let mut copy = flash.clone();
    let page = vec![0; flash.geometry().write_bytes as usize];
    copy.write(0, &page).unwrap();
    let mut seen = vec![1; page.len()];
    flash.read(0, &mut seen).unwrap();
    assert!(seen.iter().all(|&byte| byte == 0xFF));
}

#[test]
fn the_clock_goes_on_after_a_failure_and_a_pause() {
    let mut flash = small().flash().unwrap();
    let page = vec![0; flash.geometry().write_bytes as usize];
    flash.erase_block(0).unwrap();
    flash.write(0, &page).unwrap();
    let failed = match flash.write(0, &page).unwrap_err() {
        Error::Flash(error) => error,
        other => panic!("{other}"),
    };
    assert!(flash.now() >= failed.at);
    let before = flash.now();
    flash.wait(Nanos::from_ms(5));
    assert_eq!(flash.now().since(before), Nanos::from_ms(5));
    // No time is booked for the pause.
    let took = flash.read(0, &mut [0; 16]).unwrap();
    assert_eq!(took.breakdown[Phase::Waiting], Nanos::ZERO);
    assert!(flash.now() > Instant::ZERO);
}

#[test]
fn all_blocks_but_bad_ones_are_erased() {
    let mut flash = small().bad_blocks(3).flash().unwrap();
    flash.mark_bad(1).unwrap();
    flash.erase_all().unwrap();
    assert!(flash.is_bad(1).unwrap());
    assert!(flash.erase_block(1).unwrap_err().help().unwrap().contains("is_bad"));
}

#[test]
fn a_mount_takes_as_long_as_in_lab() {
    let setup = small();
    let flash = setup.ubifs().unwrap().format(setup.flash().unwrap()).unwrap().unmount().unwrap();
    let mounted = setup.ubifs().unwrap().mount(flash).unwrap();

    let rig = rig("am62a-nopm-w35n01jw", &["partition.size=8MiB"], RigOptions::default());
    let layers = machine::Filesystem::of_setup(&setup.config().unwrap()).unwrap().layers().unwrap();
    let (device, unmounted) = machine::make(rig, &layers).unwrap().into_device().unwrap();
    let fs = layers.mount(device, unmounted, &mut |_, _| ()).unwrap();
    assert_eq!(mounted.mount_time(), fs.now().since(unmounted));
    assert_eq!(mounted.now(), fs.now());
}

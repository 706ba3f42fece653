//! Tests of power cuts.

use crate::small;
use floatgate::{Cut, Error, Filesystem, Flash, Fs, Nanos};

/// A filesystem with one synced file and one unsynced file.
fn changed(kind: &Filesystem) -> Fs {
    let mut fs = kind.format(small().flash().unwrap()).unwrap();
    fs.write_file("/synced", "here").unwrap();
    fs.sync().unwrap();
    fs.write_file("/new", vec![0x5A; 10_000]).unwrap();
    fs
}

/// Mounts after a cut, and checks that the synced file is present.
fn recovered(kind: &Filesystem, flash: Flash) -> Fs {
    assert!(flash.is_powered());
    let mut fs = kind.mount(flash).unwrap();
    assert_eq!(fs.read_file("/synced").unwrap(), b"here");
    assert_eq!(fs.filesystem().check().unwrap(), Vec::<String>::new());
    fs
}

#[test]
fn a_cut_at_each_operation_of_a_sync_is_recovered() {
    let kind = small().ubifs().unwrap();
    let fs = changed(&kind);
    let mut cuts = 0;
    let operations = loop {
        match fs.clone().power_cut(Cut::at_operation(cuts + 1).share(0.7)) {
            Ok(flash) => drop(recovered(&kind, flash)),
            Err(Error::CutNotReached { operations }) => break operations,
            Err(other) => panic!("{other}"),
        }
        cuts += 1;
    };
    assert_eq!(cuts, operations);
    assert!(operations > 3, "{operations}");
    // The clone that was made before the cuts is not affected by them.
    let mut fs = fs;
    fs.sync().unwrap();
    assert_eq!(recovered(&kind, fs.power_off().unwrap()).read_file("/new").unwrap(), vec![0x5A; 10_000]);
}

#[test]
fn power_that_goes_before_a_sync_takes_what_was_in_memory() {
    let kind = small().ubifs().unwrap();
    let mut fs = recovered(&kind, changed(&kind).power_off().unwrap());
    assert!(fs.read_file("/new").map_or(true, |data| data.len() < 10_000 || data == [0; 10_000]));
}

#[test]
fn a_cut_may_come_in_any_call() {
    let kind = small().jffs2().unwrap();
    let mut fs = changed(&kind);
    fs.order_cut(Cut::at_operation(2)).unwrap();
    let mut calls = (0..1000).map(|number| fs.write_file(format!("/{number}"), vec![7; 3000]));
    let failed = calls.find_map(Result::err).unwrap();
    assert!(failed.is_power_loss(), "{failed}");
    assert!(failed.help().unwrap().contains("power_off"));
    recovered(&kind, fs.power_off().unwrap());
}

#[test]
fn a_program_is_torn_on_bare_flash() {
    let setup = small().with("ecc.engine=none").unwrap();
    for (cut, is_torn) in [(Cut::at_operation(1).share(0.5), true), (Cut::after(Nanos::ZERO), false)] {
        let mut flash = setup.flash().unwrap();
        let page = vec![0; flash.geometry().write_bytes as usize];
        flash.erase_block(0).unwrap();
        flash.order_cut(cut).unwrap();
        let failed = flash.write(0, &page).unwrap_err();
        assert!(failed.is_power_loss() && !flash.is_powered(), "{failed}");
        assert!(failed.help().unwrap().contains("restart"));
        assert!(flash.read(0, &mut [0]).unwrap_err().is_power_loss());
        flash.restart().unwrap();
        let mut seen = page.clone();
        flash.read(0, &mut seen).unwrap();
        let ones: u32 = seen.iter().map(|byte| byte.count_ones()).sum();
        let all = 8 * seen.len() as u32;
        assert_eq!(ones < all, is_torn, "{ones} of {all} bits");
        assert!(ones > 0);
    }
}

#[test]
fn impossible_cuts_are_refused() {
    let mut flash = small().flash().unwrap();
    for (cut, message) in [
        (Cut::at_operation(0), "a power cut at operation 0: they are counted from 1"),
        (Cut::at_operation(1).share(1.5), "a power cut at 1.5 of an operation"),
        (Cut::at_operation(1).share(f64::NAN), "a power cut at NaN of an operation"),
    ] {
        let refused = flash.order_cut(cut).unwrap_err();
        assert!(matches!(refused, Error::Cut(_)));
        assert_eq!(refused.to_string(), message);
    }
    flash.erase_block(0).unwrap();
    let late = changed(&small().ubifs().unwrap()).power_cut(Cut::at_operation(u64::MAX)).unwrap_err();
    assert!(late.to_string().starts_with("sync ended before the power cut, after "), "{late}");
}

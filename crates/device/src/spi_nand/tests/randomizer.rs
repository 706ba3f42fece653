//! Tests of the randomizer: contents that a reader sees with it enabled and disabled.

use super::rig::{Driver, Rig, spec};
use crate::oracle::Oracle;
use crate::spi::{Data, SpiMem, SpiOp};
use crate::spi_nand::spec::Randomizer;
use crate::spi_nand::{Options, ProbeError, SpiNandSpec};
use crate::timeline::Host;
use floatgate_mtd::Mtd;

fn with_randomizer() -> SpiNandSpec {
    // Like the chip MX35LF2G24AD.
    SpiNandSpec { randomizer: Some(Randomizer { feature: 0x10, bit: 1 }), ..spec("mx35lf2ge4ad") }
}

fn driver(on: Option<bool>) -> Driver {
    let mut rig = Rig::new("1S-1S-4S");
    rig.options = Options { randomizer: on, ..Options::default() };
    rig.custom(with_randomizer())
}

#[test]
fn data_are_random_in_the_array_and_plain_for_the_reader() {
    let data = vec![0; 4096];
    let stored = |on| {
        let mut d = driver(on);
        let page = d.geometry().write_bytes as usize;
        d.write(d.ready_at(), 0, &data[..page]).unwrap();
        let mut got = vec![1; 2 * page];
        d.read(d.ready_at(), 0, &mut got).unwrap();
        assert!(got[..page] == data[..page], "{on:?}");
        // An erased page reads as erased, and so does the OOB with the marker.
        assert!(got[page..].iter().all(|byte| *byte == 0xFF), "{on:?}");
        let row = d.bus().chip().array(0).unwrap().stored(0).unwrap().to_vec();
        assert_eq!(row[page], 0xFF);
        row[..page].iter().map(|byte| byte.count_ones()).sum::<u32>()
    };
    assert_eq!((stored(None), stored(Some(false))), (0, 0));
    let ones = stored(Some(true));
    assert!((7_000..9_500).contains(&ones), "{ones} of 16384 or 32768 bits");
}

#[test]
fn a_dump_without_the_randomizer_is_random() {
    let mut d = driver(Some(true));
    let page = d.geometry().write_bytes as usize;
    d.write(d.ready_at(), 0, &vec![0x5A; page]).unwrap();
    let mut host = Host::default();
    host.resume(d.ready_at());
    let off = SpiOp::command(0x1F).address(0x10, 1).write(1);
    d.bus_mut().exec(&mut host, &off, Data::Out(&[0])).unwrap();
    let mut got = vec![0; page];
    d.read(host.now(), 0, &mut got).unwrap();
    assert!(got.iter().filter(|byte| **byte == 0x5A).count() < page / 16);
}

#[test]
fn a_chip_without_one_refuses_the_option() {
    let mut rig = Rig::new("1S-1S-4S");
    rig.options = Options { randomizer: Some(true), ..Options::default() };
    assert_eq!(rig.probe("mx35lf2ge4ad").err(), Some(ProbeError::NoRandomizer));
}

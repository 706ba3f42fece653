//! Tests of row addresses whose upper bits are the second command byte (W35N02JW, W35N04JW).

use super::rig::{Driver, Rig, spec};
use crate::spi::{CmdExt, Data, Mode, SpiError, SpiMem, SpiOp};
use crate::spi_nand::SpiNandSpec;
use crate::timeline::Host;
use crate::violation::Violation;
use floatgate_mtd::Mtd;

/// Specification of a chip with four dies, like W35N04JW.
fn four_dies() -> SpiNandSpec {
    let mut spec = spec("w35n02jw");
    spec.geometry.luns = 4;
    spec
}

fn driver(mode: &str) -> Driver {
    Rig::new(mode).custom(four_dies())
}

/// The rows of dies 2 and 3 begin at 65,536.
#[test]
fn every_die_is_reached_in_octal_double_rate() {
    for mode in ["1S-8S-8S", "8D-8D-8D"] {
        let mut d = driver(mode);
        let (page, die) = (d.geometry().write_bytes as usize, d.geometry().size_bytes / 4);
        for index in 0..4u8 {
            let at = u64::from(index) * die;
            d.erase(d.ready_at(), at, u64::from(d.geometry().erase_bytes)).unwrap();
            d.write(d.ready_at(), at, &vec![index; page]).unwrap();
        }
        for index in 0..4u8 {
            let mut got = vec![0xFF; page];
            d.read(d.ready_at(), u64::from(index) * die, &mut got).unwrap();
            assert!(got.iter().all(|byte| *byte == index), "{mode}: die {index}");
        }
    }
}

/// Early versions of Linux 7.0 repeated the command byte: its bits then address a row that no die
/// has.
#[test]
fn a_repeated_command_is_a_wrong_row() {
    let mut d = driver("8D-8D-8D");
    let mut host = Host::default();
    host.resume(d.ready_at());
    let read = SpiOp::command(0x13).mode(Mode::OCTAL_DTR).address(0, 2);
    let mut send = |ext| d.bus_mut().exec(&mut host, &SpiOp { ext, ..read }, Data::None);
    assert_eq!(send(CmdExt::Repeat), Err(SpiError::Chip(Violation::BadAddress)));
    assert_eq!(send(CmdExt::Row(1)), Ok(()));
    let mut plain = Rig::new("8D-8D-8D").driver("w35n01jw");
    let mut host = Host::default();
    host.resume(plain.ready_at());
    let refused = plain.bus_mut().exec(&mut host, &SpiOp { ext: CmdExt::Row(1), ..read }, Data::None);
    assert_eq!(refused, Err(SpiError::Chip(Violation::UnknownCommand(0x13))));
}

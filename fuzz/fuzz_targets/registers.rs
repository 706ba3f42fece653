//! Registers of SD cards and eMMC, as bytes and as hexadecimal text. Values that a register cannot express are rounded once: what is emitted is parsed
//! and emitted again without a change.

#![no_main]

use floatgate_media::sd::{CardType, Cid, Csd, ExtCsd, Scr, Ssr, parse_hex};
use libfuzzer_sys::fuzz_target;
use std::fmt::Debug;

/// The first bytes, filled with zeros.
fn front<const N: usize>(data: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(data).for_each(|(byte, value)| *byte = *value);
    bytes
}

/// Emits and parses a register twice.
fn check<T: Debug + PartialEq>(value: T, again: impl Fn(&T) -> T) {
    let once = again(&value);
    assert_eq!(again(&once), once);
}

fuzz_target!(|data: &[u8]| {
    for kind in [CardType::Sd, CardType::Mmc] {
        check(Cid::parse(&front(data), kind), |cid| Cid::parse(&cid.emit(kind), kind));
        check(Csd::parse(&front(data), kind), |csd| Csd::parse(&(*csd)?.emit(kind), kind));
    }
    check(Scr::parse(&front(data)), |scr| Scr::parse(&scr.emit()));
    check(Ssr::parse(&front(data)), |ssr| Ssr::parse(&ssr.emit()));
    let ext_csd = ExtCsd::parse(&front(data));
    let _ = ext_csd.write_protect_bytes();
    check(ext_csd, |ext_csd| ExtCsd::parse(&ext_csd.emit()));
    let text = String::from_utf8_lossy(data);
    let _ = parse_hex::<16>(&text);
    let _ = parse_hex::<512>(&text);
});

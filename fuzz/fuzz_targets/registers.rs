//! Registers of SD cards and eMMC, as bytes and as hexadecimal text: what is emitted again is parsed as the same values.

#![no_main]

use floatgate_media::sd::{CardType, Cid, Csd, ExtCsd, Scr, Ssr, parse_hex};
use libfuzzer_sys::fuzz_target;

/// The first bytes, filled with zeros.
fn front<const N: usize>(data: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(data).for_each(|(byte, value)| *byte = *value);
    bytes
}

fuzz_target!(|data: &[u8]| {
    for kind in [CardType::Sd, CardType::Mmc] {
        let cid = Cid::parse(&front(data), kind);
        assert_eq!(Cid::parse(&cid.emit(kind), kind), cid);
        if let Ok(csd) = Csd::parse(&front(data), kind) {
            assert_eq!(Csd::parse(&csd.emit(kind), kind), Ok(csd));
        }
    }
    let scr = Scr::parse(&front(data));
    assert_eq!(Scr::parse(&scr.emit()), scr);
    let ssr = Ssr::parse(&front(data));
    assert_eq!(Ssr::parse(&ssr.emit()), ssr);
    let ext_csd = ExtCsd::parse(&front(data));
    let _ = ext_csd.write_protect_bytes();
    assert_eq!(ExtCsd::parse(&ext_csd.emit()), ext_csd);
    let text = String::from_utf8_lossy(data);
    let _ = parse_hex::<16>(&text);
    let _ = parse_hex::<512>(&text);
});

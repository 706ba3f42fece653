//! Nodes of the LEB properties tree, as they are and with the CRC mended, in a small and a big model.

#![no_main]

use floatgate_media::crc;
use floatgate_media::ubifs::lpt::{Geometry, Kind, Lsave, Ltab, Nnode, Parameters, Pnode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for big in [false, true] {
        let geometry = geometry(big);
        read(data, &geometry);
        for kind in Kind::ALL {
            let mut mended = data.to_vec();
            mended.resize(kind.bytes(&geometry), 0);
            mended[2] = mended[2] & 0xF0 | kind.code();
            let sum = crc::lpt(&mended[2..]);
            mended[..2].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(Kind::find(&mended, &geometry), Some(kind));
            read(&mended, &geometry);
        }
    }
});

fn geometry(big: bool) -> Geometry {
    let first_lnum = 7;
    let lebs = if big { 16 } else { 2 };
    Geometry::new(&Parameters {
        first_lnum,
        lebs,
        main: first_lnum + lebs + 1..60,
        max_leb_count: if big { 12_000 } else { 60 },
        leb_bytes: 15872,
        min_io_bytes: 512,
        lsave_count: 256,
        big,
    })
}

/// Whatever reads has to write and read the same again.
fn read(bytes: &[u8], geometry: &Geometry) {
    let mut out = [0; 1024];
    if let Ok(node) = Pnode::parse(bytes, geometry) {
        let _ = node.check(geometry, 0);
        node.emit(geometry, &mut out).unwrap();
        assert_eq!(Pnode::parse(&out, geometry), Ok(node));
    }
    if let Ok(node) = Nnode::parse(bytes, geometry)
        && node.check(geometry, 1, node.number).is_ok()
    {
        node.emit(geometry, &mut out).unwrap();
        assert_eq!(Nnode::parse(&out, geometry), Ok(node));
    }
    if let Ok(table) = Ltab::parse(bytes, geometry) {
        Ltab::emit(table.lebs(), geometry, &mut out).unwrap();
        assert!(Ltab::parse(&out, geometry).unwrap().lebs().eq(table.lebs()));
    }
    if let Ok(table) = Lsave::parse(bytes, geometry) {
        Lsave::emit(table.lnums(), geometry, &mut out).unwrap();
        assert!(Lsave::parse(&out, geometry).unwrap().lnums().eq(table.lnums()));
    }
}

//! Tests with READ ID bytes of real chips.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::{hex, mangle};
use floatgate_media::nand_id::{self, NandId, NandIdGeometry, manufacturer_name};
use proptest::prelude::*;

/// (page, spare, block in KiB, chip in MiB, bus, bits per cell) of an id.
fn shape(id: &str) -> (u32, u32, u32, u64, u8, u8) {
    short(&nand_id::parse(&hex(id)).unwrap())
}

fn short(geometry: &NandIdGeometry) -> (u32, u32, u32, u64, u8, u8) {
    (
        geometry.page_bytes,
        geometry.oob_bytes,
        geometry.block_bytes >> 10,
        geometry.chip_bytes >> 20,
        geometry.bus_width,
        geometry.bits_per_cell,
    )
}

#[test]
fn small_page_chips_by_device_code() {
    assert_eq!(shape("ec76"), (512, 16, 16, 64, 8, 1));
    assert_eq!(shape("20e6"), (512, 16, 8, 8, 8, 1));
    assert_eq!(shape("ad56"), (512, 16, 16, 64, 16, 1));
}

#[test]
fn large_page_chips_by_the_common_rules() {
    // Micron MT29F2G08AAD, Samsung K9F1G08U0B, Hynix HY27UF082G2B, Macronix MX30LF1G08AA.
    assert_eq!(shape("2cda801550"), (2048, 64, 128, 256, 8, 1));
    assert_eq!(shape("ecf10095402cda80"), (2048, 64, 128, 128, 8, 1));
    assert_eq!(shape("adda109544"), (2048, 64, 128, 256, 8, 1));
    assert_eq!(shape("c2f1801d"), (2048, 64, 128, 128, 8, 1));
    // Micron MT29F1G16ABB: 16-bit bus.
    assert_eq!(shape("2cb1805502"), (2048, 64, 128, 128, 16, 1));
}

#[test]
fn vendors_exceptions() {
    // Samsung K9GAG08U0E: MLC with six id bytes.
    assert_eq!(shape("ecd584725042ecd5"), (8192, 436, 1024, 2048, 8, 2));
    // Hynix H27UBG8T2B: MLC with six id bytes.
    assert_eq!(shape("add794da74c3add7"), (8192, 640, 2048, 4096, 8, 2));
    // Toshiba TC58NVG1S3H: 24 nm SLC, 32 spare bytes for each 512 data bytes.
    assert_eq!(shape("98da901576160100"), (2048, 128, 128, 256, 8, 1));
    // Toshiba TC58BVG1S3H: on-die ECC, usual spare size.
    assert_eq!(shape("98da9015f6160100"), (2048, 64, 128, 256, 8, 1));
    // Toshiba TC58NVG2S0F and SanDisk SDTNQGAMA: identified by the whole id.
    assert_eq!(shape("98dc902676150108"), (4096, 224, 256, 512, 8, 1));
    assert_eq!(shape("45de94937657"), (16384, 1280, 4096, 8192, 8, 2));
}

#[test]
fn hynix_spare_depends_on_the_jedec_signature() {
    let id = NandId::new(&hex("adde14a7424b")).unwrap();
    assert_eq!(short(&id.with_jedec_signature().geometry().unwrap()).1, 1664);
    assert_eq!(short(&id.geometry().unwrap()).1, 448);
}

#[test]
fn repetition_and_zeros_are_not_part_of_the_id() {
    let id = NandId::new(&hex("2cda80152cda8015")).unwrap();
    assert_eq!(id.bytes(), hex("2cda8015"));
    let id = NandId::new(&hex("98da901500000000")).unwrap();
    assert_eq!(id.bytes(), hex("98da9015"));
    assert_eq!((id.manufacturer(), id.device()), (0x98, 0xda));
    assert_eq!(id.manufacturer_name(), Some("Toshiba"));
    assert_eq!(manufacturer_name(0xaa), None);
}

#[test]
fn errors_name_the_byte() {
    let error = |id: &str| nand_id::parse(&hex(id)).unwrap_err().to_string();
    assert_eq!(error("2c"), "byte 0x0: truncated: 2 bytes needed, 1 present");
    assert_eq!(error("0000"), "byte 0x0: unknown NAND manufacturer 0x00");
    assert_eq!(error("2c99"), "byte 0x1: unknown NAND device 0x99");
    assert_eq!(error("2cda"), "byte 0x0: truncated: 4 bytes needed, 2 present");
    assert_eq!(error("ecd584025042"), "byte 0x3: unknown Samsung spare size 0x02");
}

#[test]
fn emit_is_the_inverse_of_the_common_rules() {
    let wanted = nand_id::parse(&hex("2cda801550")).unwrap();
    assert_eq!(nand_id::emit(0x2c, &wanted).unwrap().as_slice(), hex("2cda001540"));
    let odd = NandIdGeometry { oob_bytes: 100, ..wanted };
    let error = nand_id::emit(0x2c, &odd).unwrap_err();
    assert_eq!(error.to_string(), "byte 0x3: oob_bytes out of range: 100");
}

proptest! {
    #[test]
    fn anything_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
        let Ok(geometry) = nand_id::parse(&bytes) else { return Ok(()) };
        prop_assert!(geometry.page_bytes >= 512 && geometry.oob_bytes > 0);
        if let Ok(id) = nand_id::emit(bytes[0], &geometry) {
            prop_assert_eq!(nand_id::parse(&id), Ok(geometry));
        }
        mangle(&bytes, |mangled| {
            let _ = nand_id::parse(mangled);
        });
    }
}

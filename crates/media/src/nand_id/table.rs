//! Tables of manufacturer codes, device codes and exceptional ids.

use super::{MAX_ID_BYTES, NandIdGeometry};

const KIB: u32 = 1024;
const MIB: u64 = 1024 * 1024;

/// Manufacturer codes of NAND makers (first bank of JEP106).
const MANUFACTURERS: [(u8, &str); 16] = [
    (0x01, "AMD/Spansion"),
    (0x04, "Fujitsu"),
    (0x07, "Renesas"),
    (0x20, "STMicroelectronics"),
    (0x2c, "Micron"),
    (0x45, "SanDisk"),
    (0x89, "Intel"),
    (0x8f, "National"),
    (0x92, "Eon"),
    (0x98, "Toshiba"),
    (0x9b, "ATO"),
    (0xad, "Hynix"),
    (0xc2, "Macronix"),
    (0xc8, "ESMT"),
    (0xec, "Samsung"),
    (0xef, "Winbond"),
];

/// Name of a manufacturer code, if known.
#[must_use]
pub fn manufacturer_name(code: u8) -> Option<&'static str> {
    MANUFACTURERS.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

/// Chip size and bus width of a device code.
#[derive(Clone, Copy)]
pub(super) struct Device {
    code: u8,
    mib: u32,
    pub(super) wide: bool,
}

impl Device {
    pub(super) fn chip_bytes(self) -> u64 {
        u64::from(self.mib) * MIB
    }
}

const fn narrow(code: u8, mib: u32) -> Device {
    Device { code, mib, wide: false }
}

const fn wide(code: u8, mib: u32) -> Device {
    Device { code, mib, wide: true }
}

/// Chips with 512-byte pages and 8 KiB blocks.
#[rustfmt::skip]
const SMALL_BLOCK: [Device; 5] = [
    narrow(0x6b, 4), narrow(0xe3, 4), narrow(0xe5, 4),
    narrow(0xd6, 8), narrow(0xe6, 8),
];

/// Chips with 512-byte pages and 16 KiB blocks.
#[rustfmt::skip]
const SMALL_PAGE: [Device; 20] = [
    narrow(0x33, 16), narrow(0x73, 16), wide(0x43, 16), wide(0x53, 16),
    narrow(0x35, 32), narrow(0x75, 32), wide(0x45, 32), wide(0x55, 32),
    narrow(0x36, 64), narrow(0x76, 64), wide(0x46, 64), wide(0x56, 64),
    narrow(0x78, 128), narrow(0x39, 128), narrow(0x79, 128),
    wide(0x72, 128), wide(0x49, 128), wide(0x74, 128), wide(0x59, 128),
    narrow(0x71, 256),
];

/// Device codes of chips whose page size is encoded in the id bytes that follow.
#[rustfmt::skip]
const LARGE_PAGE: [Device; 51] = [
    narrow(0xf0, 64), narrow(0xf2, 64), narrow(0xd0, 64), narrow(0xa2, 64), narrow(0xa0, 64),
    wide(0xc2, 64), wide(0xc0, 64), wide(0xb2, 64), wide(0xb0, 64),
    narrow(0xf1, 128), narrow(0xd1, 128), narrow(0xa1, 128),
    wide(0xc1, 128), wide(0xb1, 128), wide(0xad, 128),
    narrow(0xda, 256), narrow(0xaa, 256), wide(0xca, 256), wide(0xba, 256),
    narrow(0xdc, 512), narrow(0xac, 512), wide(0xcc, 512), wide(0xbc, 512),
    narrow(0xd3, 1 << 10), narrow(0xa3, 1 << 10), wide(0xc3, 1 << 10), wide(0xb3, 1 << 10),
    narrow(0xd5, 2 << 10), narrow(0xa5, 2 << 10), wide(0xc5, 2 << 10), wide(0xb5, 2 << 10),
    narrow(0xd7, 4 << 10), narrow(0xa7, 4 << 10), wide(0xc7, 4 << 10), wide(0xb7, 4 << 10),
    narrow(0xde, 8 << 10), narrow(0xae, 8 << 10), wide(0xce, 8 << 10), wide(0xbe, 8 << 10),
    narrow(0x3a, 16 << 10), narrow(0x1a, 16 << 10), wide(0x4a, 16 << 10), wide(0x2a, 16 << 10),
    narrow(0x3c, 32 << 10), narrow(0x1c, 32 << 10), wide(0x4c, 32 << 10), wide(0x2c, 32 << 10),
    narrow(0x3e, 64 << 10), narrow(0x1e, 64 << 10), wide(0x4e, 64 << 10), wide(0x2e, 64 << 10),
];

fn find(devices: &[Device], code: u8) -> Option<Device> {
    devices.iter().find(|device| device.code == code).copied()
}

/// Geometry of a device code that defines it completely.
pub(super) fn small_page(code: u8) -> Option<NandIdGeometry> {
    let shape = |device: Device, block_bytes| NandIdGeometry {
        page_bytes: 512,
        oob_bytes: 16,
        block_bytes,
        chip_bytes: device.chip_bytes(),
        bus_width: if device.wide { 16 } else { 8 },
        bits_per_cell: 1,
    };
    let small = find(&SMALL_BLOCK, code).map(|device| shape(device, 8 * KIB));
    small.or_else(|| find(&SMALL_PAGE, code).map(|device| shape(device, 16 * KIB)))
}

/// Chip size and bus width of a device code that does not define the page size.
pub(super) fn large_page(code: u8) -> Option<Device> {
    find(&LARGE_PAGE, code)
}

/// The first device code with this chip size and bus width; 3.3 V devices come first.
pub(super) fn device_code(geometry: &NandIdGeometry) -> Option<u8> {
    let wide = geometry.bus_width == 16;
    let fits = |device: &&Device| device.chip_bytes() == geometry.chip_bytes && device.wide == wide;
    LARGE_PAGE.iter().find(fits).map(|device| device.code)
}

/// A chip that is identified by its whole id.
struct FullId {
    id: &'static [u8],
    page_bytes: u32,
    oob_bytes: u32,
    block_bytes: u32,
    mib: u32,
}

const fn full(id: &'static [u8], page_kib: u32, oob_bytes: u32, block_kib: u32, mib: u32) -> FullId {
    FullId { id, page_bytes: page_kib * KIB, oob_bytes, block_bytes: block_kib * KIB, mib }
}

/// Chips whose id does not follow their vendor's rules.
#[rustfmt::skip]
const FULL_IDS: [FullId; 12] = [
    // SanDisk SDTNQGAMA and SDTNRGAMA.
    full(&[0x45, 0xde, 0x94, 0x93, 0x76, 0x57], 16, 1280, 4096, 8192),
    full(&[0x45, 0xde, 0x94, 0x93, 0x76, 0x50], 16, 1280, 4096, 8192),
    // Toshiba TC58NVG0S3E, TC58NVG2S0F, TC58NVG2S0H, TC58NVG3S0F, TC58NVG5D2, TC58NVG6D2.
    full(&[0x98, 0xd1, 0x90, 0x15, 0x76, 0x14, 0x01, 0x00], 2, 64, 128, 128),
    full(&[0x98, 0xdc, 0x90, 0x26, 0x76, 0x15, 0x01, 0x08], 4, 224, 256, 512),
    full(&[0x98, 0xdc, 0x90, 0x26, 0x76, 0x16, 0x08, 0x00], 4, 256, 256, 512),
    full(&[0x98, 0xd3, 0x90, 0x26, 0x76, 0x15, 0x02, 0x08], 4, 232, 256, 1024),
    full(&[0x98, 0xd7, 0x94, 0x32, 0x76, 0x56, 0x09, 0x00], 8, 640, 1024, 4096),
    full(&[0x98, 0xde, 0x94, 0x82, 0x76, 0x56, 0x04, 0x20], 8, 640, 2048, 8192),
    // Toshiba TH58NVG2S3HBAI4 and TH58NVG3S0HBAI4.
    full(&[0x98, 0xdc, 0x91, 0x15, 0x76], 2, 128, 128, 512),
    full(&[0x98, 0xd3, 0x91, 0x26, 0x76], 4, 256, 256, 1024),
    // Hynix H27UCG8T2ATR-BC and H27UCG8T2ETR-BC.
    full(&[0xad, 0xde, 0x94, 0xda, 0x74, 0xc4], 8, 640, 2048, 8192),
    full(&[0xad, 0xde, 0x14, 0xa7, 0x42, 0x4a], 16, 1664, 4096, 8192),
];

/// Geometry of a chip that is identified by its whole id.
pub(super) fn full_id(bytes: &[u8; MAX_ID_BYTES]) -> Option<NandIdGeometry> {
    let [_, _, third, ..] = *bytes;
    let chip = FULL_IDS.iter().find(|chip| bytes.starts_with(chip.id))?;
    Some(NandIdGeometry {
        page_bytes: chip.page_bytes,
        oob_bytes: chip.oob_bytes,
        block_bytes: chip.block_bytes,
        chip_bytes: u64::from(chip.mib) * MIB,
        bus_width: 8,
        bits_per_cell: (third >> 2 & 3) + 1,
    })
}

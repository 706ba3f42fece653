//! Formats that a map detects, one file for each.
//!
//! A probe receives the range of the dump from a magic number of its format on. It verifies the format by its checksums and
//! fields, and determines the length of the part.

mod android;
mod broadcom;
mod cramfs;
mod disk;
mod erofs;
pub(crate) mod ext;
mod f2fs;
pub(crate) mod fdt;
mod littlefs;
mod mediatek;
mod redboot;
mod romfs;
mod sparse;
mod spiffs;
mod squashfs;
mod trx;
pub(crate) mod uboot_env;
mod uimage;
pub(super) mod wear_levelling;
mod yaffs;

pub(crate) use spiffs::shape as spiffs_shape;

use super::probe_match::ProbeMatch;
use super::view::View;

/// Condition for the beginning of a format.
pub(crate) enum Begins {
    /// One of these magic numbers is at byte `at` of the part, and the part begins at a multiple of `step`.
    Magic {
        /// Byte of the part.
        at: usize,
        /// Possible magic numbers, as byte strings.
        magics: &'static [&'static [u8]],
        /// The part begins at multiples of this.
        step: u64,
    },
    /// A test of the first bytes, for formats without a magic number that is long enough to be searched for.
    Head {
        /// The part begins at multiples of this.
        step: usize,
        /// Number of bytes at the beginning of a dump in which the part may begin at any byte: something is in front of it.
        front: usize,
        /// True for the first bytes of the format.
        test: fn(&[u8]) -> bool,
    },
}

/// A format: the condition for its beginning, and its probe.
pub(crate) struct Probe {
    pub(crate) begins: Begins,
    pub(crate) probe: fn(&View<'_>) -> Option<ProbeMatch>,
}

/// All formats. If two of them may begin at the same offset, the first one in this list is tried first.
pub(crate) const PROBES: &[&Probe] = &[
    &squashfs::PROBE,
    &uimage::PROBE,
    &fdt::PROBE,
    &trx::PROBE,
    &sparse::PROBE,
    &android::PROBE,
    &erofs::PROBE,
    &cramfs::PROBE,
    &romfs::PROBE,
    &littlefs::PROBE,
    &f2fs::PROBE,
    &ext::PROBE,
    &disk::GPT,
    &disk::FAT,
    &disk::EXFAT,
    &disk::MBR,
    &broadcom::TAG,
    &broadcom::CFE,
    &mediatek::NMBM,
    &mediatek::BMT,
    &redboot::PROBE,
    &uboot_env::PROBE,
    &spiffs::PROBE,
    &yaffs::PROBE,
];

/// Length with the padding up to a multiple of 4 KiB or 1 KiB, if that is blank: tools pad filesystems so.
fn padded(view: &View<'_>, len: u64) -> u64 {
    let is_blank = |end: &u64| {
        let padding = usize::try_from(end.saturating_sub(len)).ok().and_then(|bytes| view.bytes(len, bytes));
        padding.is_some_and(|bytes| [0, 0xFF].iter().any(|blank| bytes.iter().all(|byte| byte == blank)))
    };
    let ends = [4096, 1024].map(|step| len.checked_next_multiple_of(step).unwrap_or(len));
    ends.into_iter().find(is_blank).unwrap_or(len)
}

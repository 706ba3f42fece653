//! Images as a user has them.

use crate::support::{finish, floatgate};
use std::path::Path;

/// The files of `floatgate examples`: `rootfs.ubi`, a clean image of one volume; `two-volumes.ubi`, with one more, `data`; `dump.bin`, a dump of the
/// device in use; `flash.nand`, an empty UBI on large pages with their OOB; and files to build images from and to put into them.
pub(crate) fn write(folder: &Path) {
    let run = finish(floatgate().arg("examples").arg(folder));
    assert_eq!(run.code, Some(0), "{}", run.err);
}

/// `damaged.ubi`: `rootfs.ubi` with a wrong byte in the contents of `/etc/fstab`.
pub(crate) fn damage(folder: &Path) {
    let mut bytes = std::fs::read(folder.join("rootfs.ubi")).unwrap();
    let contents = b"ubi0:rootfs / ubifs";
    let at = bytes.windows(contents.len()).position(|window| window == contents).unwrap();
    bytes[at] ^= 1;
    std::fs::write(folder.join("damaged.ubi"), bytes).unwrap();
}

/// Bytes that nothing compresses; a linear congruential generator is enough (Knuth's MMIX).
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let states = std::iter::successors(Some(1_u64), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    });
    states.map(|state| (state >> 56) as u8).take(len).collect()
}

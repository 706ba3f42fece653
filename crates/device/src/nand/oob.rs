//! A caller's OOB bytes in the three modes of MTD: at their physical offsets in raw and place mode, the layout's free
//! bytes in auto mode.

use floatgate_ecc::OobLayout;
use floatgate_mtd::{Geometry, OobMode};

/// Maximum number of OOB bytes that a caller may pass.
pub(crate) const fn limit(geometry: &Geometry, mode: OobMode) -> u32 {
    match mode {
        OobMode::Auto => geometry.oob_free_bytes,
        OobMode::Raw | OobMode::Place => geometry.oob_bytes,
    }
}

/// Copies the caller's bytes to the OOB of a page.
pub(crate) fn scatter(layout: &OobLayout, mode: OobMode, bytes: &[u8], oob: &mut [u8]) {
    match mode {
        OobMode::Auto => layout.put_free(oob, bytes),
        OobMode::Raw | OobMode::Place => oob[..bytes.len()].copy_from_slice(bytes),
    }
}

/// Copies bytes from the OOB of a page to the caller's buffer.
pub(crate) fn gather(layout: &OobLayout, mode: OobMode, oob: &[u8], bytes: &mut [u8]) {
    match mode {
        OobMode::Auto => layout.take_free(oob, bytes),
        OobMode::Raw | OobMode::Place => bytes.copy_from_slice(&oob[..bytes.len()]),
    }
}

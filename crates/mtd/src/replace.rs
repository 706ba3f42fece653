//! A block that fails: its data moves, and it is marked bad.
//!
//! An MTD only reports failures; users decide. UBI, for one, moves the data of a block whose program or erase failed, tortures it,
//! and marks it bad. This is the part of it that any user without a table of logical blocks needs.

use crate::device::{Done, Mtd, OobMode};
use crate::error::{Error, ErrorKind};
use crate::time::Instant;
use alloc::vec;

/// A block whose data was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Time at which the block was replaced, and bits corrected on the way.
    pub done: Done,
    /// Pages that hold data now.
    pub copied: u32,
    /// Pages that could not be read. They are left erased.
    pub lost: u32,
}

/// Moves what can be read of the erase block at `from` to the one at `to`, page by page with the user's OOB bytes, and marks
/// `from` bad. `to` is erased first. Erased pages stay erased.
///
/// # Errors
/// A failure at an address in `to`: it is not fit either, `from` is unchanged, and another block may be tried. A failure at
/// `from`: its mark could not be written. And whatever else ends an operation.
pub fn replace_block<D: Mtd + ?Sized>(
    device: &mut D,
    from: u64,
    to: u64,
    now: Instant,
) -> Result<Replaced, Error> {
    let geometry = device.geometry().clone();
    let mut done = device.erase(now, to, u64::from(geometry.erase_bytes))?;
    let (mut copied, mut lost) = (0, 0);
    // In timing-only mode nothing is read: pages then count as written.
    let mut data = vec![0; geometry.write_bytes as usize];
    let mut oob = vec![0; geometry.oob_free_bytes as usize];
    for offset in (0..u64::from(geometry.erase_bytes)).step_by(geometry.write_bytes as usize) {
        match read(device, done.at, from + offset, &mut data, &mut oob) {
            Ok(page) => done = done.then(page),
            Err(error) if error.kind == ErrorKind::Uncorrectable => {
                done.at = error.at;
                lost += 1;
                continue;
            }
            Err(error) => return Err(error),
        }
        if data.iter().chain(&oob).any(|byte| *byte != 0xFF) {
            done = done.then(write(device, done.at, to + offset, &data, &oob)?);
            copied += 1;
        }
    }
    done = done.then(device.mark_bad(done.at, from)?);
    Ok(Replaced { done, copied, lost })
}

fn read<D: Mtd + ?Sized>(
    device: &mut D,
    now: Instant,
    addr: u64,
    data: &mut [u8],
    oob: &mut [u8],
) -> Result<Done, Error> {
    if oob.is_empty() {
        return device.read(now, addr, data);
    }
    device.read_oob(now, addr, data, oob, OobMode::Auto)
}

fn write<D: Mtd + ?Sized>(
    device: &mut D,
    now: Instant,
    addr: u64,
    data: &[u8],
    oob: &[u8],
) -> Result<Done, Error> {
    if oob.is_empty() {
        return device.write(now, addr, data);
    }
    device.write_oob(now, addr, data, oob, OobMode::Auto)
}

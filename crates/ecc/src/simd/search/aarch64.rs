//! The search with NEON instructions.

use super::{Kernel, Powers, Products, Search};
use crate::bch::field::Field;
use core::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

/// Searches that this CPU supports.
pub(super) fn kernels() -> impl Iterator<Item = Kernel> {
    is_aarch64_feature_detected!("neon").then_some(by_products as Kernel).into_iter()
}

#[target_feature(enable = "neon")]
fn by_products(search: &Search, field: &Field, locator: &[u16], bits: usize, out: &mut [u16]) -> usize {
    let tables = search.products(field, locator);
    let tables = &tables[..locator.len() / 2];
    search.collect(bits, out, |powers| {
        core::array::from_fn(|vector| look_up(locator[0], tables, powers, vector))
    })
}

/// Bit mask of the positions, among 64 of a run, where the locator is 0.
#[target_feature(enable = "neon")]
fn look_up(constant: u16, tables: &[Products], powers: &[Powers], vector: usize) -> u64 {
    let [low, high] = constant.to_le_bytes().map(|byte| vdupq_n_u8(byte));
    let half_byte = vdupq_n_u8(15);
    let mut sums = [(low, high); 4];
    for (tables, powers) in tables.iter().zip(powers) {
        // SAFETY: a table has 16 bytes, and no alignment is needed.
        let tables = tables.each_ref().map(|table| unsafe { vld1q_u8(table.as_ptr()) });
        for (at, (low, high)) in sums.iter_mut().enumerate() {
            // SAFETY: each quarter of 64 bytes has 16 bytes, and no alignment is needed.
            let [x, y] = [&powers.low, &powers.high]
                .map(|bytes| unsafe { vld1q_u8(bytes[vector].as_ptr().add(16 * at)) });
            let halves = [vandq_u8(x, half_byte), vshrq_n_u8(x, 4), vandq_u8(y, half_byte), vshrq_n_u8(y, 4)];
            for (half, tables) in halves.into_iter().zip(tables.as_chunks::<2>().0) {
                *low = veorq_u8(*low, vqtbl1q_u8(tables[0], half));
                *high = veorq_u8(*high, vqtbl1q_u8(tables[1], half));
            }
        }
    }
    sums.iter().rev().fold(0, |bits, (low, high)| bits << 16 | u64::from(zeros(vorrq_u8(*low, *high))))
}

/// Bit mask of the bytes that are 0. In most vectors no byte is 0.
#[target_feature(enable = "neon")]
fn zeros(x: uint8x16_t) -> u16 {
    if vminvq_u8(x) > 0 {
        return 0;
    }
    let mut bytes = [0; 16];
    // SAFETY: the array has 16 bytes, and no alignment is needed.
    unsafe { vst1q_u8(bytes.as_mut_ptr(), x) };
    bytes.iter().rev().fold(0, |bits, byte| bits << 1 | u16::from(*byte == 0))
}

//! Searches with GFNI on 512 bits, and with AVX2.

use super::{BITS, Kernel, MAX_ODD, Powers, Products, Search, VECTORS};
use crate::bch::field::Field;
use core::arch::x86_64::*;
use std::is_x86_feature_detected;

/// A matrix of 16 x 16 bits as four quarters: from low to low byte, high to low, low to high, high to high.
type Matrix = [i64; 4];

/// Searches that this CPU supports, the fastest first.
pub(super) fn kernels() -> impl Iterator<Item = Kernel> {
    let gfni = cfg!(not(floatgate_without_avx512))
        && is_x86_feature_detected!("gfni")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl");
    let avx2 = is_x86_feature_detected!("avx2");
    [gfni.then_some(by_matrices as Kernel), avx2.then_some(by_products as Kernel)].into_iter().flatten()
}

#[target_feature(enable = "gfni,avx512f,avx512bw,avx512vl")]
fn by_matrices(search: &Search, field: &Field, locator: &[u16], bits: usize, out: &mut [u16]) -> usize {
    let mut matrices = [[0; 4]; MAX_ODD];
    let matrices = &mut matrices[..locator.len() / 2];
    for (at, matrix) in matrices.iter_mut().enumerate() {
        *matrix = transpose(search.columns(field, locator, 2 * at + 1));
    }
    search.collect(bits, out, |powers| multiply(locator[0], matrices, powers))
}

#[target_feature(enable = "avx2")]
fn by_products(search: &Search, field: &Field, locator: &[u16], bits: usize, out: &mut [u16]) -> usize {
    let tables = search.products(field, locator);
    let tables = &tables[..locator.len() / 2];
    search.collect(bits, out, |powers| {
        core::array::from_fn(|vector| look_up(locator[0], tables, powers, vector))
    })
}

/// Quarters of a matrix from its columns, in the format of GF2P8AFFINEQB: a byte per row, the last row first.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn transpose(columns: [u16; BITS]) -> Matrix {
    // SAFETY: the columns have 32 bytes, and no alignment is needed.
    let mut columns = unsafe { _mm256_loadu_si256(columns.as_ptr().cast()) };
    let (mut quarters, mut at) = ([0_u64; 4], BITS);
    while at > 0 {
        at -= 1;
        // The highest bits of all columns form row `at`.
        let [low, high] = _mm256_movepi16_mask(columns).to_le_bytes();
        columns = _mm256_add_epi16(columns, columns);
        let (half, shift) = (at / 8, 8 * (7 - at % 8));
        quarters[2 * half] |= u64::from(low) << shift;
        quarters[2 * half + 1] |= u64::from(high) << shift;
    }
    quarters.map(u64::cast_signed)
}

/// Bit mask of the positions of a run where the locator is 0.
#[target_feature(enable = "gfni,avx512f,avx512bw")]
fn multiply(constant: u16, matrices: &[Matrix], powers: &[Powers]) -> [u64; VECTORS] {
    const XOR3: i32 = 0x96;
    let [low, high] = constant.to_le_bytes().map(|byte| _mm512_set1_epi8(byte.cast_signed()));
    let mut sums = [(low, high); VECTORS];
    for (matrix, powers) in matrices.iter().zip(powers) {
        let [a, b, c, d] = matrix.map(|quarter| _mm512_set1_epi64(quarter));
        for (at, (low, high)) in sums.iter_mut().enumerate() {
            // SAFETY: both arrays have 64 bytes, aligned to 64.
            let [x, y] = [&powers.low[at], &powers.high[at]]
                .map(|bytes| unsafe { _mm512_load_si512(bytes.as_ptr().cast()) });
            let [xa, yb] = [_mm512_gf2p8affine_epi64_epi8(x, a, 0), _mm512_gf2p8affine_epi64_epi8(y, b, 0)];
            let [xc, yd] = [_mm512_gf2p8affine_epi64_epi8(x, c, 0), _mm512_gf2p8affine_epi64_epi8(y, d, 0)];
            *low = _mm512_ternarylogic_epi64(*low, xa, yb, XOR3);
            *high = _mm512_ternarylogic_epi64(*high, xc, yd, XOR3);
        }
    }
    sums.map(|(low, high)| {
        let any = _mm512_or_si512(low, high);
        _mm512_testn_epi8_mask(any, any)
    })
}

/// Bit mask of the positions, among 64 of a run, where the locator is 0.
#[target_feature(enable = "avx2")]
fn look_up(constant: u16, tables: &[Products], powers: &[Powers], vector: usize) -> u64 {
    let [low, high] = constant.to_le_bytes().map(|byte| _mm256_set1_epi8(byte.cast_signed()));
    let half_byte = _mm256_set1_epi8(15);
    let mut sums = [(low, high); 2];
    for (tables, powers) in tables.iter().zip(powers) {
        // SAFETY: a table has 16 bytes, and no alignment is needed.
        let tables = tables
            .each_ref()
            .map(|table| _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) }));
        for (at, (low, high)) in sums.iter_mut().enumerate() {
            // SAFETY: both halves of 64 bytes have 32 bytes, and no alignment is needed.
            let [x, y] = [&powers.low, &powers.high]
                .map(|bytes| unsafe { _mm256_loadu_si256(bytes[vector].as_ptr().add(32 * at).cast()) });
            let halves = [x, _mm256_srli_epi16(x, 4), y, _mm256_srli_epi16(y, 4)];
            for (half, tables) in halves.into_iter().zip(tables.as_chunks::<2>().0) {
                let half = _mm256_and_si256(half, half_byte);
                *low = _mm256_xor_si256(*low, _mm256_shuffle_epi8(tables[0], half));
                *high = _mm256_xor_si256(*high, _mm256_shuffle_epi8(tables[1], half));
            }
        }
    }
    let zero = sums.map(|(low, high)| {
        let is_zero = _mm256_cmpeq_epi8(_mm256_or_si256(low, high), _mm256_setzero_si256());
        u64::from(_mm256_movemask_epi8(is_zero).cast_unsigned())
    });
    zero[1] << 32 | zero[0]
}

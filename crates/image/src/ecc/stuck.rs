//! Columns of a chip that are stuck, and their bits in the steps of a page.

use super::Scheme;
use serde::Serialize;

/// A byte of all pages with stuck bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StuckColumn {
    /// Byte of the raw page, OOB included.
    pub byte: u32,
    /// Bits that are stuck, as a mask.
    pub bits: u8,
    /// Values that these bits read, as a mask.
    pub value: u8,
    /// Pages with data that were looked at.
    pub pages: u32,
    /// Those in which the code corrected one of the bits.
    pub corrected_pages: u32,
}

/// A stuck bit within a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StuckBit {
    is_ecc: bool,
    byte: usize,
    mask: u8,
}

impl StuckBit {
    /// Value of the bit, 0 or its mask.
    pub(super) fn value(self, message: &[u8], ecc: &[u8]) -> u8 {
        let bytes = if self.is_ecc { ecc } else { message };
        bytes.get(self.byte).copied().unwrap_or(0) & self.mask
    }

    /// Inverts the bit.
    pub(super) fn flip(self, message: &mut [u8], ecc: &mut [u8]) {
        let bytes = if self.is_ecc { ecc } else { message };
        if let Some(byte) = bytes.get_mut(self.byte) {
            *byte ^= self.mask;
        }
    }
}

/// The stuck bits of each step of a page.
pub(super) fn bits_of_steps(scheme: &Scheme, columns: &[StuckColumn]) -> Vec<Vec<StuckBit>> {
    let mut all = vec![Vec::new(); scheme.steps() as usize];
    let starts: Vec<usize> = scheme
        .map()
        .message_bytes()
        .scan(0, |end, bytes| {
            let start = *end;
            *end += bytes;
            Some(start)
        })
        .collect();
    let ecc_bytes = scheme.code().ecc_bytes().max(1) as usize;
    let (mut found, mut base) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    let mut raw = vec![0; scheme.geometry().full_page() as usize];
    scheme.map().extract(&raw, &mut base.0, &mut base.1);
    for column in columns {
        for mask in (0..8).map(|bit| 1_u8 << bit).filter(|mask| column.bits & mask != 0) {
            let Some(byte) = raw.get_mut(column.byte as usize) else { continue };
            *byte = mask;
            scheme.map().extract(&raw, &mut found.0, &mut found.1);
            raw[column.byte as usize] = 0;
            let changed = |now: &[u8], before: &[u8]| {
                let at = now.iter().zip(before).position(|(now, before)| now != before)?;
                Some((at, now[at] ^ before[at]))
            };
            if let Some((at, mask)) = changed(&found.0, &base.0) {
                let step = starts.partition_point(|start| *start <= at).saturating_sub(1);
                let byte = at - starts.get(step).copied().unwrap_or(0);
                all[step].push(StuckBit { is_ecc: false, byte, mask });
            } else if let Some((at, mask)) = changed(&found.1, &base.1)
                && let Some(step) = all.get_mut(at / ecc_bytes)
            {
                step.push(StuckBit { is_ecc: true, byte: at % ecc_bytes, mask });
            }
        }
    }
    all
}

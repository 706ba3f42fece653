//! LZO1X decoder: `docs/spec/lzo1x.md#instructions`. It accepts exactly what Linux's decompressor accepts.

use super::{CHAIN, SHORT_DISTANCE, TRAILING};

/// Reason why LZO data is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LzoFault {
    /// An instruction or its literals are truncated.
    #[error("the data end inside an instruction")]
    Truncated,
    /// A copy from before the start of the block.
    #[error("a copy from before the start of the block")]
    Before,
    /// The output exceeds the buffer.
    #[error("more data than the block holds")]
    TooLong,
    /// Malformed end-of-stream marker.
    #[error("the mark of the end is malformed")]
    BadEnd,
    /// Bytes after the end-of-stream marker.
    #[error("bytes behind the end")]
    Trailing,
}

/// Size of the end-of-stream marker, B, and minimum size of the data.
const END: usize = 3;

/// First byte of data with a version, and minimum size of such data, B.
const VERSIONED: u8 = 17;
const VERSIONED_LEN: usize = 5;

/// Minimum length of a run of zeros in version 1.
const ZEROS: usize = 4;

/// Bytes copied at a time, if there is room.
const STRIDE: usize = 16;

/// Decompresses into `out` and returns the number of bytes.
///
/// # Errors
///
/// The first fault, and the offset in `data` at which it was found.
pub(crate) fn decompress(data: &[u8], out: &mut [u8]) -> Result<usize, (usize, LzoFault)> {
    let mut reader = Reader { data, at: 0, out, len: 0, zero_runs: false };
    match reader.block() {
        Ok(()) => Ok(reader.len),
        Err(fault) => Err((reader.at, fault)),
    }
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    out: &'a mut [u8],
    len: usize,
    /// True for version 1, which has instructions for runs of zeros.
    zero_runs: bool,
}

/// Kind of the previous instruction, which decides the meaning of the low codes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    Copy,
    FewLiterals,
    Run,
}

impl Reader<'_> {
    /// Decodes all instructions.
    fn block(&mut self) -> Result<(), LzoFault> {
        if self.data.len() < END {
            return Err(LzoFault::Truncated);
        }
        let mut last = self.start()?;
        loop {
            let code = self.byte()?;
            let (len, distance, bits) = match code {
                0..=15 if last == Previous::Copy => {
                    self.run(code)?;
                    last = Previous::Run;
                    continue;
                }
                0..=15 => self.low(code, last)?,
                24..=31 if self.is_zeros() => {
                    last = self.zeros(code)?;
                    continue;
                }
                16..=31 => {
                    let (len, far) = self.far(code, 7)?;
                    let back = (usize::from(code & 8) << 11) + usize::from(far >> 2);
                    if back == 0 {
                        return self.end(len);
                    }
                    (len, back + 0x4000, usize::from(far))
                }
                32..=63 => {
                    let (len, far) = self.far(code, 31)?;
                    (len, usize::from(far >> 2) + 1, usize::from(far))
                }
                64.. => {
                    let high = self.byte()?;
                    let distance = (usize::from(high) << 3) + usize::from(code >> 2 & 7) + 1;
                    (usize::from(code >> 5) + 1, distance, usize::from(code))
                }
            };
            self.copy(len, distance)?;
            last = self.few(bits)?;
        }
    }

    /// Decodes the first byte, which may contain the version and the number of literals.
    fn start(&mut self) -> Result<Previous, LzoFault> {
        if let [VERSIONED, version, ..] = *self.data
            && self.data.len() >= VERSIONED_LEN
        {
            self.zero_runs = version != 0;
            self.at = 2;
        }
        match self.data.get(self.at) {
            Some(&count @ 18..) => {
                self.at += 1;
                let count = usize::from(count - 17);
                if count <= TRAILING {
                    return self.few(count);
                }
                self.literals(count)?;
                Ok(Previous::Run)
            }
            _ => Ok(Previous::Copy),
        }
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8, LzoFault> {
        let byte = *self.data.get(self.at).ok_or(LzoFault::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    /// Length that is extended by further bytes if its bits in the instruction are zero.
    #[inline(always)]
    fn length(&mut self, code: u8, mask: u8) -> Result<usize, LzoFault> {
        let bits = usize::from(code & mask);
        if bits != 0 {
            return Ok(bits);
        }
        let mut len = usize::from(mask);
        loop {
            match self.byte()? {
                0 => len += CHAIN,
                rest => return Ok(len + usize::from(rest)),
            }
        }
    }

    /// Length and last two bytes of a long copy.
    #[inline(always)]
    fn far(&mut self, code: u8, mask: u8) -> Result<(usize, u16), LzoFault> {
        let len = self.length(code, mask)? + 2;
        let bytes = self.data.get(self.at..).and_then(<[u8]>::first_chunk).ok_or(LzoFault::Truncated)?;
        self.at += 2;
        Ok((len, u16::from_le_bytes(*bytes)))
    }

    /// Copies whose codes have another meaning directly after a copy.
    #[inline(always)]
    fn low(&mut self, code: u8, last: Previous) -> Result<(usize, usize, usize), LzoFault> {
        let back = (usize::from(self.byte()?) << 2) + usize::from(code >> 2) + 1;
        let (len, distance) = if last == Previous::Run { (3, back + SHORT_DISTANCE) } else { (2, back) };
        Ok((len, distance, usize::from(code)))
    }

    /// Four or more literals.
    #[inline(always)]
    fn run(&mut self, code: u8) -> Result<(), LzoFault> {
        let count = self.length(code, 15)? + TRAILING;
        self.literals(count)
    }

    /// Up to three literals, counted by the last two bits of an instruction.
    #[inline(always)]
    fn few(&mut self, bits: usize) -> Result<Previous, LzoFault> {
        let count = bits & TRAILING;
        if count == 0 {
            return Ok(Previous::Copy);
        }
        let from = self.data.get(self.at..).and_then(<[u8]>::first_chunk::<4>);
        let to = self.out.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut::<4>);
        if let (Some(from), Some(to)) = (from, to) {
            *to = *from;
            self.at += count;
            self.len += count;
        } else {
            self.literals(count)?;
        }
        Ok(Previous::FewLiterals)
    }

    /// Copies literals.
    #[inline(always)]
    fn literals(&mut self, count: usize) -> Result<(), LzoFault> {
        let rest = self.data.get(self.at..).unwrap_or(&[]);
        let room = self.out.get_mut(self.len..).unwrap_or(&mut []);
        if count <= STRIDE
            && let (Some(from), Some(to)) = (rest.first_chunk::<STRIDE>(), room.first_chunk_mut::<STRIDE>())
        {
            *to = *from;
        } else {
            let from = rest.get(..count).ok_or(LzoFault::Truncated)?;
            room.get_mut(..count).ok_or(LzoFault::TooLong)?.copy_from_slice(from);
        }
        self.at += count;
        self.len += count;
        Ok(())
    }

    /// Copies output bytes from `distance` bytes earlier.
    #[inline(always)]
    fn copy(&mut self, len: usize, distance: usize) -> Result<(), LzoFault> {
        let from = self.len.checked_sub(distance).ok_or(LzoFault::Before)?;
        if self.out.len() - self.len < len {
            return Err(LzoFault::TooLong);
        }
        if distance < STRIDE || self.out.len() - self.len < len.next_multiple_of(STRIDE) {
            self.repeat(from, len, distance);
        } else {
            for step in (0..len).step_by(STRIDE) {
                self.out.copy_within(from + step..from + step + STRIDE, self.len + step);
            }
        }
        self.len += len;
        Ok(())
    }

    /// Copies an overlapping range: each round doubles the bytes that can be copied at once.
    fn repeat(&mut self, from: usize, len: usize, distance: usize) {
        let (mut done, mut ready) = (0, distance);
        while done < len {
            let step = ready.min(len - done);
            self.out.copy_within(from..from + step, self.len + done);
            done += step;
            ready += step;
        }
    }

    /// True for a copy whose distance stands for a run of zeros in version 1.
    fn is_zeros(&self) -> bool {
        let far = self.data.get(self.at..).and_then(<[u8]>::first_chunk);
        self.zero_runs && far.is_some_and(|far| u16::from_le_bytes(*far) >> 2 == 0x3FFF)
    }

    /// A run of zeros.
    fn zeros(&mut self, code: u8) -> Result<Previous, LzoFault> {
        let [far, _, count] =
            *self.data.get(self.at..).and_then(<[u8]>::first_chunk).ok_or(LzoFault::Truncated)?;
        self.at += 3;
        let count = (usize::from(count) << 3) + usize::from(code & 7) + ZEROS;
        let room =
            self.out.get_mut(self.len..).and_then(|room| room.get_mut(..count)).ok_or(LzoFault::TooLong)?;
        room.fill(0);
        self.len += count;
        self.few(usize::from(far))
    }

    /// Checks the end-of-stream marker: a copy of three bytes at the end of the data.
    fn end(&self, len: usize) -> Result<(), LzoFault> {
        match len {
            END if self.at == self.data.len() => Ok(()),
            END => Err(LzoFault::Trailing),
            _ => Err(LzoFault::BadEnd),
        }
    }
}

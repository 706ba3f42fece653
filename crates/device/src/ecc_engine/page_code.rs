//! A code over the pages of a chip: steps of data, and positions of their ECC bytes in the OOB.

use super::{Algo, Corrected, EccRequirement, Uncorrectable};
use core::ops::Range;
use floatgate_ecc::{Code, CodeError, Codec, LayoutError, OobLayout, check_erased};
use std::sync::{Mutex, PoisonError};

/// Reason why pages cannot be encoded with these options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageCodeError {
    /// The code is impossible.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The size of a page is not a multiple of the step size.
    #[error("a page of {page_bytes} bytes is not whole ECC steps of {step_bytes}")]
    Steps {
        /// Size of a page without OOB, bytes.
        page_bytes: u32,
        /// Size of a step, bytes.
        step_bytes: u32,
    },
    /// The OOB has no room for the ECC bytes.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A Hamming code with more than one bit was requested.
    #[error(
        "a Hamming code corrects 1 bit per step, not {0}: leave ecc.strength out, or set ecc.algo to \"bch\""
    )]
    HammingStrength(u32),
}

/// Marks OOB bits that no step protects.
const NO_STEP: u16 = u16::MAX;

/// A code set up for pages.
#[derive(Debug)]
pub struct PageCode {
    codec: Codec,
    layout: OobLayout,
    data_bits: u32,
    /// Step that protects each OOB bit.
    oob_steps: Box<[u16]>,
}

/// Buffers of an engine that are reused for all pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    ecc: Vec<u8>,
    counts: Vec<u32>,
}

/// The code for a requirement. Without `algo` it is Hamming for one bit and BCH for more, as in Linux's software engines.
fn code(requirement: EccRequirement, algo: Option<Algo>) -> Result<Code, PageCodeError> {
    let EccRequirement { strength, step_bytes } = requirement;
    match (algo, strength, step_bytes) {
        (Some(Algo::Hamming), 2.., _) => Err(PageCodeError::HammingStrength(strength)),
        (Some(Algo::Hamming), ..=1, 512..) => Ok(Code::Hamming { step_bytes: 512 }),
        (Some(Algo::Hamming), ..=1, _) => Ok(Code::Hamming { step_bytes: 256 }),
        (None, ..=1, 256 | 512) => Ok(Code::Hamming { step_bytes }),
        _ => Ok(Code::Bch { strength, step_bytes }),
    }
}

/// OOB layout of Linux's software engines for the code.
fn linux_layout(code: Code, page_bytes: u32, oob_bytes: u32) -> Result<OobLayout, LayoutError> {
    let ecc_bytes = page_bytes / code.step_bytes() * code.ecc_bytes();
    match code {
        code if !code.is_hamming() => OobLayout::large_page(oob_bytes, ecc_bytes),
        _ => match page_bytes {
            ..=512 => OobLayout::small_page(oob_bytes, ecc_bytes),
            _ => OobLayout::large_page_hamming(oob_bytes, ecc_bytes),
        },
    }
}

/// Maximum number of codecs that are cached; the tables of one take up to about 100 KiB.
const CODECS_MAX: usize = 8;

/// The codec of a code. Creating its tables takes a millisecond, longer than many simulations, so the last codecs are cached for the next
/// chip.
fn codec(code: Code) -> Result<Codec, CodeError> {
    static CODECS: Mutex<Vec<Codec>> = Mutex::new(Vec::new());
    let kept = || CODECS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(codec) = kept().iter().find(|codec| codec.code() == code) {
        return Ok(codec.clone());
    }
    let codec = Codec::new(code)?;
    let mut kept = kept();
    kept.truncate(CODECS_MAX - 1);
    kept.insert(0, codec.clone());
    Ok(codec)
}

impl PageCode {
    /// The code and layout of Linux's software engines for pages of these sizes. A step size larger than the page is reduced to the page.
    ///
    /// # Errors
    /// The code is impossible, or the OOB has no room for its ECC bytes.
    pub fn linux(
        requirement: EccRequirement,
        algo: Option<Algo>,
        page_bytes: u32,
        oob_bytes: u32,
    ) -> Result<Self, PageCodeError> {
        let step_bytes = requirement.step_bytes.clamp(1, page_bytes);
        let code = code(EccRequirement { step_bytes, ..requirement }, algo)?;
        let step_bytes = code.step_bytes();
        code.check()?;
        if !page_bytes.is_multiple_of(step_bytes) {
            return Err(PageCodeError::Steps { page_bytes, step_bytes });
        }
        let layout = linux_layout(code, page_bytes, oob_bytes)?;
        Ok(Self::new(codec(code)?, &layout, page_bytes, oob_bytes))
    }

    fn new(codec: Codec, layout: &OobLayout, page_bytes: u32, oob_bytes: u32) -> Self {
        let mut oob_steps = vec![NO_STEP; oob_bytes as usize * 8].into_boxed_slice();
        let per_step = codec.code().ecc_bytes();
        let counts = counting_bits(&codec);
        let places = layout.ecc().iter().flat_map(|region| region.offset..region.offset + region.len);
        for (at, byte) in places.enumerate() {
            let (step, of_step) = (at as u32 / per_step, at as u32 % per_step);
            for bit in (0..8).filter(|bit| counts[of_step as usize] >> bit & 1 == 1) {
                oob_steps[byte as usize * 8 + bit] = step as u16;
            }
        }
        Self { codec, layout: *layout, data_bits: page_bytes * 8, oob_steps }
    }

    /// Layout of ECC bytes and free bytes in the OOB.
    pub const fn layout(&self) -> &OobLayout {
        &self.layout
    }

    /// Codec of the ECC steps, which computes ECC bytes and corrects with them.
    pub const fn codec(&self) -> &Codec {
        &self.codec
    }

    pub(super) fn scratch(&self) -> Scratch {
        let steps = self.data_bits / 8 / self.codec.code().step_bytes();
        Scratch { ecc: vec![0xFF; self.layout.ecc_bytes() as usize], counts: vec![0; steps as usize] }
    }

    pub(super) fn encode(&self, data: &[u8], oob: &mut [u8], scratch: &mut Scratch) {
        self.codec.encode_page(data, &mut scratch.ecc);
        self.layout.put_ecc(oob, &scratch.ecc);
    }

    /// Corrects data and ECC bytes, step by step. An uncorrectable step is treated as erased if it has only a few zero bits (Linux:
    /// `nand_check_erased_ecc_chunk`, with the strength as the limit).
    ///
    /// Returns the corrected bits and the number of uncorrectable steps. `data` begins at step `first` of the page.
    pub(super) fn decode(
        &self,
        first: usize,
        data: &mut [u8],
        oob: &mut [u8],
        scratch: &mut Scratch,
    ) -> Tally {
        let code = self.codec.code();
        self.layout.take_ecc(oob, &mut scratch.ecc);
        let mut tally = Tally::default();
        let steps = data.chunks_exact_mut(code.step_bytes() as usize);
        let ecc = scratch.ecc.chunks_exact_mut(code.ecc_bytes() as usize).skip(first);
        for (step, ecc) in steps.zip(ecc) {
            let found = match self.codec.decode(step, ecc) {
                Ok(bits) => Ok(bits),
                Err(_) => check_erased(step, ecc, &mut [], code.strength()).map_err(|_| Uncorrectable),
            };
            tally.add(found);
        }
        self.layout.put_ecc(oob, &scratch.ecc);
        tally
    }

    /// Steps of a page that contain `len` bytes from `column` on.
    pub(crate) fn steps(&self, column: usize, len: usize) -> Range<usize> {
        let step_bytes = self.codec.code().step_bytes() as usize;
        column / step_bytes..(column + len).div_ceil(step_bytes)
    }

    /// Range of the OOB that contains all ECC bytes of some steps.
    pub(crate) fn ecc_range(&self, steps: &Range<usize>) -> Range<usize> {
        let per_step = self.codec.code().ecc_bytes() as usize;
        let places = self.layout.ecc().iter().flat_map(|region| region.offset..region.offset + region.len);
        let places = places.skip(steps.start * per_step).take(steps.len() * per_step);
        let (first, last) = places.fold((u32::MAX, 0), |(first, last), at| (first.min(at), last.max(at + 1)));
        first.min(last) as usize..last as usize
    }

    /// Numbers of corrected bits and uncorrectable steps, counted from the wrong bits of the page (ascending offsets)
    /// instead of decoded.
    pub(super) fn count(&self, steps: Range<usize>, wrong: &[u32], scratch: &mut Scratch) -> Tally {
        scratch.counts.fill(0);
        let step_bits = self.codec.code().step_bytes() * 8;
        for &bit in wrong {
            let step = match bit.checked_sub(self.data_bits) {
                None => bit / step_bits,
                Some(oob_bit) => self.oob_steps.get(oob_bit as usize).map_or(NO_STEP, |s| *s).into(),
            };
            if let Some(count) = scratch.counts.get_mut(step as usize) {
                *count += 1;
            }
        }
        let strength = self.codec.code().strength();
        let mut tally = Tally::default();
        for &bits in scratch.counts.iter().skip(steps.start).take(steps.len()) {
            tally.add(if bits > strength { Err(Uncorrectable) } else { Ok(bits) });
        }
        tally
    }
}

/// Masks of the bits in each ECC byte of a step that a decoder counts as wrong; the last bytes may contain padding bits.
fn counting_bits(codec: &Codec) -> Vec<u8> {
    let code = codec.code();
    let mut data = vec![0xFF; code.step_bytes() as usize];
    let mut ecc = vec![0xFF; code.ecc_bytes() as usize];
    codec.encode(&data, &mut ecc);
    let mut counts = vec![0xFF; ecc.len()];
    // Padding bits are only in the last two bytes, because the degrees of generators of one strength differ by less than 16.
    for byte in ecc.len().saturating_sub(2)..ecc.len() {
        for bit in 0..8 {
            let mut wrong = ecc.clone();
            wrong[byte] ^= 1 << bit;
            if codec.decode(&mut data, &mut wrong) != Ok(1) {
                counts[byte] &= !(1 << bit);
            }
        }
    }
    counts
}

/// Sum of the results of all steps of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) corrected: Corrected,
    pub(super) lost_steps: u32,
}

impl Tally {
    fn add(&mut self, step: Result<u32, Uncorrectable>) {
        match step {
            Ok(bits) => {
                self.corrected.max = self.corrected.max.max(bits);
                self.corrected.total += bits;
            }
            Err(Uncorrectable) => self.lost_steps += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code_of(strength: u32, step_bytes: u32, page_bytes: u32, oob_bytes: u32) -> PageCode {
        PageCode::linux(EccRequirement { strength, step_bytes }, None, page_bytes, oob_bytes).unwrap()
    }

    #[test]
    fn what_cannot_be_says_what_can() {
        let try_it = |strength, step_bytes, oob| {
            PageCode::linux(EccRequirement { strength, step_bytes }, None, 2048, oob).unwrap_err().to_string()
        };
        assert!(try_it(100, 512, 64).contains("1 to 72"));
        assert!(try_it(4, 768, 64).contains("not whole ECC steps of 768"));
        assert!(try_it(40, 512, 64).contains("do not fit"));
        assert!(try_it(0, 512, 1).contains("do not fit"));
        // A code for 60 bits over 1 KiB needs a field of 2^14 elements.
        let big = code_of(60, 1024, 16_384, 1952);
        assert_eq!((big.codec().code().ecc_bytes(), big.layout().ecc_bytes()), (105, 16 * 105));
    }

    #[test]
    fn erased_pages_with_few_zeros_are_erased() {
        let code = code_of(4, 512, 2048, 64);
        let mut scratch = code.scratch();
        let (mut data, mut oob) = (vec![0xFF; 2048], vec![0xFF; 64]);
        // The free bytes are programmed; the other bytes are erased except for two bits.
        (oob[2], data[700]) = (0, 0xF3);
        let tally = code.decode(0, &mut data, &mut oob, &mut scratch);
        assert_eq!(tally, Tally { corrected: Corrected { max: 2, total: 2 }, lost_steps: 0 });
        assert!(data.iter().all(|byte| *byte == 0xFF) && oob[2] == 0);
        data[..2].fill(0);
        assert_eq!(code.decode(0, &mut data, &mut oob, &mut scratch).lost_steps, 1);
        assert_eq!(data[..3], [0, 0, 0xFF], "what cannot be corrected is left");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Counting gives the same result as decoding, including ECC bytes, as long as no step has more wrong bits than the code corrects.
        #[test]
        fn counting_and_decoding_agree(
            seed: u8,
            which in 0..4usize,
            bits in proptest::collection::btree_set(0u32..(2048 + 64) * 8, 0..24),
        ) {
            let (strength, step_bytes) = [(1, 512), (1, 256), (4, 512), (8, 512)][which];
            let code = code_of(strength, step_bytes, 2048, 64);
            let mut scratch = code.scratch();
            let data: Vec<u8> = (0..2048u32).map(|i| (i as u8).wrapping_mul(seed | 1)).collect();
            let mut oob = vec![0xFF; 64];
            code.encode(&data, &mut oob, &mut scratch);
            let wrong: Vec<u32> = bits.into_iter().collect();
            let counted = code.count(0..usize::MAX, &wrong, &mut scratch);
            prop_assume!(counted.lost_steps == 0);
            let (mut got, mut got_oob) = (data.clone(), oob.clone());
            for bit in &wrong {
                let (byte, mask) = (*bit as usize / 8, 1u8 << (bit % 8));
                if byte < 2048 { got[byte] ^= mask } else { got_oob[byte - 2048] ^= mask }
            }
            prop_assert_eq!(code.decode(0, &mut got, &mut got_oob, &mut scratch), counted);
            prop_assert!(got == data);
        }
    }
}

//! Vector instructions (x86-64 and AArch64) for the two expensive loops: the remainder of the data by carry-less
//! multiplication, and the search for roots by bit matrices.
//!
//! This is the only module with `unsafe`, because the CPU may not support the instructions. A value of a type in this
//! module proves that it does: constructors check it (feature `std`) and otherwise return `None`. Everything has a
//! portable implementation, and tests compare both on the same inputs.
#![allow(unsafe_code, reason = "instructions that only some CPUs have; see the module's text")]

#[cfg(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod clmul;
#[cfg(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod search;

#[cfg(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use {clmul::Clmul, search::Search};

#[cfg(not(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) use absent::{Clmul, Search};

/// Placeholder types without values, for other CPUs.
#[cfg(not(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod absent {
    use crate::bch::field::Field;
    use crate::bch::generator::Words;
    use core::convert::Infallible;

    pub(crate) struct Clmul(Infallible);

    impl Clmul {
        pub(crate) fn new(_tail: &[u64], _words: usize, _data_bytes: usize) -> Option<Self> {
            None
        }

        pub(crate) fn compute(&self, _data: &[u8]) -> Words {
            match self.0 {}
        }
    }

    pub(crate) struct Search(Infallible);

    impl Search {
        pub(crate) fn new(_field: &Field, _strength: usize, _bits: usize) -> Option<Self> {
            None
        }

        pub(crate) fn roots(&self, _: &Field, _: &[u16], _: usize, _: &mut [u16]) -> usize {
            match self.0 {}
        }
    }
}

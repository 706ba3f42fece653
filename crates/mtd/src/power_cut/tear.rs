//! Interrupted programs and erases.

use crate::device::OobMode;
use crate::partition::Partition;
use alloc::boxed::Box;

/// Progress of a program or an erase at the moment of a power cut.
///
/// | | program | erase |
/// |---|---|---|
/// | early | reads as erased, but what is programmed there later does not hold | reads as before, but does not hold |
/// | middle | some of the bits are programmed | some of the bits are erased |
/// | late | reads as programmed, but does not hold | reads as erased, but what is programmed there later does not hold |
///
/// A state that "does not hold" reads with bit errors. Depending on the page, the ECC corrects them, fails, or succeeds
/// in one read and fails in the next. The next erase ends the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The operation had hardly begun.
    Early,
    /// The operation was half done.
    Middle,
    /// The operation was nearly done.
    Late,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 3] = [Self::Early, Self::Middle, Self::Late];
}

/// A device whose operations can be interrupted. The result depends only on a seed.
///
/// An operation that the device would refuse has no effect.
pub trait Tear {
    /// Interrupts the program of `data` at `addr`, inside one program unit: a page, the program buffer on NOR.
    fn tear_program(&mut self, addr: u64, data: &[u8], stage: Stage, seed: u64);

    /// Interrupts the program of a page with its OOB; arguments as in [`Mtd::write_oob`](crate::Mtd::write_oob). A
    /// device without OOB bytes interrupts only the program of the data.
    fn tear_program_oob(
        &mut self,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
        stage: Stage,
        seed: u64,
    ) {
        let _ = (oob, mode);
        self.tear_program(addr, data, stage, seed);
    }

    /// Interrupts the erase of the block at `addr`.
    fn tear_erase(&mut self, addr: u64, stage: Stage, seed: u64);
}

macro_rules! forward_tear {
    ($pointer:ty) => {
        impl<D: Tear + ?Sized> Tear for $pointer {
            fn tear_program(&mut self, addr: u64, data: &[u8], stage: Stage, seed: u64) {
                (**self).tear_program(addr, data, stage, seed);
            }

            fn tear_program_oob(
                &mut self,
                addr: u64,
                data: &[u8],
                oob: &[u8],
                mode: OobMode,
                stage: Stage,
                seed: u64,
            ) {
                (**self).tear_program_oob(addr, data, oob, mode, stage, seed);
            }

            fn tear_erase(&mut self, addr: u64, stage: Stage, seed: u64) {
                (**self).tear_erase(addr, stage, seed);
            }
        }
    };
}

forward_tear!(&mut D);
forward_tear!(Box<D>);

/// A partition of a device, whose addresses count from its start.
impl<D: Tear + crate::Mtd> Tear for Partition<D> {
    fn tear_program(&mut self, addr: u64, data: &[u8], stage: Stage, seed: u64) {
        let addr = self.start().saturating_add(addr);
        self.inner_mut().tear_program(addr, data, stage, seed);
    }

    fn tear_program_oob(
        &mut self,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
        stage: Stage,
        seed: u64,
    ) {
        let addr = self.start().saturating_add(addr);
        self.inner_mut().tear_program_oob(addr, data, oob, mode, stage, seed);
    }

    fn tear_erase(&mut self, addr: u64, stage: Stage, seed: u64) {
        let addr = self.start().saturating_add(addr);
        self.inner_mut().tear_erase(addr, stage, seed);
    }
}

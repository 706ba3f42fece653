//! Interrupted program and erase operations.

use crate::device::OobMode;
use crate::partition::Partition;
use alloc::boxed::Box;

/// Progress of a program or an erase at the moment of a power cut.
///
/// | | program | erase |
/// |---|---|---|
/// | early | reads as erased, but data programmed there later is unstable | reads as before, but is unstable |
/// | middle | some of the bits are programmed | some of the bits are erased |
/// | late | reads as programmed, but is unstable | reads as erased, but data programmed there later is unstable |
///
/// Unstable data reads with bit errors. Depending on the page, the ECC corrects them, fails, or succeeds in one read and
/// fails in the next. The next erase ends the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The operation had just started.
    Early,
    /// The operation was half finished.
    Middle,
    /// The operation was nearly finished.
    Late,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 3] = [Self::Early, Self::Middle, Self::Late];
}

/// A device whose operations can be interrupted. The result depends only on the seed.
///
/// An operation that the device would reject has no effect.
pub trait Tear {
    /// Interrupts the program of `data` at `addr`, inside one program unit: a page, or the program buffer on NOR.
    fn tear_program(&mut self, addr: u64, data: &[u8], stage: Stage, seed: u64);

    /// Interrupts the program of a page with its OOB; for the arguments see [`Mtd::write_oob`](crate::Mtd::write_oob). A
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

/// Passes addresses relative to the partition to the underlying device.
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

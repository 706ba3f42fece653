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

/// Operation that is interrupted.
#[derive(Clone, Copy, Debug)]
pub enum Interrupted<'a> {
    /// Program inside one program unit: a page, or the program buffer on NOR.
    Program {
        /// Address of the first byte.
        addr: u64,
        /// Data to program.
        data: &'a [u8],
    },
    /// Program of a page with its OOB, as by [`Mtd::write_oob`](crate::Mtd::write_oob).
    ProgramWithOob {
        /// Address of the page.
        addr: u64,
        /// Data of the page.
        data: &'a [u8],
        /// OOB bytes.
        oob: &'a [u8],
        /// Place of the OOB bytes.
        mode: OobMode,
    },
    /// Erase of a block.
    Erase {
        /// Address of the block.
        addr: u64,
    },
}

impl Interrupted<'_> {
    /// Address of the operation.
    pub const fn addr(&self) -> u64 {
        let (Self::Program { addr, .. } | Self::ProgramWithOob { addr, .. } | Self::Erase { addr }) = *self;
        addr
    }

    /// The operation at another address.
    #[must_use]
    pub const fn moved(mut self, to: u64) -> Self {
        let (Self::Program { addr, .. } | Self::ProgramWithOob { addr, .. } | Self::Erase { addr }) =
            &mut self;
        *addr = to;
        self
    }
}

/// A device whose operations can be interrupted.
pub trait Tear {
    /// Interrupts an operation. The result depends only on the seed. An operation that the device would reject has no
    /// effect.
    fn tear(&mut self, operation: Interrupted<'_>, stage: Stage, seed: u64);
}

impl<D: Tear + ?Sized> Tear for &mut D {
    fn tear(&mut self, operation: Interrupted<'_>, stage: Stage, seed: u64) {
        (**self).tear(operation, stage, seed);
    }
}

impl<D: Tear + ?Sized> Tear for Box<D> {
    fn tear(&mut self, operation: Interrupted<'_>, stage: Stage, seed: u64) {
        (**self).tear(operation, stage, seed);
    }
}

/// Passes addresses relative to the partition to the underlying device.
impl<D: Tear + crate::Mtd> Tear for Partition<D> {
    fn tear(&mut self, operation: Interrupted<'_>, stage: Stage, seed: u64) {
        let addr = self.start().saturating_add(operation.addr());
        self.inner_mut().tear(operation.moved(addr), stage, seed);
    }
}

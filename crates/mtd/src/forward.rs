//! Implementations of the traits for references and boxes, so that a wrapper can borrow a device or own a device of
//! any type.

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::time::Instant;
use alloc::boxed::Box;

macro_rules! forward_mtd {
    ($pointer:ty) => {
        impl<D: Mtd + ?Sized> Mtd for $pointer {
            fn geometry(&self) -> &Geometry {
                (**self).geometry()
            }

            #[inline]
            fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
                (**self).read(now, addr, buf)
            }

            #[inline]
            fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
                (**self).write(now, addr, data)
            }

            fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
                (**self).erase(now, addr, len)
            }

            #[inline]
            fn read_oob(
                &mut self,
                now: Instant,
                addr: u64,
                data: &mut [u8],
                oob: &mut [u8],
                mode: OobMode,
            ) -> Result<Done, Error> {
                (**self).read_oob(now, addr, data, oob, mode)
            }

            #[inline]
            fn write_oob(
                &mut self,
                now: Instant,
                addr: u64,
                data: &[u8],
                oob: &[u8],
                mode: OobMode,
            ) -> Result<Done, Error> {
                (**self).write_oob(now, addr, data, oob, mode)
            }

            fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
                (**self).is_bad(now, addr)
            }

            fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
                (**self).mark_bad(now, addr)
            }

            fn breakdown(&self) -> Breakdown {
                (**self).breakdown()
            }
        }
    };
}

forward_mtd!(&mut D);
forward_mtd!(Box<D>);

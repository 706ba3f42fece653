//! One declaration per byte layout: the same table reads and writes.

use crate::error::{MediaError, Reason};

/// A value with a fixed number of little-endian bytes on the media.
pub(crate) trait Wire: Sized {
    /// Bytes taken.
    const WIDTH: usize;

    /// The value at byte `at`; bytes past the end read as zero.
    fn take(bytes: &[u8], at: usize) -> Self;

    /// Stores the value at byte `at`; bytes past the end are dropped.
    fn put(&self, bytes: &mut [u8], at: usize);
}

/// `N` bytes at `at`, or zeros if the slice does not hold them all.
///
/// Layout tables are checked at compile time, so the zero case is unreachable
/// from them; it exists so that no index can panic.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|tail| tail.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// Copies `source` to `at` if it fits.
pub(crate) fn store(bytes: &mut [u8], at: usize, source: &[u8]) {
    let place = bytes.get_mut(at..).and_then(|tail| tail.get_mut(..source.len()));
    if let Some(place) = place {
        place.copy_from_slice(source);
    }
}

/// The first `N` bytes at `at`, or an error naming how many there are.
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Result<&[u8; N], MediaError> {
    let tail = bytes.get(at..).unwrap_or(&[]);
    tail.first_chunk::<N>().ok_or_else(|| Reason::Truncated { need: N, have: tail.len() }.at(at))
}

/// `len` bytes at `at`, or an error naming how many there are.
pub(crate) fn span(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], MediaError> {
    let tail = bytes.get(at..).unwrap_or(&[]);
    tail.get(..len).ok_or_else(|| Reason::Truncated { need: len, have: tail.len() }.at(at))
}

/// Checks that a signature stands at `at`.
pub(crate) fn signature(bytes: &[u8], at: usize, text: &'static str) -> Result<(), MediaError> {
    let found = span(bytes, at, text.len())?;
    if found == text.as_bytes() {
        return Ok(());
    }
    Err(Reason::BadSignature { expected: text }.at(at))
}

macro_rules! integer {
    ($($ty:ty),*) => { $(
        impl Wire for $ty {
            const WIDTH: usize = size_of::<$ty>();

            fn take(bytes: &[u8], at: usize) -> Self {
                <$ty>::from_le_bytes(array(bytes, at))
            }

            fn put(&self, bytes: &mut [u8], at: usize) {
                store(bytes, at, &self.to_le_bytes());
            }
        }
    )* };
}

integer!(u8, u16, u32);

impl<T: Wire, const N: usize> Wire for [T; N] {
    const WIDTH: usize = T::WIDTH * N;

    fn take(bytes: &[u8], at: usize) -> Self {
        core::array::from_fn(|index| T::take(bytes, at + index * T::WIDTH))
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        for (index, value) in self.iter().enumerate() {
            value.put(bytes, at + index * T::WIDTH);
        }
    }
}

/// Declares a struct by the byte offset of each field.
///
/// Offsets rise, fields do not overlap and the last ends inside the size: all
/// three are checked when the crate is compiled. Bytes that no field covers
/// are reserved; they are ignored when read and zero when written.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident[$size:literal] {
            $( $(#[$field_meta:meta])* $offset:literal => $field:ident: $ty:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $name {
            $( $(#[$field_meta])* $vis $field: $ty, )*
        }

        const _: () = {
            let mut end = 0usize;
            $(
                assert!($offset >= end, "fields overlap or are out of order");
                end = $offset + <$ty as $crate::wire::Wire>::WIDTH;
            )*
            assert!(end <= $size, "the last field ends past the structure");
        };

        impl $name {
            /// Bytes this structure takes on the media.
            $vis const SIZE: usize = $size;
        }

        impl $crate::wire::Wire for $name {
            const WIDTH: usize = $size;

            fn take(bytes: &[u8], at: usize) -> Self {
                Self { $( $field: $crate::wire::Wire::take(bytes, at + $offset), )* }
            }

            fn put(&self, bytes: &mut [u8], at: usize) {
                $( self.$field.put(bytes, at + $offset); )*
            }
        }

        impl Default for $name {
            /// Every byte zero.
            fn default() -> Self {
                <Self as $crate::wire::Wire>::take(&[], 0)
            }
        }
    };
}

pub(crate) use layout;

//! Declarations of byte layouts: one table per layout both reads and writes it.

use crate::error::{MediaError, Reason};

/// A value with a fixed number of little-endian bytes on the media.
pub(crate) trait Wire: Sized {
    /// Encoded size of the value, bytes.
    const WIDTH: usize;

    /// The value at byte `at`; bytes past the end read as zero.
    fn decode(bytes: &[u8], at: usize) -> Self;

    /// Stores the value at byte `at`; bytes past the end of the slice are dropped.
    fn put(&self, bytes: &mut [u8], at: usize);
}

/// A value with a fixed number of big-endian bytes on the media.
///
/// It is the big-endian counterpart of [`Wire`]; a module uses the trait that matches its format.
pub(crate) trait BigWire: Sized {
    /// Encoded size of the value, bytes.
    const WIDTH: usize;

    /// The value at byte `at`; bytes past the end read as zero.
    fn decode(bytes: &[u8], at: usize) -> Self;

    /// Stores the value at byte `at`; bytes past the end of the slice are dropped.
    fn put(&self, bytes: &mut [u8], at: usize);
}

/// The `N` bytes at `at`; zeros if the slice does not contain all of them.
///
/// Offsets of layout tables are checked at compile time, so zeros cannot result from them. The case exists so that no
/// index can panic.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|tail| tail.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// Copies `source` to offset `at` if it fits.
pub(crate) fn store(bytes: &mut [u8], at: usize, source: &[u8]) {
    let place = bytes.get_mut(at..).and_then(|tail| tail.get_mut(..source.len()));
    if let Some(place) = place {
        place.copy_from_slice(source);
    }
}

/// The first `N` bytes at `at`, or an error with the number of available bytes.
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Result<&[u8; N], MediaError> {
    let tail = bytes.get(at..).unwrap_or(&[]);
    tail.first_chunk::<N>().ok_or_else(|| Reason::Truncated { need: N, have: tail.len() }.at(at))
}

/// The `len` bytes at `at`, or an error with the number of available bytes.
pub(crate) fn span(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], MediaError> {
    let tail = bytes.get(at..).unwrap_or(&[]);
    tail.get(..len).ok_or_else(|| Reason::Truncated { need: len, have: tail.len() }.at(at))
}

/// Checks that the signature `text` is at offset `at`.
pub(crate) fn signature(bytes: &[u8], at: usize, text: &'static str) -> Result<(), MediaError> {
    let found = span(bytes, at, text.len())?;
    if found == text.as_bytes() {
        return Ok(());
    }
    Err(Reason::BadSignature { expected: text }.at(at))
}

/// The first `len` bytes of `out`, or an error with the number of available bytes.
pub(crate) fn room(out: &mut [u8], len: usize) -> Result<&mut [u8], MediaError> {
    let have = out.len();
    out.get_mut(..len).ok_or_else(|| Reason::NoRoom { need: len, have }.at(0))
}

/// Converts a length or number to the type of its field at byte `at`. A value that is too large is an error, so that
/// no truncated value reaches the media.
pub(crate) fn narrow<T: TryFrom<usize>>(
    field: &'static str,
    at: usize,
    value: usize,
) -> Result<T, MediaError> {
    T::try_from(value).map_err(|_| Reason::OutOfRange { field, value: value as u64 }.at(at))
}

macro_rules! integer {
    (@$order:ident $ty:ty, $from:ident, $to:ident) => {
        impl $order for $ty {
            const WIDTH: usize = size_of::<$ty>();

            fn decode(bytes: &[u8], at: usize) -> Self {
                <$ty>::$from(array(bytes, at))
            }

            fn put(&self, bytes: &mut [u8], at: usize) {
                store(bytes, at, &self.$to());
            }
        }
    };
    ($($ty:ty),*) => { $(
        integer!(@Wire $ty, from_le_bytes, to_le_bytes);
        integer!(@BigWire $ty, from_be_bytes, to_be_bytes);
    )* };
}

integer!(u8, u16, u32, u64, i64);

macro_rules! array_of {
    ($order:ident) => {
        impl<T: $order, const N: usize> $order for [T; N] {
            const WIDTH: usize = T::WIDTH * N;

            fn decode(bytes: &[u8], at: usize) -> Self {
                core::array::from_fn(|index| T::decode(bytes, at + index * T::WIDTH))
            }

            fn put(&self, bytes: &mut [u8], at: usize) {
                for (index, value) in self.iter().enumerate() {
                    value.put(bytes, at + index * T::WIDTH);
                }
            }
        }
    };
}

array_of!(Wire);
array_of!(BigWire);

/// Declares a struct by the byte offset of each field.
///
/// Offsets increase, fields do not overlap, and the last field ends inside the size; all three are checked at compile
/// time. Bytes that no field covers are reserved: they are ignored when read and zero when written. Integers are
/// little-endian, or big-endian in a `big_endian struct`. An `either_endian struct` supports both, and the caller
/// chooses.
macro_rules! layout {
    (
        @$order:ident
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
                end = $offset + <$ty as $crate::wire::$order>::WIDTH;
            )*
            assert!(end <= $size, "the last field ends past the structure");
        };

        impl $name {
            /// Encoded size of this structure, bytes.
            $vis const SIZE: usize = $size;

            /// Calls `show` for each field with its offset, its name and its value.
            #[allow(dead_code, reason = "structures inside others are shown with these")]
            $vis fn each_field(&self, show: &mut dyn FnMut(usize, &'static str, &dyn core::fmt::Debug)) {
                $( show($offset, stringify!($field), &self.$field); )*
            }
        }

        impl $crate::wire::$order for $name {
            const WIDTH: usize = $size;

            fn decode(bytes: &[u8], at: usize) -> Self {
                Self { $( $field: $crate::wire::$order::decode(bytes, at + $offset), )* }
            }

            fn put(&self, bytes: &mut [u8], at: usize) {
                $( $crate::wire::$order::put(&self.$field, bytes, at + $offset); )*
            }
        }

        impl Default for $name {
            /// The value whose bytes are all zero.
            fn default() -> Self {
                <Self as $crate::wire::$order>::decode(&[], 0)
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis either_endian struct $name:ident[$size:literal] {
            $( $(#[$field_meta:meta])* $offset:literal => $field:ident: $ty:ty, )*
        }
    ) => {
        $crate::wire::layout! {
            @Wire $(#[$meta])*
            $vis struct $name[$size] {
                $( $(#[$field_meta])* $offset => $field: $ty, )*
            }
        }

        impl $crate::wire::BigWire for $name {
            const WIDTH: usize = $size;

            fn decode(bytes: &[u8], at: usize) -> Self {
                Self { $( $field: $crate::wire::BigWire::decode(bytes, at + $offset), )* }
            }

            fn put(&self, bytes: &mut [u8], at: usize) {
                $( $crate::wire::BigWire::put(&self.$field, bytes, at + $offset); )*
            }
        }
    };
    ( $(#[$meta:meta])* $vis:vis struct $($rest:tt)* ) => {
        $crate::wire::layout! { @Wire $(#[$meta])* $vis struct $($rest)* }
    };
    ( $(#[$meta:meta])* $vis:vis big_endian struct $($rest:tt)* ) => {
        $crate::wire::layout! { @BigWire $(#[$meta])* $vis struct $($rest)* }
    };
}

/// Implements both byte orders for a newtype's or enum's conversions from and to an integer.
macro_rules! wire_as {
    ($name:ident as $raw:ty, $from:expr, $to:expr) => {
        $crate::wire::wire_as!(@Wire $name as $raw, $from, $to);
        $crate::wire::wire_as!(@BigWire $name as $raw, $from, $to);
    };
    (@$order:ident $name:ident as $raw:ty, $from:expr, $to:expr) => {
        impl $crate::wire::$order for $name {
            const WIDTH: usize = size_of::<$raw>();

            fn decode(bytes: &[u8], at: usize) -> Self {
                $from(<$raw as $crate::wire::$order>::decode(bytes, at))
            }

            fn put(&self, bytes: &mut [u8], at: usize) {
                $crate::wire::$order::put(&$to(*self), bytes, at);
            }
        }
    };
}

/// Declares an enum over an integer that preserves codes without a name.
///
/// A code of a newer revision is emitted as it was read; a check of the field decides whether it is valid.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub enum $name:ident($raw:ty) {
            $( $(#[$code_meta:meta])* $variant:ident = $code:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$code_meta])* $variant, )*
            /// Code without a name.
            Other($raw),
        }

        impl $name {
            /// The variant for a code.
            #[must_use]
            pub const fn from_code(code: $raw) -> Self {
                match code {
                    $( $code => Self::$variant, )*
                    other => Self::Other(other),
                }
            }

            /// Code of the variant on the media.
            #[must_use]
            pub const fn code(self) -> $raw {
                match self {
                    $( Self::$variant => $code, )*
                    Self::Other(code) => code,
                }
            }

            /// Rejects a code without a name; `at` is its offset.
            #[allow(dead_code)] // some formats allow any code
            pub(crate) fn known(self, field: &'static str, at: usize) -> Result<Self, $crate::MediaError> {
                match Self::from_code(self.code()) {
                    Self::Other(code) => {
                        Err($crate::Reason::OutOfRange { field, value: u64::from(code) }.at(at))
                    }
                    named => Ok(named),
                }
            }
        }

        $crate::wire::wire_as!($name as $raw, Self::from_code, Self::code);
    };
}

pub(crate) use {codes, layout, wire_as};

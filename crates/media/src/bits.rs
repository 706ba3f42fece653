//! Declarations of DWORD layouts: one table per layout both reads and writes its bit fields.

/// A value with a fixed number of bits inside a DWORD.
pub(crate) trait BitField: Sized {
    /// Decodes `raw`, which has no bit set above the field's width.
    fn decode(raw: u32) -> Self;

    /// The encoded bits. The error is a value that does not fit its field.
    fn encode(&self) -> Result<u32, u64>;
}

impl BitField for bool {
    fn decode(raw: u32) -> Self {
        raw != 0
    }

    fn encode(&self) -> Result<u32, u64> {
        Ok(u32::from(*self))
    }
}

impl BitField for u8 {
    fn decode(raw: u32) -> Self {
        // Field widths are checked at compile time, so the cast drops no bit.
        (raw & 0xff) as Self
    }

    fn encode(&self) -> Result<u32, u64> {
        Ok(u32::from(*self))
    }
}

impl BitField for u16 {
    fn decode(raw: u32) -> Self {
        (raw & 0xffff) as Self
    }

    fn encode(&self) -> Result<u32, u64> {
        Ok(u32::from(*self))
    }
}

impl BitField for u32 {
    fn decode(raw: u32) -> Self {
        raw
    }

    fn encode(&self) -> Result<u32, u64> {
        Ok(*self)
    }
}

/// Mask of the bits `high..=low` at their position in the DWORD.
pub(crate) const fn mask(high: u32, low: u32) -> u32 {
    assert!(high < 32 && low <= high, "a field lies within one DWORD");
    (u32::MAX >> (31 - high)) & (u32::MAX << low)
}

/// Declares a struct by the DWORD and bits of each field.
///
/// Each line is `field: type = dword, high, low;`. DWORDs are numbered as in the document.
/// Overlapping fields fail to compile. Bits that no field covers are stored in `reserved`, so that
/// a parsed table is emitted bit for bit.
macro_rules! dwords {
    (
        $(#[$meta:meta])*
        pub struct $name:ident[$first:literal..=$last:literal, reserved $fill:expr] {
            $( $(#[$field_meta:meta])* $field:ident: $ty:ty = $dword:literal, $high:literal, $low:literal; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty, )*
            /// Bits of each DWORD that the document reserves, at their position in the DWORD.
            pub reserved: [u32; $last - $first + 1],
        }

        impl $name {
            /// Size of this table on the media, DWORDs.
            pub const DWORDS: usize = $last - $first + 1;

            /// Bits of each DWORD that belong to a field.
            const NAMED: [u32; $last - $first + 1] = {
                let mut named = [0u32; $last - $first + 1];
                $(
                    let field = $crate::bits::mask($high, $low);
                    assert!(named[$dword - $first] & field == 0, "fields overlap");
                    assert!(
                        8 * size_of::<$ty>() > $high - $low,
                        "the type is narrower than the field"
                    );
                    named[$dword - $first] |= field;
                )*
                named
            };

            pub(crate) fn read(dwords: &[u32; $last - $first + 1]) -> Self {
                Self {
                    $( $field: $crate::bits::BitField::decode(
                        (dwords[$dword - $first] & $crate::bits::mask($high, $low)) >> $low
                    ), )*
                    reserved: core::array::from_fn(|index| dwords[index] & !Self::NAMED[index]),
                }
            }

            pub(crate) fn write(&self) -> Result<[u32; $last - $first + 1], $crate::error::Reason> {
                let mut out = self.reserved;
                for (index, dword) in out.iter().enumerate() {
                    $crate::bits::fits("reserved bits", u64::from(dword & Self::NAMED[index]), 0)?;
                }
                $(
                    let limit = $crate::bits::mask($high, $low) >> $low;
                    let raw = $crate::bits::BitField::encode(&self.$field).map_err(|value| {
                        $crate::error::Reason::OutOfRange { field: stringify!($field), value }
                    })?;
                    $crate::bits::fits(stringify!($field), u64::from(raw), limit)?;
                    out[$dword - $first] |= raw << $low;
                )*
                Ok(out)
            }
        }

        impl Default for $name {
            /// A value with every field zero and the reserved bits as specified.
            fn default() -> Self {
                let fill: u32 = $fill;
                let mut value = Self::read(&[0; $last - $first + 1]);
                value.reserved = core::array::from_fn(|index| fill & !Self::NAMED[index]);
                value
            }
        }
    };
}

/// Checks that a value is at most the largest value that its field can hold.
pub(crate) fn fits(field: &'static str, value: u64, limit: u32) -> Result<(), crate::error::Reason> {
    if value <= u64::from(limit) {
        return Ok(());
    }
    Err(crate::error::Reason::OutOfRange { field, value })
}

/// Lets a one-DWORD struct of [`dwords!`] be a field of another.
macro_rules! embed {
    ($($name:ident),*) => { $(
        impl $crate::bits::BitField for $name {
            fn decode(raw: u32) -> Self {
                Self::read(&[raw])
            }

            fn encode(&self) -> Result<u32, u64> {
                self.write().map(|[raw]| raw).map_err(|reason| match reason {
                    $crate::error::Reason::OutOfRange { value, .. } => value,
                    _ => 0,
                })
            }
        }
    )* };
}

/// Declares an enum with one variant for every value of a field.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$code_meta:meta])* $variant:ident = $code:literal, )*
            ..
            $(#[$last_meta:meta])* $last:ident = $last_code:literal,
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$code_meta])* $variant = $code, )*
            $(#[$last_meta])* $last = $last_code,
        }

        impl $crate::bits::BitField for $name {
            fn decode(raw: u32) -> Self {
                match raw {
                    $( $code => Self::$variant, )*
                    _ => Self::$last,
                }
            }

            fn encode(&self) -> Result<u32, u64> {
                Ok(*self as u32)
            }
        }
    };
}

pub(crate) use {codes, dwords, embed};

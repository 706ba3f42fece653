//! Bit sets that preserve bits without a name in this crate.

/// Declares a bit set over one unsigned integer.
///
/// Each entry is a bit number. Bits without a name are preserved, so that a page of a newer
/// revision is emitted as it was read.
macro_rules! flags {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($raw:ty) {
            $( $(#[$bit_meta:meta])* $bit:ident = $number:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
        pub struct $name($raw);

        impl $name {
            $( $(#[$bit_meta])* pub const $bit: Self = Self(1 << $number); )*

            /// The set with exactly the bits of `raw`.
            #[must_use]
            pub const fn from_bits(raw: $raw) -> Self {
                Self(raw)
            }

            /// The raw bits, as stored.
            #[must_use]
            pub const fn bits(self) -> $raw {
                self.0
            }

            /// True when every bit of `other` is set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The union of both sets.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        $crate::wire::wire_as!($name as $raw, Self, Self::bits);
    };
}

pub(crate) use flags;

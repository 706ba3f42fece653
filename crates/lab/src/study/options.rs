//! Types of options that several studies share.

use floatgate_sim::card_state::CardState;
use serde::{Deserialize, Deserializer, de};
use std::str::FromStr;

/// Defines a type of numbers within bounds, which can be parsed from text and from JSON.
macro_rules! bounded {
    ($($(#[$doc:meta])* $name:ident: $number:ty, $bounds:expr, $words:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name(pub(super) $number);

        impl $name {
            /// Number, which is within the bounds.
            pub const fn get(self) -> $number {
                self.0
            }

            fn within(number: $number) -> Result<Self, &'static str> {
                if $bounds.contains(&number) { Ok(Self(number)) } else { Err($words) }
            }
        }

        impl FromStr for $name {
            type Err = &'static str;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::within(text.parse().map_err(|_| $words)?)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::within(Deserialize::deserialize(from)?).map_err(de::Error::custom)
            }
        }
    )+};
}

/// State of a card before its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing on the card was ever written
    #[default]
    Empty,
    /// Half of the card was written
    Used,
    /// The whole card was written
    Full,
}

impl From<State> for CardState {
    fn from(state: State) -> Self {
        match state {
            State::Empty => Self::Empty,
            State::Used => Self::Used,
            State::Full => Self::Full,
        }
    }
}

bounded! {
    /// Years of use.
    Years: f64, (0.1..=100.0), "a number of years from 0.1 to 100";
    /// A temperature in degrees Celsius.
    Celsius: f64, (-55.0..=150.0), "degrees Celsius from -55 to 150";
    /// Share of the free space of a filesystem that files fill, percent.
    Fill: u32, (1..=80), "a whole number from 1 to 80";
    /// Number of chips.
    Chips: u32, (1..=10_000), "a whole number from 1 to 10000";
}

impl Fill {
    /// Parses a percentage such as `50` or `50%`.
    ///
    /// # Errors
    /// The text is not such a number.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        text.strip_suffix('%').unwrap_or(text).parse()
    }
}

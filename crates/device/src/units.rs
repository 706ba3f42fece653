//! Quantities in part and setup files. A key contains its unit (`t_prog_us`, `clock_hz`, `page_bytes`). The value is
//! a plain number in that unit, or a string with a unit of the same dimension (`"250 us"`, `"80 MHz"`, `"128 KiB"`).
//!
//! Each submodule is named for use in `#[serde(with = "units::us")]`.

use floatgate_mtd::{Nanos, size};
use serde::de::{self, Deserializer, Visitor};
use std::fmt;

/// A dimension with its unit names; the first one is the base unit (factor 1).
struct Dimension {
    name: &'static str,
    example: &'static str,
    units: &'static [(&'static str, f64)],
    /// Largest value in base units that any field accepts.
    largest: f64,
}

const TIME: Dimension = Dimension {
    name: "a time",
    example: "\"25 us\"",
    units: &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("h", 3.6e12)],
    // The limit is 1000 s: no operation of a chip takes longer, and the sum of millions of operations still fits 64
    // bits.
    largest: 1e12,
};

const FREQUENCY: Dimension = Dimension {
    name: "a frequency",
    example: "\"80 MHz\"",
    units: &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)],
    largest: EXACT,
};

const SIZE: Dimension =
    Dimension { name: "a size", example: "\"128 KiB\"", units: &[("B", 1.0)], largest: EXACT };

/// Limit up to which `f64` is exact: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Copy)]
struct Quantity {
    dimension: &'static Dimension,
    /// Number of base units in a plain number.
    scale: f64,
}

impl Quantity {
    fn check<E: de::Error>(&self, base: f64) -> Result<u64, E> {
        if !base.is_finite() || base < 0.0 {
            return Err(E::custom(format_args!("{} cannot be negative", self.dimension.name)));
        }
        if base > self.dimension.largest {
            return Err(E::custom(format_args!("{} this large is impossible", self.dimension.name)));
        }
        Ok(base.round() as u64)
    }

    fn parse<E: de::Error>(&self, text: &str) -> Result<u64, E> {
        let text = text.trim();
        let split = text.find(|c: char| c.is_alphabetic() && c != 'e').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let value: f64 = number.trim().replace('_', "").parse().map_err(|_| self.wrong(text))?;
        if unit.is_empty() {
            return self.check(value * self.scale);
        }
        let known = self.dimension.units.iter().find(|(name, _)| *name == unit);
        match known {
            Some((_, factor)) => self.check(value * factor),
            None => Err(self.wrong(text)),
        }
    }

    fn wrong<E: de::Error>(&self, text: &str) -> E {
        let units: Vec<&str> = self.dimension.units.iter().map(|u| u.0).collect();
        E::custom(format_args!(
            "{text:?} is not {} (write a number, or {} with one of {})",
            self.dimension.name,
            self.dimension.example,
            units.join(", ")
        ))
    }
}

impl Visitor<'_> for Quantity {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: a number or text such as {}", self.dimension.name, self.dimension.example)
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<u64, E> {
        self.check(v as f64 * self.scale)
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<u64, E> {
        self.check(v as f64 * self.scale)
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<u64, E> {
        self.check(v * self.scale)
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<u64, E> {
        self.parse(v)
    }
}

/// A size, with the same notation as in other places.
struct Size;

const NUMBER_OF_BYTES: Quantity = Quantity { dimension: &SIZE, scale: 1.0 };

impl Visitor<'_> for Size {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NUMBER_OF_BYTES.expecting(f)
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<u64, E> {
        NUMBER_OF_BYTES.visit_i64(v)
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<u64, E> {
        NUMBER_OF_BYTES.visit_u64(v)
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<u64, E> {
        NUMBER_OF_BYTES.visit_f64(v)
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<u64, E> {
        let bytes = size::parse(v).map_err(E::custom)?;
        NUMBER_OF_BYTES.visit_u64(bytes)
    }
}

macro_rules! time_unit {
    ($name:ident, $scale:expr, $doc:expr) => {
        #[doc = $doc]
        pub mod $name {
            use super::{Deserializer, Nanos, Quantity, TIME};

            /// Deserializes a time, for `#[serde(deserialize_with)]`.
            ///
            /// # Errors
            /// The value is not a time.
            pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Nanos, D::Error> {
                let quantity = Quantity { dimension: &TIME, scale: $scale };
                d.deserialize_any(quantity).map(Nanos::from_ns)
            }
        }
    };
}

time_unit!(ns, 1.0, "Times whose plain numbers are nanoseconds.");
time_unit!(us, 1e3, "Times whose plain numbers are microseconds.");
time_unit!(ms, 1e6, "Times whose plain numbers are milliseconds.");

/// Frequencies whose plain numbers are hertz.
pub mod hz {
    use super::{Deserializer, FREQUENCY, Quantity};

    /// Deserializes a frequency, for `#[serde(deserialize_with)]`.
    ///
    /// # Errors
    /// The value is not a frequency.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        d.deserialize_any(Quantity { dimension: &FREQUENCY, scale: 1.0 })
    }
}

/// Sizes whose plain numbers are bytes.
pub mod bytes {
    use super::{Deserializer, Size};

    /// Deserializes a size, for `#[serde(deserialize_with)]`.
    ///
    /// # Errors
    /// The value is not a size.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        d.deserialize_any(Size)
    }
}

/// A typical and a guaranteed maximum time, in microseconds: `{ typ = 250, max = 700 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, try_from = "AnyTypMaxUs")]
pub struct TypMaxUs {
    /// Typical time, which the simulated chip takes.
    #[serde(with = "us")]
    pub typ: Nanos,
    /// Guaranteed maximum, from which drivers derive their timeouts.
    #[serde(with = "us")]
    pub max: Nanos,
}

/// A pair of times as written, before they are checked.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyTypMaxUs {
    #[serde(with = "us")]
    typ: Nanos,
    #[serde(with = "us")]
    max: Nanos,
}

impl TryFrom<AnyTypMaxUs> for TypMaxUs {
    type Error = String;

    fn try_from(AnyTypMaxUs { typ, max }: AnyTypMaxUs) -> Result<Self, String> {
        if typ == Nanos::ZERO {
            return Err("the typical time is 0, and no array works in no time: 0.001 is 1 ns".to_owned());
        }
        if typ > max {
            return Err(format!("the typical time, {typ}, is longer than the maximum, {max}: set `max` too"));
        }
        Ok(Self { typ, max })
    }
}

//! Constraints such as `column < number`.

use floatgate_sim::error::Error;
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A condition on the values of a column.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// Column on the left side.
    pub column: String,
    sign: &'static str,
    limit: f64,
}

impl Constraint {
    /// Parses a condition such as `page read KiB/s > 10000`.
    ///
    /// # Errors
    /// The text is not a condition.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let found = ["<=", ">=", "<", ">"].into_iter().find_map(|sign| Some((sign, text.split_once(sign)?)));
        let parsed = found.and_then(|(sign, (column, limit))| {
            let limit = limit.trim().replace('_', "").parse().ok().filter(|limit: &f64| limit.is_finite())?;
            Some(Self { column: column.trim().to_owned(), sign, limit })
        });
        let help = "write a column, one of < <= > >=, and a number: \"page read KiB/s > 10000\"";
        parsed.ok_or_else(|| Error::request(format!("no constraint: `{text}`"), help))
    }

    /// True if a value meets the condition. A missing value does not.
    pub fn holds(&self, value: Option<f64>) -> bool {
        let limit = self.limit;
        value.is_some_and(|value| match self.sign {
            "<=" => value <= limit,
            ">=" => value >= limit,
            "<" => value < limit,
            _ => value > limit,
        })
    }

    /// True if no value between `low` and `high` meets the condition.
    pub fn is_missed_by(&self, [low, high]: [f64; 2]) -> bool {
        !self.holds(Some(low)) && !self.holds(Some(high))
    }

    /// Name of the test to whose figure the column belongs.
    pub(super) fn test(&self) -> &str {
        self.column.trim_end_matches(" KiB/s").trim_end_matches(" ms")
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.column, self.sign, self.limit)
    }
}

impl<'de> Deserialize<'de> for Constraint {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(d)?).map_err(|error| match error.help() {
            Some(help) => de::Error::custom(format!("{error}; {help}")),
            None => de::Error::custom(error),
        })
    }
}

impl Serialize for Constraint {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

//! Values of stored results whose types have no JSON of their own: times by phase, and texts of a small vocabulary.

use floatgate_mtd::{Breakdown, Nanos, Phase};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Text of a small vocabulary, which is read with [`text`]. Without this name, serde would borrow the text from its
/// input.
pub(crate) type Text = &'static str;

/// Longest time that is read, ns. Integers in JSON fit into 53 bits, and a sum of such times does not overflow.
pub(crate) const NS_MAX: u64 = 1 << 53;

/// Reads times in ns by phase name. Unknown phases and impossibly long times are left out.
///
/// # Errors
/// The value is no object of integers.
pub(crate) fn breakdown<'de, D: Deserializer<'de>>(from: D) -> Result<Breakdown, D::Error> {
    let times = BTreeMap::<String, u64>::deserialize(from)?;
    let mut all = Breakdown::default();
    for phase in Phase::ALL {
        let ns = times.get(phase.name()).copied().filter(|ns| *ns <= NS_MAX);
        all.add(phase, Nanos::from_ns(ns.unwrap_or(0)));
    }
    Ok(all)
}

/// Length of a text of the vocabulary, bytes, and number of its texts. Both bound the memory that a result can occupy
/// until the process ends.
const TEXT_BYTES_MAX: usize = 256;
const TEXTS_MAX: usize = 4096;

/// Texts of all results that were read.
static TEXTS: Mutex<BTreeSet<Text>> = Mutex::new(BTreeSet::new());

/// Reads a text of a small vocabulary, such as names of activities, phases and units. Each text is stored once, until
/// the process ends.
///
/// # Errors
/// The value is no text, or it is too long, or there are too many texts.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Text, D::Error> {
    kept(String::deserialize(from)?).map_err(D::Error::custom)
}

/// Reads a text with [`text`], or `null`.
///
/// # Errors
/// The errors of [`text`].
pub(crate) fn optional_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Text>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(kept).transpose().map_err(D::Error::custom)
}

fn kept(text: String) -> Result<Text, String> {
    let mut all = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(text.as_str()) {
        return Ok(known);
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("a name of {} bytes, of which {TEXT_BYTES_MAX} are read", text.len()));
    }
    if all.len() >= TEXTS_MAX {
        return Err(format!("more than {TEXTS_MAX} different names"));
    }
    let text: Text = text.leak();
    all.insert(text);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_stored_once_and_their_memory_is_bounded() {
        let [one, other] = [(); 2].map(|()| text(json!("a name of an activity")).unwrap());
        assert!(std::ptr::eq(one, other));
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert!(text(json!(long)).unwrap_err().to_string().contains("257 bytes"));
        assert_eq!(optional_text(json!(null)).unwrap(), None);
        assert!(text(json!(5)).is_err());
    }

    #[test]
    fn impossibly_long_times_are_left_out() {
        let read = breakdown(json!({ "array": u64::MAX, "cpu": 999, "of another version": 1 })).unwrap();
        assert_eq!(read.largest(), (Phase::Cpu, Nanos::from_ns(999)));
        assert_eq!(read.total(), Nanos::from_ns(999));
    }
}

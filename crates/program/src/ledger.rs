//! Reference model of a program's values on flash: for each name the last synchronised value, and the values written since then.
//!
//! After a power cut a name may have any of these values. The value found then is on flash, so it must also be found after the next cut.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Value of a name; `None` if the name is absent.
type Value = Option<Arc<[u8]>>;

/// Possible values of one name.
#[derive(Clone, Debug, Default)]
struct Entry {
    synced: Value,
    written: Vec<Value>,
    /// True if any value is allowed.
    is_unsure: bool,
    /// True if the name was checked since power was last restored.
    looked_at: bool,
}

/// The values that a program may find on flash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<String, Entry>,
    /// Description of the first wrong value since power was last restored.
    broken: Option<String>,
    /// Number of values that were compared with synchronised values.
    compared: u64,
}

impl Ledger {
    /// Records that the name may have this value from now on.
    pub(crate) fn write(&mut self, name: &str, value: Option<&[u8]>) {
        self.entries.entry(name.to_owned()).or_default().written.push(value.map(Arc::from));
    }

    /// Records that the name may have any value until it is synchronised.
    pub(crate) fn unsure(&mut self, name: &str) {
        self.entries.entry(name.to_owned()).or_default().is_unsure = true;
    }

    /// Records that the last value of a name, or of all names, is on flash.
    pub(crate) fn synced(&mut self, name: Option<&str>) {
        let all = self.entries.iter_mut().filter(|(of, _)| name.is_none_or(|name| name == *of));
        for (_, entry) in all {
            if let Some(last) = entry.written.drain(..).next_back() {
                entry.synced = last;
                entry.is_unsure = false;
            }
        }
    }

    /// Compares a value that was found with the possible values. The error describes a wrong value.
    pub(crate) fn found(&mut self, name: &str, value: Option<&[u8]>) -> Result<(), String> {
        let entry = self.entries.entry(name.to_owned()).or_default();
        let is_good = entry.is_unsure
            || entry.written.iter().chain([&entry.synced]).any(|good| good.as_deref() == value);
        self.compared += u64::from(!entry.is_unsure && entry.synced.is_some());
        if is_good {
            *entry = Entry { synced: value.map(Arc::from), looked_at: true, ..Entry::default() };
            return Ok(());
        }
        entry.looked_at = true;
        let why = format!("{name} has {}; {}", shown(value), entry.expected());
        self.broken.get_or_insert_with(|| why.clone());
        Err(why)
    }

    /// Number of values compared with synchronised values so far.
    pub(crate) const fn compared(&self) -> u64 {
        self.compared
    }

    /// Records that power was restored: all values must be checked again.
    pub(crate) fn power_returned(&mut self) {
        self.broken = None;
        self.entries.values_mut().for_each(|entry| entry.looked_at = false);
    }

    /// Final check: describes a wrong value, or a synchronised name that was not found.
    pub(crate) fn verdict(&mut self) -> Result<(), String> {
        let absent: Vec<String> =
            self.entries.iter().filter(|(_, entry)| !entry.looked_at).map(|(name, _)| name.clone()).collect();
        for name in absent {
            // A wrong value is recorded in `broken`.
            let _ = self.found(&name, None);
        }
        self.broken.take().map_or(Ok(()), Err)
    }
}

impl Entry {
    fn expected(&self) -> String {
        let written = match self.written.len() {
            0 => String::new(),
            1 => ", or the value written after that".to_owned(),
            n => format!(", or one of {n} values written after that"),
        };
        format!("expected {}, which was synchronised{written}", shown(self.synced.as_deref()))
    }
}

/// A value for display: as text without zeros at the end, or its first bytes.
fn shown(value: Option<&[u8]>) -> String {
    const BYTES_MAX: usize = 24;
    let Some(whole) = value else { return "no value".to_owned() };
    let length = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let is_text = length > 0 && whole.iter().take(length).all(|byte| (b' '..=b'~').contains(byte));
    let value = if is_text { whole.get(..length).unwrap_or(whole) } else { whole };
    let (first, rest) = value.split_at(value.len().min(BYTES_MAX));
    let more = if rest.is_empty() { String::new() } else { format!(".. ({} bytes)", value.len()) };
    if is_text {
        return format!("\"{}\"{more}", String::from_utf8_lossy(first));
    }
    let hex: String = first.iter().map(|byte| format!("{byte:02x}")).collect();
    if value.is_empty() { "an empty value".to_owned() } else { format!("{hex}{more}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_synchronised_value_or_a_later_one() {
        let mut ledger = Ledger::default();
        ledger.write("k", Some(b"a"));
        ledger.synced(None);
        ledger.write("k", Some(b"b"));
        ledger.write("other", Some(b"x"));
        let after_cut = |value: Option<&[u8]>| {
            let mut ledger = ledger.clone();
            ledger.power_returned();
            ledger.found("k", value).and_then(|()| ledger.verdict())
        };
        assert_eq!((after_cut(Some(b"a")), after_cut(Some(b"b"))), (Ok(()), Ok(())));
        assert_eq!(
            after_cut(Some(b"\x00")).unwrap_err(),
            "k has 00; expected \"a\", which was synchronised, or the value written after that"
        );
        assert!(after_cut(None).unwrap_err().starts_with("k has no value"));
    }

    #[test]
    fn a_synchronised_name_that_is_not_reported_is_lost() {
        let mut ledger = Ledger::default();
        ledger.write("k", Some(b"a"));
        ledger.synced(Some("k"));
        ledger.power_returned();
        assert!(ledger.verdict().unwrap_err().starts_with("k has no value; expected \"a\""));
    }

    #[test]
    fn a_rejected_value_changes_nothing() {
        let mut ledger = Ledger::default();
        ledger.write("k", Some(b"a"));
        ledger.synced(None);
        assert!(ledger.found("k", Some(b"x")).is_err());
        assert_eq!(ledger.found("k", Some(b"a")), Ok(()));
        assert!(ledger.found("k", Some(b"x")).is_err());
    }

    #[test]
    fn a_value_that_was_found_stays() {
        let mut ledger = Ledger::default();
        ledger.write("k", Some(b"a"));
        ledger.power_returned();
        ledger.found("k", Some(b"a")).unwrap();
        ledger.verdict().unwrap();
        ledger.power_returned();
        assert!(ledger.verdict().is_err());
    }
}

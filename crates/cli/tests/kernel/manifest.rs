//! What is in a filesystem, as the witness prints it: a line for each entry, its escaped path and `field=value`.

use std::collections::BTreeMap;

type Fields = BTreeMap<String, String>;

/// All entries by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest(pub(crate) BTreeMap<String, Fields>);

/// Differences that are shown of one comparison.
const SHOWN: usize = 20;

impl Manifest {
    pub(crate) fn parse(text: &str) -> Self {
        Self(text.lines().map(entry).collect())
    }

    /// Without the fields that the other side cannot know, for entries for which `which` holds.
    pub(crate) fn without(mut self, fields: &[&str], which: impl Fn(&Fields) -> bool) -> Self {
        for entry in self.0.values_mut().filter(|entry| which(entry)) {
            entry.retain(|field, _| !fields.contains(&field.as_str()));
        }
        self
    }

    /// Without the entries for which `which` holds.
    pub(crate) fn without_entries(mut self, which: impl Fn(&Fields) -> bool) -> Self {
        self.0.retain(|_, entry| !which(entry));
        self
    }

    /// Where `found` is not like this one.
    pub(crate) fn differences(&self, found: &Self) -> Vec<String> {
        let missing =
            self.0.keys().filter(|path| !found.0.contains_key(*path)).map(|path| format!("missing: {path}"));
        let extra = found.0.iter().filter_map(|(path, entry)| match self.0.get(path) {
            None => Some(format!("not expected: {path} {entry:?}")),
            Some(expected) => differing(path, expected, entry),
        });
        missing.chain(extra).collect()
    }
}

fn entry(line: &str) -> (String, Fields) {
    let mut words = line.split(' ');
    let path = words.next().unwrap().to_owned();
    let fields = words
        .map(|word| word.split_once('=').unwrap())
        .map(|(field, value)| (field.to_owned(), value.to_owned()));
    (path, fields.collect())
}

fn differing(path: &str, expected: &Fields, found: &Fields) -> Option<String> {
    let mut fields: Vec<_> = expected.keys().chain(found.keys()).collect();
    fields.sort();
    fields.dedup();
    fields.retain(|field| expected.get(*field) != found.get(*field));
    let shown = fields.iter().map(|field| {
        let [expected, found] =
            [expected, found].map(|entry| entry.get(*field).map_or("none", String::as_str));
        format!("{field} is {found}, expected {expected}")
    });
    (!fields.is_empty()).then(|| format!("{path}: {}", shown.collect::<Vec<_>>().join("; ")))
}

/// Fails with the first differences of each case.
pub(crate) fn assert_no_differences(cases: impl IntoIterator<Item = (String, Vec<String>)>) {
    let mut report = String::new();
    for (name, differences) in cases.into_iter().filter(|(_, differences)| !differences.is_empty()) {
        report += &format!("\n{name}: {} differences\n", differences.len());
        differences.iter().take(SHOWN).for_each(|line| report += &format!("  {line:.1000}\n"));
    }
    assert!(report.is_empty(), "{report}");
}

//! Search for known names that resemble a misspelt name, for "did you mean" messages.

/// Maximum length of a compared name, because the time grows with the product of both lengths.
const COMPARED: usize = 64;

/// At most `most` of the known names that are similar to `name`, best first.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let name = fold(name);
    if name.is_empty() || name.len() > COMPARED {
        return Vec::new();
    }
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|candidate| distance(&name, &fold(candidate)).map(|distance| (distance, candidate)))
        .collect();
    found.sort_unstable();
    found.truncate(most);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The text "did you mean `x`? " with the most similar name, or an empty text.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known, 1).first().map_or_else(String::new, |best| format!("did you mean `{best}`? "))
}

/// Normalised form of a name: lower case, without `-` and `_`.
fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Edit distance of two names; `None` if they are too different.
fn distance(name: &str, candidate: &str) -> Option<usize> {
    let typos = typos(name, candidate);
    let shorter = name.len().min(candidate.len());
    let contained = shorter >= 3 && (candidate.contains(name) || name.contains(candidate));
    (contained || typos <= (shorter + 1) / 3).then_some(typos)
}

/// Minimum number of insertions, deletions, replacements and swaps of adjacent characters that convert one name to the
/// other (optimal string alignment).
fn typos(name: &str, candidate: &str) -> usize {
    let [name, candidate] = [name, candidate].map(|text| text.chars().collect::<Vec<_>>());
    // Rows of the table for the last two characters and for the current one.
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=candidate.len()).collect();
    for (row, typed) in name.iter().enumerate() {
        let mut this = vec![row + 1];
        for (column, meant) in candidate.iter().enumerate() {
            let replaced = last[column] + usize::from(typed != meant);
            let mut least = replaced.min(last[column + 1] + 1).min(this[column] + 1);
            let is_swap = row > 0 && column > 0 && *typed == candidate[column - 1] && name[row - 1] == *meant;
            if is_swap {
                least = least.min(before_last[column - 1] + 1);
            }
            this.push(least);
        }
        before_last = std::mem::replace(&mut last, this);
    }
    last.last().copied().unwrap_or(0)
}

/// Names in backquotes, with commas.
pub(super) fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Unit suffixes of keys with the unit in values, by dimension. The first spelling of a unit is the one in values.
const UNITS: [&[(&str, &str)]; 3] = [
    &[("ns", "ns"), ("us", "us"), ("ms", "ms"), ("s", "s"), ("sec", "s"), ("min", "min"), ("h", "h")],
    &[("hz", "Hz"), ("khz", "kHz"), ("mhz", "MHz"), ("ghz", "GHz")],
    &[
        ("bytes", "B"),
        ("b", "B"),
        ("kib", "KiB"),
        ("mib", "MiB"),
        ("gib", "GiB"),
        ("kb", "kB"),
        ("mb", "MB"),
        ("gb", "GB"),
    ],
];

/// Dimension and unit of a key's suffix.
fn unit_of(suffix: &str) -> Option<(usize, &'static str)> {
    let suffix = suffix.to_lowercase();
    (0..).zip(UNITS).find_map(|(dimension, units)| {
        units.iter().find(|(spelling, _)| *spelling == suffix).map(|(_, unit)| (dimension, *unit))
    })
}

/// Advice for a key with a wrong or missing unit: for `clock_mhz` or `t_prog` if `clock_hz` or `t_prog_us` is known. `number` is the
/// key's value if that is a number.
pub(super) fn other_unit(key: &str, known: &[&str], number: Option<&str>) -> Option<String> {
    let (stem, unit) = match key.rsplit_once('_').and_then(|(stem, end)| Some((stem, unit_of(end)?))) {
        Some((stem, unit)) => (stem, Some(unit)),
        None => (key, None),
    };
    let (right, right_unit) = known.iter().find_map(|&candidate| {
        let (candidate_stem, end) = candidate.rsplit_once('_')?;
        let (dimension, name) = unit_of(end)?;
        let fits = candidate_stem == stem && unit.is_none_or(|(other, _)| other == dimension);
        fits.then_some((candidate, name))
    })?;
    let example = match (unit, number) {
        (Some((_, unit)), Some(number)) => format!("`{right} = \"{number} {unit}\"`"),
        _ => format!("`{right} = ...`"),
    };
    Some(format!(
        "the key carries its unit and is `{right}`: write {example}; a plain number is in {right_unit}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_best_first() {
        let parts = ["w25n01gv", "w25n01jw", "w35n01jw", "mx25l12833f"];
        assert_eq!(nearest("W35N01-JW", parts, 3), ["w35n01jw", "w25n01jw", "w25n01gv"]);
        assert_eq!(nearest("w25n", parts, 5), ["w25n01gv", "w25n01jw"]);
        assert!(nearest("zzz", parts, 5).is_empty());
        assert!(nearest(&"w25n01jw".repeat(100), parts, 5).is_empty());
    }

    #[test]
    fn typos_are_counted() {
        for (name, candidate, wanted) in
            [("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("w25q", "w2q5", 1), ("ab", "ba", 1)]
        {
            assert_eq!(typos(name, candidate), wanted, "{name} {candidate}");
        }
    }

    #[test]
    fn other_units_are_recognised() {
        let known = ["clock_hz", "t_prog_us", "page_bytes"];
        let help = |key, number| other_unit(key, &known, number);
        assert!(help("clock_mhz", Some("80")).unwrap().contains("`clock_hz = \"80 MHz\"`"));
        assert!(help("t_prog_ms", Some("0.25")).unwrap().contains("`t_prog_us = \"0.25 ms\"`"));
        assert!(help("page_kib", Some("2")).unwrap().contains("`page_bytes = \"2 KiB\"`"));
        assert!(help("clock", Some("2")).unwrap().contains("a plain number is in Hz"));
        assert_eq!(help("clock_us", Some("2")), None);
        assert_eq!(help("colour", Some("2")), None);
    }
}

//! Lines that fit the width of a terminal. They are broken between words, and never inside a number, a name or a
//! unit.

/// Width of a text in columns. Escape sequences of colours have no width.
pub(crate) fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1B}[") {
        columns += before.chars().count();
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    columns + rest.chars().count()
}

/// Parts between the spaces at which a line may be broken: not behind a digit, which more digits of the number or its unit
/// follow, and not between an option and its `KEY=VALUE`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let breaks = |&(at, _): &(usize, &str)| {
            let (before, after) = rest.split_at(at);
            let is_number = before.ends_with(|c: char| c.is_ascii_digit()) && !after.starts_with("  ");
            !is_number && !is_option_of(before, after)
        };
        let end = rest.match_indices(' ').find(breaks).map_or(rest.len(), |(at, _)| at);
        let word = rest.get(..end)?;
        rest = rest.get(end + 1..).unwrap_or("");
        Some(word)
    })
}

/// True when the last word of `before` is an option and the first one of `after` is its `KEY=VALUE`.
fn is_option_of(before: &str, after: &str) -> bool {
    let value = after.trim_start().split(' ').next().unwrap_or_default();
    before.rsplit(' ').next().is_some_and(|word| word.starts_with("--")) && value.contains('=')
}

/// A line as lines of at most `limit` columns, where words allow it. The first one keeps its indentation, and the others
/// get the same. In an item of a list, they begin below its text and not below its dash.
pub(crate) fn wrapped(line: &str, limit: usize) -> Vec<String> {
    let text = line.trim_start_matches(' ');
    let indent = " ".repeat((line.len() - text.len()).min(limit / 2));
    let below = if text.starts_with("- ") { format!("{indent}  ") } else { indent.clone() };
    let mut indent = indent;
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in words(text) {
        let is_first = current.is_empty();
        if !is_first && width(&indent) + width(&current) + 1 + width(word) > limit {
            lines.push(format!("{indent}{}", current.trim_end()));
            current.clear();
            indent.clone_from(&below);
        } else if !is_first {
            current.push(' ');
        }
        current.push_str(word);
    }
    lines.push(format!("{indent}{}", current.trim_end()));
    lines
}

/// Programs whose command lines are parts of reports.
const PROGRAMS: [&str; 13] = [
    "floatgate ",
    "mkfs.",
    "mount -t ",
    "printf ",
    "flash_erase ",
    "flashcp ",
    "nandwrite ",
    "sumtool ",
    "ubiattach ",
    "ubiformat ",
    "ubimkvol ",
    "ubinize ",
    "ubiupdatevol ",
];

/// Wraps a line of a report with [`wrapped`]. A command line of a shell stays one line, so that it can be copied.
fn wrapped_in_report(line: &str, limit: usize) -> Vec<String> {
    match PROGRAMS.iter().any(|program| line.trim_start().starts_with(program)) {
        true => vec![line.to_owned()],
        false => wrapped(line, limit),
    }
}

/// A report whose lines fit into `limit` columns. Lines that already fit are unchanged, and so are tables and
/// drawings.
pub(crate) fn fitted(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if width(line) <= limit {
            out += line;
            out.push('\n');
        } else {
            wrapped_in_report(line, limit).iter().for_each(|part| {
                out += part;
                out.push('\n');
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words_and_keep_their_indentation() {
        let line = "  erased 0 to 12 345 times, at 25 C, of \u{1B}[31mred\u{1B}[39m blocks";
        for limit in 20..80 {
            let lines = wrapped(line, limit);
            assert!(lines.iter().all(|line| width(line) <= limit && line.starts_with("  ")), "{lines:?}");
            let again: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
            assert_eq!(again.join(" "), line.trim());
            for whole in ["12 345 times,", "25 C,"] {
                assert!(lines.iter().any(|line| line.contains(whole)), "{limit}: {lines:?}");
            }
        }
    }

    #[test]
    fn an_item_of_a_list_hangs_below_its_text() {
        assert_eq!(wrapped("  - one two three", 12), ["  - one two", "    three"]);
    }

    #[test]
    fn an_option_stays_with_its_value() {
        let line = "bottleneck: data on the bus; next: --set bus.phy=true gives 19844 KiB/s";
        for limit in 24..60 {
            let lines = wrapped(line, limit);
            assert!(lines.iter().any(|line| line.contains("--set bus.phy=true")), "{lines:?}");
        }
    }

    #[test]
    fn lines_that_fit_stay_as_they_are() {
        let text = "a  b   c\n   d\n\n";
        assert_eq!(fitted(text, 8), text);
        assert_eq!(fitted("a  b   c", 4), "a  b\nc\n");
    }

    #[test]
    fn a_command_line_can_be_copied() {
        for line in
            ["  ubinize -x lzo -r DIRECTORY -o VOLUME.img", "    floatgate powercut board --replay chip:1:2"]
        {
            assert_eq!(wrapped_in_report(line, 24), [line]);
        }
    }

    #[test]
    fn a_word_that_is_too_long_stays_whole() {
        assert_eq!(fitted("see /a/very/long/path now", 8), "see\n/a/very/long/path\nnow\n");
    }
}

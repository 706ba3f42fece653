//! Widths of text without a font. They are upper estimates for the widest common sans-serif fonts (DejaVu Sans,
//! Verdana), so that a text that fits here fits everywhere.

/// Width of a character, in thousandths of the font size.
const fn advance(c: char) -> i32 {
    match c {
        'i' | 'j' | 'l' | '|' | '\'' | 'I' => 340,
        'f' | 'r' | 't' | ' ' | '.' | ',' | ':' | ';' | '!' | '(' | ')' | '[' | ']' | '/' | '\\' | '-' => 420,
        'm' | 'M' | 'W' | '@' | '…' | '—' => 1010,
        '%' => 1080,
        'w' | '+' | '<' | '=' | '>' | '&' | '~' | '#' | 'Q' | 'O' | 'D' | 'G' | 'H' | 'N' | 'U' | '_'
        | '^' => 850,
        'A'..='Z' => 730,
        '\u{20}'..='\u{7e}' => 645,
        '\u{300}'..='\u{36f}' => 0,
        '\u{7f}'..='\u{ff}' => 1000,
        _ => 1100,
    }
}

/// Width of `text` in a font of `size` px, px.
pub(crate) fn width(text: &str, size: i32) -> i32 {
    let thousandths: i64 = text.chars().map(|c| i64::from(advance(c))).sum();
    i32::try_from(thousandths * i64::from(size) / 1000 + 1).unwrap_or(i32::MAX)
}

/// Text that is cut with an ellipsis if it is wider than `room` px.
pub(crate) fn cut(text: &str, size: i32, room: i32) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = width("…", size);
    for c in text.chars() {
        used += width(c.encode_utf8(&mut [0; 4]), size);
        if used > room {
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

/// Text that is cut with an ellipsis at its start if it is wider than `room` px: labels of settings differ at their
/// ends.
pub(crate) fn cut_start(text: &str, size: i32, room: i32) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut used = width("…", size);
    let fits = |c: &char| {
        used += width(c.encode_utf8(&mut [0; 4]), size);
        used <= room
    };
    let kept: Vec<char> = text.chars().rev().take_while(fits).collect();
    let end: String = kept.into_iter().rev().collect();
    format!("…{}", end.trim_start())
}

/// Text broken at spaces into at most `most` lines of at most `room` px. The rest is cut.
pub(crate) fn wrap(text: &str, size: i32, room: i32, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map_or_else(|| word.to_owned(), |line| format!("{line} {word}"));
        match lines.last_mut() {
            Some(line) if width(&longer, size) <= room => *line = longer,
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most.saturating_sub(1)).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| cut(line, size, room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wraps_and_cuts() {
        let text = "the quick brown fox jumps over the lazy dog";
        assert_eq!(wrap(text, 10, 100, 9), ["the quick brown", "fox jumps over", "the lazy dog"]);
        assert_eq!(wrap(text, 10, 100, 2), ["the quick brown", "fox jumps ove…"]);
        assert_eq!(wrap("  ", 10, 100, 2), [""; 0]);
        assert_eq!(cut("bus.mode=8D-8D-8D", 10, 60), "bus.mo…");
        assert_eq!(cut_start("bus.mode=8D-8D-8D", 10, 60), "…-8D-8D");
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_its_room(text in ".{0,80}", size in 6..30, room in 40..500) {
            prop_assert!(width(&cut(&text, size, room), size) <= room + 2);
            prop_assert!(width(&cut_start(&text, size, room), size) <= room + 2);
            for line in wrap(&text, size, room, 3) {
                prop_assert!(width(&line, size) <= room + 2);
            }
        }
    }
}

//! Map as an SVG picture, in the light or dark colour scheme of the viewer.
//!
//! The flash is drawn as rows of equal size, with each part at its position. The legend below contains the kinds with
//! their sizes, and the list contains the parts.

use std::fmt::Write as _;

use super::{Checksum, FlashMap, Kind, Part};
use crate::words::{count, shown};

/// Sizes in units of the picture.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 16.0;
const ROW: f64 = 26.0;
const GAP: f64 = 5.0;
const TOP: f64 = 58.0;
const LINE: f64 = 20.0;

/// Width of a letter, and width of the narrowest visible range.
const LETTER: f64 = 7.0;
const NARROWEST: f64 = 2.0;

/// Largest number of rows, and size of the smallest row in bytes.
const ROWS: u64 = 16;
const ROW_BYTES: u64 = 4096;

/// Largest numbers of drawn parts and of listed parts.
const DRAWN: usize = 4000;
const LISTED: usize = 40;

/// Length of the longest text of a part in the list.
const TEXT: usize = 90;

/// Colours of parts for a light and a dark page, one class each. Names also distinguish the kinds.
const COLOURS: [(&str, &str); 8] = [
    ("#9cc9ec", "#1f5f8f"),
    ("#f3c98b", "#8a5a12"),
    ("#a9dcc0", "#1f6b4b"),
    ("#e3b4d4", "#7d3f68"),
    ("#efe39a", "#6f6512"),
    ("#c3bdec", "#4d4590"),
    ("#f2b5a0", "#8c3f27"),
    ("#bcd6d9", "#3d6468"),
];

/// Style for both colour schemes.
fn style() -> String {
    let mut style = String::from(
        "text{font:12px system-ui,sans-serif;fill:#222}.h{font-size:15px;font-weight:600}.f{fill:#5c5c5c}\
         .p{fill:#fff}rect.s{stroke:#fff;stroke-width:.6}.e{fill:#f0f0f0}.z{fill:#dcdcdc}.d{fill:#bdbdbd}\
         .bad{stroke:#b00020!important;stroke-width:2!important}.warn{fill:#b00020}",
    );
    for (class, (light, _)) in COLOURS.iter().enumerate() {
        let _ = write!(style, ".c{class}{{fill:{light}}}");
    }
    style.push_str(
        "@media (prefers-color-scheme:dark){text{fill:#e6e6e6}.f{fill:#a8a8a8}.p{fill:#16181b}\
         rect.s{stroke:#16181b}.e{fill:#24272c}.z{fill:#34383f}.d{fill:#555b64}.bad{stroke:#ff8a80!important}\
         .warn{fill:#ff8a80}",
    );
    for (class, (_, dark)) in COLOURS.iter().enumerate() {
        let _ = write!(style, ".c{class}{{fill:{dark}}}");
    }
    style.push('}');
    style
}

/// Escapes a text of a dump for XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars().map(shown) {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            _ => out.push(character),
        }
    }
    out
}

/// Kinds of parts with their sizes, in the order of their first occurrence.
struct Kinds(Vec<(Kind, u64, u64)>);

impl Kinds {
    fn of(map: &FlashMap) -> Self {
        let mut kinds: Vec<(Kind, u64, u64)> = Vec::new();
        for part in map.top() {
            match kinds.iter_mut().find(|(kind, ..)| *kind == part.kind) {
                Some((_, parts, bytes)) => {
                    *parts += 1;
                    *bytes += part.len;
                }
                None => kinds.push((part.kind, 1, part.len)),
            }
        }
        kinds.sort_by_key(|(kind, ..)| kind.is_gap());
        Self(kinds)
    }

    /// Class of a kind. The ninth kind has the colour of the first kind.
    fn class(&self, kind: Kind) -> String {
        match kind {
            Kind::Erased => "e".to_owned(),
            Kind::Zeros => "z".to_owned(),
            Kind::Data => "d".to_owned(),
            _ => {
                let place = self.0.iter().position(|(other, ..)| *other == kind).unwrap_or(0);
                format!("c{}", place % COLOURS.len())
            }
        }
    }
}

/// Name of a part, with the name of its format.
fn title(part: &Part) -> String {
    let name = part.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
    let check = match part.checksum {
        Checksum::Good | Checksum::None => String::new(),
        bad => format!(", {}", bad.word()),
    };
    if part.kind == Kind::UbiVolume {
        return format!("{}{name}: in LEBs of the UBI device{check}", part.kind.name());
    }
    let size = super::size(part.len);
    format!("{}{name}: {size} at {:#x}{check}", part.kind.name(), part.offset)
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect()
}

impl FlashMap {
    /// Map as an SVG picture.
    #[must_use]
    pub fn picture(&self) -> String {
        let kinds = Kinds::of(self);
        let size = self.size.max(1);
        let row_bytes = size.div_ceil(ROWS).max(ROW_BYTES).next_power_of_two();
        let rows = size.div_ceil(row_bytes);
        let legend_at = TOP + rows as f64 * (ROW + GAP) + 22.0;
        let columns = 3;
        let legend_rows = kinds.0.len().div_ceil(columns);
        let list_at = legend_at + legend_rows as f64 * LINE + 18.0;
        let listed: Vec<&Part> = self.parts.iter().filter(|part| !part.kind.is_gap()).collect();
        let more = listed.len().saturating_sub(LISTED);
        let lines = listed.len().min(LISTED) + usize::from(more > 0);
        let height = list_at + lines as f64 * LINE + 14.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"t\"><title id=\"t\">{}</title><style>{}</style>\
             <rect class=\"p\" width=\"{WIDTH}\" height=\"{height}\"/>",
            escaped(&self.to_string()),
            style(),
        );
        let _ = write!(
            svg,
            "<text class=\"h\" x=\"16\" y=\"26\">{}</text><text class=\"f\" x=\"16\" y=\"45\">A row is {}.</text>",
            escaped(&self.to_string()),
            super::size(row_bytes),
        );
        for row in 0..rows {
            let y = TOP + row as f64 * (ROW + GAP) + ROW / 2.0 + 4.0;
            let _ = write!(svg, "<text class=\"f\" x=\"16\" y=\"{y:.1}\">{:#010x}</text>", row * row_bytes);
        }
        for part in self.top().take(DRAWN) {
            draw(&mut svg, part, &kinds, row_bytes);
        }
        legend(&mut svg, &kinds, legend_at, columns);
        for (line, part) in listed.iter().take(LISTED).enumerate() {
            let y = list_at + line as f64 * LINE;
            let x = 16.0 + f64::from(part.level) * 14.0;
            let class = if part.checksum.is_damage() { " class=\"warn\"" } else { "" };
            let text = escaped(&shortened(&title(part), TEXT));
            let _ = write!(svg, "<text{class} x=\"{x}\" y=\"{y:.1}\">{text}</text>");
        }
        if more > 0 {
            let y = list_at + LISTED as f64 * LINE;
            let text = format!("and {} more", count(more as u64, "part"));
            let _ = write!(svg, "<text class=\"f\" x=\"16\" y=\"{y:.1}\">{text}</text>");
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Draws a part as a rectangle in each of its rows, with its name in the widest rectangle that has space for the
/// name.
fn draw(svg: &mut String, part: &Part, kinds: &Kinds, row_bytes: u64) {
    let room = WIDTH - LEFT - RIGHT;
    let class = kinds.class(part.kind);
    let bad = if part.checksum.is_damage() { " bad" } else { "" };
    let title = title(part);
    let mut widest: Option<(f64, f64, f64)> = None;
    let _ = write!(svg, "<g><title>{}</title>", escaped(&title));
    let mut at = part.offset;
    while at < part.end() {
        let row = at / row_bytes;
        let end = part.end().min((row + 1) * row_bytes);
        let scale = |bytes: u64| bytes as f64 / row_bytes as f64 * room;
        let x = LEFT + scale(at - row * row_bytes);
        let y = TOP + row as f64 * (ROW + GAP);
        let width = scale(end - at).max(NARROWEST).min(LEFT + room - x);
        let _ = write!(
            svg,
            "<rect class=\"s {class}{bad}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{ROW}\"/>"
        );
        if widest.is_none_or(|(_, _, other)| width > other) {
            widest = Some((x, y, width));
        }
        at = end;
    }
    if let Some((x, y, width)) = widest {
        let own = part.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        let text = format!("{}{own}", part.kind.name());
        let letters = ((width - 8.0) / LETTER) as usize;
        if letters >= text.chars().count().min(6) && !part.kind.is_gap() {
            let text = escaped(&shortened(&text, letters));
            let _ = write!(svg, "<text x=\"{:.2}\" y=\"{:.1}\">{text}</text>", x + 4.0, y + ROW / 2.0 + 4.0);
        }
    }
    svg.push_str("</g>");
}

fn legend(svg: &mut String, kinds: &Kinds, top: f64, columns: usize) {
    let column = (WIDTH - 32.0) / columns as f64;
    for (place, (kind, parts, bytes)) in kinds.0.iter().enumerate() {
        let x = 16.0 + (place % columns) as f64 * column;
        let y = top + (place / columns) as f64 * LINE;
        let what = if kind.is_gap() { "stretch" } else { "part" };
        let text = format!("{}: {}, {}", kind.name(), stretches(*parts, what), super::size(*bytes));
        let _ = write!(
            svg,
            "<rect class=\"s {}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"13\" height=\"13\"/><text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            kinds.class(*kind),
            y - 11.0,
            x + 20.0,
            escaped(&text),
        );
    }
}

/// Number of parts with a noun that has an irregular plural.
fn stretches(number: u64, what: &str) -> String {
    if what == "part" {
        return count(number, what);
    }
    let noun = if number == 1 { "stretch" } else { "stretches" };
    format!("{number} {noun}")
}

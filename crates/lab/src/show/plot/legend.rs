//! Common parts of charts: legends, and grid lines with labels.

use super::canvas::{Anchor, Area, Canvas, LABEL, MARGIN, SMALL, Type};
use super::palette::{AXIS, FAINT, GRID, Rgb, Series, TEXT};
use super::scale::Scale;
use super::text_width::width;

/// Symbol before an entry in a legend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    /// A box of this colour.
    Fill(Rgb),
    /// Segment of the series' line, with its marker.
    Line(Series),
    /// Segment of the series' line, without markers.
    Plain(Series),
    /// The marker of a series.
    Mark(Series),
    /// A ring of this colour.
    Ring(Rgb),
}

impl Key {
    const fn width(self) -> i32 {
        if matches!(self, Self::Line(_) | Self::Plain(_)) { 36 } else { 12 }
    }

    fn draw(self, canvas: &mut Canvas, x: i32, middle: i32) {
        let line = || vec![(x, middle), (x + 36, middle)];
        match self {
            Self::Fill(colour) => {
                canvas.fill(Area { x, y: middle - 6, w: 12, h: 12 }, colour, String::new());
            }
            Self::Line(series) => {
                canvas.path(line(), series, "");
                canvas.mark((x + 18, middle), series, String::new());
            }
            Self::Plain(series) => canvas.path(line(), series, ""),
            Self::Mark(series) => canvas.mark((x + 6, middle), series, String::new()),
            Self::Ring(colour) => canvas.ring((x + 6, middle), colour, String::new()),
        }
    }
}

/// Draws symbols with their texts, from `y` down and up to `right`. Returns the y below them.
pub(crate) fn keys(canvas: &mut Canvas, y: i32, right: i32, entries: &[(Key, String)]) -> i32 {
    let (mut x, mut y) = (MARGIN, y);
    for (key, meaning) in entries {
        let indent = key.width() + 6;
        let needs = indent + width(meaning, LABEL);
        if x > MARGIN && x + needs > right {
            (x, y) = (MARGIN, y + 20);
        }
        key.draw(canvas, x, y + 7);
        let room = right - x - indent;
        canvas.text_within((x + indent, y + 7), meaning, Type::new(LABEL, TEXT, Anchor::Left), room);
        x += needs + 16;
    }
    y + 24
}

/// Draws the title of the vertical axis above its upper end.
pub(crate) fn vertical_title(canvas: &mut Canvas, top: i32, title: &str) {
    canvas.text((MARGIN, top - 14), title, Type::new(SMALL, FAINT, Anchor::Left));
}

/// Draws vertical grid lines with labels below, and the title of the horizontal axis.
pub(crate) fn grid(canvas: &mut Canvas, scale: &Scale, (top, bottom): (i32, i32), caption: &str) {
    for (value, label) in scale.ticks() {
        let x = scale.at(value);
        canvas.line((x, top), (x, bottom + 4), GRID);
        canvas.text((x, bottom + 12), &label, Type::new(SMALL, FAINT, Anchor::Middle));
    }
    canvas.line((scale.from, bottom), (scale.to, bottom), AXIS);
    let middle = i32::midpoint(scale.from, scale.to);
    canvas.text((middle, bottom + 27), caption, Type::new(SMALL, FAINT, Anchor::Middle));
}

/// Draws horizontal grid lines with labels at the left.
pub(crate) fn levels(canvas: &mut Canvas, x: &Scale, y: &Scale) {
    for (value, label) in y.ticks() {
        canvas.line((x.from, y.at(value)), (x.to, y.at(value)), GRID);
        canvas.text((x.from - 8, y.at(value)), &label, Type::new(SMALL, FAINT, Anchor::Right));
    }
}

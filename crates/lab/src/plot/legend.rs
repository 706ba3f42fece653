//! What charts share: keys of colours, grid lines with labels.

use super::canvas::{Anchor, Area, Canvas, LABEL, MARGIN, SMALL, Type};
use super::palette::{AXIS, FAINT, GRID, Rgb, TEXT};
use super::scale::Scale;
use super::text_width::width;

/// Colours with their meanings, from `y` down and up to `right`. Returns the y below them.
pub(super) fn keys(canvas: &mut Canvas, y: i32, right: i32, entries: &[(Rgb, String)]) -> i32 {
    let (mut x, mut y) = (MARGIN, y);
    for (colour, meaning) in entries {
        let needs = 18 + width(meaning, LABEL);
        if x > MARGIN && x + needs > right {
            (x, y) = (MARGIN, y + 20);
        }
        canvas.fill(Area { x, y: y + 1, w: 12, h: 12 }, *colour, String::new());
        canvas.text_within((x + 18, y + 7), meaning, Type::new(LABEL, TEXT, Anchor::Left), right - x - 18);
        x += needs + 16;
    }
    y + 24
}

/// Vertical grid lines with labels below, and what they count.
pub(super) fn grid(canvas: &mut Canvas, scale: &Scale, (top, bottom): (i32, i32), caption: &str) {
    for (value, label) in scale.ticks() {
        let x = scale.at(value);
        canvas.line((x, top), (x, bottom + 4), GRID);
        canvas.text((x, bottom + 12), &label, Type::new(SMALL, FAINT, Anchor::Middle));
    }
    canvas.line((scale.from, bottom), (scale.to, bottom), AXIS);
    let middle = i32::midpoint(scale.from, scale.to);
    canvas.text((middle, bottom + 27), caption, Type::new(SMALL, FAINT, Anchor::Middle));
}

/// Horizontal grid lines with labels at the left.
pub(super) fn levels(canvas: &mut Canvas, x: &Scale, y: &Scale) {
    for (value, label) in y.ticks() {
        canvas.line((x.from, y.at(value)), (x.to, y.at(value)), GRID);
        canvas.text((x.from - 8, y.at(value)), &label, Type::new(SMALL, FAINT, Anchor::Right));
    }
}

//! Picture of a matrix of ratios as coloured boxes.

use super::canvas::{Anchor, Area, Canvas, LABEL, MARGIN, SMALL, Type};
use super::palette::{FAINT, GRID, Rgb, TEXT, WHITE, series};

/// A matrix of ratios; 1 is the best ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Heatmap {
    /// Groups of columns: title, and the titles of its columns.
    pub groups: Vec<(String, Vec<String>)>,
    /// Rows with their names. Each column has a ratio, and a text that a viewer shows when the pointer
    /// rests on it.
    pub rows: Vec<(String, Vec<(f64, String)>)>,
}

const NAMES: i32 = 200;
const CELL: i32 = 58;
const ROW: i32 = 22;
/// Ratio from which the colour no longer changes.
const DARKEST: f64 = 32.0;
/// Distance between two groups of columns, px.
const GAP: i32 = 10;

/// Colour of a ratio, on a logarithmic scale; 1 is white.
fn shade(ratio: f64) -> Rgb {
    let share = (libm::log(ratio.max(1.0)) / libm::log(DARKEST)).clamp(0.0, 1.0);
    let dark = series(1).colour;
    [0, 1, 2].map(|part| {
        let (from, to) = (f64::from(WHITE[part]), f64::from(dark[part]));
        (from + (to - from) * share * 0.8) as u8
    })
}

/// Draws the matrix as an SVG document.
pub fn heatmap(title: &str, subtitle: &str, map: &Heatmap) -> String {
    let places = places(map);
    let width = places.last().map_or(0, |last| last + CELL) + MARGIN;
    let mut canvas = Canvas::new(title, width.max(640));
    let top = canvas.heading(title, subtitle) + 14;
    let mut columns = places.iter();
    for (group, names) in &map.groups {
        for (number, (name, x)) in names.iter().zip(columns.by_ref()).enumerate() {
            if number == 0 {
                canvas.text((*x, top), group, Type::new(LABEL, TEXT, Anchor::Left).bold());
            }
            let middle = x + (CELL - 2) / 2;
            canvas.text_within((middle, top + 18), name, Type::new(SMALL, FAINT, Anchor::Middle), CELL - 6);
        }
    }
    let mut y = top + 30;
    for (name, cells) in &map.rows {
        canvas.text_within((MARGIN, y + ROW / 2), name, Type::new(LABEL, TEXT, Anchor::Left), NAMES - 8);
        for (x, (ratio, tip)) in places.iter().zip(cells) {
            let area = Area { x: *x, y, w: CELL - 2, h: ROW - 2 };
            // The best boxes are white like the page, so they have an edge.
            canvas.fill(area, GRID, String::new());
            let inner = Area { x: area.x + 1, y: area.y + 1, w: area.w - 2, h: area.h - 2 };
            canvas.fill(inner, shade(*ratio), tip.clone());
            let middle = (area.x + area.w / 2, y + ROW / 2 - 1);
            canvas.text(middle, &format!("{ratio:.1}"), Type::new(SMALL, TEXT, Anchor::Middle));
        }
        y += ROW;
    }
    canvas.finish(y + MARGIN)
}

/// Left edges of the columns, px. Columns of a group are adjacent.
fn places(map: &Heatmap) -> Vec<i32> {
    let mut x = MARGIN + NAMES;
    let mut places = Vec::new();
    for (_, names) in &map.groups {
        for _ in names {
            places.push(x);
            x = x.saturating_add(CELL);
        }
        x = x.saturating_add(GAP);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_ratios_are_darker_and_stand_in_their_boxes() {
        let brightness = |ratio| shade(ratio).iter().map(|part| u32::from(*part)).sum::<u32>();
        assert_eq!(shade(1.0), WHITE);
        assert!(brightness(2.0) > brightness(4.0) && brightness(4.0) > brightness(8.0));
        assert_eq!(shade(32.0), shade(100.0));
        let map = Heatmap {
            groups: vec![("load".to_owned(), vec!["a".to_owned(), "b".to_owned()])],
            rows: vec![("card".to_owned(), vec![(1.0, "first".to_owned()), (3.25, "second".to_owned())])],
        };
        let svg = heatmap("title", "subtitle", &map);
        for text in ["card", "load", "3.2", "second"] {
            assert!(svg.contains(text), "{text}");
        }
    }
}

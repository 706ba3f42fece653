//! Curves on two logarithmic axes.

use super::canvas::{Anchor, Area, Canvas, MARGIN, SMALL, Type};
use super::legend::{grid, keys, levels};
use super::palette::{FAINT, Rgb, TEXT, ink};
use super::scale::Scale;
use floatgate_mtd::Phase;

/// A curve: name, and points from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name of the curve.
    pub name: String,
    /// x and y, both above 0.
    pub points: Vec<(f64, f64)>,
}

/// Title, axes and notes around the curves.
#[derive(Clone, Copy, Debug)]
pub struct Chart<'a> {
    /// In large letters.
    pub title: &'a str,
    /// Below them.
    pub subtitle: &'a str,
    /// Quantities on the axes: x, then y.
    pub axes: (&'a str, &'a str),
    /// A value on the x axis that is marked, and its name.
    pub mark: Option<(f64, &'a str)>,
    /// The least y that is drawn.
    pub floor: f64,
}

const WIDTH: i32 = 900;
const HEIGHT: i32 = 380;
/// Room for the labels at the left.
const LABELS: i32 = 56;
/// Room for half of the last label at the right.
const EDGE: i32 = 12;

/// Curves as an SVG document.
pub fn curves(all: &[Curve], chart: &Chart<'_>) -> String {
    let mut canvas = Canvas::new(chart.title, WIDTH);
    let y = canvas.heading(chart.title, chart.subtitle) + 8;
    let names: Vec<(Rgb, String)> =
        all.iter().enumerate().map(|(i, c)| (colour(i), c.name.clone())).collect();
    let top = keys(&mut canvas, y, WIDTH - MARGIN, &names) + 24;
    let bottom = top + HEIGHT;
    let points = || all.iter().flat_map(|curve| &curve.points);
    let (least, most) = range(points().map(|p| p.0));
    let (_, highest) = range(points().map(|p| p.1));
    let x = Scale::log((MARGIN + LABELS, WIDTH - MARGIN - EDGE), least, most);
    let y = Scale::log((bottom, top), chart.floor, highest.max(chart.floor));
    levels(&mut canvas, &x, &y);
    grid(&mut canvas, &x, (top, bottom), chart.axes.0);
    canvas.text((MARGIN, top - 14), chart.axes.1, Type::new(SMALL, FAINT, Anchor::Left));
    if let Some((at, name)) = chart.mark {
        canvas.line((x.at(at), top), (x.at(at), bottom), TEXT);
        canvas.text((x.at(at), top - 10), name, Type::new(SMALL, TEXT, Anchor::Middle));
    }
    for (i, curve) in all.iter().enumerate() {
        draw(&mut canvas, &px(curve, &x, &y, chart.floor), colour(i), &curve.name);
    }
    canvas.finish(bottom + 44)
}

/// Smallest and largest, or 1 and 1 of nothing.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if low <= high { (low, high) } else { (1.0, 1.0) }
}

/// The points that lie above the floor, and the one before the first: there the curve comes up from below.
fn px(curve: &Curve, x: &Scale, y: &Scale, floor: f64) -> Vec<(i32, i32)> {
    let above = curve.points.iter().position(|p| p.1 >= floor).unwrap_or(curve.points.len());
    curve.points[above.saturating_sub(1)..].iter().map(|p| (x.at(p.0), y.at(p.1))).collect()
}

/// A curve three lines thick, with dots at its points.
fn draw(canvas: &mut Canvas, points: &[(i32, i32)], colour: Rgb, tip: &str) {
    for pair in points.windows(2) {
        for shift in -1..=1 {
            let moved = |(x, y): (i32, i32)| (x, y + shift);
            canvas.line(moved(pair[0]), moved(pair[1]), colour);
        }
    }
    for (x, y) in points {
        canvas.fill(Area { x: x - 3, y: y - 3, w: 6, h: 6 }, colour, tip.to_owned());
    }
}

/// Every other colour of the table: neighbours differ more.
fn colour(curve: usize) -> Rgb {
    ink(Phase::ALL[curve * 3 % Phase::ALL.len()]).rgb
}

#[cfg(test)]
mod tests {
    use super::super::canvas::tests::{assert_texts_inside, assert_well_formed};
    use super::*;

    const CHART: Chart<'_> =
        Chart { title: "T", subtitle: "S", axes: ("x", "y"), mark: Some((1e3, "rated")), floor: 1e-20 };

    #[test]
    fn curves_make_a_document() {
        let curve = Curve {
            name: "bch8/512".into(),
            points: vec![(1e2, 0.0), (1e3, 1e-25), (1e4, 1e-9), (1e5, 1.0)],
        };
        let svg = curves(&[curve], &CHART);
        assert_well_formed(&svg);
        assert_texts_inside(&svg);
        assert!(svg.contains("bch8/512") && svg.contains("1e-6") && svg.contains("rated"));
    }

    #[test]
    fn nothing_to_draw_is_still_a_document() {
        assert_well_formed(&curves(&[], &CHART));
    }

    #[test]
    fn what_lies_below_the_floor_is_left_out() {
        let x = Scale::log((0, 100), 1.0, 1e4);
        let y = Scale::log((100, 0), 1e-20, 1.0);
        let curve =
            Curve { name: String::new(), points: vec![(1.0, 0.0), (10.0, 0.0), (100.0, 1e-10), (1e4, 1.0)] };
        assert_eq!(px(&curve, &x, &y, 1e-20), [(25, 100), (50, 50), (100, 0)]);
    }
}

//! Curves on two logarithmic axes.

use super::canvas::{Anchor, Canvas, MARGIN, SMALL, Type};
use super::legend::{Key, grid, keys, levels, vertical_title};
use super::palette::{Series, TEXT, series};
use super::scale::Scale;

/// A curve with its name, and its points from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name of the curve.
    pub name: String,
    /// Coordinates x and y, both above 0.
    pub points: Vec<(f64, f64)>,
}

/// Title, axes and notes around the curves.
#[derive(Clone, Copy, Debug)]
pub struct Chart<'a> {
    /// Title, in large letters.
    pub title: &'a str,
    /// Subtitle, below the title.
    pub subtitle: &'a str,
    /// Titles of the x axis and the y axis.
    pub axes: (&'a str, &'a str),
    /// Marked value on the x axis, with its label.
    pub mark: Option<(f64, &'a str)>,
    /// Lowest y that is drawn.
    pub floor: f64,
}

const WIDTH: i32 = 900;
const HEIGHT: i32 = 380;
/// Width of the labels at the left, px.
const LABELS: i32 = 56;
/// Width for half of the last label at the right, px.
const EDGE: i32 = 12;

/// Draws curves as an SVG document. Both axes cover all data and the mark.
pub fn curves(all: &[Curve], chart: &Chart<'_>) -> String {
    let mut canvas = Canvas::new(chart.title, WIDTH);
    let y = canvas.heading(chart.title, chart.subtitle) + 8;
    let named = all.iter().enumerate().map(|(i, c)| (Key::Line(series(i)), c.name.clone()));
    let top = keys(&mut canvas, y, WIDTH - MARGIN, &named.collect::<Vec<_>>()) + 24;
    let bottom = top + HEIGHT;
    let points = || all.iter().flat_map(|curve| &curve.points);
    let (least, most) = range(points().map(|p| p.0).chain(chart.mark.map(|(at, _)| at)));
    let (_, highest) = range(points().map(|p| p.1));
    let x = Scale::log((MARGIN + LABELS, WIDTH - MARGIN - EDGE), least, most);
    let y = Scale::log((bottom, top), chart.floor, highest.max(chart.floor));
    levels(&mut canvas, &x, &y);
    grid(&mut canvas, &x, (top, bottom), chart.axes.0);
    vertical_title(&mut canvas, top, chart.axes.1);
    if let Some((at, name)) = chart.mark {
        canvas.line((x.at(at), top), (x.at(at), bottom), TEXT);
        canvas.text((x.at(at), top - 10), name, Type::new(SMALL, TEXT, Anchor::Middle));
    }
    for (i, curve) in all.iter().enumerate() {
        draw(&mut canvas, curve, (&x, &y), chart.floor, series(i));
    }
    canvas.finish(bottom + 44)
}

/// Lowest and highest value above 0; 1 and 1 if there are none.
pub(super) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let above = values.filter(|v| *v > 0.0);
    let (low, high) = above.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if low <= high { (low, high) } else { (1.0, 1.0) }
}

/// Parts of a curve above the floor, up to the points at which it crosses the floor.
fn stretches(points: &[(f64, f64)], floor: f64) -> Vec<Vec<(f64, f64)>> {
    let mut out: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut last: Option<(f64, f64)> = None;
    for &point in points {
        let was_above = last.is_some_and(|p| p.1 >= floor);
        let crossing =
            last.filter(|p| (p.1 >= floor) != (point.1 >= floor)).and_then(|p| cross(p, point, floor));
        match (was_above, point.1 >= floor) {
            (true, true) => {}
            (false, true) => out.push(crossing.into_iter().collect()),
            (true, false) => out.last_mut().into_iter().for_each(|stretch| stretch.extend(crossing)),
            (false, false) => {}
        }
        if point.1 >= floor {
            out.last_mut().into_iter().for_each(|stretch| stretch.push(point));
        }
        last = Some(point);
    }
    out
}

/// Point at which the line between two points crosses `floor`, on logarithmic axes. `None` if one of them is at 0,
/// which such axes do not have.
fn cross(a: (f64, f64), b: (f64, f64), floor: f64) -> Option<(f64, f64)> {
    if a.1.min(b.1) <= 0.0 {
        return None;
    }
    let share = libm::log10(floor / a.1) / libm::log10(b.1 / a.1);
    Some((a.0 * libm::pow(b.0 / a.0, share), floor))
}

/// Draws a curve with markers at its points.
fn draw(canvas: &mut Canvas, curve: &Curve, (x, y): (&Scale, &Scale), floor: f64, series: Series) {
    let px = |p: &(f64, f64)| (x.at(p.0), y.at(p.1));
    for stretch in stretches(&curve.points, floor) {
        canvas.path(stretch.iter().map(px).collect(), series, &curve.name);
    }
    for point in curve.points.iter().filter(|p| p.1 >= floor) {
        canvas.mark(px(point), series, format!("{}: {:e} at {}", curve.name, point.1, point.0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::tests::{assert_shapes_inside, assert_texts_inside, assert_well_formed};
    use super::*;

    const CHART: Chart<'_> = Chart {
        title: "T",
        subtitle: "S",
        axes: ("x, cycles", "y, pages"),
        mark: Some((1e3, "rated")),
        floor: 1e-20,
    };

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

    /// Colour and dash of each curve of a document.
    fn looks(svg: &str) -> std::collections::BTreeSet<(&str, &str)> {
        let of = |line: &'_ str, name: &str| -> Option<(usize, usize)> {
            let from = line.find(&format!(" {name}=\""))? + name.len() + 3;
            Some((from, from + line[from..].find('"')?))
        };
        let lines = svg.lines().filter(|l| l.starts_with("<polyline") && l.contains("<title>"));
        lines
            .map(|l| {
                let cut = |name: &str| of(l, name).map_or("", |(from, to)| &l[from..to]);
                (cut("stroke"), cut("stroke-dasharray"))
            })
            .collect()
    }

    #[test]
    fn no_two_curves_look_alike_and_nothing_leaves_the_frame() {
        let curve = |i: i32| Curve {
            name: format!("curve {i}"),
            points: vec![(3e2, 1e-24), (2e3, 1e-18), (f64::from(i + 2) * 4e6, 0.3)],
        };
        // The mark is outside the range of the points, on either side.
        for mark in [1.0, 1e9] {
            let all: Vec<Curve> = (0..16).map(curve).collect();
            let svg = curves(&all, &Chart { mark: Some((mark, "rated")), ..CHART });
            assert_well_formed(&svg);
            assert_shapes_inside(&svg);
            assert_eq!(looks(&svg).len(), 16, "{svg}");
            assert!(svg.contains("\nx, cycles\n") && svg.contains("\ny, pages\n"), "both axes have titles");
        }
    }

    #[test]
    fn what_lies_below_the_floor_is_left_out() {
        let points = [(1.0, 0.0), (10.0, 0.0), (100.0, 1e-10), (1e4, 1.0)];
        assert_eq!(stretches(&points, 1e-20), [vec![(100.0, 1e-10), (1e4, 1.0)]], "no line from nowhere");
        let points = [(1.0, 1e-30), (100.0, 1e-10), (1e4, 1e-30), (1e6, 1e-10)];
        let all = stretches(&points, 1e-20);
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
        assert!((all[0][0].0 - 10.0).abs() < 1e-6 && all[0][0].1 == 1e-20, "{all:?}");
        assert!((all[0][2].0 - 1e3).abs() < 1e-6 && (all[1][0].0 - 1e5).abs() < 1e-3, "{all:?}");
    }
}

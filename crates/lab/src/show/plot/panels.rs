//! Several small charts below each other, each with its own axes: points, or curves with markers.

use super::canvas::{Anchor, Canvas, LABEL, MARGIN, Type};
use super::curves::{Curve, range};
use super::legend::{Key, grid, keys, levels, vertical_title};
use super::palette::{TEXT, series};
use super::scale::Scale;

/// A small chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title of the panel.
    pub title: String,
    /// Titles of the x axis and the y axis.
    pub axes: (&'static str, &'static str),
    /// True for a logarithmic axis: x, then y. Linear axes begin at 0, and smaller values are drawn
    /// there.
    pub is_log: (bool, bool),
    /// True if the points of a series are joined in their order.
    pub is_joined: bool,
    /// Series of points.
    pub series: Vec<Curve>,
}

const WIDTH: i32 = 900;
const HEIGHT: i32 = 200;
/// Width of the labels at the left, px.
const LABELS: i32 = 56;
/// Width for half of the last label at the right, px.
const EDGE: i32 = 20;

/// Draws the panels as one SVG document.
pub fn panels(title: &str, subtitle: &str, all: &[Panel]) -> String {
    let mut canvas = Canvas::new(title, WIDTH);
    let mut y = canvas.heading(title, subtitle) + 8;
    for panel in all {
        y = draw(&mut canvas, y, panel) + 56;
    }
    canvas.finish(y)
}

/// Draws a panel from `y` down. Returns the y of its horizontal axis.
fn draw(canvas: &mut Canvas, y: i32, panel: &Panel) -> i32 {
    canvas.text((MARGIN, y + 8), &panel.title, Type::new(LABEL, TEXT, Anchor::Left).bold());
    let key = |number| if panel.is_joined { Key::Line(series(number)) } else { Key::Mark(series(number)) };
    let named: Vec<(Key, String)> =
        panel.series.iter().enumerate().map(|(number, curve)| (key(number), curve.name.clone())).collect();
    let top = keys(canvas, y + 22, WIDTH - MARGIN, &named) + 24;
    let bottom = top + HEIGHT;
    let points = || panel.series.iter().flat_map(|curve| &curve.points);
    let x = scale((MARGIN + LABELS, WIDTH - MARGIN - EDGE), points().map(|p| p.0), panel.is_log.0);
    let y = scale((bottom, top), points().map(|p| p.1), panel.is_log.1);
    levels(canvas, &x, &y);
    grid(canvas, &x, (top, bottom), panel.axes.0);
    vertical_title(canvas, top, panel.axes.1);
    for (number, curve) in panel.series.iter().enumerate() {
        let at =
            |point: &(f64, f64)| (x.at(point.0.max(0.0)).max(x.from), y.at(point.1.max(0.0)).min(bottom));
        if panel.is_joined {
            canvas.path(curve.points.iter().map(at).collect(), series(number), &curve.name);
        }
        for point in &curve.points {
            canvas.mark(
                at(point),
                series(number),
                format!("{}: {:.4} at {:.4}", curve.name, point.1, point.0),
            );
        }
    }
    bottom
}

fn scale(px: (i32, i32), values: impl Iterator<Item = f64>, is_log: bool) -> Scale {
    let (least, most) = range(values);
    if is_log { Scale::log(px, least, most) } else { Scale::linear(px, most) }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::tests::{assert_shapes_inside, assert_texts_inside, assert_well_formed};
    use super::*;

    fn panel(is_log: (bool, bool), is_joined: bool, points: &[(f64, f64)]) -> Panel {
        let curve = |name: &str| Curve { name: name.to_owned(), points: points.to_vec() };
        Panel {
            title: "P".to_owned(),
            axes: ("x, MiB", "y, us"),
            is_log,
            is_joined,
            series: vec![curve("one"), curve("two")],
        }
    }

    #[test]
    fn panels_are_one_document_and_nothing_leaves_it() {
        let points = [(-3.0, -7.0), (0.0, 0.0), (1.0, 1e6), (77.0, 0.3), (1e5, 12.5)];
        let kinds = [(false, false), (true, true), (true, false), (false, true)];
        let all: Vec<Panel> = kinds
            .iter()
            .flat_map(|kind| {
                [panel(*kind, true, &points), panel(*kind, false, &points), panel(*kind, false, &[])]
            })
            .collect();
        let svg = panels("T", "S", &all);
        assert_well_formed(&svg);
        assert_texts_inside(&svg);
        assert_shapes_inside(&svg);
        assert_well_formed(&panels("T", "S", &[]));
    }
}

//! Wear-related latency: program and erase times against cycles, on a logarithmic axis.

use super::super::canvas::{Anchor, Area, Canvas, MARGIN, SMALL, Type};
use super::super::palette::{FAINT, GRID, Rgb};
use super::{Figure, Scale, WIDTH, colour, grid, heading, keys, treatment};
use crate::endurance::{Point, Report};

/// Height of a panel.
const PANEL: i32 = 210;
/// Room for the labels at the left.
const LABELS: i32 = 60;
/// Room for half of the last label at the right.
const EDGE: i32 = 10;

pub(super) fn draw(canvas: &mut Canvas, y: i32, reports: &[Report]) -> i32 {
    let subtitle = format!("Of the block with the median life; {}", treatment(reports));
    let y = heading(canvas, y, Figure::Wear, &subtitle);
    let chips: Vec<_> = reports.iter().enumerate().map(|(i, r)| (colour(i), r.chip.clone())).collect();
    let mut top = keys(canvas, y, &chips) + 8;
    let last = reports.iter().flat_map(|r| r.trace.points.last()).map(|p| p.cycle).max().unwrap_or(1);
    let x = Scale::log((MARGIN + LABELS, WIDTH - MARGIN - EDGE), 10.0, last.max(10) as f64);
    if reports.iter().any(|r| r.program.is_some()) {
        panel(canvas, top, &x, reports, ("program, us", |p| p.program_us));
        top += PANEL + 52;
    }
    panel(canvas, top, &x, reports, ("erase, us", |p| Some(p.erase_us)));
    top + PANEL + 40
}

/// Name of an operation and its time at a point.
type Operation = (&'static str, fn(&Point) -> Option<f64>);

fn panel(canvas: &mut Canvas, top: i32, x: &Scale, reports: &[Report], (name, time): Operation) {
    let bottom = top + PANEL;
    let all = || reports.iter().flat_map(|r| &r.trace.points).filter_map(time);
    let (min, max) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    // Of several chips, steps of the fast ones would vanish beside the slow ones.
    let y = match reports {
        [] | [_] => Scale::linear((bottom, top), max),
        _ => Scale::log((bottom, top), min, max),
    };
    for (value, label) in y.ticks() {
        canvas.line((x.from, y.at(value)), (x.to, y.at(value)), GRID);
        canvas.text((x.from - 8, y.at(value)), &label, Type::new(SMALL, FAINT, Anchor::Right));
    }
    grid(canvas, x, (top, bottom), &format!("{name}, against cycles"));
    for (i, report) in reports.iter().enumerate() {
        let steps: Vec<(i32, i32)> =
            report.trace.points.iter().filter_map(|p| Some((x.at(p.cycle as f64), y.at(time(p)?)))).collect();
        draw_steps(canvas, &steps, colour(i), &format!("{}: {name}", report.chip));
    }
}

/// A line that goes level from point to point, and then up or down.
fn draw_steps(canvas: &mut Canvas, steps: &[(i32, i32)], colour: Rgb, tip: &str) {
    for pair in steps.windows(2) {
        let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
        canvas.fill(Area { x, y: y - 1, w: next_x - x + 2, h: 2 }, colour, tip.to_owned());
        let (upper, lower) = (y.min(next_y), y.max(next_y));
        if lower > upper {
            canvas.fill(Area { x: next_x, y: upper - 1, w: 2, h: lower - upper + 2 }, colour, tip.to_owned());
        }
    }
}

//! Wear-related latency: program and erase times against cycles, on a logarithmic axis.

use super::{Figure, Scale, WIDTH, grid, heading, keys, treatment};
use crate::endurance::{Point, Report};
use crate::show::plot::canvas::{Canvas, MARGIN};
use crate::show::plot::legend::{Key, levels, vertical_title};
use crate::show::plot::palette::series;

/// Height of a panel, px.
const PANEL: i32 = 210;
/// Width of the labels at the left, px.
const LABELS: i32 = 60;
/// Width for half of the last label at the right, px.
const EDGE: i32 = 10;

pub(super) fn draw(canvas: &mut Canvas, y: i32, reports: &[Report]) -> i32 {
    let subtitle = format!("Of the block with the median life; {}", treatment(reports));
    let y = heading(canvas, y, Figure::Wear, &subtitle);
    let chips: Vec<_> =
        reports.iter().enumerate().map(|(i, r)| (Key::Plain(series(i)), r.chip.clone())).collect();
    let mut top = keys(canvas, y, WIDTH - MARGIN, &chips) + 24;
    let last = reports.iter().flat_map(|r| r.trace.points.last()).map(|p| p.cycle).max().unwrap_or(1);
    let first = first_cycle(last);
    let x = Scale::log((MARGIN + LABELS, WIDTH - MARGIN - EDGE), first, (last as f64).max(first));
    if reports.iter().any(|r| r.program.is_some()) {
        panel(canvas, top, (&x, first), reports, ("program time, us", |p| p.program_us));
        top += PANEL + 68;
    }
    panel(canvas, top, (&x, first), reports, ("erase time, us", |p| Some(p.erase_us)));
    top + PANEL + 40
}

/// First cycle on the logarithmic axis. In longer lives, the cycles before the tenth have the same times.
const fn first_cycle(last: u64) -> f64 {
    if last < 100 { 1.0 } else { 10.0 }
}

/// Title of an operation's time, and the time at a point.
type Operation = (&'static str, fn(&Point) -> Option<f64>);

fn panel(
    canvas: &mut Canvas,
    top: i32,
    (x, first): (&Scale, f64),
    reports: &[Report],
    (name, time): Operation,
) {
    let bottom = top + PANEL;
    let all = || reports.iter().flat_map(|r| &r.trace.points).filter_map(time);
    let (min, max) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    // With several chips on one axis, the steps of fast chips would be invisible next to slow ones.
    let y = match reports {
        [] | [_] => Scale::linear((bottom, top), max),
        _ => Scale::log((bottom, top), min, max),
    };
    levels(canvas, x, &y);
    grid(canvas, x, (top, bottom), "program and erase cycles");
    vertical_title(canvas, top, name);
    for (i, report) in reports.iter().enumerate() {
        let at = |p: &Point| Some((x.at((p.cycle as f64).max(first)), y.at(time(p)?)));
        let points: Vec<(i32, i32)> = report.trace.points.iter().filter_map(at).collect();
        canvas.path(steps(&points), series(i), &format!("{}: {name}", report.chip));
    }
}

/// Corners of a line that is level from point to point, with vertical steps.
fn steps(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut out: Vec<(i32, i32)> = Vec::new();
    for &(x, y) in points {
        out.extend(out.last().map(|last| (x, last.1)));
        out.push((x, y));
    }
    out.dedup();
    out
}

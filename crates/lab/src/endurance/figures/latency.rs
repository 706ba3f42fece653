//! Read, write and erase latency by device: at the start of the life, typically, and at its end.

use super::{Figure, NAMES, ROW, Scale, WIDTH, grid, heading, keys, names, rows, treatment};
use crate::endurance::{Latency, Report};
use crate::show::plot::canvas::{Anchor, Area, Canvas, LABEL, MARGIN, Type};
use crate::show::plot::legend::Key;
use crate::show::plot::palette::{AXIS, Rgb, TEXT, series};

/// Distance between panels, px.
const GAP: i32 = 36;

/// Labels of the three moments of a life.
const MOMENTS: [&str; 3] = [
    "mean of the first 100 cycles",
    "mean of the first 10 000 cycles (typical)",
    "mean of the last 100 cycles before the failure",
];

/// An operation: its name, and its times at the three moments.
type Operation = (&'static str, fn(&Report) -> Option<[f64; 3]>);

const OPERATIONS: [Operation; 3] = [
    ("read time, us", |r| Some([r.read_us; 3])),
    ("program time, us", |r| r.program.as_ref().map(three)),
    ("erase time, us", |r| Some(three(&r.erase))),
];

const fn three(l: &Latency) -> [f64; 3] {
    [l.first_100_us, l.typical_us, l.last_100_us]
}

pub(super) fn draw(canvas: &mut Canvas, y: i32, reports: &[Report]) -> i32 {
    let y =
        heading(canvas, y, Figure::Latency, &format!("Array times over the life; {}", treatment(reports)));
    let moments = (0..).zip(MOMENTS).map(|(i, meaning)| (Key::Fill(series(i).colour), meaning.to_owned()));
    let top = keys(canvas, y, WIDTH - MARGIN, &moments.collect::<Vec<_>>()) + 20;
    names(canvas, top, reports);
    let left = MARGIN + NAMES;
    let wide = (WIDTH - MARGIN - 10 - left - 2 * GAP) / 3;
    for (i, operation) in (0..).zip(OPERATIONS) {
        let from = left + i * (wide + GAP);
        panel(canvas, (top, from, wide), reports, operation);
    }
    top + rows(reports) + 40
}

fn panel(
    canvas: &mut Canvas,
    (top, from, wide): (i32, i32, i32),
    reports: &[Report],
    (name, times): Operation,
) {
    let bottom = top + rows(reports);
    canvas.text((from, top - 10), name, Type::new(LABEL, TEXT, Anchor::Left).bold());
    let most = reports.iter().filter_map(times).flatten().fold(0.0, f64::max);
    let scale = Scale::linear((from, from + wide), most);
    grid(canvas, &scale, (top, bottom), name);
    for (row, report) in (0..).zip(reports) {
        if let Some(times) = times(report) {
            draw_row(canvas, top + row * ROW + ROW / 2, &scale, times, &format!("{}: {name}", report.chip));
        }
    }
}

fn draw_row(canvas: &mut Canvas, middle: i32, scale: &Scale, times: [f64; 3], what: &str) {
    let at = times.map(|time| scale.at(time));
    let (left, right) = (at[0].min(at[1]).min(at[2]), at[0].max(at[1]).max(at[2]));
    canvas.fill(Area { x: left, y: middle - 1, w: (right - left).max(1), h: 2 }, AXIS, String::new());
    // The earliest moment has the highest bar, so that equal times stay visible.
    for (i, ((x, height), (time, moment))) in
        at.into_iter().zip([9, 6, 3]).zip(times.into_iter().zip(MOMENTS)).enumerate()
    {
        let colour: Rgb = series(i).colour;
        canvas.fill(
            Area { x: x - 3, y: middle - height, w: 6, h: 2 * height },
            colour,
            format!("{what}: {moment}: {time:.1}"),
        );
    }
}

//! Endurance by device: each block, and minimum, median and maximum, on a logarithmic axis.

use super::{Figure, NAMES, ROW, Scale, WIDTH, grid, heading, keys, names, rows, treatment};
use crate::endurance::Report;
use crate::show::plot::canvas::{Anchor, Area, Canvas, LABEL, MARGIN, Type};
use crate::show::plot::legend::Key;
use crate::show::plot::palette::{AXIS, FAINT, TEXT, series};

/// Width for the note at the right, px.
const NOTE: i32 = 110;

pub(super) fn draw(canvas: &mut Canvas, y: i32, reports: &[Report]) -> i32 {
    let y = heading(
        canvas,
        y,
        Figure::Endurance,
        &format!("Cycles until the status fails; {}", treatment(reports)),
    );
    let blocks = reports.iter().map(|r| r.blocks.len()).max().unwrap_or(0);
    let meanings = [
        (
            series(0).colour,
            if blocks == 1 { "the block" } else { "blocks, from the first to fail to the last" },
        ),
        (TEXT, "median"),
        (FAINT, "what the data sheet promises"),
    ];
    let top = keys(
        canvas,
        y,
        WIDTH - MARGIN,
        &meanings.map(|(colour, meaning)| (Key::Fill(colour), meaning.to_owned())),
    ) + 16;
    let bottom = top + rows(reports);
    let cycles =
        || reports.iter().flat_map(|r| [r.nominal_cycles, r.life.min, r.life.max]).map(|c| c.max(1) as f64);
    let (min, max) = (cycles().fold(f64::MAX, f64::min), cycles().fold(1.0, f64::max));
    let scale = Scale::log((MARGIN + NAMES, WIDTH - MARGIN - NOTE), min.min(max), max);
    grid(canvas, &scale, (top, bottom), "program and erase cycles");
    names(canvas, top, reports);
    for (row, report) in (0..).zip(reports) {
        draw_row(canvas, top + row * ROW + ROW / 2, &scale, report);
    }
    bottom + 40
}

fn draw_row(canvas: &mut Canvas, middle: i32, scale: &Scale, report: &Report) {
    let life = &report.life;
    let at = |cycles: u64| scale.at(cycles.max(1) as f64);
    let (left, right) = (at(life.min), at(life.max));
    canvas.fill(Area { x: left, y: middle - 1, w: (right - left).max(1), h: 2 }, AXIS, String::new());
    // Blocks at the same position have one mark.
    let mut drawn: Vec<i32> = report.blocks.iter().map(|b| at(b.cycles)).collect();
    drawn.sort_unstable();
    drawn.dedup();
    for x in drawn {
        canvas.fill(Area { x: x - 1, y: middle - 5, w: 2, h: 10 }, series(0).colour, String::new());
    }
    let tip = format!("{}: {} to {} cycles, median {}", report.chip, life.min, life.max, life.median);
    canvas.fill(Area { x: at(life.median) - 2, y: middle - 9, w: 4, h: 18 }, TEXT, tip);
    let nominal = Area { x: at(report.nominal_cycles) - 4, y: middle - 4, w: 8, h: 8 };
    canvas.fill(nominal, FAINT, format!("data sheet: {}", report.nominal_cycles));
    let times = format!("mean {:.3} x", report.life.over_nominal);
    let times = if report.life.over_nominal >= 1.0 {
        format!("mean {:.0} x", report.life.over_nominal)
    } else {
        times
    };
    canvas.text_within((scale.to + 14, middle), &times, Type::new(LABEL, FAINT, Anchor::Left), NOTE - 14);
}

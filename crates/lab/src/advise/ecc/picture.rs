//! Picture of lost pages by cycles, with one curve per code.

use super::Advice;
use crate::show::plot::{Chart, Curve, curves};
use floatgate_image::words::measure;

/// Minimum share of lost pages that is drawn; no device reads 1e20 pages.
const FLOOR: f64 = 1e-20;

/// Draws the advice as an SVG document.
pub fn picture(advice: &Advice) -> String {
    let against = advice.series.iter().filter(|series| series.against == "cycles");
    let curve = |(i, name): (usize, &String), points: &[super::Point]| Curve {
        name: name.clone(),
        points: points.iter().filter_map(|p| Some((p.at, *p.lost_pages.get(i)?))).collect(),
    };
    let all: Vec<Curve> =
        against.flat_map(|s| s.codes.iter().enumerate().map(|named| curve(named, &s.points))).collect();
    let (chip, use_) = (&advice.chip, &advice.use_);
    let subtitle = format!(
        "{} at {} C between program and read, {} of the block; bit errors {}",
        measure(use_.years, "year"),
        use_.temperature_c,
        measure(use_.reads, "read"),
        chip.origin_of_errors()
    );
    let title = format!("{}: pages that a code gives up on", chip.chip);
    let chart = Chart {
        title: &title,
        subtitle: &subtitle,
        axes: ("program and erase cycles", "lost pages per page read"),
        mark: Some((chip.endurance_cycles as f64, "rated")),
        floor: FLOOR,
    };
    curves(&all, &chart)
}

//! Figures of Desnoyers (HotStorage 2009), drawn from simulated results: life of chips, change of their times with
//! wear, and times of operations.

mod latency;
mod lives;
mod trace;

use crate::endurance::Report;
use crate::show::plot::canvas::{Anchor, Canvas, LABEL, MARGIN, SMALL, Type};
use crate::show::plot::legend::{grid, keys};
use crate::show::plot::palette::{FAINT, TEXT};
use crate::show::plot::scale::Scale;
use crate::show::plot::text_width::wrap;
use floatgate_image::words::count;

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Endurance by device.
    Endurance,
    /// Wear-related latency: program and erase times against cycles.
    Wear,
    /// Read, write and erase latency by device.
    Latency,
}

impl Figure {
    /// All figures, in the paper's order.
    pub const ALL: [Self; 3] = [Self::Endurance, Self::Wear, Self::Latency];

    /// Short name of the figure, for file names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Endurance => "endurance",
            Self::Wear => "wear",
            Self::Latency => "latency",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Endurance => "Endurance by device",
            Self::Wear => "Wear-related latency",
            Self::Latency => "Read, write and erase latency by device",
        }
    }
}

/// Width of a picture, px.
const WIDTH: i32 = 1000;
/// Width of the column of names, px.
const NAMES: i32 = 236;
/// Height of a chip's row, px.
const ROW: i32 = 28;

/// Draws figures one below the other as an SVG document. The same reports give the same bytes.
pub fn wear_figures(reports: &[Report], figures: &[Figure]) -> String {
    let names: Vec<&str> = figures.iter().map(|figure| figure.title()).collect();
    let mut canvas = Canvas::new(&names.join("; "), WIDTH);
    let mut y = MARGIN;
    for figure in figures {
        y = match figure {
            Figure::Endurance => lives::draw(&mut canvas, y, reports),
            Figure::Wear => trace::draw(&mut canvas, y, reports),
            Figure::Latency => latency::draw(&mut canvas, y, reports),
        } + 12;
    }
    canvas.finish(y)
}

/// Draws title and subtitle of a figure from `y` down. Returns the y below them.
fn heading(canvas: &mut Canvas, y: i32, figure: Figure, subtitle: &str) -> i32 {
    canvas.text((MARGIN, y + 9), figure.title(), Type::new(18, TEXT, Anchor::Left).bold());
    let mut y = y + 26;
    for line in wrap(subtitle, LABEL, WIDTH - 2 * MARGIN, 3) {
        canvas.text((MARGIN, y + 8), &line, Type::new(LABEL, FAINT, Anchor::Left));
        y += 18;
    }
    y + 6
}

/// Draws the chips' names at the left of their rows, below the title of this axis.
fn names(canvas: &mut Canvas, top: i32, reports: &[Report]) {
    canvas.text((MARGIN + NAMES - 12, top - 10), "chip", Type::new(SMALL, FAINT, Anchor::Right));
    for (row, report) in (0..).zip(reports) {
        let at = (MARGIN + NAMES - 12, top + row * ROW + ROW / 2);
        canvas.text_within(at, &report.chip, Type::new(LABEL, TEXT, Anchor::Right), NAMES - 12);
    }
}

/// Height of the rows of all chips, px.
fn rows(reports: &[Report]) -> i32 {
    i32::try_from(reports.len()).unwrap_or(i32::MAX / ROW / 2).saturating_mul(ROW)
}

/// Text of the conditions that all reports share.
fn treatment(reports: &[Report]) -> String {
    let Some(report) = reports.first() else { return String::new() };
    let e = &report.experiment;
    let blocks = u64::from(e.blocks) * u64::from(e.chips);
    let typical = reports.iter().filter(|r| r.evidence == "typical").count();
    let guess =
        if typical > 0 { "; wear of chips that nobody measured is typical of their kind" } else { "" };
    format!("{} of each device, {} C{guess}", count(blocks, "block"), e.temperature_c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endurance::{Experiment, PAPER_CHIPS, Subject, run};
    use crate::show::plot::canvas::tests::{assert_shapes_inside, assert_texts_inside, assert_well_formed};
    use floatgate_config::{Library, Override};

    fn reports(change: impl Fn(&mut Experiment), sets: &[&str], parts: &[&str]) -> Vec<Report> {
        let mut e = Experiment::default();
        change(&mut e);
        let sets = Override::parse_all(sets).unwrap();
        let subject = |part: &&str| Subject::new(&Library::built_in(), part, &sets).unwrap();
        parts.iter().map(|part| run(&subject(part), &e).unwrap()).collect()
    }

    #[test]
    fn any_experiment_makes_a_document() {
        let many: Vec<&str> = PAPER_CHIPS.iter().copied().cycle().take(20).collect();
        let all = [
            reports(|_| {}, &[], &PAPER_CHIPS),
            reports(|e| e.blocks = 1, &[], &["w35n01jw"]),
            reports(|e| e.erase_only = true, &[], &many),
            reports(|_| {}, &["chip.endurance_cycles=1", "chip.wear.life_factor=0.001"], &PAPER_CHIPS[..2]),
            reports(
                |_| {},
                &["chip.endurance_cycles=9000000000000000", "chip.wear.life_spread=2"],
                &PAPER_CHIPS[..2],
            ),
            reports(
                |_| {},
                &["part.name='<&\">\\u0000 long long long long long long long'"],
                &PAPER_CHIPS[..1],
            ),
        ];
        for reports in &all {
            for figure in Figure::ALL {
                let svg = wear_figures(reports, &[figure]);
                assert_well_formed(&svg);
                assert_texts_inside(&svg);
                assert_shapes_inside(&svg);
            }
        }
        let together = wear_figures(&all[0], &Figure::ALL);
        assert_eq!(together, wear_figures(&all[0], &Figure::ALL));
        assert!(Figure::ALL.iter().all(|figure| together.contains(figure.title())));
    }

    /// The axis of cycles begins before the last cycle, even if blocks fail early.
    #[test]
    fn short_lives_have_an_axis() {
        let sets = ["chip.endurance_cycles=1", "chip.wear.life_factor=5", "chip.wear.life_spread=0"];
        let reports = reports(|_| {}, &sets, &PAPER_CHIPS[..1]);
        assert!(reports[0].life.max < 10, "{:?}", reports[0].life);
        let svg = wear_figures(&reports, &[Figure::Wear]);
        assert!(svg.contains("\n2\n") && svg.contains("\n5\n"), "{svg}");
    }

    #[test]
    fn axes_have_titles_with_units() {
        let reports = reports(|_| {}, &[], &PAPER_CHIPS);
        for (figure, titles) in [
            (Figure::Endurance, &["chip", "program and erase cycles"][..]),
            (Figure::Wear, &["program time, us", "erase time, us", "program and erase cycles"]),
            (Figure::Latency, &["chip", "read time, us", "program time, us", "erase time, us"]),
        ] {
            let svg = wear_figures(&reports, &[figure]);
            assert!(titles.iter().all(|title| svg.contains(&format!("\n{title}\n"))), "{figure:?}");
        }
    }

    #[test]
    fn nothing_to_draw_is_still_a_document() {
        assert_well_formed(&wear_figures(&[], &Figure::ALL));
    }
}

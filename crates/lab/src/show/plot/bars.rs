//! Stacked bars: time by phase of each test, or of each combination of a sweep.

use super::axis::Axis;
use super::canvas::{Anchor, Area, Canvas, LABEL, MARGIN, SMALL, Type};
use super::palette::{AXIS, FAINT, GRID, Rgb, TEXT, ink};
use super::share::{apportion, percentages};
use super::text_width::width;
use floatgate_mtd::{Breakdown, Nanos, Phase};

/// One bar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BarRow {
    /// Label of the bar, such as `page read` or `bus.mode=8D-8D-8D`.
    pub label: String,
    /// Note at the right, after the time per call, such as `10711 KiB/s`.
    pub note: String,
    /// Time of all calls by phase; empty in a row that has only a note.
    pub breakdown: Breakdown,
    /// Number of calls that `breakdown` covers; times are shown per call. 0 counts as 1.
    pub calls: u64,
}

impl BarRow {
    /// Time per call, ns.
    fn total(&self) -> u64 {
        let total: u128 = self.breakdown.iter().map(|(_, t)| u128::from(t.as_ns())).sum();
        let calls = u128::from(self.calls.max(1));
        u64::try_from((total + calls / 2) / calls).unwrap_or(u64::MAX)
    }

    fn per_call(&self, phase: Phase) -> Nanos {
        let calls = self.calls.max(1);
        let ns = self.breakdown[phase].as_ns();
        Nanos::from_ns(ns / calls + u64::from(ns % calls >= calls.div_ceil(2)))
    }
}

/// Meaning of the length of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Time per call, with one axis for all bars.
    Time,
    /// Shares: every bar is 100 %.
    Share,
}

impl Scale {
    /// Scale for these rows: `Time`, unless the shortest bar would be under 2 % of the longest (a page next to an
    /// eraseblock). In that case `Share`.
    pub fn fitting(rows: &[BarRow]) -> Self {
        let totals = || rows.iter().map(BarRow::total).filter(|&ns| ns > 0);
        let (min, max) = (totals().min().unwrap_or(0), totals().max().unwrap_or(0));
        if u128::from(min) * 50 < u128::from(max) { Self::Share } else { Self::Time }
    }
}

const PLOT: i32 = 620;
const ROW: i32 = 30;
const BAR: i32 = 20;
const GAP: i32 = 12;
const NAMES: Type = Type::new(LABEL, TEXT, Anchor::Right);
const TOTALS: Type = Type::new(LABEL, TEXT, Anchor::Right).bold();
const NOTES: Type = Type::new(LABEL, FAINT, Anchor::Left);

/// Positions of the columns of the picture, px.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Left edge of the bars, px.
    left: i32,
    /// Widths of the labels, totals and notes, px.
    labels: i32,
    totals: i32,
    notes: i32,
    /// Top of the first row, px.
    top: i32,
}

impl Layout {
    fn new(rows: &[BarRow]) -> Self {
        let widest = |text: &dyn Fn(&BarRow) -> String, size: i32, most: i32| {
            rows.iter().map(|row| width(&text(row), size)).max().unwrap_or(0).min(most)
        };
        let labels = widest(&|row| row.label.clone(), LABEL, 520).max(80);
        // Bold text is about a tenth wider than plain text.
        let totals = widest(&|row| Nanos::from_ns(row.total()).to_string(), LABEL + 1, 200);
        let notes = widest(&|row| row.note.clone(), LABEL, 320);
        Self { left: MARGIN + labels + GAP, labels, totals, notes, top: 0 }
    }

    const fn right(&self) -> i32 {
        self.left + PLOT
    }

    const fn width(&self) -> i32 {
        let notes = if self.notes > 0 { GAP + self.notes } else { 0 };
        self.right() + GAP + self.totals + notes + MARGIN
    }

    fn row(&self, i: usize) -> i32 {
        self.top.saturating_add(i32::try_from(i).unwrap_or(i32::MAX).saturating_mul(ROW))
    }
}

/// Horizontal stacked bars as an SVG document, one per row in the given order. The labels are at the left below the
/// title `of`. The segments are the phases; time per call and note are at the right. A legend of the phases that
/// occur and an axis with round ticks follow.
pub fn bars(rows: &[BarRow], of: &str, (title, subtitle): (&str, &str), scale: Scale) -> String {
    let mut layout = Layout::new(rows);
    let mut canvas = Canvas::new(title, layout.width());
    let y = canvas.heading(title, subtitle);
    layout.top = canvas.legend(y, occurring(rows)) + 18;
    canvas.text((layout.left - GAP, layout.top - 10), of, Type::new(SMALL, FAINT, Anchor::Right));
    let longest = rows.iter().map(BarRow::total).max().unwrap_or(0);
    let bottom = layout.row(rows.len()) + 2;
    match scale {
        Scale::Time => time_axis(&mut canvas, &layout, bottom, longest),
        Scale::Share => share_axis(&mut canvas, &layout, bottom),
    }
    for (i, row) in rows.iter().enumerate() {
        draw_row(&mut canvas, &layout, layout.row(i), row, (scale, longest));
    }
    canvas.finish(bottom.saturating_add(44))
}

fn occurring(rows: &[BarRow]) -> impl Iterator<Item = Phase> {
    Phase::ALL.into_iter().filter(|&phase| rows.iter().any(|row| row.breakdown[phase] > Nanos::ZERO))
}

fn time_axis(canvas: &mut Canvas, layout: &Layout, bottom: i32, longest: u64) {
    let axis = Axis::new(Nanos::from_ns(longest), 8);
    for tick in axis.ticks {
        draw_tick(canvas, layout, bottom, px(tick.at.as_ns(), longest), &tick.label);
    }
    caption(canvas, layout, bottom, &format!("time per call, {}", axis.unit));
}

fn share_axis(canvas: &mut Canvas, layout: &Layout, bottom: i32) {
    for percent in (0..=100).step_by(20) {
        draw_tick(canvas, layout, bottom, px(percent, 100), &percent.to_string());
    }
    caption(canvas, layout, bottom, "share of the time of a call, %");
}

fn draw_tick(canvas: &mut Canvas, layout: &Layout, bottom: i32, x: i32, label: &str) {
    let x = layout.left + x;
    canvas.line((x, layout.top), (x, bottom + 4), if x == layout.left { AXIS } else { GRID });
    canvas.text((x, bottom + 12), label, Type::new(SMALL, FAINT, Anchor::Middle));
}

fn caption(canvas: &mut Canvas, layout: &Layout, bottom: i32, text: &str) {
    canvas.line((layout.left, bottom), (layout.right(), bottom), AXIS);
    canvas.text((layout.left + PLOT / 2, bottom + 28), text, Type::new(SMALL, FAINT, Anchor::Middle));
}

/// Width of `part` of `whole` in the plot, px.
fn px(part: u64, whole: u64) -> i32 {
    let plot = u128::from(PLOT.unsigned_abs());
    let whole = u128::from(whole.max(1));
    i32::try_from((u128::from(part) * plot + whole / 2) / whole).unwrap_or(PLOT).min(PLOT)
}

fn draw_row(canvas: &mut Canvas, layout: &Layout, y: i32, row: &BarRow, (scale, longest): (Scale, u64)) {
    let middle = y + ROW / 2;
    let total = row.total();
    let time = Nanos::from_ns(total).to_string();
    canvas.end_within((layout.left - GAP, middle), &row.label, NAMES, layout.labels);
    if total > 0 {
        canvas.text((layout.right() + GAP + layout.totals, middle), &time, TOTALS);
    }
    let notes_at = layout.right() + 2 * GAP + layout.totals;
    canvas.text_within((notes_at, middle), &row.note, NOTES, layout.notes);
    let length = match scale {
        _ if total == 0 => 0,
        Scale::Time => px(total, longest),
        Scale::Share => PLOT,
    };
    draw_segments(canvas, Area { x: layout.left, y: y + (ROW - BAR) / 2, w: length, h: BAR }, row, scale);
}

/// Draws the phases of a row in `bar`. Each phase that occurs is at least 1 px wide, if the bar is wide enough.
fn draw_segments(canvas: &mut Canvas, bar: Area, row: &BarRow, scale: Scale) {
    let weights: Vec<u64> = row.breakdown.iter().map(|(_, t)| t.as_ns()).collect();
    let occurring = weights.iter().filter(|&&ns| ns > 0).count() as u32;
    let seats = bar.w.unsigned_abs().max(occurring);
    let shares = percentages(&row.breakdown);
    let mut x = bar.x;
    for (phase, seats) in Phase::ALL.into_iter().zip(apportion(&weights, seats)) {
        let w = seats.cast_signed();
        if w > 0 {
            let share = shares.iter().find(|s| s.0 == phase).map(|s| format!("{:.1} %", s.1));
            let texts = (row.per_call(phase).to_string(), share.unwrap_or_else(|| "< 0.05 %".to_owned()));
            draw_segment(canvas, Area { x, w, ..bar }, phase, &row.label, (scale, texts));
        }
        x += w;
    }
}

fn draw_segment(
    canvas: &mut Canvas,
    area: Area,
    phase: Phase,
    label: &str,
    (scale, (time, share)): (Scale, (String, String)),
) {
    let colour: Rgb = ink(phase).rgb;
    // A white line separates neighbours, if they are wide enough.
    let shown = Area { w: if area.w >= 5 { area.w - 1 } else { area.w }, ..area };
    canvas.fill(shown, colour, format!("{label}: {phase} {time}, {share}"));
    let inside = if scale == Scale::Time { time } else { share };
    if width(&inside, SMALL) + 8 <= area.w {
        let middle = (area.x + area.w / 2, area.y + area.h / 2);
        canvas.text(middle, &inside, Type::new(SMALL, ink(phase).text(), Anchor::Middle));
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::tests::{assert_texts_inside, assert_well_formed};
    use super::*;
    use proptest::prelude::*;

    fn row(label: &str, calls: u64, ns: &[u64]) -> BarRow {
        let mut breakdown = Breakdown::default();
        Phase::ALL.into_iter().zip(ns).for_each(|(phase, &ns)| breakdown.add(phase, Nanos::from_ns(ns)));
        BarRow { label: label.to_owned(), note: "10711 KiB/s".to_owned(), breakdown, calls }
    }

    /// Widths of the drawn segments in the colour of a phase, px.
    fn widths(svg: &str, phase: Phase) -> Vec<i32> {
        let [r, g, b] = ink(phase).rgb;
        let colour = format!("fill=\"#{r:02X}{g:02X}{b:02X}\"");
        let rects =
            svg.lines().filter(|l| l.starts_with("<rect") && l.contains(&colour) && l.contains("<title>"));
        rects
            .map(|l| l.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn lengths_are_to_scale_and_per_call() {
        let rows = [row("page read", 10, &[3_000_000, 0, 0, 0, 1_000_000]), row("page write", 1, &[800_000])];
        let svg = bars(&rows, "test", ("t", ""), Scale::Time);
        assert_eq!(widths(&svg, Phase::Array), [233 - 1, PLOT - 1], "3/8 of 620, less 1 px for the gap");
        assert!(svg.contains("<title>page read: array 300 us, 75.0 %</title>"), "{svg}");
        assert!(
            svg.contains("\n400 us\n") && svg.contains("\ntime per call, us\n") && svg.contains("\ntest\n"),
            "{svg}"
        );
        let svg = bars(&rows, "test", ("t", ""), Scale::Share);
        assert_eq!(widths(&svg, Phase::Array), [PLOT * 3 / 4 - 1, PLOT - 1]);
    }

    #[test]
    fn only_phases_that_occur_are_named() {
        let svg = bars(&[row("a", 1, &[5, 0, 0, 0, 7])], "test", ("t", ""), Scale::Time);
        assert!(svg.contains("\narray\n") && svg.contains("\ndata\n") && !svg.contains("\npolling\n"));
    }

    #[test]
    fn the_smallest_phase_shows() {
        let svg = bars(&[row("a", 1, &[1_000_000_000, 1])], "test", ("t", ""), Scale::Time);
        assert_eq!(widths(&svg, Phase::Command), [1]);
        assert!(svg.contains("&lt; 0.05 %"));
    }

    #[test]
    fn units_that_differ_much_ask_for_shares() {
        let (page, block) = (row("page read", 1, &[1_000]), row("eraseblock read", 1, &[64_000]));
        assert_eq!(Scale::fitting(&[page.clone(), block]), Scale::Share);
        assert_eq!(Scale::fitting(&[page, row("other", 1, &[20_000]), row("none", 0, &[])]), Scale::Time);
        assert_eq!(Scale::fitting(&[]), Scale::Time);
    }

    #[test]
    fn rounding_per_call() {
        assert_eq!(row("a", 3, &[8]).per_call(Phase::Array).as_ns(), 3);
        assert_eq!(row("a", 3, &[7]).per_call(Phase::Array).as_ns(), 2);
        assert_eq!(row("a", 0, &[7]).total(), 7);
    }

    fn any_row() -> impl Strategy<Value = BarRow> {
        let time = prop_oneof![Just(0), 0..1_000_000_u64, any::<u64>()];
        let hostile = prop_oneof![Just("<&\">'\n\u{0}]]>".to_owned()), ".{0,120}"];
        (hostile.clone(), hostile, proptest::collection::vec(time, 10), any::<u64>())
            .prop_map(|(label, note, ns, calls)| BarRow { note, ..row(&label, calls, &ns) })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_rows_make_a_document(rows in proptest::collection::vec(any_row(), 0..12), title in ".{0,200}") {
            for scale in [Scale::Time, Scale::Share] {
                let svg = bars(&rows, "test", (&title, &title), scale);
                assert_well_formed(&svg);
                assert_texts_inside(&svg);
                prop_assert_eq!(svg, bars(&rows, "test", (&title, &title), scale));
            }
        }
    }
}

//! Waterfall of one operation as SVG.

use super::axis::Axis;
use super::canvas::{Anchor, Area, Canvas, LABEL, MARGIN, SMALL, Type};
use super::lanes::{Lane, Lanes, name};
use super::palette::{AXIS, FAINT, GRID, Rgb, STRIPE, TEXT, ink};
use super::text_width::width;
use floatgate_device::timeline::Span;
use floatgate_mtd::{Instant, Nanos};

const NAMES: i32 = 90;
const PLOT: i32 = 1040;
const LEFT: i32 = MARGIN + NAMES;
const RIGHT: i32 = LEFT + PLOT;
/// Width for the last number of the axis, px.
const SLACK: i32 = 24;
const LANE: i32 = 34;
const BOX: i32 = 22;
/// Minimum width of a box, px.
const LEAST: i32 = 2;
/// Minimum share of its colour that a box of many spans keeps, however short the spans are.
const PALEST: f64 = 0.25;
/// Maximum distance by which a box may end after its time because of its minimum width [`LEAST`], px. It is smaller if
/// the next long box has little space. A box that would end even later is not drawn; the tip of the previous box counts
/// it.
const DRIFT: i32 = 8;

/// One operation on the timelines of its resources, as an SVG document: a lane per resource from the CPU down to the
/// dies. Time is to scale from the operation's start, and spans are boxes in the colours of their phases.
///
/// The full text of a box (operation, phase, start, length) is its tip, for viewers that show tips. Even the shortest
/// span is visible. Neighbours that are equal and too short to distinguish are drawn as one box. Its colour is paler
/// the more idle time lies between them.
pub fn waterfall_svg(spans: &[Span], title: &str, subtitle: &str) -> String {
    let lanes = Lanes::new(spans);
    let mut canvas = Canvas::new(title, RIGHT + SLACK + MARGIN);
    let y = canvas.heading(title, subtitle);
    let top = canvas.legend(y, lanes.phases()) + 18;
    canvas.text((MARGIN, top - 10), "resource", Type::new(SMALL, FAINT, Anchor::Left));
    let bottom = (0..lanes.lanes.len()).fold(top, |y, _| y.saturating_add(LANE));
    draw_stripes(&mut canvas, &lanes, top);
    draw_axis(&mut canvas, &lanes, (top, bottom), spans.len());
    let mut y = top;
    for lane in &lanes.lanes {
        let boxes = boxes(lane, &lanes);
        draw_boxes(&mut canvas, y, &boxes, &lanes);
        canvas.text((MARGIN, y + LANE / 2), &lane.label(), Type::new(LABEL, TEXT, Anchor::Left));
        y += LANE;
    }
    canvas.finish(bottom.saturating_add(48))
}

/// Draws a light background for every second resource.
fn draw_stripes(canvas: &mut Canvas, lanes: &Lanes, top: i32) {
    let (mut y, mut shaded) = (top, false);
    for lane in &lanes.lanes {
        shaded ^= lane.first;
        if shaded {
            let area = Area { x: MARGIN - 6, y, w: RIGHT + SLACK - MARGIN + 6, h: LANE };
            canvas.fill(area, STRIPE, String::new());
        }
        y += LANE;
    }
}

fn draw_axis(canvas: &mut Canvas, lanes: &Lanes, (top, bottom): (i32, i32), count: usize) {
    let axis = Axis::new(lanes.range, 12);
    let last = axis.ticks.len() - 1;
    let room = PLOT / (i32::try_from(last).unwrap_or(PLOT).max(1));
    // If the labels are wide, only every n-th one is drawn.
    let every = axis.ticks.last().map_or(1, |t| 1 + (width(&t.label, SMALL) + 8) / room.max(1)) as usize;
    for (i, tick) in axis.ticks.iter().enumerate() {
        let x = px(lanes.origin + tick.at, lanes);
        canvas.line((x, top), (x, bottom + 4), if i == 0 { AXIS } else { GRID });
        if i % every == 0 {
            canvas.text((x, bottom + 13), &tick.label, Type::new(SMALL, FAINT, Anchor::Middle));
        }
    }
    canvas.line((LEFT, bottom), (RIGHT, bottom), AXIS);
    let steps = if count == 1 { "step" } else { "steps" };
    let caption = format!("time from the start, {}; {} in {count} {steps}", axis.unit, lanes.range);
    canvas.text((LEFT + PLOT / 2, bottom + 31), &caption, Type::new(SMALL, FAINT, Anchor::Middle));
}

fn px(at: Instant, lanes: &Lanes) -> i32 {
    let range = u128::from(lanes.range.as_ns().max(1));
    let x =
        (u128::from(at.since(lanes.origin).as_ns()) * u128::from(PLOT.unsigned_abs()) + range / 2) / range;
    LEFT + i32::try_from(x).unwrap_or(PLOT).min(PLOT)
}

/// One or more equal spans drawn as one box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Drawn {
    from: i32,
    to: i32,
    /// First of the spans.
    span: Span,
    /// Number of equal spans in the box.
    times: u32,
    /// Total time of the spans.
    busy: Nanos,
    /// End of the last span.
    end: Instant,
    /// Number of further spans after the box that could not be drawn.
    hidden: u32,
}

impl Drawn {
    /// True if `span`, drawn from `a` to `b`, equals these spans and is too close to distinguish from them.
    fn absorbs(&self, span: &Span, a: i32, b: i32) -> bool {
        (self.span.phase, self.span.what) == (span.phase, span.what) && a < self.to + 3 && b < a + 6
    }

    fn what(&self) -> String {
        if self.times > 1 { format!("{} x{}", self.span.what, self.times) } else { self.span.what.to_owned() }
    }

    /// Colour of the phase, paler the more the resource is idle during the box.
    fn colour(&self) -> Rgb {
        let all = self.end.since(self.span.start).as_ns();
        let share = (self.busy.as_ns() as f64 / all.max(1) as f64).clamp(PALEST, 1.0);
        let part = if self.times > 1 { share } else { 1.0 };
        ink(self.span.phase).rgb.map(|c| (255.0 - (255.0 - f64::from(c)) * part).round() as u8)
    }

    fn length(&self) -> Nanos {
        self.span.end.since(self.span.start)
    }

    fn tip(&self, lanes: &Lanes) -> String {
        let (span, start) = (&self.span, self.span.start.since(lanes.origin));
        let each = if self.times > 1 { " (the first)" } else { "" };
        let mut tip = format!(
            "{}: {} ({}), {}{each} from {start}",
            name(span.resource),
            self.what(),
            span.phase,
            self.length()
        );
        if self.hidden > 0 {
            tip += &format!("; and {} more too short to draw", self.hidden);
        }
        tip
    }
}

/// Arranges the spans of a lane from left to right without overlaps.
fn boxes(lane: &Lane, lanes: &Lanes) -> Vec<Drawn> {
    let places: Vec<(i32, i32)> =
        lane.spans.iter().map(|span| (px(span.start, lanes), px(span.end, lanes))).collect();
    let drifts = drifts(&places);
    let mut out: Vec<Drawn> = Vec::new();
    for ((span, &(a, b)), drift) in lane.spans.iter().zip(&places).zip(drifts) {
        let (busy, end) = (span.end.since(span.start), span.end);
        // The last box does not extend beyond the axis.
        let from = out.last().map_or(0, |last| last.to).max(a.min(RIGHT - LEAST));
        match out.last_mut() {
            Some(last) if last.absorbs(span, a, b) => {
                last.to = last.to.max(b);
                last.times += 1;
                let sum = last.busy.as_ns().saturating_add(busy.as_ns());
                (last.busy, last.end) = (Nanos::from_ns(sum), last.end.max(end));
            }
            Some(last) if from + LEAST > (b + drift).min(RIGHT) => last.hidden += 1,
            _ => {
                out.push(Drawn { from, to: b.max(from + LEAST), span: *span, times: 1, busy, end, hidden: 0 })
            }
        }
    }
    out
}

/// Distance in px by which each box may end after its time. Short boxes leave three quarters of the space to the next
/// long box.
fn drifts(places: &[(i32, i32)]) -> Vec<i32> {
    let mut next_end = i32::MAX;
    let mut out: Vec<i32> = Vec::with_capacity(places.len());
    for &(a, b) in places.iter().rev() {
        if b - a > LEAST {
            next_end = b;
            out.push(DRIFT);
        } else {
            out.push((next_end.saturating_sub(b) / 4).clamp(0, DRIFT));
        }
    }
    out.reverse();
    out
}

fn draw_boxes(canvas: &mut Canvas, y: i32, boxes: &[Drawn], lanes: &Lanes) {
    for (i, drawn) in boxes.iter().enumerate() {
        let w = drawn.to - drawn.from;
        // A line of background separates neighbours that are wide enough.
        let shown = if w >= 4 { w - 1 } else { w };
        let area = Area { x: drawn.from, y: y + (LANE - BOX) / 2, w: shown, h: BOX };
        canvas.fill(area, drawn.colour(), drawn.tip(lanes));
        let until = boxes.get(i + 1).map_or(RIGHT + SLACK, |next| next.from);
        draw_label(canvas, y + LANE / 2, drawn, until);
    }
}

/// Writes the label of a box into it or, if there is space up to the next box, to its right. Otherwise only the tip
/// shows it.
fn draw_label(canvas: &mut Canvas, middle: i32, drawn: &Drawn, until: i32) {
    let what = drawn.what();
    let long = if drawn.times > 1 { what.clone() } else { format!("{what}  {}", drawn.length()) };
    let texts = [long, what];
    let room = drawn.to - drawn.from - 8;
    if let Some(text) = texts.iter().find(|text| width(text, SMALL) <= room) {
        let pale = drawn.colour() != ink(drawn.span.phase).rgb;
        let colour = if pale { TEXT } else { ink(drawn.span.phase).text() };
        let centre = drawn.from + (drawn.to - drawn.from) / 2;
        canvas.text((centre, middle), text, Type::new(SMALL, colour, Anchor::Middle));
    } else if let Some(text) = texts.iter().find(|text| width(text, SMALL) + 12 <= until - drawn.to) {
        canvas.text((drawn.to + 4, middle), text, Type::new(SMALL, TEXT, Anchor::Left));
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::tests::{assert_texts_inside, assert_well_formed};
    use super::super::lanes::tests::{any_spans, page_read, span};
    use super::*;
    use floatgate_device::timeline::Resource;
    use floatgate_mtd::Phase;
    use proptest::prelude::*;

    #[test]
    fn a_page_read() {
        let svg = waterfall_svg(&page_read(7), "Page read", "25 MHz");
        assert_well_formed(&svg);
        assert_texts_inside(&svg);
        assert!(
            svg.contains("\ntR  34.7 us\n")
                && svg.contains("\ntime from the start, us; 76.0 us in 25 steps\n")
        );
        assert!(svg.contains("<title>die 0: tR (array), 34.7 us from 13.3 us</title>"));
    }

    #[test]
    fn many_polls_stay_few_boxes() {
        let lanes = Lanes::new(&page_read(100_000));
        for lane in &lanes.lanes {
            let boxes = boxes(lane, &lanes);
            assert!(boxes.len() <= (PLOT / LEAST + 1) as usize);
            let all: u32 = boxes.iter().map(|b| b.times + b.hidden).sum();
            assert_eq!(all as usize, lane.spans.len(), "each is drawn or counted");
        }
    }

    #[test]
    fn the_shortest_span_is_visible() {
        let spans = [
            span(Resource::Bus, Phase::Command, "60h", 0, 1),
            span(Resource::Bus, Phase::Address, "row", 1, 2),
            span(Resource::Bus, Phase::Data, "data", 2, 60_000_000_000),
        ];
        let lanes = Lanes::new(&spans);
        let drawn: Vec<(i32, i32)> = boxes(&lanes.lanes[0], &lanes).iter().map(|b| (b.from, b.to)).collect();
        assert_eq!(drawn, [(LEFT, LEFT + 2), (LEFT + 2, LEFT + 4), (LEFT + 4, RIGHT)]);
    }

    #[test]
    fn the_long_are_not_crowded_out_by_the_short() {
        let spans: Vec<Span> = (0..64).flat_map(|_| page_read(3)).collect();
        let mut at = 0;
        let spans: Vec<Span> = spans
            .into_iter()
            .filter(|s| s.resource == Resource::Bus)
            .map(|s| {
                let length = s.end.since(s.start).as_ns();
                at += length;
                span(s.resource, s.phase, s.what, at - length, at)
            })
            .collect();
        let lanes = Lanes::new(&spans);
        let data = boxes(&lanes.lanes[0], &lanes).iter().filter(|b| b.span.phase == Phase::Data).count();
        assert_eq!(data, 64);
    }

    /// Checks that short spans far apart are drawn as one pale box, and spans without a pause as one box in the phase's
    /// colour.
    #[test]
    fn what_is_idle_is_pale() {
        let at = |every: u64| {
            (0..2000).map(move |n| span(Resource::Bus, Phase::Data, "data", every * n, every * n + 10))
        };
        for (every, colour) in [(10, ink(Phase::Data).rgb), (100, [203, 223, 251])] {
            let lanes = Lanes::new(&at(every).collect::<Vec<_>>());
            let boxes = boxes(&lanes.lanes[0], &lanes);
            assert!(boxes.iter().all(|b| b.times > 1), "{boxes:?}");
            assert_eq!(boxes[0].colour(), colour);
        }
    }

    #[test]
    fn nothing_is_a_document_too() {
        let svg = waterfall_svg(&[], "<nothing>", "");
        assert_well_formed(&svg);
        assert_texts_inside(&svg);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_spans_make_a_document(spans in any_spans(), title in ".{0,200}") {
            let svg = waterfall_svg(&spans, &title, "");
            assert_well_formed(&svg);
            assert_texts_inside(&svg);
            prop_assert_eq!(svg, waterfall_svg(&spans, &title, ""));
        }

        #[test]
        fn boxes_do_not_overlap_nor_wander(spans in any_spans()) {
            let lanes = Lanes::new(&spans);
            for lane in &lanes.lanes {
                let boxes = boxes(lane, &lanes);
                prop_assert!(boxes.windows(2).all(|w| w[0].to <= w[1].from));
                prop_assert!(boxes.iter().all(|b| b.from < b.to && b.to <= RIGHT));
            }
        }
    }
}

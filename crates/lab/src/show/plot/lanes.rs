//! Spans sorted into lanes, and detection of repeated spans, for both kinds of waterfalls.

use floatgate_device::timeline::{Resource, Span};
use floatgate_mtd::{Instant, Nanos, Phase};

/// Maximum number of rows of one resource: threads that use it at the same time have a row each.
const MOST_ROWS: usize = 4;

/// Name of a resource in pictures.
pub(crate) fn name(resource: Resource) -> String {
    match resource {
        Resource::Cpu => "CPU".to_owned(),
        Resource::Controller => "controller".to_owned(),
        Resource::Ecc => "ECC engine".to_owned(),
        Resource::Bus => "bus".to_owned(),
        Resource::Die(n) => format!("die {n}"),
    }
}

/// A row of a waterfall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    /// Resource of the row, such as the bus or a die.
    pub(super) resource: Resource,
    /// True for the first row of the resource.
    pub(super) first: bool,
    /// Spans by start. They overlap only in the last of the [`MOST_ROWS`] rows of a resource.
    pub(super) spans: Vec<Span>,
}

impl Lane {
    /// Name of the resource; empty except in its first row.
    pub(super) fn label(&self) -> String {
        if self.first { name(self.resource) } else { String::new() }
    }

    fn has_room_for(&self, span: &Span) -> bool {
        self.spans.last().is_none_or(|last| last.end <= span.start)
    }
}

/// Spans in lanes on a common time axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    /// Start of the time axis.
    pub(super) origin: Instant,
    /// Length of the time axis.
    pub(super) range: Nanos,
    /// Lanes in the order of [`Resource`]: from the CPU down to the dies.
    pub(super) lanes: Vec<Lane>,
}

impl Lanes {
    /// Sorts `spans` into lanes. They may be in any order.
    pub(super) fn new(spans: &[Span]) -> Self {
        let mut sorted = spans.to_vec();
        sorted.sort_by_key(|s| (s.resource, s.start, s.end));
        let origin = spans.iter().map(|s| s.start).min().unwrap_or_default();
        let end = spans.iter().map(|s| s.end).max().unwrap_or_default();
        let mut lanes: Vec<Lane> = Vec::new();
        for span in sorted {
            let from = lanes.iter().position(|l| l.resource == span.resource).unwrap_or(lanes.len());
            place(&mut lanes, from, span);
        }
        Self { origin, range: end.since(origin), lanes }
    }

    /// Phases that occur, in printing order.
    pub(super) fn phases(&self) -> impl Iterator<Item = Phase> {
        let occurs = |phase| self.lanes.iter().flat_map(|lane| &lane.spans).any(|span| span.phase == phase);
        Phase::ALL.into_iter().filter(move |&phase| occurs(phase))
    }
}

/// Adds `span` to the first free row of its resource, from row `from` on, or to a new row.
fn place(lanes: &mut Vec<Lane>, from: usize, span: Span) {
    let rows = lanes.len() - from;
    match lanes[from..].iter().position(|lane| lane.has_room_for(&span)) {
        Some(row) => lanes[from + row].spans.push(span),
        None if rows >= MOST_ROWS => lanes[from + MOST_ROWS - 1].spans.push(span),
        None => lanes.push(Lane { resource: span.resource, first: rows == 0, spans: vec![span] }),
    }
}

/// A span that repeats several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    /// First of the repeated spans.
    pub(super) span: Span,
    /// Number of repetitions.
    pub(super) times: u32,
}

impl Repeated {
    /// Text such as `status x7`.
    pub(super) fn what(&self) -> String {
        if self.times > 1 { format!("{} x{}", self.span.what, self.times) } else { self.span.what.to_owned() }
    }
}

/// Maximum number of spans in a repeated cycle. A poll has about six spans, and a page of a long read about twelve.
const MOST_IN_CYCLE: usize = 32;

/// Merges repeats: if a cycle of spans with the same resources, phases, texts and lengths repeats, its spans are
/// listed once with their number.
pub(super) fn repeats(spans: &[Span]) -> Vec<Repeated> {
    let mut sorted = spans.to_vec();
    sorted.sort_by_key(|s| (s.start, s.resource, s.end));
    let mut out = Vec::new();
    let mut at = 0;
    while at < sorted.len() {
        let (cycle, all) = best_cycle(&sorted[at..]);
        let times = |i: usize| u32::try_from((all - i).div_ceil(cycle)).unwrap_or(u32::MAX);
        out.extend((0..cycle).map(|i| Repeated { span: sorted[at + i], times: times(i) }));
        at += all;
    }
    out
}

/// Cycle at the start of `spans` that saves most lines: its length, and the number of spans that it replaces. The last
/// repetition may be incomplete. (1, 1) if there is none.
fn best_cycle(spans: &[Span]) -> (usize, usize) {
    let key = |s: &Span| (s.resource, s.phase, s.what, s.end.since(s.start));
    let mut best = (1, 1);
    for cycle in 1..=MOST_IN_CYCLE.min(spans.len() / 2) {
        let saved = spans.iter().zip(&spans[cycle..]).take_while(|(a, b)| key(a) == key(b)).count();
        // A cycle of several spans must occur three times, because two repetitions are easier to read one by one. Of
        // two equal cycles, the shorter one is used.
        let least = if cycle == 1 { 1 } else { 2 * cycle };
        if saved >= least && saved > best.1 - best.0 {
            best = (cycle, cycle + saved);
        }
    }
    best
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Span from `start` to `end`, ns.
    pub(crate) fn span(resource: Resource, phase: Phase, what: &'static str, start: u64, end: u64) -> Span {
        Span { resource, phase, start: Instant::from_ns(start), end: Instant::from_ns(end), what }
    }

    /// Page read on a slow SPI controller: three operations, and `polls` status polls while the array is busy.
    pub(crate) fn page_read(polls: u64) -> Vec<Span> {
        let mut now = 1_000_000;
        let mut spans = Vec::new();
        let mut step = |resource, phase, what, ns| {
            spans.push(span(resource, phase, what, now, now + ns));
            now += ns;
        };
        step(Resource::Cpu, Phase::Cpu, "MTD call", 9_000);
        step(Resource::Controller, Phase::Controller, "set-up", 3_000);
        step(Resource::Bus, Phase::Command, "13h", 320);
        step(Resource::Bus, Phase::Address, "row", 960);
        for _ in 0..polls {
            step(Resource::Cpu, Phase::Polling, "sleep", 4_000);
            step(Resource::Bus, Phase::Polling, "status", 960);
        }
        step(Resource::Controller, Phase::Controller, "set-up", 3_000);
        step(Resource::Bus, Phase::Command, "6Bh", 320);
        step(Resource::Bus, Phase::Address, "column", 640);
        step(Resource::Bus, Phase::Dummy, "dummy", 320);
        step(Resource::Bus, Phase::Data, "data", 21_760);
        step(Resource::Controller, Phase::Controller, "completion", 2_000);
        let busy = 1_013_280;
        spans.push(span(Resource::Die(0), Phase::Array, "tR", busy, busy + 4_960 * polls.max(1)));
        spans
    }

    /// Spans of any kind, including impossible ones: backwards, overlapping, at the end of time.
    pub(crate) fn any_spans() -> impl Strategy<Value = Vec<Span>> {
        let resource = prop_oneof![
            Just(Resource::Cpu),
            Just(Resource::Controller),
            Just(Resource::Ecc),
            Just(Resource::Bus),
            any::<u8>().prop_map(Resource::Die)
        ];
        let phase = proptest::sample::select(Phase::ALL.to_vec());
        let what = proptest::sample::select(vec![
            "tR",
            "status",
            "<&\">",
            "",
            "FIFO and programmed I/O",
            "\u{1}é漢",
        ]);
        let time = prop_oneof![0..50_u64, 0..100_000_u64, 0..60_000_000_000_u64, any::<u64>()];
        let one = (resource, phase, what, time.clone(), time).prop_map(|(r, p, w, a, b)| span(r, p, w, a, b));
        proptest::collection::vec(one, 0..60)
    }

    #[test]
    fn lanes_run_from_the_cpu_to_the_dies() {
        let lanes = Lanes::new(&page_read(7));
        let names: Vec<String> = lanes.lanes.iter().map(Lane::label).collect();
        assert_eq!(names, ["CPU", "controller", "bus", "die 0"]);
        assert_eq!((lanes.origin.as_ns(), lanes.range.as_ns()), (1_000_000, 76_040));
    }

    #[test]
    fn what_overlaps_gets_a_row_of_its_own() {
        let at = |start, end| span(Resource::Cpu, Phase::Cpu, "call", start, end);
        let lanes = Lanes::new(&[at(0, 10), at(5, 15), at(10, 20)]).lanes;
        assert_eq!(lanes.len(), 2);
        assert_eq!(lanes[0].spans, [at(0, 10), at(10, 20)]);
        assert_eq!((lanes[1].label(), &lanes[1].spans), (String::new(), &vec![at(5, 15)]));
    }

    #[test]
    fn polls_are_merged() {
        let rows: Vec<String> = repeats(&page_read(7)).iter().map(Repeated::what).collect();
        assert_eq!(
            rows,
            [
                "MTD call",
                "set-up",
                "13h",
                "row",
                "sleep",
                "tR",
                "status x7",
                "sleep x6",
                "set-up",
                "6Bh",
                "column",
                "dummy",
                "data",
                "completion"
            ]
        );
    }

    #[test]
    fn two_turns_are_no_loop() {
        let rows = |polls| repeats(&page_read(polls)).iter().filter(|r| r.times > 1).count();
        assert_eq!((rows(1), rows(3), rows(4)), (0, 0, 2));
        let twice =
            [span(Resource::Bus, Phase::Data, "data", 0, 5), span(Resource::Bus, Phase::Data, "data", 5, 10)];
        assert_eq!(repeats(&twice), [Repeated { span: twice[0], times: 2 }]);
    }

    proptest! {
        #[test]
        fn no_span_is_lost(spans in any_spans()) {
            let rows = repeats(&spans);
            prop_assert_eq!(rows.iter().map(|r| r.times as usize).sum::<usize>(), spans.len());
            let lanes = Lanes::new(&spans).lanes;
            prop_assert_eq!(lanes.iter().map(|l| l.spans.len()).sum::<usize>(), spans.len());
        }
    }
}

//! Shares of a whole that add up exactly.

use super::pen::{Pen, flow};
use floatgate_mtd::{Breakdown, Phase};

/// Distributes `seats` in proportion to `weights` by largest remainder. Each weight above zero gets at least one seat,
/// if there are enough. The result adds up to `seats`, or to zero if all weights are zero.
pub(super) fn apportion(weights: &[u64], seats: u32) -> Vec<u32> {
    let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    let quota = |w: u64| u128::from(w) * u128::from(seats);
    let mut out: Vec<u32> = weights.iter().map(|&w| (quota(w) / total) as u32).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(quota(weights[i]) % total), i));
    // The number of remaining seats is below the number of weights with a remainder.
    let left = seats - out.iter().sum::<u32>();
    order.into_iter().take(left as usize).for_each(|i| out[i] += 1);
    lift_the_small(weights, &mut out);
    out
}

/// Takes a seat from the weight with the most seats for each positive weight that has none, as long as the former has
/// more than one seat.
fn lift_the_small(weights: &[u64], seats: &mut [u32]) {
    for i in 0..seats.len() {
        let largest = (0..seats.len()).max_by_key(|&k| (seats[k], std::cmp::Reverse(k))).unwrap_or(i);
        if weights[i] > 0 && seats[i] == 0 && seats[largest] > 1 {
            seats[largest] -= 1;
            seats[i] = 1;
        }
    }
}

/// Phases that are visible in a percentage with one decimal, in printing order, with their times in ns: shares of at
/// least 0.05 %. Empty if no time passed.
fn shown(breakdown: &Breakdown) -> Vec<(Phase, u64)> {
    let total: u128 = breakdown.iter().map(|(_, t)| u128::from(t.as_ns())).sum();
    let parts = breakdown.iter().map(|(phase, t)| (phase, t.as_ns()));
    parts.filter(|&(_, ns)| ns > 0 && u128::from(ns) * 2000 >= total).collect()
}

/// Percent of the total by phase, in printing order, in steps of 0.1. Printed with one decimal, they add up to exactly
/// 100.0. Phases below 0.05 % are left out, and the list is empty if no time passed.
pub fn percentages(breakdown: &Breakdown) -> Vec<(Phase, f64)> {
    let shown = shown(breakdown);
    let weights: Vec<u64> = shown.iter().map(|&(_, ns)| ns).collect();
    let tenths = apportion(&weights, 1000);
    shown.iter().zip(tenths).map(|(&(phase, _), n)| (phase, f64::from(n) / 10.0)).collect()
}

/// Range of the width of a bar in [`breakdown_text`]: below the minimum, the percentages move to the next lines.
const BAR: std::ops::RangeInclusive<usize> = 16..=60;

/// Stacked bar with its [`percentages`] next to it, or in the lines below if `width` columns are too few for both.
/// Without a final newline. With `colour`, it contains terminal escapes for 256 colours; without, each phase has its
/// own glyph.
pub fn breakdown_text(breakdown: &Breakdown, width: usize, colour: bool) -> String {
    bar_text(breakdown, width, colour, |phase, share| format!(" {phase} {share:.1} %"))
}

/// Stacked bar of [`breakdown_text`] without the names of the phases; [`legend_text`] prints the names once for several
/// bars.
pub fn shares_text(breakdown: &Breakdown, width: usize, colour: bool) -> String {
    bar_text(breakdown, width, colour, |_, share| format!(" {share:.1} %"))
}

/// Names of the phases that occur in any of these bars, in printing order. Without a final newline.
pub fn legend_text<'a>(
    breakdowns: impl IntoIterator<Item = &'a Breakdown>,
    width: usize,
    colour: bool,
) -> String {
    let mut used: Vec<Phase> = breakdowns.into_iter().flat_map(percentages).map(|(phase, _)| phase).collect();
    used.sort_by_key(|phase| Phase::ALL.into_iter().position(|known| known == *phase));
    used.dedup();
    let legend: Vec<Pen> =
        used.into_iter().map(|phase| legend_entry(phase, &format!(" {phase}"), colour)).collect();
    flow(&legend, width, colour).join("\n")
}

fn bar_text(
    breakdown: &Breakdown,
    width: usize,
    colour: bool,
    entry: impl Fn(Phase, f64) -> String,
) -> String {
    let shares = percentages(breakdown);
    if shares.is_empty() {
        return "no time passed".to_owned();
    }
    let legend: Vec<Pen> =
        shares.iter().map(|&(phase, share)| legend_entry(phase, &entry(phase, share), colour)).collect();
    let beside: usize = legend.iter().map(|entry| entry.columns() + 2).sum();
    let mut pen = Pen::new(colour);
    if beside + BAR.start() <= width {
        draw_bar(&mut pen, breakdown, (width - beside).min(*BAR.end()));
        legend.iter().for_each(|entry| {
            pen.plain("  ");
            pen.append(entry);
        });
        return pen.finish();
    }
    draw_bar(&mut pen, breakdown, width.clamp(10, *BAR.end()));
    let mut out = pen.finish();
    for line in flow(&legend, width, colour) {
        out.push('\n');
        out.push_str(&line);
    }
    out
}

fn legend_entry(phase: Phase, text: &str, colour: bool) -> Pen {
    let mut pen = Pen::new(colour);
    pen.swatch(phase);
    pen.plain(text);
    pen
}

fn draw_bar(pen: &mut Pen, breakdown: &Breakdown, columns: usize) {
    let shown = shown(breakdown);
    let weights: Vec<u64> = shown.iter().map(|&(_, ns)| ns).collect();
    for (&(phase, _), n) in shown.iter().zip(apportion(&weights, columns as u32)) {
        (0..n).for_each(|_| pen.swatch(phase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floatgate_mtd::Nanos;
    use proptest::prelude::*;

    fn breakdown(parts: &[(Phase, u64)]) -> Breakdown {
        let mut out = Breakdown::default();
        parts.iter().for_each(|&(phase, ns)| out.add(phase, Nanos::from_ns(ns)));
        out
    }

    #[test]
    fn thirds_add_up() {
        let b = breakdown(&[(Phase::Array, 1), (Phase::Data, 1), (Phase::Cpu, 1)]);
        let printed: Vec<String> = percentages(&b).iter().map(|(p, x)| format!("{p} {x:.1}")).collect();
        assert_eq!(printed, ["array 33.4", "data 33.3", "cpu 33.3"]);
    }

    #[test]
    fn the_small_are_dropped_and_the_just_large_enough_are_not() {
        let b = breakdown(&[(Phase::Array, 99_901), (Phase::Command, 49), (Phase::Data, 50)]);
        assert_eq!(percentages(&b), [(Phase::Array, 99.9), (Phase::Data, 0.1)]);
        assert_eq!(percentages(&Breakdown::default()), []);
    }

    #[test]
    fn one_line() {
        let b = breakdown(&[(Phase::Array, 250), (Phase::Data, 600), (Phase::Polling, 150)]);
        assert_eq!(
            breakdown_text(&b, 72, false),
            "██████▓▓▓▓▓▓▓▓▓▓▓▓▓▓~~~  █ array 25.0 %  ▓ data 60.0 %  ~ polling 15.0 %"
        );
        assert_eq!(
            breakdown_text(&b, 30, false),
            "████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓~~~~\n█ array 25.0 %  ▓ data 60.0 %\n~ polling 15.0 %"
        );
        assert_eq!(breakdown_text(&Breakdown::default(), 72, false), "no time passed");
    }

    #[test]
    fn several_bars_share_a_legend() {
        let [one, other] =
            [&[(Phase::Array, 250), (Phase::Cpu, 750)], &[(Phase::Data, 1), (Phase::Array, 1)]]
                .map(|parts| breakdown(parts));
        assert_eq!(shares_text(&other, 40, false), "██████████▓▓▓▓▓▓▓▓▓▓  █ 50.0 %  ▓ 50.0 %");
        assert_eq!(legend_text([&one, &other], 40, false), "█ array  ▓ data  ░ cpu");
    }

    #[test]
    fn colour_is_reset_before_the_words() {
        let b = breakdown(&[(Phase::Array, 1)]);
        let text = breakdown_text(&b, 36, true);
        assert!(text.starts_with("\x1b[48;5;54;38;5;231m   "), "{text:?}");
        assert!(text.ends_with("\x1b[0m array 100.0 %"), "{text:?}");
    }

    fn any_breakdown() -> impl Strategy<Value = Breakdown> {
        let time = prop_oneof![Just(0), 0..100_u64, 0..10_000_000_u64, any::<u64>()];
        proptest::collection::vec(time, Phase::ALL.len())
            .prop_map(|ns| breakdown(&Phase::ALL.into_iter().zip(ns).collect::<Vec<_>>()))
    }

    proptest! {
        #[test]
        fn printed_percentages_add_up(b in any_breakdown()) {
            let shares = percentages(&b);
            let tenths: Vec<u32> =
                shares.iter().map(|(_, x)| format!("{x:.1}").replace('.', "").parse().unwrap()).collect();
            let any = b.iter().any(|(_, t)| t > Nanos::ZERO);
            prop_assert_eq!(tenths.iter().sum::<u32>(), if any { 1000 } else { 0 });
            prop_assert!(tenths.iter().all(|&n| n > 0));
        }

        #[test]
        fn a_share_is_near_the_truth(b in any_breakdown()) {
            let total: f64 = b.iter().map(|(_, t)| t.as_ns() as f64).sum();
            for (phase, share) in percentages(&b) {
                let truth = 100.0 * b[phase].as_ns() as f64 / total;
                // The shares of dropped phases (at most nine of 0.05) and of lifted ones change the other shares.
                prop_assert!((share - truth).abs() <= 0.6, "{} is {}, not {}", phase, truth, share);
            }
        }

        #[test]
        fn lines_fit(b in any_breakdown(), width in 24..220_usize) {
            for line in breakdown_text(&b, width, false).lines() {
                prop_assert!(line.chars().count() <= width, "{}", line);
            }
        }

        #[test]
        fn seats_are_all_given(weights in proptest::collection::vec(any::<u64>(), 0..12), seats in 0..5000_u32) {
            let given = apportion(&weights, seats);
            let any = weights.iter().any(|&w| w > 0);
            prop_assert_eq!(given.iter().sum::<u32>(), if any { seats } else { 0 });
            let positive = weights.iter().filter(|&&w| w > 0).count();
            if positive as u64 <= u64::from(seats) {
                prop_assert!(weights.iter().zip(&given).all(|(&w, &n)| (w > 0) == (n > 0)));
            }
        }
    }
}

//! Picture of a campaign: the share of answers that are right, by the confidence that was stated.

use std::fmt::Write as _;

/// Answers that stated about the same confidence.
pub(crate) struct Level {
    /// Mean of the confidences.
    pub(crate) stated: f64,
    pub(crate) right: u64,
    pub(crate) all: u64,
}

/// Side of the picture and margin around the plot, px.
const SIDE: f64 = 420.0;
const MARGIN: f64 = 50.0;

/// Interval that holds the true share nineteen times of twenty (Wilson 1927).
fn interval(right: u64, all: u64) -> (f64, f64) {
    let (z, n, share) = (1.96_f64, all as f64, right as f64 / all as f64);
    let middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    (middle - half, middle + half)
}

fn at(share: f64) -> f64 {
    MARGIN + share * (SIDE - 2.0 * MARGIN)
}

/// Draws the levels with the line on which stated and true share are equal.
pub(crate) fn svg(title: &str, levels: &[Level]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIDE} {SIDE}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{SIDE}\" height=\"{SIDE}\" fill=\"#fff\"/>\n<text x=\"{MARGIN}\" y=\"24\" font-size=\"13\">{title}</text>\n"
    );
    let (low, high) = (at(0.0), at(1.0));
    let y = |share: f64| SIDE - at(share);
    for tenth in (0..=10).step_by(2) {
        let (share, place) = (f64::from(tenth) / 10.0, at(f64::from(tenth) / 10.0));
        let _ = writeln!(
            out,
            "<path d=\"M{place:.1} {}V{}M{low} {:.1}H{high}\" stroke=\"#ddd\"/>\n\
             <text x=\"{place:.1}\" y=\"{}\" text-anchor=\"middle\">{share}</text>\n\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{share}</text>",
            y(0.0),
            y(1.0),
            y(share),
            y(0.0) + 16.0,
            low - 6.0,
            y(share) + 4.0
        );
    }
    let _ = writeln!(
        out,
        "<path d=\"M{low} {}L{high} {}\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>",
        y(0.0),
        y(1.0)
    );
    for Level { stated, right, all } in levels {
        let (from, to) = interval(*right, *all);
        let (x, share) = (at(*stated), *right as f64 / *all as f64);
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"#06c\"/><circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#06c\">\
             <title>{right} of {all} right, stated {stated:.2}</title></circle>",
            y(from),
            y(to),
            y(share)
        );
    }
    let middle = SIDE / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">stated confidence</text>\n\
         <text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">share that is right, with its 95 % interval</text>\n</svg>",
        SIDE - 12.0
    );
    out
}

#[test]
fn all_levels_are_in_the_picture() {
    let levels = [(0.5, 5, 10), (0.95, 99, 100)].map(|(stated, right, all)| Level { stated, right, all });
    let text = svg("a campaign", &levels);
    assert_eq!(text.matches("<circle").count(), 2);
    assert!(text.contains("99 of 100 right, stated 0.95") && text.ends_with("</svg>\n"), "{text}");
    let (from, to) = interval(100, 100);
    assert!(from > 0.95 && (to - 1.0).abs() < 1e-9, "{from} {to}");
}

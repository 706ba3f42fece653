//! Colours and glyphs of all pictures.

use floatgate_mtd::Phase;

/// A colour as red, green and blue.
pub(crate) type Rgb = [u8; 3];

/// Colour of text on white.
pub(crate) const TEXT: Rgb = [0x22, 0x22, 0x22];
/// Colour of less important text.
pub(crate) const FAINT: Rgb = [0x5C, 0x5C, 0x5C];
/// Colour of grid lines.
pub(crate) const GRID: Rgb = [0xE2, 0xE2, 0xE2];
/// Colour of the axes.
pub(crate) const AXIS: Rgb = [0x9A, 0x9A, 0x9A];
/// Background of every second lane.
pub(crate) const STRIPE: Rgb = [0xF6, 0xF6, 0xF6];
/// Background of the page.
pub(crate) const WHITE: Rgb = [0xFF, 0xFF, 0xFF];

/// Colours of the series of a chart, by Okabe and Ito ("Color Universal Design", 2002), which readers with any kind of
/// colour vision can distinguish. Their yellow is left out, because it is too light for lines on white.
const SERIES: [Rgb; 7] = [
    [0x00, 0x72, 0xB2], // blue
    [0xD5, 0x5E, 0x00], // vermillion
    [0x00, 0x9E, 0x73], // bluish green
    [0xCC, 0x79, 0xA7], // reddish purple
    [0xE6, 0x9F, 0x00], // orange
    [0x56, 0xB4, 0xE9], // sky blue
    [0x00, 0x00, 0x00], // black
];

/// Lengths of dashes and gaps, px; the first is a solid line.
const DASHES: [&[u8]; 4] = [&[], &[8, 4], &[2, 3], &[10, 3, 2, 3]];

/// Shape drawn at the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Square,
    Circle,
    Diamond,
    Triangle,
}

/// Style of a series of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) colour: Rgb,
    /// Lengths of dashes and gaps, px; empty for a solid line.
    pub(crate) dash: &'static [u8],
    pub(crate) marker: Marker,
}

/// Style of the series with this number. The combination of colour and dash repeats after 28 series, so that a print
/// without colours is readable, too.
pub(crate) fn series(number: usize) -> Series {
    let markers = [Marker::Square, Marker::Circle, Marker::Diamond, Marker::Triangle];
    let dash = number % DASHES.len();
    Series { colour: SERIES[number % SERIES.len()], dash: DASHES[dash], marker: markers[dash] }
}

/// Colour and pattern of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// Red, green, blue (sRGB).
    pub rgb: [u8; 3],
    /// Nearest good colour in the 256-colour palette of terminals.
    pub xterm: u8,
    /// Character that fills the phase's part of a bar without colour; one column wide.
    pub glyph: char,
}

impl Ink {
    const fn new(rgb: u32, xterm: u8, glyph: char) -> Self {
        let [_, r, g, b] = rgb.to_be_bytes();
        Self { rgb: [r, g, b], xterm, glyph }
    }

    /// True if text on this colour must be white.
    pub(crate) fn is_dark(self) -> bool {
        // Luminance at which black and white have the same contrast by WCAG 2: sqrt(1.05 * 0.05) - 0.05.
        luminance(self.rgb) < 0.179
    }

    /// Colour of text on this colour.
    pub(crate) fn text(self) -> Rgb {
        if self.is_dark() { WHITE } else { [0x11, 0x11, 0x11] }
    }
}

/// Style of a phase, the same in every picture.
///
/// Luminance increases in the order of [`Phase::ALL`], so that a grey print keeps the order of the legend. The hues
/// were searched so that the smallest difference between two of them is as large as possible, for normal vision,
/// protanopia, deuteranopia and tritanopia.
pub const fn ink(phase: Phase) -> Ink {
    match phase {
        Phase::Array => Ink::new(0x57247B, 54, '█'),
        Phase::Command => Ink::new(0x74402A, 88, 'c'),
        Phase::Address => Ink::new(0xA73064, 125, 'a'),
        Phase::Dummy => Ink::new(0x797118, 100, 'd'),
        Phase::Data => Ink::new(0x2F7FED, 33, '▓'),
        Phase::Ecc => Ink::new(0xC37DAB, 175, 'e'),
        Phase::Controller => Ink::new(0xE49420, 208, '▒'),
        Phase::Cpu => Ink::new(0xA4C194, 150, '░'),
        Phase::Polling => Ink::new(0x5ADCFA, 117, '~'),
        Phase::Waiting => Ink::new(0xFCDD8A, 222, '.'),
    }
}

/// Value of a channel without its sRGB curve, 0 to 1.
fn linear(channel: u8) -> f64 {
    let c = f64::from(channel) / 255.0;
    if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
}

/// Relative luminance, 0 to 1 (WCAG 2).
fn luminance(rgb: Rgb) -> f64 {
    let [r, g, b] = rgb.map(linear);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

#[cfg(test)]
mod tests {
    use super::*;

    type Matrix = [[f64; 3]; 3];

    const NORMAL: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    // Source: Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency
    // (2009), severity 1.0.
    const PROTANOPIA: Matrix =
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]];
    const DEUTERANOPIA: Matrix =
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]];
    const TRITANOPIA: Matrix =
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]];

    /// CIE L*a*b* (D65) of a colour as seen with the colour vision `eye`.
    fn lab(rgb: Rgb, eye: &Matrix) -> [f64; 3] {
        let l = rgb.map(linear);
        let seen = eye.map(|m| (m[0] * l[0] + m[1] * l[1] + m[2] * l[2]).clamp(0.0, 1.0));
        let xyz = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]]
            .map(|m: [f64; 3]| m[0] * seen[0] + m[1] * seen[1] + m[2] * seen[2]);
        let [x, y, z] = xyz.map(|t| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn grey_keeps_the_order() {
        let lightness = Phase::ALL.map(|p| lab(ink(p).rgb, &NORMAL)[0]);
        for pair in lightness.windows(2) {
            assert!(pair[1] - pair[0] > 5.0, "{lightness:?}");
        }
        assert!(lightness[0] > 20.0 && lightness[9] < 92.0, "both ends stand off from black and white");
    }

    #[test]
    fn any_two_differ_to_any_eye() {
        for eye in [NORMAL, PROTANOPIA, DEUTERANOPIA, TRITANOPIA] {
            for (i, a) in Phase::ALL.into_iter().enumerate() {
                for b in Phase::ALL.into_iter().skip(i + 1) {
                    let apart = distance(lab(ink(a).rgb, &eye), lab(ink(b).rgb, &eye));
                    assert!(apart > 20.0, "{a} and {b} are {apart:.1} apart");
                }
            }
        }
    }

    /// Colour of the terminal's 6x6x6 cube: index 16 + 36 r + 6 g + b.
    fn cube(index: u8) -> Rgb {
        let level = |n: u8| [0, 95, 135, 175, 215, 255][usize::from(n % 6)];
        let n = index - 16;
        [level(n / 36), level(n / 6), level(n)]
    }

    #[test]
    fn terminal_colours_keep_the_order_and_the_contrast() {
        let mut last = 0.0;
        for phase in Phase::ALL {
            let luminance = luminance(cube(ink(phase).xterm));
            assert!(luminance > last, "{phase}");
            last = luminance;
            let text = if ink(phase).is_dark() { 1.0 } else { 0.0 };
            let (light, dark) = (luminance.max(text), luminance.min(text));
            assert!((light + 0.05) / (dark + 0.05) > 3.0, "{phase}");
        }
    }

    #[test]
    fn series_differ_in_colour_or_dash() {
        let all: std::collections::BTreeSet<(Rgb, &[u8])> =
            (0..28).map(series).map(|s| (s.colour, s.dash)).collect();
        assert_eq!(all.len(), 28);
    }

    /// The palette was made for red-green colour blindness. With tritanopia, blue and green are similar, but their
    /// dashes differ.
    #[test]
    fn series_differ_to_any_eye() {
        for eye in [NORMAL, PROTANOPIA, DEUTERANOPIA, TRITANOPIA] {
            for (a, b) in (0..7).flat_map(|b| (0..b).map(move |a| (series(a), series(b)))) {
                let apart = distance(lab(a.colour, &eye), lab(b.colour, &eye));
                assert!(apart > 20.0 || a.dash != b.dash, "{a:?} and {b:?} are {apart:.1} apart");
            }
        }
    }

    #[test]
    fn glyphs_differ() {
        let glyphs: std::collections::BTreeSet<char> = Phase::ALL.iter().map(|&p| ink(p).glyph).collect();
        assert_eq!(glyphs.len(), Phase::ALL.len());
    }
}

//! Writer of lines for a terminal, with or without colour.

use super::palette::ink;
use floatgate_mtd::Phase;

/// Style of a column of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// Default colours of the terminal.
    Plain,
    /// Background in the phase's colour.
    Phase(Phase),
}

/// A line being written.
#[derive(Clone, Debug)]
pub(super) struct Pen {
    out: String,
    columns: usize,
    colour: bool,
    paint: Paint,
}

impl Pen {
    /// Creates an empty line; without `colour`, no escape sequences are written.
    pub(super) const fn new(colour: bool) -> Self {
        Self { out: String::new(), columns: 0, colour, paint: Paint::Plain }
    }

    /// True if escape sequences are written.
    pub(super) const fn colour(&self) -> bool {
        self.colour
    }

    /// Number of columns written.
    pub(super) const fn columns(&self) -> usize {
        self.columns
    }

    /// Writes one column.
    pub(super) fn put(&mut self, c: char, paint: Paint) {
        self.switch(paint);
        self.out.push(if c.is_control() { ' ' } else { c });
        self.columns += 1;
    }

    /// Writes text in the terminal's default colours.
    pub(super) fn plain(&mut self, words: &str) {
        words.chars().for_each(|c| self.put(c, Paint::Plain));
    }

    /// Writes one column in the colour or glyph of a phase, for a legend.
    pub(super) fn swatch(&mut self, phase: Phase) {
        self.put(self.fill(phase), Paint::Phase(phase));
    }

    /// Character that fills a part of `phase`.
    pub(super) fn fill(&self, phase: Phase) -> char {
        if self.colour { ' ' } else { ink(phase).glyph }
    }

    /// Writes spaces up to `column`.
    pub(super) fn pad_to(&mut self, column: usize) {
        (self.columns..column).for_each(|_| self.put(' ', Paint::Plain));
    }

    /// Appends the contents of another pen.
    pub(super) fn append(&mut self, other: &Self) {
        self.switch(Paint::Plain);
        self.out += &other.clone().finish();
        self.columns += other.columns;
    }

    /// Text of the line, with a final reset of colours if needed.
    pub(super) fn finish(mut self) -> String {
        self.switch(Paint::Plain);
        self.out
    }

    fn switch(&mut self, paint: Paint) {
        if self.colour && paint != self.paint {
            match paint {
                Paint::Plain => self.out += "\x1b[0m",
                Paint::Phase(phase) => {
                    let text = if ink(phase).is_dark() { 231 } else { 16 };
                    self.out += &format!("\x1b[48;5;{};38;5;{text}m", ink(phase).xterm);
                }
            }
        }
        self.paint = paint;
    }
}

/// Arranges entries in lines of at most `width` columns, with two spaces between neighbours.
pub(super) fn flow(entries: &[Pen], width: usize, colour: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = Pen::new(colour);
    for entry in entries {
        if line.columns() > 0 && line.columns() + 2 + entry.columns() > width {
            lines.push(std::mem::replace(&mut line, Pen::new(colour)).finish());
        }
        if line.columns() > 0 {
            line.plain("  ");
        }
        line.append(entry);
    }
    if line.columns() > 0 {
        lines.push(line.finish());
    }
    lines
}

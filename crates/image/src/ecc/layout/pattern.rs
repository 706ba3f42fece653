//! Patterns: the bytes of a raw page, in their order.
//!
//! ```text
//! data free:2 free ecc            a page of data, OOB with all ECC bytes at its end
//! meta:10 n*(data:512 ecc)        10 OOB bytes, then each step with its ECC bytes
//! ```

use super::LayoutError;

/// Largest number of items in a pattern, with repeated groups expanded.
const MAX_ITEMS: usize = 4096;

/// Meaning of bytes in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// User data.
    Data,
    /// ECC bytes.
    Ecc,
    /// OOB bytes that the code does not cover.
    Free,
    /// OOB bytes that the code covers.
    Meta,
    /// Bytes that are written as 00h.
    Zero,
}

const KINDS: [(&str, Kind); 5] = [
    ("data", Kind::Data),
    ("ecc", Kind::Ecc),
    ("free", Kind::Free),
    ("meta", Kind::Meta),
    ("zero", Kind::Zero),
];

/// Bytes of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: Kind,
    /// Number of bytes; when absent, all bytes of this kind.
    pub(super) bytes: Option<u32>,
}

/// Number of repetitions of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// Once per step.
    Steps,
    /// A fixed number.
    Fixed(u32),
}

/// Part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Bytes of the whole page.
    Item(Item),
    /// Bytes of a step.
    Group(Times, Vec<Item>),
}

/// Parsed pattern of a layout, with its text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    parts: Vec<Part>,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut parser = Parser { text, at: 0 };
        let mut parts = Vec::new();
        while parser.skip_spaces() {
            parts.push(parser.part()?);
            if parts.len() > MAX_ITEMS {
                return Err(parser.fault("the pattern is too long"));
            }
        }
        if parts.is_empty() {
            Err(parser.fault("the pattern is empty"))
        } else {
            Ok(Self { text: text.to_owned(), parts })
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Number of steps in groups with a fixed number of repetitions.
    pub(super) fn fixed_steps(&self) -> usize {
        let times = self.parts.iter().map(|part| match part {
            Part::Group(Times::Fixed(times), _) => *times as usize,
            _ => 0,
        });
        times.sum()
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn fault(&self, reason: &'static str) -> LayoutError {
        LayoutError::Pattern { column: self.at + 1, reason }
    }

    /// Skips spaces; false at the end of the text.
    fn skip_spaces(&mut self) -> bool {
        self.at += self.rest().len() - self.rest().trim_start().len();
        !self.rest().is_empty()
    }

    fn accept(&mut self, symbol: char) -> bool {
        let is_there = self.rest().starts_with(symbol);
        self.at += usize::from(is_there);
        is_there
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let word: String = self.rest().chars().take_while(|&symbol| is_part(symbol)).collect();
        self.at += word.len();
        word
    }

    fn number(&mut self) -> Result<u32, LayoutError> {
        let fault = self.fault("a number from 1 to 65536 is missing");
        let digits = self.word(|symbol| symbol.is_ascii_digit());
        digits.parse().ok().filter(|number| (1..=65536).contains(number)).ok_or(fault)
    }

    fn part(&mut self) -> Result<Part, LayoutError> {
        let times = match self.rest().chars().next() {
            Some('(') => Times::Fixed(1),
            Some('0'..='9') => {
                let times = Times::Fixed(self.number()?);
                self.star()?;
                times
            }
            Some('n') => {
                self.at += 1;
                self.star()?;
                Times::Steps
            }
            _ => return self.item().map(Part::Item),
        };
        if !self.accept('(') {
            return Err(self.fault("`(` is missing"));
        }
        let mut items = Vec::new();
        loop {
            if !self.skip_spaces() {
                return Err(self.fault("`)` is missing"));
            }
            if self.accept(')') {
                return Ok(Part::Group(times, items));
            }
            items.push(self.item()?);
            if items.len() > MAX_ITEMS {
                return Err(self.fault("the group is too long"));
            }
        }
    }

    fn star(&mut self) -> Result<(), LayoutError> {
        if self.accept('*') { Ok(()) } else { Err(self.fault("`*` is missing")) }
    }

    fn item(&mut self) -> Result<Item, LayoutError> {
        let fault = self.fault("not data, ecc, free, meta, zero or a group in parentheses");
        let word = self.word(|symbol| symbol.is_ascii_alphabetic());
        let kind = KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind).ok_or(fault)?;
        let bytes = if self.accept(':') { Some(self.number()?) } else { None };
        let ends = self.rest().chars().next().is_none_or(|next| next.is_whitespace() || next == ')');
        if ends { Ok(Item { kind, bytes }) } else { Err(self.fault("a space is missing")) }
    }
}

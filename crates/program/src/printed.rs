//! Lines that a program printed, of which the last ones are kept.

use std::collections::VecDeque;

/// Lines that a driver or a program printed on stdout and stderr.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The last lines, at most [`Printed::LAST`].
    pub last: VecDeque<String>,
    /// Number of all lines.
    pub lines: u64,
}

impl Printed {
    /// Maximum number of lines that are kept.
    pub const LAST: usize = 20;

    /// Adds a line, given without its end, and returns its text.
    pub(crate) fn add(&mut self, line: &[u8]) -> &str {
        if self.last.len() == Self::LAST {
            self.last.pop_front();
        }
        self.last.push_back(String::from_utf8_lossy(line).trim_end_matches('\r').to_owned());
        self.lines += 1;
        self.last.back().map_or("", String::as_str)
    }
}

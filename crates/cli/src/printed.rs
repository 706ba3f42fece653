//! Output of a program under test in reports: its last lines.

use crate::common;
use floatgate_program::Printed;
use serde::Serialize;

/// Number of lines that a report for people shows. JSON has more.
const LINES_SHOWN: usize = 5;

/// Number of characters of such a line.
const LINE_SHOWN: usize = 200;

/// Output of a program in JSON.
#[derive(Default, Serialize)]
pub(crate) struct Output {
    /// The last lines.
    #[serde(rename = "printed", skip_serializing_if = "Vec::is_empty")]
    pub(crate) last: Vec<String>,
    /// Number of all lines.
    #[serde(rename = "printed_lines", skip_serializing_if = "is_zero")]
    lines: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<Printed> for Output {
    fn from(printed: Printed) -> Self {
        Self { last: Vec::from(printed.last), lines: printed.lines }
    }
}

impl Output {
    /// The last lines, each in a line of its own and indented, with the number of those before. Empty without output.
    pub(crate) fn text(&self) -> String {
        let shown = self.last.len().min(LINES_SHOWN);
        let before = self.lines - shown as u64;
        let mut text = String::new();
        if before > 0 {
            text += &format!("\n  | ({} before)", common::grouped_count(before, "line"));
        }
        for line in &self.last[self.last.len() - shown..] {
            let start: String = line.chars().take(LINE_SHOWN).collect();
            let rest = if start.len() < line.len() { ".." } else { "" };
            text += &format!("\n  | {start}{rest}");
        }
        text
    }
}

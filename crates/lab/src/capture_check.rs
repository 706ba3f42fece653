//! Verdict of a simulated chip on the commands in a logic analyser's capture: `floatgate check-capture`.

use crate::envelope::{Concluded, Reported};
use crate::show::number::grouped_count;
use crate::show::report::{Cell, Report, Section, Table};
use floatgate_capture::{BrokenRule, Command, Report as Checked};
use floatgate_mtd::Nanos;
use floatgate_mtd::words::grouped;
use serde::{Deserialize, Serialize};

/// Largest number of violations that the report shows.
const SHOWN: usize = 20;

/// Result of the check of a capture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckedCapture {
    /// Name of the part.
    pub part: String,
    /// Statistics of the commands, and broken rules.
    #[serde(flatten)]
    pub checked: Checked,
}

impl Concluded for CheckedCapture {
    /// Number of commands, and whether they broke a rule.
    fn conclusion(&self) -> String {
        let count: u64 = self.checked.commands.iter().map(|command| command.count).sum();
        let commands = grouped_count(count, "command");
        match self.checked.violation_count {
            0 => format!("{}: {commands}, no rule is broken.", self.part),
            broken => format!("{}: {commands}, {}.", self.part, grouped_count(broken, "violation")),
        }
    }
}

fn time(ns: u64) -> String {
    Nanos::from_ns(ns).to_string()
}

impl Reported for CheckedCapture {
    const ROWS: &'static str = "commands";

    fn report(&self) -> Report {
        let Checked { commands, violations, .. } = &self.checked;
        let more = (violations.len() > SHOWN).then(|| "  ..".to_owned());
        let row = |command: &Command| {
            let Command { opcode, count, bytes, ns } = *command;
            let counts = [count, bytes].map(|count| Cell::shown(count as f64, grouped(count)));
            let opcode = Cell::from(format!("{opcode:02X}h"));
            std::iter::once(opcode).chain(counts).chain([Cell::shown(ns as f64, time(ns))]).collect()
        };
        let columns = ["commands", "bytes", "time on the wires"];
        let table = Table::new(&["opcode"], &columns, commands.iter().map(row));
        Report {
            sections: vec![
                Section::Text(violations.iter().take(SHOWN).map(violation).chain(more).collect()),
                Section::Text(times(&self.checked)),
                Section::Table(table),
            ],
            ..Report::default()
        }
    }
}

fn violation(wrong: &BrokenRule) -> String {
    let bytes: Vec<String> = wrong.bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("  after {}: {}: {}", time(wrong.at_ns), wrong.rule, bytes.join(" "))
}

/// Lines about the times and the status reads.
fn times(checked: &Checked) -> Vec<String> {
    let Checked { ns, selected_ns, busy_ns, ref polls, .. } = *checked;
    let after = if busy_ns > ns { ", in part after the capture" } else { "" };
    let all = format!(
        "{} in all: {} on the wires; the chip was busy for {}{after}",
        time(ns),
        time(selected_ns),
        time(busy_ns)
    );
    let mut reads = grouped_count(polls.count, "status read");
    if polls.count > 0 {
        reads += &format!(
            ", {} of them while the chip was busy; they saw programs, erases and page reads end {} late in all",
            grouped(polls.while_busy),
            time(polls.late_ns)
        );
    }
    vec![all, reads]
}

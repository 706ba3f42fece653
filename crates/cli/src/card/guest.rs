//! Guests of `floatgate run`: their end, as a message.

use crate::common::Failure;
use crate::terminal::print_note;
use floatgate_host::guest::{Guest, GuestEnd, GuestError, Machine};
use floatgate_host::serve::clock;
use floatgate_host::signals::Endings;
use floatgate_lab::card::run::{CardRun, Workbench};
use floatgate_mtd::Instant;
use floatgate_mtd::advice::Help as _;

impl From<GuestError> for Failure {
    fn from(error: GuestError) -> Self {
        Self::new(&error, error.help())
    }
}

/// Serves the card to the guest until the guest ends. Returns the runs so far, of which the last may be unfinished. The
/// flag is false if the guest failed, or was ended from outside.
pub(super) fn boot(
    guest: &Guest<'_>,
    machine: Machine,
    endings: Endings,
    bench: Workbench,
    is_real_time: bool,
) -> Result<(Vec<CardRun>, bool), Failure> {
    // Without real time, the guest never waits for the card.
    let clock = clock(Instant::ZERO, if is_real_time { 1.0 } else { 0.0 });
    let (bench, end) = guest.boot(machine, endings, bench, clock)?;
    let phase = bench.phase();
    let runs = bench.into_runs();
    let (problem, help) = match end {
        GuestEnd::Done => return Ok((runs, true)),
        GuestEnd::Interrupted => (format!("interrupted during {phase}"), "let the guest end by itself"),
        GuestEnd::OutOfPatience => {
            (format!("patience ran out after {} s, during {phase}", guest.patience_s), "raise `--patience`")
        }
        GuestEnd::Failed => {
            let output = guest.console_output();
            let last = last_lines(&output);
            (format!("the guest ended with a failure during {phase}{last}"), help_after(&output, &last))
        }
    };
    if runs.is_empty() {
        return Err(Failure::new(problem, help));
    }
    print_note(&format!("{problem}\n{help}; the runs so far follow"));
    Ok((runs, false))
}

/// Number of lines of a guest's output that a failure shows.
const SHOWN_LINES: usize = 12;

/// Last lines of a guest's output, each after a line feed, without the addresses of a kernel panic.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains("[<") && !line.is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().map(|line| format!("\n{line}")).collect()
}

/// Advice after a failure of a guest, from its complete output and the lines that are shown.
fn help_after(said: &str, shown: &str) -> &'static str {
    if said.contains("set fp regs failed") {
        "this User Mode Linux does not support all registers of this processor (AMX): use `--vm qemu`"
    } else if shown.is_empty() {
        "the guest has printed nothing: set TMPDIR to a folder with 512 MiB of free space for its memory"
    } else {
        "the lines above say what is missing"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_failed_is_shown_without_addresses_and_a_silent_one_with_advice_of_its_own() {
        let said = "VFS: no init\n [<606931e5>] panic+0x197/0x376\n\nKernel panic\n";
        let last = last_lines(said);
        assert_eq!(last, "\nVFS: no init\nKernel panic");
        assert_eq!(help_after(said, &last), "the lines above say what is missing");
        assert!(help_after("", &last_lines("")).contains("TMPDIR"));
    }
}

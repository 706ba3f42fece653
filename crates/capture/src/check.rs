//! Checks a capture by sending its commands to a simulated chip at its pins: violated rules, and a time breakdown.

use crate::read::Window;
use floatgate_device::spi::{SpiChip, SpiWire};
use floatgate_mtd::{Instant, Nanos};
use floatgate_sim::rig::Pins;
use serde::Serialize;
use std::collections::BTreeMap;

/// Commands with one opcode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Command {
    /// First byte of the command.
    pub opcode: u8,
    /// Number of commands.
    pub count: u64,
    /// Data bytes of all commands, in one direction.
    pub bytes: u64,
    /// Time from CS# low to CS# high, ns.
    pub ns: u64,
}

/// Statistics of status reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Polls {
    /// Number of status reads.
    pub count: u64,
    /// Number of status reads while the chip was busy.
    pub while_busy: u64,
    /// Total time from the end of programs, erases and page reads to the status read that detected it, ns.
    pub late_ns: u64,
}

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenRule {
    /// Start of the command in ns since the start of the capture.
    pub at_ns: u64,
    /// Description of the rule.
    pub rule: String,
    /// First bytes of the command.
    pub bytes: Vec<u8>,
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Time from the first command to the end of the last one, ns.
    pub ns: u64,
    /// Total time with CS# low, ns.
    pub selected_ns: u64,
    /// Total time of programs, erases and page reads in the chip, ns.
    pub busy_ns: u64,
    /// Commands by opcode.
    pub commands: Vec<Command>,
    /// Statistics of status reads.
    pub polls: Polls,
    /// Number of violations.
    pub violation_count: u64,
    /// The first violations.
    pub violations: Vec<BrokenRule>,
}

/// Sends the commands of a capture to a chip; `None` if the chip has no SPI bus.
pub fn check(windows: &[Window], pins: &mut Pins) -> Option<Report> {
    match pins {
        Pins::SpiNor(wire) => Some(replay(windows, wire)),
        Pins::SpiNand(wire) => Some(replay(windows, wire)),
        Pins::RawNand(_) | Pins::ParallelNor(_) => None,
    }
}

/// Clock assumed for commands with unknown clock: every chip accepts it.
const SLOW_HZ: u32 = 1_000_000;

/// Maximum plausible clock, Hz; higher ones are errors in the capture.
const FAST_HZ: u32 = 1_000_000_000;

fn replay<C: SpiChip>(windows: &[Window], wire: &mut SpiWire<C>) -> Report {
    let mut report = Report::default();
    let mut commands: BTreeMap<u8, Command> = BTreeMap::new();
    // Time of the chip beyond that of the capture: typical times are longer here and there than those of the chip that was captured.
    let mut ahead = Nanos::ZERO;
    let mut starts = Vec::new();
    let mut unseen = None;
    for window in windows {
        let Some(&opcode) = window.sent.first() else { continue };
        let start = Instant::ZERO + Nanos::from_ns(window.start_ns) + ahead;
        wire.advance(start.since(wire.now()));
        if let Some(status) = status(window) {
            report.polls.count += 1;
            let left = wire.chip().busy_until().since(wire.now());
            if status == Status::Ready && left > Nanos::ZERO {
                ahead += left;
                wire.advance(left);
            } else if left > Nanos::ZERO {
                report.polls.while_busy += 1;
            } else if let Some(ready) = unseen.take() {
                report.polls.late_ns += wire.now().since(ready).as_ns();
            }
        }
        starts.push((wire.now(), window.start_ns));
        wire.set_clock(window.clock_hz.unwrap_or(SLOW_HZ).clamp(1, FAST_HZ));
        wire.select();
        wire.exchange(&mut window.sent.clone());
        // A program or an erase begins when CS# rises, which may be long after the last byte.
        let selected = Nanos::from_ns(window.end_ns.saturating_sub(window.start_ns));
        wire.advance(selected.saturating_sub(wire.now().since(start)));
        wire.deselect();
        let busy = wire.chip().busy_until().since(wire.now());
        if busy > Nanos::ZERO && unseen.is_none() {
            unseen = Some(wire.chip().busy_until());
            report.busy_ns += busy.as_ns();
        }
        let command = commands.entry(opcode).or_insert_with(|| Command { opcode, ..Command::default() });
        let ns = window.end_ns.saturating_sub(window.start_ns);
        (command.count, command.bytes, command.ns) =
            (command.count + 1, command.bytes + window.sent.len() as u64, command.ns + ns);
    }
    report.selected_ns = commands.values().map(|command| command.ns).sum();
    let (first, last) =
        (windows.first().map_or(0, |one| one.start_ns), windows.last().map_or(0, |one| one.end_ns));
    report.ns = last.saturating_sub(first);
    report.commands = commands.into_values().collect();
    report.violation_count = wire.violations().count();
    let at_ns = |at: Instant| {
        let before = starts.partition_point(|(start, _)| *start <= at);
        before.checked_sub(1).and_then(|before| starts.get(before)).map_or(0, |(_, captured)| *captured)
    };
    let wrong = wire.violations().recorded().iter();
    report.violations = wrong
        .map(|one| BrokenRule { at_ns: at_ns(one.at), rule: one.rule.to_string(), bytes: one.bytes.clone() })
        .collect();
    report
}

/// State of the chip as seen by the host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Busy,
    Ready,
    /// The line is missing in the capture, or floating.
    Unknown,
}

/// State returned by a status read; `None` for other commands.
fn status(window: &Window) -> Option<Status> {
    /// READ STATUS of NOR, GET FEATURE of the status of NAND, READ FLAG STATUS.
    const READ_STATUS: u8 = 0x05;
    const GET_FEATURE: u8 = 0x0F;
    const STATUS: u8 = 0xC0;
    const READ_FLAG_STATUS: u8 = 0x70;
    let (ready_is, bit) = match window.sent.as_slice() {
        [READ_STATUS, _, ..] | [GET_FEATURE, STATUS, _, ..] => (0, 0x01),
        [READ_FLAG_STATUS, _, ..] => (0x80, 0x80),
        _ => return None,
    };
    let last = *window.received.last()?;
    Some(match last {
        0xFF => Status::Unknown,
        last if last & bit == ready_is => Status::Ready,
        _ => Status::Busy,
    })
}

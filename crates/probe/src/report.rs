//! The answers of a probe as JSON.

use crate::analysis::class::{self, Promise, Verdict};
use crate::partition::Layout;
use crate::registers::Registers;
use crate::{Answers, Samples};
use serde::Serialize;

/// Result of a probe: answers, classes, registers and contradictions.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the device, file or card; the envelope has it in JSON.
    #[serde(skip)]
    pub target: String,
    /// Capacity that the device reports, B.
    pub capacity_bytes: u64,
    /// Number of requests.
    pub samples: usize,
    /// Device time in seconds, including pauses.
    pub time_s: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// False when the probe ended early.
    pub complete: bool,
    /// Answers to all questions.
    pub answers: Answers,
    /// Partitions of a file or block device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Layout>,
    /// Promised classes with their verdicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Verdict>,
    /// Registers of the card, decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<Registers>,
    /// Register values that contradict the measurement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<String>,
}

impl Report {
    /// The report of a target without partitions and registers.
    pub fn new(target: String, samples: &Samples, answers: Answers, complete: bool) -> Self {
        Self {
            target,
            capacity_bytes: samples.capacity,
            samples: samples.all.len(),
            time_s: (samples.cost.ns as f64 / 1e6).round() / 1e3,
            read_bytes: samples.cost.read_bytes,
            written_bytes: samples.cost.written_bytes,
            complete,
            answers,
            classes: Vec::new(),
            partition: None,
            registers: None,
            disagreements: Vec::new(),
        }
    }

    /// Compares the classes printed on the card and those stated by its registers with the measurement.
    pub fn judge(&mut self, samples: &Samples, printed: &[Promise], stated: &[Promise]) {
        let printed = printed.iter().map(|promise| (*promise, "printed"));
        let stated = stated.iter().filter(|promise| !printed.clone().any(|(known, _)| known == **promise));
        let promises: Vec<_> = printed.clone().chain(stated.map(|promise| (*promise, "stated"))).collect();
        self.classes = class::verdicts(samples, &promises);
    }
}

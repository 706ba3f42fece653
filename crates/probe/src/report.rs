//! The answers of a probe as JSON.

use crate::analysis::class::{self, Promise, Verdict};
use crate::partition::Layout;
use crate::registers::Registers;
use crate::{Answers, Samples};
use serde::Serialize;

/// Answers of a probe with what they were compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the device, file or card; the envelope has it in JSON.
    #[serde(skip)]
    pub target: String,
    /// Size that it claims, in bytes.
    pub capacity_bytes: u64,
    /// Number of requests.
    pub samples: usize,
    /// Time of the device in seconds, pauses included.
    pub time_s: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// False when the probe ended early.
    pub complete: bool,
    /// The answers.
    pub answers: Answers,
    /// Partitions of a file or block device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Layout>,
    /// Classes that the card promises, beside what was measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Verdict>,
    /// Registers of the card, decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<Registers>,
    /// Statements of the registers that were measured to be otherwise.
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

    /// Judges classes that are printed on the card, and others that its registers state.
    pub fn judge(&mut self, samples: &Samples, printed: &[Promise], stated: &[Promise]) {
        let printed = printed.iter().map(|promise| (*promise, "printed"));
        let stated = stated.iter().filter(|promise| !printed.clone().any(|(known, _)| known == **promise));
        let promises: Vec<_> = printed.clone().chain(stated.map(|promise| (*promise, "stated"))).collect();
        self.classes = class::verdicts(samples, &promises);
    }
}

//! JSON form of a report.

use super::flash::SetupFlash;
use super::id::FlashId;
use super::options::Options;
use super::report::{Failure, Report, StepCounts};
use crate::envelope::Concluded;
use serde::Serialize;

/// Result of an exploration with its parameters, in the form of the JSON.
#[derive(Serialize)]
pub struct Summary<'a> {
    flash: Flash,
    steps: usize,
    faults: bool,
    workloads: u64,
    operations: u64,
    runs: u64,
    cuts: u64,
    kinds: Vec<Kind>,
    by_step: Vec<Step>,
    bad_pebs_max: u32,
    failure_count: u64,
    failures: Vec<&'a Failure>,
    #[serde(skip)]
    conclusion: String,
    #[serde(skip)]
    board: Option<&'a str>,
}

#[derive(Serialize)]
struct Flash {
    on: &'static str,
    size_bytes: u64,
    eraseblock_bytes: u32,
    page_bytes: u32,
    sub_page_bytes: u32,
}

#[derive(Serialize)]
struct Kind {
    kind: &'static str,
    runs: u64,
}

#[derive(Serialize)]
struct Step {
    step: &'static str,
    #[serde(flatten)]
    counts: StepCounts,
}

impl<'a> Summary<'a> {
    /// Summary of a report on the flash of a setup.
    pub fn new(flash: &'a SetupFlash, options: &Options, report: &'a Report) -> Self {
        let geometry = &flash.geometry;
        let on = match options.flash {
            FlashId::Ram(_) => "memory",
            FlashId::Chip { .. } => "chip",
        };
        Self {
            flash: Flash {
                on,
                size_bytes: geometry.size_bytes,
                eraseblock_bytes: geometry.erase_bytes,
                page_bytes: geometry.write_bytes,
                sub_page_bytes: geometry.sub_page_bytes,
            },
            steps: options.steps,
            faults: options.faults,
            workloads: report.workloads,
            operations: report.operations,
            runs: report.runs,
            cuts: report.cuts,
            kinds: report.kinds().map(|(kind, runs)| Kind { kind, runs }).collect(),
            by_step: report.steps.iter().map(|(&step, &counts)| Step { step, counts }).collect(),
            bad_pebs_max: report.bad_pebs_max,
            failure_count: report.failure_count,
            failures: report.failures.iter().collect(),
            conclusion: report.conclusion(),
            board: flash.board(),
        }
    }
}

impl Concluded for Summary<'_> {
    fn conclusion(&self) -> String {
        self.conclusion.clone()
    }

    fn board(&self) -> Option<&str> {
        self.board
    }
}

//! The result of an exploration.

use std::collections::BTreeMap;

use floatgate_mtd::power_cut::CutKind;
use serde::Serialize;

use super::cut_run::{Recovered, RecoveredState};
use super::id::{kind_index, kind_name};

/// Failures that are kept.
const FAILURES: usize = 100;

/// A run after which something was wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Id that replays the failure.
    pub id: String,
    /// The step under way.
    pub step: String,
    /// Description of the failure.
    pub what: String,
}

/// Numbers of the runs in which the same kind of step was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepCounts {
    /// Runs: first cuts, or filesystems that were unmounted.
    pub runs: u64,
    /// Cuts, those of recoveries included.
    pub cuts: u64,
    /// Names were found as at an earlier moment that was possible still.
    pub found_earlier: u64,
    /// Names were found as before the step.
    pub found_before: u64,
    /// Names were found as after the step.
    pub found_after: u64,
    /// Flash operations of the last recoveries of all runs.
    pub recovery_operations: u64,
    /// Most flash operations of a last recovery.
    pub recovery_operations_max: u64,
    /// Runs after which something was wrong.
    pub failures: u64,
}

/// Report of an exploration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of workloads.
    pub workloads: u64,
    /// Flash operations of all workloads.
    pub operations: u64,
    /// Runs: first cuts, or filesystems that were unmounted.
    pub runs: u64,
    /// Cuts, those of recoveries included.
    pub cuts: u64,
    /// Runs by the kind of their first cut.
    kinds: [u64; CutKind::ALL.len()],
    /// Runs by the step that was cut.
    pub steps: BTreeMap<&'static str, StepCounts>,
    /// Most bad PEBs that a run ended with.
    pub bad_pebs_max: u32,
    /// Number of all failures.
    pub failure_count: u64,
    /// The first failures, in the order of their runs; at most 100.
    pub failures: Vec<Failure>,
}

impl Report {
    /// A workload was recorded.
    pub(super) const fn add_workload(&mut self, operations: u64) {
        self.workloads += 1;
        self.operations += operations;
    }

    /// A run has ended well.
    pub(super) fn add(&mut self, step: &'static str, kind: Option<CutKind>, run: Recovered) {
        self.count(kind);
        self.cuts += run.cuts;
        self.bad_pebs_max = self.bad_pebs_max.max(run.bad_pebs);
        let counts = self.steps.entry(step).or_default();
        counts.runs += 1;
        counts.cuts += run.cuts;
        counts.recovery_operations += run.operations;
        counts.recovery_operations_max = counts.recovery_operations_max.max(run.operations);
        *match run.state {
            RecoveredState::Earlier => &mut counts.found_earlier,
            RecoveredState::Before => &mut counts.found_before,
            RecoveredState::After => &mut counts.found_after,
        } += 1;
    }

    /// A run has failed, after this number of cuts.
    pub(super) fn add_failure(
        &mut self,
        step: &'static str,
        kind: Option<CutKind>,
        cuts: u64,
        failure: Failure,
    ) {
        self.count(kind);
        self.cuts += cuts;
        self.failure_count += 1;
        let counts = self.steps.entry(step).or_default();
        counts.runs += 1;
        counts.cuts += cuts;
        counts.failures += 1;
        if self.failures.len() < FAILURES {
            self.failures.push(failure);
        }
    }

    fn count(&mut self, kind: Option<CutKind>) {
        self.runs += 1;
        if let Some(count) = kind.and_then(|kind| self.kinds.get_mut(kind_index(kind))) {
            *count += 1;
        }
    }

    /// Adds what runs found that come after these.
    #[must_use]
    pub(super) fn then(mut self, later: Self) -> Self {
        self.workloads += later.workloads;
        self.operations += later.operations;
        self.runs += later.runs;
        self.cuts += later.cuts;
        self.bad_pebs_max = self.bad_pebs_max.max(later.bad_pebs_max);
        self.failure_count += later.failure_count;
        self.kinds.iter_mut().zip(later.kinds).for_each(|(count, more)| *count += more);
        for (step, counts) in later.steps {
            self.steps.entry(step).or_default().add(counts);
        }
        let room = FAILURES - self.failures.len();
        self.failures.extend(later.failures.into_iter().take(room));
        self
    }

    /// Runs by the kind of their first cut, in the order in which an operation proceeds: before it, early in it, and so on.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        CutKind::ALL.into_iter().map(|kind| (kind_name(kind), self.kinds[kind_index(kind)]))
    }
}

impl StepCounts {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.cuts += other.cuts;
        self.found_earlier += other.found_earlier;
        self.found_before += other.found_before;
        self.found_after += other.found_after;
        self.recovery_operations += other.recovery_operations;
        self.recovery_operations_max = self.recovery_operations_max.max(other.recovery_operations_max);
        self.failures += other.failures;
    }
}

//! Result of an exploration.

use std::collections::BTreeMap;

use floatgate_mtd::power_cut::CutKind;
use serde::Serialize;

use super::cut_run::{Recovered, RecoveredState};
use super::id::{kind_index, kind_name};

/// Maximum number of failures that are stored.
const FAILURES: usize = 100;

/// A run that found a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Id that replays the failure.
    pub id: String,
    /// Name of the interrupted step.
    pub step: String,
    /// Description of the failure.
    pub what: String,
}

/// Statistics of the runs in which the same kind of step was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepCounts {
    /// Number of runs: first cuts, or filesystems that were unmounted.
    pub runs: u64,
    /// Number of cuts, including those of recoveries.
    pub cuts: u64,
    /// Number of runs that found the names of an earlier moment that was still possible.
    pub found_earlier: u64,
    /// Number of runs that found the names before the step.
    pub found_before: u64,
    /// Number of runs that found the names after the step.
    pub found_after: u64,
    /// Number of flash operations of the last recoveries of all runs.
    pub recovery_operations: u64,
    /// Maximum number of flash operations of a last recovery.
    pub recovery_operations_max: u64,
    /// Number of runs with a failure.
    pub failures: u64,
}

/// Report of an exploration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of workloads.
    pub workloads: u64,
    /// Number of flash operations of all workloads.
    pub operations: u64,
    /// Number of runs: first cuts, or filesystems that were unmounted.
    pub runs: u64,
    /// Number of cuts, including those of recoveries.
    pub cuts: u64,
    /// Number of runs by the kind of their first cut.
    kinds: [u64; CutKind::ALL.len()],
    /// Statistics by the kind of step that was cut.
    pub steps: BTreeMap<&'static str, StepCounts>,
    /// Maximum number of bad PEBs at the end of a run.
    pub bad_pebs_max: u32,
    /// Number of all failures.
    pub failure_count: u64,
    /// First failures in the order of their runs, at most 100.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Adds a recorded workload.
    pub(super) const fn add_workload(&mut self, operations: u64) {
        self.workloads += 1;
        self.operations += operations;
    }

    /// Adds a run without a failure.
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

    /// Adds a run that failed after this number of cuts.
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

    /// Adds the results of later runs.
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

    /// Number of runs by the kind of their first cut, in the order in which an operation proceeds: before it, early in
    /// it, and so on.
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

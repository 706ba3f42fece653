//! Runs of a program with power cuts, in child processes. [`work`] executes the workload once and forks a process for
//! each cut, at the step to be cut. [`once`] executes a single run from the beginning, for programs that need a
//! separate process.
//!
//! Power is lost in the scheduled operation. The program's call that executes it does not return, because no CPU
//! continues without power. The remaining part of the run happens inside that call ([`Run::power_returns`]), with the
//! next copy of the program, and ends the process.

use super::cut::CutAt;
use super::id::History;
use crate::c::{self, Handle};
use crate::device::Device;
use crate::process::{self, End};
use crate::program::{Program, TestDevice};
use floatgate_sim::rig;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io::{PipeWriter, Write as _};
use std::rc::Rc;
use std::time::Duration;

/// Number of steps after the last power cut.
const STEPS_AFTER: u32 = 3;

/// Maximum number of steps between two power cuts: a cut that would come later is omitted.
const STEPS_BETWEEN: u32 = 64;

/// Phase of a run in which a failure occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// Loading of the program.
    Load,
    /// Call of `floatgate_test_prepare`.
    Prepare,
    /// Call of `floatgate_test_recover` after this number of power cuts.
    Recover(usize),
    /// Call of `floatgate_test_check` after this number of power cuts.
    Check(usize),
    /// Call of this step of the workload.
    Step(u32),
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A synchronised value was not found.
    Lost,
    /// The program's check returned a text.
    Check,
    /// The program's recovery returned a text.
    Recovery,
    /// A step returned a text although power was on.
    Step,
    /// A signal ended the program.
    Crash,
    /// The program took longer than the time limit.
    Hang,
    /// The program called exit.
    Exit,
}

/// Failure of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Type of the failure.
    pub kind: FailureKind,
    /// Function of the program in which the failure occurred.
    pub place: RunPhase,
    /// Description of the failure.
    pub why: String,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// All values that were checked were found.
    Good {
        /// Number of power cuts in the run.
        cuts: u64,
        /// Number of values compared with synchronised values.
        compared: u64,
        /// True if the program has its own check function.
        has_check: bool,
    },
    /// The step has fewer operations than the cut requires.
    NotReached,
    Failed(Failure),
}

/// A line that a child process sends to its parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    At(RunPhase),
    NotLoaded(String),
    /// A power cut is scheduled for the calls that follow.
    Ordered,
    /// Number of program and erase operations in the step that ended.
    Operations(u64),
    /// End of the run with this number.
    Run(usize, Outcome),
    /// End of the workload.
    End(Outcome),
}

/// Loads the given number of copies of a program, one for each boot. The error is a description.
pub type Load<'a> = &'a dyn Fn(usize) -> Result<Vec<Box<dyn Program>>, String>;

/// A program with its flash.
#[derive(Clone)]
pub(super) struct Subject<'a> {
    pub(super) load: Load<'a>,
    pub(super) flash: Box<dyn rig::Device>,
    pub(super) limit: Duration,
    /// Same as `can_fork` of [`Options`](super::Options): true if a fork of the process includes the program.
    pub(super) can_fork: bool,
    /// True to show the program's own output.
    pub(super) is_loud: bool,
}

/// A run to execute: its number, the index of its step in the list, and its cuts.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) number: usize,
    pub(super) step: usize,
    pub(super) cuts: Vec<CutAt>,
}

/// Sender of a child's messages.
struct Sender {
    pipe: RefCell<PipeWriter>,
    process: u32,
}

impl Sender {
    fn new(pipe: PipeWriter) -> Self {
        Self { pipe: RefCell::new(pipe), process: std::process::id() }
    }

    fn send(&self, message: &Message) {
        if std::process::id() != self.process {
            // The program forked, and its child also returned from the call.
            process::exit(0);
        }
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        if self.pipe.borrow_mut().write_all(&line).is_err() {
            process::exit(process::NO_PIPE);
        }
    }

    fn end(&self, outcome: Outcome) -> ! {
        process::flush();
        self.send(&Message::End(outcome));
        process::exit(0)
    }

    /// Calls the program; if it returns a text, the process ends with this failure.
    fn call(&self, place: RunPhase, kind: FailureKind, work: impl FnOnce() -> Result<(), String>) {
        self.send(&Message::At(place));
        if let Err(why) = work() {
            self.end(Outcome::Failed(Failure { kind, place, why }));
        }
    }
}

/// Loads the programs of all boots, and boots the first one on the device.
fn start(subject: Subject<'_>, cuts: usize, sender: &Sender) -> (Programs, TestDevice) {
    if !subject.is_loud {
        process::be_quiet();
    }
    if subject.can_fork {
        process::limit_memory();
    }
    sender.send(&Message::At(RunPhase::Load));
    // One copy is for the factory, one for each boot, and one for the boot at the end.
    let programs = match (subject.load)(cuts + 3) {
        Ok(programs) => Programs(programs.into_iter().map(RefCell::new).collect()),
        Err(why) => {
            sender.send(&Message::NotLoaded(why));
            process::exit(0)
        }
    };
    let mut device = Device::behind(subject.flash);
    device.count_operations();
    let device = TestDevice::new(Box::into_raw(Box::new(Handle::new(device))));
    sender.call(RunPhase::Prepare, FailureKind::Step, || programs.with(0, |program| program.prepare(device)));
    sender.call(RunPhase::Recover(0), FailureKind::Recovery, || {
        programs.with(1, |program| program.recover(device))
    });
    (programs, device)
}

/// The copies of the program, one for each boot.
struct Programs(Vec<RefCell<Box<dyn Program>>>);

impl Programs {
    /// True if the program has its own check function. A copy whose call is still running is skipped.
    fn has_check(&self) -> bool {
        self.0.iter().filter_map(|program| program.try_borrow().ok()).any(|program| program.has_check())
    }

    /// Calls the program of a boot. The copy of the previous boot may be in a call that does not return.
    fn with(
        &self,
        boot: usize,
        work: impl FnOnce(&mut dyn Program) -> Result<(), String>,
    ) -> Result<(), String> {
        let program = self.0.get(boot).ok_or("more boots than programs")?;
        work(program.try_borrow_mut().map_err(|error| error.to_string())?.as_mut())
    }
}

/// Executes a workload to its end without a cut, and forks a process for each job at its step.
pub(super) fn work(subject: Subject<'_>, steps: &[u32], jobs: &[Job], pipe: PipeWriter) {
    let (sender, limit) = (Sender::new(pipe), subject.limit);
    let cuts = jobs.iter().map(|job| job.cuts.len()).max().unwrap_or(0);
    let (programs, device) = start(subject, cuts, &sender);
    let programs = Rc::new(programs);
    let mut jobs = jobs.iter().peekable();
    for (index, &step) in steps.iter().enumerate() {
        while let Some(job) = jobs.next_if(|job| job.step == index) {
            let outcome = run(job, step, &programs, device, limit);
            sender.send(&Message::Run(job.number, outcome));
        }
        if jobs.peek().is_none() && cuts > 0 {
            process::exit(0);
        }
        let before = operations(device);
        let in_step = || programs.with(1, |program| program.step(device, step));
        sender.call(RunPhase::Step(step), FailureKind::Step, in_step);
        sender.send(&Message::Operations(operations(device) - before));
    }
    let last = Run { programs, cuts: Vec::new(), next_step: Cell::new(0), boots: Cell::new(1), sender };
    last.reboot(device, 0);
    last.end(device, 0)
}

/// Executes a run in a separate process.
fn run(job: &Job, step: u32, programs: &Rc<Programs>, device: TestDevice, limit: Duration) -> Outcome {
    let child = process::fork(|pipe| {
        Run::new(Rc::clone(programs), job.cuts.clone(), step, Sender::new(pipe)).interrupted(device);
    });
    match child {
        Ok(child) => outcome_of(child, limit),
        Err(error) => Outcome::Failed(failed(
            FailureKind::Exit,
            RunPhase::Step(step),
            format!("no child process: {error}"),
        )),
    }
}

/// Executes a run from the beginning in this process.
pub(super) fn once(subject: Subject<'_>, history: &History, pipe: PipeWriter) {
    let sender = Sender::new(pipe);
    let (programs, device) = start(subject, history.cuts.len(), &sender);
    let Some((&last, before)) = history.steps.split_last() else { return };
    for &step in before {
        let in_step = || programs.with(1, |program| program.step(device, step));
        sender.call(RunPhase::Step(step), FailureKind::Step, in_step);
    }
    sender.send(&Message::Ordered);
    Run::new(Rc::new(programs), history.cuts.clone(), last, sender).interrupted(device);
}

const fn failed(kind: FailureKind, place: RunPhase, why: String) -> Failure {
    Failure { kind, place, why }
}

/// Outcome of a child process that executes a run.
fn outcome_of(child: process::Child, limit: Duration) -> Outcome {
    let (mut place, mut outcome) = (RunPhase::Load, None);
    let end = child.watch(limit, |line| match serde_json::from_slice(line) {
        Ok(Message::At(at)) => place = at,
        Ok(Message::End(end)) => outcome = Some(end),
        _ => {}
    });
    outcome.unwrap_or_else(|| Outcome::Failed(ended(end, place, limit)))
}

/// The failure of a program that ended without a message.
pub(super) fn ended(end: std::io::Result<End>, place: RunPhase, limit: Duration) -> Failure {
    match end {
        Ok(End::Signal(signal)) => failed(FailureKind::Crash, place, process::signal_name(signal)),
        Ok(End::TimedOut) => {
            failed(FailureKind::Hang, place, format!("no end after {} s", limit.as_secs_f64()))
        }
        Ok(End::Exited(process::NO_PIPE)) => {
            failed(FailureKind::Exit, place, "it closed file descriptors that are not its own".to_owned())
        }
        Ok(End::Exited(status)) => {
            failed(FailureKind::Exit, place, format!("it ended itself with status {status}"))
        }
        Err(error) => failed(FailureKind::Exit, place, error.to_string()),
    }
}

/// Access to the device between two calls of the program.
fn with<T>(device: TestDevice, work: impl FnOnce(&mut Handle) -> T) -> T {
    c::with(device.pointer(), work)
}

fn operations(device: TestDevice) -> u64 {
    with(device, |handle| handle.device.operations())
}

/// A run in which power is cut.
struct Run {
    programs: Rc<Programs>,
    cuts: Vec<CutAt>,
    next_step: Cell<u32>,
    /// Number of boots so far.
    boots: Cell<usize>,
    sender: Sender,
}

impl Run {
    /// A run whose first cut is in this step.
    const fn new(programs: Rc<Programs>, cuts: Vec<CutAt>, step: u32, sender: Sender) -> Self {
        Self { programs, cuts, next_step: Cell::new(step), boots: Cell::new(1), sender }
    }

    /// Executes the step in which power is cut and the remaining part of the run, and ends the process.
    fn interrupted(self, device: TestDevice) {
        let run = Rc::new(self);
        let after_cut = Rc::clone(&run);
        let power_lost = move |handle| after_cut.power_returns(TestDevice::new(handle));
        with(device, |handle| handle.power_lost = Some(Rc::new(power_lost)));
        run.order(device, 0);
        run.step(device);
        run.sender.end(Outcome::NotReached)
    }

    /// Schedules a cut, or none.
    fn order(&self, device: TestDevice, number: usize) {
        let cut = self.cuts.get(number).map(|cut| cut.order());
        with(device, |handle| handle.device.order_cut(cut));
    }

    /// Calls the program of the current boot.
    fn program(&self, work: impl FnOnce(&mut dyn Program) -> Result<(), String>) -> Result<(), String> {
        self.programs.with(self.boots.get(), work)
    }

    fn step(&self, device: TestDevice) {
        let step = self.next_step.get();
        self.next_step.set(step.wrapping_add(1));
        self.sender.call(RunPhase::Step(step), FailureKind::Step, || {
            self.program(|program| program.step(device, step))
        });
    }

    /// Executes the remaining part of the run after a power cut.
    fn power_returns(&self, device: TestDevice) {
        let cuts = self.boots.get();
        self.reboot_with(device, cuts, |run| run.order(device, cuts));
        let is_due = |count| count < STEPS_AFTER || (cuts < self.cuts.len() && count < STEPS_BETWEEN);
        (0..).take_while(|count| is_due(*count)).for_each(|_| self.step(device));
        self.order(device, usize::MAX);
        self.reboot(device, cuts);
        self.end(device, cuts)
    }

    /// Ends a run without a failure.
    fn end(&self, device: TestDevice, cuts: usize) -> ! {
        let compared = with(device, |handle| handle.ledger.compared());
        let has_check = self.programs.has_check();
        self.sender.end(Outcome::Good { cuts: cuts as u64, compared, has_check })
    }

    fn reboot(&self, device: TestDevice, cuts: usize) {
        self.reboot_with(device, cuts, |_| {});
    }

    /// Restores power after the given total number of cuts. Everything that the program had in memory is lost.
    fn reboot_with(&self, device: TestDevice, cuts: usize, order: impl FnOnce(&Self)) {
        self.boots.set(self.boots.get() + 1);
        let on = with(device, |handle| {
            handle.ledger.power_returned();
            handle.device.restore_power().map_err(|failure| failure.message)
        });
        self.sender.call(RunPhase::Recover(cuts), FailureKind::Recovery, || on);
        order(self);
        self.sender.call(RunPhase::Recover(cuts), FailureKind::Recovery, || {
            self.program(|program| program.recover(device))
        });
        self.sender.call(RunPhase::Check(cuts), FailureKind::Check, || {
            self.program(|program| program.check(device))
        });
        self.sender.call(RunPhase::Check(cuts), FailureKind::Lost, || {
            with(device, |handle| handle.ledger.verdict())
        });
    }
}

//! A program between two losses of power, in child processes. [`work`] runs the workload once and forks a process for
//! each cut, at the step that is cut. [`once`] does a single run from the beginning, for programs that need a process
//! of their own.
//!
//! Power is lost in the operation that was ordered. The call of the program that runs it does not return, as no CPU
//! goes on without power. The rest of the run happens in that call ([`Run::power_returns`]), with the next copy of the
//! program, and ends the process.

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

/// Steps that follow the last power cut.
const STEPS_AFTER: u32 = 3;

/// Steps at most between two power cuts: a cut that comes later than that is left out.
const STEPS_BETWEEN: u32 = 64;

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// The program is loaded.
    Load,
    /// `floatgate_test_prepare`.
    Prepare,
    /// `floatgate_test_recover` after this number of power cuts.
    Recover(usize),
    /// `floatgate_test_check` after this number of power cuts.
    Check(usize),
    /// This step of the workload.
    Step(u32),
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A synchronised value is not there.
    Lost,
    /// The program's check returned a text.
    Check,
    /// The program's recovery returned a text.
    Recovery,
    /// A step returned a text although power was there.
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
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Function of the program that found it.
    pub place: RunPhase,
    /// Reason in words.
    pub why: String,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// Nothing that was looked at is missing.
    Good {
        /// Power cuts of the run.
        cuts: u64,
        /// Values that were compared with synchronised ones.
        compared: u64,
        /// True if the program has a check of its own.
        has_check: bool,
    },
    /// The step has fewer operations.
    NotReached,
    Failed(Failure),
}

/// Line that a child process sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    At(RunPhase),
    NotLoaded(String),
    /// Power is cut in what follows.
    Ordered,
    /// Programs and erases of the step that ended.
    Operations(u64),
    /// End of the run with this number.
    Run(usize, Outcome),
    /// End of the workload.
    End(Outcome),
}

/// Loads the given number of copies of a program, one for each boot; the reason in words where it cannot be loaded.
pub type Load<'a> = &'a dyn Fn(usize) -> Result<Vec<Box<dyn Program>>, String>;

/// A program and its flash.
#[derive(Clone)]
pub(super) struct Subject<'a> {
    pub(super) load: Load<'a>,
    pub(super) flash: Box<dyn rig::Device>,
    pub(super) limit: Duration,
    /// As in [`Options`](super::Options).
    pub(super) can_fork: bool,
    /// The program's own output is kept.
    pub(super) is_loud: bool,
}

/// A run to do: its number, the place of its step in the list, and the cuts.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) number: usize,
    pub(super) step: usize,
    pub(super) cuts: Vec<CutAt>,
}

/// Messages of a child.
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
            // The program forked, and its child returns, too.
            process::exit(0);
        }
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        if self.pipe.borrow_mut().write_all(&line).is_err() {
            process::exit(process::NO_PIPE);
        }
    }

    fn end(&self, outcome: Outcome) -> ! {
        self.send(&Message::End(outcome));
        process::exit(0)
    }

    /// Calls the program; a text that it returns ends the process.
    fn call(&self, place: RunPhase, kind: FailureKind, work: impl FnOnce() -> Result<(), String>) {
        self.send(&Message::At(place));
        if let Err(why) = work() {
            self.end(Outcome::Failed(Failure { kind, place, why }));
        }
    }
}

/// The programs of all boots, and a device of which the first one is up.
fn start(subject: Subject<'_>, cuts: usize, sender: &Sender) -> (Programs, TestDevice) {
    if !subject.is_loud {
        process::be_quiet();
    }
    if subject.can_fork {
        process::limit_memory();
    }
    sender.send(&Message::At(RunPhase::Load));
    // One for the factory, one for each boot, and one for the boot at the end.
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

/// The program of each boot.
struct Programs(Vec<RefCell<Box<dyn Program>>>);

impl Programs {
    /// True if the program has a check of its own. A copy that is in the middle of a call is passed over.
    fn has_check(&self) -> bool {
        self.0.iter().filter_map(|program| program.try_borrow().ok()).any(|program| program.has_check())
    }

    /// Calls the program of a boot. The program of the boot before may be in the middle of a call that does not return.
    fn with(
        &self,
        boot: usize,
        work: impl FnOnce(&mut dyn Program) -> Result<(), String>,
    ) -> Result<(), String> {
        let program = self.0.get(boot).ok_or("more boots than programs")?;
        work(program.try_borrow_mut().map_err(|error| error.to_string())?.as_mut())
    }
}

/// Runs a workload to its end without a cut of its own, and does each job at its step, in a process of its own.
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

/// Does a run in a process of its own.
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

/// Does a run from the beginning, in this process.
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

/// End of a child that does a run.
fn outcome_of(child: process::Child, limit: Duration) -> Outcome {
    let (mut place, mut outcome) = (RunPhase::Load, None);
    let end = child.watch(limit, |line| match serde_json::from_slice(line) {
        Ok(Message::At(at)) => place = at,
        Ok(Message::End(end)) => outcome = Some(end),
        _ => {}
    });
    outcome.unwrap_or_else(|| Outcome::Failed(ended(end, place, limit)))
}

/// Failure of a program that ended without a message.
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

/// A run whose power is cut.
struct Run {
    programs: Rc<Programs>,
    cuts: Vec<CutAt>,
    next_step: Cell<u32>,
    /// Boots so far.
    boots: Cell<usize>,
    sender: Sender,
}

impl Run {
    /// A run whose first cut is in this step.
    const fn new(programs: Rc<Programs>, cuts: Vec<CutAt>, step: u32, sender: Sender) -> Self {
        Self { programs, cuts, next_step: Cell::new(step), boots: Cell::new(1), sender }
    }

    /// Does the step in which power is cut, and the rest of the run, and ends the process.
    fn interrupted(self, device: TestDevice) {
        let run = Rc::new(self);
        let after_cut = Rc::clone(&run);
        let power_lost = move |handle| after_cut.power_returns(TestDevice::new(handle));
        with(device, |handle| handle.power_lost = Some(Rc::new(power_lost)));
        run.order(device, 0);
        run.step(device);
        run.sender.end(Outcome::NotReached)
    }

    /// Orders a cut, or none.
    fn order(&self, device: TestDevice, number: usize) {
        let cut = self.cuts.get(number).map(|cut| cut.order());
        with(device, |handle| handle.device.order_cut(cut));
    }

    /// Calls the program of the present boot.
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

    /// The rest of the run after a power cut.
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

    /// Power returns after this number of cuts in all; what the program wrote to memory is gone.
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

//! A program between two losses of power, in a child process: [`work`] runs the workload once and forks a process for each cut, at the
//! step that is cut.
//!
//! In the operation that was ordered, the call of the program does not return, as no CPU goes on without power: the rest of the run
//! happens in that call ([`Run::power_returns`]), with the next copy of the program, and ends the process.

use super::cut::CutAt;
use crate::c::Handle;
use crate::device::Device;
use crate::object::{self, Object};
use crate::process::{self, End};
use floatgate_sim::rig;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io::{PipeWriter, Write as _};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Steps that follow the last power cut.
const STEPS_AFTER: u32 = 3;

/// Steps at most between two power cuts: a cut that comes later than that is left out.
const STEPS_BETWEEN: u32 = 64;

/// Place in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
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
    pub place: Place,
    /// Reason in words.
    pub why: String,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// Everything is there, after this number of power cuts.
    Good(u64),
    /// The step has fewer operations.
    NotReached,
    Failed(Failure),
}

/// Line that a child process sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    At(Place),
    NotLoaded(String),
    /// Programs and erases of the step that ended.
    Operations(u64),
    /// End of the run with this number.
    Run(usize, Outcome),
    /// End of the workload.
    End(Outcome),
}

/// A program and its flash.
#[derive(Clone, Debug)]
pub(super) struct Subject<'a> {
    pub(super) program: &'a Path,
    pub(super) flash: Box<dyn rig::Device>,
    pub(super) limit: Duration,
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
struct Sender(RefCell<PipeWriter>);

impl Sender {
    fn send(&self, message: &Message) {
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        if self.0.borrow_mut().write_all(&line).is_err() {
            // The parent is gone.
            process::exit(0);
        }
    }

    fn end(&self, outcome: Outcome) -> ! {
        self.send(&Message::End(outcome));
        process::exit(0)
    }

    /// Calls the program; a text that it returns ends the process.
    fn call(&self, place: Place, kind: FailureKind, work: impl FnOnce() -> Result<(), String>) {
        self.send(&Message::At(place));
        if let Err(why) = work() {
            self.end(Outcome::Failed(Failure { kind, place, why }));
        }
    }
}

/// Runs a workload to its end without a cut of its own, and does each job at its step. A job's step may be the last one only if no
/// step follows it.
pub(super) fn work(subject: Subject<'_>, steps: &[u32], jobs: &[Job], pipe: PipeWriter) {
    let sender = Sender(RefCell::new(pipe));
    if !subject.is_loud {
        process::be_quiet();
    }
    sender.send(&Message::At(Place::Load));
    let cuts = jobs.iter().map(|job| job.cuts.len()).max().unwrap_or(0);
    // One for the factory, one for each boot, and one for the boot at the end.
    let objects = match object::load(subject.program, cuts + 3) {
        Ok(objects) => objects,
        Err(error) => {
            sender.send(&Message::NotLoaded(error.to_string()));
            process::exit(0)
        }
    };
    let mut device = Device::behind(subject.flash);
    device.power_mut().count_operations();
    let handle = Box::into_raw(Box::new(Handle::new(device)));
    let [factory, first, ..] = objects.as_slice() else { return };
    sender.call(Place::Prepare, FailureKind::Step, || factory.prepare(handle));
    sender.call(Place::Recover(0), FailureKind::Recovery, || first.recover(handle));
    let mut jobs = jobs.iter().peekable();
    for (index, &step) in steps.iter().enumerate() {
        while let Some(job) = jobs.next_if(|job| job.step == index) {
            let outcome = run(job, step, &objects, handle, subject.limit);
            sender.send(&Message::Run(job.number, outcome));
        }
        if jobs.peek().is_none() && cuts > 0 {
            process::exit(0);
        }
        let before = operations(handle);
        sender.call(Place::Step(step), FailureKind::Step, || first.step(handle, step));
        sender.send(&Message::Operations(operations(handle) - before));
    }
    let last = Run { objects, cuts: Vec::new(), next_step: Cell::new(0), boots: Cell::new(1), sender };
    last.reboot(handle);
    last.sender.end(Outcome::Good(0))
}

/// Does a run in a process of its own.
fn run(job: &Job, step: u32, objects: &[Object], handle: *mut Handle, limit: Duration) -> Outcome {
    let in_child = |pipe| {
        let run = Rc::new(Run {
            objects: objects.to_vec(),
            cuts: job.cuts.clone(),
            next_step: Cell::new(step),
            boots: Cell::new(1),
            sender: Sender(RefCell::new(pipe)),
        });
        let after_cut = Rc::clone(&run);
        with(handle, |handle| {
            handle.power_lost = Some(Rc::new(move |handle| after_cut.power_returns(handle)))
        });
        run.order(handle, 0);
        run.step(handle);
        run.sender.end(Outcome::NotReached)
    };
    match process::fork(in_child) {
        Ok(child) => outcome_of(child, limit),
        Err(error) => Outcome::Failed(failed(
            FailureKind::Exit,
            Place::Step(step),
            format!("no child process: {error}"),
        )),
    }
}

const fn failed(kind: FailureKind, place: Place, why: String) -> Failure {
    Failure { kind, place, why }
}

/// End of a child that does a run.
fn outcome_of(child: process::Child, limit: Duration) -> Outcome {
    let (mut place, mut outcome) = (Place::Load, None);
    let end = child.watch(limit, |line| match serde_json::from_slice(line) {
        Ok(Message::At(at)) => place = at,
        Ok(Message::End(end)) => outcome = Some(end),
        _ => {}
    });
    outcome.unwrap_or_else(|| Outcome::Failed(ended(end, place, limit)))
}

/// Failure of a program that ended without a message.
pub(super) fn ended(end: std::io::Result<End>, place: Place, limit: Duration) -> Failure {
    match end {
        Ok(End::Signal(signal)) => failed(FailureKind::Crash, place, process::signal_name(signal)),
        Ok(End::TimedOut) => {
            failed(FailureKind::Hang, place, format!("no end after {} s", limit.as_secs_f64()))
        }
        Ok(End::Exited(status)) => {
            failed(FailureKind::Exit, place, format!("the program ended itself with status {status}"))
        }
        Err(error) => failed(FailureKind::Exit, place, error.to_string()),
    }
}

/// Access to the device between two calls of the program.
#[allow(unsafe_code, reason = "the device is the program's as well")]
fn with<T>(handle: *mut Handle, work: impl FnOnce(&mut Handle) -> T) -> T {
    // SAFETY: made by `work`, never freed, and no call of the program is under way.
    work(unsafe { &mut *handle })
}

fn operations(handle: *mut Handle) -> u64 {
    with(handle, |handle| handle.device.power_mut().operations())
}

/// A run whose power is cut.
struct Run {
    objects: Vec<Object>,
    cuts: Vec<CutAt>,
    next_step: Cell<u32>,
    /// Boots so far.
    boots: Cell<usize>,
    sender: Sender,
}

impl Run {
    /// Orders a cut, or none.
    fn order(&self, handle: *mut Handle, number: usize) {
        let cut = self.cuts.get(number).map(|cut| cut.order());
        with(handle, |handle| handle.device.power_mut().order(cut));
    }

    /// The program of the present boot.
    fn object(&self) -> Object {
        self.objects[self.boots.get().min(self.objects.len() - 1)]
    }

    fn step(&self, handle: *mut Handle) {
        let step = self.next_step.get();
        self.next_step.set(step.wrapping_add(1));
        self.sender.call(Place::Step(step), FailureKind::Step, || self.object().step(handle, step));
    }

    /// The rest of the run after a power cut.
    fn power_returns(&self, handle: *mut Handle) {
        let cuts = self.boots.get();
        self.reboot_with(handle, |run| run.order(handle, cuts));
        let is_due = |count| count < STEPS_AFTER || (cuts < self.cuts.len() && count < STEPS_BETWEEN);
        (0..).take_while(|count| is_due(*count)).for_each(|_| self.step(handle));
        self.order(handle, usize::MAX);
        self.reboot(handle);
        self.sender.end(Outcome::Good(cuts as u64))
    }

    fn reboot(&self, handle: *mut Handle) {
        self.reboot_with(handle, |_| {});
    }

    /// Power returns; what the program wrote to memory is gone.
    fn reboot_with(&self, handle: *mut Handle, order: impl FnOnce(&Self)) {
        let cuts = self.boots.get();
        self.boots.set(cuts + 1);
        let on = with(handle, |handle| {
            handle.ledger.power_returned();
            handle.device.restore_power().map_err(|failure| failure.message)
        });
        self.sender.call(Place::Recover(cuts), FailureKind::Recovery, || on);
        order(self);
        self.sender.call(Place::Recover(cuts), FailureKind::Recovery, || self.object().recover(handle));
        self.sender.call(Place::Check(cuts), FailureKind::Check, || self.object().check(handle));
        self.sender
            .call(Place::Check(cuts), FailureKind::Lost, || with(handle, |handle| handle.ledger.verdict()));
    }
}

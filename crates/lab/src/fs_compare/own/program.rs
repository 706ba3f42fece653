//! A running program, and the flash operations that it requests.

use super::protocol::{
    Answer, FlashOp, FlashResult, FlashSizes, Message, Request, Room, VERSION, receive, send,
};
use floatgate_mtd::{Geometry, Instant, Mtd as _};
use floatgate_sim::vfs::Flash;
use floatgate_stack::fs::{Error, Result};
use std::io::{self, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running filesystem program.
#[derive(Debug)]
pub(super) struct Program {
    path: &'static str,
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// Last part of the program's standard error, and the thread that reads it.
    said: Arc<Mutex<Vec<u8>>>,
    listener: Option<JoinHandle<()>>,
}

/// Result of a flash operation: whether a block is bad, and the bytes that were read; or the reason of a failure.
pub(super) type Operated = std::result::Result<(Option<bool>, Vec<u8>), String>;

/// Maximum number of bytes kept of a program's standard error.
const SAID_MAX: usize = 4096;

impl Program {
    /// Starts a program for a flash of this geometry.
    pub(super) fn start(path: &'static str, geometry: &Geometry) -> Result<Self> {
        let failed = |error: io::Error| Error::Failed(format!("{path} does not start: {error}"));
        let mut child = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let listener = child.stderr.take().map(|stderr| {
            let said = Arc::clone(&said);
            std::thread::spawn(move || keep_end(stderr, &said))
        });
        let (to, Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Failed(format!("{path} has no standard output")));
        };
        let mut program = Self { path, child, to, from: BufReader::new(from), said, listener };
        let sizes = FlashSizes {
            bytes: geometry.size_bytes,
            erase_bytes: geometry.erase_bytes,
            write_bytes: geometry.write_bytes,
        };
        let start = Request::Start { version: VERSION, flash: sizes };
        match program.exchange(&start, &[], &mut |_, _| Err("the flash is not there yet".to_owned())) {
            Ok(_) => Ok(program),
            Err(error) => Err(error),
        }
    }

    /// Sends a request, executes the flash operations that the program needs for it, and returns the answer.
    pub(super) fn ask(
        &mut self,
        flash: &mut Flash,
        now: &mut Instant,
        request: &Request,
        data: &[u8],
    ) -> Result<(Answer, Vec<u8>)> {
        self.exchange(request, data, &mut |op, data| operate(flash, now, op, data))
    }

    /// Space of the filesystem. The request runs on a copy of the flash, so its time does not count.
    pub(super) fn room(&mut self, flash: &Flash, now: Instant) -> Result<Room> {
        let (mut flash, mut now) = (flash.clone(), now);
        let (answer, _) = self.ask(&mut flash, &mut now, &Request::Space, &[])?;
        answer.space.ok_or_else(|| self.wrong("no `space` in its answer to `space`"))
    }

    pub(super) fn exchange(
        &mut self,
        request: &Request,
        data: &[u8],
        operate: &mut dyn FnMut(FlashOp, &[u8]) -> Operated,
    ) -> Result<(Answer, Vec<u8>)> {
        self.send(request, data)?;
        loop {
            let received = receive::<Message>(&mut self.from);
            match received.map_err(|error| self.wrong(&error.to_string()))? {
                Some((Message::Flash(op), data)) => match operate(op, &data) {
                    Ok((bad, bytes)) => self.send(&FlashResult::Ok { bad }, &bytes)?,
                    Err(why) => self.send(&FlashResult::Failed(why), &[])?,
                },
                Some((Message::Done(answer), bytes)) => return Ok((answer, bytes)),
                Some((Message::Failed(why), _)) => return Err(self.refusal(&why)),
                None => return Err(self.ended()),
            }
        }
    }

    fn send<T: serde::Serialize>(&mut self, message: &T, data: &[u8]) -> Result<()> {
        let sent = self.to.as_mut().map(|to| send(to, message, data));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.ended()) }
    }

    fn refusal(&self, why: &str) -> Error {
        match why {
            "no-space" => Error::NoSpace,
            "not-found" => Error::NotFound,
            "exists" => Error::Exists,
            "not-directory" => Error::NotDirectory,
            "is-directory" => Error::IsDirectory,
            "not-empty" => Error::NotEmpty,
            why => Error::Failed(format!("{}: {why}", self.path)),
        }
    }

    pub(super) fn wrong(&self, why: &str) -> Error {
        Error::Failed(format!("{}: {why}", self.path))
    }

    /// Error after the program ended, with its exit status and the last line of its standard error.
    fn ended(&mut self) -> Error {
        self.to = None;
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        // A child process of the program may keep the pipe open, so the wait is limited.
        for _ in 0..100 {
            if self.listener.as_ref().is_none_or(JoinHandle::is_finished) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = self.said.lock().map(|said| String::from_utf8_lossy(&said).into_owned());
        let last =
            said.unwrap_or_default().lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        Error::Failed(format!("{} ended ({status}){last}", self.path))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.to = None;
        // A program normally ends when its input ends. If it still runs, it is killed.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Keeps the last part of a program's standard error.
fn keep_end(mut from: impl io::Read, said: &Mutex<Vec<u8>>) {
    let mut buf = [0; SAID_MAX];
    while let Ok(read @ 1..) = from.read(&mut buf) {
        let Ok(mut said) = said.lock() else { return };
        said.extend_from_slice(&buf[..read]);
        let too_much = said.len().saturating_sub(SAID_MAX);
        said.drain(..too_much);
    }
}

/// Executes a flash operation.
fn operate(flash: &mut Flash, now: &mut Instant, op: FlashOp, data: &[u8]) -> Operated {
    let erase_bytes = u64::from(flash.geometry().erase_bytes);
    let mut read = Vec::new();
    let mut bad = None;
    let done = match op {
        FlashOp::Read { bytes, .. } if bytes > super::protocol::DATA_MAX => {
            return Err(format!("{bytes} bytes are too much for one read"));
        }
        FlashOp::Read { at, bytes } => {
            read = vec![0; bytes];
            flash.read(*now, at, &mut read).map(|done| done.at)
        }
        FlashOp::Program { at } => flash.write(*now, at, data).map(|done| done.at),
        FlashOp::Erase { at } => flash.erase(*now, at, erase_bytes).map(|done| done.at),
        FlashOp::IsBad { at } => flash.is_bad(*now, at).map(|(is_bad, at)| {
            bad = Some(is_bad);
            at
        }),
        FlashOp::MarkBad { at } => flash.mark_bad(*now, at).map(|done| done.at),
    };
    match done {
        Ok(at) => {
            *now = at;
            Ok((bad, read))
        }
        Err(error) => {
            *now = error.at;
            Err(error.to_string())
        }
    }
}

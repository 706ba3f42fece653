//! A running program.

use super::messages::{Answer, FlashOp, FlashResult, FlashSizes, Message, Request, VERSION, receive, send};
use floatgate_mtd::Geometry;
use std::io::{self, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Reason why a program did not execute a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The program refused, for a reason of the protocol such as `no-space`, or for a reason in words.
    #[error("{0}")]
    Refused(String),
    /// The program does not start, has ended, or breaks the protocol.
    #[error("{0}")]
    Broken(String),
}

/// A running filesystem program.
#[derive(Debug)]
pub struct FilesystemProgram {
    path: String,
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// Last part of the program's standard error, and the thread that reads it.
    said: Arc<Mutex<Vec<u8>>>,
    listener: Option<JoinHandle<()>>,
}

/// Result of a flash operation: whether a block is bad, and the bytes that were read; or the reason of a failure.
pub type Operated = Result<(Option<bool>, Vec<u8>), String>;

/// Maximum number of bytes kept of a program's standard error.
const SAID_MAX: usize = 4096;

impl FilesystemProgram {
    /// Starts a program for a flash of this geometry.
    ///
    /// # Errors
    /// The program does not start, or refuses the flash.
    pub fn start(path: &str, geometry: &Geometry) -> Result<Self, ProgramError> {
        let failed = |error: io::Error| ProgramError::Broken(format!("{path} does not start: {error}"));
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
            return Err(ProgramError::Broken(format!("{path} has no standard output")));
        };
        let path = path.to_owned();
        let mut program = Self { path, child, to, from: BufReader::new(from), said, listener };
        let sizes = FlashSizes {
            bytes: geometry.size_bytes,
            erase_bytes: geometry.erase_bytes,
            write_bytes: geometry.write_bytes,
        };
        let start = Request::Start { version: VERSION, flash: sizes };
        program.exchange(&start, &[], &mut |_, _| Err("the flash is not there yet".to_owned()))?;
        Ok(program)
    }

    /// Sends a request with data, executes the flash operations that the program needs for it by `operate`, and returns
    /// the answer with its data.
    ///
    /// # Errors
    /// The program refuses, ends, or breaks the protocol.
    pub fn exchange(
        &mut self,
        request: &Request,
        data: &[u8],
        operate: &mut dyn FnMut(FlashOp, &[u8]) -> Operated,
    ) -> Result<(Answer, Vec<u8>), ProgramError> {
        self.send(request, data)?;
        loop {
            let received = receive::<Message>(&mut self.from);
            match received.map_err(|error| self.wrong(&error.to_string()))? {
                Some((Message::Flash(op), data)) => match operate(op, &data) {
                    Ok((bad, bytes)) => self.send(&FlashResult::Ok { bad }, &bytes)?,
                    Err(why) => self.send(&FlashResult::Failed(why), &[])?,
                },
                Some((Message::Done(answer), bytes)) => return Ok((answer, bytes)),
                Some((Message::Failed(why), _)) => return Err(ProgramError::Refused(why)),
                None => return Err(self.ended()),
            }
        }
    }

    fn send<T: serde::Serialize>(&mut self, message: &T, data: &[u8]) -> Result<(), ProgramError> {
        let sent = self.to.as_mut().map(|to| send(to, message, data));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.ended()) }
    }

    fn wrong(&self, why: &str) -> ProgramError {
        ProgramError::Broken(format!("{}: {why}", self.path))
    }

    /// Error after the program ended, with its exit status and the last line of its standard error.
    fn ended(&mut self) -> ProgramError {
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
        ProgramError::Broken(format!("{} ended ({status}){last}", self.path))
    }
}

impl Drop for FilesystemProgram {
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

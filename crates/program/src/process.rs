//! Child processes for what may crash or hang: forked, with a pipe for lines to the parent and a time limit.

#![allow(unsafe_code, reason = "fork, and what a child sets up for itself")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A forked process, which is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    pub(crate) lines: Lines,
    ended: bool,
}

/// End of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(i32),
    Signal(i32),
    TimedOut,
}

/// Lines that come through a pipe.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) pipe: PipeReader,
    partial: Vec<u8>,
}

/// Runs `work` in a child process. The caller must have one thread.
pub(crate) fn fork(work: impl FnOnce(PipeWriter)) -> io::Result<Child> {
    let (pipe, writer) = io::pipe()?;
    // SAFETY: the process has one thread, so that the child finds no lock that another one holds.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(pipe);
            be_a_child();
            let outcome = catch_unwind(AssertUnwindSafe(|| work(writer)));
            exit(if outcome.is_ok() { 0 } else { PANICKED })
        }
        pid => {
            let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process id"))?;
            Ok(Child { pid, lines: Lines { pipe, partial: Vec::new() }, ended: false })
        }
    }
}

/// Exit status of a child with a bug of ours.
const PANICKED: i32 = 213;

/// Ends this process at once, without what is registered for its end.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(status) }
}

/// A child dies with its parent and of its own faults, without a core dump. It has a process group, for the programs that it starts.
fn be_a_child() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: no pointer but `none`, which lives.
    unsafe {
        libc::setpgid(0, 0);
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Sends what the process prints to nowhere.
pub(crate) fn be_quiet() {
    let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}

impl Lines {
    /// The lines that have come since the last call, after waiting for them no longer than the limit; `None` at the end.
    fn next(&mut self, limit: Duration) -> io::Result<Option<Vec<Vec<u8>>>> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        let mut wait = [PollFd::new(&self.pipe, PollFlags::IN)];
        if poll(&mut wait, Some(&limit))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.read()
    }

    /// The lines of one read.
    pub(crate) fn read(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        let mut bytes = [0; 4096];
        let count = self.pipe.read(&mut bytes)?;
        let Some(new) = bytes.get(..count).filter(|new| !new.is_empty()) else { return Ok(None) };
        self.partial.extend_from_slice(new);
        let mut lines: Vec<Vec<u8>> = self.partial.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        self.partial = lines.pop().unwrap_or_default();
        Ok(Some(lines))
    }
}

impl Child {
    /// Hands each line of the child to `on_line` until its end, or kills it when no line has come for the time of the limit.
    pub(crate) fn watch(mut self, limit: Duration, mut on_line: impl FnMut(&[u8])) -> io::Result<End> {
        loop {
            match self.lines.next(limit) {
                Ok(Some(lines)) => lines.iter().for_each(|line| on_line(line)),
                Ok(None) => return self.wait(),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    drop(self);
                    return Ok(End::TimedOut);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the end of a child that closed its pipe.
    pub(crate) fn wait(mut self) -> io::Result<End> {
        self.ended = true;
        let status = waitpid(Some(self.pid), WaitOptions::empty())?.map(|(_, status)| status);
        // Programs that it started may be left.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let signal = status.and_then(|status| status.terminating_signal());
        let code = status.and_then(|status| status.exit_status()).unwrap_or(0);
        Ok(signal.map_or(End::Exited(code), End::Signal))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            // The group exists once the child has made it.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

/// Waits until one of the children has a line or has ended; false at the limit.
pub(crate) fn wait_for_any(children: &[Child], limit: Duration) -> io::Result<Vec<bool>> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let mut waits: Vec<PollFd<'_>> = children
        .iter()
        .map(|child| PollFd::from_borrowed_fd(child.lines.pipe.as_fd(), PollFlags::IN))
        .collect();
    poll(&mut waits, Some(&limit))?;
    Ok(waits.iter().map(|wait| !wait.revents().is_empty()).collect())
}

/// Name of a signal.
pub(crate) fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 6] = [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGKILL, "SIGKILL"),
    ];
    let known = NAMES.into_iter().find(|(number, _)| *number == signal);
    known.map_or_else(|| format!("signal {signal}"), |(_, name)| name.to_owned())
}

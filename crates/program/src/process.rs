//! Child processes for code that may crash or hang: forked, with a pipe for lines to the parent and a time limit.

#![allow(unsafe_code, reason = "fork, and what a child sets up for itself")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid, waitpid,
};
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A forked process, which is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    lines: Lines,
    /// Output of the process, if the parent reads it.
    printed: Option<Printed>,
    ended: bool,
}

/// Reader of the lines that a child prints.
#[derive(Debug)]
struct Printed {
    pipe: PipeReader,
    partial: Vec<u8>,
}

/// Reason for the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(i32),
    Signal(i32),
    TimedOut,
}

/// Reader of lines from a pipe.
#[derive(Debug)]
struct Lines {
    pipe: PipeReader,
    partial: Vec<u8>,
}

/// Interval of checks on a silent child. If processes that it started hold the pipe open, its end does not close the pipe.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs `work` in a child process. The calling process must have only one thread.
pub(crate) fn fork(work: impl FnOnce(PipeWriter)) -> io::Result<Child> {
    let (pipe, writer) = io::pipe()?;
    // SAFETY: the process has only one thread, so no lock is held by another thread at the fork.
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
            Ok(Child { pid, lines: Lines { pipe, partial: Vec::new() }, printed: None, ended: false })
        }
    }
}

/// As [`fork`]; the parent reads what the child prints.
pub(crate) fn fork_heard(work: impl FnOnce(PipeWriter)) -> io::Result<Child> {
    let (pipe, writer) = io::pipe()?;
    let mut child = fork(|lines| {
        let _ = rustix::stdio::dup2_stdout(&writer);
        let _ = rustix::stdio::dup2_stderr(&writer);
        drop(writer);
        buffer_lines();
        work(lines);
    })?;
    child.printed = Some(Printed { pipe, partial: Vec::new() });
    Ok(child)
}

/// Exit status of a child that panicked because of a bug in floatgate.
const PANICKED: i32 = 213;

/// Exit status of a child whose pipe was closed by the parent.
pub(crate) const NO_PIPE: i32 = 214;

/// Maximum memory of a program, bytes, in addition to the memory of the process at load time.
const PROGRAM_MEMORY_MAX: u64 = 2 << 30;

/// Ends this process immediately, without exit handlers.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: the function does not return.
    unsafe { libc::_exit(status) }
}

/// Configures a child process: it dies with its parent, its faults end it without a core dump, and it gets its own process group for
/// the programs that it starts.
fn be_a_child() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the only pointer is `none`, which stays valid.
    unsafe {
        libc::setpgid(0, 0);
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        // SIGPIPE stays ignored: the writer reports when a filesystem closes its pipe.
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGINT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Limits the memory of a program, so that its allocations fail before the machine runs out of memory.
pub(crate) fn limit_memory() {
    // Only Linux reports the size of the address space.
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let Some(pages) = statm.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()) else { return };
    // SAFETY: the call uses no pointers.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let used = pages.saturating_mul(u64::try_from(page_bytes).unwrap_or(4096));
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::As);
    let most = used.saturating_add(PROGRAM_MEMORY_MAX);
    limit.current = Some(limit.current.map_or(most, |current| current.min(most)));
    let _ = rustix::process::setrlimit(rustix::process::Resource::As, limit);
}

unsafe extern "C" {
    #[cfg_attr(target_vendor = "apple", link_name = "__stdoutp")]
    static stdout: *mut libc::FILE;
}

/// Makes C's stdout write each line at once, although it is a pipe: a crash loses no line.
fn buffer_lines() {
    // SAFETY: nothing was written to the stream.
    unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 0) };
}

/// Writes what C's streams have buffered.
pub(crate) fn flush() {
    // SAFETY: NULL stands for all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Discards the output of the process.
pub(crate) fn be_quiet() {
    let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}

impl Lines {
    /// Lines that arrived since the last call, after a wait of at most `limit`; `None` at the end of the pipe.
    fn next(&mut self, limit: Duration) -> io::Result<Option<Vec<Vec<u8>>>> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        let mut wait = [PollFd::new(&self.pipe, PollFlags::IN)];
        if poll(&mut wait, Some(&limit))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.read()
    }

    /// Lines that one read of the pipe yields.
    fn read(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        let mut bytes = [0; 4096];
        let count = self.pipe.read(&mut bytes)?;
        let Some(new) = bytes.get(..count).filter(|new| !new.is_empty()) else { return Ok(None) };
        self.partial.extend_from_slice(new);
        let mut lines: Vec<Vec<u8>> = self.partial.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        self.partial = lines.pop().unwrap_or_default();
        Ok(Some(lines))
    }
}

impl Printed {
    /// Bytes after which a line without an end is passed on, so that its length has a limit.
    const LINE_MAX: usize = 4096;

    /// Passes on the lines that one read of the pipe yields. False at the end of the pipe.
    fn read(&mut self, on_printed: &mut impl FnMut(&[u8])) -> io::Result<bool> {
        let mut bytes = [0; 1 << 16];
        let count = self.pipe.read(&mut bytes)?;
        self.partial.extend_from_slice(&bytes[..count]);
        let mut rest = self.partial.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            line.chunks(Self::LINE_MAX).for_each(&mut *on_printed);
            if line.is_empty() {
                on_printed(line);
            }
            rest = &after[1..];
        }
        if rest.len() >= Self::LINE_MAX || (count == 0 && !rest.is_empty()) {
            rest.chunks(Self::LINE_MAX).for_each(&mut *on_printed);
            rest = &[];
        }
        self.partial = rest.to_vec();
        Ok(count > 0)
    }

    /// Passes on what an ended child left in its pipe.
    fn drain(&mut self, on_printed: &mut impl FnMut(&[u8])) {
        let has_some = |pipe: &PipeReader| {
            let mut wait = [PollFd::new(pipe, PollFlags::IN)];
            poll(&mut wait, Some(&Timespec::default())).is_ok_and(|count| count > 0)
        };
        // A process that left the group may go on printing.
        (0..16).take_while(|_| has_some(&self.pipe) && self.read(on_printed).unwrap_or(false)).for_each(drop);
        if !self.partial.is_empty() {
            on_printed(&std::mem::take(&mut self.partial));
        }
    }
}

impl Child {
    /// Calls `on_line` for each line of the child, and `on_printed` for each line that it prints, until its end. Kills the child after
    /// the limit, however much it prints.
    pub(crate) fn watch_heard(
        mut self,
        limit: Duration,
        mut on_line: impl FnMut(&[u8]),
        mut on_printed: impl FnMut(&[u8]),
    ) -> io::Result<End> {
        #[expect(clippy::disallowed_methods, reason = "the time limit of a process is real time")]
        let now = std::time::Instant::now;
        let (begin, mut pause) = (now(), Duration::from_micros(50));
        let mut printed = self.printed.take();
        let mut is_open = true;
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                drop(self);
                printed.iter_mut().for_each(|printed| printed.drain(&mut on_printed));
                return Ok(End::TimedOut);
            }
            let ready =
                wait_for(is_open.then_some(&self.lines.pipe), printed.as_ref(), left.min(LOOK_EVERY))?;
            if ready.0 {
                match self.lines.read()? {
                    Some(lines) => lines.iter().for_each(|line| on_line(line)),
                    None => is_open = false,
                }
            }
            if ready.1
                && let Some(pipe) = &mut printed
                && !pipe.read(&mut on_printed)?
            {
                printed = None;
            }
            if ready.0 || ready.1 {
                continue;
            }
            if self.has_ended()? {
                if is_open {
                    self.drain(&mut on_line);
                }
                printed.iter_mut().for_each(|printed| printed.drain(&mut on_printed));
                return self.wait();
            }
            if !is_open && printed.is_none() {
                // In nearly all cases a child that closed its pipes ends within microseconds.
                std::thread::sleep(pause);
                pause = LOOK_EVERY.min(pause * 2);
            }
        }
    }

    /// Calls `on_line` for each line of the child until its end. Kills the child if no line arrives within the limit.
    pub(crate) fn watch(mut self, limit: Duration, mut on_line: impl FnMut(&[u8])) -> io::Result<End> {
        let (mut silent, mut pause) = (Duration::ZERO, Duration::from_micros(50));
        while silent < limit {
            match self.lines.next(LOOK_EVERY) {
                Ok(Some(lines)) => {
                    lines.iter().for_each(|line| on_line(line));
                    silent = Duration::ZERO;
                    continue;
                }
                // The pipe was closed. In nearly all cases the child ends within microseconds.
                Ok(None) => {
                    std::thread::sleep(pause);
                    silent += pause;
                    pause = LOOK_EVERY.min(pause * 2);
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => silent += LOOK_EVERY,
                Err(error) => return Err(error),
            }
            if self.has_ended()? {
                self.drain(&mut on_line);
                return self.wait();
            }
        }
        Ok(End::TimedOut)
    }

    /// Calls `on_line` for each line that an ended child left in its pipe.
    fn drain(&mut self, on_line: &mut impl FnMut(&[u8])) {
        while let Ok(Some(lines)) = self.lines.next(Duration::ZERO) {
            lines.iter().for_each(|line| on_line(line));
        }
    }

    /// True if the process has ended. It remains a zombie, so that its group id is not reused.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid), options)?.is_some())
    }

    /// Status of a child that has ended. The processes that it started are killed.
    fn wait(mut self) -> io::Result<End> {
        self.ended = true;
        let _ = kill_process_group(self.pid, Signal::KILL);
        let status = waitpid(Some(self.pid), WaitOptions::empty())?.map(|(_, status)| status);
        let signal = status.and_then(|status| status.terminating_signal());
        let code = status.and_then(|status| status.exit_status()).unwrap_or(0);
        Ok(signal.map_or(End::Exited(code), End::Signal))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            // The process group exists only after the child has created it.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

/// Calls `on_line` for each line of the children until all have ended, or none has written for the time limit.
pub(crate) fn watch_all(
    mut children: Vec<Child>,
    limit: Duration,
    mut on_line: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut silent = Duration::ZERO;
    while !children.is_empty() && silent < limit {
        let ready = wait_for_any(&children)?;
        silent = if ready.contains(&true) { Duration::ZERO } else { silent + LOOK_EVERY };
        for at in (0..ready.len()).rev() {
            let Some(child) = children.get_mut(at) else { continue };
            if ready.get(at) == Some(&true) {
                match child.lines.read()? {
                    Some(lines) => lines.iter().for_each(|line| on_line(line)),
                    None => drop(children.remove(at)),
                }
            } else if child.has_ended()? {
                // Its last lines may have arrived after the wait.
                child.drain(&mut on_line);
                drop(children.remove(at));
            }
        }
    }
    Ok(())
}

/// Waits until one of two pipes has bytes or was closed, and returns which.
fn wait_for(
    lines: Option<&PipeReader>,
    printed: Option<&Printed>,
    limit: Duration,
) -> io::Result<(bool, bool)> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let pipes = [lines, printed.map(|printed| &printed.pipe)];
    let mut waits: Vec<PollFd<'_>> =
        pipes.iter().flatten().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)).collect();
    if waits.is_empty() {
        return Ok((false, false));
    }
    poll(&mut waits, Some(&limit))?;
    let mut ready = waits.iter().map(|wait| !wait.revents().is_empty());
    let mut next = |is_open: bool| is_open && ready.next().unwrap_or(false);
    Ok((next(lines.is_some()), next(printed.is_some())))
}

/// Waits until a child has a line or closed its pipe. The flags are false if none has within [`LOOK_EVERY`].
fn wait_for_any(children: &[Child]) -> io::Result<Vec<bool>> {
    let limit = Timespec::try_from(LOOK_EVERY).map_err(io::Error::other)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const LIMIT: Duration = Duration::from_millis(200);

    /// A process that holds the pipe of its parent open for longer than any test waits.
    fn daemon() {
        // SAFETY: neither process uses memory of the other one.
        unsafe {
            if libc::fork() == 0 {
                libc::setsid();
                libc::sleep(3);
                libc::_exit(0);
            }
        }
    }

    #[test]
    fn a_process_that_a_child_started_is_not_waited_for() {
        let child = fork(|mut pipe| {
            daemon();
            pipe.write_all(b"a line\n").unwrap();
            exit(7)
        });
        let mut lines = Vec::new();
        let end = child.unwrap().watch(LIMIT, |line| lines.push(line.to_vec())).unwrap();
        assert_eq!((end, lines), (End::Exited(7), vec![b"a line".to_vec()]));
    }

    #[test]
    fn a_child_that_closed_its_pipe_has_a_time_limit() {
        let child = fork(|pipe| {
            drop(pipe);
            // SAFETY: the call uses no pointers.
            unsafe { libc::sleep(3) };
        });
        assert_eq!(child.unwrap().watch(LIMIT, |_| {}).unwrap(), End::TimedOut);
    }

    #[test]
    fn no_line_of_children_that_end_together_is_lost() {
        for _ in 0..200 {
            let child = |_| fork(|mut pipe| pipe.write_all(b"a line\n").unwrap());
            let children = (0..4).map(child).collect::<io::Result<Vec<Child>>>().unwrap();
            let mut lines = 0;
            watch_all(children, LIMIT * 10, |_| lines += 1).unwrap();
            assert_eq!(lines, 4);
        }
    }

    #[test]
    fn what_a_child_prints_is_read_until_its_end() {
        let print = |text: &str| rustix::io::write(rustix::stdio::stdout(), text.as_bytes());
        let mut printed = Vec::new();
        let child = fork_heard(|_| {
            print("one\n\ntwo").unwrap();
            // SAFETY: the call does not return.
            unsafe { libc::abort() }
        });
        let end = child.unwrap().watch_heard(LIMIT * 10, |_| {}, |line| printed.push(line.to_vec()));
        assert_eq!(end.unwrap(), End::Signal(libc::SIGABRT));
        assert_eq!(printed, [b"one".to_vec(), b"".to_vec(), b"two".to_vec()]);
        // Output does not extend the time limit.
        let (child, mut lines) = (fork_heard(|_| while print("again\n").is_ok() {}), 0);
        let end = child.unwrap().watch_heard(LIMIT, |_| {}, |_| lines += 1);
        assert!(end.unwrap() == End::TimedOut && lines > 1, "{lines}");
    }

    #[test]
    fn memory_has_a_limit() {
        let child = fork(|_| {
            limit_memory();
            let most = usize::try_from(PROGRAM_MEMORY_MAX).unwrap();
            exit(i32::from(Vec::<u8>::new().try_reserve(most).is_err()))
        });
        assert_eq!(child.unwrap().watch(LIMIT, |_| {}).unwrap(), End::Exited(1));
    }
}

//! Virtual machines of `floatgate run`: User Mode Linux with the card as a vhost-user drive, and QEMU with the card
//! as a file in FUSE.

use super::clock::clock;
use crate::common::Failure;
use crate::terminal::print_note;
use floatgate_host::mount::{FolderError, Unmounter};
use floatgate_host::serve::{Clock, MountedDevice, VhostDevice};
use floatgate_host::signals::Endings;
use floatgate_lab::card::run::{CardRun, FILESYSTEMS, UML_INIT, WORKLOADS, Workbench};
use floatgate_mtd::Instant;
use floatgate_mtd::advice::Help;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, io};

/// Script of the tests that creates and boots the guest of QEMU.
const JUDGE: &str = include_str!("../../guest/judge");
const INIT: &str = include_str!("../../guest/init");

/// Kernel modules of QEMU's guest, in addition to the modules of the script `judge`. Some kernels do not have all of
/// them as modules.
const MODULES: &str = "ext4 crc32c_generic f2fs nilfs2 nls_cp437 nls_iso8859-1 nls_ascii nls_utf8 vfat exfat btrfs xfs reiserfs";

/// Folder with the modules of Debian's package user-mode-linux, one subfolder per version.
const UML_MODULES: &str = "/usr/lib/uml/modules";

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum VmKind {
    /// User Mode Linux: all filesystems but exfat
    Uml,
    /// QEMU with Debian's kernel: all filesystems
    Qemu,
}

impl VmKind {
    /// True if the kernel of this virtual machine supports the filesystem.
    pub(super) fn has(self, filesystem: &str) -> bool {
        self == Self::Qemu || filesystem != "exfat"
    }

    /// True if the virtual machine is installed, and the processor can run it. User Mode Linux of Debian 12 saves
    /// 2696 bytes of a process's registers. A processor with AMX has more, and the first process of the guest then
    /// dies.
    pub(super) fn can_run(self) -> bool {
        let has_amx = || fs::read_to_string("/proc/cpuinfo").is_ok_and(|cpu| cpu.contains(" amx_tile"));
        match self {
            Self::Uml => is_installed("linux") && !has_amx(),
            Self::Qemu => is_installed("qemu-system-x86_64"),
        }
    }

    /// Required programs with their packages, as `program:package`.
    pub(super) const fn needs(self) -> &'static str {
        match self {
            Self::Uml => "linux:user-mode-linux modprobe:kmod",
            Self::Qemu => {
                "qemu-system-x86_64:qemu-system-x86 busybox:busybox-static nanddump:mtd-utils depmod:kmod cpio:cpio"
            }
        }
    }
}

/// A guest with its folder, in which its script is `script`, and with the folder of its input.
pub(super) struct Guest<'a> {
    pub(super) folder: &'a Path,
    pub(super) input: &'a Path,
    /// Time limit of the guest, s.
    pub(super) patience_s: u32,
    /// True if requests take the card's time by the guest's clock; false if the guest never waits for the card.
    pub(super) is_real_time: bool,
    /// Flag that is set when a signal has ended the guest.
    pub(super) is_interrupted: Arc<AtomicBool>,
}

/// Exit statuses of a guest that exceeded its time limit: the status of the script `judge` after it ended QEMU, and a
/// shell's status for a killed process.
const OUT_OF_PATIENCE: [i32; 2] = [124, 128 + 9];

/// Interval at which the end of a guest is checked.
const PAUSE: Duration = Duration::from_millis(20);

impl Guest<'_> {
    /// Serves the card to the guest until the guest ends. Returns the runs so far, of which the last may be
    /// unfinished. The flag is false if the guest failed, or was ended from outside.
    pub(super) fn boot(
        &self,
        vm: VmKind,
        endings: Endings,
        bench: Workbench,
    ) -> Result<(Vec<CardRun>, bool), Failure> {
        let (bench, status) = match vm {
            VmKind::Uml => self.boot_uml(endings, bench)?,
            VmKind::Qemu => self.boot_qemu(endings, bench)?,
        };
        let phase = bench.phase();
        let runs = bench.into_runs();
        let code = status.ok().and_then(|status| status.code().or_else(|| Some(128 + status.signal()?)));
        if code == Some(0) && (vm == VmKind::Qemu || self.has_ended()) {
            return Ok((runs, true));
        }
        let (problem, help) = match code {
            _ if self.is_interrupted.load(Ordering::Relaxed) => {
                (format!("interrupted during {phase}"), "let the guest end by itself")
            }
            Some(code) if OUT_OF_PATIENCE.contains(&code) => (
                format!("patience ran out after {} s, during {phase}", self.patience_s),
                "raise `--patience`",
            ),
            _ => {
                let output = self.console_output();
                let last = last_lines(&output);
                (format!("the guest ended with a failure during {phase}{last}"), help_after(&output, &last))
            }
        };
        if runs.is_empty() {
            return Err(Failure::new(problem, help));
        }
        print_note(&format!("{problem}\n{help}; the runs so far follow"));
        Ok((runs, false))
    }

    /// Output of the guest on its console.
    fn console_output(&self) -> String {
        let output = fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&output).replace('\r', "")
    }

    /// Clock with which the card is served.
    fn clock(&self) -> Box<dyn Clock> {
        clock(Instant::ZERO, if self.is_real_time { 1.0 } else { 0.0 })
    }

    fn log(&self) -> PathBuf {
        self.folder.join("guest.log")
    }

    /// True if the script of User Mode Linux ended without a failure.
    fn has_ended(&self) -> bool {
        fs::read_to_string(self.folder.join("out/status")).is_ok_and(|status| status.trim() == "0")
    }

    /// Starts a program in its own process group, so that a signal ends all its processes.
    fn start(&self, mut program: Command, endings: Endings) -> Result<Child, Failure> {
        let log = self.log();
        let said = fs::File::create(&log).map_err(|error| host(&log, &error))?;
        program.env("TMPDIR", self.folder).env("PATH", path()).stdin(Stdio::null()).process_group(0);
        program.stderr(said.try_clone().map_err(|error| host(&log, &error))?).stdout(said);
        let name = PathBuf::from(program.get_program());
        let child = program.spawn().map_err(|error| host(&name, &error))?;
        let group = group_of(&child);
        let is_interrupted = Arc::clone(&self.is_interrupted);
        endings.with_each(move || {
            is_interrupted.store(true, Ordering::Relaxed);
            // The processes inherit the blocked signals, so that only this signal ends them. Their files are in our
            // own folder.
            let _ = killpg(group, Signal::SIGKILL);
        });
        Ok(child)
    }

    fn failed(error: &FolderError) -> Failure {
        Failure::new(error, error.help())
    }

    fn boot_uml(
        &self,
        endings: Endings,
        bench: Workbench,
    ) -> Result<(Workbench, io::Result<ExitStatus>), Failure> {
        let socket = self.folder.join("card.sock");
        let (device, stopper) = VhostDevice::new(bench, self.clock(), "floatgate", &socket)
            .map_err(|error| Self::failed(&error))?;
        let init = self.folder.join("init");
        put_program(&init, UML_INIT)?;
        let modules = self.folder.join("modules/lib");
        fs::create_dir_all(&modules).map_err(|error| host(&modules, &error))?;
        let modules = modules.join("modules");
        symlink(UML_MODULES, &modules).map_err(|error| host(&modules, &error))?;
        let mut linux = Command::new("linux");
        linux.args("mem=512M root=/dev/root rootfstype=hostfs rootflags=/ ro quiet panic=-1".split(' '));
        linux.args("con=null con0=null,fd:1 ssl=null".split(' '));
        // Paths are relative to the folder, because the kernel's command line ends a word at a space, and the
        // socket's name at a colon. Without `uml_dir` the kernel needs a writable HOME, and leaves a folder there.
        linux.current_dir(self.folder).args(["virtio_uml.device=card.sock:2", "uml_dir=uml"]);
        linux.arg(format!("init=\"{}\"", init.display()));
        let child = self.start(linux, endings)?;
        let patience = Duration::from_secs(self.patience_s.into());
        let ended = std::thread::spawn(move || {
            let status = reap(child, patience);
            // A guest that did not start leaves nothing to serve.
            drop(stopper);
            status
        });
        let (bench, _) = device.serve().map_err(|error| Self::failed(&error))?;
        Ok((bench, joined(ended)))
    }

    fn boot_qemu(
        &self,
        endings: Endings,
        bench: Workbench,
    ) -> Result<(Workbench, io::Result<ExitStatus>), Failure> {
        let mut mounted = MountedDevice::new(bench, self.clock(), "card", &self.folder.join("card"))
            .map_err(|error| Self::failed(&error))?;
        let unmounter = mounted.unmounter();
        let child = self.start(self.judge()?, endings)?;
        let ended = std::thread::spawn(move || {
            // The script `judge` enforces the time limit.
            let status = reap(child, Duration::MAX);
            unmount(unmounter);
            status
        });
        let (bench, _) = mounted.serve().map_err(|error| Self::failed(&error))?;
        Ok((bench, joined(ended)))
    }

    /// Command that runs the script `judge`, which boots QEMU.
    fn judge(&self) -> Result<Command, Failure> {
        let guest = judge_folder()?;
        let known = FILESYSTEMS.iter().chain(&WORKLOADS).flat_map(|known| needs(known.1));
        let programs: Vec<String> = known
            .filter(|(program, _)| is_installed(program))
            .map(|(program, package)| format!("{program}:{package}"))
            .collect();
        let mut judge = Command::new(guest.join("judge"));
        judge
            .args([&self.folder.join("script"), self.input, &self.folder.join("out")])
            .env("JUDGE_CACHE", guest.join("kernel"))
            .env("JUDGE_PROGRAMS", programs.join(" "))
            .env("JUDGE_MODULES", MODULES)
            .env("JUDGE_CARD", self.folder.join("card/card"))
            .env("JUDGE_SECONDS", self.patience_s.to_string());
        Ok(judge)
    }
}

/// Number of lines of a guest's output that a failure shows.
const SHOWN_LINES: usize = 12;

/// Last lines of a guest's output, each after a line feed, without the addresses of a kernel panic.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains("[<") && !line.is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().map(|line| format!("\n{line}")).collect()
}

/// Advice after a failure of a guest, from its complete output and the lines that are shown.
fn help_after(said: &str, shown: &str) -> &'static str {
    if said.contains("set fp regs failed") {
        "this User Mode Linux does not support all registers of this processor (AMX): use `--vm qemu`"
    } else if shown.is_empty() {
        "the guest has printed nothing: set TMPDIR to a folder with 512 MiB of free space for its memory"
    } else {
        "the lines above say what is missing"
    }
}

/// Process group of a program that was started in its own group.
fn group_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Waits for the end of a program, and kills it after its time limit. Then ends the remaining processes of its group:
/// after a kill, User Mode Linux leaves the processes of its guest.
fn reap(mut child: Child, patience: Duration) -> io::Result<ExitStatus> {
    let group = group_of(&child);
    // Until the process is waited for, no other group can get its number.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    let mut left = patience;
    while waitid(Id::Pid(group), flags) == Ok(WaitStatus::StillAlive) && !left.is_zero() {
        std::thread::sleep(PAUSE);
        left = left.saturating_sub(PAUSE);
    }
    let _ = killpg(group, Signal::SIGKILL);
    child.wait()
}

fn joined(thread: std::thread::JoinHandle<io::Result<ExitStatus>>) -> io::Result<ExitStatus> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the guest cannot be waited for")))
}

/// Writes a program, unless the file already has this content.
fn put_program(path: &Path, content: &str) -> Result<(), Failure> {
    // QEMU's guest is created again if the file `judge` is newer than the guest.
    if fs::read(path).ok().as_deref() != Some(content.as_bytes()) {
        fs::write(path, content).map_err(|error| host(path, &error))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(|error| host(path, &error))
}

/// Folder of QEMU's guest, which contains the script `judge`.
fn judge_folder() -> Result<PathBuf, Failure> {
    let home = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let folder = home.unwrap_or_else(env::temp_dir).join("floatgate/guest");
    fs::create_dir_all(&folder).map_err(|error| host(&folder, &error))?;
    for (name, content) in [("judge", JUDGE), ("init", INIT)] {
        put_program(&folder.join(name), content)?;
    }
    Ok(folder)
}

/// Unmounts, with retries, because the last user may still close its files.
fn unmount(mut unmounter: Unmounter) {
    for _ in 0..100 {
        if matches!(unmounter.unmount(), Ok(true)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Search path with /usr/sbin and /sbin, which are not in the path of Debian's users.
pub(super) fn path() -> String {
    format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default())
}

pub(super) fn is_installed(program: &str) -> bool {
    path().split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// Programs and their packages, from entries `program:package`.
pub(super) fn needs(needs: &str) -> impl Iterator<Item = (&str, &str)> {
    needs.split_whitespace().filter_map(|need| need.split_once(':'))
}

pub(super) fn host(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "name a place that can be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_failed_is_shown_without_addresses_and_a_silent_one_with_advice_of_its_own() {
        let said = "VFS: no init\n [<606931e5>] panic+0x197/0x376\n\nKernel panic\n";
        let last = last_lines(said);
        assert_eq!(last, "\nVFS: no init\nKernel panic");
        assert_eq!(help_after(said, &last), "the lines above say what is missing");
        assert!(help_after("", &last_lines("")).contains("TMPDIR"));
    }

    /// Starts a shell in its own process group, which starts `sleep` and continues. Returns the shell's exit status,
    /// and whether processes of the group remain.
    fn left_of(script: &str, patience: Duration) -> (ExitStatus, bool) {
        let folder = tempfile::tempdir().unwrap();
        let number = folder.path().join("number");
        let script = format!("sleep 600 & echo $! >\"$0\"; {script}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(&number).process_group(0);
        let status = reap(shell.stdin(Stdio::null()).spawn().unwrap(), patience).unwrap();
        let left = fs::read_to_string(&number).unwrap();
        // A killed process takes a moment to end, and is a zombie until init has waited for it.
        let is_gone = || {
            let state = fs::read_to_string(format!("/proc/{}/stat", left.trim())).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let wait = || std::thread::sleep(Duration::from_millis(10));
        let is_left = !(0..500).any(|_| {
            is_gone() || {
                wait();
                false
            }
        });
        (status, is_left)
    }

    #[test]
    fn nothing_of_a_process_group_outlives_its_first_process() {
        let (status, is_left) = left_of("exit 3", Duration::MAX);
        assert_eq!((status.code(), is_left), (Some(3), false));
    }

    #[test]
    fn nothing_of_a_process_group_outlives_the_patience() {
        let (status, is_left) = left_of("wait", Duration::from_secs(2));
        assert_eq!((status.signal(), is_left), (Some(9), false));
    }
}

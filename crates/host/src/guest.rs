//! Guests that work on a simulated block device: User Mode Linux with the device as a vhost-user drive, and QEMU with
//! the device as a file in FUSE.
//!
//! The scripts in `guest/` make and boot the guest of QEMU, also for the tests against Linux's kernel.

use crate::mount::{FolderError, Unmounter};
use crate::serve::{Clock, MountedDevice, VhostDevice};
use crate::signals::Endings;
use floatgate_mtd::BlockDevice;
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

/// Script that makes and boots the guest of QEMU, and the first process of that guest.
const JUDGE: &str = include_str!("../guest/judge");
const INIT: &str = include_str!("../guest/init");

/// Kernel modules of QEMU's guest, in addition to the modules of the script `judge`. Some kernels do not have all of
/// them as modules.
const MODULES: &str = "ext4 crc32c_generic f2fs nilfs2 nls_cp437 nls_iso8859-1 nls_ascii nls_utf8 vfat exfat btrfs xfs reiserfs";

/// Folder with the modules of Debian's package user-mode-linux, one subfolder per version.
const UML_MODULES: &str = "/usr/lib/uml/modules";

/// A virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// User Mode Linux, which supports all filesystems but exfat.
    Uml,
    /// QEMU with Debian's kernel, which supports all filesystems.
    Qemu,
}

impl Machine {
    /// True if the kernel of this virtual machine supports the filesystem.
    pub fn has(self, filesystem: &str) -> bool {
        self == Self::Qemu || filesystem != "exfat"
    }

    /// True if the virtual machine is installed, and the processor can run it. User Mode Linux of Debian 12 saves
    /// 2696 bytes of a process's registers. A processor with AMX has more, and the first process of the guest then
    /// dies.
    pub fn can_run(self) -> bool {
        let has_amx = || fs::read_to_string("/proc/cpuinfo").is_ok_and(|cpu| cpu.contains(" amx_tile"));
        match self {
            Self::Uml => is_installed("linux") && !has_amx(),
            Self::Qemu => is_installed("qemu-system-x86_64"),
        }
    }

    /// Required programs with their packages, as `program:package`.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::Uml => "linux:user-mode-linux modprobe:kmod",
            Self::Qemu => {
                "qemu-system-x86_64:qemu-system-x86 busybox:busybox-static nanddump:mtd-utils depmod:kmod cpio:cpio"
            }
        }
    }
}

/// A guest with its folder, in which its script is `script`, and with the folder of its input.
#[derive(Clone, Debug)]
pub struct Guest<'a> {
    /// Folder of the guest, in which it leaves its results in `out`.
    pub folder: &'a Path,
    /// Folder that the guest reads.
    pub input: &'a Path,
    /// First process of User Mode Linux, a script.
    pub init: &'a str,
    /// Programs that the guest of QEMU gets if they are installed, each with its package.
    pub programs: Vec<(&'a str, &'a str)>,
    /// Time limit of the guest, s.
    pub patience_s: u32,
    /// Flag that is set when a signal has ended the guest.
    pub is_interrupted: Arc<AtomicBool>,
}

/// End of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestEnd {
    /// The script of the guest has ended without a failure.
    Done,
    /// A signal has ended the guest.
    Interrupted,
    /// The guest has exceeded its time limit.
    OutOfPatience,
    /// The guest has failed; its console has more.
    Failed,
}

/// Reason why a guest cannot be started or served.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A file of the guest, or a program.
    #[error("{}: {error}", .path.display())]
    File {
        /// Path of the file or program.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The device cannot be served.
    #[error(transparent)]
    Serve(#[from] FolderError),
}

/// Exit statuses of a guest that exceeded its time limit: the status of the script `judge` after it ended QEMU, and a
/// shell's status for a killed process.
const OUT_OF_PATIENCE: [i32; 2] = [124, 128 + 9];

/// Interval at which the end of a guest is checked.
const PAUSE: Duration = Duration::from_millis(20);

impl Guest<'_> {
    /// Serves a device to the guest until the guest ends, and returns it.
    ///
    /// # Errors
    /// The guest cannot be started, or the device cannot be served.
    pub fn boot<D: BlockDevice + Send + 'static>(
        &self,
        machine: Machine,
        endings: Endings,
        device: D,
        clock: Box<dyn Clock>,
    ) -> Result<(D, GuestEnd), GuestError> {
        let (device, status) = match machine {
            Machine::Uml => self.boot_uml(endings, device, clock)?,
            Machine::Qemu => self.boot_qemu(endings, device, clock)?,
        };
        let code = status.ok().and_then(|status| status.code().or_else(|| Some(128 + status.signal()?)));
        let end = match code {
            Some(0) if machine == Machine::Qemu || self.has_ended() => GuestEnd::Done,
            _ if self.is_interrupted.load(Ordering::Relaxed) => GuestEnd::Interrupted,
            Some(code) if OUT_OF_PATIENCE.contains(&code) => GuestEnd::OutOfPatience,
            _ => GuestEnd::Failed,
        };
        Ok((device, end))
    }

    /// Output of the guest on its console.
    pub fn console_output(&self) -> String {
        let output = fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&output).replace('\r', "")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("guest.log")
    }

    /// True if the script of User Mode Linux ended without a failure.
    fn has_ended(&self) -> bool {
        fs::read_to_string(self.folder.join("out/status")).is_ok_and(|status| status.trim() == "0")
    }

    /// Starts a program in its own process group, so that a signal ends all its processes.
    fn start(&self, mut program: Command, endings: Endings) -> Result<Child, GuestError> {
        let log = self.log();
        let said = fs::File::create(&log).map_err(|error| file(&log, error))?;
        program.env("TMPDIR", self.folder).env("PATH", path()).stdin(Stdio::null()).process_group(0);
        program.stderr(said.try_clone().map_err(|error| file(&log, error))?).stdout(said);
        let name = PathBuf::from(program.get_program());
        let child = program.spawn().map_err(|error| file(&name, error))?;
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

    fn boot_uml<D: BlockDevice + Send + 'static>(
        &self,
        endings: Endings,
        device: D,
        clock: Box<dyn Clock>,
    ) -> Result<(D, io::Result<ExitStatus>), GuestError> {
        let socket = self.folder.join("card.sock");
        let (served, stopper) = VhostDevice::new(device, clock, "floatgate", &socket)?;
        let init = self.folder.join("init");
        put_program(&init, self.init)?;
        let modules = self.folder.join("modules/lib");
        fs::create_dir_all(&modules).map_err(|error| file(&modules, error))?;
        let modules = modules.join("modules");
        symlink(UML_MODULES, &modules).map_err(|error| file(&modules, error))?;
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
        let (device, _) = served.serve()?;
        Ok((device, joined(ended)))
    }

    fn boot_qemu<D: BlockDevice + Send + 'static>(
        &self,
        endings: Endings,
        device: D,
        clock: Box<dyn Clock>,
    ) -> Result<(D, io::Result<ExitStatus>), GuestError> {
        let mut mounted = MountedDevice::new(device, clock, "card", &self.folder.join("card"))?;
        let unmounter = mounted.unmounter();
        let child = self.start(self.judge()?, endings)?;
        let ended = std::thread::spawn(move || {
            // The script `judge` enforces the time limit.
            let status = reap(child, Duration::MAX);
            unmount(unmounter);
            status
        });
        let (device, _) = mounted.serve()?;
        Ok((device, joined(ended)))
    }

    /// Command that runs the script `judge`, which boots QEMU.
    fn judge(&self) -> Result<Command, GuestError> {
        let guest = judge_folder()?;
        let programs: Vec<String> = self
            .programs
            .iter()
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
fn put_program(path: &Path, content: &str) -> Result<(), GuestError> {
    // QEMU's guest is created again if the file `judge` is newer than the guest.
    if fs::read(path).ok().as_deref() != Some(content.as_bytes()) {
        fs::write(path, content).map_err(|error| file(path, error))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(|error| file(path, error))
}

/// Folder of QEMU's guest, which contains the script `judge`.
fn judge_folder() -> Result<PathBuf, GuestError> {
    let home = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let folder = home.unwrap_or_else(env::temp_dir).join("floatgate/guest");
    fs::create_dir_all(&folder).map_err(|error| file(&folder, error))?;
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
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default())
}

/// True if a program is in the search path, which includes /usr/sbin and /sbin.
pub fn is_installed(program: &str) -> bool {
    path().split(':').any(|folder| Path::new(folder).join(program).is_file())
}

fn file(path: &Path, error: io::Error) -> GuestError {
    GuestError::File { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

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

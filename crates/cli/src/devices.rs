//! Refusals and confirmations of commands that access devices of this machine.

use crate::common::Failure;
use floatgate_host::signals::Ending;
use floatgate_mtd::size::text as size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::path::Path;

/// Refusal of a device that other programs use.
pub(crate) fn in_use(path: &Path, users: &[String], done: &str) -> Failure {
    Failure::new(
        format!("{} is in use: {}", path.display(), users.join("; ")),
        format!("end that first (umount, swapoff, losetup -d, ubidetach); {done}"),
    )
}

/// Refuses a path below /dev that does not exist, before it is looked up as a name of the catalogue.
pub(crate) fn require_node(path: &Path) -> Result<(), Failure> {
    if !path.starts_with("/dev") || path.exists() {
        return Ok(());
    }
    let help = match path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("mtd")) {
        true => {
            "`ls /dev/mtd*` and /proc/mtd list raw flash; without any, the kernel has found none, or its driver is not loaded"
        }
        false => "`lsblk` lists block devices, /proc/mtd raw flash",
    };
    Err(Failure::new(format!("{}: there is no such device", path.display()), help))
}

/// True if the user at the terminal answers yes; a signal counts as no.
pub(crate) fn is_agreed(ending: &Ending) -> bool {
    let stdin = io::stdin();
    while !ending.is_asked() {
        let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if matches!(poll(&mut waiting, Some(&timeout)), Ok(1..)) {
            let mut answer = String::new();
            let read = stdin.read_line(&mut answer);
            return read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
        }
    }
    false
}

/// Text of a size; from 10 MiB on in whole MiB.
pub(crate) fn rounded(bytes: u64) -> String {
    if bytes < 10 << 20 { size(bytes) } else { format!("{} MiB", bytes.div_ceil(1 << 20)) }
}

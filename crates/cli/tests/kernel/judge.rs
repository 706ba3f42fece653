//! Running a script in the guest.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds that a guest may take: one that emulates a processor on a busy machine.
const PATIENCE: &str = "5400";

/// An empty folder for `name`, left in place to be looked at.
pub(crate) fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// `tests/kernel`.
pub(crate) fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernel")
}

/// Runs `tests/kernel/<script>` in the guest with the folder `input`; what it leaves behind is in the folder that comes
/// back, `<name>-out`.
///
/// # Errors
/// The script failed or there was no guest: all that was said. A value, so that the tests that share a run share its
/// failure, too.
pub(crate) fn judge(script: &str, name: &str, input: &Path) -> Result<PathBuf, String> {
    let output = fresh(&format!("{name}-out"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut command =
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("host").join("guest/judge"));
    command.env("CARGO_TARGET_DIR", target).env("JUDGE_SECONDS", PATIENCE);
    let run = command.arg(home().join(script)).arg(input).arg(&output).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    if run.status.success() { Ok(output) } else { Err(format!("{script}: {}\n{out}{err}", run.status)) }
}

//! bchlib, the Linux kernel's BCH code as a library, as the one to beat: fetched from PyPI and compiled here, never part of
//! this project (it is GPL).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const VERSION: &str = "2.1.3";

/// Optimised as for a release, for the machine's baseline as a distribution's kernel is.
const FLAGS: [&str; 2] = ["-O3", "-std=gnu11"];

/// The compiled program.
pub(crate) struct Bchlib {
    program: PathBuf,
}

impl Bchlib {
    /// Fetches the source by pip, and compiles it with `main.c`; or why that did not work.
    pub(crate) fn build() -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bchlib");
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let name = format!("bchlib-{VERSION}");
        let source = folder.join(&name).join("src");
        if !source.join("bch.c").exists() {
            let pip = ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", "."];
            run(Command::new("python3").args(pip).arg(format!("bchlib=={VERSION}")).current_dir(&folder))?;
            run(Command::new("tar").arg("-xf").arg(format!("{name}.tar.gz")).current_dir(&folder))?;
        }
        let program = folder.join("main");
        let main = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/bchlib/main.c");
        let mut cc = Command::new("cc");
        cc.args(FLAGS).arg("-I").arg(&source).arg(source.join("bch.c")).arg(main).arg("-o").arg(&program);
        run(&mut cc)?;
        Ok(Self { program })
    }

    /// Starts it for a code, with steps as `main.c` describes them.
    pub(crate) fn start(&self, m: u32, t: u32, step_bytes: usize, steps: &[u8]) -> Result<Runner, String> {
        let file = self.program.with_file_name("steps");
        fs::write(&file, steps).map_err(|error| error.to_string())?;
        let stride = 2 * (step_bytes + (m * t).div_ceil(8) as usize);
        let numbers = [m as usize, t as usize, step_bytes, steps.len() / stride].map(|n| n.to_string());
        let mut command = Command::new(&self.program);
        command.args(numbers).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(ask), Some(answer)) => Ok(Runner { child, ask, answer: BufReader::new(answer) }),
            _ => Err("no pipes".into()),
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}", text.lines().next().unwrap_or("failed")))
}

/// bchlib, waiting to be asked.
pub(crate) struct Runner {
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Runner {
    /// Does `what` to all steps `rounds` times; nanoseconds, or None when a result was wrong.
    pub(crate) fn time(&mut self, what: &str, rounds: u32) -> Option<f64> {
        writeln!(self.ask, "{what} {rounds}").ok()?;
        let mut line = String::new();
        self.answer.read_line(&mut line).ok()?;
        let (ns, wrong) = line.trim().split_once(' ')?;
        (wrong == "0").then(|| ns.parse().ok()).flatten()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // It has no more to say, and there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

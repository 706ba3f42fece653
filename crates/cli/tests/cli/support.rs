//! Running the binary.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// What a run of the binary left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The built binary, with surroundings that do not depend on who runs the tests.
pub(crate) fn floatgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    for name in
        ["NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "RUST_BACKTRACE", "RAYON_NUM_THREADS", "COLUMNS"]
    {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
    command.env("XDG_STATE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("state"));
    command
}

/// Runs a prepared command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `floatgate` with `args`, in `folder`.
pub(crate) fn run_in<A: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = A>) -> Run {
    finish(floatgate().args(args).current_dir(folder))
}

/// Runs `floatgate` with the words of `line`.
pub(crate) fn run(line: &str) -> Run {
    let mut command = floatgate();
    if line.ends_with("--help") {
        // As wide as help gets, so that no example is wrapped.
        command.env("COLUMNS", "110");
    }
    finish(command.args(line.split_whitespace()).current_dir(scratch("empty")))
}

/// As [`run`], of a command that must succeed: its stdout.
pub(crate) fn stdout(line: &str) -> String {
    let run = run(line);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "floatgate {line}");
    run.out
}

/// All published tables, as text and as JSON: they take seconds, and several tests look at them.
pub(crate) static PAPERS: LazyLock<String> = LazyLock::new(|| stdout("papers"));
pub(crate) static PAPERS_JSON: LazyLock<String> = LazyLock::new(|| stdout("papers --json"));

/// A folder for one test.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// As [`scratch`], without what an earlier run left in it.
pub(crate) fn fresh(name: &str) -> PathBuf {
    let folder = scratch(name);
    std::fs::remove_dir_all(&folder).unwrap();
    scratch(name)
}

/// The names that a list of the catalogue gives (`list parts --kind raw-nand`, `setups`), by their JSON key.
pub(crate) fn names(list: &str, key: &str) -> Vec<String> {
    let rows: serde_json::Value = serde_json::from_str(&stdout(&format!("{list} --json"))).unwrap();
    let rows = rows["rows"].as_array().unwrap();
    assert!(!rows.is_empty(), "{list} is empty");
    rows.iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
}

/// The subcommands, from the help text.
pub(crate) fn subcommands() -> Vec<String> {
    subcommands_of("")
}

/// The subcommands of a command, from its help text.
pub(crate) fn subcommands_of(command: &str) -> Vec<String> {
    let help = stdout(&format!("{command} --help"));
    // Groups of commands are between the usage and the options.
    let (_, listed) = help.split_once("Usage: ").unwrap();
    let lines = listed.split("\nOptions:").next().unwrap().lines();
    // Lines with more spaces continue a description.
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !["", "help"].contains(name)).map(str::to_owned).collect()
}

/// The commands that do something: those without subcommands, and the subcommands.
pub(crate) fn commands() -> Vec<String> {
    let nested = |group: String| match group.as_str() {
        "ecc" | "image" | "list" | "otp" => {
            subcommands_of(&group).iter().map(|name| format!("{group} {name}")).collect()
        }
        _ => vec![group],
    };
    subcommands().into_iter().flat_map(nested).collect()
}

/// A trace of a card.
pub(crate) const REQUESTS: &str = "time_us,kind,sector,sectors,latency_us\n\
    0.000,write,2048,8,1000.000\n\
    5000.000,read,4096,16,450.250\n\
    6000.000,discard,8192,2048,900.000\n\
    7000.000,flush,0,0,\n";

/// Puts an image and a dump of it into a folder, as a user has them: `rootfs.ubi` (40 pages of 2 KiB, some of them
/// erased), `rootfs.oob` and `dump.nand` with some wrong bits. The OOB is for bch4/512 in pages of 2048 + 64 bytes.
pub(crate) fn dump_files(folder: &Path) {
    // Bytes that look random; a linear congruential generator is enough (Knuth's MMIX).
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let mut data: Vec<u8> = (0..40 * 2048).map(|_| next()).collect();
    data[10 * 2048..14 * 2048].fill(0xFF);
    std::fs::write(folder.join("rootfs.ubi"), &data).unwrap();
    let encode = |more: &[&str]| {
        let args = ["ecc", "encode", "rootfs.ubi", "--part", "mt29f2g08aad", "--code", "bch4/512"];
        let run = finish(floatgate().args(args).args(more).current_dir(folder));
        assert_eq!(run.code, Some(0), "{}", run.err);
    };
    encode(&["--oob-only", "-o", "rootfs.oob"]);
    encode(&["-o", "dump.nand"]);
    let mut dump = std::fs::read(folder.join("dump.nand")).unwrap();
    for (page, bit) in [(3, 100), (3, 101), (7, 9000), (11, 5), (39, 8 * 2100 + 7)] {
        dump[page * 2112 + bit / 8] ^= 1 << (bit % 8);
    }
    std::fs::write(folder.join("dump.nand"), &dump).unwrap();
}

/// A table of measurements of a user, whose only row is `published` and simulates 11034 KiB/s.
pub(crate) fn paper(published: f64) -> String {
    format!(
        "paper = 'mine'\ntitle = 'Measured at home'\n\n[[table]]\nname = 'reads'\ntitle = 'Page reads'\nunit = 'KiB/s'\n\
         setup = 'am62a-w35n01jw'\nrow = [{{ row = 'page', published = {published}, kind = 'predicted', measure = 'page read' }}]\n"
    )
}

/// Asserts that a run was refused as a person would like it: exit 2, nothing on stdout, a message, no panic.
pub(crate) fn assert_refused(what: &str, run: &Run) {
    assert_eq!(run.code, Some(2), "{what}\n{}{}", run.out, run.err);
    assert_eq!(run.out, "", "{what} prints results although it fails");
    assert!(
        run.err.contains('×') || run.err.starts_with("error:") || run.err.contains("Usage:"),
        "{what}\n{}",
        run.err
    );
    assert!(!run.err.contains("panicked"), "{what}\n{}", run.err);
}

/// Figures of flash_speed on an i.MX6 (papers/p0-raynal-2025.toml).
pub(crate) const FIGURES: &str = "MTD device: 0    count: 16
set driver.continuous=false
eraseblock read speed is 15633 KiB/s
page read speed is 15515 KiB/s
2 page read speed is 15398 KiB/s
";

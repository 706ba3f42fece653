//! Every example of every `--help` works as typed.

use crate::support::{finish, floatgate, fresh, names, run_in, scratch, stdout, subcommands, subcommands_of};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The lines of a help text's example block.
fn examples(help: &str) -> Vec<String> {
    let block = help.split("Examples:\n").nth(1).unwrap_or_default();
    let lines = block.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.trim().to_owned()).filter(|line| line.starts_with("floatgate ")).collect()
}

/// Makes the folder of a redirection's target.
fn make_room(line: &str, home: &Path) {
    if let Some((_, target)) = line.split_once(" > ") {
        let target = target.strip_prefix("~/").unwrap_or(target);
        std::fs::create_dir_all(home.join(target).parent().unwrap()).unwrap();
    }
}

/// The output of `list NAME --resolved` is a setup that measures the same, and names no other file.
#[test]
fn a_resolved_setup_is_a_setup() {
    let folder = fresh("resolved");
    let tests = |setup: &str| -> serde_json::Value {
        let run = run_in(&folder, ["speed", setup, "-c1", "--json"]);
        assert_eq!(run.code, Some(0), "{setup}: {}", run.err);
        let mut run: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        // The resolved file has no sources, so that its values count as measured: its intervals are narrower.
        for test in run["tests"].as_array_mut().unwrap() {
            test.as_object_mut().unwrap().retain(|key, _| !key.starts_with("interval_"));
        }
        run["tests"].clone()
    };
    for name in names("setups", "name") {
        let resolved = stdout(&format!("setups {name} --resolved"));
        assert!(resolved.contains("\n[chip.") && !resolved.contains("\nchip = "), "{resolved}");
        std::fs::write(folder.join("resolved.toml"), resolved).unwrap();
        assert_eq!(tests("resolved.toml"), tests(&name), "{name}");
    }
}

/// A trace may be larger than a setup.
#[test]
fn a_long_trace_is_read() {
    let folder = fresh("long-trace");
    let trace = stdout("endurance mt29f8g08maawc --example-trace 0.4");
    std::fs::write(folder.join("block.csv"), trace.replace('\n', &format!("{}\n", " ".repeat(200_000))))
        .unwrap();
    let run = run_in(&folder, ["endurance", "mt29f8g08maawc", "--predict", "block.csv"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
#[cfg(unix)]
fn every_example_works_as_typed() {
    let mut lines = examples(&stdout("--help"));
    for command in subcommands() {
        let own = examples(&stdout(&format!("{command} --help")));
        assert!(!own.is_empty(), "`{command} --help` shows no example");
        lines.extend(own);
    }
    let nested = ["card", "ecc", "image", "list"]
        .map(|group| subcommands_of(group).into_iter().map(move |name| format!("{group} {name}")));
    let forms = ["endurance", "age", "keystore"].map(str::to_owned);
    for command in nested.into_iter().flatten().chain(forms) {
        let own = examples(&stdout(&format!("{command} --help")));
        assert!(!own.is_empty(), "`{command} --help` shows no examples");
        lines.extend(own);
    }
    // The help of a group shows examples of its commands.
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    // They stay in the foreground, boot a guest, need a device or take long, and have tests of their own.
    let apart = [
        "floatgate papers --json",
        "floatgate image mount ",
        "floatgate serve ",
        "floatgate serve ",
        "floatgate probe /dev/",
        "floatgate advise /dev/",
    ];
    let boots = |line: &str| line.starts_with("floatgate run ") && !line.contains(" --trace ");
    // The tour and its test have this one, too, which takes longer than most.
    lines.retain(|line| line != "floatgate papers");
    lines.retain(|line| !boots(line) && !apart.iter().any(|command| line.starts_with(command)));
    assert!(lines.len() > 25, "the help texts have lost their examples");
    let home = fresh("examples");
    crate::images::write(&home);
    let binaries = Path::new(env!("CARGO_BIN_EXE_floatgate")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    for line in lines {
        make_room(&line, &home);
        let mut shell = Command::new("sh");
        shell.args(["-ec", &line]).env("PATH", &path).env("HOME", &home).current_dir(&home);
        let run = finish(&mut shell);
        // LittleFS has no owners and permissions: those of who runs the test are lost.
        let may_lose = line.contains(" --format littlefs") && run.code == Some(1);
        assert!(may_lose || run.code == Some(0), "{line}\n{}", run.err);
        let is_news = |told: &str| {
            let news = ["wrote ", "to write it back: "];
            // A sweep into a file ends with its conclusion.
            let concludes = line.starts_with("floatgate sweep ") && !told.contains("cannot be had");
            may_lose || told.is_empty() || concludes || news.iter().any(|one| told.starts_with(one))
        };
        assert!(run.err.lines().all(is_news), "{line} complains:\n{}", run.err);
        let into_file = line.contains(" > ") || line.contains(" -o ");
        assert!(into_file || !run.out.is_empty(), "{line} prints nothing");
    }
    for written in ["my-chip.toml", "my-board.toml", "modes.svg", "rww.svg"] {
        assert!(std::fs::metadata(home.join(written)).unwrap().len() > 100, "{written}");
    }
}

#[test]
fn a_chip_copied_from_the_catalogue_is_that_chip() {
    let folder = scratch("copied-chip");
    std::fs::write(folder.join("chip.toml"), stdout("parts w25n02jw --toml")).unwrap();
    let of = |chip: &str| {
        let args = ["speed", "ma35d1-w25n02jw", "-c1", "--set", chip];
        finish(floatgate().args(args).current_dir(&folder)).out
    };
    assert!(of("chip=chip.toml").contains("KiB/s"));
    assert_eq!(of("chip=chip.toml"), of("chip=w25n02jw"));
    assert_eq!(of("chip=./chip.toml"), of("chip=W25N02JW"));
}

#[test]
fn a_setup_copied_from_the_catalogue_is_that_setup() {
    let folder = scratch("copied-setup");
    std::fs::write(folder.join("board.toml"), stdout("setups stm32-n25q128a")).unwrap();
    let of = |setup: &str| finish(floatgate().args(["keystore", setup]).current_dir(&folder)).out;
    assert!(of("board.toml").contains("write page"));
    assert_eq!(of("board.toml"), of("STM32-n25q128a"));
}

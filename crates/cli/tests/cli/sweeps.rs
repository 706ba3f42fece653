//! Sweeps: what is refused, what is best, and why rows are equal.

use crate::support::{assert_refused, finish, floatgate, fresh, run, run_in, stdout};
use std::path::Path;

#[test]
fn a_refused_value_ends_a_sweep_unless_it_is_to_keep_going() {
    let sweep = "speed am62a-w35n01jw -c1 --set bus.reset_pin=false --sweep bus.mode=1-1-1,8D-8D-8D";
    let refused = run(sweep);
    assert_refused(sweep, &refused);
    assert!(refused.err.contains("--keep-going"), "{}", refused.err);
    let kept = run(&format!("{sweep} --keep-going"));
    // As `floatgate sweep` exits.
    assert_eq!(kept.code, Some(1), "{}", kept.err);
    assert!(kept.err.contains("1 of 2 combinations cannot be had"), "{}", kept.err);
    assert!(
        kept.out.lines().any(|line| line.starts_with("bus.mode=8D-8D-8D") && line.contains("reset")),
        "{}",
        kept.out
    );
    let none = "speed am62a-w35n01jw -c1 --set bus.reset_pin=false --sweep bus.mode=8D-8D-8D --keep-going";
    assert_refused(none, &run(none));
}

#[test]
fn the_best_row_is_marked_and_sorting_puts_it_first() {
    let sweep = "speed am62a-w35n01jw -c1 --sweep bus.clock_hz=10e6..25e6:5e6";
    let rows = |text: &str| {
        text.lines().filter(|line| line.starts_with("bus.clock_hz=")).map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = rows(&stdout(sweep));
    assert_eq!(plain.len(), 4, "{plain:?}");
    assert!(plain[3].contains("<- best") && !plain[0].contains("best"), "{plain:?}");
    let sorted = rows(&stdout(&format!("{sweep} --sort page-write")));
    assert!(sorted[0].starts_with("bus.clock_hz=25000000"), "{sorted:?}");
    assert!(sorted[0].contains("<- best"), "{sorted:?}");
}

/// Times do not compare where pages differ in size; speeds do.
#[test]
fn the_best_row_is_the_fastest_and_not_the_shortest() {
    let sweep = "speed imx6-mx30lf2g18ac -c1 --sweep chip.geometry.page_bytes=2048,4096 --sort page-read";
    let text = stdout(sweep);
    let row = |of: &str| text.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
    let (small, large) = (row("chip.geometry.page_bytes=2048"), row("chip.geometry.page_bytes=4096"));
    assert!(large.contains("<- best") && !small.contains("best"), "{text}");
    assert!(text.find(&large) < text.find(&small), "{text}");
}

#[test]
fn equal_rows_are_explained() {
    let text =
        stdout("speed am62a-w35n01jw -c1 --sweep bus.max_mode=1S-8S-8S,8D-8D-8D --set bus.mode=1S-1S-1S");
    let line = text.lines().find(|line| line.starts_with("equal: ")).unwrap_or_default();
    assert!(
        line.contains("bus.max_mode=1S-8S-8S, bus.max_mode=8D-8D-8D") && line.contains("1S-1S-1S"),
        "{text}"
    );
}

#[test]
fn csv_of_a_sweep_has_a_column_for_each_override_and_test() {
    let csv = stdout("speed am62a-w35n01jw -c1 --sweep bus.mode=1-1-1,1-1-8 --csv");
    let header = csv.lines().next().unwrap();
    assert!(header.starts_with("bus.mode,") && header.contains(",page read KiB/s,"), "{header}");
    assert!(csv.lines().nth(1).unwrap().starts_with("1-1-1,"), "{csv}");
}

#[test]
fn a_kind_of_chips_sweeps_the_catalogue() {
    let text = stdout("speed memory-bus-s29gl128p -c1 --sweep chip=@parallel-nor --keep-going");
    let parts = crate::support::names("parts --kind parallel-nor", "part");
    assert!(parts.iter().all(|part| text.contains(&format!("chip={part}"))), "{text}");
}

/// Requests of a row that are not met stand below the table, in the CSV and in the JSON.
#[test]
fn what_a_row_does_not_get_is_said() {
    let sweep = "speed nand-mt29f2g08abaea -c1 --sweep bus.interface=sdr3,nvddr5";
    let says = "bus.interface asks for nvddr5 and gets sdr5: the chip does not offer it";
    let text = stdout(sweep);
    assert!(text.contains(&format!("not given: bus.interface=nvddr5: {says}\n")), "{text}");
    let csv = stdout(&format!("{sweep} --csv"));
    assert!(
        csv.lines().nth(2).unwrap().contains(says) && !csv.lines().nth(1).unwrap().contains(says),
        "{csv}"
    );
    let rows: serde_json::Value = serde_json::from_str(&stdout(&format!("{sweep} --json"))).unwrap();
    assert_eq!(rows["rows"][1]["run"]["link"]["not_given"][0], says);
}

/// Each row has its least certain value; the corner is that of each row's chip.
#[test]
fn rows_name_what_they_rest_on() {
    let sweep = "speed imx6-mx30lf2g18ac -c1 --sweep chip=mx30lf2g18ac,nand128w3a2bn";
    let text = stdout(sweep);
    assert!(
        text.lines().any(|line| line.starts_with("least certain input: ") && line.contains(" % sure: ")),
        "{text}"
    );
    let rows = |line: &str| -> serde_json::Value { serde_json::from_str(&stdout(line)).unwrap() };
    let swept = rows(&format!("{sweep} --corner max --json"));
    for (row, chip) in [(0, "mx30lf2g18ac"), (1, "nand128w3a2bn")] {
        let alone = rows(&format!("speed imx6-mx30lf2g18ac -c1 --set chip={chip} --corner max --json"));
        assert_eq!(swept["rows"][row]["run"]["tests"], alone["tests"], "{chip}");
        assert_eq!(swept["rows"][row]["least_certain"], alone["least_certain"], "{chip}");
    }
}

/// The latency that -k measures is in the rows of a sweep and in every CSV.
#[test]
fn the_latency_of_k_is_not_lost() {
    let speed = "speed rww-mx25uw51245g -b0 -k4096 -c1";
    let csv = stdout(&format!("{speed} --csv"));
    let line = csv.lines().find(|line| line.starts_with("read while write,")).unwrap();
    assert!(
        csv.lines().next().unwrap().contains("read_ended_ns") && line.ends_with(|c: char| c.is_ascii_digit())
    );
    let sweep = format!("{speed} --sweep bus.clock_hz=12e6,16e6");
    let (text, csv) = (stdout(&sweep), stdout(&format!("{sweep} --csv")));
    assert!(text.contains("read ended after, ms") && csv.contains(",took_ns,read_ended_ns,"), "{text}{csv}");
}

/// A specification in a folder of its own.
fn spec(name: &str, text: &str) -> (std::path::PathBuf, String) {
    let folder = fresh(name);
    let spec = folder.join("designs.toml");
    std::fs::write(&spec, text).unwrap();
    (folder, spec.display().to_string())
}

const DESIGNS: &str =
    "setup = 'am62a-w35n01jw'\n[space]\n'bus.mode' = ['1-1-8', '8x']\n'bus.clock_hz' = [10e6, 25e6]\n";

#[test]
fn a_sweep_writes_the_same_bytes_with_any_number_of_threads() {
    let (folder, spec) = spec("sweep-threads", DESIGNS);
    for extension in ["csv", "json", "parquet"] {
        let out = folder.join(format!("out.{extension}"));
        let with = |threads: &str, checkpoint: &str| {
            let part = folder.join(format!("{checkpoint}-{extension}"));
            let mut command = floatgate();
            command.env("RAYON_NUM_THREADS", threads).arg("sweep").arg(&spec).arg("-o").arg(&out);
            let run = finish(command.arg("--checkpoint").arg(&part));
            // A mode that does not exist is no reason to stop.
            assert_eq!(run.code, Some(1), "{}", run.err);
            assert!(run.err.contains("2 of 4 designs cannot be had"), "{}", run.err);
            std::fs::read(&out).unwrap()
        };
        let one = with("1", "one");
        assert!(one == with("3", "three"), "{extension}");
        // All designs are in the checkpoint.
        assert!(one == with("2", "one"), "{extension}");
    }
    let csv = std::fs::read_to_string(folder.join("out.csv")).unwrap();
    assert_eq!(csv.lines().filter(|line| line.contains("8x")).count(), 2, "{csv}");
    assert!(std::fs::read(folder.join("out.parquet")).unwrap().starts_with(b"PAR1"));
}

/// Files that a specification names are beside it, wherever the command runs; names of the catalogue come first.
#[test]
fn paths_in_a_specification_start_from_its_folder() {
    let (folder, spec) =
        spec("sweep-paths", "setup = './board.toml'\n[space]\nchip = ['w35n01jw', './chip.toml']\n");
    std::fs::write(folder.join("board.toml"), stdout("setups am62a-w35n01jw")).unwrap();
    std::fs::write(folder.join("chip.toml"), stdout("parts w25n02jw --toml")).unwrap();
    let out = folder.join("out.csv");
    let swept = run(&format!("sweep {spec} -o {}", out.display()));
    assert_eq!(swept.code, Some(0), "{}", swept.err);
    let csv = std::fs::read_to_string(&out).unwrap();
    assert!(csv.contains("\n./chip.toml,"), "{csv}");
    let from_inside = run_in(&folder, ["sweep", "designs.toml", "-o", "inside.csv"]);
    assert_eq!(from_inside.code, Some(0), "{}", from_inside.err);
    assert_eq!(std::fs::read_to_string(folder.join("inside.csv")).unwrap(), csv);
}

#[test]
fn screened_designs_are_rows_and_no_failure() {
    let (folder, spec) = spec(
        "sweep-screen",
        &format!("screen = ['erase KiB/s > 1e9']\n{}", DESIGNS.replace("'8x'", "'1-8-8'")),
    );
    let out = folder.join("out.csv");
    let swept = run(&format!("sweep {spec} -o {}", out.display()));
    assert_eq!(swept.code, Some(0), "{}", swept.err);
    assert!(swept.err.contains("4 of 4 designs miss `screen`"), "{}", swept.err);
    assert_eq!(std::fs::read_to_string(&out).unwrap().matches("screened out: erase").count(), 4);
}

/// A checkpoint for which the disk has no room any more is no reason to remove it: the sweep goes on from it.
#[test]
fn a_sweep_goes_on_when_there_is_room_again() {
    let (folder, spec) =
        spec("sweep-full", &DESIGNS.replace("[10e6, 25e6]", "{ from = 10e6, to = 40e6, step = 20e3 }"));
    let line = format!("sweep {spec} -o out.csv --checkpoint designs.part");
    let script = format!("ulimit -f 200; exec {} {line}", env!("CARGO_BIN_EXE_floatgate"));
    let full = finish(
        std::process::Command::new("bash")
            .args(["-c", &script])
            .env("RAYON_NUM_THREADS", "1")
            .current_dir(&folder),
    );
    assert_refused("a full disk", &full);
    assert!(full.err.contains("designs.part: File too large"), "{}", full.err);
    assert!(full.err.contains("make room") && !full.err.contains("remove"), "{}", full.err);
    let kept = std::fs::read(folder.join("designs.part")).unwrap();
    let whole = kept.iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    assert!(kept[..whole].iter().filter(|&&byte| byte == b'\n').count() > 1, "nothing was measured");
    let sweep = |args: &[&str]| run_in(&folder, [&["sweep", &spec, "-o"], args].concat());
    assert_eq!(sweep(&["out.csv", "--checkpoint", "designs.part"]).code, Some(1));
    assert!(std::fs::read(folder.join("designs.part")).unwrap().starts_with(&kept[..whole]));
    assert_eq!(sweep(&["other.csv"]).code, Some(1));
    let [out, other] = ["out.csv", "other.csv"].map(|name| std::fs::read(folder.join(name)).unwrap());
    assert!(out == other);
}

/// A signal's last words are the next command.
#[test]
fn an_interrupted_sweep_says_how_to_go_on() {
    let (folder, spec) =
        spec("sweep-interrupted", &DESIGNS.replace("[10e6, 25e6]", "{ from = 10e6, to = 40e6, step = 100 }"));
    let sweep = std::process::Command::new(env!("CARGO_BIN_EXE_floatgate"))
        .args(["sweep", &spec, "-o", "out.csv", "--checkpoint", "designs.part"])
        .current_dir(&folder)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let measured =
        || std::fs::read_to_string(folder.join("designs.part")).is_ok_and(|text| text.lines().count() > 1);
    while !measured() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let kill = std::process::Command::new("kill").args(["-TERM", &sweep.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let ended = sweep.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && err.contains("the same command goes on from designs.part"), "{err}");
}

/// Of the files of a sweep a report takes CSV and JSON, and says what to do with Parquet.
#[test]
fn a_report_takes_what_a_sweep_wrote() {
    let (folder, spec) = spec("sweep-report", DESIGNS);
    for extension in ["csv", "json", "parquet"] {
        let out = folder.join(format!("out.{extension}"));
        assert_eq!(run(&format!("sweep {spec} -o {}", out.display())).code, Some(1));
        let line = format!("report {} -o {}", out.display(), folder.join("out.html").display());
        let report = run(&line);
        if extension == "parquet" {
            assert_refused(&line, &report);
            assert!(report.err.contains("not Parquet") && report.err.contains("out.csv"), "{}", report.err);
        } else {
            assert_eq!(report.code, Some(0), "{}", report.err);
            let page = std::fs::read_to_string(folder.join("out.html")).unwrap();
            assert!(page.contains("page read KiB/s") && page.contains("8x"), "{extension}");
        }
    }
}

/// A report is of every command that has JSON of a few rows; fields that are set belong to setups.
#[test]
fn a_report_takes_results_of_all_commands() {
    let folder = fresh("report-results");
    for (name, line) in [
        ("advise.json", "advise kingston-class-10 --json"),
        ("info.json", "card info kingston-class-10 --json"),
        ("compare.json", "card compare kingston-class-10 --json"),
        ("powercut.json", "card powercut kingston-class-10 --cuts 3 --json"),
        ("amplification.json", "card amplification --json"),
        ("keystore.json", "keystore --json"),
    ] {
        std::fs::write(folder.join(name), stdout(line)).unwrap();
        let report = run_in(&folder, ["report", name, "-o", "report.html"]);
        assert_eq!(report.code, Some(0), "{name}: {}", report.err);
    }
    let set = ["report", "advise.json", "-o", "-", "--set", "bus.mode=1-1-1"];
    let refused = run_in(&folder, set);
    assert_refused("--set without a setup", &refused);
    assert!(refused.err.contains("there is no setup"), "{}", refused.err);
    let both = run_in(&folder, [&["report", "am62a-w35n01jw"][..], &set[1..]].concat());
    assert_eq!(both.code, Some(0), "{}", both.err);
}

#[test]
fn a_sweep_says_what_is_wrong_and_writes_nothing() {
    let (folder, good) = spec("sweep-wrong", DESIGNS);
    let out = folder.join("out.csv");
    let to = |spec: &str, out: &Path| run(&format!("sweep {spec} -o {}", out.display()));
    let other = to(&good, &folder.join("out.xlsx"));
    assert_refused("out.xlsx", &other);
    assert!(other.err.contains("--format"), "{}", other.err);
    for (from, to_text, said) in [
        ("'1-1-8', '8x'", "'8x'", "2 of 2 designs cannot be had, the first because: "),
        ("'1-1-8', '8x'", "", "no design"),
        ("[space]", "constraints = ['cost < 3']\n[space]", "no column `cost`"),
        ("[space]", "measure = 'luck'\n[space]", "luck"),
        ("10e6", "nan", "nan"),
        ("[10e6, 25e6]", "{ from = 1, to = 1e300, step = 1 }", "step"),
        ("am62a-w35n01jw", "am62a", "no setup"),
    ] {
        let path = folder.join("wrong.toml");
        std::fs::write(&path, DESIGNS.replacen(from, to_text, 1)).unwrap();
        let refused = to(&path.display().to_string(), &out);
        assert_refused(to_text, &refused);
        assert!(refused.err.to_lowercase().contains(&said.to_lowercase()), "{to_text}: {}", refused.err);
        assert!(!out.exists(), "{to_text}");
    }
    let full = run(&format!("sweep {good} -o /dev/full --format csv"));
    assert_refused("/dev/full", &full);
    let piped = run(&format!("sweep {good} -o - --format csv"));
    assert_eq!((piped.code, piped.out.lines().count()), (Some(1), 5), "{}", piped.out);
}

/// Shares that were measured apart, one of them after an interruption, make the table of one run, byte by byte.
#[test]
fn shares_are_merged_into_the_table_of_one_run() {
    let folder = fresh("sweep-shares");
    let spec = "setup = 'am62a-w35n01jw'\ntests = 'page read'\n[space]\nbus.mode = ['1-1-1', '1-8-8', '8D-8D-8D']\n\
        host.call_us = { from = 1, to = 9 }\n[sample]\nlatin_hypercube = 41\n[objectives]\nmaximise = ['page read KiB/s']\n\
        minimise = ['host.call_us']\n";
    std::fs::write(folder.join("designs.toml"), spec).unwrap();
    let sweep = |line: &str| run_in(&folder, ["sweep", "designs.toml"].into_iter().chain(line.split(' ')));
    let whole = sweep("-o whole.csv");
    for share in [3, 1, 2] {
        let said = sweep(&format!("--shard {share}/3 --checkpoint {share}.part"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.contains(" designs, from number "), "{}", said.out);
    }
    // The last line of a share is torn: the same command measures it again.
    let part = folder.join("2.part");
    let bytes = std::fs::read(&part).unwrap();
    std::fs::write(&part, &bytes[..bytes.len() - 9]).unwrap();
    let torn = sweep("--merge 1.part 2.part 3.part -o merged.csv");
    assert_refused("a torn share", &torn);
    assert_eq!(sweep("--shard 2/3 --checkpoint 2.part").code, Some(0));
    let merged = sweep("--merge 3.part 1.part 2.part -o merged.csv");
    assert_eq!((merged.code, merged.err.replace("merged.csv", "whole.csv")), (whole.code, whole.err));
    let csv = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(csv("merged.csv"), csv("whole.csv"));
    for (line, said) in [
        ("--merge 1.part 3.part -o x.csv", "no file has the designs 13 to 26"),
        ("--merge 1.part 2.part -o x.csv", "no file has the designs 27 to 40"),
        ("--merge 1.part 2.part 2.part 3.part -o x.csv", "is in another file, too"),
        ("--merge 1.part designs.toml -o x.csv", "not a checkpoint"),
        ("--merge 1.part nosuch.part -o x.csv", "No such file"),
        ("--shard 1/3 --checkpoint 2.part", "another share"),
        ("--shard 1/4 --checkpoint 1.part", "the checkpoint has designs up to "),
        ("--shard 4/3 --checkpoint 4.part", "I from 1 to N"),
        ("--shard 1/100 --checkpoint 4.part", "make fewer shares"),
    ] {
        let run = sweep(line);
        assert_refused(line, &run);
        assert!(run.err.contains(said), "{line}: {}", run.err);
    }
    assert!(!folder.join("x.csv").exists());
}

/// `--merge` takes all words behind it, and so the specification, too.
#[test]
fn the_specification_may_stand_behind_the_checkpoints() {
    let folder = fresh("sweep-merge");
    let spec = "setup = \"nor-serialised\"\n[space]\nbus.clock_hz = [10e6, 25e6]\n";
    std::fs::write(folder.join("designs.toml"), spec).unwrap();
    let run = |line: &str| run_in(&folder, line.split(' '));
    assert_eq!(run("sweep designs.toml --shard 1/2 --checkpoint one.part").code, Some(0));
    assert_eq!(run("sweep designs.toml --shard 2/2 --checkpoint two.part").code, Some(0));
    let first = run("sweep designs.toml -o - --format csv --merge one.part two.part");
    let last = run("sweep -o - --format csv --merge one.part two.part designs.toml");
    assert_eq!((first.code, &first.out), (Some(0), &last.out), "{}{}", first.err, last.err);
    let without = run("sweep -o - --format csv --merge one.part two.part");
    assert!(
        without.code == Some(2) && without.err.contains("the specification is missing"),
        "{}",
        without.err
    );
}

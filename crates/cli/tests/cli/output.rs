//! Where output goes, and what is in it.

use crate::support::{
    PAPERS, PAPERS_JSON, commands, dump_files, finish, floatgate, fresh, run_in, stdout, subcommands,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const LINES: [&str; 11] = [
    "speed am62a-w35n01jw",
    "speed am62a-w35n01jw --sweep bus.mode=1-1-1,8D-8D-8D",
    "trace am62a-w35n01jw read-page",
    "papers keystore",
    "life mt29f8g08maawc",
    "life --all",
    "papers P2",
    "list parts",
    "list w35n01jw",
    "list setups",
    "speed --help",
];

#[test]
fn what_is_no_terminal_gets_no_escape_codes() {
    for line in LINES.into_iter().chain(["speed nosuch", "trace am62a-w35n01jw nosuch", "papers nosuch"]) {
        for no_color in ["", "1"] {
            let run = finish(floatgate().args(line.split_whitespace()).env("NO_COLOR", no_color));
            assert!(!run.out.contains('\u{1B}') && !run.err.contains('\u{1B}'), "{line}");
        }
    }
}

/// Lines of [`EACH`] that print a report for people. The others print a file or a listing, whose lines stay whole, and help is wrapped by another
/// rule.
fn reports() -> impl Iterator<Item = &'static str> {
    EACH.iter().copied().filter(|line| {
        let other = [
            "--help",
            "--example-trace",
            " -o -",
            "extract rootfs.ubi -",
            "completions",
            "man ",
            "image cat",
            "image ls",
        ];
        *line != "list am62a-w35n01jw" && !other.iter().any(|part| line.contains(part))
    })
}

/// True when a line can be broken: it has a space that is not behind a digit, where a number or its unit may go on.
fn is_breakable(line: &str) -> bool {
    let line = line.trim();
    // A command line stays whole, so that it can be copied.
    let commands = ["floatgate ", "mkfs.", "mount -t ", "printf ", "flash", "nandwrite ", "sumtool ", "ubi"];
    if commands.iter().any(|command| line.starts_with(command)) {
        return false;
    }
    line.match_indices(' ').any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_digit()))
}

/// Words and numbers of a report. Drawings have others in each width, and a command line a backslash at its breaks.
fn tokens(text: &str) -> BTreeSet<&str> {
    let is_drawn = |word: &&str| word.contains(|c| matches!(c, '\u{2500}'..='\u{25FF}' | '\\'));
    // In a pipe the lines of a cell are joined by semicolons.
    text.split_whitespace().filter(|word| !is_drawn(word)).map(|word| word.trim_end_matches(';')).collect()
}

#[test]
fn lines_fit_into_the_columns_and_break_between_words() {
    let mut wrong = Vec::new();
    let (narrow, wide) =
        ([40, 80, 132].map(|columns| (columns, files(&format!("narrow-{columns}")))), files("wide"));
    for line in reports() {
        let whole = run_in(&wide, line.split_whitespace());
        let whole = tokens(&whole.out);
        for (columns, folder) in &narrow {
            let mut command = floatgate();
            command.args(line.split_whitespace()).current_dir(folder).env("COLUMNS", columns.to_string());
            let run = finish(&mut command);
            // Another program reads the variables of an environment.
            let is_whole = line.starts_with("image env");
            let is_long = |text: &&str| !is_whole && text.chars().count() > *columns && is_breakable(text);
            let long = run.out.lines().chain(run.err.lines()).filter(is_long);
            wrong.extend(long.map(|text| format!("{line} in {columns} columns: {text}")));
            // A waterfall names what there is room for, and a hex dump the first byte of each line.
            if !line.starts_with("trace") && !line.starts_with("otp read") {
                // Columns that do not fit are named below their table.
                let is_new =
                    |word: &&str| !whole.contains(word) && !["columns", "left", "out:"].contains(word);
                let cut = tokens(&run.out).into_iter().filter(is_new);
                wrong.extend(cut.map(|word| format!("{line} in {columns} columns breaks at {word}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A name with spaces is no text to be broken.
#[test]
fn lines_of_a_listing_stay_whole() {
    let folder = files("listing");
    for line in ["image ls rootfs.ubi -r", "image ls rootfs.ubi --history"] {
        let mut narrow = floatgate();
        narrow.args(line.split_whitespace()).current_dir(&folder).env("COLUMNS", "40");
        assert_eq!(finish(&mut narrow).out, run_in(&folder, line.split_whitespace()).out, "{line}");
    }
}

#[test]
fn no_line_ends_in_a_fraction_of_nothing() {
    let papers = &*PAPERS;
    assert!(!papers.contains("-0.0 %") && !papers.contains("+0.0 %"), "zero has no sign");
    for line in LINES {
        let out = stdout(line);
        for nonsense in ["NaN", "inf ", "nan ", "null"] {
            assert!(!out.contains(nonsense), "{nonsense:?} in {line}");
        }
    }
}

#[test]
fn a_plot_is_told_on_stderr_and_results_stay_on_stdout() {
    let folder = fresh("told");
    let with = run_in(&folder, ["speed", "am62a-w35n01jw", "--json", "--plot", "x.svg"]);
    let without = run_in(&folder, ["speed", "am62a-w35n01jw", "--json"]);
    assert_eq!((with.code, with.err.as_str()), (Some(0), "wrote x.svg\n"));
    assert_eq!(with.out, without.out);
}

#[test]
fn every_command_ends_quietly_when_its_reader_goes_away() {
    let lines = [
        "trace am62a-w35n01jw write-block --json",
        "completions bash",
        "list parts --json",
        "speed am62a-w35n01jw -C",
    ];
    for line in lines {
        let mut command = floatgate();
        command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = String::new();
        // The reader is dropped at the end of the statement: what is written later meets a closed pipe.
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty(), "{line}");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    }
}

/// A line for each command that prints on stdout, in a folder as [`files`] makes it. Those that change an image stand
/// behind those that read it.
const EACH: &[&str] = &[
    "report am62a-w35n01jw -o -",
    "sweep designs.toml -o - --format csv",
    "man speed",
    "conformance --list",
    "check-capture capture.csv --part w25q128jv",
    "record stm32-n25q128a --fs jffs2 --partition 2MiB --ring 512KiB",
    "compare stm32-n25q128a samsung-evo-16g --partition 1MiB",
    "fit imx6-mx30lf2g18ac flash_speed.txt",
    "life arm926-nand01gw3b --set partition.size=8MiB --years 1 --chips 1",
    "fs memory-bus-s29gl128p --fs raw --test read --bytes 64KiB",
    "speed am62a-w35n01jw -c1",
    "speed am62a-w35n01jw -c1 --sweep bus.mode=1-1-1,8D-8D-8D",
    "trace am62a-w35n01jw read-page",
    "papers keystore",
    "speed samsung-evo-16g --set card.capacity_bytes=256MiB --requests 20",
    "list samsung-evo-16g --registers",
    "powercut samsung-evo-16g --cuts 40",
    "papers amplification --blocks 64 --units-per-block 32 --over-provisioning 28",
    "run kingston-class-10 --trace requests.csv",
    "run kingston-class-10 --trace vfat-create",
    "fs kingston-class-10 a1-32g --workload create",
    "advise kingston-class-10 --workload create",
    "fs arm926-nand01gw3b --fs jffs2,ubifs --partition 1MiB,4MiB",
    "probe sandisk-extreme --write --set card.capacity_bytes=1GiB",
    "life mt29f8g08maawc",
    "life --all",
    "life a1-32g --set card.capacity_bytes=3GiB --trace ext4-create",
    "life mt29f8g08maawc --example-trace 0.4",
    "otp info stm32-n25q128a",
    "otp write stm32-n25q128a --state keys.otp 00112233",
    "otp read stm32-n25q128a --state keys.otp --length 16",
    "otp lock stm32-n25q128a --state keys.otp",
    "otp erase nor-serialised --offset 0 --length 256",
    "papers octal",
    "ecc encode rootfs.data --part mt29f2g08aad --code bch4/512 -o new.nand",
    "ecc encode rootfs.data --part mt29f2g08aad --code bch4/512 -o -",
    "ecc decode dump.nand --part mt29f2g08aad --code bch4/512 -o new.ubi",
    "ecc check dump.nand --part mt29f2g08aad --code bch4/512",
    "ecc merge dump.nand dump.nand --part mt29f2g08aad --code bch4/512 -o merged.nand",
    "ecc join chip0.bin chip1.bin -o both.ubi",
    "ecc advise mt29f8g08maawc",
    "ecc layouts",
    "identify boot.log",
    "image info rootfs.ubi",
    "image map router.bin",
    "image env router.bin",
    "image ls rootfs.ubi -r",
    "image ls rootfs.ubi --history",
    "image cat rootfs.ubi /etc/fstab",
    "image cat rootfs.ubi --raw",
    "image stat rootfs.ubi /etc/fstab",
    "image extract rootfs.ubi -",
    "image extract rootfs.ubi new.tar",
    "image check rootfs.ubi",
    "image diff rootfs.ubi rootfs.ubi",
    "image dump rootfs.ubi --path /etc/fstab",
    "image patch rootfs.ubi rootfs.ubi",
    "image build overlay -o rootfs.ubifs --format ubifs --part mt29f2g08aad",
    "image ubinize volumes.ini -o new.ubi --part mt29f2g08aad --image-seq 7",
    "image put rootfs.ubi hostname /etc/hostname",
    "image mv rootfs.ubi /etc/hostname /etc/name",
    "image ln rootfs.ubi /etc/name /etc/hardlink",
    "image rm rootfs.ubi /etc/name",
    "image mkdir rootfs.ubi /new",
    "image chmod rootfs.ubi 700 /new",
    "image chown rootfs.ubi 1:1 /new",
    "image setxattr rootfs.ubi /new user.a b",
    "powercut imx6-mx30lf2g18ac --cuts 5 --steps 8",
    "list parts",
    "list w35n01jw",
    "list sandisk-extreme",
    "list parts --confidence",
    "list w35n01jw --confidence",
    "list setups",
    "list am62a-w35n01jw",
    "list",
    "list keys bus",
    "list traces",
    "list schemas",
    "examples my-examples",
    "list controllers",
    "list hosts",
    "completions bash",
    "--help",
    "image ls --help",
];

/// Commands that print no result, only when they are ended, after a guest has booted, or as another program does: these have tests of their own.
const SILENT: [&str; 3] = ["image mount", "serve", "as"];

/// A folder with what [`EACH`] names.
fn files(name: &str) -> PathBuf {
    let folder = fresh(name);
    dump_files(&folder);
    std::fs::rename(folder.join("rootfs.ubi"), folder.join("rootfs.data")).unwrap();
    crate::images::write(&folder);
    let designs = "setup = 'am62a-w35n01jw'\ntests = 'page read'\n[space]\nbus.clock_hz = [10e6, 25e6]\n";
    std::fs::write(folder.join("designs.toml"), designs).unwrap();
    std::fs::write(folder.join("requests.csv"), crate::support::REQUESTS).unwrap();
    std::fs::write(folder.join("flash_speed.txt"), crate::support::FIGURES).unwrap();
    folder
}

#[test]
fn each_command_has_a_line() {
    for command in commands() {
        let listed = EACH.iter().any(|line| *line == command || line.starts_with(&format!("{command} ")));
        assert!(listed || SILENT.contains(&command.as_str()), "no line in EACH runs `floatgate {command}`");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn every_command_fails_with_a_message_when_stdout_is_full() {
    let folder = files("full");
    for &line in EACH {
        let mut command = floatgate();
        command.args(line.split_whitespace()).current_dir(&folder);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let run = finish(command.stdout(full));
        assert_eq!(run.code, Some(2), "{line}\n{}", run.err);
        assert!(run.err.contains("No space left on device"), "{line}: {}", run.err);
        assert!(!run.err.contains("panicked"), "{line}: {}", run.err);
    }
    // An output as a file's, whose advice is about files.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let run = finish(floatgate().args(["report", "am62a-w35n01jw", "-o", "-"]).stdout(full));
    assert!(run.err.contains("what stdout leads to is full") && !run.err.contains("before"), "{}", run.err);
}

#[test]
fn every_command_fails_with_a_message_without_a_stdout() {
    let folder = files("without");
    for &line in EACH {
        let script = format!("exec '{}' {line} >&-", env!("CARGO_BIN_EXE_floatgate"));
        let run = finish(Command::new("sh").args(["-c", &script]).current_dir(&folder));
        assert_eq!(run.code, Some(2), "{line}\n{}", run.err);
        assert!(run.err.contains("Bad file descriptor"), "{line}: {}", run.err);
    }
    // Nothing was done, then, that nobody would know of.
    let image = std::fs::read(folder.join("rootfs.ubi")).unwrap();
    let script = format!("exec '{}' image mkdir rootfs.ubi /new >&-", env!("CARGO_BIN_EXE_floatgate"));
    let run = finish(Command::new("sh").args(["-c", &script]).current_dir(&folder));
    assert!(run.code == Some(2) && std::fs::read(folder.join("rootfs.ubi")).unwrap() == image);
}

#[test]
fn an_image_is_not_written_to_stdout() {
    let folder = files("no-stream");
    let mut command = floatgate();
    command.args(["image", "build", "overlay", "-o", "-", "--part", "mt29f2g08aad"]).current_dir(&folder);
    let run = finish(&mut command);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    assert!(run.err.contains("./-") && !folder.join("-").exists(), "{}", run.err);
}

#[test]
fn every_command_ends_quietly_when_stdout_is_a_closed_pipe() {
    let folder = files("closed");
    for &line in EACH {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = floatgate();
        command.args(line.split_whitespace()).current_dir(&folder);
        let run = finish(command.stdout(writer));
        assert_eq!(run.code, Some(0), "{line}\n{}", run.err);
        let complaint = run.err.lines().find(|told| told.contains("pipe") || told.contains("panicked"));
        assert_eq!(complaint, None, "{line}");
    }
}

#[test]
fn a_closed_pipe_does_not_change_the_exit_status_of_a_check() {
    let folder = files("closed-check");
    crate::images::damage(&folder);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = finish(floatgate().args(["image", "check", "damaged.ubi"]).current_dir(&folder).stdout(writer));
    assert_eq!((run.code, run.err.as_str()), (Some(2), ""));
}

/// Commands whose output is a file of another kind: a shell script, bytes of an image, a mount.
const NO_FORMAT: [&str; 7] = ["as", "completions", "man", "report", "sweep", "image cat", "image mount"];

#[test]
fn json_and_csv_are_options_of_every_command() {
    for command in commands() {
        let help = stdout(&format!("{command} --help"));
        let has = |option: &str| help.lines().any(|line| line.trim_start().starts_with(option));
        let expected = !NO_FORMAT.contains(&command.as_str());
        assert_eq!((has("--json"), has("--csv")), (expected, expected), "{command}");
    }
}

/// The fields of each line of CSV.
fn fields(text: &str) -> Vec<usize> {
    let mut quoted = false;
    let mut lines = vec![1];
    for c in text.trim_end_matches('\n').chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => *lines.last_mut().unwrap() += 1,
            '\n' if !quoted => lines.push(1),
            _ => {}
        }
    }
    assert!(!quoted, "a quotation mark is open:\n{text}");
    lines
}

#[test]
fn csv_has_a_header_and_rows_of_as_many_fields() {
    let folder = files("csv");
    for line in reports().chain(["list am62a-w35n01jw"]) {
        let run = run_in(&folder, line.split_whitespace().chain(["--csv"]));
        assert_eq!(run.code, Some(0), "{line}\n{}", run.err);
        let fields = fields(&run.out);
        assert!(fields.iter().all(|&n| n == fields[0]), "{line}: {fields:?}\n{}", run.out);
        let empty = ["image extract", "image diff", "image check", "image patch"]
            .iter()
            .any(|no| line.starts_with(no));
        assert!(fields.len() > 1 || empty, "{line} has no rows");
    }
}

/// Every run of digits, those of grouped numbers together.
fn numbers(text: &str) -> BTreeSet<String> {
    let inside = |text: &str| {
        text.split("  ")
            .map(str::trim)
            .filter(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    text.lines().flat_map(inside).collect()
}

#[test]
fn a_pipe_gets_one_line_for_each_row() {
    let rows: Value = serde_json::from_str(&PAPERS_JSON).unwrap();
    let text = &*PAPERS;
    // What all rows of a table set stands above them.
    let shared: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  all with")).collect();
    for row in rows["rows"].as_array().unwrap() {
        let (name, setup) = (row["row"].as_str().unwrap(), row["setup"].as_str().unwrap());
        let mut own: Vec<String> = shared.iter().map(|sets| setup.replacen(sets, "", 1)).collect();
        own.push(setup.to_owned());
        assert!(
            text.lines().any(|line| line.starts_with(name) && own.iter().any(|own| line.ends_with(own))),
            "{name} of {setup}"
        );
    }
    assert!(text.lines().all(|line| !line.ends_with(' ')), "nothing is filled up with spaces");
}

#[test]
fn a_narrow_terminal_breaks_no_number() {
    let lines = [
        "life --all",
        "life mt29f8g08maawc",
        "papers octal",
        "papers keystore",
        "list parts --confidence",
        "ecc advise mt29f8g08maawc",
    ];
    for line in lines {
        let whole = numbers(&stdout(line));
        assert!(whole.len() > 4, "{line}");
        for columns in [40, 60, 80, 100] {
            let narrow =
                finish(floatgate().args(line.split_whitespace()).env("COLUMNS", columns.to_string())).out;
            for number in &whole {
                // Prose that begins with a number is wrapped, and columns that do not fit are left out.
                let is_shown = narrow.contains(number.as_str()) || number.split(' ').count() > 3;
                let there = is_shown || narrow.contains("columns left out");
                assert!(there, "{line} in {columns} columns breaks {number}:\n{narrow}");
            }
        }
    }
}

/// The catalogue is a line or two for each part, without the columns that are least important.
#[test]
fn the_catalogue_is_short_on_a_narrow_terminal() {
    let drawn = |columns: &str| finish(floatgate().args(["list", "parts"]).env("COLUMNS", columns)).out;
    let (narrow, wide) = (drawn("80"), drawn("120"));
    assert!(narrow.lines().count() <= 140 && !narrow.contains("Winbond"), "{narrow}");
    assert!(wide.contains("Winbond") && wide.contains(" 60 % "), "{wide}");
}

#[test]
fn an_error_that_nobody_reads_is_still_exit_2() {
    let mut child = floatgate().args(["speed", "nosuch"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn every_command_is_in_the_help_and_explains_its_arguments() {
    let commands = subcommands();
    for expected in ["speed", "trace", "life", "run", "papers", "ecc", "list", "examples", "completions"] {
        assert!(commands.iter().any(|command| command == expected), "{expected} is not in the help");
    }
    for command in commands {
        let help = finish(floatgate().args([&command, "--help"]).env("COLUMNS", "110")).out;
        assert!(help.contains("Usage: floatgate "), "{command}");
        // Behind the examples there are names of options of other forms.
        let help = help.split("\nExamples:").next().unwrap();
        // A list of values has a dash and a blank, and a wrapped text may begin with the name of an option.
        let indent = |line: &str| line.len() - line.trim_start().len();
        let is_option = |line: &str| {
            indent(line) < 8 && line.trim_start().starts_with("-") && !line.trim_start().starts_with("- ")
        };
        let bare = |line: &&str| is_option(line) && line.trim().split("  ").count() < 2;
        let next_explains = |i: usize| help.lines().nth(i + 1).is_some_and(|l| l.starts_with("          "));
        for (i, line) in help.lines().enumerate().filter(|(_, line)| bare(line)) {
            assert!(next_explains(i), "`{command} --help` does not explain {line:?}");
        }
    }
}

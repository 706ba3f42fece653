//! Every command line in README.md, docs/tour.md and docs/fit.md works as typed, and every page leads on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Lines of `sh` blocks that start with `floatgate`, or make a file for those that follow with `printf`.
fn lines(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && ["floatgate ", "printf "].iter().any(|start| line.starts_with(start)) {
            found.push(line.to_owned());
        }
    }
    found
}

#[test]
fn the_tour_works_as_typed() {
    let mut lines = lines("docs/tour.md");
    assert!(lines.len() > 20, "the tour has lost its lines");
    let more = self::lines("docs/fit.md");
    assert!(more.len() > 4, "the example of a fit has lost its lines");
    lines.extend(more);
    // Both pages show some of the same commands.
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_floatgate")).parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    // What stands in /tmp from another day, such as a checkpoint, is not in the way.
    let tmp = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tour");
    std::fs::remove_dir_all(&tmp).ok();
    std::fs::create_dir_all(&tmp).unwrap();
    for line in lines {
        let line = line.replace("/tmp/", &format!("{}/", tmp.display()));
        let run = Command::new("sh").args(["-ec", &line]).env("PATH", &path).current_dir(root()).output();
        let output = run.unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}\n{complaint}");
    }
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

#[test]
fn the_readme_has_exactly_two_commands() {
    let text = readme();
    let blocks: Vec<&str> = text.split("```sh\n").skip(1).filter_map(|b| b.split("\n```").next()).collect();
    assert_eq!(blocks, ["cargo run --release -- speed am62a-w35n01jw", "./test"]);
}

/// Words of a page, without HTML and the targets of links: all that has a letter or a digit.
fn words(text: &str) -> usize {
    let without_tags: String =
        text.split('<').map(|part| part.split_once('>').map_or(part, |(_, rest)| rest)).collect();
    let without_targets: String = without_tags
        .split("](")
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) })
        .collect();
    without_targets.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn the_readme_is_read_in_two_minutes() {
    let text = readme();
    let above = text.split("\n## Links\n").next().unwrap();
    let count = words(above);
    assert!(text.contains("\n## Links\n") && (300..=600).contains(&count), "{count} words above the links");
}

#[test]
fn measured_times_are_filled_in() {
    let performance = std::fs::read_to_string(root().join("docs/performance.md")).unwrap();
    for text in [readme(), performance] {
        let placeholder = text.split_whitespace().find(|word| word.contains("TIME_"));
        assert_eq!(placeholder, None, "a time that was not filled in");
    }
}

/// The least and the largest ratio in the tables of docs/performance.md, of rows that begin with one of these programs.
fn ratios(page: &str, programs: &[&str]) -> (f64, f64) {
    let section = page.split("\n## Beside other programs\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows =
        section.lines().filter(|line| programs.iter().any(|name| line.starts_with(&format!("| {name}"))));
    let cells = rows.filter_map(|row| row.split(" | ").nth(2)?.parse::<f64>().ok());
    cells.fold((f64::INFINITY, 0.0), |(least, most), ratio| (least.min(ratio), most.max(ratio)))
}

#[test]
fn the_readme_has_the_ratios_that_were_measured() {
    let page = std::fs::read_to_string(root().join("docs/performance.md")).unwrap();
    let cells = [["ubi_reader", "jefferson"], ["mkfs.ubifs", "mkfs.jffs2"]].map(|programs| {
        let (least, most) = ratios(&page, &programs);
        format!("{least} to {most}")
    });
    let row = format!("| 1 | | | {} | {} |", cells[0], cells[1]);
    assert!(readme().contains(&row), "docs/performance.md has {row}");
}

#[test]
fn the_readme_names_the_oldest_rust_and_the_packages_of_a_release() {
    let (text, manifest) = (readme(), std::fs::read_to_string(root().join("Cargo.toml")).unwrap());
    let version = manifest.split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap();
    for claim in [format!("with Rust {version} "), format!("badge/rust-{version}%2B-")] {
        assert!(text.contains(&claim), "README.md does not say: {claim}");
    }
    let script = std::fs::read_to_string(root().join("scripts/package")).unwrap();
    let workflow = std::fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    for (claim, source) in [
        ("`.deb`", "cargo deb "),
        ("`.tar.gz`", ".tar.gz"),
        ("wheels", " build --release"),
        ("sdist", " sdist "),
    ] {
        assert!(text.contains(claim) == script.contains(source), "README.md and scripts/package: {claim}");
    }
    for machine in ["x86-64", "AArch64"] {
        let name = machine.to_lowercase().replace('-', "_");
        assert!(text.contains(machine) && workflow.contains(&format!("machine: {name},")), "{machine}");
    }
}

/// Number, command and state of each statement in docs/papers-p4.md.
fn statements(page: &str) -> Vec<(usize, Option<String>, String)> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [number, _, command, _, state] = cells[..] else { return None };
        let command = command.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        Some((number.parse().ok()?, command.map(str::to_owned), state.to_owned()))
    });
    rows.collect()
}

/// The table of 72 statements is whole, and the sentence above it counts its states.
#[test]
fn the_statements_of_a_document_are_counted() {
    let page = std::fs::read_to_string(root().join("docs/papers-p4.md")).unwrap();
    let rows = statements(&page);
    let numbers: Vec<usize> = rows.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=72).collect::<Vec<_>>());
    let count = |state: &str| rows.iter().filter(|(.., own)| own == state).count();
    let [ok, partly, missing, wrong, none] = ["ok", "partly", "missing", "wrong", "not available"].map(count);
    assert_eq!(ok + partly + missing + wrong + none, 72, "a state that the page does not explain");
    let sentence = format!(
        "The document has 72 statements: {ok} are ok, {partly} partly, {missing} missing, {wrong} wrong, and {none} not available."
    );
    assert!(page.contains(&sentence), "{sentence}");
    for (number, command, state) in &rows {
        assert!(command.is_some() || ["missing", "not available"].contains(&state.as_str()), "{number}");
    }
}

/// Each command of the 72 statements runs. Those that serve a card or boot a guest have tests of their own.
#[test]
#[ignore = "fifty commands, each once"]
fn slow_the_commands_of_the_statements_run() {
    let page = std::fs::read_to_string(root().join("docs/papers-p4.md")).unwrap();
    let commands: std::collections::BTreeSet<String> =
        statements(&page).into_iter().filter_map(|(_, command, _)| command).collect();
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_floatgate")).parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let tmp = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("statements");
    std::fs::create_dir_all(&tmp).unwrap();
    for line in commands {
        if ["floatgate serve", "--nilfs-cleaner", "--fs reiserfs"].iter().any(|guest| line.contains(guest)) {
            continue;
        }
        let line = line.replace("/tmp/", &format!("{}/", tmp.display()));
        let run = Command::new("sh").args(["-ec", &line]).env("PATH", &path).current_dir(&tmp).output();
        let output = run.unwrap();
        // A card that loses data is found: status 1.
        let expected = if line.contains("powercut tears-neighbours") { Some(1) } else { Some(0) };
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), expected, "{line}\n{complaint}");
    }
}

#[test]
fn the_changelog_is_short() {
    let text = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let (lines, bytes) = (text.lines().count(), text.len());
    assert!(lines <= 80 && bytes <= 12 << 10, "{lines} lines and {bytes} bytes: history belongs to git");
}

/// Commands with excerpts of their output: `text` blocks that begin with `$ `.
fn excerpts(text: &str) -> Vec<(&str, Vec<&str>)> {
    let blocks = text.split("```text\n$ ").skip(1).filter_map(|block| block.split("\n```").next());
    blocks.filter_map(|block| block.split_once('\n')).map(|(c, out)| (c, out.lines().collect())).collect()
}

/// The first line of an excerpt that an output does not have in this order; `...` leaves out any number of lines.
fn missing_line<'a>(excerpt: &[&'a str], output: &str) -> Option<&'a str> {
    let output: Vec<&str> = output.lines().collect();
    let parts = excerpt.split(|line| *line == "...").filter(|part| !part.is_empty());
    let mut from = 0;
    for part in parts {
        let Some(at) = output[from..].windows(part.len()).position(|lines| lines == part) else {
            return part.iter().find(|line| !output[from..].contains(line)).or(part.first()).copied();
        };
        from += at + part.len();
    }
    None
}

/// A NAND dump with OOB and three wrong bits, as `dump.nand` of the README.
fn write_dump(folder: &Path) {
    std::fs::create_dir_all(folder.join("root")).unwrap();
    std::fs::write(folder.join("root/hello"), "hello, flash\n").unwrap();
    for line in [
        "image build root -o rootfs.ubi --part mt29f2g08aad --volume rootfs --max-lebs 100",
        "ecc encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o dump.nand",
    ] {
        let output = floatgate(line, folder);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let path = folder.join("dump.nand");
    let mut bytes = std::fs::read(&path).unwrap();
    for at in [100, 600, 2112 + 200] {
        bytes[at] ^= 1;
    }
    std::fs::write(path, bytes).unwrap();
}

fn floatgate(line: &str, folder: &Path) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    command.args(line.split_whitespace()).current_dir(folder).output().unwrap()
}

#[test]
fn the_readme_quotes_what_the_commands_print() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("readme");
    std::fs::remove_dir_all(&folder).ok();
    write_dump(&folder);
    let text = readme();
    let excerpts = excerpts(&text);
    assert_eq!(excerpts.len(), 5, "five questions");
    for (line, excerpt) in excerpts {
        let shown = excerpt.iter().filter(|line| **line != "...").count();
        assert!((1..=4).contains(&shown), "{line}: at most four lines of output");
        let output = floatgate(line.strip_prefix("floatgate ").unwrap(), &folder);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(missing_line(&excerpt, &printed), None, "`{line}` prints:\n{printed}");
    }
}

#[test]
fn a_line_that_is_not_printed_in_this_order_is_missing() {
    let output = "one\ntwo\nthree\n";
    assert_eq!(missing_line(&["one", "...", "three"], output), None);
    assert_eq!(missing_line(&["one", "three"], output), Some("one"));
    assert_eq!(missing_line(&["two", "...", "one"], output), Some("one"));
    assert_eq!(missing_line(&["four"], output), Some("four"));
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_floatgate")).args(args).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_readme_counts_right() {
    let text = readme();
    let parts = json(&["parts", "--confidence", "--json"]);
    let parts = parts["rows"].as_array().unwrap();
    let sum = |key: &str| parts.iter().map(|part| part[key].as_u64().unwrap()).sum::<u64>();
    let sure = sum("sure") * 100 / sum("fields");
    let claim = format!("{} flash chips; {sure} % of their values", parts.len());
    assert!(text.contains(&claim), "the catalogue has {claim}");

    let summary = &json(&["papers", "--json"])["summary"];
    let count = |key: &str| summary[key].as_u64().unwrap();
    let percent = |key: &str| format!("{:.1} %", summary[key].as_f64().unwrap() * 100.0);
    for claim in [
        format!("{} published figures", count("figures")),
        format!("{} were used to fit {} parameters", count("fitted"), count("parameters")),
        format!(
            "{} are predicted, and {} contradict their own source",
            count("predicted"),
            count("exceptions")
        ),
        format!("{} predictions miss their tolerance", count("predicted_missed")),
        format!("{} of {} statements", count("directions_missed"), count("directions")),
        format!("is off by {}", percent("worst")),
    ] {
        assert!(text.contains(&claim), "README.md does not say: {claim}");
    }
    let names = ["reads", "programs", "erases", "attaching UBI", "others"];
    let rows = summary["by_operation"].as_array().unwrap();
    assert_eq!(names.len(), rows.len());
    for (name, row) in names.iter().zip(rows) {
        let held = match row["intervals"].as_u64() {
            None | Some(0) => String::new(),
            Some(intervals) => format!("{}/{intervals}", row["hold"]),
        };
        let median = row["median"].as_f64().unwrap() * 100.0;
        let claim =
            format!("| {name} | {} | {median:.1} % | {held} |", row["predicted"]).replace("|  |", "| |");
        assert!(text.contains(&claim), "README.md does not say: {claim}");
    }
}

/// Subcommands that the help of the command lists.
fn subcommands() -> Vec<String> {
    let help = String::from_utf8(floatgate("--help", &root()).stdout).unwrap();
    let lines =
        help.lines().skip_while(|line| !line.starts_with("Usage:")).take_while(|line| *line != "Options:");
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !["", "help"].contains(name)).map(str::to_owned).collect()
}

#[test]
fn every_command_is_listed() {
    let page = std::fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let (commands, readme) = (subcommands(), readme());
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        assert!(readme.contains(&format!("`{command}`")), "README.md does not list {command}");
        assert!(page.contains(&format!("| `{command}")), "docs/commands.md has no row for {command}");
    }
}

/// Pages below docs/.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Targets of the links and pictures of a page that are no addresses of the web, without what follows `#`. Blocks of code have none.
fn local_links(text: &str) -> Vec<&str> {
    let prose: Vec<&str> = text.split("```").step_by(2).collect();
    let after = |start, end| {
        prose.iter().flat_map(move |p| p.split(start).skip(1)).filter_map(move |p| p.split(end).next())
    };
    let targets = after("](", ')').chain(after("src=\"", '"')).chain(after("srcset=\"", '"'));
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains("://")).collect()
}

#[test]
fn every_link_of_a_page_leads_to_a_file() {
    let mut all = pages(&root().join("docs"));
    all.extend(
        [
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "SECURITY.md",
            "CODE_OF_CONDUCT.md",
        ]
        .map(|page| root().join(page)),
    );
    let mut count = 0;
    for page in all {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in local_links(&text) {
            let target = page.parent().unwrap().join(link);
            assert!(target.exists(), "{} has a link to {link}, which is nothing", page.display());
            count += 1;
        }
    }
    assert!(count > 40, "only {count} links were found");
}

#[test]
fn the_summary_of_the_site_has_every_page_once() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut listed: Vec<PathBuf> = local_links(&summary).into_iter().map(|link| docs.join(link)).collect();
    listed.sort();
    let all: Vec<PathBuf> = pages(&docs).into_iter().filter(|page| !page.ends_with("SUMMARY.md")).collect();
    assert_eq!(listed, all, "docs/SUMMARY.md and the pages below docs/ differ");
}

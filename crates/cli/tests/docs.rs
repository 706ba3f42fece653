//! Every command line in README.md, docs/tour.md and docs/fit.md works as typed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::path::PathBuf;
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
        } else if inside && (line.starts_with("floatgate ") || line.starts_with("printf ")) {
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
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_floatgate")).parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    for line in lines {
        let run = Command::new("sh").args(["-ec", &line]).env("PATH", &path).current_dir(root()).output();
        let output = run.unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}\n{complaint}");
    }
}

#[test]
fn the_readme_has_exactly_two_commands() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let blocks: Vec<&str> = text.split("```sh\n").skip(1).filter_map(|b| b.split("\n```").next()).collect();
    assert_eq!(blocks, ["cargo run --release -- speed am62a-w35n01jw", "./test"]);
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_floatgate")).args(args).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_readme_counts_right() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let parts = json(&["parts", "--confidence", "--json"]);
    let parts = parts.as_array().unwrap();
    assert!(text.contains(&format!("{} raw NAND", parts.len())), "there are {} parts", parts.len());
    let sum = |key: &str| parts.iter().map(|part| part[key].as_u64().unwrap()).sum::<u64>();
    let claimed =
        text.split("at least ").find_map(|after| after.split_once(" % of them")?.0.parse::<u64>().ok());
    let sure = sum("sure") * 100 / sum("fields");
    assert!(
        claimed.is_some_and(|claimed| claimed <= sure),
        "{sure} % are sure, the README says {claimed:?} %"
    );
    let summary = &json(&["papers", "--json"])["summary"];
    let [figures, ranges] = ["figures", "ranges"].map(|key| summary[key].as_u64().unwrap());
    let published = format!("{figures} published figures and {ranges} ranges");
    assert!(text.contains(&published), "there are {published}");
}

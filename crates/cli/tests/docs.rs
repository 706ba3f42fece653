//! Every command line in README.md, docs/tour.md and docs/fit.md works as typed, and every page leads on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

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
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains("://")).collect()
}

#[test]
fn every_link_of_a_page_leads_to_a_file() {
    let mut all = pages(&root().join("docs"));
    all.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page)));
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

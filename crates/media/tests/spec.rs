//! Checks cross-references between code and `docs/spec`: every section named in the code and every file named in a
//! section exists.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Rust files of a folder, with their text.
fn sources(folder: &Path, out: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else {
            out.push(fs::read_to_string(&path).unwrap());
        }
    }
}

/// Parts of `text` after each `start`, up to the first character of `ends`.
fn after<'a>(text: &'a str, start: &str, ends: &[char]) -> Vec<&'a str> {
    text.split(start).skip(1).map(|rest| rest.split(ends).next().unwrap()).collect()
}

/// Anchor of a heading in GitHub's rendering.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn sections_and_code_name_each_other() {
    let mut code = Vec::new();
    sources(&workspace().join("crates/media/src"), &mut code);
    for (format, sections) in [("ubi", 8), ("ubifs", 8), ("jffs2", 7)] {
        let text = fs::read_to_string(workspace().join(format!("docs/spec/{format}.md"))).unwrap();
        let anchors = anchors(&text);
        let start = format!("docs/spec/{format}.md#");
        let named: BTreeSet<_> = code.iter().flat_map(|source| after(source, &start, &['`', ' '])).collect();
        assert!(named.len() >= sections, "{format}: {named:?}");
        for name in named.into_iter().chain(after(&text, "](#", &[')'])) {
            assert!(anchors.contains(name), "{format}.md has no section {name}");
        }
        for file in after(&text, "](../../", &[')']) {
            assert!(workspace().join(file).exists(), "{format}.md names {file}");
        }
    }
}

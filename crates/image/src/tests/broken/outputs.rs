//! Output of the commands for an image, as text.

use std::fmt::Write;
use std::io;

use super::super::*;
use crate::ImageError;
use crate::check::{Outcome, check};
use crate::extract::{Contents, Entry, Target};
use crate::info::info;
use crate::repair::repair;
use crate::words::count;

/// Output of the commands, with one text each.
pub(super) struct Outputs {
    pub(super) check: String,
    info: String,
    pub(super) extract: String,
    repair: String,
}

/// Text about an image that can be read, but not repaired.
pub(super) const BAD_REPAIR: &str = "makes no clean image";

impl Outputs {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let [check, info, extract] = [check_output, info_output, extract_output].map(|output| {
            let image = Image::over(file(bytes), Access::Read);
            image.and_then(output).unwrap_or_else(|error| format!("exit 2: {error}\n"))
        });
        Self { check, info, extract, repair: repair_output(bytes) }
    }

    /// The text, without the parts that are the same for the undamaged image.
    pub(super) fn compared(&self, whole: &Self) -> String {
        let (info, extract) = (changes(&whole.info, &self.info), changes(&whole.extract, &self.extract));
        let Self { check, repair, .. } = self;
        format!(
            "image check:\n{check}\nimage check --repair:\n{repair}\nimage info:\n{info}\nimage extract:\n{extract}"
        )
    }
}

/// Lines that do not occur equally often in the two texts.
fn changes(whole: &str, broken: &str) -> String {
    if broken.starts_with("exit 2") {
        return broken.to_owned();
    }
    let mut rest: Vec<&str> = whole.lines().collect();
    let mut added = String::new();
    for line in broken.lines() {
        match rest.iter().position(|&known| known == line) {
            Some(at) => drop(rest.remove(at)),
            None => writeln!(added, "+ {line}").unwrap(),
        }
    }
    let missing: String = rest.iter().map(|line| format!("- {line}\n")).collect();
    if missing.is_empty() && added.is_empty() {
        "  as of the unbroken image\n".to_owned()
    } else {
        missing + &added
    }
}

fn check_output(image: Image) -> Result<String, ImageError> {
    let report = check(&image, &Selection::default())?;
    let mut text: String = report.images.iter().map(ToString::to_string).collect();
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings.iter().for_each(|finding| text.push_str(&finding.to_string()));
    let exit = match report.outcome {
        Outcome::Clean => "exit 0: clean",
        Outcome::Recoverable => "exit 1: recoverable",
        Outcome::Damaged => "exit 2: damaged",
    };
    writeln!(text, "{exit}, {}", count(findings.len() as u64 + report.unlisted, "finding")).unwrap();
    Ok(text)
}

fn repair_output(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["image", "repaired"].map(|name| folder.path().join(name));
    std::fs::write(&from, bytes).unwrap();
    match repair(&from, &to, &Selection::default()) {
        Ok(done) => {
            let losses: String =
                done.losses.iter().map(|loss| format!("lost: {}: {}\n", loss.path, loss.what)).collect();
            format!("{losses}{:?}: {} files, {:?}\n", done.method, done.entries, done.outcome)
        }
        Err(error) => format!("exit 2: {error}\n"),
    }
}

fn info_output(image: Image) -> Result<String, ImageError> {
    Ok(info(&image)?.to_string())
}

fn extract_output(image: Image) -> Result<String, ImageError> {
    let extraction = Extraction::open(&image, &Selection::default())?;
    let mut listing = Listing::default();
    let extracted = match extraction.run(&mut listing, &ExtractLimits::default(), &|_| {}) {
        Ok(extracted) => extracted,
        Err(error) => return Ok(format!("{}exit 2: {error}\n", listing.text)),
    };
    let mut text = listing.text;
    extracted.notes.iter().for_each(|note| writeln!(text, "note: {note}").unwrap());
    extracted.losses.iter().for_each(|loss| writeln!(text, "lost: {}: {}", loss.path, loss.what).unwrap());
    match extracted.losses.len() {
        0 => writeln!(text, "exit 0: nothing is lost").unwrap(),
        1 => writeln!(text, "exit 1: 1 loss").unwrap(),
        lost => writeln!(text, "exit 1: {lost} losses").unwrap(),
    }
    Ok(text)
}

/// Target that lists the extracted files.
#[derive(Default)]
struct Listing {
    text: String,
}

impl Listing {
    fn add(&mut self, entry: &Entry<'_>, what: &str) {
        let path = crate::extract::show_path(entry.path);
        let mode = entry.attributes.mode;
        write!(self.text, "{path}: {mode:o} {what}").unwrap();
        for (name, value) in entry.xattrs {
            let show = crate::extract::show_name;
            write!(self.text, ", {}={}", show(name), show(value)).unwrap();
        }
        self.text.push('\n');
    }
}

impl Target for Listing {
    fn enter(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        self.add(entry, "directory");
        Ok(Vec::new())
    }

    fn leave(&mut self, _: &Entry<'_>) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        let mut stored = 0;
        while let Some((_, piece)) = contents.next_piece() {
            stored += piece.len();
        }
        self.add(entry, &format!("file of {} bytes, {stored} of them no hole", contents.size()));
        Ok(Vec::new())
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        let target = entry.target.map(crate::extract::show_name);
        self.add(entry, &target.map_or("special".to_owned(), |target| format!("-> {target}")));
        Ok(Vec::new())
    }

    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        self.add(entry, &format!("= {}", crate::extract::show_path(first)));
        Ok(Vec::new())
    }
}

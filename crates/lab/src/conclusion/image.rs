//! Conclusions from images and from the ECC of their pages.

use super::sentence;
use crate::card::info::CardInfo;
use crate::envelope::Concluded;
use crate::show::number::grouped_count;
use floatgate_image::build::Built;
use floatgate_image::check::{CheckReport, Finding, Outcome, Structure};
use floatgate_image::diff::DiffReport;
use floatgate_image::ecc::{DecodeReport, EncodeReport, MergeReport};
use floatgate_image::edit::Edited;
use floatgate_image::env::Environment;
use floatgate_image::extract::{AllExtracted, Extracted};
use floatgate_image::info::{ImageInfo, OneImage};
use floatgate_image::map::{FlashMap, Kind};
use floatgate_image::patch::Patch;
use floatgate_image::repair::RepairReport;
use floatgate_image::words::count;
use floatgate_mtd::size::text as size;
use floatgate_mtd::words::grouped;

/// Listings have no conclusion.
impl Concluded for Environment {}
impl Concluded for CardInfo {}

impl Concluded for ImageInfo {
    /// States the contents of the file, and the first damage.
    fn conclusion(&self) -> String {
        if self.erased {
            return "Every byte is FFh: this is erased flash.".to_owned();
        }
        let held: Vec<String> = self.images.iter().map(held).collect();
        let held = match &held[..] {
            [] => return "No image is in this file.".to_owned(),
            [only] => format!("The file holds {only}."),
            several => format!("The file holds {} images: {}.", several.len(), several.join("; ")),
        };
        let damage = self.images.iter().find_map(|one| one.damage.as_ref().or(one.cut.as_ref()));
        let damage = damage.map_or_else(String::new, |damage| format!(" {}", sentence(damage)));
        let pages = if self.is_uncorrected {
            " Its pages fit no ECC code, so bit errors in them are not corrected."
        } else {
            ""
        };
        format!("{held}{damage}{pages}")
    }
}

/// Short description of an image.
fn held(one: &OneImage) -> String {
    let bytes = size(one.len);
    match (&one.ubi, &one.ubifs, &one.jffs2, &one.tree) {
        (Some(ubi), ..) => {
            let names: Vec<&str> = ubi.volumes.iter().map(|volume| volume.name.as_str()).collect();
            let volumes = count(names.len() as u64, "volume");
            match &names[..] {
                [] => format!("a UBI device of {bytes} without volumes"),
                names => format!("a UBI device of {bytes} with {volumes} ({})", names.join(", ")),
            }
        }
        (_, Some(ubifs), ..) => format!("a UBIFS of {bytes}, compressed with {}", ubifs.compression),
        (_, _, Some(jffs2), _) => {
            format!("a JFFS2 of {bytes} with {}", count(jffs2.files, "file"))
        }
        (.., Some(tree)) => {
            let is_vowel = matches!(tree.kind, Kind::Ext | Kind::Erofs | Kind::F2fs);
            format!("{} {} of {bytes}", if is_vowel { "an" } else { "a" }, tree.kind.name())
        }
        _ => format!("an image of {bytes} that cannot be read"),
    }
}

impl Concluded for CheckReport {
    /// States the outcome of the check.
    fn conclusion(&self) -> String {
        let damaged = count(self.count(Outcome::Damaged) as u64, "finding");
        let recoverable = count(self.count(Outcome::Recoverable) as u64, "finding");
        let undetermined = self.undetermined();
        let outcome = match self.outcome {
            Outcome::Clean if undetermined.is_some() => "clean according to its nodes".to_owned(),
            Outcome::Clean if !self.may_be_lost.is_empty() => {
                "clean according to its headers; the notes list possible losses".to_owned()
            }
            Outcome::Clean if self.is_unverified => {
                "no damage was found. The filesystem has no checksum over data".to_owned()
            }
            Outcome::Clean => "clean".to_owned(),
            Outcome::Recoverable => format!("recoverable: {recoverable} {}", recovered_by(self)),
            Outcome::Damaged => {
                format!("damaged: {damaged} of damage, {recoverable} that a mount makes good")
            }
        };
        sentence(
            &undetermined
                .map_or_else(|| outcome.clone(), |undetermined| format!("{outcome}; {undetermined}")),
        )
    }
}

/// Phrase on the recoverable findings. The next mount repairs all of them except pages that could
/// not be corrected because their ECC code is unknown.
fn recovered_by(report: &CheckReport) -> String {
    let is_page =
        |finding: &&Finding| finding.severity == Outcome::Recoverable && finding.structure == Structure::Page;
    let (pages, all) = (report.findings.iter().filter(is_page).count(), report.count(Outcome::Recoverable));
    match all - pages {
        _ if pages == 0 => "that the next mount makes good".to_owned(),
        0 => "of pages that could not be corrected".to_owned(),
        rest => format!("of which the next mount makes {rest} good"),
    }
}

impl Concluded for RepairReport {
    /// States the number of losses.
    fn conclusion(&self) -> String {
        let in_notes = || "the notes of `image check` list possible losses".to_owned();
        let undetermined =
            self.before.undetermined().or_else(|| (!self.before.may_be_lost.is_empty()).then(in_notes));
        let lost = match (self.losses.len() as u64, &undetermined) {
            (0, None) => "nothing is lost".to_owned(),
            (0, Some(_)) => "nothing else is lost".to_owned(),
            (1, _) => "1 thing is lost".to_owned(),
            (losses, _) => format!("{} are lost", count(losses, "thing")),
        };
        sentence(&undetermined.map_or_else(|| lost.clone(), |undetermined| format!("{lost}: {undetermined}")))
    }
}

/// Sentence on the number of items that were not restored or kept.
fn all_but(losses: usize, kept: &str, lost: &str) -> String {
    match losses as u64 {
        0 => format!("Everything {kept}."),
        1 => format!("1 thing was {lost}."),
        losses => format!("{} were {lost}.", count(losses, "thing")),
    }
}

impl Concluded for Extracted {
    fn conclusion(&self) -> String {
        if self.losses.is_empty() && self.is_unverified {
            return "No loss was found. The filesystem has no checksum over data.".to_owned();
        }
        all_but(self.losses.len(), "was restored bit for bit", "not restored bit for bit")
    }
}

impl Concluded for AllExtracted {
    fn conclusion(&self) -> String {
        let problems = self.parts.iter().filter(|part| part.problem.is_some()).count();
        if self.losses.len() + problems == 0 && self.is_unverified {
            return "No loss was found. Some filesystems have no checksum over data.".to_owned();
        }
        all_but(self.losses.len() + problems, "was restored bit for bit", "not restored bit for bit")
    }
}

impl Concluded for Built {
    fn conclusion(&self) -> String {
        all_but(self.losses.len(), "is in the image bit for bit", "not put into the image bit for bit")
    }
}

impl Concluded for Edited {
    fn conclusion(&self) -> String {
        match self.losses.len() {
            0 => format!("{} changed, and nothing was lost.", count(self.entries, "entry")),
            losses => all_but(losses, "was kept", "not kept"),
        }
    }
}

impl Concluded for DiffReport {
    /// States the number of paths that differ.
    fn conclusion(&self) -> String {
        let compared = count(self.entries, "path");
        match self.differences.len() {
            0 if !self.trouble.is_empty() => {
                format!("{compared} compared: all readable data is the same.")
            }
            0 => format!("{compared} compared: all the same."),
            1 => format!("{compared} compared: 1 of them differs."),
            differ => format!("{compared} compared: {differ} of them differ."),
        }
    }
}

impl Concluded for FlashMap {
    /// States the number of damaged parts.
    fn conclusion(&self) -> String {
        let parts = self.top().filter(|part| !part.kind.is_gap()).count() as u64;
        match (parts, self.damaged()) {
            (0, _) => "No format was found in this dump.".to_owned(),
            (parts, 0) => format!("No damage was found in {}.", count(parts, "part")),
            (_, 1) => "1 part is damaged.".to_owned(),
            (_, damaged) => format!("{} are damaged.", count(damaged as u64, "part")),
        }
    }
}

impl Concluded for Patch {
    /// States the number of PEBs to write.
    fn conclusion(&self) -> String {
        if let [first, others @ ..] = &self.misfits[..] {
            let more = match others.len() as u64 {
                0 => String::new(),
                more => format!(" {} more.", count(more, "reason")),
            };
            return format!("The new image does not fit: {first}.{more}");
        }
        let Self { changed_pebs, erased_pebs, pebs, peb_bytes, .. } = self;
        if *changed_pebs == 0 {
            return format!("All {pebs} PEBs are the same: there is nothing to write.");
        }
        let changed = count((*changed_pebs).into(), "PEB");
        let peb = size((*peb_bytes).into());
        format!("{changed} of {pebs} differ, {erased_pebs} of them erased in the new image; a PEB has {peb}.")
    }
}

impl Concluded for EncodeReport {
    fn conclusion(&self) -> String {
        let pages = grouped_count(self.pages, "page");
        match self.scheme.is_without_code() {
            true => {
                format!("{pages} {} written without ECC bytes.", if self.pages == 1 { "was" } else { "were" })
            }
            false => {
                let have = if self.pages == 1 { "has" } else { "have" };
                format!("{pages} {have} the ECC bytes of {}.", self.scheme.code)
            }
        }
    }
}

impl Concluded for DecodeReport {
    /// States the number of corrected bits, and of uncorrectable ECC steps.
    fn conclusion(&self) -> String {
        if self.scheme.is_without_code() {
            return "No code was applied: bit errors were not corrected.".to_owned();
        }
        let pages = grouped_count(self.pages, "page");
        if self.steps.total == 0 {
            return match self.pages {
                1 => "1 page holds no data: it is erased.".to_owned(),
                _ => format!("{pages} hold no data: they are erased."),
            };
        }
        let (code, steps) = (&self.scheme.code, &self.steps);
        let rest = if self.rest_bytes > 0 { " The dump ends within a page." } else { "" };
        match (steps.uncorrectable, self.corrected_bits) {
            (0, 0) => {
                let have = if self.pages == 1 { "has" } else { "have" };
                format!("{pages} {have} no wrong bit under {code}.{rest}")
            }
            (0, bits) => {
                let bits = grouped_count(bits, "bit");
                let most = self.max_corrected_bits;
                format!("{code} corrects all {pages}: {bits}, at most {most} in a step.{rest}")
            }
            (wrong, _) => {
                let of = grouped_count(steps.total, "step");
                format!("{code} cannot correct {} of {of}.{rest}", grouped(wrong))
            }
        }
    }
}

impl Concluded for MergeReport {
    /// States the number of ECC steps that neither a dump nor a vote corrects.
    fn conclusion(&self) -> String {
        let dumps = count(self.dumps.len() as u64, "dump");
        match (self.steps.total, self.steps.uncorrectable) {
            (0, _) => {
                format!("The bits of {dumps} were decided by vote, without a code: they cannot be verified.")
            }
            (total, 0) => format!("All {} are correct in the vote of {dumps}.", grouped_count(total, "step")),
            (total, wrong) => {
                let of = grouped_count(total, "step");
                format!("{} of {of} stay uncorrectable with {dumps}.", grouped(wrong))
            }
        }
    }
}

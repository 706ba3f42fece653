//! What the kernel says about the pages it read.

use crate::chips::Chip;
use crate::flips::{PAGES, Verdict};

/// The verdicts in nanddump's messages: `ECC: 9 corrected bitflip(s) at offset 0x00000800`, and the same with
/// `uncorrectable` for the number of steps. A page without a message is clean.
pub(crate) fn verdicts(chip: &Chip, log: &str) -> Vec<Verdict> {
    let mut pages = vec![Verdict::default(); PAGES];
    for line in log.lines() {
        let Some((what, offset)) = line.split_once(" bitflip(s) at offset 0x") else { continue };
        let page = &mut pages[usize::from_str_radix(offset, 16).unwrap() / chip.page];
        match what.split_whitespace().collect::<Vec<_>>()[..] {
            ["ECC:", count, "corrected"] => page.corrected = count.parse().unwrap(),
            ["ECC:", count, "uncorrectable"] => page.failed = count.parse().unwrap(),
            _ => panic!("{line}"),
        }
    }
    pages
}

/// A number of the chip's folder in sysfs.
pub(crate) fn counter(sysfs: &str, name: &str) -> usize {
    let line = sysfs.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().parse().unwrap()
}

//! Pages with software ECC, both ways.

use crate::chips::{CHIPS, Chip};
use crate::flips::{Random, Verdict, flip, pages};
use crate::judge::{fresh, judge};
use crate::log::{counter, verdicts};
use crate::ours::{decode, encode};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A chip's pages, before and after the guest had them.
struct Case {
    chip: &'static Chip,
    plain: Vec<u8>,
    /// Pages with OOB, as encoded here.
    encoded: Vec<u8>,
    /// The same with bit errors.
    raw: Vec<u8>,
    expected: Vec<Verdict>,
}

struct Judged {
    cases: Vec<Case>,
    output: PathBuf,
}

fn case(chip: &'static Chip) -> Case {
    let mut random = Random(0x6A75_6467);
    let plain = pages(chip, &mut random);
    let encoded = encode(chip, &plain);
    let mut raw = encoded.clone();
    let expected = flip(chip, &mut raw, &mut random);
    Case { chip, plain, encoded, raw, expected }
}

/// All chips in one boot, whichever test asks first.
fn judged() -> &'static Judged {
    static JUDGED: OnceLock<Result<Judged, String>> = OnceLock::new();
    let judged = JUDGED.get_or_init(|| {
        let cases: Vec<_> = CHIPS.iter().map(case).collect();
        let input = fresh("ecc-in");
        let put = |name: &str, bytes: &[u8]| fs::write(input.join(name), bytes).unwrap();
        for case in &cases {
            put(&format!("{}.plain", case.chip.name), &case.plain);
            put(&format!("{}.raw", case.chip.name), &case.raw);
        }
        let lines: String = cases.iter().map(|case| case.chip.line(case.plain.len())).collect();
        put("chips", lines.as_bytes());
        judge("ecc", "ecc", &input).map(|output| Judged { cases, output })
    });
    judged.as_ref().unwrap_or_else(|why| panic!("{why}"))
}

impl Judged {
    fn read(&self, case: &Case, what: &str) -> Vec<u8> {
        fs::read(self.output.join(format!("{}.{what}", case.chip.name))).unwrap()
    }

    fn text(&self, case: &Case, what: &str) -> String {
        String::from_utf8(self.read(case, what)).unwrap()
    }
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn pages_with_errors_are_corrected_by_the_kernel() {
    let judged = judged();
    for case in &judged.cases {
        let (chip, sysfs) = (case.chip, judged.text(case, "sysfs"));
        let verdicts = verdicts(chip, &judged.text(case, "log"));
        assert_eq!(verdicts, case.expected, "{}", chip.name);
        let sum = |of: fn(&Verdict) -> usize| verdicts.iter().map(of).sum::<usize>();
        assert_eq!(counter(&sysfs, "corrected_bits"), sum(|page| page.corrected), "{}", chip.name);
        assert_eq!(counter(&sysfs, "ecc_failures"), sum(|page| page.failed), "{}", chip.name);
        assert_eq!(counter(&sysfs, "ecc_strength"), chip.strength(), "{}", chip.name);
        assert_eq!(counter(&sysfs, "ecc_step_size"), chip.step(), "{}", chip.name);
        assert_corrected(case, &judged.read(case, "read"), &verdicts);
    }
}

/// Data is as it was before the errors, but for the steps that failed, which are left as they were read.
fn assert_corrected(case: &Case, read: &[u8], verdicts: &[Verdict]) {
    let chip = case.chip;
    assert_eq!(read.len(), case.plain.len(), "{}", chip.name);
    for (index, verdict) in verdicts.iter().enumerate() {
        let data = index * chip.page..(index + 1) * chip.page;
        let raw = &case.raw[index * (chip.page + chip.oob)..][..chip.page];
        let steps = read[data.clone()].chunks(chip.step()).zip(case.plain[data].chunks(chip.step()));
        let wrong = steps.zip(raw.chunks(chip.step())).filter(|((read, plain), _)| read != plain);
        let wrong: Vec<_> = wrong.map(|((read, _), raw)| read == raw).collect();
        assert!(wrong.len() <= verdict.failed, "{} page {index}", chip.name);
        assert!(wrong.iter().all(|as_read| *as_read), "{} page {index}", chip.name);
    }
}

/// Otherwise the test above would judge the kernel's own check bits.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn pages_reach_the_chip_as_they_were_encoded_here() {
    let judged = judged();
    for case in &judged.cases {
        assert!(judged.read(case, "stored") == case.raw, "{}", case.chip.name);
    }
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_writes_the_same_pages() {
    let judged = judged();
    for case in &judged.cases {
        assert!(judged.read(case, "written") == case.encoded, "{}", case.chip.name);
    }
}

/// Of pages with errors, also of steps that cannot be corrected, and of the kernel's own pages.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_and_floatgate_read_the_same() {
    let judged = judged();
    for case in &judged.cases {
        let (chip, log) = (case.chip, judged.text(case, "log"));
        let (data, found) = decode(chip, &judged.read(case, "stored"));
        assert_eq!(found, verdicts(chip, &log), "{}", chip.name);
        assert!(data == judged.read(case, "read"), "{}", chip.name);
        let (data, found) = decode(chip, &judged.read(case, "written"));
        assert!(data == case.plain && found.iter().all(|page| *page == Verdict::default()), "{}", chip.name);
    }
}

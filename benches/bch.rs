//! BCH codecs against the Linux kernel's: `cargo bench -p floatgate-ecc --bench bch`. Results in docs/performance.md.
//!
//! Both do the same pages, whole, in turn, on one core; the best round of each counts. Decoding starts with a copy of the
//! page as it was read, since it repairs in place. Without pip and cc there are no ratios. With `--no-default-features` the
//! portable path runs.
#![allow(missing_docs, reason = "a benchmark has no users")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot be set up should stop")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod bchlib;

use bchlib::{Bchlib, Runner};
use floatgate_ecc::{Bch, Code, Codec};
use std::hint::black_box;
use std::time::Instant;

/// Code, and the degree of its field: 0 for those that are not BCH.
const CODES: [(&str, u32); 6] = [
    ("bch4/512", 13),
    ("bch8/512", 13),
    ("bch24/1024", 14),
    ("bch40/1024", 14),
    ("hamming/256", 0),
    ("hamming/512", 0),
];

const PAGE_BYTES: usize = 4096;

/// Pages of a run: so many that no branch predictor learns their errors, so few that a run is short.
const PAGES: usize = 16;

/// Rounds of each side; the best counts.
const ROUNDS: usize = 100;

/// Length of a round, roughly: shorter than a scheduler lets a process run, so that some are not interrupted.
const ROUND_NS: f64 = 1e6;

/// What is to be done, as `bchlib/main.c` calls it, and how much faster it is to be.
const WORK: [(&str, f64); 3] = [("encode", 8.0), ("clean", 8.0), ("errors", 3.0)];

/// Numbers that look random (splitmix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// A page and its ECC bytes.
#[derive(Clone)]
struct Page {
    data: Vec<u8>,
    ecc: Vec<u8>,
}

impl Page {
    fn copy_from(&mut self, other: &Self) {
        self.data.copy_from_slice(&other.data);
        self.ecc.copy_from_slice(&other.ecc);
    }
}

/// Flips `strength` bits of each step, anywhere in data and check bits.
fn damaged(page: &Page, code: Code, check_bits: usize, noise: &mut Noise) -> Page {
    let mut page = page.clone();
    let steps = page.data.chunks_mut(code.step_bytes() as usize);
    for (data, ecc) in steps.zip(page.ecc.chunks_mut(code.ecc_bytes() as usize)) {
        let mut wrong = Vec::new();
        while wrong.len() < code.strength() as usize {
            let bit = noise.next() as usize % (8 * data.len() + check_bits);
            if wrong.contains(&bit) {
                continue;
            }
            wrong.push(bit);
            match bit.checked_sub(8 * data.len()) {
                None => data[bit / 8] ^= 0x80 >> (bit % 8),
                Some(bit) => ecc[bit / 8] ^= 0x80 >> (bit % 8),
            }
        }
    }
    page
}

/// Our side of the contest.
struct Ours {
    codec: Codec,
    clean: Vec<Page>,
    errors: Vec<Page>,
    work: Page,
}

impl Ours {
    fn new(code: Code, degree: u32) -> Self {
        let codec = Codec::new(code).unwrap();
        let mut noise = Noise(1);
        let ecc_bytes = PAGE_BYTES / code.step_bytes() as usize * code.ecc_bytes() as usize;
        let mut page = || {
            let data: Vec<u8> = (0..PAGE_BYTES / 8).flat_map(|_| noise.next().to_le_bytes()).collect();
            let mut ecc = vec![0; ecc_bytes];
            codec.encode_page(&data, &mut ecc);
            Page { data, ecc }
        };
        let clean: Vec<Page> = (0..PAGES).map(|_| page()).collect();
        let check_bits = if degree == 0 { 8 * code.ecc_bytes() } else { degree * code.strength() } as usize;
        let errors = clean.iter().map(|page| damaged(page, code, check_bits, &mut Noise(2))).collect();
        Self { work: clean[0].clone(), codec, clean, errors }
    }

    /// Does `what` to all pages `rounds` times; nanoseconds.
    fn time(&mut self, what: &str, rounds: u32) -> f64 {
        let start = Instant::now();
        for _ in 0..rounds {
            match what {
                "encode" => self.encode(),
                "clean" => decode(&self.codec, &self.clean, &mut self.work, 0),
                _ => decode(&self.codec, &self.errors, &mut self.work, self.codec.code().strength()),
            }
        }
        start.elapsed().as_nanos() as f64
    }

    fn encode(&mut self) {
        for page in &self.clean {
            self.codec.encode_page(black_box(&page.data), &mut self.work.ecc);
            assert!(self.work.ecc == page.ecc);
        }
    }

    /// The steps as bchlib is to see them: without the mask.
    fn steps(&self, degree: u32) -> Vec<u8> {
        let code = self.codec.code();
        let bare = Bch::new(degree, code.strength()).unwrap();
        let (step_bytes, ecc_bytes) = (code.step_bytes() as usize, code.ecc_bytes() as usize);
        let mut mask = vec![0; ecc_bytes];
        bare.encode(&vec![0xFF; step_bytes], &mut mask);
        let mut all = Vec::new();
        for (clean, errors) in self.clean.iter().zip(&self.errors) {
            for step in 0..PAGE_BYTES / step_bytes {
                for page in [clean, errors] {
                    all.extend(&page.data[step * step_bytes..][..step_bytes]);
                    all.extend(
                        page.ecc[step * ecc_bytes..].iter().zip(&mask).map(|(byte, mask)| byte ^ !mask),
                    );
                }
            }
        }
        all
    }
}

fn decode(codec: &Codec, pages: &[Page], work: &mut Page, errors: u32) {
    for page in pages {
        work.copy_from(black_box(page));
        codec.decode_page(&mut work.data, &mut work.ecc, |_, found| assert!(found == Ok(errors)));
    }
}

/// Best times of both sides for one pass over all pages, alternating.
fn contest(ours: &mut Ours, theirs: &mut Option<Runner>, what: &str) -> (f64, Option<f64>) {
    let rounds = |once: f64| (ROUND_NS / once).ceil() as u32;
    let our_rounds = rounds(ours.time(what, 1));
    let their_rounds = theirs.as_mut().map_or(0, |runner| rounds(runner.time(what, 1).unwrap()));
    let mut best = (f64::MAX, theirs.as_ref().map(|_| f64::MAX));
    for _ in 0..ROUNDS {
        best.0 = best.0.min(ours.time(what, our_rounds) / f64::from(our_rounds));
        if let (Some(runner), Some(least)) = (theirs.as_mut(), &mut best.1) {
            *least = least.min(runner.time(what, their_rounds).unwrap() / f64::from(their_rounds));
        }
    }
    best
}

/// Names on the command line choose codes and kinds of work; all of them if none is named.
fn wanted(chosen: &[String], name: &str, what: &str) -> bool {
    let allows = |names: &[&str], name: &str| {
        let mut named = chosen.iter().filter(|arg| names.contains(&arg.as_str())).peekable();
        named.peek().is_none() || named.any(|arg| arg == name)
    };
    allows(&CODES.map(|(name, _)| name), name) && allows(&WORK.map(|(what, _)| what), what)
}

fn main() {
    let judge = Bchlib::build().map_err(|reason| println!("no bchlib, so no ratios: {reason}\n")).ok();
    println!("| code | work | GB/s | us per 4 KiB page | bchlib GB/s | ratio | asked for |");
    println!("|---|---|---|---|---|---|---|");
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    for (name, degree) in CODES {
        let mut ours = Ours::new(name.parse().unwrap(), degree);
        let code = ours.codec.code();
        let mut theirs = judge.as_ref().filter(|_| degree > 0).map(|judge| {
            let steps = ours.steps(degree);
            judge.start(degree, code.strength(), code.step_bytes() as usize, &steps).unwrap()
        });
        for (what, target) in WORK.into_iter().filter(|(what, _)| wanted(&chosen, name, what)) {
            let (our_ns, their_ns) = contest(&mut ours, &mut theirs, what);
            let rate = |ns: f64| (PAGES * PAGE_BYTES) as f64 / ns;
            let us = our_ns / PAGES as f64 / 1e3;
            let against = their_ns
                .map_or("- | - | -".into(), |ns| format!("{:.3} | {:.1} | {target}", rate(ns), ns / our_ns));
            println!("| {name} | {what} | {:.2} | {us:.2} | {against} |", rate(our_ns));
        }
    }
}

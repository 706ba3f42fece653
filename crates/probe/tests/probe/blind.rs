//! Blind recovery: random cards are probed, and what is concluded is compared with what they are.

use crate::generator::Unknown;
use floatgate_probe::{Answer, Probe, ProbeOptions, conclude};
use std::fmt::Write as _;

/// An answer beside the truth.
struct Verdict {
    question: &'static str,
    confidence: f64,
    is_answered: bool,
    is_right: bool,
}

fn verdict(question: &'static str, answer: &Answer, truth: u64) -> Verdict {
    let value = answer.count();
    Verdict {
        question,
        confidence: answer.confidence,
        is_answered: value.is_some(),
        is_right: value == Some(truth),
    }
}

fn probe(card: &Unknown) -> (Vec<Verdict>, String) {
    let mut target = card.target();
    let mut probe = Probe::new(&mut target, ProbeOptions { seed: card.seed, usable_bytes: 0 });
    probe.measure_reads().unwrap();
    let plan = probe.write_plan();
    probe.measure_writes(&plan).unwrap();
    let answers = conclude(probe.samples());
    let (linear, random) = card.open_aus();
    let verdicts = vec![
        verdict("erase_block", &answers.erase_block, card.spec.au_bytes),
        verdict("open_aus_linear", &answers.open_aus_linear, linear),
        verdict("open_aus_random", &answers.open_aus_random, random),
        verdict("page", &answers.page, card.spec.page_bytes),
    ];
    let mut wrong = String::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.is_right) {
        let answer = answers.all().into_iter().find(|(name, _)| *name == verdict.question).unwrap().1;
        let _ = writeln!(wrong, "  {}: {:?} {:.2} {}", verdict.question, answer.value, answer.confidence, answer.reason);
    }
    if !wrong.is_empty() {
        let s = &card.spec;
        let _ = writeln!(
            wrong,
            "  is: AU {} KiB, page {} KiB, open {linear}/{random}, fat {:?}, slc {}, dies {}, bits {}, buffer {} KiB, {:?}, switch {}, hidden {}, noise {}, {} requests",
            s.au_bytes >> 10, s.page_bytes >> 10, s.fat, s.slc.blocks, s.dies, s.bits_per_cell, s.buffer_bytes >> 10,
            s.timing.t_prog_us, s.timing.au_switch_us, card.hidden_sectors, card.noise, probe.samples().all.len(),
        );
    }
    (verdicts, wrong)
}

fn campaign(first: u64, count: u64) -> Vec<Verdict> {
    let mut all = Vec::new();
    for seed in first..first + count {
        let start = std::time::SystemTime::now();
        let (verdicts, wrong) = probe(&Unknown::new(seed));
        let ms = start.elapsed().unwrap().as_millis();
        if !wrong.is_empty() || ms > 2000 { println!("card {seed}: {ms} ms\n{wrong}"); }
        all.extend(verdicts);
    }
    for question in ["erase_block", "open_aus_linear", "open_aus_random", "page"] {
        let of: Vec<&Verdict> = all.iter().filter(|v| v.question == question).collect();
        let right = of.iter().filter(|v| v.is_right).count();
        let answered = of.iter().filter(|v| v.is_answered).count();
        let sure = of.iter().filter(|v| v.is_answered && !v.is_right && v.confidence > 0.9).count();
        println!("{question}: {right} right, {answered} answered of {}; wrong above 0.9: {sure}", of.len());
    }
    all
}

#[test]
fn fixed() {
    let first = std::env::var("FIRST").map_or(0, |s| s.parse().unwrap());
    let count = std::env::var("COUNT").map_or(10, |s| s.parse().unwrap());
    campaign(first, count);
}

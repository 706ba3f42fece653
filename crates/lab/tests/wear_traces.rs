//! Broken traces, each with its message: `golden/traces/NAME` and `NAME.txt`. `UPDATE_GOLDEN=1` rewrites the messages.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::Library;
use floatgate_lab::endurance::predict::{Sample, parse, predict};
use floatgate_lab::endurance::{Experiment, Subject, run};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/traces");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e != "txt")).collect();
    files.sort();
    files
}

#[test]
fn every_broken_trace_has_its_message() {
    let files = files();
    assert!(files.len() > 25, "the golden files are gone");
    let mut different = Vec::new();
    for file in files {
        let error = parse(&std::fs::read_to_string(&file).unwrap()).expect_err(&file.display().to_string());
        let (message, golden) = (format!("{error}\n"), PathBuf::from(format!("{}.txt", file.display())));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, message).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != message {
            different.push(format!("{}: {message}", file.display()));
        }
    }
    assert!(different.is_empty(), "not as in the golden files:\n{}", different.concat());
}

fn chip() -> Subject {
    Subject::new(&Library::built_in(), "mt29f8g08maawc", &[]).unwrap()
}

fn values(samples: &[Sample]) -> Vec<(Option<u64>, Option<f64>, Option<f64>)> {
    samples.iter().map(|s| (s.cycle, s.program_us, s.erase_us)).collect()
}

#[test]
fn all_ways_to_write_a_trace_are_the_same() {
    let expected = vec![(Some(10), Some(650.0), Some(2000.0)), (Some(2000), Some(610.5), Some(2450.0))];
    for text in [
        "10,650,2000\n2000,610.5,2450",
        "# my tester\n\ncycle,program_us,erase_us\r\n10,650,2000\r\n2e3, 610.5, 2450\r\n",
        "erase_us;cycle;program_us\n2000;10;650\n2450;2000;610.5\n",
        r#"[{"cycle": 10, "program_us": 650, "erase_us": 2000}, {"cycle": 2000, "program_us": 610.5, "erase_us": 2450}]"#,
    ] {
        assert_eq!(values(&parse(text).unwrap()), expected, "{text}");
    }
    assert_eq!(values(&parse("650,2000").unwrap()), [(None, Some(650.0), Some(2000.0))]);
    assert_eq!(values(&parse("erase_us\n2000").unwrap()), [(None, None, Some(2000.0))]);
}

/// The output of `--json` can be read again. At the end of a life, the prediction is that it is over.
#[test]
fn a_report_is_a_trace() {
    let (chip, experiment) = (chip(), Experiment::default());
    let report = run(&chip, &experiment).unwrap();
    let samples = parse(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(samples.len(), report.trace.points.len());
    let prediction = predict(&chip, &experiment, &samples).unwrap();
    assert!(prediction.used.high > 0.95, "{prediction:?}");
    assert!(prediction.remaining.low < 0.05 * report.life.median as f64, "{prediction:?}");
}

#[test]
fn times_of_another_chip_are_refused_with_their_line() {
    let samples = parse("cycle,program_us,erase_us\n1,650,2000\n2,200,2000\n").unwrap();
    let error = predict(&chip(), &Experiment::default(), &samples).unwrap_err().to_string();
    assert!(error.starts_with("line 3: ") && error.contains("200 us"), "{error}");
}

proptest! {
    #[test]
    fn no_text_is_fatal(text in prop_oneof![".{0,200}", "[0-9,.;\\n e+-]{0,200}", r#"[\[\]{}":,0-9a-z_ ]{0,200}"#]) {
        if let Ok(samples) = parse(&text) {
            prop_assert!(!samples.is_empty());
        }
    }

    /// For any measurement, the ends of an interval are in order and not negative.
    #[test]
    fn any_possible_times_give_an_interval(
        rows in proptest::collection::vec((0u64..3_000_000, 390.0f64..700.0, 1900.0f64..6700.0), 1..12),
        counted: bool,
    ) {
        let mut rows = rows;
        rows.sort_by_key(|row| row.0);
        let line = |(cycle, program, erase): &(u64, f64, f64)| match counted {
            true => format!("{cycle},{program},{erase}\n"),
            false => format!("{program},{erase}\n"),
        };
        let samples = parse(&rows.iter().map(line).collect::<String>()).unwrap();
        if let Ok(p) = predict(&chip(), &Experiment::default(), &samples) {
            for i in [p.used, p.remaining] {
                prop_assert!(0.0 <= i.low && i.low <= i.median && i.median <= i.high, "{:?}", p);
            }
            prop_assert!(p.used.high <= 1.0 + 1e-9);
        }
    }
}

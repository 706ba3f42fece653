use super::*;
use crate::results::report_of;
use crate::show::report::Timed;
use crate::speed::SpeedOptions;
use crate::speed_run;
use serde_json::json;

const SETUP: &str = "am62a-w35n01jw";

/// A result with a conclusion.
#[derive(serde::Serialize)]
struct Plain<'a> {
    #[serde(flatten)]
    result: &'a serde_json::Value,
    #[serde(skip)]
    conclusion: &'static str,
}

impl Concluded for Plain<'_> {
    fn conclusion(&self) -> String {
        self.conclusion.to_owned()
    }
}

/// JSON of a result as a command prints it.
fn marked(kind: ResultKind, result: &serde_json::Value) -> String {
    in_envelope(&kind.of_nothing(), result, "")
}

fn in_envelope(origin: &Origin, result: &serde_json::Value, conclusion: &'static str) -> String {
    serde_json::to_string(&origin.around(&Plain { result, conclusion })).unwrap()
}

fn of_setup() -> Report {
    let library = Library::built_in();
    let mut report = Report::new("Boards", "floatgate report");
    let setup = library.setup(SETUP).unwrap();
    report.add_setup(&library, SETUP, &setup, &[], RigOptions::default()).unwrap();
    report
}

#[test]
fn a_setup_has_bars_waterfalls_and_sources() {
    let section = of_setup().sections.remove(0);
    let advice = |row: &Timed| row.below.iter().any(|line| line.to_string().starts_with("bottleneck: "));
    assert!(section.bars.iter().any(|row| row.bar.label == "page read" && advice(row)));
    assert!(section.tables[0].folded && section.tables[0].columns.contains(&"exact (KiB/s)".to_owned()));
    assert_eq!(section.waterfalls.len(), 3);
    let sources = section.sources.unwrap();
    assert!(sources.rows.len() > 20 && sources.columns.iter().any(|column| column == "confidence (%)"));
    let is_timing = |row: &&page::model::Row| {
        row.cells
            .iter()
            .any(|cell| matches!(cell, page::model::Cell::Text(text) if text.starts_with("chip.timing.")))
    };
    assert!(sources.rows.iter().any(|row| is_timing(&row)), "{:?}", sources.rows);
}

/// Result of `trace` with this operation, these times by phase, and these activities.
fn trace_of(operation: &str, breakdown: &serde_json::Value, spans: &serde_json::Value) -> String {
    let link = json!({ "read": "r", "write": "w", "clock_hz": 0, "mode": "", "not_given": [], "notes": [] });
    let trace = json!({
        "title": operation, "chip": "x", "link": link, "operation": operation, "ns": 3000, "bytes": 1,
        "bitflips": 0, "retries": 0, "scrub_requests": 0, "breakdown_ns": breakdown, "spans": spans,
    });
    marked(ResultKind::Trace, &trace)
}

/// If they were rounded one by one, three thirds of a time would be 99.9 %.
#[test]
fn shares_are_those_of_the_terminal() {
    let trace =
        trace_of("read-page", &json!({ "array": 1000, "data": 1000, "cpu": 999, "ecc": 1 }), &json!([]));
    let mut report = Report::new("", "");
    report.add_json("trace.json", &trace).unwrap();
    let page = report.html().unwrap();
    assert!(page.contains("array 33.4 %, data 33.3 %, cpu 33.3 %<"), "{page}");
    assert!(page.contains("title=\"ecc &lt; 0.05 %\""));
}

/// Impossibly long times are left out, even if their sum overflows.
#[test]
fn huge_times_are_no_bar() {
    let times = json!({ "array": u64::MAX, "data": u64::MAX, "cpu": 999 });
    let mut report = Report::new("", "");
    report.add_json("trace.json", &trace_of("read-page", &times, &json!([]))).unwrap();
    assert!(report.html().unwrap().contains("cpu 100.0 %"));
    for (resource, start, end) in [("moon", 0, 5), ("die 0", 5, 0), ("die 0", 0, u64::MAX)] {
        let span = json!([{ "resource": resource, "phase": "array", "start_ns": start, "end_ns": end, "what": "x" }]);
        let error = report.add_json("trace.json", &trace_of("read-page", &times, &span)).unwrap_err();
        assert!(error.to_string().contains("a span has an unknown resource"), "{error}");
    }
}

#[test]
fn a_page_loads_nothing_and_is_the_same_every_time() {
    let (first, second) = (of_setup().html().unwrap(), of_setup().html().unwrap());
    assert_eq!(first, second);
    for way_out in ["http://", "https://", "<link", "src=\"", "@import", "url("] {
        // The library contains names of XML namespaces, and licences with addresses.
        assert!(!first.replace(page::LIBRARY, "").contains(way_out), "{way_out}");
    }
}

#[test]
fn texts_of_inputs_stay_texts() {
    let evil = "</script><img onerror=x>\u{1b}[31m\u{202e}";
    let spans = json!([{ "resource": "die 0", "phase": "array", "start_ns": 0, "end_ns": 5, "what": evil }]);
    let mut report = Report::new(evil, evil);
    report.add_json(evil, &trace_of(evil, &json!({ "array": 5 }), &spans)).unwrap();
    report.add_csv(evil, "a,b\n1,\"<i>\"\n").unwrap();
    let page = report.html().unwrap();
    for taken in ["</script><img", "<img", "<i>", "\u{1b}", "\u{202e}"] {
        assert!(!page.contains(taken), "{taken:?}");
    }
}

#[test]
fn what_is_no_result_is_refused_with_its_name() {
    let speed = speed_run::measure(
        &Library::built_in(),
        &Library::built_in().resolve(&Library::built_in().setup(SETUP).unwrap(), &[]).unwrap(),
        RigOptions::default(),
        &SpeedOptions::default(),
    );
    let good = serde_json::to_value(speed.unwrap()).unwrap();
    let mut report = Report::new("", "");
    report.add_json("good.json", &marked(ResultKind::Speed, &good)).unwrap();
    let [mut without, mut wrong] = [good.clone(), good.clone()];
    without.as_object_mut().unwrap().remove("tests");
    wrong["tests"] = json!([1, 2]);
    let of_head = |version: &str, kind: &str| json!({ "floatgate": version, "kind": kind }).to_string();
    for (text, part) in [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("7", "without `floatgate` and `kind`"),
        ("null", "without `floatgate` and `kind`"),
        ("[]", "without `floatgate` and `kind`"),
        ("{}", "without `floatgate` and `kind`"),
        (r#"[{"combination": "x"}]"#, "without `floatgate` and `kind`"),
        (&good.to_string(), "without `floatgate` and `kind`"),
        (&marked(ResultKind::Speed, &without), "a result of the kind `speed`, but missing field `tests`"),
        (&marked(ResultKind::Speed, &wrong), "a result of the kind `speed`, but invalid type"),
        (
            &marked(ResultKind::Parts, &json!({ "rows": 5 })),
            "a result of the kind `parts`, but `rows` is no list",
        ),
        (
            &marked(ResultKind::SpeedSweep, &json!({ "rows": [{ "run": null }] })),
            "missing field `combination`",
        ),
        (&of_head("0.1.0", "luck"), "no result is of the kind \"luck\""),
        (&of_head("0.2.0", "luck"), "floatgate 0.2.0 wrote it, which is newer"),
        (&of_head("1", "speed"), "without `floatgate` and `kind`"),
    ] {
        let error = report.add_json("bad.json", text).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("bad.json: ") && said.contains(part), "{text}: {said}");
        assert!(error.help().is_some(), "{text}: {said}");
    }
    for text in ["", "a,b\n", "a,b\n1\n", "a,\n1,2\n", "a\n\"1\n"] {
        assert!(report.add_csv("bad.csv", text).is_err(), "{text:?}");
    }
    assert_eq!(report.sections.len(), 1, "what is refused is not added");
}

/// Checks that names that look like numbers, such as `0123`, stay as written, and that numbers keep all their
/// digits.
#[test]
fn a_csv_keeps_its_texts() {
    let mut report = Report::new("", "");
    let text = "\u{feff}serial,seed,speed\n0123,9007199254740993,1e3\n00,18446744073709551615,0.5\n";
    report.add_csv("a.csv", text).unwrap();
    let table = &report.sections[0].tables[0];
    assert_eq!(table.columns, ["serial", "seed", "speed"]);
    assert_eq!(table.numeric(), [false, false, true]);
    let page = report.html().unwrap();
    for text in [">0123<", ">00<", ">9007199254740993<", ">18446744073709551615<", ">1000<", ">0.5<"] {
        assert!(page.contains(text), "{text}");
    }
    let rows = json!({ "rows": [{ "nominal_cycles": 9_007_199_254_740_993_u64, "life": 1.5 }] });
    report.add_json("a.json", &marked(ResultKind::Parts, &rows)).unwrap();
    assert!(report.html().unwrap().contains("9007199254740993"));
}

#[test]
fn advice_and_registers_are_tables() {
    let mut report = Report::new("", "");
    let advice = json!({
        "title": "a card", "capacity_bytes": 5,
        "points": [{ "topic": "mkfs", "advice": "do", "commands": ["mkfs -F x", "mount y"], "rests_on": [], "would_change": [] }],
    });
    report.add_json("advise.json", &marked(ResultKind::Advise, &advice)).unwrap();
    let info = json!({
        "card": "X", "title": "a card", "registers": [{ "name": "cid", "text": "0a0b" }],
        "identity": { "oem": "XY", "year": 2016 }, "sd": null, "capacity_bytes": 5,
    });
    report.add_json("info.json", &marked(ResultKind::CardInfo, &info)).unwrap();
    let page = report.html().unwrap();
    for text in ["mkfs -F x; mount y", "0a0b", "identity.oem", "2016"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn rows_of_an_object_have_their_keys() {
    let probe = json!({
        "capacity_bytes": 5, "samples": 1, "complete": true,
        "answers": { "erase_block": { "value": 4_194_304, "unit": "B", "confidence": 0.9, "reason": "a <b>" } },
    });
    let mut report = Report::new("", "");
    report.add_json("probe.json", &marked(ResultKind::Probe, &probe)).unwrap();
    let page = report.html().unwrap();
    for text in ["erase block", "4194304", "a &lt;b&gt;"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn rows_are_left_out_of_a_large_table_but_not_those_of_the_front() {
    let rows = 200_000;
    let line = |i: usize| format!("{i},{},{}\n", rows - i, if i % 1000 == 7 { "true" } else { "" });
    let text: String = std::iter::once("speed,cost,pareto\n".to_owned()).chain((0..rows).map(line)).collect();
    let mut report = Report::new("Large", "");
    report.add_csv("large.csv", &text).unwrap();
    let page = report.html().unwrap();
    assert!(page.len() <= MAX_BYTES);
    assert_eq!(page.matches("class=\"front\"").count(), 200);
    assert!(page.contains(&format!(" of {rows} rows are in this report")));
}

fn page_of(kind: ResultKind, result: &serde_json::Value) -> String {
    let mut report = Report::new("", "");
    report.add_json("result.json", &marked(kind, result)).unwrap();
    report.html().unwrap()
}

/// Checks that the report states the time and cause of each chip's failure, without fields that only programs
/// read.
#[test]
fn lives_of_chips_are_told_in_words() {
    let life = |seed: u32, years: Option<f64>, why: Option<&str>| {
        json!({ "seed": seed, "failed_after_years": years, "failure": why, "moved": 3, "bad_blocks": 0,
            "cycles": { "least": 1, "mean": 2, "most": 9 } })
    };
    let run = |days: Option<u32>, survived: u32| {
        json!({ "title": "board", "chip": "maker chip", "filesystem": "ubifs", "scrub_days": days, "years": 5.0,
            "temperature_c": 55.0, "write_bytes_per_day": 1 << 20, "cycles_before": 0, "rated_cycles": 1000,
            "wear": { "cycles": 1000, "reason": "promised", "cycles_at_end": 9, "worn_out_after_years": null },
            "promised_retention_years": null, "cells_simulated": true, "survived": survived, "probability": [0.0567, 0.5],
            "lives": [life(0, Some(3.25), Some("data lost")), life(1, None, None)] })
    };
    let result = json!({ "runs": [run(None, 1), run(Some(91), 0)] });
    let mut report = Report::new("", "");
    report.add_study("age.json", &crate::study::Age, &result).unwrap();
    let page = report.html().unwrap();
    for text in [
        "UBIFS for 5 years at 55 C, 1 MiB written a day",
        "without ubihealthd: 1 of 2 chips survive; probability 6 to 50 % (95 %)</caption>",
        "ubihealthd every 91 days: 0 of 2 chips survive",
        r#"<td class="n" data-v="3.25">3.2 years</td>"#,
        "data lost",
        "not enough: try --scrub-days with fewer days",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(
        page.contains("id=\"summary\">1&nbsp;of 2&nbsp;chips survive 5&nbsp;years at 55&nbsp;C without ubihealthd; 0&nbsp;of"),
        "the verdict"
    );
}

#[test]
fn that_nothing_failed_is_told() {
    let cuts = json!({
        "flash": { "on": "chip" }, "workloads": 1, "by_step": [{ "step": "sync", "runs": 3, "failures": 0 }],
        "kinds": [], "failure_count": 0, "failures": [],
    });
    let page = page_of(ResultKind::Powercut, &cuts);
    for text in [">failure count<", ">failures<", "failures: none"] {
        assert!(page.contains(text), "{text}");
    }
}

/// A result of a command that is no study has the same report on a page and on a terminal.
#[test]
fn results_are_read_back() {
    let cuts = json!({
        "card": "x", "capacity_bytes": 4096, "runs": 2, "cuts": 8, "recovery_cuts": 5, "requests": 7, "flushes": 1, "failed_blocks": 0,
        "worn_out": 0, "ready_us_max": 5.0, "ready_us_bound": 9.0, "failures": [{ "id": "0-4", "problem": "a lost sector" }],
    });
    let fit = json!({
        "title": "board", "understood": 1, "unexplained": [3, 7], "unknown": [{ "line": 9, "text": "foo", "why": "no form" }], "held": [],
        "rows": [], "worst": 0.01, "worst_left_out": null, "median_left_out": null, "hypotheses": [], "predictions": [], "undecided": [],
        "remarks": [], "usable": true, "parameters": [{ "path": "host.call_us", "operation": "read", "before": 1.0, "value": 2.5, "low": 0.0,
            "high": 5.0, "same_effect": [] }],
    });
    let region = json!({ "area": "user", "offset": 0, "bytes": 64, "locked": false, "written_bytes": 4 });
    let otp = json!({ "chip": "N25Q128A", "regions": [region] });
    for (kind, result, texts) in [
        (ResultKind::CardPowercut, &cuts, ["8 cuts in 2 runs", "a lost sector", "the bound is 9.00 us"]),
        (ResultKind::Fit, &fit, ["line 9: no form: foo", "the figure of line 7", "host.call_us"]),
        (ResultKind::OtpInfo, &otp, ["N25Q128A", ">written<", ">user<"]),
    ] {
        let page = page_of(kind, result).replace("&nbsp;", " ");
        for text in texts {
            assert!(page.contains(text), "{kind}: {text}: {page}");
        }
    }
}

#[test]
fn small_numbers_are_not_zero() {
    let code = |lost: f64| json!({ "code": "bch", "lost_pages": lost });
    let all = [1.109_384_430_5e-23, 6.9e-10, 0.000_192_158_2, 1e-4];
    let page = page_of(ResultKind::EccAdvise, &json!({ "use": { "uber": 1e-15 }, "codes": all.map(code) }));
    for text in [">1e-15<", ">1.11e-23<", ">6.9e-10<", ">0.000192<", ">0.0001<"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn columns_of_a_sweep_in_python_are_taken() {
    let table = json!({ "bus.clock_hz": [1, 2], "feasible": [true, true], "pareto": [false, true], "refused": [null, null] });
    let mut report = Report::new("", "");
    report.add_json("table.json", &table.to_string()).unwrap();
    let page = report.html().unwrap();
    assert_eq!(page.matches("class=\"front\"").count(), 1);
    assert!(page.contains("bus.clock_hz") && !page.contains(">refused<"));
}

#[test]
fn catalogues_are_tables() {
    let library = Library::built_in();
    let setups = json!({ "rows": crate::catalogue::setups(&library).unwrap() });
    let parts = json!({ "rows": crate::catalogue::parts(&library).unwrap() });
    let hosts = json!({ "rows": [{ "name": "a", "title": "b", "lowest_confidence": 0.5 }] });
    let mut report = Report::new("Catalogues", "");
    for (kind, rows) in [(ResultKind::Setups, setups), (ResultKind::Parts, parts), (ResultKind::Hosts, hosts)]
    {
        report.add_json("list.json", &marked(kind, &rows)).unwrap();
    }
    let kinds: Vec<&str> = report.sections.iter().map(|section| section.kind.as_str()).collect();
    assert_eq!(kinds, ["setups", "parts", "hosts"]);
    let page = report.html().unwrap();
    assert!(page.contains("am62a-w35n01jw") && page.contains("kingston-class-10"));
    assert!(!page.contains(page::LIBRARY), "nothing is drawn");
}

/// A report shows the lists of every kind of result, also of those whose tables have no captions of their own.
#[test]
fn every_kind_of_result_is_shown() {
    let row = json!({ "check": "a check", "result": "passed", "why": null, "steps": [1, 2] });
    let nested = json!({ "name": "outer", "inner": [{ "name": "an inner row" }] });
    let others = json!({ "some_rows": [row], "outer_rows": [nested], "passed": 3 });
    for documented in documented_kinds() {
        match serde_json::from_value::<ResultKind>(json!(documented.kind)) {
            Ok(kind) if read::tables(kind).is_none() && report_of(kind, &others).is_none() => {
                let page = page_of(kind, &others);
                let is_shown = |text: &&str| page.contains(*text);
                let texts = ["Some rows", "a check", "Outer rows: inner", "an inner row"];
                assert!(texts.iter().all(is_shown), "{}: {page}", documented.kind);
            }
            _ => {}
        }
    }
    for (kind, list) in [(ResultKind::PowercutProgram, "failures"), (ResultKind::Conformance, "rows")] {
        assert!(page_of(kind, &json!({ list: [row], "passed": 3 })).contains("a check"), "{kind}");
    }
}

/// The input of a result is one of its facts.
#[test]
fn a_section_names_the_input_of_its_result() {
    let rows = json!({ "rows": [{ "part": "a" }] });
    let origin = ResultKind::Parts.of("board.toml").with(&["chip=a".to_owned()]).seeded(7);
    let mut report = Report::new("", "");
    report.add_json("list.json", &in_envelope(&origin, &rows, "")).unwrap();
    let facts: Vec<(&str, &str)> =
        report.sections[0].facts.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(facts, [("target", "board.toml"), ("overrides", "chip=a"), ("seed", "7")]);
}

#[test]
fn a_drawing_has_its_library_and_that_its_licences() {
    assert!(of_setup().html().unwrap().contains(page::LIBRARY));
    for of in ["@observablehq/plot", "d3-scale", "isoformat"] {
        assert!(page::LIBRARY.split("*/").next().unwrap().contains(of), "{of}");
    }
}

/// A result without bars has charts of its figures, but not of values in different units.
#[test]
fn every_kind_of_result_has_a_picture() {
    let section = |kind: ResultKind, result: &serde_json::Value| {
        let mut report = Report::new("", "");
        report.add_json("result.json", &marked(kind, result)).unwrap();
        report.sections.remove(0)
    };
    let cuts = json!({ "by_step": [{ "step": "sync", "runs": 3 }, { "step": "create", "runs": 5 }], "kinds": [{ "kind": "early", "runs": 1 }], "failures": [] });
    let charts = section(ResultKind::Powercut, &cuts).charts();
    let bars: Vec<(&str, f64)> = charts[0].bars.iter().map(|bar| (bar.name.as_str(), bar.value)).collect();
    assert_eq!((charts[0].caption.as_str(), bars), ("runs", vec![("sync", 3.0), ("create", 5.0)]));
    let answers = json!({ "answers": {
        "page": { "value": 4096, "unit": "B", "confidence": 0.5 }, "speed": { "value": 9, "unit": "MB/s", "confidence": 0.9 } } });
    let probed = section(ResultKind::Probe, &answers);
    assert_eq!(probed.charts()[0].caption, "confidence");
    // Sizes have the units of the terminal.
    let page = &probed.tables[0].rows[0].cells;
    assert!(page.contains(&page::model::Cell::Shown(4096.0, "4".to_owned())), "{page:?}");
    assert!(page.contains(&page::model::Cell::Text("KiB".to_owned())), "{page:?}");
    for (caption, meaning) in [
        ("read, MiB/s", "longer is faster"),
        ("ready, s", "shorter is faster"),
        ("page read KiB/s", "longer is faster"),
        ("life, years", "longer lasts longer"),
        ("runs", ""),
    ] {
        let chart = page::model::Chart { caption: caption.to_owned(), bars: Vec::new() };
        assert_eq!(chart.meaning(), meaning, "{caption}");
    }
    let cell = |card: &str, filesystem: &str, time: f64, is_ranked: bool| {
        json!({ "card": card, "filesystem": filesystem, "workload": "create", "relative_time": time, "is_ranked": is_ranked, "mount_us": 1.0,
            "time_us": 5.0, "longest_us": 2.0, "write_amplification": 1.5, "erases": 0, "failed": 0, "discarded_bytes": 0, "syncs": 0,
            "sync_p50_us": 0.0, "sync_max_us": 0.0, "written_aus": 1, "open_aus_p99": 1, "au_changes": 0 })
    };
    let cells = [cell("x", "ext4", 2.0, true), cell("x", "f2fs", 1.0, true), cell("x", "nilfs2", 0.1, false)];
    let card = |name: &str| json!({ "card": name, "filesystems": [{ "filesystem": "f2fs", "relative_time": 1.0 }], "advice": "Use f2fs." });
    let compared = json!({ "cells": cells, "cards": [card("x"), card("y")], "remarks": ["a remark"] });
    let mut report = Report::new("", "");
    report.add_study("compare.json", &crate::study::CompareOnCards, &compared).unwrap();
    assert_eq!(
        report.sections[0].heat.as_ref().unwrap().rows[0],
        ("x".to_owned(), vec![Some(2.0), Some(1.0)])
    );
    let page = report.html().unwrap();
    for text in ["x: Use f2fs.", ">best<", ">nilfs2<", "a remark"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(section(ResultKind::Parts, &json!({ "rows": [{ "part": "a", "sure": 1 }] })).charts().is_empty());
}

#[test]
fn a_page_begins_with_conclusions_and_keeps_numbers_with_their_units() {
    let of = |conclusion| {
        let result = json!({ "by_step": [], "kinds": [], "failures": [] });
        in_envelope(&ResultKind::Powercut.of_nothing(), &result, conclusion)
    };
    let mut report = Report::new("Cuts", "floatgate report");
    report.add_json("a.json", &of("Nothing was lost in 5 power cuts.")).unwrap();
    assert!(
        report
            .html()
            .unwrap()
            .contains(r#"<p class="verdict" id="summary">Nothing was lost in 5&nbsp;power cuts.</p>"#)
    );
    report.add_json("b.json", &of("2 of 9 runs lost something.")).unwrap();
    let page = report.html().unwrap();
    let verdicts = page.split("</dl>").next().unwrap();
    assert!(
        verdicts.contains("5&nbsp;power cuts.") && verdicts.contains("2&nbsp;of 9&nbsp;runs lost"),
        "{verdicts}"
    );
}

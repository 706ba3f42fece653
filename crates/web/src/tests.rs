//! Tests of requests and answers in the form that the page uses.

use crate::{Page, answer};
use serde_json::{Value, json};

struct NoPage;

impl Page for NoPage {
    fn bytes(&mut self, _: &[u8]) {}
    fn blob(&mut self, _: u32, _: u64, _: u64) {}
    fn progress(&mut self, _: u64) {}
}

fn ask(request: &Value) -> Value {
    serde_json::from_str(&answer(&request.to_string(), &mut NoPage)).unwrap()
}

#[test]
fn a_setup_of_the_catalogue_is_measured_with_advice() {
    let text = ask(&json!({ "do": "text", "name": "am62a-w35n01jw" }))["done"].clone();
    let design = json!({ "text": text, "sets": ["bus.mode=1-1-1"] });
    let answer = ask(&json!({ "do": "speed", "design": design, "advice": true }));
    let test = &answer["done"]["tests"][0];
    let shares: f64 = test["shares"].as_array().unwrap().iter().filter_map(|share| share[1].as_f64()).sum();
    assert!((shares - 100.0).abs() < 0.01, "{answer}");
    assert!(answer["done"]["advice"][0]["next"]["set"].as_str().unwrap().starts_with("bus."), "{answer}");
    let swept = ask(&json!({ "do": "sweep", "design": design, "sweep": "bus.clock_hz=10e6,20e6" }));
    assert_eq!(swept["done"].as_array().unwrap().len(), 2, "{swept}");
    let traced = ask(&json!({ "do": "trace", "design": design, "operation": "read-page" }));
    assert!(!traced["done"]["spans"].as_array().unwrap().is_empty(), "{traced}");
}

#[test]
fn a_mistake_in_the_text_has_its_place() {
    let text = "# é\nchip = \"w35n01jx\"\ncontroller = \"cadence-qspi-am62a\"\n";
    let answer = ask(&json!({ "do": "speed", "design": { "text": text }, "advice": false }));
    let place = &answer["failed"]["place"];
    assert_eq!((&place["file"], &place["line"]), (&json!("setup.toml"), &json!(2)), "{answer}");
    let units: Vec<u16> = text.encode_utf16().collect();
    let at = |end: &str| place[end].as_u64().unwrap() as usize;
    assert_eq!(String::from_utf16(&units[at("start")..at("end")]).unwrap(), "\"w35n01jx\"");
    assert!(answer["failed"]["help"].as_str().unwrap().contains("w35n01jw"), "{answer}");
}

/// The bytes of requests.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Page for Bytes {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn blob(&mut self, _: u32, _: u64, _: u64) {}
    fn progress(&mut self, _: u64) {}
}

const JFFS2: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/golden/jffs2/little.jffs2");

#[test]
fn files_of_an_image_are_listed_read_and_put_into_a_zip() {
    let of = json!({ "path": JFFS2 });
    let listed = ask(&json!({ "do": "ls", "of": of, "folder": "/dir" }));
    let row =
        listed["done"]["rows"].as_array().unwrap().iter().find(|row| row["type"] == "file").unwrap().clone();
    let mut page = Bytes::default();
    let read =
        answer(&json!({ "do": "cat", "of": of, "file": row["path"], "most": 5 }).to_string(), &mut page);
    let size = row["size"].as_u64().unwrap();
    assert_eq!((read, page.0.len() as u64), (format!("{{\"done\":{size}}}"), size.min(5)), "{row}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.zip");
    let zipped = ask(&json!({ "do": "extract", "of": of, "archive": "zip", "out": out }));
    let report = &zipped["done"]["report"];
    let archive = std::fs::read(&out).unwrap();
    let end = &archive[archive.len() - 22..];
    assert_eq!(end[..4], *b"PK\x05\x06");
    let held = u64::from(u16::from_le_bytes([end[10], end[11]]));
    let entries = report["entries"].as_u64().unwrap();
    let is_left_out = |what: &str| {
        what.contains("a zip holds each")
            || what.ends_with("a zip cannot hold it") && !what.starts_with("extended")
    };
    let lost = report["losses"].as_array().unwrap().iter();
    let lost = lost.filter(|loss| is_left_out(loss["what"].as_str().unwrap()));
    assert_eq!(held + lost.count() as u64, entries, "{report}");
}

#[test]
fn bytes_that_are_no_text_are_read_back_from_listings() {
    let bytes = super::images::bytes_of;
    assert_eq!(bytes(r"/a\xff\x5cb"), b"/a\xff\\b");
    assert_eq!(bytes(r"/\xzz\x1"), br"/\xzz\x1");
}

#[test]
fn requests_that_are_none_are_refused() {
    for request in ["", "{}", "{\"do\":\"fly\"}", "{\"do\":\"map\",\"of\":{\"path\":\"/nowhere\"}}"] {
        let answer: Value = serde_json::from_str(&answer(request, &mut NoPage)).unwrap();
        assert!(answer["failed"]["message"].is_string(), "{request}: {answer}");
    }
}

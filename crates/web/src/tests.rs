//! Requests and answers as the page has them.

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

#[test]
fn requests_that_are_none_are_refused() {
    for request in ["", "{}", "{\"do\":\"fly\"}", "{\"do\":\"map\",\"of\":{\"path\":\"/nowhere\"}}"] {
        let answer: Value = serde_json::from_str(&answer(request, &mut NoPage)).unwrap();
        assert!(answer["failed"]["message"].is_string(), "{request}: {answer}");
    }
}

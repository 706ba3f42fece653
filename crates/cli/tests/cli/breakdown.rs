//! The breakdown of every printed test adds up, in text and in JSON, on every board.

use crate::support::{names, stdout};
use serde_json::Value;

/// Tenths of a percent in a printed breakdown.
fn tenths(text: &str) -> Vec<u32> {
    let shares = text.split(" %").filter_map(|before| before.rsplit(' ').next());
    shares
        .filter_map(|share| share.split_once('.'))
        .filter_map(|(a, b)| format!("{a}{b}").parse().ok())
        .collect()
}

#[test]
fn printed_percentages_add_up_to_100() {
    for setup in names("setups", "name") {
        let out = stdout(&format!("speed {setup} -c 3"));
        let tests: Vec<&str> = out.split(" speed is ").skip(1).collect();
        assert!(tests.len() >= 7, "{setup}");
        for test in tests {
            let (breakdown, after) = test.split_once("bottleneck: ").unwrap();
            let shares = tenths(breakdown);
            assert_eq!(shares.iter().sum::<u32>(), 1000, "{setup}: {breakdown}");
            let largest = *shares.iter().max().unwrap();
            assert_eq!(tenths(after)[0], largest, "{setup}: the bottleneck is another\n{breakdown}{after}");
        }
    }
}

fn sum(breakdown: &Value) -> u64 {
    breakdown.as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum()
}

#[test]
fn nanoseconds_add_up_to_the_whole() {
    for setup in names("setups", "name") {
        let run: Value = serde_json::from_str(&stdout(&format!("speed {setup} -C -c 1 --json"))).unwrap();
        for test in run["tests"].as_array().unwrap() {
            assert_eq!(sum(&test["breakdown_ns"]), test["ns"].as_u64().unwrap(), "{setup} {}", test["name"]);
        }
        for operation in ["read-page", "write-2-pages", "read-block", "erase"] {
            let traced: Value =
                serde_json::from_str(&stdout(&format!("trace {setup} {operation} --json"))).unwrap();
            assert_eq!(sum(&traced["breakdown_ns"]), traced["ns"].as_u64().unwrap(), "{setup} {operation}");
        }
    }
}

#[test]
fn advice_is_true() {
    for setup in names("setups", "name") {
        let run: Value = serde_json::from_str(&stdout(&format!("speed {setup} -c 3 --json"))).unwrap();
        for (test, advice) in run["tests"].as_array().unwrap().iter().zip(run["advice"].as_array().unwrap()) {
            assert_eq!(test["name"], advice["test"]);
            let Some(set) = advice["next"]["set"].as_str() else { continue };
            let factor = advice["next"]["factor"].as_f64().unwrap();
            assert!(factor > 1.0, "{setup}: {set} makes {} slower", test["name"]);
            let with = stdout(&format!("speed {setup} -c 3 --json --set {set}"));
            let with: Value = serde_json::from_str(&with).unwrap();
            let tests = with["tests"].as_array().unwrap();
            let same = tests.iter().find(|t| t["name"] == test["name"]).unwrap();
            assert_eq!(same["printed_kib_s"], advice["next"]["kib_s"], "{setup}: {set}, {}", test["name"]);
            let gained = test["ns"].as_f64().unwrap() / same["ns"].as_f64().unwrap();
            assert!((gained - factor).abs() < 1e-9, "{setup}: {set} gives {gained}, not {factor}");
        }
    }
}

//! `floatgate record`: the buffer of a recorder.

use crate::support::{assert_refused, run, stdout};
use serde_json::Value;

fn recordings(line: &str) -> Vec<Value> {
    let json: Value = serde_json::from_str(&stdout(&format!("record {line} --json"))).unwrap();
    json["recordings"].as_array().unwrap().clone()
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap()
}

/// The second recording is at half of the rate that the first one takes. In between the storage has time, so that it is no slower.
#[test]
fn a_recorder_keeps_up_with_half_of_what_is_taken() {
    for target in ["kingston-class-10 --ring 8MiB", "am62a-w35n01jw --partition 16MiB --ring 4MiB"] {
        let both = recordings(target);
        assert_eq!(both.len(), 2, "{target}");
        let rate = number(&both[1], "bytes_per_s");
        assert!((rate * 2.0 / number(&both[0], "sustained_bytes_per_s") - 1.0).abs() < 0.01, "{target}");
        assert!(both[1]["keeps_up"] == true && number(&both[1], "buffer_bytes") >= 65536.0, "{both:?}");
        let us: Vec<f64> = both[1]["quantiles"].as_array().unwrap().iter().map(|q| number(q, "us")).collect();
        assert!(us.len() == 5 && us.is_sorted() && us[0] > 0.0, "{us:?}");
        // What arrived during the longest write waited at its end.
        assert!(number(&both[1], "buffer_bytes") >= us[4] / 1e6 * rate - 1.0, "{both:?}");
    }
}

#[test]
fn a_rate_above_what_is_taken_is_told() {
    let text = stdout("record stm32-n25q128a --partition 2MiB --ring 512KiB --rate 10MB");
    assert!(text.contains("overflows") && text.contains("10.00 MB/s cannot be recorded"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (line, said) in [
        ("record kingston-class-10 --rate 0", "rate is 0 bytes"),
        ("record kingston-class-10 --piece 1000", "whole sectors"),
        ("record kingston-class-10 --piece 2MiB", "larger than 1 MiB"),
        ("record kingston-class-10 --ring 1TiB", "does not fit"),
        ("record kingston-class-10 --piece 512 --bytes 1TiB", "at most 10000000"),
        ("record nosuch", "no setup and no part is called"),
        ("record am62a-w35n01jw --partition 16MiB --ring 1000", "smaller than a piece"),
        ("record a1-32g --fs jffs2", "those of raw flash"),
        ("record am62a-w35n01jw --full", "only a card can be full"),
    ] {
        let refused = run(line);
        assert_refused(line, &refused);
        assert!(refused.err.contains(said), "{line}: {}", refused.err);
    }
}

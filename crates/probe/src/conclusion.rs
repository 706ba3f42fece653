//! The answers of a probe in one or two sentences.

use crate::analysis::IMAGE;
use crate::answer::{Answer, Answers, Value};
use floatgate_mtd::size::text as size;
use floatgate_mtd::words::count;

/// Ratio of sequential to random write speed from which random writes are called slow.
const SLOW: f64 = 4.0;
/// Confidence from which a card is called a fake.
const SURE: f64 = 0.5;
/// Kind of fake of a genuine card.
const GENUINE: Value = Value::Word("none");
/// Random write speed that application class A1 guarantees, MB/s: 500 writes of 4 KiB a second.
const A1_MB_S: f64 = 500.0 * 4096.0 / 1e6;

/// One or two sentences with the main facts about a card, or the reason for which neither its speed nor a fault is known.
pub fn conclusion(answers: &Answers) -> String {
    let is_sure = answers.fake.confidence >= SURE;
    if let Some(Value::Word(kind)) = answers.fake.value.filter(|kind| is_sure && *kind != GENUINE) {
        return untrue(kind, answers);
    }
    let (read, write) = (measure(&answers.read_speed), measure(&answers.write_speed));
    // Writes of the steady state are larger than 4 KiB. Their speed is an upper limit for the speed of small writes,
    // but does not replace it.
    let (small, lasting) = (measure(&answers.small_writes), measure(&answers.steady_state));
    let slowest = small.into_iter().chain(lasting).reduce(f64::min);
    match (write, slowest, read) {
        (Some(write), Some(slowest), _) if slowest * SLOW < write => scattered(answers, slowest, write),
        (Some(write), Some(slowest), _) if small.is_some() => format!(
            "This card writes {write} MB/s in order and {slowest} at random: small scattered writes do not slow it down."
        ),
        (Some(write), Some(slowest), _) => format!(
            "This card writes {write} MB/s in order and {slowest} at random; only writes of 4 KiB show how small ones are."
        ),
        (Some(write), None, Some(read)) => {
            let small = match app_class(answers) {
                Some("none") => {
                    " It does not reach the application class A1: small scattered writes are slow."
                }
                _ => "",
            };
            format!("This card reads {read} MB/s and writes {write} MB/s in order.{small}")
        }
        (None, _, Some(read)) => {
            let more = if answers.fake.value.is_none() { ", and whether its size is true" } else { "" };
            format!(
                "This card reads {read} MB/s in order; only a probe that writes shows how it writes{more}."
            )
        }
        (Some(write), None, None) => format!("This card writes {write} MB/s in order."),
        (None, _, None) if answers.read_speed.reason == IMAGE => {
            format!("This is {IMAGE}, so only its contents and its partitions were looked at.")
        }
        (None, _, None) => format!("No speed and no fault of it is known: {}.", answers.read_speed.reason),
    }
}

/// Advice against a card whose size is false, or whose contents change.
fn untrue(kind: &str, answers: &Answers) -> String {
    let reason = &answers.fake.reason;
    match answers.capacity.count().map(size) {
        Some(real) => format!(
            "Do not use this card: it is a fake ({kind}) with {real}, less than it says: {reason}. Return it; until then, only a partition that ends within these {real} keeps its data."
        ),
        None => format!("Do not use this card: it does not keep its contents ({kind}): {reason}. Return it."),
    }
}

fn scattered(answers: &Answers, small: f64, write: f64) -> String {
    if let Some(class) = app_class(answers).filter(|class| *class != "none" && small >= A1_MB_S) {
        return format!(
            "This card writes {write} MB/s in order, and {small} in small scattered writes, by which it reaches the application class {class}."
        );
    }
    let open = answers.open_aus_linear.count().filter(|open| *open > 0);
    let why = open.map_or_else(String::new, |open| {
        let units = count(open, "allocation unit");
        format!(": it keeps {units} open")
    });
    let better = if small * 2.0 > A1_MB_S {
        String::new()
    } else if let Some(class @ ("A1" | "A2")) = app_class(answers) {
        format!(" A short test reaches the application class {class}; long ones do not.")
    } else {
        let times = (A1_MB_S / small.max(1e-3)).round();
        format!(" A card of the application class A1 is at least {times:.0} times as fast there.")
    };
    format!(
        "This card is slow at small scattered writes, {small} MB/s against {write} in order{why}.{better}"
    )
}

/// Application class that the card reaches, if the answer is more likely right than wrong.
fn app_class(answers: &Answers) -> Option<&'static str> {
    match answers.app_class.value {
        Some(Value::Word(class)) if answers.app_class.confidence >= SURE => Some(class),
        _ => None,
    }
}

fn measure(answer: &Answer) -> Option<f64> {
    match answer.value {
        Some(Value::Measure(value)) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_described_by_what_was_measured() {
        let mut answers = Answers::unknown("not measured");
        assert_eq!(conclusion(&answers), "No speed and no fault of it is known: not measured.");
        assert!(conclusion(&Answers::unknown(IMAGE)).starts_with("This is an image, a file or"));
        let found = |value, unit| Answer::found(value, unit, 0.9, "so it was".to_owned());
        answers.read_speed = found(Value::Measure(22.0), "MB/s");
        let text = conclusion(&answers);
        assert!(text.starts_with("This card reads 22 MB/s in order; only"), "{text}");
        assert!(text.ends_with("how it writes, and whether its size is true."), "{text}");
        answers.write_speed = found(Value::Measure(12.9), "MB/s");
        answers.steady_state = found(Value::Measure(0.05), "MB/s");
        answers.open_aus_linear = found(Value::Count(1), "AUs");
        assert_eq!(
            conclusion(&answers),
            "This card is slow at small scattered writes, 0.05 MB/s against 12.9 in order: it keeps 1 allocation unit open. A card of the application class A1 is at least 41 times as fast there."
        );
        answers.steady_state = found(Value::Measure(9.0), "MB/s");
        assert!(conclusion(&answers).contains("only writes of 4 KiB show"));
        // Large writes at random are fast, and small ones are not.
        answers.small_writes = found(Value::Measure(2.81), "MB/s");
        assert!(conclusion(&answers).contains("slow at small scattered writes, 2.81"));
        answers.app_class = found(Value::Word("A1"), "");
        assert_eq!(
            conclusion(&answers),
            "This card writes 12.9 MB/s in order, and 2.81 in small scattered writes, by which it reaches the application class A1."
        );
        answers.small_writes = found(Value::Measure(8.0), "MB/s");
        assert!(conclusion(&answers).ends_with("do not slow it down."));
        answers.fake = found(GENUINE, "");
        assert!(conclusion(&answers).ends_with("do not slow it down."));
        answers.fake = found(Value::Word("unstable"), "");
        assert_eq!(
            conclusion(&answers),
            "Do not use this card: it does not keep its contents (unstable): so it was. Return it."
        );
        answers.fake = found(Value::Word("wraps"), "");
        answers.capacity = found(Value::Count(8 << 30), "B");
        assert_eq!(
            conclusion(&answers),
            "Do not use this card: it is a fake (wraps) with 8192 MiB, less than it says: so it was. Return it; until then, only a partition that ends within these 8192 MiB keeps its data."
        );
    }
}

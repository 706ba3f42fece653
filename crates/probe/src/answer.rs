//! Answers: a value with its confidence, its alternatives, and the reason as text.

use serde::Serialize;

/// A value that was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count, or a size in bytes.
    Count(u64),
    /// A measure with a fraction.
    Measure(f64),
    /// Name of a kind or class.
    Word(&'static str),
}

impl Value {
    /// The count or size.
    pub const fn count(self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(count),
            _ => None,
        }
    }
}

/// Another value that the samples allow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// Alternative value.
    pub value: Value,
    /// Probability that it is the right one.
    pub confidence: f64,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The value, `None` if it is not visible.
    pub value: Option<Value>,
    /// Unit of the value: `B`, `AUs`, `us`, `MB/s`, or nothing.
    pub unit: &'static str,
    /// Probability that the value is right. Without a value, probability that nothing is visible.
    pub confidence: f64,
    /// Other values, the most probable one first.
    pub alternatives: Vec<Alternative>,
    /// Reason as text.
    pub reason: String,
}

impl Answer {
    /// A count or size without alternatives.
    pub(crate) fn found(value: Value, unit: &'static str, confidence: f64, reason: String) -> Self {
        Self { value: Some(value), unit, confidence: rounded(confidence), alternatives: Vec::new(), reason }
    }

    /// An answer without a value.
    pub(crate) fn unknown(unit: &'static str, confidence: f64, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { value: None, unit, confidence: rounded(confidence), alternatives: Vec::new(), reason }
    }

    /// Adds alternatives, except very improbable ones. The probabilities of an answer add up to at most 1: larger
    /// alternatives are scaled down in proportion.
    pub(crate) fn or(mut self, alternatives: impl IntoIterator<Item = (u64, f64)>) -> Self {
        let possible: Vec<(u64, f64)> =
            alternatives.into_iter().filter(|(_, confidence)| *confidence >= 0.01).collect();
        let known = |answer: &Self| answer.alternatives.iter().map(|other| other.confidence).sum::<f64>();
        let room = (1.0 - self.confidence - known(&self)).max(0.0);
        let sum: f64 = possible.iter().map(|(_, confidence)| rounded(*confidence)).sum();
        let share = |confidence: f64| match sum > room + 1e-9 {
            // Rounded down, so that the sum does not exceed the limit.
            true => (confidence * room / sum * 100.0).floor() / 100.0,
            false => rounded(confidence),
        };
        let others = possible.into_iter().map(|(value, confidence)| (value, share(confidence)));
        let others = others.filter(|(_, confidence)| *confidence >= 0.01);
        self.alternatives
            .extend(others.map(|(value, confidence)| Alternative { value: Value::Count(value), confidence }));
        self
    }

    /// The count or size that was found.
    pub fn count(&self) -> Option<u64> {
        self.value.and_then(Value::count)
    }
}

/// Rounds a confidence to two digits, and to less than 1.
fn rounded(confidence: f64) -> f64 {
    (confidence.clamp(0.0, 0.99) * 100.0).round() / 100.0
}

/// Answer if no register states the used life.
pub(crate) fn not_stated(unit: &'static str) -> Answer {
    Answer::unknown(unit, 0.0, "an eMMC from 5.0 on states it in its EXT_CSD, an SD card does not")
}

/// The answers to all questions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answers {
    /// Allocation unit: the unit that the translation layer erases, B.
    pub erase_block: Answer,
    /// Position of the first border of an allocation unit, B.
    pub phase: Answer,
    /// Smallest unit with visible borders, B: a page, a pair of planes, or an ECC unit.
    pub page: Answer,
    /// Number of planes that are written together: a visible unit has a page on each of them.
    pub planes: Answer,
    /// Number of allocation units that can be open at a time if each is written in order.
    pub open_aus_linear: Answer,
    /// Number of allocation units that can be open at a time if each is written in random order.
    pub open_aus_random: Answer,
    /// Size of the area reserved for the FAT, B.
    pub fat_area: Answer,
    /// Size of the buffer that takes writes faster than the flash, B.
    pub buffer: Answer,
    /// Bytes after a pause that are written faster than the rest, B.
    pub slc_cache: Answer,
    /// Write speed in order after the cache is full, MB/s.
    pub write_speed: Answer,
    /// Speed of random writes of 16 KiB in the steady state, MB/s; in a log of fio, of the job's requests.
    pub steady_state: Answer,
    /// Speed of random writes of 4 KiB, MB/s.
    pub small_writes: Answer,
    /// Read speed in order, MB/s.
    pub read_speed: Answer,
    /// Median time of a small read, us.
    pub read_latency: Answer,
    /// Longest time of a write, us.
    pub write_latency_max: Answer,
    /// Highest speed class that the measurement confirms.
    pub class: Answer,
    /// Highest application performance class that the measurement confirms.
    pub app_class: Answer,
    /// Jitter of a repeated read, us.
    pub noise: Answer,
    /// Real capacity, B.
    pub capacity: Answer,
    /// Kind of fake.
    pub fake: Answer,
    /// Used life that an eMMC states, upper bound, %.
    pub life_used: Answer,
    /// State of the spare blocks that an eMMC states: `normal`, `warning`, `urgent`.
    pub spare_blocks: Answer,
}

impl Answers {
    /// Answers without values, all for the same reason.
    pub(crate) fn unknown(reason: &str) -> Self {
        let unknown = |unit| Answer::unknown(unit, 0.0, reason);
        Self {
            erase_block: unknown("B"),
            phase: unknown("B"),
            page: unknown("B"),
            planes: unknown(""),
            open_aus_linear: unknown("AUs"),
            open_aus_random: unknown("AUs"),
            fat_area: unknown("B"),
            buffer: unknown("B"),
            slc_cache: unknown("B"),
            write_speed: unknown("MB/s"),
            steady_state: unknown("MB/s"),
            small_writes: unknown("MB/s"),
            read_speed: unknown("MB/s"),
            read_latency: unknown("us"),
            write_latency_max: unknown("us"),
            class: unknown(""),
            app_class: unknown(""),
            noise: unknown("us"),
            capacity: unknown("B"),
            fake: unknown(""),
            life_used: not_stated("%"),
            spare_blocks: not_stated(""),
        }
    }

    /// Names and answers in order.
    pub const fn all(&self) -> [(&'static str, &Answer); 22] {
        [
            ("erase_block", &self.erase_block),
            ("phase", &self.phase),
            ("page", &self.page),
            ("planes", &self.planes),
            ("open_aus_linear", &self.open_aus_linear),
            ("open_aus_random", &self.open_aus_random),
            ("fat_area", &self.fat_area),
            ("buffer", &self.buffer),
            ("slc_cache", &self.slc_cache),
            ("write_speed", &self.write_speed),
            ("steady_state", &self.steady_state),
            ("small_writes", &self.small_writes),
            ("read_speed", &self.read_speed),
            ("read_latency", &self.read_latency),
            ("write_latency_max", &self.write_latency_max),
            ("class", &self.class),
            ("app_class", &self.app_class),
            ("noise", &self.noise),
            ("capacity", &self.capacity),
            ("fake", &self.fake),
            ("life_used", &self.life_used),
            ("spare_blocks", &self.spare_blocks),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_of_an_answer_are_1_at_most() {
        let sum = |answer: &Answer| {
            answer.confidence + answer.alternatives.iter().map(|other| other.confidence).sum::<f64>()
        };
        for (own, others) in
            [(0.42, vec![0.58, 0.42]), (0.335, vec![0.665]), (0.9, vec![0.9, 0.9]), (0.0, vec![0.99; 9])]
        {
            let others = (1..).zip(others);
            let answer = Answer::unknown("B", own, "").or(others.clone()).or(others);
            assert!(!answer.alternatives.is_empty() && sum(&answer) < 1.0 + 1e-9, "{answer:?}");
        }
        let answer = Answer::unknown("B", 0.2, "").or([(1, 0.5), (2, 0.3)]);
        assert!((sum(&answer) - 1.0).abs() < 1e-9 && answer.alternatives.len() == 2, "{answer:?}");
    }
}

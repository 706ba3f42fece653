//! Answers from fio results in JSON format: speeds and latencies.
//!
//! Fields are those of fio 3 (its documentation, chapter "JSON output"); fio 2 had latencies in us, in `lat` and
//! `clat`. fio reports only means and percentiles. They show no allocation unit, and their answers have lower
//! confidence than those from samples.

use crate::analysis::{tenths, us};
use crate::answer::{Answer, Answers, Value};
use crate::flashbench::SeveralDevices;
use floatgate_mtd::size::text as size;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Requests of one direction in a job.
#[derive(Clone, Debug, PartialEq)]
struct Side {
    job: String,
    /// Access pattern in fio's terms, lower case: `read`, `randwrite`.
    pattern: String,
    is_write: bool,
    is_direct: bool,
    block_bytes: u64,
    depth: u64,
    /// Speed, B/s.
    speed: f64,
    runtime_ms: f64,
    requests: f64,
    /// Median and longest time of a request, ns.
    median_ns: Option<f64>,
    max_ns: Option<f64>,
}

/// Jobs of one result.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    sides: Vec<Side>,
    /// Devices named in the jobs.
    devices: BTreeSet<String>,
}

/// Block size where a job states none, B (fio's default).
const BLOCK_BYTES: u64 = 4096;
/// Minimum block size of a sequential job that measures speed and not request latency, B.
const LARGE: u64 = 128 << 10;
/// Maximum block size of a job that measures latency, B.
const SMALL: u64 = 4096;
/// Runtime below which a cache may absorb all writes, ms.
const SHORT_MS: f64 = 60_000.0;
/// Confidence in a job with direct I/O, in a job that is too short for its question, and in a job through the host's
/// page cache.
const DIRECT: f64 = 0.85;
const SHORT: f64 = 0.6;
const CACHED: f64 = 0.2;

impl Log {
    /// Parses a result and ignores messages before it. `None` if it is not a result of fio.
    pub fn parse(text: &str) -> Option<Self> {
        let start = text.find('{')?;
        // Warnings may also follow the result, so only the first JSON value is read.
        let result: Json = serde_json::Deserializer::from_str(text.get(start..)?).into_iter().next()?.ok()?;
        let global = &result["global options"];
        let jobs = result["jobs"].as_array().filter(|_| result["fio version"].is_string())?;
        let sides = jobs.iter().flat_map(|job| {
            [("read", false), ("write", true)]
                .into_iter()
                .filter_map(|(name, is_write)| Side::parse(job, &job[name], global, is_write))
        });
        let name = |job: &Json| {
            let own = job["job options"]["filename"].as_str().or_else(|| global["filename"].as_str());
            own.filter(|name| name.starts_with("/dev/")).map(str::to_owned)
        };
        let mut log = Self { sides: Vec::new(), devices: jobs.iter().filter_map(name).collect() };
        sides.for_each(|side| log.add(side));
        Some(log)
    }

    /// Adds a job. Jobs of several processes with the same name are merged, because fio reports each process separately
    /// without `group_reporting`.
    fn add(&mut self, side: Side) {
        let is_same = |other: &&mut Side| {
            other.job == side.job
                && other.is_write == side.is_write
                && other.pattern == side.pattern
                && other.block_bytes == side.block_bytes
        };
        let Some(other) = self.sides.iter_mut().find(is_same) else { return self.sides.push(side) };
        other.speed += side.speed;
        other.requests += side.requests;
        other.depth = other.depth.saturating_add(side.depth);
        other.is_direct &= side.is_direct;
        other.runtime_ms = other.runtime_ms.max(side.runtime_ms);
        other.max_ns = other.max_ns.into_iter().chain(side.max_ns).reduce(f64::max);
    }

    /// Answers the questions that the jobs cover.
    ///
    /// # Errors
    /// The jobs access several devices.
    pub fn conclude(&self) -> Result<Answers, SeveralDevices> {
        SeveralDevices::refuse(&self.devices)?;
        Ok(Answers {
            read_speed: self.speed("read", "reads in order"),
            write_speed: self.speed("write", "writes in order"),
            steady_state: self.random_writes(&|_| true),
            small_writes: self.random_writes(&|side| side.block_bytes <= SMALL),
            read_latency: self.read_latency(),
            write_latency_max: self.write_latency_max(),
            ..Answers::unknown("not in a result of fio")
        })
    }

    fn sides_with<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = &'a Side> {
        self.sides.iter().filter(move |side| side.pattern == pattern)
    }

    /// Speed in order: of the fastest job with large blocks, otherwise of the one with the largest.
    fn speed(&self, pattern: &str, requests: &str) -> Answer {
        let best = self.sides_with(pattern).max_by(|a, b| {
            let key = |side: &Side| (side.is_direct, side.block_bytes.min(LARGE));
            key(a).cmp(&key(b)).then(a.speed.total_cmp(&b.speed))
        });
        let Some(side) = best else {
            return Answer::unknown("MB/s", 0.0, format!("no job of fio has rw={pattern}"));
        };
        let is_short = side.block_bytes < LARGE || (side.is_write && side.runtime_ms < SHORT_MS);
        let why = match (side.block_bytes < LARGE, is_short) {
            (true, _) => "; larger blocks may be faster",
            (false, true) => "; in so short a time a cache may have taken the writes",
            _ => "",
        };
        side.answer(
            Value::Measure(tenths(side.speed / 1e6)),
            "MB/s",
            is_short,
            &format!("mean of {requests}"),
            why,
        )
    }

    /// Random write speed of the longest of some jobs.
    fn random_writes(&self, is_meant: &dyn Fn(&Side) -> bool) -> Answer {
        let longest = self
            .sides_with("randwrite")
            .filter(|side| is_meant(side))
            .max_by(|a, b| a.is_direct.cmp(&b.is_direct).then(a.runtime_ms.total_cmp(&b.runtime_ms)));
        let Some(side) = longest else {
            return Answer::unknown("MB/s", 0.0, "no job of fio has rw=randwrite");
        };
        let is_short = side.runtime_ms < 10.0 * SHORT_MS;
        let why = if is_short { "; the speed may still fall after so short a time" } else { "" };
        let value = Value::Measure(tenths(side.speed / 1e6));
        side.answer(value, "MB/s", is_short, "mean of random writes", why)
    }

    /// Median latency of small random reads at queue depth 1.
    fn read_latency(&self) -> Answer {
        let small = self.sides_with("randread").filter(|side| side.block_bytes <= SMALL);
        let fewest =
            small.filter(|side| side.median_ns.is_some()).min_by_key(|side| (!side.is_direct, side.depth));
        let Some((side, median)) = fewest.and_then(|side| Some((side, side.median_ns?))) else {
            return Answer::unknown("us", 0.0, "no job of fio has rw=randread with blocks of 4 KiB at most");
        };
        let why = if side.depth > 1 { "; requests wait for others there" } else { "" };
        side.answer(Value::Measure(tenths(median / 1e3)), "us", side.depth > 1, "median of random reads", why)
    }

    /// Longest write latency of all jobs.
    fn write_latency_max(&self) -> Answer {
        let writes = self.sides.iter().filter(|side| side.is_write);
        let timed = writes.filter_map(|side| Some((side, side.max_ns?)));
        let longest =
            timed.max_by(|(a, left), (b, right)| a.is_direct.cmp(&b.is_direct).then(left.total_cmp(right)));
        let Some((side, max)) = longest else { return Answer::unknown("us", 0.0, "no job of fio writes") };
        let what = format!("longest of {} writes, {}", side.requests, us(max));
        side.answer(Value::Measure(tenths(max / 1e3)), "us", side.depth > 1, &what, "")
    }
}

impl Side {
    /// One direction of a job, `None` if it has no requests.
    fn parse(job: &Json, side: &Json, global: &Json, is_write: bool) -> Option<Self> {
        let options = &job["job options"];
        let option = |name: &str| options[name].as_str().or_else(|| global[name].as_str());
        let requests = positive(&side["total_ios"])?;
        let bytes_s = positive(&side["bw_bytes"]);
        let speed = bytes_s.or_else(|| positive(&side["bw"]).map(|kib_s| kib_s * 1024.0))?;
        let time = |name: &str, field: &str| {
            let ns = positive(&side[format!("{name}_ns")][field]);
            ns.or_else(|| positive(&side[name][field]).map(|us| us * 1e3))
        };
        let percentile = positive(&side["clat_ns"]["percentile"]["50.000000"]);
        let block = option("bs").or_else(|| option("blocksize"));
        Some(Self {
            job: job["jobname"].as_str().unwrap_or("without a name").chars().take(NAME_MAX).collect(),
            pattern: option("rw").or_else(|| option("readwrite")).unwrap_or("read").to_ascii_lowercase(),
            is_write,
            is_direct: option("direct").is_some_and(|direct| direct == "1"),
            block_bytes: block.map_or(Some(BLOCK_BYTES), |text| block_bytes(text, is_write)).unwrap_or(0),
            depth: option("iodepth").and_then(|depth| depth.parse().ok()).unwrap_or(1),
            speed,
            runtime_ms: positive(&side["runtime"]).unwrap_or(0.0),
            requests,
            median_ns: percentile.or_else(|| time("clat", "mean")),
            max_ns: time("lat", "max").or_else(|| time("clat", "max")),
        })
    }

    /// Answer from this job. `why` is the reason for a lower confidence.
    fn answer(&self, value: Value, unit: &'static str, is_doubtful: bool, what: &str, why: &str) -> Answer {
        let (confidence, cache) = match (self.is_direct, is_doubtful) {
            (false, _) => (CACHED, "; without direct=1 the memory of the host may have answered"),
            (true, true) => (SHORT, ""),
            (true, false) => (DIRECT, ""),
        };
        let block =
            if self.block_bytes == 0 { String::new() } else { format!(" of {}", size(self.block_bytes)) };
        let reason =
            format!("{what}{block} in fio's job {:?}, {:.0} s{why}{cache}", self.job, self.runtime_ms / 1e3);
        Answer::found(value, unit, confidence, reason)
    }
}

/// Maximum length of a job name in a reason, in characters.
const NAME_MAX: usize = 40;

/// A number above 0 that is plausible as a time, a speed or a count.
fn positive(value: &Json) -> Option<f64> {
    value.as_f64().filter(|value| *value > 0.0 && *value < 1e18)
}

/// Block size of one direction: `4k`, `128Ki`, `1M`, or `4k,64k` for reads and writes.
fn block_bytes(text: &str, is_write: bool) -> Option<u64> {
    let mut parts = text.split(',');
    let first = parts.next()?;
    let own = if is_write { parts.next().filter(|part| !part.is_empty()).unwrap_or(first) } else { first };
    let own = own.trim().to_ascii_lowercase();
    let digits = own.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(own.len());
    let (count, unit) = own.split_at(digits);
    let bits = match unit {
        "" | "b" => 0,
        "k" | "kb" | "ki" | "kib" => 10,
        "m" | "mb" | "mi" | "mib" => 20,
        "g" | "gb" | "gi" | "gib" => 30,
        _ => return None,
    };
    let count: u64 = count.parse().ok()?;
    Some(count << bits).filter(|_| (1..=1 << 20).contains(&count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result with the fields of fio 3, shortened.
    fn result() -> String {
        let job = |name: &str, rw: &str, bs: &str, side: &str, bw: u64, runtime: u64| {
            format!(
                r#"{{"jobname": "{name}", "job options": {{"rw": "{rw}", "bs": "{bs}"}},
                "{side}": {{"total_ios": 500, "bw_bytes": {bw}, "runtime": {runtime},
                "lat_ns": {{"min": 1000, "max": 250000000, "mean": 400000.5}},
                "clat_ns": {{"max": 249000000, "mean": 390000.0, "percentile": {{"50.000000": 380000}}}}}}}}"#
            )
        };
        let jobs = [
            job("sr", "read", "1M", "read", 90_123_000, 5000),
            job("sw", "write", "1M", "write", 20_400_000, 120_000),
            job("sw small", "write", "4k", "write", 90_400_000, 120_000),
            job("rr", "randread", "4k", "read", 6_000_000, 5000),
            job("rw", "randwrite", "4k", "write", 1_230_000, 30_000),
        ];
        format!(
            "fio: a warning\n{{\"fio version\": \"fio-3.36\", \"global options\": {{\"direct\": \"1\"}}, \"jobs\": [{}]}}\n",
            jobs.join(",")
        )
    }

    #[test]
    fn speeds_and_latencies_are_answers_with_a_reason() {
        let answers = Log::parse(&result()).unwrap().conclude().unwrap();
        let value = |answer: &Answer| match answer.value {
            Some(Value::Measure(value)) => value,
            other => panic!("{other:?}"),
        };
        assert_eq!((value(&answers.read_speed), value(&answers.write_speed)), (90.1, 20.4));
        assert_eq!((value(&answers.read_latency), value(&answers.steady_state)), (380.0, 1.2));
        assert_eq!(value(&answers.write_latency_max), 250_000.0);
        assert_eq!(answers.read_speed.confidence, DIRECT);
        assert_eq!(answers.read_speed.reason, "mean of reads in order of 1 MiB in fio's job \"sr\", 5 s");
        assert!(
            answers.steady_state.confidence == SHORT && answers.steady_state.reason.contains("still fall")
        );
        assert_eq!((answers.erase_block.value, answers.erase_block.confidence), (None, 0.0));
    }

    #[test]
    fn without_direct_io_nothing_is_sure() {
        let cached = Log::parse(&result().replace("\"direct\": \"1\"", "\"direct\": \"0\""))
            .unwrap()
            .conclude()
            .unwrap();
        let stated = cached.all().into_iter().filter(|(_, answer)| answer.value.is_some());
        assert_eq!(stated.map(|(_, answer)| answer.confidence).collect::<Vec<_>>(), [CACHED; 6]);
        assert!(cached.read_speed.reason.contains("memory of the host"), "{}", cached.read_speed.reason);
    }

    #[test]
    fn processes_of_a_job_are_one_and_mixed_jobs_have_no_speed() {
        let twice = result().replace("\"sw small\"", "\"sw\"").replace("\"bs\": \"4k\"}", "\"bs\": \"1m\"}");
        let answers = Log::parse(&twice).unwrap().conclude().unwrap();
        assert_eq!(answers.write_speed.value, Some(Value::Measure(110.8)), "{:?}", answers.write_speed);
        let mixed =
            Log::parse(&result().replace("\"rw\": \"write\"", "\"rw\": \"rw\"")).unwrap().conclude().unwrap();
        assert_eq!(mixed.write_speed.value, None);
        assert!(mixed.write_latency_max.value.is_some());
    }

    #[test]
    fn older_results_have_other_units() {
        let old = result().replace("_ns\"", "\"").replace("bw_bytes", "bw");
        let answers = Log::parse(&old).unwrap().conclude().unwrap();
        assert_eq!(answers.read_speed.value, Some(Value::Measure(tenths(90_123.0 * 1.024))));
        assert_eq!(answers.read_latency.value, Some(Value::Measure(390_000.0)));
    }

    #[test]
    fn block_sizes_are_those_of_the_direction() {
        for (text, read, write) in [
            ("4k", Some(4096), Some(4096)),
            ("1M,64ki", Some(1 << 20), Some(64 << 10)),
            ("512", Some(512), Some(512)),
            ("4k,", Some(4096), Some(4096)),
            ("", None, None),
            ("99999999999999999999k", None, None),
            ("4x", None, None),
        ] {
            assert_eq!((block_bytes(text, false), block_bytes(text, true)), (read, write), "{text}");
        }
    }

    #[test]
    fn a_result_may_be_anything() {
        for text in [
            "",
            "{",
            "{}",
            "nothing",
            "[1]",
            "{\"fio version\": 3, \"jobs\": []}",
            "{\"fio version\": \"3\"}",
        ] {
            assert_eq!(Log::parse(text), None, "{text}");
        }
        let good = result();
        for end in 0..good.len() {
            assert_eq!(Log::parse(&good[..end]).is_some(), end + 2 > good.len(), "{end}");
        }
        for (from, to) in [
            ("\"total_ios\": 500", "\"total_ios\": -1"),
            ("\"total_ios\": 500", "\"total_ios\": 1e300"),
            ("\"4k\"", "[]"),
            ("\"4k\"", "\"18446744073709551615g\""),
            ("\"runtime\": 5000", "\"runtime\": null"),
            ("\"jobname\"", "\"other\""),
            ("{\"min\"", "{\"max\": -3, \"min\""),
        ] {
            let answers = Log::parse(&good.replace(from, to)).unwrap().conclude().unwrap();
            assert!(answers.all().iter().all(|(_, answer)| (0.0..1.0).contains(&answer.confidence)));
        }
    }
}

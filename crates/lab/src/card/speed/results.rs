//! Rows of a measurement.

use crate::card::latencies::Latencies;
use crate::card::state::CardState;
use crate::interval::Interval;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardTest {
    /// State of the card before the tests of this state.
    pub state: CardState,
    /// `read` or `write`.
    pub operation: Cow<'static, str>,
    /// `sequential` or `random`.
    pub access: Cow<'static, str>,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Number of requests in the window that counts: the last one.
    pub requests: u64,
    /// False when writes have not reached the steady state: their speed still changes, or they go into a cache or free blocks that will be used up.
    pub is_steady: bool,
    /// Megabytes (10^6) a second, with the flush after writes.
    pub mb_s: f64,
    /// The 80 % interval of [`Self::mb_s`], of those requests that measured cards are compared with.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Requests a second, with the flush after writes.
    pub iops: f64,
    /// Latencies of the requests.
    #[serde(flatten)]
    pub latency: Latencies,
    /// Bytes written to the NAND for each byte from the host; 0 for reads.
    pub write_amplification: f64,
    /// Blocks erased meanwhile.
    pub erases: u64,
    /// Energy of a request in uJ.
    pub uj_per_request: f64,
    /// Energy of a MiB in mJ.
    pub mj_per_mib: f64,
    /// Mean power meanwhile in mW.
    pub mean_mw: f64,
    /// Requests that took longer than the specification allows the card.
    pub late: u64,
    /// Requests that the host gave up (`card.host`).
    pub dropped: u64,
}

/// Speeds with some allocation units written alternately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenAuRow {
    /// Number of allocation units.
    pub aus: u32,
    /// `linear` or `random` order of the requests inside each.
    pub order: Cow<'static, str>,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Megabytes (10^6) a second.
    pub mb_s: f64,
    /// Mean time of a request in us.
    pub mean_us: f64,
    /// Longest time of a request in us.
    pub max_us: f64,
    /// Blocks erased meanwhile.
    pub erases: u64,
}

/// Reads before, on and behind multiples of an alignment (`flashbench -a`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlignmentRow {
    /// Alignment in bytes.
    pub align_bytes: u64,
    /// Mean time of a read that ends at the border, us.
    pub pre_us: f64,
    /// Mean time of a read across the border, us.
    pub on_us: f64,
    /// Mean time of a read that begins at the border, us.
    pub post_us: f64,
    /// `on` less the mean of `pre` and `post`, us.
    pub diff_us: f64,
}

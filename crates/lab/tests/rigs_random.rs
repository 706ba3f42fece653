//! Random operations on rigs of every kind: resources serve one operation at a time, times add up, data reads back,
//! and time does not depend on whether data is stored.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use crate::common::{TIMING_ONLY, bytes, config, names, rig_of};
use floatgate_device::{Resource, Span};
use floatgate_mtd::{Error, FlashKind, Instant, Nanos};
use floatgate_sim::rig::{Device, Rig, RigOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Number of blocks used: two planes, and the last block of the chip.
const BLOCKS: u64 = 3;

/// One call. Addresses and lengths are fractions of the device's size, in 1/65536.
#[derive(Clone, Debug)]
enum Step {
    Erase(u64),
    /// Programs this number of pages of a block, after those programmed before.
    Write(u64, u16),
    Read(u64, u16, u16),
    /// Pauses for this number of nanoseconds.
    Pause(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let block = 0..BLOCKS;
    prop_oneof![
        1 => block.clone().prop_map(Step::Erase),
        4 => (block.clone(), 1u16..6).prop_map(|(b, n)| Step::Write(b, n)),
        5 => (block, any::<u16>(), any::<u16>()).prop_map(|(b, at, len)| Step::Read(b, at, len)),
        1 => (0u32..2_000_000).prop_map(Step::Pause),
    ]
}

/// A device with its expected contents.
struct Model {
    rig: Rig,
    block: usize,
    page: usize,
    /// Addresses of the blocks used. Their contents and next pages follow.
    places: [u64; BLOCKS as usize],
    held: Vec<Vec<u8>>,
    next: [usize; BLOCKS as usize],
    now: Instant,
}

impl Model {
    fn new(name: &str, options: RigOptions) -> Self {
        let mut rig = rig_of(&config(name, &[]), options);
        let g = rig.device.geometry().clone();
        let block = g.erase_bytes as usize;
        let page = if g.kind == FlashKind::Nor { 512 } else { g.write_bytes as usize };
        let places = [0, u64::from(g.erase_bytes), u64::from(g.blocks() - 1) * u64::from(g.erase_bytes)];
        let now = rig.now();
        Self { rig, block, page, places, held: vec![vec![0xFF; block]; 3], next: [0; 3], now }
    }

    fn run(&mut self, step: &Step, check: bool) -> Result<(), Error> {
        let device: &mut dyn Device = self.rig.device.as_mut();
        match *step {
            Step::Pause(ns) => self.now += Nanos::from_ns(u64::from(ns)),
            Step::Erase(b) => {
                self.now = device.erase(self.now, self.places[b as usize], self.block as u64)?.at;
                self.held[b as usize].fill(0xFF);
                self.next[b as usize] = 0;
            }
            Step::Write(b, pages) => {
                let b = b as usize;
                let at = self.next[b] * self.page;
                let len = (usize::from(pages) * self.page).min(self.block - at);
                let data = bytes(at as u64 ^ self.now.as_ns(), len);
                self.now = device.write(self.now, self.places[b] + at as u64, &data)?.at;
                self.held[b][at..at + len].copy_from_slice(&data);
                self.next[b] += len / self.page;
            }
            Step::Read(b, at, len) => {
                let at = self.block * usize::from(at) / 65536;
                let len = (1 + self.block * usize::from(len) / 65536).min(self.block - at);
                let mut got = vec![0; len];
                self.now = device.read(self.now, self.places[b as usize] + at as u64, &mut got)?.at;
                assert!(
                    !check || got == self.held[b as usize][at..at + len],
                    "{len} bytes at {at:#x} of {b}"
                );
            }
        }
        Ok(())
    }
}

fn check_spans(what: &str, spans: &[Span]) {
    let mut last: BTreeMap<Resource, Span> = BTreeMap::new();
    for span in spans {
        if let Some(before) = last.insert(span.resource, *span) {
            assert!(before.end <= span.start, "{what}: {before:?} and {span:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_work_on_any_rig(steps in prop::collection::vec(step(), 1..24)) {
        for name in names() {
            let mut kept = Model::new(&name, RigOptions::default());
            let mut timed = Model::new(&name, TIMING_ONLY);
            kept.rig.device.host().record(true);
            let (mut elapsed, before) = (0, kept.rig.device.breakdown());
            for (i, step) in steps.iter().enumerate() {
                let what = format!("{name}, step {i}: {step:?}");
                let start = kept.now;
                let done = kept.run(step, true).map_err(|e| format!("{what}: {e}"));
                prop_assert_eq!(done, Ok(()));
                prop_assert_eq!(timed.run(step, false).map_err(|e| e.to_string()), Ok(()));
                prop_assert_eq!(kept.now, timed.now, "{}: time depends on data", what);
                if !matches!(step, Step::Pause(_)) {
                    elapsed += kept.now.since(start).as_ns();
                }
                let spent = (kept.rig.device.breakdown() - before).total().as_ns();
                prop_assert_eq!(spent, elapsed, "{}: the books", what);
            }
            check_spans(&name, &kept.rig.device.host().take_spans());
        }
    }
}

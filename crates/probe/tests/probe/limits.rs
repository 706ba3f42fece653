//! Limits of a probe: time and memory.

use crate::generator::Unknown;
use floatgate_card::{BusMode, Card, CardOptions, CardSpec};
use floatgate_host::{Target, TargetError};
use floatgate_mtd::Nanos;
use floatgate_probe::{
    Limits, Probe, ProbeError, ProbeOptions, Simulated, Test, Value, conclude, probe_simulated,
};
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;
const MINUTE_NS: u64 = 60_000_000_000;
/// Bytes that are kept as one.
const PIECE: u64 = 64 << 10;

/// A device that keeps what is overwritten, which takes time, and writes it back at the end.
struct Kept<T> {
    device: T,
    pieces: BTreeSet<u64>,
}

impl<T: Target> Kept<T> {
    fn restore(&mut self) {
        for piece in std::mem::take(&mut self.pieces) {
            self.device.write(piece * PIECE, &[0; PIECE as usize]).unwrap();
        }
        self.device.flush().unwrap();
    }
}

impl<T: Target> Target for Kept<T> {
    fn capacity(&self) -> u64 {
        self.device.capacity()
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        self.device.read(position, buf)
    }

    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        self.keep(position, data.len() as u64)?;
        self.device.write(position, data)
    }

    fn flush(&mut self) -> Result<u64, TargetError> {
        self.device.flush()
    }

    fn idle(&mut self, ns: u64) {
        self.device.idle(ns);
    }

    fn clock_ns(&self) -> u64 {
        self.device.clock_ns()
    }

    fn keep(&mut self, position: u64, bytes: u64) -> Result<(), TargetError> {
        for piece in position / PIECE..(position + bytes).div_ceil(PIECE) {
            if self.pieces.insert(piece) {
                self.device.read(piece * PIECE, &mut [0; PIECE as usize])?;
            }
        }
        Ok(())
    }

    fn kept_bytes(&self) -> u64 {
        self.pieces.len() as u64 * PIECE
    }
}

/// A card of 8 GiB that writes one or some MB/s in order.
fn slow_card(t_prog_ms: u64) -> Kept<Simulated<Card>> {
    let mut spec = Unknown::new(2).spec;
    (spec.au_bytes, spec.page_bytes, spec.capacity_bytes) = (4 * MIB, 16 << 10, 8192 * MIB);
    (spec.spare_blocks, spec.bus, spec.dies, spec.slc.blocks) = (300, BusMode::Default, 1, 0);
    spec.timing.t_prog_us = Nanos::from_ms(t_prog_ms);
    let card = Card::new(&spec, CardOptions { seed: 0, stores: true }).unwrap();
    Kept { device: Simulated::new(card, None), pieces: BTreeSet::new() }
}

/// Saving and restoring count for the limit of minutes: a probe that was limited to 3 took 9.
#[test]
fn a_limit_of_minutes_holds_with_keeping_and_restoring() {
    for (t_prog_ms, minutes, has_filled) in [(12, 1, false), (12, 3, false), (12, 10, true), (2, 3, true)] {
        let mut card = slow_card(t_prog_ms);
        let limits = Some(Limits::of_minutes(minutes));
        let mut probe = Probe::new(&mut card, ProbeOptions { limits, ..ProbeOptions::default() });
        probe.measure_reads().unwrap();
        let plan = probe.write_plan();
        let written = probe.measure_capacity().and_then(|()| probe.measure_writes(&plan));
        assert!(matches!(written, Err(ProbeError::Limit { .. })), "{written:?}");
        let samples = probe.into_samples();
        let filled = samples.all.iter().any(|sample| sample.test == Test::Fill);
        assert_eq!(filled, has_filled, "{t_prog_ms} ms, {minutes} minutes");
        card.restore();
        let ns = card.clock_ns();
        assert!(
            ns <= minutes * MINUTE_NS,
            "{t_prog_ms} ms: {} of {minutes} minutes",
            ns as f64 / MINUTE_NS as f64
        );
    }
}

/// A card of 2 TiB costs no more requests than one of 64 GiB: the search for addresses that repeat is no longer.
#[test]
fn requests_do_not_grow_with_the_capacity() {
    let requests = |gib: u64| {
        let mut spec: CardSpec = Unknown::new(2).spec;
        (spec.au_bytes, spec.page_bytes, spec.capacity_bytes) = (8 * MIB, 64 << 10, gib << 30);
        (spec.spare_blocks, spec.slc.blocks) = (2000, 0);
        let make = |stores| {
            Ok::<_, ()>(Simulated::new(Card::new(&spec, CardOptions { seed: 0, stores }).unwrap(), None))
        };
        let (samples, trouble) = probe_simulated(make, 0, true, |_| false).unwrap();
        assert!(trouble.is_none(), "{trouble:?}");
        let answers = conclude(&samples);
        assert_eq!(answers.capacity.count(), Some(gib << 30));
        assert_eq!(answers.fake.value, Some(Value::Word("none")));
        samples.all.len()
    };
    let (small, large) = (requests(64), requests(2048));
    assert!(large < 2 * small, "{small} and {large} requests");
}

//! Open allocation units behind a cache: the card does what a write asks for much later.

use crate::generator::Unknown;
use floatgate_card::{BusMode, FatKind, FatSpec, SlcSpec};
use floatgate_mtd::Nanos;
use floatgate_probe::{Answers, Probe, ProbeOptions, conclude};

const MIB: u64 = 1 << 20;

/// A card with a cache of 16 blocks, and with this many open allocation units.
fn card(open: u32, random: u32, pinned: u32) -> Unknown {
    let mut card = Unknown::new(2);
    let spec = &mut card.spec;
    (spec.au_bytes, spec.page_bytes, spec.capacity_bytes) = (2 * MIB, 16 << 10, 2048 * MIB);
    (spec.open_aus, spec.open_aus_random, spec.spare_blocks) = (open + pinned, random, 160);
    spec.fat = FatSpec::default();
    if pinned > 0 {
        spec.fat = FatSpec { kind: FatKind::Pinned, first_au: 1, aus: pinned, spare_blocks: 0 };
    }
    spec.slc = SlcSpec { blocks: 16, log: false, t_r_us: Nanos::from_us(25), t_prog_us: Nanos::from_us(200) };
    (spec.bus, spec.buffer_bytes, spec.dies, spec.bits_per_cell) = (BusMode::Sdr50, 64 << 10, 1, 2);
    (spec.timing.t_prog_us, spec.timing.au_switch_us) = (Nanos::from_us(800), Nanos::from_us(300));
    (card.hidden_sectors, card.noise) = (0, 1.0);
    card
}

fn probed(card: &Unknown) -> Answers {
    let mut target = card.target();
    let mut probe = Probe::new(&mut target, ProbeOptions { seed: 1, usable_bytes: 0, limits: None });
    probe.measure_reads().unwrap();
    let plan = probe.write_plan();
    probe.measure_writes(&plan).unwrap();
    let samples = probe.into_samples();
    assert!(samples.cost.written_bytes <= plan.bytes_max, "{:?}", samples.cost);
    conclude(&samples)
}

#[test]
fn open_units_behind_a_cache_are_counted() {
    for (open, random, pinned) in
        [(1, 1, 0), (2, 0, 0), (3, 1, 1), (5, 5, 0), (12, 2, 2), (24, 0, 1), (24, 24, 0)]
    {
        let Answers { open_aus_linear: linear, open_aus_random: any, slc_cache, .. } =
            probed(&card(open, random, pinned));
        let context = format!("{open}, {random}, {pinned}: {linear:?} {any:?} {slc_cache:?}");
        assert!(slc_cache.count().is_some(), "{context}");
        assert_eq!(linear.count(), Some(u64::from(open + pinned)), "{context}");
        assert_eq!(any.count(), Some(u64::from(random)), "{context}");
    }
}

//! Nothing is written that was not announced, whatever writes show later.

use crate::generator::Unknown;
use floatgate_card::SlcSpec;
use floatgate_mtd::Nanos;
use floatgate_probe::{Probe, ProbeOptions};
use floatgate_testing::few_or_all;

const MIB: u64 = 1 << 20;

/// A card whose allocation unit only writes show, behind a cache. The part that tests leave out at the beginning ends in the middle of an allocation
/// unit as it is assumed before.
fn card(seed: u64) -> Unknown {
    let mut card = Unknown::new(seed);
    let spec = &mut card.spec;
    spec.au_bytes = MIB;
    spec.page_bytes = spec.page_bytes.min(16 << 10);
    spec.capacity_bytes = (8 * (801 + 4 * seed) * MIB).next_multiple_of(8 * spec.au_bytes);
    spec.spare_blocks = 120 + (spec.capacity_bytes / spec.au_bytes / 20) as u32;
    spec.slc = SlcSpec { blocks: 16, log: false, t_r_us: Nanos::from_us(25), t_prog_us: Nanos::from_us(200) };
    spec.timing.au_switch_us = Nanos::ZERO;
    spec.timing.t_bers_us = Nanos::from_us(5000);
    spec.fat = floatgate_card::FatSpec::default();
    spec.bus = floatgate_card::BusMode::Sdr104;
    card.hidden_sectors = 0;
    card
}

#[test]
fn ranges_and_bytes_hold_when_writes_show_another_allocation_unit() {
    for seed in 0..few_or_all(1, 6) as u64 {
        let mut target = card(seed).target();
        let mut probe = Probe::new(&mut target, ProbeOptions { seed, usable_bytes: 0, limits: None });
        probe.measure_reads().unwrap();
        let plan = probe.write_plan();
        probe.measure_writes(&plan).unwrap_or_else(|error| panic!("card {seed}: {error}"));
        let samples = probe.into_samples();
        let written = samples.cost.written_bytes;
        assert!(written <= plan.bytes_max, "card {seed}: {written} of {}", plan.bytes_max);
    }
}

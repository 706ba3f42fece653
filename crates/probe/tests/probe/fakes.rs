//! Fakes of all kinds, found to the byte.

use floatgate_card::{Card, CardOptions, CardSpec, Fake, FakeKind};
use floatgate_host::{Target, TargetError};
use floatgate_mtd::{BlockDevice, BlockError, Breakdown, Instant, SECTOR_BYTES};
use floatgate_probe::{Answers, Noise, Probe, ProbeOptions, Simulated, Value, conclude};

const MIB: u64 = 1 << 20;

fn card(capacity_bytes: u64) -> Card {
    let mut spec: CardSpec = toml::from_str(include_str!("../small.toml")).unwrap();
    (spec.capacity_bytes, spec.au_bytes, spec.spare_blocks) = (capacity_bytes, MIB, 40);
    Card::new(&spec, CardOptions::default()).unwrap()
}

fn asked(target: &mut impl Target, seed: u64) -> Answers {
    let mut probe = Probe::new(target, ProbeOptions { seed, usable_bytes: 0, limits: None });
    probe.measure_capacity().unwrap();
    conclude(probe.samples())
}

/// A card that ends at any sector, and may store a wrong byte in one sector of five hundred.
struct Altered {
    card: Card,
    sectors: u64,
    is_corrupt: bool,
}

impl BlockDevice for Altered {
    fn capacity(&self) -> u64 {
        self.sectors
    }

    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        self.card.read(now, lba, buf)
    }

    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        let mut data = data.to_vec();
        for (lba, sector) in (lba..).zip(data.chunks_exact_mut(SECTOR_BYTES)) {
            sector[100] ^= u8::from(self.is_corrupt && lba % 500 == 7);
        }
        self.card.write(now, lba, &data)
    }

    fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError> {
        self.card.discard(now, lba, count)
    }

    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
        self.card.flush(now)
    }

    fn breakdown(&self) -> Breakdown {
        self.card.breakdown()
    }
}

#[test]
fn every_kind_is_found_with_its_size_to_the_byte() {
    let kinds = [
        (FakeKind::Wraps, "wraps"),
        (FakeKind::Limbo, "limbo"),
        (FakeKind::LastSector, "last-sector"),
        (FakeKind::Chain, "chain"),
        (FakeKind::Cached, "cached"),
    ];
    // Sectors that are there and that are claimed: powers of two, odd numbers, a ring that is smaller than a cache.
    let sizes = [
        (8 * 2048_u64, 64 * 2048),
        (32 * 2048, 512 * 2048),
        (70_001, 1_000_003),
        (123_457, 123_458),
        (16 * 2048 - 1, 128 * 2048),
        (200 * 2048 + 13, 256 * 2048),
    ];
    for (kind, name) in kinds {
        for (seed, (real, claimed)) in (0..).zip(sizes) {
            // A cache keeps 4 MiB: up to there, everything is as if it was real.
            if kind == FakeKind::Cached && claimed - real <= 8192 {
                continue;
            }
            // The end of a chain comes back only behind the next power of two.
            let is_seen = kind != FakeKind::Chain || (real + 1).next_power_of_two() < claimed;
            let name = if is_seen { name } else { "limbo" };
            let cut = Altered { card: card((real / 2048 + 1) * MIB), sectors: real, is_corrupt: false };
            let noise = Noise { seed, scale: 1.0 };
            let mut target = Simulated::new(Fake::new(cut, kind, claimed), Some(noise));
            let Answers { capacity, fake, .. } = asked(&mut target, seed);
            let context = format!("{name} of {real}, claims {claimed}: {capacity:?} {fake:?}");
            assert_eq!(capacity.count(), Some(real * SECTOR_BYTES as u64), "{context}");
            assert_eq!(fake.value, Some(Value::Word(name)), "{context}");
            assert!(fake.confidence > 0.9, "{context}");
        }
    }
}

#[test]
fn an_honest_card_is_no_fake() {
    for mib in [1, 3, 64, 257] {
        let Answers { capacity, fake, .. } = asked(&mut Simulated::new(card(mib * MIB), None), mib);
        assert_eq!(capacity.count(), Some(mib * MIB), "{capacity:?}");
        assert_eq!(fake.value, Some(Value::Word("none")), "{fake:?}");
    }
}

/// A device that answers differently every time.
struct Unstable(u8);

impl Target for Unstable {
    fn capacity(&self) -> u64 {
        64 * MIB
    }

    fn read(&mut self, _: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        self.0 = self.0.wrapping_add(1);
        buf.fill(self.0);
        Ok(500_000)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<u64, TargetError> {
        Ok(500_000)
    }

    fn flush(&mut self) -> Result<u64, TargetError> {
        Ok(500_000)
    }

    fn idle(&mut self, _: u64) {}

    fn clock_ns(&self) -> u64 {
        0
    }
}

#[test]
fn a_card_that_answers_differently_the_second_time_is_told() {
    let mut target = Unstable(0);
    let mut probe = Probe::new(&mut target, ProbeOptions::default());
    probe.measure_reads().unwrap();
    let answers = conclude(probe.samples());
    assert_eq!(answers.fake.value, Some(Value::Word("unstable")));
    assert_eq!(answers.capacity.value, None);
}

#[test]
fn a_card_that_stores_something_else_is_corrupt() {
    for is_corrupt in [false, true] {
        let altered = Altered { card: card(64 * MIB), sectors: 64 * 2048, is_corrupt };
        let mut target = Simulated::new(altered, None);
        let Answers { capacity, fake, .. } = asked(&mut target, 1);
        assert_eq!(fake.value, Some(Value::Word(if is_corrupt { "corrupt" } else { "none" })), "{fake:?}");
        assert_eq!(capacity.value.is_none(), is_corrupt, "{capacity:?}");
    }
}

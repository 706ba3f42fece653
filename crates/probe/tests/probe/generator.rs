//! Random cards.

use floatgate_card::{BusMode, Card, CardOptions, CardSpec, FatKind, FatSpec, Mapping, SlcSpec};
use floatgate_mtd::random::{Random, hash};
use floatgate_mtd::{BlockDevice, BlockError, Breakdown, Instant, Nanos};
use floatgate_probe::{Noise, Simulated};

/// A card that nobody has seen before, and how it is connected.
#[derive(Debug)]
pub(crate) struct Unknown {
    pub(crate) seed: u64,
    pub(crate) family: Family,
    pub(crate) spec: CardSpec,
    /// Sectors of the card before the first that the host sees, as behind a partition.
    pub(crate) hidden_sectors: u64,
    pub(crate) noise: f64,
}

const MIB: u64 = 1 << 20;

/// Cards that have something in common which [`Unknown::new`] does not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// As [`Unknown::new`] makes them.
    Usual,
    /// Allocation units of 9 times a power of two.
    Nines,
    /// Allocation units of 64 to 384 KiB.
    Small,
    /// A log for short requests at random.
    Hybrid,
    /// A cache of one to three blocks.
    SmallCache,
    /// Pages over 2 or 4 planes of one die.
    Planes,
}

impl Family {
    pub(crate) const ALL: [Self; 6] =
        [Self::Usual, Self::Nines, Self::Small, Self::Hybrid, Self::SmallCache, Self::Planes];
}

impl Unknown {
    /// A card of a family.
    pub(crate) fn of(family: Family, seed: u64) -> Self {
        let mut card = Self { family, ..Self::new(seed) };
        let mut chance = Random::new(hash(seed, family as u64, 78));
        let mut pick = |from: &[u64]| from[(chance.bits() % from.len() as u64) as usize];
        match family {
            Family::Usual => return card,
            Family::Nines => card.set_au((9 * pick(&[64, 128, 256, 512, 1024, 2048])) << 10),
            Family::Small => card.set_au(pick(&[64, 96, 128, 192, 256, 384]) << 10),
            Family::Hybrid => {
                (card.spec.mapping, card.spec.log_blocks) = (Mapping::Hybrid, pick(&[4, 8, 16, 32]) as u32);
                card.spec.log_request_bytes = pick(&[0, 16, 64]) << 10;
                (card.spec.open_aus_random, card.spec.fat) = (0, FatSpec::default());
                card.spec.spare_blocks += card.spec.log_blocks;
            }
            Family::SmallCache => {
                let slc = SlcSpec {
                    t_r_us: Nanos::from_us(25),
                    t_prog_us: Nanos::from_us(200),
                    ..SlcSpec::default()
                };
                card.spec.slc = SlcSpec { blocks: pick(&[1, 2, 3]) as u32, ..slc };
            }
            Family::Planes => {
                card.spec.page_bytes = card.spec.page_bytes.max((16 << 10).min(card.spec.au_bytes / 16));
                (card.spec.planes, card.spec.dies) = (pick(&[2, 4]) as u32, 1);
            }
        }
        if family != Family::SmallCache {
            card.spec.slc = SlcSpec::default();
        }
        card
    }

    /// Changes the allocation unit; the capacity stays as it is, as far as possible.
    fn set_au(&mut self, au_bytes: u64) {
        let aus = (self.spec.capacity_bytes / au_bytes).min(16 << 10);
        (self.spec.au_bytes, self.spec.capacity_bytes) = (au_bytes, aus * au_bytes);
        self.spec.page_bytes = self.spec.page_bytes.min(1 << au_bytes.trailing_zeros()).min(au_bytes / 16);
        self.spec.page_bytes = 1 << self.spec.page_bytes.ilog2();
        self.spec.spare_blocks = 120 + (aus / 20) as u32;
    }

    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Random::new(hash(seed, 0, 77));
        let mut pick = |from: &[u64]| from[(chance.bits() % from.len() as u64) as usize];
        let au_bytes = pick(&[1, 2, 4, 4, 4, 8, 8, 16, 32, 64, 128]) * MIB;
        let odd = pick(&[4, 4, 4, 4, 4, 6, 6, 5]);
        let au_bytes = if odd == 4 || au_bytes * odd / 4 > 128 * MIB { au_bytes } else { au_bytes * odd / 4 };
        let page_bytes = pick(&[4, 8, 16, 16, 32, 64, 128]) << 10;
        // A block has at least 16 pages, and a whole number of them.
        let page_bytes = page_bytes.min(au_bytes / 16).min(1 << au_bytes.trailing_zeros());
        let pinned = pick(&[0, 0, 0, 1, 1, 2]) as u32;
        let open = pick(&[1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 24]) as u32;
        let random = pick(&[0, 0, 1, 2, u64::from(open)]).min(u64::from(open)) as u32;
        let has_slc = pick(&[0, 0, 0, 1]) == 1 && au_bytes <= 16 * MIB;
        let page_bytes = if has_slc { page_bytes.max(16 << 10) } else { page_bytes };
        let aus =
            (pick(&[120, 150, 200, 333]) * 4).min((24 << 30) / au_bytes).max(2048 * MIB / au_bytes).max(120);
        let mut spec: CardSpec = toml::from_str(include_str!("../small.toml")).unwrap();
        spec.capacity_bytes = aus * au_bytes;
        (spec.au_bytes, spec.page_bytes, spec.mapping) = (au_bytes, page_bytes, Mapping::Block);
        (spec.open_aus, spec.open_aus_random) = (open + pinned, random);
        spec.spare_blocks = 120 + (aus / 20) as u32;
        if pinned > 0 {
            let first_au = pick(&[0, 1, 1]) as u32;
            spec.fat = FatSpec { kind: FatKind::Pinned, first_au, aus: pinned, spare_blocks: 0 };
        }
        if has_slc {
            let blocks = pick(&[4, 8, 16]).max(16 * MIB / au_bytes) as u32;
            spec.slc =
                SlcSpec { blocks, log: false, t_r_us: Nanos::from_us(25), t_prog_us: Nanos::from_us(200) };
        }
        spec.bus = BusMode::ALL[1..][pick(&[0, 1, 1, 2, 3, 4]) as usize];
        spec.buffer_bytes = pick(&[16, 64, 128, 256, 512, 1024]) << 10;
        spec.dies = pick(&[1, 1, 2, 2, 4]) as u32;
        spec.bits_per_cell = pick(&[2, 2, 3]) as u8;
        spec.timing.t_r_us = Nanos::from_us(pick(&[25, 50, 75, 100]));
        spec.timing.t_prog_us = Nanos::from_us(pick(&[200, 400, 800, 1600]) * (page_bytes >> 14).max(1));
        spec.timing.t_bers_us = Nanos::from_us(pick(&[2000, 3500, 5000]));
        spec.timing.read_command_us = Nanos::from_us(pick(&[70, 150, 300, 500, 900]));
        spec.timing.write_command_us = Nanos::from_us(pick(&[50, 150, 300]));
        // Without a time to look up the map, reads do not show the allocation unit.
        spec.timing.au_switch_us = Nanos::from_us(pick(&[
            0, 25, 25, 50, 50, 50, 100, 100, 100, 150, 150, 150, 200, 200, 300, 300, 450, 450, 600, 600,
        ]));
        (spec.wear.static_difference, spec.wear.refresh_reads) = (100, 100_000);
        let shift = [0, 0, 0, 0, 63, 2048, 8192 - 63, pick(&[1, 100, 777, 12_345, 8192 * 3])];
        let hidden_sectors = shift[pick(&[0, 1, 2, 3, 4, 5, 6, 7]) as usize];
        let noise = if seed.is_multiple_of(2) { 1.0 } else { 2.0 };
        Self { seed, family: Family::Usual, spec, hidden_sectors, noise }
    }

    pub(crate) fn target(&self) -> Simulated<Behind<Card>> {
        let card = Card::new(&self.spec, CardOptions { seed: self.seed, stores: false }).unwrap();
        let noise = Noise { seed: self.seed, scale: self.noise };
        Simulated::new(Behind { card, hidden: self.hidden_sectors }, Some(noise))
    }

    /// The card in a line.
    pub(crate) fn summary(&self) -> String {
        let CardSpec {
            au_bytes,
            page_bytes,
            open_aus,
            open_aus_random,
            buffer_bytes,
            bits_per_cell,
            dies,
            ..
        } = self.spec;
        let (pinned, first) = (self.spec.fat.aus, self.spec.fat.first_au);
        format!(
            "AU {} KiB, page {} KiB, open {open_aus} with {pinned} pinned from {first}, random {open_aus_random}, buffer {} KiB, {} blocks of SLC, \
             {bits_per_cell} bits, {dies} dies, {:?}, switch {}, tR {}, tPROG {}, {} MiB, {} hidden, noise {}",
            au_bytes >> 10,
            page_bytes >> 10,
            buffer_bytes >> 10,
            self.spec.slc.blocks,
            self.spec.bus,
            self.spec.timing.au_switch_us,
            self.spec.timing.t_r_us,
            self.spec.timing.t_prog_us,
            self.spec.capacity_bytes >> 20,
            self.hidden_sectors,
            self.noise
        )
    }

    /// Pinned allocation units that begin inside what the host sees.
    fn visible_pinned(&self) -> u32 {
        let FatSpec { first_au, aus, .. } = self.spec.fat;
        let is_visible = |au: &u32| u64::from(*au) * self.spec.au_bytes >= self.hidden_sectors * 512;
        (first_au..first_au + aus).filter(is_visible).count() as u32
    }

    /// Open allocation units that the host can use in order, and in any order.
    pub(crate) fn open_aus(&self) -> (u64, u64) {
        let outside = self.spec.open_aus - self.spec.fat.aus;
        (u64::from(outside + self.visible_pinned()), u64::from(self.spec.open_aus_random.min(outside)))
    }
}

/// A device whose first sectors are hidden.
pub(crate) struct Behind<D> {
    card: D,
    hidden: u64,
}

impl<D: BlockDevice> BlockDevice for Behind<D> {
    fn capacity(&self) -> u64 {
        self.card.capacity() - self.hidden
    }

    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        self.card.read(now, lba + self.hidden, buf)
    }

    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        self.card.write(now, lba + self.hidden, data)
    }

    fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError> {
        self.card.discard(now, lba + self.hidden, count)
    }

    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
        self.card.flush(now)
    }

    fn breakdown(&self) -> Breakdown {
        self.card.breakdown()
    }
}

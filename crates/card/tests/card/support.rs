//! Small cards of each policy, and a plain array beside them.

use floatgate_card::{Card, CardOptions, CardSpec};
use floatgate_device::cells::random::Stream;
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, Nanos, SECTOR_BYTES};

/// The small card with lines changed or added before its first table, and tables added at the end.
pub(crate) fn spec(changes: &str, tables: &str) -> CardSpec {
    let mut table: toml::Table = include_str!("../small.toml").parse().unwrap();
    let changes: toml::Table = changes.parse().unwrap();
    table.extend(changes);
    let tables: toml::Table = tables.parse().unwrap();
    for (name, extra) in tables {
        match (table.get_mut(&name), extra) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => old.extend(new),
            (_, extra) => drop(table.insert(name, extra)),
        }
    }
    table.try_into().unwrap()
}

/// A card of each policy and combination.
pub(crate) fn policies() -> Vec<(&'static str, CardSpec)> {
    let slc = "slc = { blocks = 3, t_r_us = 25, t_prog_us = 200 }";
    let pinned = "fat = { kind = 'pinned', first_au = 1, aus = 1 }";
    let page = "fat = { kind = 'page', first_au = 0, aus = 2, spare_blocks = 2 }";
    let paged = "mapping = 'page'\nmap_unit_bytes = 1024\nidle_blocks = 2";
    let hybrid = "mapping = 'hybrid'\nlog_blocks = 3\nopen_aus_random = 0";
    let mut all = vec![
        ("block", spec("", "")),
        ("block, linear only", spec("open_aus_random = 0\nopen_aus = 1", "")),
        ("block, nothing to spare", spec("spare_blocks = 5", "")),
        ("block, pinned FAT", spec("open_aus = 3", pinned)),
        ("block, paged FAT, SLC", spec("spare_blocks = 16", &format!("{page}\n{slc}"))),
        ("hybrid", spec(hybrid, "")),
        (
            "hybrid, pinned FAT, SLC",
            spec(&format!("{hybrid}\nspare_blocks = 16"), &format!("{pinned}\n{slc}")),
        ),
        ("page", spec(paged, "")),
        ("page, FIFO", spec(&format!("{paged}\ncollector = 'fifo'"), "")),
        ("page, paged FAT, SLC", spec(&format!("{paged}\nspare_blocks = 12"), &format!("{page}\n{slc}"))),
    ];
    for (_, spec) in &mut all {
        // Wear levelling and refresh must be part of so short a life.
        (spec.wear.static_difference, spec.wear.refresh_reads) = (2, 60);
    }
    all
}

/// Contents that a sector may have.
#[derive(Clone, Default)]
struct Sector {
    /// Number of the write that it holds, 0 for zeros.
    now: u32,
    /// What it may hold instead after a loss of power.
    or: Vec<u32>,
}

/// A card and the contents that its sectors must have.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) card: Card,
    sectors: Vec<Sector>,
    /// Numbers that a sector ever had, by sector, for those that were discarded.
    ever: Vec<Vec<u32>>,
    writes: u32,
    chance: Stream,
    pub(crate) now: Instant,
    /// Time of all requests together.
    pub(crate) spent: Nanos,
}

fn contents(lba: u64, number: u32) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    if number > 0 {
        let mut chance = Stream::new(lba << 32 | u64::from(number));
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&chance.bits().to_le_bytes()));
    }
    bytes
}

impl Model {
    pub(crate) fn new(spec: &CardSpec, seed: u64) -> Self {
        let card = Card::new(spec, CardOptions { seed, stores: true }).unwrap();
        let sectors = card.capacity() as usize;
        Self {
            card,
            sectors: vec![Sector::default(); sectors],
            ever: vec![Vec::new(); sectors],
            writes: 0,
            chance: Stream::new(seed),
            now: Instant::ZERO,
            spent: Nanos::ZERO,
        }
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.chance.bits() % limit
    }

    /// A place and length: often in order, often in the first allocation units, mostly small.
    fn place(&mut self, last: &mut u64) -> (u64, u64) {
        let capacity = self.card.capacity();
        let count = [1, 1, 2, 8, 8, 16, 64, 200][self.below(8) as usize];
        let lba = match self.below(4) {
            0 => *last,
            1 => self.below(capacity / 128) * 128,
            2 => self.below(300),
            _ => self.below(capacity),
        };
        let lba = lba % capacity;
        let count = count.min(capacity - lba);
        *last = lba + count;
        (lba, count)
    }

    /// Does so many random requests. True when power was lost.
    pub(crate) fn run(&mut self, requests: u32) -> bool {
        let mut last = 0;
        for _ in 0..requests {
            let (lba, count) = self.place(&mut last);
            let outcome = match self.below(20) {
                0..12 => self.write(lba, count),
                12..16 => self.read(lba, count),
                16 => self.discard(lba, count),
                17 => {
                    self.now += Nanos::from_ms(200);
                    Ok(self.now)
                }
                _ => self.flush(),
            };
            match outcome {
                Ok(at) => {
                    assert!(at >= self.now, "time goes back");
                    self.spent += at.since(self.now);
                    self.now = at;
                }
                Err(error) if error.kind == BlockErrorKind::PowerLost => {
                    self.now = error.at;
                    return true;
                }
                Err(error) => panic!("{error}"),
            }
        }
        false
    }

    fn write(&mut self, lba: u64, count: u64) -> Result<Instant, BlockError> {
        self.writes += 1;
        let number = self.writes;
        let mut data = Vec::new();
        for lba in lba..lba + count {
            data.extend(contents(lba, number));
            let sector = &mut self.sectors[lba as usize];
            sector.or.push(sector.now);
            sector.now = number;
            self.ever[lba as usize].push(number);
        }
        self.card.write(self.now, lba, &data)
    }

    fn discard(&mut self, lba: u64, count: u64) -> Result<Instant, BlockError> {
        for lba in lba..lba + count {
            let sector = &mut self.sectors[lba as usize];
            sector.now = 0;
            sector.or = self.ever[lba as usize].clone();
        }
        self.card.discard(self.now, lba, count)
    }

    fn flush(&mut self) -> Result<Instant, BlockError> {
        let at = self.card.flush(self.now)?;
        for (sector, ever) in self.sectors.iter_mut().zip(&self.ever) {
            sector.or.clear();
            // A discard is not recorded: it may be forgotten even after a flush.
            if sector.now == 0 {
                sector.or.clone_from(ever);
            }
        }
        Ok(at)
    }

    fn read(&mut self, lba: u64, count: u64) -> Result<Instant, BlockError> {
        let mut buf = vec![0xEE; count as usize * SECTOR_BYTES];
        let at = self.card.read(self.now, lba, &mut buf)?;
        for (lba, found) in (lba..).zip(buf.chunks_exact(SECTOR_BYTES)) {
            assert!(found == contents(lba, self.sectors[lba as usize].now), "sector {lba}");
        }
        Ok(at)
    }

    /// Power comes back, after `cuts` losses during the recovery: every sector holds what it may hold, and that stays.
    pub(crate) fn power_on(&mut self, cuts: u32) {
        for _ in 0..cuts {
            let cut = 1 + self.below(40);
            match self.card.power_on(self.now, cut) {
                Ok(at) => self.now = at,
                Err(error) => {
                    assert_eq!(error.kind, BlockErrorKind::PowerLost, "{error}");
                    self.now = error.at;
                }
            }
            self.card.cut_power();
        }
        self.now = self.card.power_on(self.now, 0).unwrap();
        self.card.check().unwrap();
        for lba in 0..self.card.capacity() {
            let mut found = [0xEE; SECTOR_BYTES];
            self.card.read(self.now, lba, &mut found).unwrap();
            let sector = &mut self.sectors[lba as usize];
            let allowed = std::iter::once(sector.now).chain(sector.or.iter().copied());
            let held = allowed.into_iter().find(|number| contents(lba, *number) == found);
            sector.now = held.unwrap_or_else(|| panic!("sector {lba} is neither old nor new"));
            sector.or.clear();
            if sector.now == 0 {
                sector.or.clone_from(&self.ever[lba as usize]);
            }
        }
    }

    /// Everything reads as written.
    pub(crate) fn verify(&mut self) {
        for lba in 0..self.card.capacity() {
            self.read(lba, 1).unwrap();
        }
        self.card.check().unwrap();
    }
}

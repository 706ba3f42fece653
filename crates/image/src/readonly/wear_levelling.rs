//! ESP-IDF's wear levelling below FAT (facts of `WL_Flash.cpp` and `WL_Ext_Safe.cpp`, Apache-2.0).
//!
//! A partition has one sector more than its data, the dummy. After every 16 erases, the next sector is copied into
//! the dummy, so that the dummy moves through the partition. After the data are two copies of the state, each with a
//! record for each move of the turn, and the configuration.

use floatgate_media::crc;
use floatgate_stack::{Store, StoreError};

use super::media::Media;
use super::{Opened, broken, fat, fs, unsupported};
use crate::map::view::Numbers as _;
use floatgate_stack::fs::Error;

/// Number of examined bytes of the configuration: eight numbers and their CRC.
pub(crate) const CONFIG_BYTES: usize = 36;

/// Size of a state, and of a record of a move after it, bytes.
const STATE: usize = 64;
const RECORD: u64 = 16;

/// Versions of the layer. In the first version, records are bytes other than FFh.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;

/// Number of sectors in the smallest partition: dummy, data, two states and configuration.
const SECTORS_MIN: u64 = 5;

/// Size of the largest partition, bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Mark of a write that a power cut interrupted in safe mode, and its number of bytes at the end of the data.
const SAFE_SIGN: u32 = 0x1234_5678;
const SAFE_BYTES: u64 = 2 * WearLevelling::SECTOR;

/// CRC of the layer: CRC-32 with a register of zeros at the start, which results from a start value of FFFFFFFFh.
fn sum(bytes: &[u8]) -> u32 {
    !crc::ubi_update(0, bytes)
}

/// Reads bytes; `None` after the end.
type Reader<'r> = dyn Fn(u64, &mut [u8]) -> Option<()> + 'r;

/// States with good CRCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum States {
    Both,
    First,
    Second,
}

impl States {
    /// Text for display.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Both => "both good",
            Self::First => "the second is damaged",
            Self::Second => "the first is damaged",
        }
    }
}

/// Wear levelling of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WearLevelling {
    /// Size of the data, bytes.
    data: u64,
    /// Number of the dummy sector.
    dummy: u64,
    /// Number of turns of the dummy through the partition.
    turns: u64,
    states: States,
}

impl WearLevelling {
    /// Size of a sector of the flash, bytes.
    pub(crate) const SECTOR: u64 = 4096;

    /// Size of the partition that a configuration states, bytes; `None` for other data.
    pub(crate) fn partition_bytes(config: &[u8; CONFIG_BYTES]) -> Option<u64> {
        let config = &config[..];
        let sector = Self::SECTOR as u32;
        let is_config = config.le32(8) == sector
            && config.le32(12) == sector
            && u64::from(config.le32(20)) == RECORD
            && VERSIONS.contains(&config.le32(24))
            && config.le32(0) == 0
            && sum(&config[..32]) == config.le32(32);
        let bytes = u64::from(config.le32(4));
        let is_size =
            bytes.is_multiple_of(Self::SECTOR) && (SECTORS_MIN * Self::SECTOR..=BYTES_MAX).contains(&bytes);
        (is_config && is_size).then_some(bytes)
    }

    /// Wear levelling of a partition of `len` bytes; `None` if the partition has none.
    pub(crate) fn read(read: &Reader<'_>, len: u64) -> Option<Self> {
        let mut config = [0; CONFIG_BYTES];
        read(len.checked_sub(Self::SECTOR)?, &mut config)?;
        if Self::partition_bytes(&config)? != len {
            return None;
        }
        let state_bytes = (STATE as u64 + len / Self::SECTOR * RECORD).next_multiple_of(Self::SECTOR);
        let first = len.checked_sub(Self::SECTOR + 2 * state_bytes)?;
        let data = first.checked_sub(Self::SECTOR)?;
        if data == 0 {
            return None;
        }
        let states = [first, first + state_bytes].map(|at| State::read(read, at, data));
        let (state, states) = match states {
            [Some(first), Some(_)] => (first, States::Both),
            [Some(first), None] => (first, States::First),
            [None, Some(second)] => (second, States::Second),
            [None, None] => return None,
        };
        Some(Self { data, dummy: state.dummy(read)?, turns: state.turns, states })
    }

    pub(crate) const fn data_bytes(&self) -> u64 {
        self.data
    }

    pub(crate) const fn dummy(&self) -> u64 {
        self.dummy
    }

    /// Number of moves of the dummy.
    pub(crate) const fn moves(&self) -> u64 {
        self.turns * (self.data / Self::SECTOR + 1) + self.dummy
    }

    pub(crate) const fn states(&self) -> States {
        self.states
    }

    /// Offset in the partition of a byte of the data.
    const fn place(&self, at: u64) -> u64 {
        let place = (self.data - self.turns * Self::SECTOR % self.data + at) % self.data;
        if place < self.dummy * Self::SECTOR { place } else { place + Self::SECTOR }
    }
}

/// State of the layer.
struct State {
    at: u64,
    /// Number of sectors, including the dummy.
    sectors: u64,
    turns: u64,
    version: u32,
    device: u32,
}

impl State {
    fn read(read: &Reader<'_>, at: u64, data: u64) -> Option<Self> {
        let mut bytes = [0; STATE];
        read(at, &mut bytes)?;
        let bytes = &bytes[..];
        let version = bytes.le32(24);
        let is_good = match version {
            // In the first version, the CRC is at the position of the device number.
            1 => sum(&bytes[..28]) == bytes.le32(28),
            _ => sum(&bytes[..60]) == bytes.le32(60),
        };
        let (sectors, turns) = (u64::from(bytes.le32(4)), u64::from(bytes.le32(8)));
        let is_possible = sectors == data / WearLevelling::SECTOR + 1 && turns < sectors;
        (is_good && is_possible && VERSIONS.contains(&version)).then(|| Self {
            at: at + STATE as u64,
            sectors,
            turns,
            version,
            device: bytes.le32(28),
        })
    }

    /// Number of the dummy sector: the first move of the turn without a record.
    fn dummy(&self, read: &Reader<'_>) -> Option<u64> {
        for number in 0..self.sectors {
            let mut record = [0; RECORD as usize];
            read(self.at + number * RECORD, &mut record)?;
            if !self.is_moved(number as u32, &record) {
                return Some(number);
            }
        }
        Some(self.sectors - 1)
    }

    /// True if a record states that the dummy has moved on from a sector.
    fn is_moved(&self, number: u32, record: &[u8]) -> bool {
        if self.version == 1 {
            return record.first() != Some(&0xFF);
        }
        (0..4_u32).zip(record.chunks_exact(4)).all(|(word, bytes)| {
            let counted = self.device.wrapping_add(number.wrapping_mul(4)).wrapping_add(word);
            sum(&counted.to_le_bytes()) == bytes.le32(0)
        })
    }
}

/// Data of a partition in its order.
struct Levelled {
    media: Media,
    layer: WearLevelling,
    /// A sector whose data a power cut has lost, and its bytes that safe mode has saved.
    restored: Option<(u64, Vec<u8>)>,
}

impl Levelled {
    fn read_sectors(&self, offset: u64, buf: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            if at >= self.layer.data {
                buf.get_mut(done..)?.fill(0xFF);
                return Some(());
            }
            let within = at % WearLevelling::SECTOR;
            let piece = usize::try_from(WearLevelling::SECTOR - within).ok()?.min(buf.len() - done);
            self.media.read(self.layer.place(at), buf.get_mut(done..done + piece)?)?;
            done += piece;
        }
        Some(())
    }

    /// Restores sectors of `fat_bytes` that safe mode writes back at the next mount.
    fn restore(&mut self, fat_bytes: u64) -> Option<()> {
        let at = self.layer.data.checked_sub(SAFE_BYTES)?;
        let mut state = [0; 16];
        self.read_sectors(at, &mut state)?;
        let state = &state[..];
        let (base, first, count) = (state.le32(4), u64::from(state.le32(8)), u64::from(state.le32(12)));
        let base = u64::from(base) * WearLevelling::SECTOR;
        if state.le32(0) != SAFE_SIGN || base >= at {
            return None;
        }
        let mut kept = vec![0; usize::try_from(WearLevelling::SECTOR).ok()?];
        self.read_sectors(at + WearLevelling::SECTOR, &mut kept)?;
        // Sectors that should be erased are erased.
        let from = usize::try_from(first.checked_mul(fat_bytes)?).ok()?.min(kept.len());
        let to = usize::try_from(first.checked_add(count)?.checked_mul(fat_bytes)?).ok()?.min(kept.len());
        kept.get_mut(from..to)?.fill(0xFF);
        self.restored = Some((base, kept));
        Some(())
    }
}

impl Store for Levelled {
    fn size_bytes(&self) -> u64 {
        self.layer.data
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let failed =
            || StoreError { action: "reading", offset, reason: "the partition ends before".to_owned() };
        self.read_sectors(offset, buf).ok_or_else(failed)?;
        if let Some((base, kept)) = &self.restored {
            for (at, byte) in (offset..).zip(buf.iter_mut()) {
                let within = at.checked_sub(*base).and_then(|within| usize::try_from(within).ok());
                if let Some(other) = within.and_then(|within| kept.get(within)) {
                    *byte = *other;
                }
            }
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError { action: "writing", offset, reason: "the partition is only read".to_owned() })
    }
}

/// Opens the FAT in a partition.
pub(super) fn open(media: Media) -> Result<Opened, Error> {
    let layer = WearLevelling::read(&|at, buf| media.read(at, buf), media.len()).ok_or_else(broken)?;
    let mut levelled = Levelled { media, layer, restored: None };
    let mut boot = [0; 512];
    levelled.read_at(0, &mut boot).map_err(|_| broken())?;
    if boot.iter().all(|byte| *byte == 0xFF) {
        return Err(unsupported("wear levelling over an erased partition: reading it"));
    }
    let sector = u64::from(boot[..].le16(11));
    if sector < WearLevelling::SECTOR && sector > 0 {
        levelled.restore(sector);
    }
    let len = levelled.size_bytes();
    Ok(fs::open(fat::Fat::new(Media::new(Box::new(levelled), 0, len))?))
}

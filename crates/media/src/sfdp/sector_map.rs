//! The Sector Map Parameter Table (JESD216F, table FF81h).

use super::words::{Words, append, split};
use crate::bits::dwords;
use crate::error::{MediaError, Reason};
use crate::list::List;
use crate::wire::narrow;

/// Maximum number of detection commands that are stored; each contributes one bit to the map
/// number.
pub(super) const MAX_COMMANDS: usize = 8;
/// Maximum number of maps that are stored.
pub(super) const MAX_MAPS: usize = 8;
/// Maximum number of regions of a map that are stored.
pub(super) const MAX_REGIONS: usize = 8;

/// Bit 1 of a descriptor: set in a map, clear in a command.
const MAP: u32 = 2;

dwords! {
    /// A command that reads one bit of the number of the map in use.
    pub struct DetectionCommand[1..=2, reserved 0x0030_00fc] {
        /// True for the last command.
        last: bool = 1, 0, 0;
        /// Always false: this is not a map.
        is_map: bool = 1, 1, 1;
        /// Instruction byte of the command.
        opcode: u8 = 1, 15, 8;
        /// Number of dummy clocks; 15: as configured.
        dummy: u8 = 1, 19, 16;
        /// Number of address bytes; 0: none, 1: three, 2: four, 3: as configured.
        address_bytes: u8 = 1, 23, 22;
        /// Mask of the bit to test in the byte that is read.
        data_mask: u8 = 1, 31, 24;
        /// Address to read.
        address: u32 = 2, 31, 0;
    }
}

dwords! {
    /// The first DWORD of a map.
    pub struct MapHead[1..=1, reserved u32::MAX] {
        /// True for the last map.
        last: bool = 1, 0, 0;
        /// Always true: this is a map.
        is_map: bool = 1, 1, 1;
        /// Number of the map, which the bits of the detection commands form.
        id: u8 = 1, 15, 8;
        /// Number of regions, minus one.
        more_regions: u8 = 1, 23, 16;
    }
}

dwords! {
    /// Adjacent sectors that support the same erase types.
    pub struct Region[1..=1, reserved 0xf0] {
        /// Erase types that work in the region, bit 0 for type 1.
        erase_types: u8 = 1, 3, 0;
        /// Size minus one, in units of 256 bytes.
        size_code: u32 = 1, 31, 8;
    }
}

impl Region {
    /// Size of the region, bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.size_code as u64 + 1) * 256
    }
}

/// One division of the array into regions, lowest address first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Map {
    /// Number and flags of the map; `more_regions` and `last` are derived from the lists when
    /// emitted.
    pub head: MapHead,
    /// Regions, lowest address first.
    pub regions: List<Region, MAX_REGIONS>,
}

/// Sector map: regions of the array with different erase types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SectorMap {
    /// Commands that detect the map in use; empty if the chip has only one map.
    pub commands: List<DetectionCommand, MAX_COMMANDS>,
    /// All maps of the chip.
    pub maps: List<Map, MAX_MAPS>,
    /// Number of unused DWORDs after the last map that the header includes in the table's length.
    pub padding: u8,
}

impl Map {
    /// A map of these regions; `None` for no region or more than eight.
    #[must_use]
    pub fn new(id: u8, regions: &[Region], last: bool) -> Option<Self> {
        let more_regions = u8::try_from(regions.len().checked_sub(1)?).ok()?;
        let head = MapHead { last, is_map: true, id, more_regions, ..MapHead::default() };
        Some(Self { head, regions: List::from_slice(regions)? })
    }
}

impl Region {
    /// A region of `bytes`; `None` unless `bytes` is a multiple of 256 up to 4 GiB.
    #[must_use]
    pub fn new(bytes: u64, erase_types: u8) -> Option<Self> {
        let units = bytes.checked_sub(1)? / 256;
        let size_code = u32::try_from(units).ok().filter(|code| *code < 1 << 24)?;
        bytes.is_multiple_of(256).then(|| Self { erase_types, size_code, ..Self::default() })
    }
}

impl SectorMap {
    /// One map with one region over the whole array; `None` for a size that [`Region::new`]
    /// rejects.
    #[must_use]
    pub fn uniform(bytes: u64, erase_types: u8) -> Option<Self> {
        let map = Map::new(0, &[Region::new(bytes, erase_types)?], true)?;
        Some(Self { maps: List::from_slice(&[map])?, ..Self::default() })
    }

    /// The map with this number.
    #[must_use]
    pub fn map(&self, id: u8) -> Option<&Map> {
        self.maps.iter().find(|map| map.head.id == id)
    }

    /// Reads the table; offsets in errors are relative to its start.
    pub(super) fn read(dwords: &[u32]) -> Result<Self, MediaError> {
        let mut table = Self::default();
        let mut at = table.read_commands(dwords)?;
        loop {
            let map = read_map(dwords, at)?;
            let last = map.head.last;
            table.maps.push(map, "sector maps").map_err(|reason| reason.at(4 * at))?;
            at += 1 + map.regions.len();
            if last {
                break;
            }
        }
        let padding = dwords.len() - at;
        table.padding = narrow("DWORDs of padding", 4 * at, padding)?;
        Ok(table)
    }

    /// Reads the commands and returns their length, DWORDs.
    fn read_commands(&mut self, dwords: &[u32]) -> Result<usize, MediaError> {
        let mut at = 0;
        while dwords.get(at).is_some_and(|word| word & MAP == 0) {
            let command = DetectionCommand::read(split(dwords, at)?.0);
            self.commands.push(command, "detection commands").map_err(|r| r.at(4 * at))?;
            at += DetectionCommand::DWORDS;
        }
        Ok(at)
    }

    pub(super) fn write(&self) -> Result<Words, MediaError> {
        self.check()?;
        let mut words = Words::new();
        for command in &self.commands {
            append(&mut words, command.write())?;
        }
        for map in &self.maps {
            append(&mut words, map.head.write())?;
            for region in &map.regions {
                append(&mut words, region.write())?;
            }
        }
        for _ in 0..self.padding {
            append(&mut words, Ok([u32::MAX]))?;
        }
        Ok(words)
    }

    /// Rejects flags and counts that do not match the lists.
    fn check(&self) -> Result<(), MediaError> {
        let commands = self.commands.iter().all(|command| !command.is_map);
        let counts = self
            .maps
            .iter()
            .all(|map| map.head.is_map && map.regions.len() == usize::from(map.head.more_regions) + 1);
        let last = self
            .maps
            .split_last()
            .is_some_and(|(end, others)| end.head.last && others.iter().all(|map| !map.head.last));
        if commands && counts && last {
            return Ok(());
        }
        Err(Reason::Inconsistent { what: "sector map flags do not match its lists" }.at(0))
    }
}

/// Reads one map at DWORD `at`.
fn read_map(dwords: &[u32], at: usize) -> Result<Map, MediaError> {
    let head = MapHead::read(split(dwords, at)?.0);
    if !head.is_map {
        return Err(Reason::Inconsistent { what: "a detection command after a map" }.at(4 * at));
    }
    let mut regions = List::new();
    for index in 0..=usize::from(head.more_regions) {
        let place = at + 1 + index;
        let region = Region::read(split(dwords, place)?.0);
        regions.push(region, "sector map regions").map_err(|reason| reason.at(4 * place))?;
    }
    Ok(Map { head, regions })
}

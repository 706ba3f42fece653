//! Directory of RedBoot (FIS): a table of the images on the flash.

use super::{Begins, Probe};
use crate::map::partitions::Partition;
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe = Probe { begins: Begins::Head { step: 4096, front: 0, test: begins }, probe };

/// Size of an entry, bytes.
const ENTRY: usize = 256;

/// Largest number of entries in a directory.
const MAX_ENTRIES: usize = 256;

/// Name of the entry of the directory itself.
const OWN: &[u8] = b"FIS directory";

fn begins(head: &[u8]) -> bool {
    head.chunks_exact(ENTRY).any(|entry| entry.starts_with(OWN))
}

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let room = usize::try_from(view.len()).ok()?.min(MAX_ENTRIES * ENTRY);
    let bytes = view.bytes(0, room / ENTRY * ENTRY)?;
    // Two bytes FFh in a name end the table; one byte FFh marks a deleted entry.
    let entries = bytes.chunks_exact(ENTRY).take_while(|entry| entry.le16(0) != 0xFFFF);
    let entries: Vec<&[u8]> = entries.filter(|entry| entry[0] != 0xFF).collect();
    let own = entries.iter().find(|entry| entry.starts_with(OWN))?;
    let is_big = own.be32(24) < own.le32(24);
    let number = |entry: &[u8], at| u64::from(if is_big { entry.be32(at) } else { entry.le32(at) });
    let len = number(own, 24);
    if len < ENTRY as u64 || len > 1 << 20 {
        return None;
    }
    // Addresses are CPU addresses; the entry of the directory itself shows where the flash begins.
    let base = number(own, 16).checked_sub(view.start())?;
    let partitions: Vec<Partition> = entries
        .iter()
        .filter_map(|entry| {
            let offset = number(entry, 16).checked_sub(base)?;
            Some(Partition::new("RedBoot FIS", entry.text(0, 16), offset, Some(number(entry, 24))))
        })
        .collect();
    let found = ProbeMatch::new(Kind::Fis, len)
        .text("byte_order", if is_big { "big endian" } else { "little endian" })
        .number("entries", partitions.len() as u64);
    Some(ProbeMatch { partitions, ..found })
}

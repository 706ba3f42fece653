//! CramFS: superblock in both byte orders.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use floatgate_media::crc;

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Magic { at: 16, magics: &[b"Compressed ROMFS"], step: 4 }, probe };

const MAGIC: u32 = 0x28CD_3D45;

/// Position of the checksum, which is computed with zeros in its field.
const SUM_AT: u64 = 32;

/// Flag of images with a checksum.
const HAS_CHECKSUM: u32 = 1;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let block = view.array::<76>(0)?;
    let block = &block[..];
    let is_big = match (block.le32(0), block.be32(0)) {
        (MAGIC, _) => false,
        (_, MAGIC) => true,
        _ => return None,
    };
    let number = |at| if is_big { block.be32(at) } else { block.le32(at) };
    let size = u64::from(number(4));
    if size < 76 {
        return None;
    }
    let found = ProbeMatch::new(Kind::Cramfs, size)
        .text("name", block.text(48, 16))
        .text("byte_order", if is_big { "big endian" } else { "little endian" })
        .number("files", number(44));
    if number(8) & HAS_CHECKSUM == 0 {
        return Some(found);
    }
    let mut register = crc::ubi(&block[..SUM_AT as usize]);
    register = crc::ubi_update(register, &[0; 4]);
    let rest = view.each_piece(SUM_AT + 4..size, |piece| register = crc::ubi_update(register, piece));
    Some(found.sum_if_whole(rest.map(|()| !register == number(SUM_AT as usize))))
}

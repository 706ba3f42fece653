//! Tags of a chunk: four numbers, and their ECC.

use super::{Order, put};

/// Size of tags without their ECC, and with it, bytes.
pub(crate) const TAGS: usize = 16;
const TAGS_WITH_ECC: usize = 28;

/// Smallest and largest sequence number of blocks with files; blocks with a checkpoint have a lower number.
pub(crate) const SEQUENCE_MIN: u32 = 0x1000;
const SEQUENCE_MAX: u32 = 0xEFFF_FF00;
const SEQUENCE_CHECKPOINT: u32 = 0x21;

/// Largest number of an object, and of a chunk in an object.
pub(crate) const OBJECT_MAX: u32 = 0x3_FFFF;
const CHUNK_MAX: u32 = 0xF_FFFF;

/// Object of the summaries at the end of blocks, which only accelerate a mount.
const SUMMARY: u32 = 0x10;

/// Flags in the chunk number of a header: the tags contain its type, parent and size; the header makes its file
/// shorter.
const EXTRA: u32 = 0x8000_0000;
const EXTRA_SHRINK: u32 = 0x4000_0000;
const EXTRA_NUMBER: u32 = 0x0FFF_FFFF;
const KIND_SHIFT: u32 = 28;

/// Number of bytes in the tags of a header without further fields.
const NO_BYTES: u32 = 0xFFFF;

/// Tags of a chunk in their stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    /// Sequence number of the block; a later block has a higher number.
    pub(crate) sequence: u32,
    /// Number of the object; in a header with extra fields, the type is in the upper bits.
    object: u32,
    /// Number of the chunk in the object, from 1 on; 0 for a header, or its parent with flags.
    chunk: u32,
    /// Number of data bytes; in a header with extra fields, the size of the file.
    pub(crate) bytes: u32,
}

impl Tags {
    /// Tags of the header of an object.
    pub(crate) const fn header(sequence: u32, object: u32) -> Self {
        Self { sequence, object, chunk: 0, bytes: NO_BYTES }
    }

    /// Tags of a chunk with data.
    pub(crate) const fn data(sequence: u32, object: u32, chunk: u32, bytes: u32) -> Self {
        Self { sequence, object, chunk, bytes }
    }

    /// Parses tags from at least 16 bytes. One wrong bit is corrected if their ECC is stored.
    pub(super) fn parse(bytes: &[u8], order: Order) -> (Self, Verdict) {
        let mut own = [0; TAGS];
        if let Some(first) = bytes.first_chunk() {
            own = *first;
        }
        let verdict = match bytes.get(TAGS..TAGS_WITH_ECC) {
            Some(ecc) if ecc.iter().any(|byte| *byte != 0xFF) => Ecc::parse(ecc, order).correct(&mut own),
            _ => Verdict::NoEcc,
        };
        let word = |at| order.u32(&own, at);
        (Self { sequence: word(0), object: word(4), chunk: word(8), bytes: word(12) }, verdict)
    }

    /// Bytes without an ECC, for tags in the page.
    pub(crate) fn emit(&self, order: Order) -> [u8; TAGS] {
        let mut bytes = [0; TAGS];
        for (at, word) in [(0, self.sequence), (4, self.object), (8, self.chunk), (12, self.bytes)] {
            put(order, &mut bytes, at, word);
        }
        bytes
    }

    /// Bytes with their ECC, for tags in the OOB.
    pub(crate) fn emit_with_ecc(&self, order: Order) -> [u8; TAGS_WITH_ECC] {
        let mut bytes = [0xFF; TAGS_WITH_ECC];
        let own = self.emit(order);
        let ecc = Ecc::of(&own);
        bytes[..TAGS].copy_from_slice(&own);
        bytes[TAGS] = ecc.column;
        put(order, &mut bytes, TAGS + 4, ecc.line);
        put(order, &mut bytes, TAGS + 8, ecc.line_inverse);
        bytes
    }

    /// True for a header whose tags also contain its type, parent and size.
    pub(crate) const fn has_extra(&self) -> bool {
        self.chunk & EXTRA != 0
    }

    /// True for the header of an object.
    pub(crate) const fn is_header(&self) -> bool {
        self.chunk == 0 || self.has_extra()
    }

    /// Number of the object.
    pub(crate) const fn number(&self) -> u32 {
        if self.has_extra() { self.object & EXTRA_NUMBER } else { self.object }
    }

    /// Number of a chunk with data, from 1 on.
    pub(crate) const fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Number of the parent, if the tags contain it.
    pub(super) const fn parent(&self) -> Option<u32> {
        if self.has_extra() { Some(self.chunk & EXTRA_NUMBER) } else { None }
    }

    /// True for a header that makes its file shorter, if the tags contain this flag.
    pub(crate) const fn is_shrink(&self) -> bool {
        self.has_extra() && self.chunk & EXTRA_SHRINK != 0
    }

    /// True for a chunk of a checkpoint or of a summary, which contain only copies of other data.
    pub(crate) const fn is_copy(&self) -> bool {
        self.is_checkpoint() || self.number() == SUMMARY
    }

    /// True for a chunk of a checkpoint, which only accelerates a mount.
    const fn is_checkpoint(&self) -> bool {
        self.sequence == SEQUENCE_CHECKPOINT
    }

    /// True if YAFFS2 can write each of these numbers, for chunks of `chunk_bytes` of data.
    pub(crate) fn is_possible(&self, chunk_bytes: u32) -> bool {
        if self.is_checkpoint() {
            return (1..=CHUNK_MAX).contains(&self.chunk) && self.bytes <= chunk_bytes;
        }
        let is_numbered = (SEQUENCE_MIN..=SEQUENCE_MAX).contains(&self.sequence)
            && (1..=OBJECT_MAX).contains(&self.number());
        is_numbered
            && match self.parent() {
                // The root has no parent.
                Some(parent) => {
                    (parent > 0 || self.number() == 1)
                        && parent <= OBJECT_MAX
                        && (1..=5).contains(&(self.object >> KIND_SHIFT))
                }
                None if self.chunk == 0 => self.bytes == NO_BYTES || self.bytes <= chunk_bytes,
                None => self.chunk <= CHUNK_MAX && (1..=chunk_bytes).contains(&self.bytes),
            }
    }
}

/// Result of the ECC of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No ECC is stored.
    NoEcc,
    /// The tags are right, or one bit was corrected.
    Good,
    /// More bits are wrong than the ECC corrects.
    Wrong,
}

/// Parities of tags: of the columns of all bytes, and of the positions of the bytes with an odd number of set bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ecc {
    column: u8,
    line: u32,
    line_inverse: u32,
}

impl Ecc {
    fn of(tags: &[u8; TAGS]) -> Self {
        let mut ecc = Self { column: 0, line: 0, line_inverse: 0 };
        for (index, byte) in (0_u32..).zip(tags) {
            for bit in (0..8_u8).filter(|bit| byte >> bit & 1 == 1) {
                // Each bit of the position has two parities: of the positions in which it is set, and of those in
                // which it is not.
                for place in 0..3 {
                    ecc.column ^= 1 << (2 * place + (bit >> place & 1));
                }
            }
            if byte.count_ones() % 2 == 1 {
                ecc.line ^= index;
                ecc.line_inverse ^= !index;
            }
        }
        ecc
    }

    fn parse(bytes: &[u8], order: Order) -> Self {
        let column = bytes.first().copied().unwrap_or(0) & 0x3F;
        Self { column, line: order.u32(bytes, 4), line_inverse: order.u32(bytes, 8) }
    }

    /// Corrects tags that were stored with this ECC.
    fn correct(self, tags: &mut [u8; TAGS]) -> Verdict {
        let own = Self::of(tags);
        let column = own.column ^ self.column;
        let (line, inverse) = (own.line ^ self.line, own.line_inverse ^ self.line_inverse);
        if column == 0 && line == 0 && inverse == 0 {
            return Verdict::Good;
        }
        if line ^ inverse == u32::MAX && (column ^ column >> 1) & 0b01_0101 == 0b01_0101 {
            let bit = column >> 5 & 1;
            let bit = bit << 2 | (column >> 3 & 1) << 1 | column >> 1 & 1;
            let byte = usize::try_from(line).ok().and_then(|line| tags.get_mut(line));
            return byte.map_or(Verdict::Wrong, |byte| {
                *byte ^= 1 << bit;
                Verdict::Good
            });
        }
        // The wrong bit is in the ECC itself.
        let wrong = column.count_ones() + line.count_ones() + inverse.count_ones();
        if wrong == 1 { Verdict::Good } else { Verdict::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tags that mkyaffs2 of yaffs2utils wrote, in both byte orders.
    #[test]
    fn the_ecc_is_that_of_mkyaffs2() {
        let tags = Tags::header(SEQUENCE_MIN, 0x101);
        let little = tags.emit_with_ecc(Order::Little);
        assert_eq!(little[16..], [0x25, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
        let big = tags.emit_with_ecc(Order::Big);
        assert_eq!(big[16..], [0x25, 0xFF, 0xFF, 0xFF, 0, 0, 0, 3, 0xFF, 0xFF, 0xFF, 0xFC]);
    }

    #[test]
    fn a_wrong_bit_is_corrected_and_two_are_reported() {
        for order in [Order::Little, Order::Big] {
            let tags = Tags::data(0x1234, 0x155, 7, 2048);
            let bytes = tags.emit_with_ecc(order);
            assert_eq!(Tags::parse(&bytes, order), (tags, Verdict::Good));
            for bit in 0..128 {
                let mut wrong = bytes;
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Tags::parse(&wrong, order), (tags, Verdict::Good), "bit {bit}");
                let other = (bit + 37) % 128;
                wrong[other / 8] ^= 1 << (other % 8);
                assert_eq!(Tags::parse(&wrong, order).1, Verdict::Wrong, "bits {bit}, {other}");
            }
        }
    }
}

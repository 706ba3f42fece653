//! Identifiers computed from the contents, so that the same input gives the same bytes.

use floatgate_media::crc;
use floatgate_mtd::random::{GOLDEN, mix};

/// Running digest of everything that goes into an image. It does not protect against deliberate collisions.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    lanes: [u64; 2],
}

impl Identity {
    pub(crate) const fn new() -> Self {
        Self { lanes: [GOLDEN, 0xD1B5_4A32_D192_ED03] }
    }

    pub(crate) fn number(&mut self, number: u64) {
        let [first, second] = &mut self.lanes;
        *first = mix(*first ^ number);
        *second = mix(second.wrapping_add(number).rotate_left(17));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
        self.number(u64::from(crc::ubi(bytes)));
    }

    /// UUID of version 8, whose contents RFC 9562 leaves to the application.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let [first, second] = self.lanes.map(u64::to_be_bytes);
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&first);
        uuid[8..].copy_from_slice(&second);
        uuid[6] = uuid[6] & 0x0F | 0x80;
        uuid[8] = uuid[8] & 0x3F | 0x80;
        uuid
    }

    /// Image sequence number; never 0, which would match any.
    pub(crate) fn image_seq(&self) -> u32 {
        let bits = mix(self.lanes[0] ^ self.lanes[1].rotate_left(32));
        ((bits >> 32) as u32).max(1)
    }
}

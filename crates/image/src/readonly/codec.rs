//! Decompression for read-only filesystems, with bounded output.

use std::io::Read;

use floatgate_stack::codec::Inflate;
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::compress::Decompressor;
use lzma_rust2::{LzmaReader, XzReader};

/// Memory limit of LZMA and XZ, KiB.
const MEMORY_KIB: u32 = 64 << 10;

/// Length of LZ4's shortest match.
const LZ4_MATCH_MIN: usize = 4;

/// Compression of the blocks of a read-only filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// Deflate with a zlib header.
    Zlib,
    /// Deflate without a header.
    Deflate,
    /// LZMA with the header of `lzma`.
    Lzma,
    /// LZO1X.
    Lzo,
    /// XZ with its container.
    Xz,
    /// A block of LZ4.
    Lz4,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// Decompresses blocks.
#[derive(Default)]
pub(super) struct Unpacker {
    zlib: Inflate,
    flash: Decompressor,
}

impl Unpacker {
    /// Decompresses data into the start of `out`. Returns the number of bytes; `None` for damaged data, or if the
    /// output does not fit.
    pub(super) fn unpack(&mut self, codec: Codec, data: &[u8], out: &mut [u8]) -> Option<usize> {
        match codec {
            Codec::Zlib => self.zlib.zlib(data, out).ok(),
            Codec::Deflate => self.zlib.raw(data, out).ok(),
            Codec::Lzo => self.flash.decompress(Compression::Lzo, data, out).ok(),
            Codec::Zstd => self.flash.decompress(Compression::Zstd, data, out).ok(),
            Codec::Lzma => fill(LzmaReader::new_mem_limit(data, MEMORY_KIB, None).ok()?, out),
            Codec::Xz => fill(XzReader::new_mem_limit(data, false, MEMORY_KIB), out),
            Codec::Lz4 => lz4(data, out, false),
        }
    }
}

/// Reads all data; `None` if it does not fit.
fn fill(mut reader: impl Read, out: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    while let Some(rest) = out.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest).ok()? {
            0 => return Some(len),
            bytes => len += bytes,
        }
    }
    match reader.read(&mut [0]).ok()? {
        0 => Some(len),
        _ => None,
    }
}

/// Length in LZ4: a nibble of 15 is followed by bytes that are added.
fn lz4_len(data: &[u8], at: &mut usize, nibble: u8) -> Option<usize> {
    let mut len = usize::from(nibble);
    if nibble == 15 {
        loop {
            let byte = *data.get(*at)?;
            *at += 1;
            len = len.checked_add(byte.into())?;
            if byte != 255 {
                break;
            }
        }
    }
    Some(len)
}

/// Decompresses a block of LZ4. With `is_part`, the output is only the start of the block.
pub(super) fn lz4(data: &[u8], out: &mut [u8], is_part: bool) -> Option<usize> {
    let (mut at, mut len) = (0, 0);
    loop {
        let token = *data.get(at)?;
        at += 1;
        let literals = lz4_len(data, &mut at, token >> 4)?;
        let room = out.len() - len;
        if is_part && literals >= room {
            out.get_mut(len..)?.copy_from_slice(data.get(at..at.checked_add(room)?)?);
            return Some(out.len());
        }
        let from = data.get(at..at.checked_add(literals)?)?;
        out.get_mut(len..len + literals)?.copy_from_slice(from);
        at += literals;
        len += literals;
        if at == data.len() {
            return Some(len);
        }
        let distance = usize::from(u16::from_le_bytes(*data.get(at..)?.first_chunk()?));
        at += 2;
        let wanted = lz4_len(data, &mut at, token & 15)?.checked_add(LZ4_MATCH_MIN)?;
        let matched = if is_part { wanted.min(out.len() - len) } else { wanted };
        if distance == 0 || distance > len || matched > out.len() - len {
            return None;
        }
        for place in len..len + matched {
            let byte = *out.get(place - distance)?;
            *out.get_mut(place)? = byte;
        }
        len += matched;
        if is_part && len == out.len() {
            return Some(len);
        }
    }
}

/// Decompresses LZMA as in EROFS: without a header, and with the inverted properties in place of the first byte,
/// which is otherwise always 0. The output fills `out`.
pub(super) fn micro_lzma(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let (properties, rest) = data.split_first()?;
    let stream = std::io::Cursor::new([0]).chain(rest);
    let room = u32::try_from(out.len()).ok()?.max(4096);
    let mut reader = LzmaReader::new_with_props(stream, out.len() as u64, !properties, room, None).ok()?;
    reader.read_exact(out).ok()?;
    Some(out.len())
}

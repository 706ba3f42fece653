//! Readers of compressed and sparse files (gzip, xz, zstd, Android's sparse images), which deliver the contained
//! bytes from start to end.
//!
//! Memory is bounded for every file: windows have at most [`WINDOW`] bytes, and no other data is kept.

use serde::Serialize;
use std::io::{self, BufReader, Chain, Cursor, Read};

/// Largest window of a compressed file, bytes.
pub const WINDOW: u32 = 64 << 20;

/// First bytes of a file from which its format is recognised.
const MAGIC_BYTES: u64 = 6;

/// Largest number of nested formats, such as an xz file of a sparse image.
const LAYERS: usize = 4;

/// Format of a file that contains other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packing {
    /// gzip (RFC 1952).
    Gzip,
    /// The xz container.
    Xz,
    /// Zstandard frames (RFC 8878).
    Zstd,
    /// Android sparse image.
    AndroidSparse,
}

/// First bytes of the formats.
const MAGICS: [(Packing, &[u8]); 4] = [
    (Packing::Gzip, &[0x1F, 0x8B, 8]),
    (Packing::Xz, &[0xFD, b'7', b'z', b'X', b'Z', 0]),
    (Packing::Zstd, &[0x28, 0xB5, 0x2F, 0xFD]),
    (Packing::AndroidSparse, &[0x3A, 0xFF, 0x26, 0xED]),
];

/// Contained bytes of a file, and the formats around them, the outermost first.
///
/// # Errors
/// The file cannot be read, or has more than four nested formats.
pub fn unpack<'r>(file: impl Read + 'r) -> io::Result<(Box<dyn Read + 'r>, Vec<Packing>)> {
    let mut reader: Box<dyn Read + 'r> = Box::new(file);
    let mut packings = Vec::new();
    loop {
        let (peeked, packing) = peek(reader)?;
        let Some(packing) = packing else { return Ok((Box::new(peeked), packings)) };
        if packings.len() == LAYERS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "more than 4 compressed files in each other",
            ));
        }
        packings.push(packing);
        reader = match packing {
            Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(peeked)),
            Packing::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(
                BufReader::new(peeked),
                true,
                2 * (WINDOW >> 10),
            )),
            Packing::Zstd => unzstd(peeked)?,
            Packing::AndroidSparse => Box::new(Sparse::new(BufReader::new(peeked))?),
        };
    }
}

/// Contained bytes of a zstd file.
#[cfg(not(target_family = "wasm"))]
fn unzstd<'r>(file: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    let mut decoder = zstd::stream::read::Decoder::new(file)?;
    decoder.window_log_max(WINDOW.ilog2())?;
    Ok(Box::new(decoder))
}

/// Refuses a zstd file, because WebAssembly does not have the C library that reads streams.
#[cfg(target_family = "wasm")]
fn unzstd<'r>(_: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "zstd files are not unpacked here"))
}

/// Reader whose first bytes were already read.
type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// Recognises the format of a file from its first bytes.
fn peek<R: Read>(mut reader: R) -> io::Result<(Peeked<R>, Option<Packing>)> {
    let mut head = Vec::new();
    (&mut reader).take(MAGIC_BYTES).read_to_end(&mut head)?;
    let packing = MAGICS.iter().find(|(_, magic)| head.starts_with(magic)).map(|(packing, _)| *packing);
    Ok((Cursor::new(head).chain(reader), packing))
}

/// Reason why a sparse image is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Android sparse image, byte {offset}: {reason}")]
pub struct SparseError {
    /// Offset in the file.
    pub offset: u64,
    /// Description of the fault.
    pub reason: &'static str,
}

impl From<SparseError> for io::Error {
    fn from(error: SparseError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// An Android sparse image (libsparse: `sparse_format.h`). Blocks without data read as FFh, like erased flash.
struct Sparse<R> {
    inner: R,
    /// Number of bytes of the file that were read.
    offset: u64,
    block_bytes: u64,
    /// Size of a chunk header in bytes.
    chunk_header: u16,
    chunks_left: u32,
    chunk: Chunk,
    /// Number of remaining bytes of the chunk.
    left: u64,
}

/// Content of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Raw,
    /// Four repeated bytes, and the index of the next byte.
    Fill([u8; 4], usize),
    Open,
}

/// Size of the file header, and of a chunk header, bytes.
const HEADER: u16 = 28;
const CHUNK_HEADER: u16 = 12;

/// Size of the largest block of a sparse image, bytes; 4 KiB are usual.
const MAX_BLOCK: u32 = 64 << 20;

impl<R: Read> Sparse<R> {
    fn new(inner: R) -> io::Result<Self> {
        let mut sparse = Self {
            inner,
            offset: 0,
            block_bytes: 0,
            chunk_header: 0,
            chunks_left: 0,
            chunk: Chunk::Open,
            left: 0,
        };
        let header: [u8; HEADER as usize] = sparse.take_bytes()?;
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let (version, header_bytes, block_bytes) = (half(4), half(8), word(12));
        sparse.chunk_header = half(10);
        sparse.chunks_left = word(20);
        let fault = |offset, reason| Err(SparseError { offset, reason }.into());
        if version != 1 {
            return fault(4, "only version 1 is known");
        }
        if header_bytes < HEADER || sparse.chunk_header < CHUNK_HEADER {
            return fault(8, "the headers are too short");
        }
        if block_bytes == 0 || !block_bytes.is_multiple_of(4) || block_bytes > MAX_BLOCK {
            return fault(12, "the size of a block is not a multiple of 4 up to 64 MiB");
        }
        sparse.block_bytes = block_bytes.into();
        sparse.skip(header_bytes - HEADER)?;
        Ok(sparse)
    }

    fn take_bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.offset += N as u64;
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u16) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.inner).take(bytes.into()), &mut io::sink())?;
        self.offset += skipped;
        if skipped == u64::from(bytes) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads the header of the next chunk.
    fn next_chunk(&mut self) -> io::Result<()> {
        let offset = self.offset;
        let header: [u8; CHUNK_HEADER as usize] = self.take_bytes()?;
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        self.skip(self.chunk_header - CHUNK_HEADER)?;
        self.chunks_left -= 1;
        self.left = u64::from(word(4)) * self.block_bytes;
        let body = u64::from(word(8)).checked_sub(self.chunk_header.into());
        let fault = |reason| Err(SparseError { offset, reason }.into());
        match (u16::from_le_bytes([header[0], header[1]]), body) {
            (0xCAC1, Some(body)) if body == self.left => self.chunk = Chunk::Raw,
            (0xCAC2, Some(4)) => self.chunk = Chunk::Fill(self.take_bytes()?, 0),
            (0xCAC3, Some(0)) => self.chunk = Chunk::Open,
            (0xCAC4, Some(4)) => {
                self.take_bytes::<4>()?;
                self.left = 0;
            }
            (0xCAC1..=0xCAC4, _) => return fault("the chunk has not the size of its kind"),
            _ => return fault("no kind of chunk has this number"),
        }
        Ok(())
    }
}

impl<R: Read> Read for Sparse<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.left == 0 {
            if self.chunks_left == 0 {
                return Ok(0);
            }
            self.next_chunk()?;
        }
        let most = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let out = &mut out[..most];
        let count = match &mut self.chunk {
            Chunk::Raw => match self.inner.read(out)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => count,
            },
            Chunk::Fill(bytes, next) => {
                for byte in out.iter_mut() {
                    *byte = bytes[*next];
                    *next = (*next + 1) % bytes.len();
                }
                most
            }
            Chunk::Open => {
                out.fill(0xFF);
                most
            }
        };
        if self.chunk == Chunk::Raw {
            self.offset += count as u64;
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(file: &[u8]) -> io::Result<(Vec<u8>, Vec<Packing>)> {
        let (mut reader, packings) = unpack(file)?;
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Ok((bytes, packings))
    }

    /// Sparse image of 8-byte blocks: two with data, two filled, and one without data.
    fn sparse() -> Vec<u8> {
        let mut file = [0xED26_FF3A_u32.to_le_bytes(), [1, 0, 0, 0], [28, 0, 12, 0]].concat();
        [8_u32, 5, 4, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
        let mut chunk = |kind: u16, blocks: u32, body: &[u8]| {
            file.extend(kind.to_le_bytes());
            file.extend([0, 0]);
            file.extend(blocks.to_le_bytes());
            file.extend((12 + body.len() as u32).to_le_bytes());
            file.extend(body);
        };
        chunk(0xCAC1, 2, b"0123456789abcdef");
        chunk(0xCAC2, 2, b"wxyz");
        chunk(0xCAC4, 0, &[0; 4]);
        chunk(0xCAC3, 1, &[]);
        file
    }

    const BYTES: &[u8] = b"0123456789abcdefwxyzwxyzwxyzwxyz\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";

    #[test]
    fn each_format_is_unpacked_and_plain_bytes_stay() {
        assert_eq!(unpacked(b"plain").unwrap(), (b"plain".to_vec(), vec![]));
        assert_eq!(unpacked(b"").unwrap(), (vec![], vec![]));
        assert_eq!(unpacked(&sparse()).unwrap(), (BYTES.to_vec(), vec![Packing::AndroidSparse]));
        let zstd = zstd::encode_all(&sparse()[..], 1).unwrap();
        assert_eq!(unpacked(&zstd).unwrap(), (BYTES.to_vec(), vec![Packing::Zstd, Packing::AndroidSparse]));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, b"dump").unwrap();
        assert_eq!(unpacked(&gzip.finish().unwrap()).unwrap(), (b"dump".to_vec(), vec![Packing::Gzip]));
    }

    #[test]
    fn broken_sparse_images_say_where() {
        let broken = |at: usize, byte: u8| {
            let mut file = sparse();
            file[at] = byte;
            unpacked(&file).unwrap_err().to_string()
        };
        assert!(broken(4, 2).contains("byte 4: only version 1"));
        assert!(broken(12, 7).contains("byte 12: the size of a block"));
        assert!(broken(28, 9).contains("byte 28: no kind of chunk"));
        assert!(broken(36, 9).contains("byte 28: the chunk has not the size"));
        let cut = sparse();
        assert!(unpacked(&cut[..50]).is_err());
    }
}

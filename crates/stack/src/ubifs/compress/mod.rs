//! Compression of blocks with LZO1X, raw deflate and Zstandard, compatible with Linux.
//!
//! A [`Compressor`] or [`Decompressor`] owns its tables, up to about 300 KiB; use one per thread. Tables are allocated
//! on first use, and clones start without them: there is no state between blocks. The same block always gives the same
//! bytes. The compressor of a simulated kernel ([`Effort::Fast`]) caches results to save time.

mod cache;
mod lzo;

#[cfg(test)]
mod tests;

use crate::codec::{Deflate, Inflate, InflateFault, Unzstd, Zstd};
use crate::fs::{Codec, Work};
use floatgate_media::file::Compression;
use floatgate_media::ubifs::{BLOCK_BYTES, MIN_COMPRESS_BYTES, MIN_COMPRESS_GAIN};

use cache::CompressionCache;
pub(crate) use cache::Method;
pub use lzo::LzoFault;

/// Size of a block, B.
const BLOCK: usize = BLOCK_BYTES as usize;

/// Level of libdeflate: it takes half the time of zlib at the level of Linux and mkfs.ubifs, and its output is 2 %
/// smaller.
const ZLIB_LEVEL: i32 = 6;
/// Level at which the kernel's JFFS2 compresses (`fs/jffs2/compr_zlib.c`).
const ZLIB_LEVEL_FAST: i32 = 3;

/// Default level of Zstandard, used by Linux and mkfs.ubifs.
const ZSTD_LEVEL: i32 = 3;

/// Reason why data could not be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressError {
    /// Unknown compression type.
    #[error("compression {0} is not known")]
    Unknown(u16),
    /// The data is longer than a block.
    #[error("{bytes} bytes that are not compressed, for a block of {room}")]
    TooLong {
        /// Size of the data, B.
        bytes: usize,
        /// Size of the buffer, B.
        room: usize,
    },
    /// Malformed LZO data.
    #[error("LZO, before byte {at} of {bytes}: {fault}")]
    Lzo {
        /// Offset of the fault.
        at: usize,
        /// Size of the compressed data, B.
        bytes: usize,
        /// Description of the fault.
        fault: LzoFault,
    },
    /// Malformed or truncated deflate data.
    #[error("deflate: {bytes} bytes are damaged")]
    Zlib {
        /// Size of the compressed data, B.
        bytes: usize,
    },
    /// Deflate data that is longer than a block.
    #[error("deflate: {bytes} bytes with more data than a block of {room}")]
    ZlibTooLong {
        /// Size of the compressed data, B.
        bytes: usize,
        /// Size of the buffer, B.
        room: usize,
    },
    /// Zstandard data that is malformed, truncated, or longer than a block.
    #[error("Zstandard: {bytes} bytes are damaged, or hold more than a block of {room}")]
    Zstd {
        /// Size of the compressed data, B.
        bytes: usize,
        /// Size of the buffer, B.
        room: usize,
    },
}

/// Trade-off of a compressor between size and speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Smallest output, as mkfs.ubifs.
    #[default]
    Smallest,
    /// Fast, as in the kernel: LZO takes about a tenth of the time and is about 15 % larger, zlib of JFFS2 uses level
    /// 3.
    Fast,
}

/// Compresses blocks.
#[derive(Default)]
pub struct Compressor {
    effort: Effort,
    work: Work,
    cache: CompressionCache,
    lzo: Option<lzo::Lzo>,
    zlib: Option<Deflate>,
    zstd: Zstd,
}

impl Clone for Compressor {
    fn clone(&self) -> Self {
        Self { effort: self.effort, work: self.work, cache: self.cache.clone(), ..Self::default() }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    /// Creates a compressor for all types.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self { effort, ..Self::default() }
    }

    /// Compresses a block into `out`, replacing its contents, and returns the type that was used.
    ///
    /// The data is copied ([`Compression::None`]), as in Linux, if the block is shorter than [`MIN_COMPRESS_BYTES`] or
    /// would shrink by less than [`MIN_COMPRESS_GAIN`]. The same applies if it is longer than a block, or if `how` is
    /// unknown.
    pub fn compress(&mut self, how: Compression, data: &[u8], out: &mut Vec<u8>) -> Compression {
        out.clear();
        if (MIN_COMPRESS_BYTES..=BLOCK).contains(&data.len())
            && self.attempt(how, data, out)
            && out.len() + MIN_COMPRESS_GAIN <= data.len()
        {
            return how;
        }
        out.clear();
        out.extend_from_slice(data);
        Compression::None
    }

    /// CPU work of all compressions.
    pub(crate) const fn work(&self) -> &Work {
        &self.work
    }

    /// Counts a block compressed by another codec, like `attempt` and `zlib_stream`.
    pub(crate) fn count(&mut self, codec: Codec, from: usize, to: usize) {
        self.work.pack(codec, from, Some(to).filter(|&to| 0 < to && to < from));
    }

    /// Compresses with `work`, or uses the cached result of the same block. An incompressible block yields arbitrary
    /// bytes.
    pub(crate) fn once(
        &mut self,
        method: Method,
        data: &[u8],
        out: &mut Vec<u8>,
        work: impl FnOnce(&mut Self, &mut Vec<u8>) -> bool,
    ) -> bool {
        if self.effort == Effort::Smallest {
            return work(self, out);
        }
        if let Some(worked) = self.cache.recall(method, data, out) {
            return worked;
        }
        let worked = work(self, out);
        self.cache.remember(method, data, (worked, out));
        worked
    }

    /// Compresses; true on success. It may fail if too little is gained, and if a library runs out of memory.
    pub(crate) fn attempt(&mut self, how: Compression, data: &[u8], out: &mut Vec<u8>) -> bool {
        let worked = match method_of(how) {
            Some(method) => self.once(method, data, out, |this, out| this.try_to(how, data, out)),
            None => self.try_to(how, data, out),
        };
        if let Some(codec) = codec_of(how) {
            self.count(codec, data.len(), out.len());
        }
        worked
    }

    fn try_to(&mut self, how: Compression, data: &[u8], out: &mut Vec<u8>) -> bool {
        let len = match how {
            Compression::None | Compression::Other(_) => return false,
            Compression::Lzo => {
                self.lzo.get_or_insert_with(|| lzo::Lzo::new(self.effort)).compress(data, out);
                return true;
            }
            Compression::Zlib => {
                out.resize(data.len(), 0);
                self.zlib.get_or_insert_with(|| Deflate::new(ZLIB_LEVEL)).raw(data, out)
            }
            Compression::Zstd => {
                out.resize(data.len(), 0);
                self.zstd.frame(ZSTD_LEVEL, data, out)
            }
        };
        out.truncate(len.unwrap_or(0));
        len.is_some()
    }
}

impl Compressor {
    /// Compresses data like [`Compression::Zlib`], with zlib's header and checksum. Returns false if the data is
    /// incompressible.
    pub(crate) fn zlib_stream(&mut self, data: &[u8], out: &mut Vec<u8>) -> bool {
        let level = match self.effort {
            Effort::Smallest => ZLIB_LEVEL,
            Effort::Fast => ZLIB_LEVEL_FAST,
        };
        let worked = self.once(Method::ZlibStream, data, out, |this, out| {
            out.resize(data.len(), 0);
            let len = this.zlib.get_or_insert_with(|| Deflate::new(level)).zlib(data, out);
            out.truncate(len.unwrap_or(0));
            len.is_some()
        });
        self.count(Codec::Zlib, data.len(), out.len());
        worked
    }
}

/// Codec of a compression type; `None` for uncompressed data.
const fn codec_of(how: Compression) -> Option<Codec> {
    match how {
        Compression::None | Compression::Other(_) => None,
        Compression::Lzo => Some(Codec::Lzo),
        Compression::Zlib => Some(Codec::Zlib),
        Compression::Zstd => Some(Codec::Zstd),
    }
}

/// Cache key of a compression type; `None` for uncompressed data.
const fn method_of(how: Compression) -> Option<Method> {
    match how {
        Compression::None | Compression::Other(_) => None,
        Compression::Lzo => Some(Method::Lzo),
        Compression::Zlib => Some(Method::Deflate),
        Compression::Zstd => Some(Method::Zstd),
    }
}

/// Decompresses blocks.
#[derive(Default)]
pub struct Decompressor {
    work: Work,
    zlib: Option<Inflate>,
    zstd: Unzstd,
}

impl Clone for Decompressor {
    fn clone(&self) -> Self {
        Self { work: self.work, ..Self::default() }
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl Decompressor {
    /// Creates a decompressor for all types.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// CPU work of all decompressions.
    pub(crate) const fn work(&self) -> &Work {
        &self.work
    }

    /// Counts a block decompressed by another codec, like `decompress`.
    pub(crate) fn count(&mut self, codec: Codec, from: usize, to: usize) {
        self.work.unpack(codec, from, to);
    }

    /// Decompresses into the start of `out` and returns the number of bytes; the rest of `out` may be overwritten.
    /// `out` should have the size stated in the data node.
    ///
    /// # Errors
    ///
    /// Malformed data, more data than `out` holds, an unknown compression type.
    pub fn decompress(
        &mut self,
        how: Compression,
        data: &[u8],
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        let len = match how {
            Compression::None => copy(data, out),
            Compression::Lzo => lzo(data, out),
            Compression::Zlib => self.zlib(data, out),
            Compression::Zstd => self.zstd(data, out),
            Compression::Other(code) => Err(CompressError::Unknown(code)),
        }?;
        if let Some(codec) = codec_of(how) {
            self.count(codec, data.len(), len);
        }
        Ok(len)
    }

    fn zlib(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, CompressError> {
        self.zlib.get_or_insert_default().raw(data, out).map_err(|fault| match fault {
            InflateFault::Damaged => CompressError::Zlib { bytes: data.len() },
            InflateFault::TooLong => CompressError::ZlibTooLong { bytes: data.len(), room: out.len() },
        })
    }

    fn zstd(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, CompressError> {
        let done = self.zstd.frames(data, out);
        done.ok_or(CompressError::Zstd { bytes: data.len(), room: out.len() })
    }
}

/// Copies uncompressed data.
fn copy(data: &[u8], out: &mut [u8]) -> Result<usize, CompressError> {
    let room = out.len();
    let to = out.get_mut(..data.len()).ok_or(CompressError::TooLong { bytes: data.len(), room })?;
    to.copy_from_slice(data);
    Ok(data.len())
}

fn lzo(data: &[u8], out: &mut [u8]) -> Result<usize, CompressError> {
    lzo::decompress(data, out).map_err(|(at, fault)| CompressError::Lzo { at, bytes: data.len(), fault })
}

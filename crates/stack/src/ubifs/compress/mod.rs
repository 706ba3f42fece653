//! Compression of blocks: LZO1X, raw deflate and Zstandard, as Linux writes and reads them.
//!
//! A [`Compressor`] or [`Decompressor`] owns its tables, up to some 300 KiB; have one for each thread. They are made when they are
//! first needed, and a clone begins without any: they hold nothing between two blocks. The same block gives the same bytes,
//! everywhere; that of a simulated kernel ([`Effort::Fast`]) remembers some blocks for this.

mod known;
mod lzo;

#[cfg(test)]
mod tests;

use crate::codec::{Deflate, Inflate, InflateFault, Unzstd, Zstd};
use crate::fs::{Codec, Work};
use floatgate_media::file::Compression;
use floatgate_media::ubifs::{BLOCK_BYTES, MIN_COMPRESS_BYTES, MIN_COMPRESS_GAIN};

use known::KnownBlocks;
pub(crate) use known::Method;
pub use lzo::LzoFault;

/// Bytes of a block.
const BLOCK: usize = BLOCK_BYTES as usize;

/// Level of libdeflate: half the time of zlib at the level of Linux and mkfs.ubifs, and 2 % smaller.
const ZLIB_LEVEL: i32 = 6;
/// Level at which the kernel's JFFS2 compresses (`fs/jffs2/compr_zlib.c`).
const ZLIB_LEVEL_FAST: i32 = 3;

/// Zstandard's own default, which Linux and mkfs.ubifs use.
const ZSTD_LEVEL: i32 = 3;

/// Reason for which data could not be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressError {
    /// No such compression.
    #[error("compression {0} is not known")]
    Unknown(u16),
    /// The data are longer than the block.
    #[error("{bytes} bytes that are not compressed, for a block of {room}")]
    TooLong {
        /// Bytes of the data.
        bytes: usize,
        /// Bytes there is room for.
        room: usize,
    },
    /// Not LZO, or damaged.
    #[error("LZO, before byte {at} of {bytes}: {fault}")]
    Lzo {
        /// Where reading stopped.
        at: usize,
        /// Bytes of the compressed data.
        bytes: usize,
        /// Description of the fault.
        fault: LzoFault,
    },
    /// Not deflate, damaged, or cut off.
    #[error("deflate: {bytes} bytes are damaged")]
    Zlib {
        /// Bytes of the compressed data.
        bytes: usize,
    },
    /// Deflate with more data than the block holds.
    #[error("deflate: {bytes} bytes with more data than a block of {room}")]
    ZlibTooLong {
        /// Bytes of the compressed data.
        bytes: usize,
        /// Bytes there is room for.
        room: usize,
    },
    /// Not Zstandard, damaged, cut off, or with more data than the block holds.
    #[error("Zstandard: {bytes} bytes are damaged, or hold more than a block of {room}")]
    Zstd {
        /// Bytes of the compressed data.
        bytes: usize,
        /// Bytes there is room for.
        room: usize,
    },
}

/// Trade-off of a compressor between size and speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// The fewest bytes, as mkfs.ubifs.
    #[default]
    Smallest,
    /// As the kernel compresses what a program waits for: LZO in about a tenth of the time and some 15 % larger, zlib of JFFS2 at level 3.
    Fast,
}

/// Compresses blocks.
#[derive(Default)]
pub struct Compressor {
    effort: Effort,
    work: Work,
    known: KnownBlocks,
    lzo: Option<lzo::Lzo>,
    zlib: Option<Deflate>,
    zstd: Zstd,
}

impl Clone for Compressor {
    fn clone(&self) -> Self {
        Self { effort: self.effort, work: self.work, known: self.known.clone(), ..Self::default() }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    /// A compressor of every kind.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self { effort, ..Self::default() }
    }

    /// Compresses a block into `out`, whose contents are replaced; returns what was used.
    ///
    /// As in Linux, that is [`Compression::None`], and the data are copied, if the block is shorter than
    /// [`MIN_COMPRESS_BYTES`] or would shrink by less than [`MIN_COMPRESS_GAIN`]; also if it is longer than a block, or if
    /// `how` is unknown.
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

    /// Bytes that were compressed.
    pub(crate) const fn work(&self) -> &Work {
        &self.work
    }

    /// As `attempt` and `zlib_stream` see it, for a codec that is none of this one's.
    pub(crate) fn count(&mut self, codec: Codec, from: usize, to: usize) {
        self.work.pack(codec, from, Some(to).filter(|&to| 0 < to && to < from));
    }

    /// Compresses by `work`, or takes what the same block gave before. What is not shorter than the block may be any bytes.
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
        if let Some(worked) = self.known.recall(method, data, out) {
            return worked;
        }
        let worked = work(self, out);
        self.known.remember(method, data, (worked, out));
        worked
    }

    /// Compresses; whether that worked. What gains too little may fail, and so does a library that finds no memory.
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
    /// As [`Compression::Zlib`], with zlib's header and sum; false if the data would not become shorter.
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

/// The codec of a compression; none of what is only copied.
const fn codec_of(how: Compression) -> Option<Codec> {
    match how {
        Compression::None | Compression::Other(_) => None,
        Compression::Lzo => Some(Codec::Lzo),
        Compression::Zlib => Some(Codec::Zlib),
        Compression::Zstd => Some(Codec::Zstd),
    }
}

/// The method of a compression; none of what is only copied.
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
    /// A decompressor of every kind.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that were decompressed.
    pub(crate) const fn work(&self) -> &Work {
        &self.work
    }

    /// As `decompress` sees it, for a codec that is none of this one's.
    pub(crate) fn count(&mut self, codec: Codec, from: usize, to: usize) {
        self.work.unpack(codec, from, to);
    }

    /// Decompresses into the start of `out`, whose rest may be overwritten too; returns the bytes written. Give it as many
    /// bytes as the data node says, and compare.
    ///
    /// # Errors
    ///
    /// Damaged data, more data than `out` holds, an unknown compression.
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

/// Data that were not compressed.
fn copy(data: &[u8], out: &mut [u8]) -> Result<usize, CompressError> {
    let room = out.len();
    let to = out.get_mut(..data.len()).ok_or(CompressError::TooLong { bytes: data.len(), room })?;
    to.copy_from_slice(data);
    Ok(data.len())
}

fn lzo(data: &[u8], out: &mut [u8]) -> Result<usize, CompressError> {
    lzo::decompress(data, out).map_err(|(at, fault)| CompressError::Lzo { at, bytes: data.len(), fault })
}

//! libdeflate and libzstd.

use super::InflateFault;
use libdeflater::{CompressionLvl, DecompressionError};

/// Compresses by deflate.
pub struct Deflate(libdeflater::Compressor);

impl Deflate {
    /// A compressor of a level from 1 to 9.
    #[must_use]
    pub fn new(level: i32) -> Self {
        Self(libdeflater::Compressor::new(CompressionLvl::new(level).unwrap_or_default()))
    }

    /// Compresses without a header into `out`; bytes of it, or `None` if it has no room.
    pub fn raw(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0.deflate_compress(data, out).ok()
    }

    /// Compresses with zlib's header and checksum into `out`; bytes of it, or `None` if it has no room.
    pub fn zlib(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0.zlib_compress(data, out).ok()
    }
}

/// Decompresses deflate.
pub struct Inflate(libdeflater::Decompressor);

impl Default for Inflate {
    fn default() -> Self {
        Self(libdeflater::Decompressor::new())
    }
}

impl Inflate {
    /// Decompresses data without a header; the number of bytes in `out`.
    ///
    /// # Errors
    /// Damaged data, or more than `out` holds.
    pub fn raw(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, InflateFault> {
        self.0.deflate_decompress(data, out).map_err(fault)
    }

    /// Decompresses data with zlib's header and checksum; the number of bytes in `out`.
    ///
    /// # Errors
    /// Damaged data, or more than `out` holds.
    pub fn zlib(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, InflateFault> {
        self.0.zlib_decompress(data, out).map_err(fault)
    }
}

const fn fault(error: DecompressionError) -> InflateFault {
    match error {
        DecompressionError::BadData => InflateFault::Damaged,
        DecompressionError::InsufficientSpace => InflateFault::TooLong,
    }
}

/// Compresses by Zstandard. Its tables are made when they are first needed.
#[derive(Default)]
pub struct Zstd(Option<zstd::bulk::Compressor<'static>>);

impl Zstd {
    /// Compresses a frame of a level into `out`; bytes of it, or `None` if it has no room.
    pub fn frame(&mut self, level: i32, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0 = self.0.take().or_else(|| zstd::bulk::Compressor::new(level).ok());
        self.0.as_mut().and_then(|zstd| zstd.compress_to_buffer(data, out).ok())
    }
}

/// Decompresses Zstandard. Its tables are made when they are first needed.
#[derive(Default)]
pub struct Unzstd(Option<zstd::bulk::Decompressor<'static>>);

impl Unzstd {
    /// Decompresses frames; the number of bytes in `out`, or `None` for damaged data or more than `out` holds.
    pub fn frames(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0 = self.0.take().or_else(|| zstd::bulk::Decompressor::new().ok());
        self.0.as_mut().and_then(|zstd| zstd.decompress_to_buffer(data, out).ok())
    }
}

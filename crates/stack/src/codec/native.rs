//! Codecs of the C libraries libdeflate and libzstd.

use super::InflateFault;
use libdeflater::{CompressionLvl, DecompressionError};

/// Compressor of deflate (libdeflate).
pub struct Deflate(libdeflater::Compressor);

impl Deflate {
    /// Creates a compressor of a level from 1 to 9.
    #[must_use]
    pub fn new(level: i32) -> Self {
        Self(libdeflater::Compressor::new(CompressionLvl::new(level).unwrap_or_default()))
    }

    /// Compresses into `out` as raw deflate, without a header. Returns the compressed length in bytes, or
    /// `None` if `out` is too short.
    pub fn raw(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0.deflate_compress(data, out).ok()
    }

    /// Compresses into `out` with zlib's header and checksum. Returns the compressed length in bytes, or
    /// `None` if `out` is too short.
    pub fn zlib(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0.zlib_compress(data, out).ok()
    }
}

/// Decompressor of deflate (libdeflate).
pub struct Inflate(libdeflater::Decompressor);

impl Default for Inflate {
    fn default() -> Self {
        Self(libdeflater::Decompressor::new())
    }
}

impl Inflate {
    /// Decompresses raw deflate data, without a header, into `out`. Returns the decompressed length in bytes.
    ///
    /// # Errors
    /// Damaged data; decompressed data longer than `out`.
    pub fn raw(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, InflateFault> {
        self.0.deflate_decompress(data, out).map_err(fault)
    }

    /// Decompresses data with zlib's header and checksum into `out`. Returns the decompressed length in bytes.
    ///
    /// # Errors
    /// Damaged data; decompressed data longer than `out`.
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

/// Compressor of Zstandard (libzstd). Its tables are allocated on first use.
#[derive(Default)]
pub struct Zstd(Option<zstd::bulk::Compressor<'static>>);

impl Zstd {
    /// Compresses into `out` as one frame of this level. Returns the compressed length in bytes, or `None` if
    /// `out` is too short.
    pub fn frame(&mut self, level: i32, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0 = self.0.take().or_else(|| zstd::bulk::Compressor::new(level).ok());
        self.0.as_mut().and_then(|zstd| zstd.compress_to_buffer(data, out).ok())
    }
}

/// Decompressor of Zstandard (libzstd). Its tables are allocated on first use.
#[derive(Default)]
pub struct Unzstd(Option<zstd::bulk::Decompressor<'static>>);

impl Unzstd {
    /// Decompresses frames into `out`. Returns the decompressed length in bytes, or `None` if the data is
    /// damaged or `out` is too short.
    pub fn frames(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0 = self.0.take().or_else(|| zstd::bulk::Decompressor::new().ok());
        self.0.as_mut().and_then(|zstd| zstd.decompress_to_buffer(data, out).ok())
    }
}

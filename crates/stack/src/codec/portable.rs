//! Codecs of the Rust libraries miniz_oxide and ruzstd.

use super::InflateFault;
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use ruzstd::decoding::FrameDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Window size of deflate, as a power of two. A positive value selects zlib's header, the negative value raw data
/// without a header.
const WINDOW_BITS: i32 = 15;

/// Compressor of deflate (miniz_oxide).
pub struct Deflate {
    level: i32,
}

impl Deflate {
    /// Creates a compressor of a level from 1 to 9.
    #[must_use]
    pub const fn new(level: i32) -> Self {
        Self { level }
    }

    fn run(&self, window_bits: i32, data: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut compressor =
            CompressorOxide::new(create_comp_flags_from_zip_params(self.level, window_bits, 0));
        let (status, _, len) = compress(&mut compressor, data, out, TDEFLFlush::Finish);
        (status == TDEFLStatus::Done).then_some(len)
    }

    /// Compresses into `out` as raw deflate, without a header. Returns the compressed length in bytes, or `None` if
    /// `out` is too short.
    pub fn raw(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.run(-WINDOW_BITS, data, out)
    }

    /// Compresses into `out` with zlib's header and checksum. Returns the compressed length in bytes, or `None` if
    /// `out` is too short.
    pub fn zlib(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.run(WINDOW_BITS, data, out)
    }
}

/// Decompressor of deflate (miniz_oxide).
#[derive(Default)]
pub struct Inflate(Box<DecompressorOxide>);

impl Inflate {
    fn run(&mut self, flags: u32, data: &[u8], out: &mut [u8]) -> Result<usize, InflateFault> {
        self.0.init();
        let flags = flags | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, _, len) = decompress(&mut self.0, data, out, 0, flags);
        match status {
            TINFLStatus::Done => Ok(len),
            TINFLStatus::HasMoreOutput => Err(InflateFault::TooLong),
            _ => Err(InflateFault::Damaged),
        }
    }

    /// Decompresses raw deflate data, without a header, into `out`. Returns the decompressed length in bytes.
    ///
    /// # Errors
    /// Damaged data; decompressed data longer than `out`.
    pub fn raw(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, InflateFault> {
        self.run(0, data, out)
    }

    /// Decompresses data with zlib's header and checksum into `out`. Returns the decompressed length in bytes.
    ///
    /// # Errors
    /// Damaged data; decompressed data longer than `out`.
    pub fn zlib(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, InflateFault> {
        self.run(
            inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER | inflate_flags::TINFL_FLAG_COMPUTE_ADLER32,
            data,
            out,
        )
    }
}

/// Compressor of Zstandard (ruzstd).
#[derive(Default)]
pub struct Zstd(());

impl Zstd {
    /// Compresses into `out` as one frame. Returns the compressed length in bytes, or `None` if `out` is too short. The
    /// library has only one, fast level.
    pub fn frame(&mut self, _level: i32, data: &[u8], out: &mut [u8]) -> Option<usize> {
        let frame = compress_to_vec(data, CompressionLevel::Fastest);
        out.get_mut(..frame.len())?.copy_from_slice(&frame);
        Some(frame.len())
    }
}

/// Decompressor of Zstandard (ruzstd).
#[derive(Default)]
pub struct Unzstd(Option<FrameDecoder>);

impl Unzstd {
    /// Decompresses frames into `out`. Returns the decompressed length in bytes, or `None` if the data is damaged or
    /// `out` is too short.
    pub fn frames(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0.get_or_insert_with(FrameDecoder::new).decode_all(data, out).ok()
    }
}

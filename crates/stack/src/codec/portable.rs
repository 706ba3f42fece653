//! miniz_oxide and ruzstd.

use super::InflateFault;
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use ruzstd::decoding::FrameDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Window of deflate with zlib's header, as a power of two; a negative one stands for data without a header.
const WINDOW_BITS: i32 = 15;

/// Compresses by deflate.
pub struct Deflate {
    level: i32,
}

impl Deflate {
    /// A compressor of a level from 1 to 9.
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

    /// Compresses without a header into `out`; bytes of it, or `None` if it has no room.
    pub fn raw(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.run(-WINDOW_BITS, data, out)
    }

    /// Compresses with zlib's header and checksum into `out`; bytes of it, or `None` if it has no room.
    pub fn zlib(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.run(WINDOW_BITS, data, out)
    }
}

/// Decompresses deflate.
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

    /// Decompresses data without a header; the number of bytes in `out`.
    ///
    /// # Errors
    /// Damaged data, or more than `out` holds.
    pub fn raw(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, InflateFault> {
        self.run(0, data, out)
    }

    /// Decompresses data with zlib's header and checksum; the number of bytes in `out`.
    ///
    /// # Errors
    /// Damaged data, or more than `out` holds.
    pub fn zlib(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, InflateFault> {
        self.run(
            inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER | inflate_flags::TINFL_FLAG_COMPUTE_ADLER32,
            data,
            out,
        )
    }
}

/// Compresses by Zstandard.
#[derive(Default)]
pub struct Zstd(());

impl Zstd {
    /// Compresses a frame into `out`; bytes of it, or `None` if it has no room. The library has one level, which is fast.
    pub fn frame(&mut self, _level: i32, data: &[u8], out: &mut [u8]) -> Option<usize> {
        let frame = compress_to_vec(data, CompressionLevel::Fastest);
        out.get_mut(..frame.len())?.copy_from_slice(&frame);
        Some(frame.len())
    }
}

/// Decompresses Zstandard.
#[derive(Default)]
pub struct Unzstd(Option<FrameDecoder>);

impl Unzstd {
    /// Decompresses frames; the number of bytes in `out`, or `None` for damaged data or more than `out` holds.
    pub fn frames(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0.get_or_insert_with(FrameDecoder::new).decode_all(data, out).ok()
    }
}

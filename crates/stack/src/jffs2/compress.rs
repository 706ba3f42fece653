//! Compression and decompression of node data. Malformed data never causes access outside the buffers.

use crate::fs::{self, Codec, Work};
use crate::ubifs::compress::{self, CompressError};
use floatgate_media::jffs2::Compressor;
use lzma_rust2::LzmaReader;
use std::io::Read;

/// Reason why data could not be decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressFault {
    /// The compressor exists in neither Linux nor OpenWrt.
    #[error("compressor {} is not known", .0.code())]
    Unsupported(Compressor),
    /// Malformed LZO or deflate data, or too much output.
    #[error("{0}")]
    Stream(#[from] CompressError),
    /// Deflate data without a zlib header.
    #[error("no header of zlib")]
    NoZlibHeader,
    /// The compressed data ends too early.
    #[error("{have} bytes where {need} are needed")]
    Short {
        /// Decompressed bytes.
        have: usize,
        /// Expected bytes.
        need: usize,
    },
}

/// LZMA properties that OpenWrt uses and streams do not contain: no context or position bits (lc, lp, pb), and the
/// dictionary size.
const LZMA_PROPERTIES: u8 = 0;
const LZMA_DICTIONARY: u32 = 0x2000;

/// Decompressor of nodes; holds the library's tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Decompressor {
    streams: compress::Decompressor,
}

impl Decompressor {
    /// CPU work of all decompressions.
    pub(super) const fn work(&self) -> &Work {
        self.streams.work()
    }

    fn counted(&mut self, codec: Codec, data: &[u8], len: usize) -> usize {
        self.streams.count(codec, data.len(), len);
        len
    }

    /// Decompresses `data` into `out`.
    pub(super) fn decompress(
        &mut self,
        compressor: Compressor,
        data: &[u8],
        out: &mut [u8],
    ) -> Result<(), CompressFault> {
        let have = match compressor {
            Compressor::None | Compressor::Copy => {
                self.streams.decompress(fs::Compression::None, data, out)?
            }
            Compressor::Zero => {
                out.fill(0);
                out.len()
            }
            Compressor::Rtime => self.counted(Codec::Rtime, data, rtime(data, out)),
            Compressor::RubinMips => {
                self.counted(Codec::Rubin, data, Rubin::new(data, MIPS_DIVIDER, MIPS_BITS).decode(out))
            }
            Compressor::DynRubin => self.counted(Codec::Rubin, data, dyn_rubin(data, out)),
            Compressor::Zlib => {
                let deflate = without_zlib_header(data).ok_or(CompressFault::NoZlibHeader)?;
                self.streams.decompress(fs::Compression::Zlib, deflate, out)?
            }
            Compressor::Lzo => self.streams.decompress(fs::Compression::Lzo, data, out)?,
            Compressor::Lzma => self.counted(Codec::Rubin, data, lzma(data, out)),
            other => return Err(CompressFault::Unsupported(other)),
        };
        if have == out.len() { Ok(()) } else { Err(CompressFault::Short { have, need: out.len() }) }
    }
}

/// Compresses data for a node; false if the result is not shorter, or the compressor is read-only here.
pub(super) fn compress(
    streams: &mut compress::Compressor,
    compressor: Compressor,
    data: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    out.clear();
    let done = match compressor {
        Compressor::Zlib => streams.zlib_stream(data, out),
        Compressor::Lzo => streams.attempt(fs::Compression::Lzo, data, out),
        Compressor::Rtime => {
            streams.once(compress::Method::Rtime, data, out, |_, out| {
                compress_rtime(data, out);
                true
            });
            streams.count(Codec::Rtime, data.len(), out.len());
            true
        }
        _ => false,
    };
    done && out.len() < data.len()
}

/// Rtime compression: pairs of a byte and the number of following bytes that equal those after the byte's last
/// occurrence.
fn compress_rtime(data: &[u8], out: &mut Vec<u8>) {
    let mut behind = [0; 256];
    let mut at = 0;
    while let Some(&value) = data.get(at) {
        at += 1;
        let mut from = std::mem::replace(&mut behind[usize::from(value)], at);
        let mut run = 0;
        while run < u8::MAX && from < at && data.get(at).is_some_and(|byte| data[from] == *byte) {
            at += 1;
            from += 1;
            run += 1;
        }
        out.extend([value, run]);
    }
}

/// Deflate data after a zlib header (RFC 1950) without a preset dictionary. The Adler-32 checksum is ignored, because
/// the node has a CRC.
fn without_zlib_header(data: &[u8]) -> Option<&[u8]> {
    let (&[method, flags], deflate) = data.split_first_chunk()?;
    let is_header = method & 0x0F == 8 && flags & 0x20 == 0 && u16::from_be_bytes([method, flags]) % 31 == 0;
    is_header.then_some(deflate)
}

/// Decompresses a raw LZMA stream without header into `out` and returns the number of bytes. The end marker is
/// optional.
fn lzma(data: &[u8], out: &mut [u8]) -> usize {
    let reader = LzmaReader::new_with_props(data, out.len() as u64, LZMA_PROPERTIES, LZMA_DICTIONARY, None);
    let Ok(mut reader) = reader else { return 0 };
    let mut have = 0;
    while have < out.len() {
        match reader.read(&mut out[have..]) {
            Ok(0) | Err(_) => break,
            Ok(more) => have += more,
        }
    }
    have
}

/// Rtime decompression: each pair of a byte and a length copies that many bytes from after the byte's last occurrence,
/// possibly overlapping. Returns the number of bytes.
fn rtime(data: &[u8], out: &mut [u8]) -> usize {
    // Position behind the last occurrence of each byte.
    let mut behind = [0; 256];
    let mut at = 0;
    for pair in data.chunks_exact(2) {
        let (value, run) = (pair[0], usize::from(pair[1]));
        let Some(place) = out.get_mut(at) else { break };
        *place = value;
        at += 1;
        let from = std::mem::replace(&mut behind[usize::from(value)], at);
        for index in from..from + run {
            if at >= out.len() {
                return at;
            }
            out[at] = out[index];
            at += 1;
        }
    }
    at
}

/// Sum of the frequencies of a bit in [`Compressor::RubinMips`].
const MIPS_DIVIDER: u32 = 1043;

/// Frequency of a one in each bit of a byte, out of that sum (Linux: `bits_mips`).
const MIPS_BITS: [u32; 8] = [277, 249, 290, 267, 229, 341, 212, 241];

/// Sum of the frequencies of a bit in data that stores its frequencies at the beginning (Linux: `dynrubin`).
const DYN_DIVIDER: u32 = 256;

/// Arithmetic decoder with a register of 16 bits, which reads bits most significant first.
struct Rubin<'a> {
    data: &'a [u8],
    /// Number of bits read.
    taken: usize,
    /// Width of the interval (p), its start (q), and the code bits in it.
    width: u32,
    begin: u32,
    code: u32,
    divider: u32,
    bits: [u32; 8],
}

/// Most significant bit of the register.
const UPPER: u32 = 1 << 15;

impl<'a> Rubin<'a> {
    fn new(data: &'a [u8], divider: u32, bits: [u32; 8]) -> Self {
        let mut rubin = Self { data, taken: 0, width: 2 * UPPER, begin: 0, code: 0, divider, bits };
        for _ in 0..16 {
            rubin.code = rubin.code << 1 | rubin.pull();
        }
        rubin
    }

    /// Next input bit; zero after the end.
    fn pull(&mut self) -> u32 {
        let byte = self.data.get(self.taken / 8).copied().unwrap_or(0);
        let bit = byte >> (7 - self.taken % 8) & 1;
        self.taken += 1;
        u32::from(bit)
    }

    /// Decodes a bit whose frequency of zero is `zeros` out of the divider.
    fn bit(&mut self, zeros: u32) -> u32 {
        while self.begin >= UPPER || self.width + self.begin <= UPPER {
            self.begin = (self.begin & (UPPER - 1)) << 1;
            self.width <<= 1;
            self.code = (self.code & (UPPER - 1)) << 1 | self.pull();
        }
        let split = (zeros * self.width / self.divider).clamp(1, (self.width - 1).max(1));
        if self.code >= self.begin + split {
            self.begin += split;
            self.width -= split;
            1
        } else {
            self.width = split;
            0
        }
    }

    /// Decodes bytes into `out` until the input ends; returns the number of bytes.
    fn decode(mut self, out: &mut [u8]) -> usize {
        for (number, byte) in out.iter_mut().enumerate() {
            // The decoder's register reads some bits ahead of the decoded byte.
            if self.taken > 8 * self.data.len() + 32 {
                return number;
            }
            *byte = 0;
            for (shift, ones) in self.bits.into_iter().enumerate() {
                let zeros = self.divider.saturating_sub(ones).max(1);
                *byte |= (self.bit(zeros) as u8) << shift;
            }
        }
        out.len()
    }
}

/// Decodes data after eight bytes of frequencies.
fn dyn_rubin(data: &[u8], out: &mut [u8]) -> usize {
    let Some((bits, data)) = data.split_first_chunk::<8>() else { return 0 };
    Rubin::new(data, DYN_DIVIDER, bits.map(u32::from)).decode(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encoder for [`Rubin`]; Linux only contains the decoder.
    fn encode(bytes: &[u8], divider: u32, bits: [u32; 8]) -> Vec<u8> {
        let (mut width, mut begin, mut pushed) = (2 * UPPER, 0, Vec::new());
        let mut bit = |one: bool, zeros: u32| {
            while begin >= UPPER || width + begin <= UPPER {
                pushed.push(begin >= UPPER);
                begin = (begin & (UPPER - 1)) << 1;
                width <<= 1;
            }
            let split = (zeros * width / divider).clamp(1, width - 1);
            if one {
                begin += split;
                width -= split;
            } else {
                width = split;
            }
        };
        for byte in bytes {
            for (shift, ones) in bits.into_iter().enumerate() {
                bit(byte >> shift & 1 == 1, divider - ones);
            }
        }
        for shift in (0..16).rev() {
            pushed.push(begin >> shift & 1 == 1);
        }
        pushed
            .chunks(8)
            .map(|bits| bits.iter().enumerate().fold(0, |sum, (at, &bit)| sum | u8::from(bit) << (7 - at)))
            .collect()
    }

    fn decompressed(compressor: Compressor, data: &[u8], len: usize) -> Result<Vec<u8>, CompressFault> {
        let mut out = vec![0xAA; len];
        Decompressor::default().decompress(compressor, data, &mut out).map(|()| out)
    }

    #[test]
    fn rubin_finds_what_was_encoded() {
        let text: Vec<u8> = b"Flash wears out, page by page. ".repeat(20);
        let fixed = encode(&text, MIPS_DIVIDER, MIPS_BITS);
        assert_eq!(decompressed(Compressor::RubinMips, &fixed, text.len()).unwrap(), text);
        let bits = [120, 130, 40, 128, 90, 200, 180, 4];
        let mut own = bits.to_vec();
        own.extend(encode(&text, DYN_DIVIDER, bits.map(u32::from)));
        assert_eq!(decompressed(Compressor::DynRubin, &own, text.len()).unwrap(), text);
    }

    #[test]
    fn rtime_copies_what_overlaps() {
        // After the first `a`, the copy takes `b`, `a`, and then the `b` that was just written.
        assert_eq!(decompressed(Compressor::Rtime, &[b'a', 0, b'b', 0, b'a', 3], 6).unwrap(), b"ababab");
        assert_eq!(decompressed(Compressor::Rtime, &[7, 0, 7, 4], 6).unwrap(), [7; 6]);
        assert!(matches!(
            decompressed(Compressor::Rtime, &[7, 0], 6),
            Err(CompressFault::Short { have: 1, need: 6 })
        ));
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let texts: [Vec<u8>; 4] = [
            b"abcabcabcabcabcabd".repeat(30),
            vec![0; 4096],
            vec![7; 300],
            (0..=255).cycle().take(1000).collect(),
        ];
        let mut streams = compress::Compressor::default();
        for compressor in [Compressor::Zlib, Compressor::Lzo, Compressor::Rtime] {
            for text in &texts {
                let mut out = Vec::new();
                let shorter = compress(&mut streams, compressor, text, &mut out);
                assert_eq!(shorter, out.len() < text.len() && !out.is_empty(), "{compressor:?}");
                if shorter {
                    assert!(decompressed(compressor, &out, text.len()).unwrap() == *text, "{compressor:?}");
                }
            }
        }
        assert!(!compress(&mut streams, Compressor::RubinMips, &texts[0], &mut Vec::new()), "only read");
    }

    /// A compressor of a simulated kernel caches compressed blocks. It returns the same bytes and counts the same work
    /// as a new compressor.
    #[test]
    fn what_is_remembered_is_what_is_compressed_again() {
        let block = |seed: usize| -> Vec<u8> { (0..4096).map(|at| (at * at % (seed + 3)) as u8).collect() };
        let blocks: Vec<Vec<u8>> = [0, 250, 7, 0, 250, 1 << 20].map(block).to_vec();
        let how = [Compressor::Zlib, Compressor::Rtime, Compressor::Lzo];
        let mut remembers = compress::Compressor::new(compress::Effort::Fast);
        for (block, how) in blocks.iter().chain(&blocks).flat_map(|block| how.map(|how| (block, how))) {
            let mut new = compress::Compressor::new(compress::Effort::Fast);
            let (mut expected, mut out, before) = (Vec::new(), vec![1; 9], *remembers.work());
            let is_shorter = compress(&mut new, how, block, &mut expected);
            assert_eq!(compress(&mut remembers, how, block, &mut out), is_shorter, "{how:?}");
            assert!(out == expected || !is_shorter && out.len() == expected.len(), "{how:?}");
            assert_eq!(remembers.work().since(&before), *new.work(), "{how:?}");
        }
        let (mut clone, mut out) = (remembers.clone(), Vec::new());
        assert!(compress(&mut clone, Compressor::Zlib, &blocks[0], &mut out));
    }

    /// `lzma.compress(b"Flash wears out, page by page. " * 4, ...)` of Python, raw, with lc, lp and pb 0 and a dictionary of 8 KiB.
    const LZMA: [u8; 40] = [
        0x00, 0x23, 0x1c, 0xc2, 0x54, 0xd7, 0xf8, 0x64, 0x21, 0xf8, 0x1b, 0x84, 0xa3, 0xed, 0xf3, 0x99, 0xad,
        0x49, 0x7d, 0x07, 0xa8, 0x26, 0x5a, 0xaa, 0x41, 0xa3, 0x4f, 0x2d, 0xc9, 0x4a, 0x37, 0x4d, 0xf2, 0x6f,
        0xff, 0xff, 0xf5, 0xe1, 0x00, 0x00,
    ];

    /// Linux's encoder omits the end marker.
    #[test]
    fn lzma_needs_no_header_and_no_end() {
        let text = b"Flash wears out, page by page. ".repeat(4);
        assert_eq!(decompressed(Compressor::Lzma, &LZMA, text.len()).unwrap(), text);
        assert_eq!(decompressed(Compressor::Lzma, &LZMA[..36], text.len()).unwrap(), text);
        assert!(decompressed(Compressor::Lzma, &LZMA, 40).is_err(), "the data end in a run");
        for len in 0..30 {
            let short = decompressed(Compressor::Lzma, &LZMA[..len], text.len());
            assert!(matches!(short, Err(CompressFault::Short { .. })), "{len}");
        }
        assert!(decompressed(Compressor::Lzma, &LZMA, 4096).is_err());
    }

    #[test]
    fn lzma_takes_any_bytes() {
        for at in 0..LZMA.len() {
            for bit in 0..8 {
                let mut data = LZMA;
                data[at] ^= 1 << bit;
                let _ = decompressed(Compressor::Lzma, &data, 4096);
            }
        }
        for byte in 0..=255 {
            let _ = decompressed(Compressor::Lzma, &[byte; 100], 1 << 16);
        }
    }

    #[test]
    fn data_that_lie_are_refused() {
        assert!(matches!(decompressed(Compressor::Zlib, &[1, 2, 3], 6), Err(CompressFault::NoZlibHeader)));
        assert!(matches!(decompressed(Compressor::None, &[1; 9], 6), Err(CompressFault::Stream(_))));
        assert!(matches!(decompressed(Compressor::DynRubin, &[0; 7], 6), Err(CompressFault::Short { .. })));
        assert!(decompressed(Compressor::DynRubin, &[255; 30], 4096).is_err());
        // A stream of zeros only is valid.
        assert!(decompressed(Compressor::DynRubin, &[0; 30], 4096).is_ok());
        assert!(decompressed(Compressor::Other(77), &[], 6).is_err());
    }
}

//! Parser for sessions of sigrok (`.sr`): a ZIP archive that contains samples of all channels at equal distances, and a
//! text with the sample rate and the channel names. (Format: sigrok's wiki, "File format:Sigrok/v2"; ZIP: PKWARE APPNOTE
//! 6.3.)

use crate::error::Error;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Signature of a local file header in a ZIP archive.
const LOCAL: &[u8; 4] = b"PK\x03\x04";
/// Signature of an entry in the central directory of a ZIP archive.
const ENTRY: &[u8; 4] = b"PK\x01\x02";
/// Signature of the end record of a ZIP archive.
const END: &[u8; 4] = b"PK\x05\x06";

/// Maximum size of the uncompressed samples, bytes.
const SAMPLES_MAX: usize = 1 << 30;
/// Maximum size of the text with sample rate and channel names, bytes.
const METADATA_MAX: usize = 1 << 20;

/// True for bytes that begin with the signature of a ZIP archive.
pub(crate) fn is_session(bytes: &[u8]) -> bool {
    bytes.starts_with(LOCAL)
}

/// A channel of a sigrok session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    /// Name of the channel that the user sees.
    pub(crate) name: String,
    /// Number of the channel's bit in a sample, counted from the lowest bit of the first byte.
    bit: usize,
}

impl Channel {
    /// Level of the channel in a sample.
    pub(crate) fn level(&self, sample: &[u8]) -> bool {
        sample.get(self.bit / 8).is_some_and(|byte| byte >> (self.bit % 8) & 1 == 1)
    }
}

/// Samples of one device in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) channels: Vec<Channel>,
    samples: Vec<u8>,
    /// Size of a sample, bytes.
    unit: usize,
    /// Sample rate, Hz.
    rate_hz: u64,
}

impl Session {
    /// Reads the samples of the first device with digital channels.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let archive = Archive::read(bytes)?;
        let text = archive.unpack("metadata", METADATA_MAX)?.ok_or(Error::Session("no file `metadata`"))?;
        let text = String::from_utf8(text).map_err(|_| Error::Session("`metadata` is no text"))?;
        let mut session = Self { channels: Vec::new(), samples: Vec::new(), unit: 1, rate_hz: 0 };
        let mut file = None;
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match key.trim() {
                // The keys of a second device have the same names.
                "capturefile" if file.is_some() => break,
                "capturefile" => file = Some(value.trim()),
                "samplerate" => session.rate_hz = rate_hz(value).unwrap_or(0),
                "unitsize" => session.unit = value.trim().parse().unwrap_or(0),
                key => {
                    let bit = key.strip_prefix("probe").and_then(|number| number.parse::<usize>().ok());
                    if let Some(bit) = bit.and_then(|number| number.checked_sub(1)) {
                        session.channels.push(Channel { name: value.trim().to_owned(), bit });
                    }
                }
            }
        }
        if session.rate_hz == 0 {
            return Err(Error::Session("no sample rate"));
        }
        if !(1..=64).contains(&session.unit) {
            return Err(Error::Session("`unitsize` is not from 1 to 64"));
        }
        session.samples = archive.samples(file.ok_or(Error::Session("no digital samples"))?)?;
        Ok(session)
    }

    /// All samples, in order.
    pub(crate) fn samples(&self) -> impl Iterator<Item = &[u8]> {
        self.samples.chunks_exact(self.unit)
    }

    /// Time of a sample since the first one, fs.
    pub(crate) fn time_fs(&self, sample: u64) -> u128 {
        u128::from(sample) * 1_000_000_000_000_000 / u128::from(self.rate_hz)
    }
}

/// Parses a sample rate such as `25 MHz`.
fn rate_hz(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "" | "Hz" => 1,
        "kHz" => 1_000,
        "MHz" => 1_000_000,
        "GHz" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// A file of a ZIP archive.
struct Entry<'a> {
    name: &'a [u8],
    packed: &'a [u8],
    /// Compression method; 0: stored, 8: deflated.
    method: u16,
}

/// A ZIP archive in memory.
struct Archive<'a>(Vec<Entry<'a>>);

const TRUNCATED: Error = Error::Session("the archive is incomplete");

impl<'a> Archive<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        // A comment of up to 64 KiB can follow the end record.
        const END_BYTES: usize = 22;
        let first = bytes.len().saturating_sub(END_BYTES + 0xFFFF);
        let end = (first..=bytes.len().saturating_sub(END_BYTES)).rev();
        let end = end.into_iter().find(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(END)));
        let end = end.and_then(|at| bytes.get(at..)).ok_or(TRUNCATED)?;
        let (count, mut at) = (u16_at(end, 10)?, u32_at(end, 16)? as usize);
        let mut entries = Vec::new();
        for _ in 0..count {
            let entry = bytes.get(at..).filter(|rest| rest.starts_with(ENTRY)).ok_or(TRUNCATED)?;
            let [name, extra, comment] = [u16_at(entry, 28)?, u16_at(entry, 30)?, u16_at(entry, 32)?];
            entries.push(Entry {
                name: entry.get(46..46 + usize::from(name)).ok_or(TRUNCATED)?,
                packed: packed(bytes, u32_at(entry, 42)? as usize, u32_at(entry, 20)? as usize)?,
                method: u16_at(entry, 10)?,
            });
            at += 46 + usize::from(name) + usize::from(extra) + usize::from(comment);
        }
        Ok(Self(entries))
    }

    /// Uncompressed contents of a file of at most `most` bytes; `None` if the archive does not contain it.
    fn unpack(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let Some(entry) = self.0.iter().find(|entry| entry.name == name.as_bytes()) else { return Ok(None) };
        match entry.method {
            0 if entry.packed.len() <= most => Ok(Some(entry.packed.to_vec())),
            8 => decompress_to_vec_with_limit(entry.packed, most)
                .map(Some)
                .map_err(|_| Error::Session("a file is damaged, or longer than 1 GiB")),
            0 => Err(Error::Session("a file is longer than 1 GiB")),
            _ => Err(Error::Session("a file is packed in another way than deflate")),
        }
    }

    /// Samples of a device, from one file or from numbered pieces.
    fn samples(&self, file: &str) -> Result<Vec<u8>, Error> {
        if let Some(whole) = self.unpack(file, SAMPLES_MAX)? {
            return Ok(whole);
        }
        let mut samples = Vec::new();
        for piece in 1_u32.. {
            let room = SAMPLES_MAX - samples.len();
            let Some(bytes) = self.unpack(&format!("{file}-{piece}"), room)? else { break };
            samples.extend(bytes);
        }
        if samples.is_empty() { Err(Error::Session("no samples")) } else { Ok(samples) }
    }
}

/// Compressed bytes of the file whose local header is at offset `at`. The central directory contains their `length`.
fn packed(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], Error> {
    let header = bytes.get(at..).filter(|rest| rest.starts_with(LOCAL)).ok_or(TRUNCATED)?;
    let start = 30 + usize::from(u16_at(header, 26)?) + usize::from(u16_at(header, 28)?);
    header.get(start..).and_then(|rest| rest.get(..length)).ok_or(TRUNCATED)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Error> {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(TRUNCATED)?;
    Ok(u16::from_le_bytes(*chunk))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Error> {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(TRUNCATED)?;
    Ok(u32::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capture, Channels, read};
    use miniz_oxide::deflate::compress_to_vec;

    /// Creates a ZIP archive of files, each stored or deflated.
    fn archive(files: &[(&str, &[u8], bool)]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, contents, deflated) in files {
            let packed = if *deflated { compress_to_vec(contents, 6) } else { contents.to_vec() };
            let sizes = [packed.len() as u32, contents.len() as u32].map(u32::to_le_bytes).concat();
            let method = if *deflated { 8_u16 } else { 0 }.to_le_bytes();
            let common =
                [&[20, 0, 0, 0][..], &method, &[0; 8], &sizes, &[name.len() as u8, 0, 0, 0]].concat();
            let offset = (bytes.len() as u32).to_le_bytes();
            directory.extend([ENTRY, &[20, 0][..], &common, &[0; 10], &offset, name.as_bytes()].concat());
            bytes.extend([LOCAL, &common[..], name.as_bytes(), &packed].concat());
        }
        let count = [files.len() as u8, 0];
        let [length, at] = [directory.len(), bytes.len()].map(|n| (n as u32).to_le_bytes());
        bytes.extend([&directory[..], END, &[0; 4], &count, &count, &length, &at, &[0; 2]].concat());
        bytes
    }

    const METADATA: &str = "[global]\nsigrok version=0.5.2\n\n[device 1]\ncapturefile=logic-1\ntotal probes=4\n\
                            samplerate=20 MHz\nprobe1=CS\nprobe2=CLK\nprobe3=MOSI\nprobe4=MISO\nunitsize=1\n";

    /// Samples of a window that sends 9Fh and receives FFh, with a clock of 10 MHz.
    fn samples() -> Vec<u8> {
        let bits = (0..8).rev().flat_map(|bit| {
            let data = (0x9F_u8 >> bit & 1) << 2 | 8;
            [data, data | 2]
        });
        [1, 1, 0].into_iter().chain(bits).chain([0, 1]).collect()
    }

    #[test]
    fn a_session_is_read() {
        let samples = samples();
        let (start, rest) = samples.split_at(7);
        for deflated in [false, true] {
            let whole = archive(&[
                ("version", b"2", false),
                ("metadata", METADATA.as_bytes(), deflated),
                ("logic-1", &samples, deflated),
            ]);
            let pieces = archive(&[
                ("logic-1-1", start, deflated),
                ("logic-1-2", rest, deflated),
                ("metadata", METADATA.as_bytes(), deflated),
            ]);
            for bytes in [whole, pieces] {
                let Capture { windows, begins_within, .. } = read(&bytes, &Channels::default()).unwrap();
                assert_eq!(
                    (windows.len(), &windows[0].sent, &windows[0].received),
                    (1, &vec![0x9F], &vec![0xFF])
                );
                assert_eq!(
                    (windows[0].start_ns, windows[0].clock_hz, begins_within),
                    (100, Some(10_000_000), false)
                );
                // A damaged session is rejected or read; a truncated one lacks the central directory.
                for length in 0..bytes.len() {
                    assert!(read(&bytes[..length], &Channels::default()).is_err(), "{length}");
                }
                for at in 0..bytes.len() {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 0x55;
                    let _ = read(&damaged, &Channels::default());
                }
            }
        }
    }

    #[test]
    fn a_session_that_begins_within_a_command_says_so() {
        let samples = [&samples()[3..], &samples()].concat();
        let bytes = archive(&[("metadata", METADATA.as_bytes(), true), ("logic-1", &samples, true)]);
        let capture = read(&bytes, &Channels::default()).unwrap();
        assert!(capture.begins_within);
        assert_eq!(capture.windows.len(), 1);
    }

    #[test]
    fn rates_are_read() {
        assert_eq!(rate_hz("25 MHz"), Some(25_000_000));
        assert_eq!(rate_hz("500000"), Some(500_000));
        assert_eq!((rate_hz("1 kHz"), rate_hz("1 THz"), rate_hz("")), (Some(1000), None, None));
    }
}

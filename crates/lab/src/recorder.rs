//! A recorder: data that arrives at a constant rate is written piece by piece, and each piece is synced before the next
//! one. The longest write determines the buffer that the recorder needs, and the mean of all writes determines the rate
//! that it sustains.

use crate::card::serve::CardAtWork;
use crate::fs_compare::contents::{RANDOM, data};
use crate::progress::{Listener, Progress};
use floatgate_mtd::{BlockDevice, Instant, Nanos, SECTOR_BYTES};
use floatgate_sim::error::Error;
use floatgate_sim::machine::failed;
use floatgate_sim::vfs::Vfs;
use serde::{Deserialize, Serialize};

/// Quantiles of the write time that are reported.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// Data that arrives at a constant rate, and the ring buffer on storage to which it is written.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Number of bytes that arrive per second; `None` if data is always available.
    pub bytes_per_s: Option<u64>,
    /// Size of a write, bytes.
    pub piece_bytes: usize,
    /// Size of the ring, bytes: a whole number of pieces. After its end, writing continues at its start.
    pub ring_bytes: u64,
    /// Total number of bytes to write: a whole number of pieces.
    pub bytes: u64,
}

/// Storage of a recorder, in virtual time.
pub trait Storage {
    /// Current virtual time of the storage.
    fn now(&self) -> Instant;

    /// Waits for the next data.
    ///
    /// # Errors
    /// A failure of background work.
    fn sleep(&mut self, length: Nanos) -> Result<(), Error>;

    /// Writes and syncs a piece at an offset of the ring.
    ///
    /// # Errors
    /// The storage fails.
    fn write(&mut self, offset: u64, bytes: usize) -> Result<(), Error>;
}

/// Result of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recording {
    /// Number of bytes that arrived per second; `None` if data was always available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Number of writes.
    pub writes: u64,
    /// Mean rate of the writes in bytes per second, without the time of waiting for data.
    pub sustained_bytes_per_s: f64,
    /// Quantiles of the write time.
    pub quantiles: Vec<Quantile>,
    /// Number of the longest write, from 0.
    pub longest_at: u64,
    /// Maximum number of bytes that waited, including the piece being written; 0 without a rate.
    pub buffer_bytes: u64,
    /// False if data arrived faster on average than it was written: no buffer is large enough then.
    pub keeps_up: bool,
}

/// A quantile of the write time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// Share of the writes, 0 to 1.
    pub share: f64,
    /// Time that none of these writes exceeds, us.
    pub us: f64,
}

/// Records a stream.
///
/// # Errors
/// The storage fails.
pub fn record(storage: &mut dyn Storage, stream: Stream, progress: Listener<'_>) -> Result<Recording, Error> {
    let pieces = stream.bytes / stream.piece_bytes as u64;
    let (start, mut times) = (storage.now(), Vec::with_capacity(pieces as usize));
    let mut buffer_bytes = 0;
    progress(Progress::Steps(pieces));
    for piece in 0..pieces {
        let written = piece * stream.piece_bytes as u64;
        if let Some(rate) = stream.bytes_per_s {
            let is_there = start + time_of(written + stream.piece_bytes as u64, rate);
            storage.sleep(is_there.since(storage.now()))?;
        }
        let begin = storage.now();
        storage.write(written % stream.ring_bytes, stream.piece_bytes)?;
        times.push(storage.now().since(begin));
        if let Some(rate) = stream.bytes_per_s {
            let arrived = u128::from(storage.now().since(start).as_ns()) * u128::from(rate) / 1_000_000_000;
            buffer_bytes = buffer_bytes.max((arrived as u64).saturating_sub(written));
        }
        progress(Progress::Done(1));
    }
    Ok(Recording::new(stream, times, buffer_bytes))
}

/// Time in which `bytes` arrive at `per_s` bytes per second.
fn time_of(bytes: u64, per_s: u64) -> Nanos {
    Nanos::from_ns((u128::from(bytes) * 1_000_000_000 / u128::from(per_s.max(1))) as u64)
}

impl Recording {
    fn new(stream: Stream, mut times: Vec<Nanos>, buffer_bytes: u64) -> Self {
        let busy_ns: u64 = times.iter().map(|time| time.as_ns()).sum();
        let sustained = stream.bytes as f64 / (busy_ns as f64 / 1e9).max(1e-9);
        let longest = times.iter().enumerate().max_by_key(|(at, time)| (**time, usize::MAX - at));
        let longest_at = longest.map_or(0, |(at, _)| at as u64);
        times.sort_unstable();
        let quantile = |share: f64| {
            let at = ((share * times.len() as f64).ceil() as usize).clamp(1, times.len().max(1)) - 1;
            Quantile { share, us: times.get(at).map_or(0.0, |time| time.as_ns() as f64 / 1e3) }
        };
        Self {
            bytes_per_s: stream.bytes_per_s,
            writes: times.len() as u64,
            sustained_bytes_per_s: sustained,
            quantiles: QUANTILES.map(quantile).to_vec(),
            longest_at,
            buffer_bytes,
            keeps_up: stream.bytes_per_s.is_none_or(|rate| rate as f64 <= sustained),
        }
    }

    /// Time of the longest write, us.
    pub fn longest_us(&self) -> f64 {
        self.quantiles.last().map_or(0.0, |all| all.us)
    }
}

/// A file on a filesystem as storage.
pub struct File {
    vfs: Vfs,
    inode: u32,
    data: Vec<u8>,
}

impl File {
    /// Creates a new file.
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn new(mut vfs: Vfs) -> Result<Self, Error> {
        let root = vfs.fs().root();
        let inode = vfs.create(root, b"record").map_err(failed("create"))?;
        Ok(Self { vfs, inode, data: data(RANDOM) })
    }
}

impl Storage for File {
    fn now(&self) -> Instant {
        self.vfs.moment().now
    }

    fn sleep(&mut self, length: Nanos) -> Result<(), Error> {
        self.vfs.sleep(length).map_err(failed("waiting for data"))
    }

    fn write(&mut self, offset: u64, bytes: usize) -> Result<(), Error> {
        let data = &self.data[..bytes.min(self.data.len())];
        self.vfs.write(self.inode, offset, data).map_err(failed("write"))?;
        self.vfs.fsync(self.inode).map_err(failed("fsync"))
    }
}

/// Consecutive sectors of a card as storage.
pub struct Sectors {
    card: CardAtWork,
    first: u64,
    now: Instant,
    data: Vec<u8>,
}

impl Sectors {
    /// Storage that consists of the sectors from `first` on.
    pub fn new(card: CardAtWork, first: u64) -> Self {
        let now = card.now();
        Self { card, first, now, data: data(RANDOM) }
    }
}

impl Storage for Sectors {
    fn now(&self) -> Instant {
        self.now
    }

    fn sleep(&mut self, length: Nanos) -> Result<(), Error> {
        self.now += length;
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: usize) -> Result<(), Error> {
        let sector = self.first + offset / SECTOR_BYTES as u64;
        let data = &self.data[..bytes.min(self.data.len())];
        let written = self.card.write(self.now, sector, data);
        let ended = written.and_then(|written| self.card.flush(written));
        self.now = ended.map_err(|error| self.card.failed(error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Storage whose writes take 1 ms, and every tenth write 50 ms.
    struct Stalling {
        now: Instant,
        writes: u32,
    }

    impl Storage for Stalling {
        fn now(&self) -> Instant {
            self.now
        }

        fn sleep(&mut self, length: Nanos) -> Result<(), Error> {
            self.now += length;
            Ok(())
        }

        fn write(&mut self, _offset: u64, _bytes: usize) -> Result<(), Error> {
            self.writes += 1;
            let ms = if self.writes.is_multiple_of(10) { 50 } else { 1 };
            self.now += Nanos::from_ns(ms * 1_000_000);
            Ok(())
        }
    }

    fn recorded(bytes_per_s: Option<u64>) -> Recording {
        let stream = Stream { bytes_per_s, piece_bytes: 1000, ring_bytes: 10_000, bytes: 100_000 };
        record(&mut Stalling { now: Instant::default(), writes: 0 }, stream, &|_| ()).unwrap()
    }

    /// Ten writes of 1000 bytes take 59 ms.
    #[test]
    fn a_stall_fills_the_buffer_with_what_arrives_meanwhile() {
        let found = recorded(Some(100_000));
        assert!(found.keeps_up && (found.sustained_bytes_per_s - 10_000.0 / 0.059).abs() < 1.0, "{found:?}");
        // 50 ms at 100 bytes per ms, plus the piece being written.
        assert_eq!((found.buffer_bytes, found.longest_us(), found.longest_at), (6000, 50_000.0, 9));
        assert_eq!(found.quantiles[0], Quantile { share: 0.5, us: 1000.0 });
    }

    #[test]
    fn a_rate_above_the_mean_of_the_writes_needs_ever_more_buffer() {
        let found = recorded(Some(200_000));
        assert!(!found.keeps_up && found.buffer_bytes > 10_000, "{found:?}");
        assert!(recorded(None).keeps_up);
    }
}

//! A card behind its host's driver as a byte stream.

use crate::{LIBRARY, OpenError};
use embedded_io::{ErrorKind, ErrorType, SeekFrom};
use floatgate_card::{Card, CardOptions};
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, Nanos, SECTOR_BYTES};
use floatgate_sim::card::load;

/// Time without power between a power cut and the next power-on.
const OFF: Nanos = Nanos::from_ms(100);

/// Length of a sector as an offset.
const SECTOR: u64 = SECTOR_BYTES as u64;

/// An SD card or eMMC behind its host's driver, as [`embedded_io`]'s `Read`, `Write` and `Seek` and their async versions, for filesystems
/// on a byte stream. A clone is an independent card that shares unchanged data.
///
/// A write to a part of a sector reads, changes and writes the sector. `flush` returns when all written data is on flash.
///
/// ```
/// use embedded_io::{Read, Seek, SeekFrom, Write};
/// use floatgate_hal::CardStream;
///
/// let mut card = CardStream::new("kingston-microsd-8g")?;
/// card.seek(SeekFrom::Start(1000))?;
/// card.write_all(b"over the border of two sectors")?;
/// card.flush()?;
/// card.seek(SeekFrom::Current(-7))?;
/// let mut tail = [0; 7];
/// card.read_exact(&mut tail).unwrap();
/// assert_eq!(&tail, b"sectors");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CardStream {
    card: Card,
    now: Instant,
    position: u64,
}

impl CardStream {
    /// Creates a card by its name.
    ///
    /// # Errors
    /// The card is unknown.
    pub fn new(name: &str) -> Result<Self, OpenError> {
        let spec = load(&LIBRARY, name, &[]).map_err(OpenError::new)?.spec;
        let card = Card::new(&spec, CardOptions::default())
            .map_err(|bad| OpenError::new(format!("card.{}: {}", bad.key, bad.problem)))?;
        let now = card.now();
        Ok(Self { card, now, position: 0 })
    }

    /// Virtual time in ns.
    pub const fn now_ns(&self) -> u64 {
        self.now.as_ns()
    }

    /// Capacity of the card, bytes.
    pub fn size(&self) -> u64 {
        self.card.capacity() * SECTOR
    }

    /// Cuts power in a program or erase inside the card, counted from 1 from now on. Every later call fails, until
    /// [`CardStream::restore_power`].
    pub fn cut_power(&mut self, operation: u64) {
        self.card.order_cut(operation);
    }

    /// True when power is lost.
    pub fn is_dead(&self) -> bool {
        self.card.is_lost()
    }

    /// Cycles the power, or restores it after a cut; the card rebuilds its mapping tables. The stream position is preserved.
    ///
    /// # Errors
    /// The card is worn out.
    pub fn restore_power(&mut self) -> Result<(), StreamError> {
        self.card.cut_power();
        let on = self.now + OFF;
        self.request(|card, _| card.power_on(on, 0))
    }

    fn out_of_range(&self) -> StreamError {
        let capacity = self.card.capacity();
        StreamError(BlockErrorKind::OutOfRange { count: 1, capacity }.at(capacity, self.now))
    }

    /// Executes a request that starts now. The clock advances even if the request fails.
    fn request(
        &mut self,
        request: impl FnOnce(&mut Card, Instant) -> Result<Instant, BlockError>,
    ) -> Result<(), StreamError> {
        let outcome = request(&mut self.card, self.now);
        self.now = match &outcome {
            Ok(at) => *at,
            Err(error) => error.at,
        };
        outcome.map(drop).map_err(StreamError)
    }

    /// Sector of the position, offset in it, and length of the next request: whole sectors, or a part of one sector.
    fn next(&self, wanted: usize) -> (u64, usize, usize) {
        let (sector, at) = (self.position / SECTOR, (self.position % SECTOR) as usize);
        let left = usize::try_from(self.size().saturating_sub(self.position)).unwrap_or(usize::MAX);
        let wanted = wanted.min(left);
        let whole = wanted - wanted % SECTOR_BYTES;
        let count = if at == 0 && whole > 0 { whole } else { wanted.min(SECTOR_BYTES - at) };
        (sector, at, count)
    }

    fn read_some(&mut self, bytes: &mut [u8]) -> Result<usize, StreamError> {
        let (sector, at, count) = self.next(bytes.len());
        if count == 0 {
            return Ok(0);
        }
        if count % SECTOR_BYTES == 0 {
            self.request(|card, now| card.read(now, sector, &mut bytes[..count]))?;
        } else {
            let mut whole = [0; SECTOR_BYTES];
            self.request(|card, now| card.read(now, sector, &mut whole))?;
            bytes[..count].copy_from_slice(&whole[at..at + count]);
        }
        self.position += count as u64;
        Ok(count)
    }

    fn write_some(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        let (sector, at, count) = self.next(bytes.len());
        if count == 0 {
            return if bytes.is_empty() { Ok(0) } else { Err(self.out_of_range()) };
        }
        if count % SECTOR_BYTES == 0 {
            self.request(|card, now| card.write(now, sector, &bytes[..count]))?;
        } else {
            let mut whole = [0; SECTOR_BYTES];
            self.request(|card, now| card.read(now, sector, &mut whole))?;
            whole[at..at + count].copy_from_slice(&bytes[..count]);
            self.request(|card, now| card.write(now, sector, &whole))?;
        }
        self.position += count as u64;
        Ok(count)
    }

    fn flush_all(&mut self) -> Result<(), StreamError> {
        self.request(|card, now| card.flush(now))
    }

    /// Moves the stream position. A position past the end is allowed; reads there return 0 bytes.
    fn seek_to(&mut self, to: SeekFrom) -> Result<u64, StreamError> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or_else(|| self.out_of_range())?;
        Ok(self.position)
    }
}

/// Error of the simulated card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError(pub BlockError);

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for StreamError {}

impl embedded_io::Error for StreamError {
    fn kind(&self) -> ErrorKind {
        match self.0.kind {
            BlockErrorKind::OutOfRange { .. } => ErrorKind::InvalidInput,
            BlockErrorKind::TimedOut => ErrorKind::TimedOut,
            BlockErrorKind::Uncorrectable => ErrorKind::InvalidData,
            _ => ErrorKind::Other,
        }
    }
}

impl ErrorType for CardStream {
    type Error = StreamError;
}

impl embedded_io::Read for CardStream {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, StreamError> {
        self.read_some(bytes)
    }
}

impl embedded_io::Write for CardStream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        self.write_some(bytes)
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        self.flush_all()
    }
}

impl embedded_io::Seek for CardStream {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, StreamError> {
        self.seek_to(to)
    }
}

impl embedded_io_async::Read for CardStream {
    async fn read(&mut self, bytes: &mut [u8]) -> Result<usize, StreamError> {
        self.read_some(bytes)
    }
}

impl embedded_io_async::Write for CardStream {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        self.write_some(bytes)
    }

    async fn flush(&mut self) -> Result<(), StreamError> {
        self.flush_all()
    }
}

impl embedded_io_async::Seek for CardStream {
    async fn seek(&mut self, to: SeekFrom) -> Result<u64, StreamError> {
        self.seek_to(to)
    }
}

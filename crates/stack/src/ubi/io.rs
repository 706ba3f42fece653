//! The flash with its clock: reads, writes and erases of PEBs, and the states of a header.
//!
//! Erased, erased with bitflips, corrupt, and corrupt with ECC errors are distinguished as in Linux (`io.c`).

use super::verdict::{HEADER, HeaderState};
use super::{ReadOnlyReason, UbiError};
use floatgate_media::ubi::{EcHeader, Flash, Geometry, MAX_ERASE_COUNT, ReadFlips, VidHeader};
use floatgate_media::{MediaError, Reason};
use floatgate_mtd::{ErrorKind, FlashKind, Instant, Mtd};

/// Number of retries of a failed read or erase (Linux: `UBI_IO_RETRIES`).
pub(super) const RETRIES: u32 = 3;

/// Patterns written to a PEB when it is tortured.
const PATTERNS: [u8; 3] = [0xA5, 0x5A, 0x00];

/// Bit errors of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quality {
    /// No bit errors worth reporting.
    Good,
    /// Number of corrected bitflips, high enough for scrubbing.
    Flips(u32),
    /// More wrong bits than the ECC corrects.
    Damaged,
}

impl Quality {
    pub(super) fn is_good(self) -> bool {
        self == Self::Good
    }
}

/// Data at the position of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header<T> {
    /// A header, and whether it needs scrubbing.
    Found(T, bool),
    /// All ones.
    Erased,
    /// All ones after correction.
    ErasedFlips,
    /// Other data.
    Corrupt(MediaError),
    /// Other data with bit errors.
    CorruptFlips(MediaError),
    /// A header with a good CRC and invalid values.
    Impossible(MediaError),
}

impl<T: Copy> Header<T> {
    /// State of the header for a verdict.
    pub(super) const fn state(&self) -> HeaderState<T> {
        match self {
            Self::Found(header, _) => HeaderState::Good(*header),
            Self::Erased | Self::ErasedFlips => HeaderState::Erased,
            Self::Corrupt(error) | Self::CorruptFlips(error) | Self::Impossible(error) => {
                HeaderState::Damaged(*error)
            }
        }
    }
}

/// The flash: its clock, its geometry, and whether it may be written.
#[derive(Clone, Debug)]
pub(super) struct Io<M: ?Sized> {
    pub(super) now: Instant,
    pub(super) geometry: Geometry,
    pub(super) pebs: u32,
    pub(super) bad_allowed: bool,
    pub(super) read_only: Option<ReadOnlyReason>,
    pub(super) image_seq: u32,
    lost: bool,
    nor: bool,
    scratch: Scratch,
    pub(super) mtd: M,
}

/// The same over any flash.
pub(super) type DynIo<'m> = Io<dyn Mtd + 'm>;

/// Reusable buffer for the data of a PEB. Clones start empty.
#[derive(Debug, Default)]
struct Scratch(Vec<u8>);

impl Clone for Scratch {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Offsets of headers and data on this flash.
fn geometry(mtd: &impl Mtd, vid_header_offset: Option<u32>) -> Result<Geometry, UbiError> {
    let g = mtd.geometry();
    let flash = Flash {
        peb_bytes: g.erase_bytes,
        min_io_bytes: g.write_bytes,
        sub_page_bytes: g.sub_page_bytes.clamp(1, g.write_bytes.max(1)),
    };
    let made = match vid_header_offset {
        Some(offset) => Geometry::with_vid_header_offset(flash, offset),
        None => Geometry::new(flash),
    };
    made.map_err(|reason| UbiError::Geometry { what: "geometry", reason })
}

fn check_kind(mtd: &impl Mtd) -> Result<(), UbiError> {
    let g = mtd.geometry();
    if g.kind == FlashKind::MlcNand {
        return Err(UbiError::Mlc);
    }
    let (min, max) = (g.write_bytes, g.buffer_bytes);
    if max < min || !max.is_power_of_two() {
        let reason = Reason::OutOfRange { field: "largest write", value: u64::from(max) };
        return Err(UbiError::Geometry { what: "geometry", reason });
    }
    if g.size_bytes / u64::from(g.erase_bytes.max(1)) > MAX_ERASE_COUNT {
        let reason = Reason::OutOfRange { field: "size", value: g.size_bytes };
        return Err(UbiError::Geometry { what: "geometry", reason });
    }
    Ok(())
}

impl<M: Mtd> Io<M> {
    /// Wraps a flash with its clock at `now`. Returns the flash if UBI cannot use it.
    pub(super) fn new(mtd: M, now: Instant, vid_header_offset: Option<u32>) -> Result<Self, (UbiError, M)> {
        let geometry = match check_kind(&mtd).and_then(|()| geometry(&mtd, vid_header_offset)) {
            Ok(geometry) => geometry,
            Err(error) => return Err((error, mtd)),
        };
        let nor = mtd.geometry().kind == FlashKind::Nor;
        let read_only = geometry.headers_share_unit().then_some(ReadOnlyReason::HeadersShareUnit);
        Ok(Self {
            pebs: mtd.geometry().blocks(),
            now,
            geometry,
            bad_allowed: !nor,
            read_only,
            image_seq: 0,
            lost: false,
            nor,
            scratch: Scratch::default(),
            mtd,
        })
    }
}

impl DynIo<'_> {
    /// Number of PEBs of the whole chip; the device may be a partition of it.
    pub(super) fn chip_pebs(&self) -> u32 {
        self.mtd.geometry().chip_blocks()
    }

    fn addr(&self, pnum: u32, offset: u32) -> u64 {
        u64::from(pnum) * u64::from(self.geometry.flash().peb_bytes) + u64::from(offset)
    }

    pub(super) fn leb_bytes(&self) -> u32 {
        self.geometry.leb_bytes()
    }

    pub(super) fn min_io(&self) -> u32 {
        self.geometry.flash().min_io_bytes
    }

    /// Buffer for the data of a PEB; return it with [`put_scratch`](Self::put_scratch).
    pub(super) fn take_scratch(&mut self) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch.0);
        scratch.clear();
        scratch
    }

    pub(super) fn put_scratch(&mut self, scratch: Vec<u8>) {
        self.scratch.0 = scratch;
    }

    /// Returns an error after a power loss.
    pub(super) fn check_alive(&self) -> Result<(), UbiError> {
        if self.lost { Err(UbiError::PowerLost) } else { Ok(()) }
    }

    pub(super) fn check_writable(&self) -> Result<(), UbiError> {
        self.check_alive()?;
        self.read_only.map_or(Ok(()), |reason| Err(UbiError::ReadOnly(reason)))
    }

    /// Makes the device read-only after a failure that cannot be worked around.
    pub(super) fn enter_ro_mode(&mut self) {
        self.read_only.get_or_insert(ReadOnlyReason::Failure);
    }

    /// Converts a failure of the device, and records it.
    fn failed(&mut self, pnum: u32, error: floatgate_mtd::Error) -> UbiError {
        self.now = self.now.max(error.at);
        if error.kind == ErrorKind::PowerLost {
            self.lost = true;
            return UbiError::PowerLost;
        }
        UbiError::Flash { pnum, error }
    }

    /// Reads `buf.len()` bytes. Uncorrectable data is returned as read.
    pub(super) fn read(&mut self, pnum: u32, offset: u32, buf: &mut [u8]) -> Result<Quality, UbiError> {
        let mut tries = 0;
        loop {
            match self.read_once(pnum, offset, buf) {
                Ok(Quality::Damaged) if tries < RETRIES => {}
                Err(error) if error != UbiError::PowerLost && tries < RETRIES => {}
                outcome => return outcome,
            }
            tries += 1;
        }
    }

    /// Reads a whole PEB and returns only its bit errors.
    pub(super) fn read_peb(&mut self, pnum: u32) -> Result<Quality, UbiError> {
        let mut buf = vec![0; self.mtd.geometry().erase_bytes as usize];
        self.read_once(pnum, 0, &mut buf)
    }

    fn read_once(&mut self, pnum: u32, offset: u32, buf: &mut [u8]) -> Result<Quality, UbiError> {
        self.check_alive()?;
        match self.mtd.read(self.now, self.addr(pnum, offset), buf) {
            Ok(done) => {
                self.now = done.at;
                let move_it = done.wants_scrub(self.mtd.geometry());
                Ok(if move_it { Quality::Flips(done.bitflips.max(1)) } else { Quality::Good })
            }
            Err(error) => {
                let damaged = error.kind == ErrorKind::Uncorrectable;
                match self.failed(pnum, error) {
                    UbiError::PowerLost => Err(UbiError::PowerLost),
                    _ if damaged => Ok(Quality::Damaged),
                    error => Err(error),
                }
            }
        }
    }

    /// Reads from the data of a PEB, and repeats reads with bit errors. Damage in any of the reads is reported, because
    /// half-programmed pages are readable only sometimes.
    pub(super) fn read_steady(
        &mut self,
        pnum: u32,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<Quality, UbiError> {
        let offset = self.geometry.data_offset() + offset;
        let quality = self.read_once(pnum, offset, buf)?;
        let mut again = if matches!(quality, Quality::Flips(_)) { RETRIES } else { 0 };
        while again > 0 {
            if self.read_once(pnum, offset, buf)? == Quality::Damaged {
                return Ok(Quality::Damaged);
            }
            again -= 1;
        }
        Ok(quality)
    }

    /// Reads from the data of a PEB.
    pub(super) fn read_data(&mut self, pnum: u32, offset: u32, buf: &mut [u8]) -> Result<Quality, UbiError> {
        self.read(pnum, self.geometry.data_offset() + offset, buf)
    }

    pub(super) fn read_ec(&mut self, pnum: u32) -> Result<Header<EcHeader>, UbiError> {
        let geometry = self.geometry;
        self.read_header(pnum, 0, |bytes, flips| {
            let header = EcHeader::parse(bytes, flips)?;
            header.check(&geometry).map(|()| header)
        })
    }

    pub(super) fn read_vid(&mut self, pnum: u32) -> Result<Header<VidHeader>, UbiError> {
        let geometry = self.geometry;
        self.read_header(pnum, geometry.vid_header_offset(), |bytes, flips| {
            let header = VidHeader::parse(bytes, flips)?;
            header.check(&geometry).map(|()| header)
        })
    }

    /// Bytes at the position of the VID header.
    pub(super) fn vid_bytes(&mut self, pnum: u32) -> Result<[u8; HEADER], UbiError> {
        let mut bytes = [0; HEADER];
        self.read(pnum, self.geometry.vid_header_offset(), &mut bytes)?;
        Ok(bytes)
    }

    fn read_header<T>(
        &mut self,
        pnum: u32,
        offset: u32,
        parse: impl FnOnce(&[u8], ReadFlips) -> Result<T, MediaError>,
    ) -> Result<Header<T>, UbiError> {
        // The pattern differs from the bytes that an erased or a failed read leaves.
        let mut bytes = [0xA5; HEADER];
        let quality = self.read(pnum, offset, &mut bytes)?;
        let corrected = if let Quality::Flips(bits) = quality { bits } else { 0 };
        match parse(&bytes, ReadFlips { corrected, tolerated: 0 }) {
            Ok(header) => Ok(Header::Found(header, !quality.is_good())),
            Err(error) => Ok(unparsed(error, quality)),
        }
    }

    /// Programs whole write units of an erased range.
    pub(super) fn write(&mut self, pnum: u32, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        self.check_writable()?;
        match self.mtd.write(self.now, self.addr(pnum, offset), data) {
            Ok(done) => {
                self.now = done.at;
                Ok(())
            }
            Err(error) => Err(self.failed(pnum, error)),
        }
    }

    /// Programs the data area of a PEB.
    pub(super) fn write_data(&mut self, pnum: u32, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        self.write(pnum, self.geometry.data_offset() + offset, data)
    }

    pub(super) fn write_ec(&mut self, pnum: u32, erase_count: u32) -> Result<(), UbiError> {
        let header = EcHeader::new(u64::from(erase_count), self.image_seq, &self.geometry);
        self.write_header(pnum, 0, &header.emit())
    }

    pub(super) fn write_vid(&mut self, pnum: u32, header: &VidHeader) -> Result<(), UbiError> {
        self.write_header(pnum, self.geometry.vid_header_offset(), &header.emit())
    }

    /// Programs a header in its sub-page.
    fn write_header(&mut self, pnum: u32, offset: u32, header: &[u8; HEADER]) -> Result<(), UbiError> {
        let unit = self.geometry.flash().sub_page_bytes;
        let start = offset & !(unit - 1);
        let shift = (offset - start) as usize;
        let len = (HEADER as u32).next_multiple_of(unit) as usize;
        let mut bytes = self.take_scratch();
        bytes.resize(len.max(shift + HEADER), 0xFF);
        bytes[shift..shift + HEADER].copy_from_slice(header);
        let result = self.write(pnum, start, &bytes);
        self.put_scratch(bytes);
        result
    }

    /// Erases a PEB, after a torture test if `torture` is set, and returns its number of erases. `torture` is cleared
    /// once the test is passed.
    pub(super) fn erase(&mut self, pnum: u32, torture: &mut bool) -> Result<u32, UbiError> {
        self.check_writable()?;
        if self.nor && self.min_io() == 1 {
            self.spoil_headers(pnum)?;
        }
        let mut times = 1;
        if *torture {
            times += self.torture(pnum)?;
            *torture = false;
        }
        self.erase_once(pnum)?;
        Ok(times)
    }

    fn erase_once(&mut self, pnum: u32) -> Result<(), UbiError> {
        let len = u64::from(self.geometry.flash().peb_bytes);
        let mut tries = 0;
        loop {
            match self.mtd.erase(self.now, self.addr(pnum, 0), len) {
                Ok(done) => {
                    self.now = done.at;
                    return Ok(());
                }
                Err(error) => {
                    let error = self.failed(pnum, error);
                    if error == UbiError::PowerLost || tries == RETRIES {
                        return Err(error);
                    }
                }
            }
            tries += 1;
        }
    }

    /// Invalidates both headers on NOR before an erase, because an interrupted erase could leave good headers over
    /// damaged data.
    fn spoil_headers(&mut self, pnum: u32) -> Result<(), UbiError> {
        let ec = matches!(self.read_ec(pnum), Ok(Header::Found(..) | Header::ErasedFlips));
        if ec {
            self.write(pnum, 0, &[0; 4])?;
        }
        let vid = matches!(self.read_vid(pnum), Ok(Header::Found(..) | Header::ErasedFlips));
        if vid {
            self.write(pnum, self.geometry.vid_unit_offset(), &[0; 4])?;
        }
        self.check_alive()
    }

    /// Erases, writes and reads a PEB with three patterns.
    fn torture(&mut self, pnum: u32) -> Result<u32, UbiError> {
        let mut bytes = self.take_scratch();
        bytes.resize(self.geometry.flash().peb_bytes as usize, 0);
        let result = PATTERNS.iter().try_for_each(|&pattern| self.torture_with(pnum, pattern, &mut bytes));
        self.put_scratch(bytes);
        result.map(|()| PATTERNS.len() as u32)
    }

    fn torture_with(&mut self, pnum: u32, pattern: u8, bytes: &mut [u8]) -> Result<(), UbiError> {
        self.erase_once(pnum)?;
        self.expect(pnum, 0xFF, bytes)?;
        bytes.fill(pattern);
        self.write(pnum, 0, bytes)?;
        bytes.fill(!pattern);
        self.expect(pnum, pattern, bytes)
    }

    /// Checks that every byte of a PEB under test reads as written and without correction.
    fn expect(&mut self, pnum: u32, byte: u8, bytes: &mut [u8]) -> Result<(), UbiError> {
        let quality = self.read(pnum, 0, bytes)?;
        if quality.is_good() && is_filled(bytes, byte) {
            return Ok(());
        }
        Err(UbiError::TortureFailed { pnum })
    }

    pub(super) fn is_bad(&mut self, pnum: u32) -> Result<bool, UbiError> {
        self.check_alive()?;
        if !self.bad_allowed {
            return Ok(false);
        }
        match self.mtd.is_bad(self.now, self.addr(pnum, 0)) {
            Ok((bad, at)) => {
                self.now = self.now.max(at);
                Ok(bad)
            }
            Err(error) => Err(self.failed(pnum, error)),
        }
    }

    pub(super) fn mark_bad(&mut self, pnum: u32) -> Result<(), UbiError> {
        self.check_writable()?;
        match self.mtd.mark_bad(self.now, self.addr(pnum, 0)) {
            Ok(done) => {
                self.now = self.now.max(done.at);
                Ok(())
            }
            Err(error) => Err(self.failed(pnum, error)),
        }
    }
}

/// Error for a header with a good CRC and invalid values, for which Linux refuses the device.
pub(super) const fn impossible(pnum: u32, what: &'static str, error: MediaError) -> UbiError {
    UbiError::Media { pnum, what, error }
}

/// State of a header that the parser rejected.
fn unparsed<T>(error: MediaError, quality: Quality) -> Header<T> {
    match error.reason {
        Reason::Erased if quality == Quality::Damaged => Header::CorruptFlips(error),
        Reason::Erased => Header::Erased,
        Reason::ErasedBitflips { .. } => Header::ErasedFlips,
        Reason::BadMagic { .. } if quality == Quality::Damaged => Header::CorruptFlips(error),
        Reason::BadMagic { .. } => Header::Corrupt(error),
        Reason::BadCrc32 { .. } if quality.is_good() => Header::Corrupt(error),
        Reason::BadCrc32 { .. } => Header::CorruptFlips(error),
        _ => Header::Impossible(error),
    }
}

/// True if all bytes equal `byte`.
pub(super) fn is_filled(bytes: &[u8], byte: u8) -> bool {
    let whole = u64::from_le_bytes([byte; 8]);
    let (chunks, rest) = bytes.as_chunks::<8>();
    chunks.iter().all(|chunk| u64::from_le_bytes(*chunk) == whole) && rest.iter().all(|&b| b == byte)
}

/// Number of bytes up to the last one that is not erased, rounded up to `unit`.
pub(super) fn data_len(bytes: &[u8], unit: u32) -> usize {
    let end = bytes.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
    end.next_multiple_of(unit as usize).min(bytes.len())
}

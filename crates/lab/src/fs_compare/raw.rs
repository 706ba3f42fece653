//! Tests of the bare flash: through mtdblock with the page cache of a block device, and through
//! mtdchar.

use super::contents::{DATA, data};
use super::{Bench, PIECES, Row, Subject, Test, Timed};
use floatgate_mtd::{Instant, Mtd as _, Nanos};
use floatgate_sim::error::Error;
use floatgate_sim::mtdblock::MtdBlock;
use floatgate_sim::page_cache::PAGE;
use floatgate_sim::vfs::{Flash, Moment, spend};

/// The flash with its clock.
struct Raw {
    now: Instant,
    flash: Flash,
}

impl Raw {
    fn moment(&self) -> Moment {
        Moment::of(&self.flash, self.now)
    }

    /// Start and length in bytes of the first run of good eraseblocks that holds `bytes`, or of the
    /// longest run.
    fn good_run(&mut self, bytes: u64) -> Result<(u64, u64), Error> {
        let (size, block) = (self.flash.geometry().size_bytes, u64::from(self.flash.geometry().erase_bytes));
        let wanted = bytes.next_multiple_of(block).min(size);
        let (mut best, mut start, mut at) = ((0, 0), 0, 0);
        while at < size {
            let (bad, now) =
                self.flash.is_bad(self.now, at).map_err(Error::flash("looking for bad blocks"))?;
            self.now = now;
            at += block;
            if bad {
                start = at;
            } else if at - start > best.1 {
                best = (start, at - start);
            }
            if best.1 >= wanted {
                return Ok((best.0, wanted.min(bytes)));
            }
        }
        Ok((best.0, best.1.min(bytes)))
    }
}

/// Bytes at an offset of a file that is filled repeatedly from `content`.
fn page(content: &[u8], at: u64, len: usize) -> &[u8] {
    &content[at as usize % content.len()..][..len]
}

impl Bench<'_> {
    fn raw(&self) -> Result<Raw, Error> {
        let (flash, now) = self.chip()?;
        Ok(Raw { now, flash })
    }

    pub(super) fn raw_writes(&self, subject: Subject) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        for what in DATA {
            for (piece, piece_name) in PIECES {
                let name = format!("write {what} {piece_name}");
                if self.options.wants(&name) {
                    rows.extend(match subject {
                        Subject::Mtdblock => Some(self.block_write(&name, what, piece)?),
                        _ => self.char_write(&name, what, piece)?,
                    });
                }
            }
        }
        Ok(rows)
    }

    /// Measures `dd of=/dev/mtdblock0 conv=fsync`: the page cache writes its pages in order.
    fn block_write(&self, name: &str, what: &str, piece: u64) -> Result<Row, Error> {
        let mut raw = self.raw()?;
        let (start, bytes) = raw.good_run(self.options.bytes)?;
        let from = raw.moment();
        let mut disk = MtdBlock::new(raw.flash, raw.now);
        let content = data(what);
        let failed = || Error::flash("writing to the block device");
        let most_dirty = self.page_cache.bytes / 100 * u64::from(self.page_cache.dirty_percent);
        let (mut written, mut done) = (0, 0);
        while written < bytes {
            let len = piece.min(bytes - written);
            self.spend(&mut disk, self.cpu.call() + self.cpu.copy_from_user(len));
            written += len;
            // Pages above the limit of dirty pages are written at once.
            while done + PAGE <= written && written - done > most_dirty {
                disk.write(start + done, page(&content, done, PAGE as usize)).map_err(failed())?;
                done += PAGE;
            }
        }
        let returned = disk.now();
        while done < bytes {
            let len = PAGE.min(bytes - done) as usize;
            disk.write(start + done, page(&content, done, len)).map_err(failed())?;
            done += len as u64;
        }
        disk.flush().map_err(failed())?;
        let (to, flash) = (Moment::of(disk.device(), disk.now()), disk.device());
        let row = Timed {
            subject: Subject::Mtdblock,
            test: Test::Write,
            name,
            bytes,
            from,
            to,
            returned: Some(returned),
            erased: flash.erased(),
        };
        Ok(row.speed())
    }

    fn spend(&self, disk: &mut MtdBlock<Flash>, time: floatgate_mtd::Nanos) {
        let now = disk.now();
        let end = spend(disk.device_mut().inner_mut().host(), now, time, "system call and copy");
        disk.set_now(end);
    }

    /// Measures `flash_erase` and then `dd of=/dev/mtd0`; `None` if a piece is not a whole number
    /// of pages.
    fn char_write(&self, name: &str, what: &str, piece: u64) -> Result<Option<Row>, Error> {
        let mut raw = self.raw()?;
        let geometry = raw.flash.geometry().clone();
        if !piece.is_multiple_of(u64::from(geometry.write_bytes)) {
            return Ok(None);
        }
        let (start, bytes) = raw.good_run(self.options.bytes)?;
        let bytes = bytes / piece * piece;
        if bytes == 0 {
            return Ok(None);
        }
        let erase = bytes.next_multiple_of(u64::from(geometry.erase_bytes));
        raw.now = raw.flash.erase(raw.now, start, erase).map_err(Error::flash("erasing"))?.at;
        let (from, content) = (raw.moment(), data(what));
        for at in (start..start + bytes).step_by(piece as usize) {
            let done = raw
                .flash
                .write(raw.now, at, page(&content, at - start, piece as usize))
                .map_err(Error::flash("writing"))?;
            raw.now = done.at;
        }
        let (to, erased) = (raw.moment(), raw.flash.erased());
        let row = Timed {
            subject: Subject::Mtdchar,
            test: Test::Write,
            name,
            bytes,
            from,
            to,
            returned: None,
            erased,
        };
        Ok(Some(row.speed()))
    }

    pub(super) fn raw_reads(&self, subject: Subject) -> Result<Vec<Row>, Error> {
        let mut raw = self.raw()?;
        let (start, bytes) = raw.good_run(self.options.bytes)?;
        let unit = if subject == Subject::Mtdblock { PAGE } else { 64 << 10 };
        let mut rows = Vec::new();
        for name in ["read first", "read again"] {
            let is_cached =
                subject == Subject::Mtdblock && name == "read again" && bytes <= self.page_cache.bytes;
            let (from, mut buf, mut at) = (raw.moment(), vec![0; unit as usize], 0);
            while at < bytes {
                let len = unit.min(bytes - at) as usize;
                if subject == Subject::Mtdblock {
                    // Programs read 64 KiB per call, as from files.
                    let call = if at.is_multiple_of(64 << 10) { self.cpu.call() } else { Nanos::ZERO };
                    let time = call + self.cpu.copy_to_user(len as u64);
                    raw.now = spend(raw.flash.inner_mut().host(), raw.now, time, "copy");
                }
                if !is_cached {
                    let read = raw.flash.read(raw.now, start + at, &mut buf[..len]);
                    raw.now = read.map_err(Error::flash("reading"))?.at;
                }
                at += len as u64;
            }
            if self.options.wants(name) {
                let (to, erased) = (raw.moment(), raw.flash.erased());
                let row = Timed { subject, test: Test::Read, name, bytes, from, to, returned: None, erased };
                rows.push(row.speed());
            }
        }
        Ok(rows)
    }
}

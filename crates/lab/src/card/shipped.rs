//! Traces that the project ships: ext4, F2FS, NILFS2 and FAT of Debian's kernel under four workloads, as `run` recorded them on a card of
//! 3 GiB with allocation units of 8 MiB.
//!
//! `data/traces/README.md` has the command that makes them. Each is two CSVs of floatgate, packed by gzip: what comes before the workload (partitioning,
//! mkfs and mounting), and the workload. `data/traces/traces.csv` has the number of files that each workload made.
//!
//! Requests to the partition are moved to where it begins on the card of the replay: behind the first allocation unit, as `run` lays it.

use super::trace::{Reader, Request, RequestKind};
use crate::Error;
use floatgate_mtd::SECTOR_BYTES;
use include_dir::{Dir, include_dir};
use libdeflater::Decompressor;

static TRACES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/traces");

/// Allocation unit of the card on which the traces were recorded, B: the partition begins behind it.
pub const AU_BYTES: u64 = 8 << 20;

/// Part of the filesystems of [`full_traces`] that is filled, in percent.
pub const FULL_PERCENT: u8 = 95;

/// Capacity of that card, B.
const CAPACITY_BYTES: u64 = 3 << 30;

/// Least capacity of a card with allocation units of `au_bytes` on which the traces can be replayed, B.
pub const fn capacity_bytes_min(au_bytes: u64) -> u64 {
    CAPACITY_BYTES - AU_BYTES + au_bytes
}

/// Bytes of each file that the workload `create` makes and syncs.
pub const CREATED_BYTES: u64 = 4096;

/// Most bytes of a trace that is unpacked.
const UNPACKED_BYTES_MAX: u32 = 256 << 20;

/// A trace of one filesystem under one workload.
#[derive(Clone, Copy, Debug)]
pub struct ShippedTrace {
    /// Filesystem, as `run` names it.
    pub filesystem: &'static str,
    /// Workload, as `run` names it.
    pub workload: &'static str,
    /// Files that the workload made, where that is known.
    pub files: Option<u64>,
    /// Part of the filesystem that was filled before, in percent: 0, or [`FULL_PERCENT`] of an aged one.
    pub fill_percent: u8,
    /// True when the filesystem was mounted with `discard`, which is not its default.
    pub is_discarding: bool,
    /// True when all discards are left out of the requests, as of a filesystem that was made and mounted without.
    pub drops_discards: bool,
    before: &'static [u8],
    packed: &'static [u8],
}

/// Requests of a trace as a card gets them.
#[derive(Clone, Debug)]
pub struct CardRequests {
    /// Requests before the workload: of partitioning, mkfs and mounting.
    pub before: Vec<Request>,
    /// Requests of the workload, up to the end of unmounting.
    pub workload: Vec<Request>,
}

impl CardRequests {
    /// Number of the requests before those of mounting: `mkfs` ends with a flush, and the kernel begins with a read.
    pub fn before_mount(&self) -> usize {
        let is_border = |pair: &[Request]| matches!(pair, [last, first] if last.kind == RequestKind::Flush && first.kind == RequestKind::Read);
        let border = self.before.windows(2).rposition(is_border);
        border.map_or(self.before.len(), |at| at + 1)
    }

    /// Bytes of the card that are written, each counted once: those of the partition table, of the filesystem and of the files.
    pub fn footprint_bytes(&self) -> u64 {
        let writes =
            self.before.iter().chain(&self.workload).filter(|request| request.kind == RequestKind::Write);
        let mut runs: Vec<(u64, u64)> =
            writes.map(|request| (request.sector, request.sector + request.sectors)).collect();
        runs.sort_unstable();
        let (mut sectors, mut covered) = (0, 0);
        for (start, end) in runs {
            sectors += end.saturating_sub(start.max(covered));
            covered = covered.max(end);
        }
        sectors * SECTOR_BYTES as u64
    }

    /// Bytes that the workload writes to the card.
    pub fn written_bytes(&self) -> u64 {
        let writes = self.workload.iter().filter(|request| request.kind == RequestKind::Write);
        writes.map(|request| request.sectors * SECTOR_BYTES as u64).sum()
    }
}

/// Traces that are compared where no workload is named, in the order of `traces.csv`.
pub fn traces() -> Vec<ShippedTrace> {
    table("traces.csv")
}

/// Traces of aged filesystems, full to 95 % with holes of 64 KiB, in the order of `full.csv`. They are not among [`traces`].
pub fn full_traces() -> Vec<ShippedTrace> {
    table("full.csv")
}

/// Traces of aged filesystems that were mounted with `discard`, where that is not the default, in the order of `discard.csv`. They are not
/// among [`full_traces`].
pub fn discarding_traces() -> Vec<ShippedTrace> {
    table("discard.csv")
}

/// Traces of workloads of boards in use, journald, sqlite, swap, camera, log2ram and docker, and of PostMark with synced writes, in the order of `everyday.csv`. They are not among [`traces`].
pub fn everyday_traces() -> Vec<ShippedTrace> {
    table("everyday.csv")
}

/// Traces that workloads are chosen from: [`traces`] where none is named, and those of boards in use beside them.
pub fn traces_for(workloads: &[String]) -> Vec<ShippedTrace> {
    let everyday = if workloads.is_empty() { Vec::new() } else { everyday_traces() };
    traces().into_iter().chain(everyday).collect()
}

fn table(name: &str) -> Vec<ShippedTrace> {
    let table = TRACES.get_file(name).and_then(|file| file.contents_utf8()).unwrap_or_default();
    table.lines().skip(1).filter_map(of_line).collect()
}

/// All traces that have a name, those of [`traces`] first.
pub fn all_traces() -> Vec<ShippedTrace> {
    let others = everyday_traces().into_iter().chain(full_traces()).chain(discarding_traces());
    traces().into_iter().chain(others).collect()
}

/// The trace of a name such as `ext4-postmark` or `ext4-postmark-95-aged`.
pub fn find(name: &str) -> Option<ShippedTrace> {
    all_traces().into_iter().find(|trace| trace.name() == name)
}

fn of_line(line: &'static str) -> Option<ShippedTrace> {
    let (name, files) = line.split_once(',')?;
    let (filesystem, workload) = name.split_once('-')?;
    let (workload, is_discarding) =
        workload.strip_suffix("-discard").map_or((workload, false), |workload| (workload, true));
    let (workload, fill_percent) =
        workload.strip_suffix("-95-aged").map_or((workload, 0), |workload| (workload, FULL_PERCENT));
    let of = |ending: &str| Some(TRACES.get_file(format!("{name}{ending}"))?.contents());
    let (before, packed) = (of(".before.csv.gz")?, of(".csv.gz")?);
    let files = files.parse().ok();
    let drops_discards = false;
    Some(ShippedTrace {
        filesystem,
        workload,
        files,
        fill_percent,
        is_discarding,
        drops_discards,
        before,
        packed,
    })
}

impl ShippedTrace {
    /// False when the trace lacks work that the filesystem does in use: those of NILFS2 are without its cleaner, which copies live blocks out of old segments.
    pub fn is_complete(&self) -> bool {
        self.filesystem != "nilfs2"
    }

    /// Filesystem and workload, joined by `-`, and what was filled before.
    pub fn name(&self) -> String {
        let fill =
            if self.fill_percent == 0 { String::new() } else { format!("-{}-aged", self.fill_percent) };
        let discard = if self.is_discarding { "-discard" } else { "" };
        format!("{}-{}{fill}{discard}", self.filesystem, self.workload)
    }

    /// The trace without its discards.
    #[must_use]
    pub const fn without_discards(self) -> Self {
        Self { drops_discards: true, ..self }
    }

    /// Bytes that the filesystem writes to the card for each byte that programs write to files, where the trace tells: `create` makes files of
    /// [`CREATED_BYTES`]. `life` and `advise` count the bytes on the card, as /proc/diskstats does. `compare` divides by this ratio, as raw flash has no such counter.
    ///
    /// # Errors
    /// As of [`Self::requests`].
    pub fn written_per_byte(&self, au_bytes: u64) -> Result<Option<f64>, Error> {
        let Some(files) = self.files.filter(|files| *files > 0 && self.workload == "create") else {
            return Ok(None);
        };
        let written = self.requests(au_bytes)?.written_bytes();
        Ok(Some(written as f64 / (files * CREATED_BYTES) as f64))
    }

    /// All requests for a card with allocation units of `au_bytes`.
    ///
    /// # Errors
    /// The trace is damaged, which only happens when its file was changed before the build.
    pub fn requests(&self, au_bytes: u64) -> Result<CardRequests, Error> {
        let of = |packed| {
            let mut requests = self.read(packed)?;
            requests.retain(|request| !self.drops_discards || request.kind != RequestKind::Discard);
            Ok::<_, Error>(moved(requests, au_bytes))
        };
        Ok(CardRequests { before: of(self.before)?, workload: of(self.packed)? })
    }

    fn read(&self, packed: &[u8]) -> Result<Vec<Request>, Error> {
        let csv = self.unpack(packed)?;
        let wrong = |error: super::trace::TraceError| {
            Error::request(error.to_string(), "restore it from the project").within(self.name())
        };
        Reader::new(csv.as_slice()).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)
    }

    fn unpack(&self, packed: &[u8]) -> Result<Vec<u8>, Error> {
        let damaged = || {
            Error::request("it is no gzip file of a trace", "restore it from the project").within(self.name())
        };
        // The last four bytes are the length of the content (RFC 1952).
        let length = packed.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(damaged)?;
        if length > UNPACKED_BYTES_MAX {
            return Err(damaged());
        }
        let mut csv = vec![0; length as usize];
        let unpacked = Decompressor::new().gzip_decompress(packed, &mut csv).map_err(|_| damaged())?;
        csv.truncate(unpacked);
        Ok(csv)
    }
}

/// Moves requests to the partition, which begins behind the first allocation unit.
fn moved(mut requests: Vec<Request>, au_bytes: u64) -> Vec<Request> {
    let sector = SECTOR_BYTES as u64;
    let (recorded, start) = (AU_BYTES / sector, au_bytes / sector);
    for request in &mut requests {
        if request.sector >= recorded {
            request.sector = request.sector - recorded + start;
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traces of full filesystems fill the partition before the workload; those of boards in use are found by their names, and stay out of the default.
    #[test]
    fn traces_of_full_filesystems_and_of_boards_in_use_are_found_and_read() {
        for trace in full_traces() {
            let CardRequests { before, workload } = trace.requests(AU_BYTES).unwrap();
            let written: u64 = before.iter().map(|request| request.sectors * SECTOR_BYTES as u64).sum();
            assert!(written > CAPACITY_BYTES / 100 * 85, "{}: {written} bytes", trace.name());
            assert!(workload.len() > 100 && trace.name().ends_with("-postmark-95-aged"), "{}", trace.name());
            assert_eq!(find(&trace.name()).map(|found| found.fill_percent), Some(FULL_PERCENT));
        }
        let discards = |trace: &ShippedTrace| {
            let CardRequests { before, workload } = trace.requests(AU_BYTES).unwrap();
            before.iter().chain(&workload).filter(|request| request.kind == RequestKind::Discard).count()
        };
        let discarding = find("ext4-postmark-95-aged-discard").unwrap();
        assert!(discarding.is_discarding && discarding.workload == "postmark");
        assert!(discards(&discarding) > 10 * discards(&find("ext4-postmark-95-aged").unwrap()));
        assert_eq!(discards(&discarding.without_discards()), 0);
        let names = ["journald", "sqlite", "swap", "camera", "log2ram", "docker"];
        for (filesystem, workload) in
            ["ext4", "f2fs", "vfat"].into_iter().flat_map(|fs| names.map(|name| (fs, name)))
        {
            let trace = find(&format!("{filesystem}-{workload}")).unwrap();
            let requests = trace.requests(AU_BYTES).unwrap();
            assert!(requests.written_bytes() > 1 << 20, "{}", trace.name());
            assert_eq!((trace.filesystem, trace.workload), (filesystem, workload));
        }
        assert_eq!(traces_for(&[]).len(), 16);
        // Each trace of the folder is among all of them, under a name of its own.
        let files = TRACES.files().filter(|file| file.path().to_string_lossy().ends_with(".before.csv.gz"));
        let mut named: Vec<String> = all_traces().iter().map(ShippedTrace::name).collect();
        named.sort();
        named.dedup();
        assert_eq!((named.len(), all_traces().len()), (files.count(), named.len()));
        assert_eq!(
            traces_for(&["sqlite".to_owned()]).iter().filter(|trace| trace.workload == "sqlite").count(),
            3
        );
    }

    #[test]
    fn each_sector_takes_room_once() {
        let write = |sector: u64, sectors: u64| Request {
            at: floatgate_mtd::Nanos::ZERO,
            kind: RequestKind::Write,
            sector,
            sectors,
            latency: None,
        };
        let requests = CardRequests { before: vec![write(8, 8), write(0, 4)], workload: vec![write(10, 10)] };
        assert_eq!(requests.footprint_bytes(), 16 * 512);
    }

    #[test]
    fn every_filesystem_has_every_workload_and_each_trace_can_be_read() {
        let traces = traces();
        for filesystem in ["ext4", "f2fs", "nilfs2", "vfat"] {
            for workload in ["create", "postmark", "dbench", "kernel-build"] {
                let of = |trace: &&ShippedTrace| (trace.filesystem, trace.workload) == (filesystem, workload);
                let trace = traces.iter().find(of).unwrap_or_else(|| panic!("no {filesystem}-{workload}"));
                let CardRequests { before, workload: requests } = trace.requests(AU_BYTES).unwrap();
                let mount = trace.requests(AU_BYTES).unwrap().before_mount();
                assert!(mount < before.len() && before.len() - mount < 100, "{}: {mount}", trace.name());
                let is_write = |request: &&Request| request.kind == RequestKind::Write;
                for part in [&before, &requests] {
                    assert!(part.iter().filter(is_write).count() > 4, "{}", trace.name());
                }
                // Who makes files with fsync flushes; FAT flushes at nothing else.
                let flushes = requests.iter().any(|request| request.kind == RequestKind::Flush);
                assert!(flushes || workload != "create", "{}", trace.name());
            }
        }
        assert_eq!(traces.len(), 16);
        let places = |au_bytes| {
            let CardRequests { before, .. } = find("vfat-create").unwrap().requests(au_bytes).unwrap();
            before.into_iter().map(|request| request.sector).collect::<Vec<_>>()
        };
        // The partition table stays where it is, and the partition begins where `run` lays it.
        let (recorded, other) = (places(AU_BYTES), places(4 << 20));
        assert!(recorded.iter().any(|sector| *sector < 8192));
        for (recorded, other) in recorded.into_iter().zip(other) {
            assert_eq!(other, if recorded < 16384 { recorded } else { recorded - 8192 });
        }
        assert!(find("ext4").is_none() && find("nilfs2-kernel-build").is_some());
    }
}

//! Traces that the project ships: ext4, F2FS, NILFS2 and FAT of Debian's kernel under four workloads, as `card run` recorded them on a card of
//! 3 GiB with allocation units of 8 MiB.
//!
//! `traces/README.md` has the command that makes them. Each is a CSV of floatgate, packed by gzip; `traces/traces.csv` has the number of files
//! that each workload made.

use super::trace::{Reader, Request};
use crate::Error;
use include_dir::{Dir, include_dir};
use libdeflater::Decompressor;

static TRACES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../traces");

/// Allocation unit of the card on which the traces were recorded, B.
pub const AU_BYTES: u64 = 8 << 20;

/// Most bytes of a trace that is unpacked.
const UNPACKED_BYTES_MAX: u32 = 256 << 20;

/// A trace of one filesystem under one workload.
#[derive(Clone, Copy, Debug)]
pub struct ShippedTrace {
    /// Filesystem, as `card run` names it.
    pub filesystem: &'static str,
    /// Workload, as `card run` names it.
    pub workload: &'static str,
    /// Files that the workload made, where that is known.
    pub files: Option<u64>,
    packed: &'static [u8],
}

/// All traces, in the order of `traces.csv`.
pub fn traces() -> Vec<ShippedTrace> {
    let table = TRACES.get_file("traces.csv").and_then(|file| file.contents_utf8()).unwrap_or_default();
    table.lines().skip(1).filter_map(of_line).collect()
}

/// The trace of a name such as `ext4-postmark`.
pub fn find(name: &str) -> Option<ShippedTrace> {
    traces().into_iter().find(|trace| trace.name() == name)
}

fn of_line(line: &'static str) -> Option<ShippedTrace> {
    let (name, files) = line.split_once(',')?;
    let (filesystem, workload) = name.split_once('-')?;
    let packed = TRACES.get_file(format!("{name}.csv.gz"))?.contents();
    Some(ShippedTrace { filesystem, workload, files: files.parse().ok(), packed })
}

impl ShippedTrace {
    /// Filesystem and workload, joined by `-`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.filesystem, self.workload)
    }

    /// The CSV.
    ///
    /// # Errors
    /// The trace is damaged, which only happens when its file was changed before the build.
    pub fn csv(&self) -> Result<Vec<u8>, Error> {
        let damaged = || {
            Error::asked("it is no gzip file of a trace", "restore it from the project").within(self.name())
        };
        // The last four bytes are the length of the content (RFC 1952).
        let length = self.packed.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(damaged)?;
        if length > UNPACKED_BYTES_MAX {
            return Err(damaged());
        }
        let mut csv = vec![0; length as usize];
        let unpacked = Decompressor::new().gzip_decompress(self.packed, &mut csv).map_err(|_| damaged())?;
        csv.truncate(unpacked);
        Ok(csv)
    }

    /// All requests.
    ///
    /// # Errors
    /// Those of [`csv`](Self::csv).
    pub fn requests(&self) -> Result<Vec<Request>, Error> {
        let csv = self.csv()?;
        let wrong = |error: super::trace::TraceError| {
            Error::asked(error.to_string(), "restore it from the project").within(self.name())
        };
        Reader::new(csv.as_slice()).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::trace::RequestKind;

    #[test]
    fn every_filesystem_has_every_workload_and_each_trace_can_be_read() {
        let traces = traces();
        for filesystem in ["ext4", "f2fs", "nilfs2", "vfat"] {
            for workload in ["create", "postmark", "dbench", "kernel-build"] {
                let of = |trace: &&ShippedTrace| (trace.filesystem, trace.workload) == (filesystem, workload);
                let trace = traces.iter().find(of).unwrap_or_else(|| panic!("no {filesystem}-{workload}"));
                let requests = trace.requests().unwrap();
                let is_write = |request: &&Request| request.kind == RequestKind::Write;
                assert!(requests.iter().filter(is_write).count() > 4, "{}", trace.name());
                // Who makes files with fsync flushes; FAT flushes at nothing else.
                let flushes = requests.iter().any(|request| request.kind == RequestKind::Flush);
                assert!(flushes || workload != "create", "{}", trace.name());
            }
        }
        assert_eq!(traces.len(), 16);
        assert!(find("ext4").is_none() && find("nilfs2-kernel-build").is_some());
    }
}

//! Recording of one operation, which `floatgate trace` draws.

use crate::fs_speed::{self, FileOperation};
use crate::{speed, stored};
use floatgate_config::{Config, Library};
use floatgate_device::spi::Transfer;
use floatgate_device::wire::read_while_write;
use floatgate_device::{Record, Resource, Span};
use floatgate_mtd::{Breakdown, Done, Error as FlashError, Instant, Mtd, Nanos, Phase};
use floatgate_sim::error::Error;
use floatgate_sim::machine::Filesystem;
use floatgate_sim::rig::{self, Link, Rig, RigOptions};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Operation to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads one page (512 bytes on NOR).
    ReadPage,
    /// Reads two pages in one call.
    Read2Pages,
    /// Reads an eraseblock in one call.
    ReadBlock,
    /// Writes one page (512 bytes on NOR).
    WritePage,
    /// Writes two pages in one call.
    Write2Pages,
    /// Writes an eraseblock in one call.
    WriteBlock,
    /// Erases a block.
    Erase,
    /// Writes a block of one bank while it reads a block of another bank.
    ReadWhileWrite,
    /// An operation of a filesystem on the flash.
    File(FileOperation),
}

impl Operation {
    /// All operations, with their names on the command line.
    pub const ALL: [(&'static str, Self); 14] = [
        ("read-page", Self::ReadPage),
        ("read-2-pages", Self::Read2Pages),
        ("read-block", Self::ReadBlock),
        ("write-page", Self::WritePage),
        ("write-2-pages", Self::Write2Pages),
        ("write-block", Self::WriteBlock),
        ("erase", Self::Erase),
        ("read-while-write", Self::ReadWhileWrite),
        ("attach", Self::File(FileOperation::Attach)),
        ("mount", Self::File(FileOperation::Mount)),
        ("create-file", Self::File(FileOperation::Create)),
        ("write-file", Self::File(FileOperation::Write)),
        ("read-file", Self::File(FileOperation::Read)),
        ("remove-file", Self::File(FileOperation::Remove)),
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }
}

/// Recording of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traced {
    /// Title of the setup.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Link between driver and chip.
    pub link: Link,
    /// Name of the operation, as on the command line.
    #[serde(deserialize_with = "stored::text")]
    pub operation: stored::Text,
    /// Number of bytes moved or erased.
    pub bytes: u64,
    /// Duration, ns.
    pub ns: u64,
    /// Corrected bit errors in pages that were read.
    #[serde(flatten)]
    pub corrected: speed::Corrections,
    /// Time of the foreground by phase, ns; the sum is `ns`.
    #[serde(serialize_with = "crate::speed::breakdown_ns", deserialize_with = "stored::breakdown")]
    pub breakdown_ns: Breakdown,
    /// Activities of every resource. Times are relative to the start of the operation.
    #[serde(serialize_with = "spans", deserialize_with = "stored_spans")]
    pub spans: Vec<Span>,
    /// Operations on the bus of a serial chip. Times are relative to the start of the operation. Status reads that
    /// find the chip busy are included in the time, but not in this list.
    #[serde(skip)]
    pub transfers: Vec<Transfer>,
}

#[derive(Serialize, Deserialize)]
struct SpanJson {
    resource: String,
    #[serde(deserialize_with = "stored::text")]
    phase: stored::Text,
    start_ns: u64,
    end_ns: u64,
    #[serde(deserialize_with = "stored::text")]
    what: stored::Text,
}

fn spans<S: serde::Serializer>(spans: &[Span], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(spans.iter().map(|span| SpanJson {
        resource: resource_name(span.resource),
        phase: span.phase.name(),
        start_ns: span.start.as_ns(),
        end_ns: span.end.as_ns(),
        what: span.what,
    }))
}

fn stored_spans<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Span>, D::Error> {
    let wrong = || D::Error::custom("a span has an unknown resource or phase, or ends before its start");
    let all = Vec::<SpanJson>::deserialize(from)?;
    all.into_iter().map(|span| span.read().ok_or_else(wrong)).collect()
}

impl SpanJson {
    /// Span with valid times of a known resource and phase.
    fn read(self) -> Option<Span> {
        let Self { resource, phase, start_ns, end_ns, what } = self;
        let phase = Phase::ALL.into_iter().find(|known| known.name() == phase)?;
        let others = [Resource::Cpu, Resource::Controller, Resource::Ecc, Resource::Bus];
        let die = || resource.strip_prefix("die ")?.parse().ok().map(Resource::Die);
        let resource = others.into_iter().find(|known| resource_name(*known) == resource).or_else(die)?;
        let [start, end] = [start_ns, end_ns].map(|ns| Instant::ZERO + Nanos::from_ns(ns));
        let is_in_order = start_ns <= end_ns && end_ns <= stored::NS_MAX;
        is_in_order.then_some(Span { resource, phase, start, end, what })
    }
}

/// Name of a resource in JSON: `cpu`, `bus`, `die 0`.
pub fn resource_name(resource: Resource) -> String {
    match resource {
        Resource::Cpu => "cpu".to_owned(),
        Resource::Controller => "controller".to_owned(),
        Resource::Ecc => "ecc".to_owned(),
        Resource::Bus => "bus".to_owned(),
        Resource::Die(n) => format!("die {n}"),
    }
}

/// Runs one operation on a new rig, and records it.
///
/// # Errors
/// The setup is wrong; the chip does not support the requested mode; the operation fails.
pub fn trace(
    library: &Library,
    config: &Config,
    options: RigOptions,
    operation: Operation,
) -> Result<Traced, Error> {
    let mut rig = rig::wire(library, config, options)?;
    let operation = match operation {
        Operation::File(file) => return trace_file(config, rig, operation.name(), file),
        other => other,
    };
    let geometry = rig.device.geometry().clone();
    let block = geometry.erase_bytes;
    let page = speed::page_bytes(&geometry);
    let bytes = match operation {
        Operation::ReadPage | Operation::WritePage => page,
        Operation::Read2Pages | Operation::Write2Pages => 2 * page,
        _ => block,
    };
    let failed = || Error::flash(operation.name());
    let mut data = vec![0x5A; bytes as usize];
    let now = rig.now();
    if !matches!(operation, Operation::WritePage | Operation::Write2Pages | Operation::WriteBlock) {
        rig.device.write(now, 0, &data).map_err(failed())?;
    }
    let far = geometry.size_bytes / 2;
    let before = rig.device.breakdown();
    let start = rig.now();
    let (outcome, record) = rig.record(|device, now| perform(device, now, operation, &mut data, far));
    let done = outcome.map_err(failed())?;
    let mut corrected = speed::Corrections::default();
    corrected.add(&done, &geometry);
    let Record { spans, transfers } = since(record, start);
    Ok(Traced {
        title: crate::speed_run::title(config),
        chip: format!("{} {}", rig.maker, rig.chip).trim().to_owned(),
        link: rig.device.link(),
        operation: operation.name(),
        bytes: u64::from(bytes),
        ns: done.at.since(start).as_ns(),
        corrected,
        breakdown_ns: rig.device.breakdown() - before,
        spans,
        transfers,
    })
}

/// Makes the times of a record relative to a moment.
fn since(mut record: Record, origin: Instant) -> Record {
    let spans = record.spans.iter_mut().flat_map(|span| [&mut span.start, &mut span.end]);
    let transfers = record.transfers.iter_mut().flat_map(|one| [&mut one.start, &mut one.end]);
    for at in spans.chain(transfers) {
        *at = Instant::ZERO + at.since(origin);
    }
    record
}

/// Runs one operation of a new filesystem on a new rig, and records it.
fn trace_file(
    config: &Config,
    rig: Rig,
    name: &'static str,
    operation: FileOperation,
) -> Result<Traced, Error> {
    let kind = Filesystem::of_setup(config)?.kind;
    let (chip, link) = (format!("{} {}", rig.maker, rig.chip).trim().to_owned(), rig.device.link());
    let (test, start, record) = fs_speed::trace(rig, config, kind, operation)?;
    let Record { spans, transfers } = since(record, start);
    Ok(Traced {
        title: crate::speed_run::title(config),
        chip,
        link,
        operation: name,
        bytes: test.bytes,
        ns: test.ns,
        corrected: test.corrected,
        breakdown_ns: test.breakdown_ns,
        spans,
        transfers,
    })
}

fn perform(
    device: &mut dyn rig::Device,
    now: Instant,
    operation: Operation,
    data: &mut [u8],
    far: u64,
) -> Result<Done, FlashError> {
    match operation {
        Operation::ReadPage | Operation::Read2Pages | Operation::ReadBlock => device.read(now, 0, data),
        Operation::WritePage | Operation::Write2Pages | Operation::WriteBlock => device.write(now, 0, data),
        Operation::Erase => device.erase(now, 0, data.len() as u64),
        Operation::ReadWhileWrite | Operation::File(_) => {
            let written = data.to_vec();
            let (write, read) = read_while_write(device, now, (far, &written), (0, data))?;
            Ok(write.then(read))
        }
    }
}

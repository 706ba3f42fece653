//! Traces of block devices in all formats, good and broken, read request by request.
//!
//! `UPDATE_GOLDEN=1` writes the results to `traces/expected.txt`.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_lab::card::trace::{Format, Reader, Request, TraceWriter};
use floatgate_mtd::Nanos;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces")
}

/// Contents of a trace, with a line for each request, and the fault that ends it.
fn found(bytes: &[u8]) -> String {
    let reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return format!("  {error}\n"),
    };
    let mut text = String::new();
    for request in reader {
        match request {
            Ok(Request { at, kind, sector, sectors, latency }) => {
                let latency = latency.map_or_else(|| "-".to_owned(), |latency| latency.as_ns().to_string());
                writeln!(text, "  {} {} {sector}+{sectors} {latency}", at.as_ns(), kind.name()).unwrap();
            }
            Err(error) => writeln!(text, "  {error}").unwrap(),
        }
    }
    text
}

#[test]
fn traces_are_read_and_faults_have_their_place() {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|name| name.file_name().unwrap() != "expected.txt");
    names.sort();
    let mut text = String::new();
    for name in names {
        let found = found(&std::fs::read(&name).unwrap());
        write!(text, "{}\n{found}", name.file_name().unwrap().to_str().unwrap()).unwrap();
    }
    let expected = folder().join("expected.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&expected, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(expected).unwrap());
}

/// blkparse printed this text from the binary trace.
#[test]
fn blktrace_in_both_byte_orders_is_what_blkparse_prints_of_it() {
    let read = |name: &str| found(&std::fs::read(folder().join(name)).unwrap());
    let text = read("good.blkparse");
    assert_eq!(text.lines().count(), 5);
    assert_eq!(read("good.blktrace"), text);
    assert_eq!(read("good-be.blktrace"), text);
}

/// Stacked devices such as dm queue and complete requests, but no driver issues them.
#[test]
fn a_trace_without_the_issue_of_a_request_is_told() {
    let line = |action: &str| format!("8,0 1 1 0.001234567 697 {action} WS 223488 + 8 [dd]\n");
    let queued = [line("Q"), line("C")].concat();
    let text = found(queued.as_bytes());
    assert!(text.contains("no event is the issue of a request"), "{text}");
    // A request that the driver requeued is issued again.
    let again = found([line("D"), line("R"), line("D"), line("C")].concat().as_bytes());
    assert_eq!(again.lines().count(), 1, "{again}");
    let issued = found([line("Q"), line("D"), line("C")].concat().as_bytes());
    assert!(!issued.contains("no event"), "{issued}");
}

/// A header, and lines that are no request, are as empty as an empty file.
#[test]
fn a_trace_without_requests_is_empty() {
    for text in [
        "",
        "fio version 3 iolog\n",
        "fio version 2 iolog",
        "fio version 3 iolog\n0 card add\n0 card open\n0 card close\n",
        "time_us,kind,sector,sectors,latency_us\n",
    ] {
        assert_eq!(found(text.as_bytes()).trim(), "offset 0: the trace is empty", "{text:?}");
    }
    for format in [Format::Csv, Format::Fio] {
        assert_eq!(found(&written(&[], format)).trim(), "offset 0: the trace is empty");
    }
}

fn written(requests: &[Request], format: Format) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), format).unwrap();
    requests.iter().for_each(|request| writer.write(request).unwrap());
    writer.finish().unwrap()
}

fn request() -> impl Strategy<Value = Request> {
    use floatgate_lab::card::trace::RequestKind::{self, Flush};
    let kind = prop::sample::select(RequestKind::ALL.to_vec());
    (kind, 0u64..1 << 40, 1u64..1 << 20, 0u64..1 << 40).prop_map(|(kind, sector, sectors, latency)| {
        let (sector, sectors) = if kind == Flush { (0, 0) } else { (sector, sectors) };
        let latency = Some(Nanos::from_ns(latency));
        Request { at: Nanos::ZERO, kind, sector, sectors, latency }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(mut requests in prop::collection::vec(request(), 1..40), gaps: [u16; 40]) {
        // The requests run one after the other, as on a card.
        let mut now = Nanos::ZERO;
        for (request, gap) in requests.iter_mut().zip(gaps) {
            request.at = now;
            now = now + request.latency.unwrap() + Nanos::from_ns(u64::from(gap));
        }
        for format in [Format::Csv, Format::Blkparse] {
            let again: Vec<Request> =
                Reader::new(&written(&requests, format)[..]).unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(&again, &requests, "{:?}", format);
        }
        for request in &mut requests {
            (request.at, request.latency) = (Nanos::from_us(request.at.as_ns() / 1000), None);
        }
        let again: Vec<Request> =
            Reader::new(&written(&requests, Format::Fio)[..]).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(again, requests);
    }

    /// A changed byte gives a fault with its position, or another valid trace.
    #[test]
    fn no_byte_is_fatal(name in prop::sample::select(vec!["good.csv", "good-v2.iolog", "good-v3.iolog",
        "good-msr.csv", "good.blkparse", "good.blktrace", "good-be.blktrace"]), at: usize, byte: u8) {
        let mut bytes = std::fs::read(folder().join(name)).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        prop_assert!(!found(&bytes).is_empty());
    }
}

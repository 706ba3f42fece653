//! Issues and completions of a block layer's trace, put together to requests in the order of issue.

use super::{Request, RequestKind};
use floatgate_mtd::Nanos;
use std::collections::VecDeque;

/// Most requests on their way at the same time. A request whose completion was lost leaves without a latency
/// when this number of requests have followed.
const MOST: usize = 4096;

/// Requests that wait for their completion, or for the completion of one before them.
pub(super) struct Pairs {
    waiting: VecDeque<Request>,
    /// Time of the first issue.
    start: Option<Nanos>,
    last: Nanos,
}

/// Time by which events of two CPUs may be out of order. blkparse sorts what is this close.
const OUT_OF_ORDER_MAX: Nanos = Nanos::from_ms(1000);

impl Pairs {
    pub(super) const fn new() -> Self {
        Self { waiting: VecDeque::new(), start: None, last: Nanos::ZERO }
    }

    /// Time since the first issue; `None` when it goes back.
    pub(super) fn time(&mut self, time: Nanos) -> Option<Nanos> {
        let start = *self.start.get_or_insert(time);
        if time.as_ns().saturating_add(OUT_OF_ORDER_MAX.as_ns()) < self.last.as_ns() {
            return None;
        }
        self.last = self.last.max(time);
        Some(self.last - start)
    }

    /// A request is issued.
    pub(super) fn issue(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// The oldest request of this kind at this sector is completed. One that was issued before the trace began is not known.
    pub(super) fn complete(&mut self, at: Nanos, kind: RequestKind, sector: u64) {
        let is_it = |request: &&mut Request| is_pending(request, kind, sector);
        if let Some(request) = self.waiting.iter_mut().find(is_it) {
            request.latency = Some(at - request.at);
        }
    }

    /// The newest request of this kind at this sector was not taken by the driver, and will be issued once more.
    pub(super) fn requeue(&mut self, kind: RequestKind, sector: u64) {
        if let Some(at) = self.waiting.iter().rposition(|request| is_pending(request, kind, sector)) {
            self.waiting.remove(at);
        }
    }

    /// The next request in the order of issue, as soon as it is complete or overdue.
    pub(super) fn next(&mut self) -> Option<Request> {
        let is_ready = |first: &Request| first.latency.is_some() || self.waiting.len() > MOST;
        if self.waiting.front().is_some_and(is_ready) { self.waiting.pop_front() } else { None }
    }

    /// The next request, complete or not, behind the last event.
    pub(super) fn rest(&mut self) -> Option<Request> {
        self.waiting.pop_front()
    }
}

/// True for a request that is not completed, of this kind and at this sector.
fn is_pending(request: &Request, kind: RequestKind, sector: u64) -> bool {
    request.latency.is_none()
        && request.kind == kind
        && (request.sector == sector || kind == RequestKind::Flush)
}

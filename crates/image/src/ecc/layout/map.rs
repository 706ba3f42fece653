//! The bits of a raw page: which belong to data, to the message of each step, and to its check bits.
//!
//! Bits of a byte are numbered from the lowest: controllers that do not pad check bits to bytes go on in the same byte.

use super::LayoutError;
use super::pattern::{Item, Kind, Part, Pattern, Times};
use crate::ecc::PageGeometry;
use floatgate_ecc::Code;

/// Most spans of a page.
const MAX_SPANS: usize = 1 << 14;

/// Consecutive bits of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u32,
    bits: u32,
}

/// Message and check bits of one ECC step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Step {
    /// Bits that the code covers, in the order of the page.
    message: Vec<Span>,
    /// Check bits.
    ecc: Vec<Span>,
}

/// Properties of a layout that are not in its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapOptions {
    /// ECC bits follow each other without padding to whole bytes.
    pub(super) packed: bool,
    /// Bytes from the factory's bad block marker on that belong to nothing: the pattern goes on behind them.
    pub(super) skip_marker: u32,
    /// The ECC bytes of a step in a group are filled up to a multiple of this, with 00h.
    pub(super) ecc_align: u32,
}

/// The bits of a raw page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ecc) struct PageMap {
    data: Vec<Span>,
    steps: Vec<Step>,
    zeros: Vec<Span>,
    /// Places of two bytes that are exchanged once the page is decoded, as bits.
    swap: Option<[u32; 2]>,
    ecc_bytes: u32,
}

/// The bits of a page, as a pattern is read from its start.
struct Builder {
    map: PageMap,
    /// Bits of OOB that the code covers, by step.
    meta: Vec<(usize, Span)>,
    at: u64,
    /// Step of the next fixed group.
    step: usize,
    /// Bits of the page's data, and of its ECC, in the order of the pattern, that belong to no group.
    data: Vec<Span>,
    ecc: Vec<Span>,
    step_bits: u32,
    /// Bits of the ECC of a step in the flash, and with those that fill it up.
    ecc_bits: u32,
    ecc_room: u32,
    /// Steps with data.
    data_steps: usize,
    /// The code is for steps of one size.
    is_hamming: bool,
}

impl PageMap {
    pub(super) fn new(
        pattern: &Pattern,
        geometry: &PageGeometry,
        code: Code,
        options: MapOptions,
    ) -> Result<Self, LayoutError> {
        let data_steps = geometry.page_bytes.div_ceil(code.step_bytes()) as usize;
        // A last step may have OOB bytes alone.
        let steps = data_steps.max(pattern.fixed_steps().min(data_steps + 1));
        let ecc_bits = if options.packed { code.ecc_bits() } else { 8 * code.ecc_bytes() };
        let marker_bits = 8 * u64::from(options.skip_marker.min(geometry.oob_bytes));
        let raw_bits = 8 * u64::from(geometry.full_page()) - marker_bits;
        let mut builder = Builder {
            map: Self {
                data: Vec::new(),
                steps: vec![Step::default(); steps],
                zeros: Vec::new(),
                swap: None,
                ecc_bytes: code.ecc_bytes(),
            },
            meta: Vec::new(),
            at: 0,
            step: 0,
            data: Vec::new(),
            ecc: Vec::new(),
            step_bits: 8 * code.step_bytes(),
            ecc_bits,
            ecc_room: if options.packed {
                ecc_bits
            } else {
                ecc_bits.next_multiple_of(8 * options.ecc_align)
            },
            data_steps,
            is_hamming: code.is_hamming(),
        };
        // What an unlimited `free` in the middle takes is what the others leave.
        let page_bits = 8 * u64::from(geometry.page_bytes);
        let fixed = builder.length(pattern, page_bits)?;
        let rest = raw_bits
            .checked_sub(fixed)
            .ok_or(LayoutError::Long { needs: fixed.div_ceil(8), has: raw_bits / 8 })?;
        builder.parts(pattern, page_bits, rest)?;
        let mut map = builder.finish(page_bits)?;
        if marker_bits > 0 {
            map.skip(Span { start: 8 * geometry.page_bytes, bits: 8 * options.skip_marker });
        }
        Ok(map)
    }

    /// Moves what is behind the begin of some bytes to their end.
    fn skip(&mut self, gap: Span) {
        let moved = |spans: &[Span]| spans.iter().flat_map(|span| span.around(gap)).collect::<Vec<_>>();
        self.data = moved(&self.data);
        self.zeros = moved(&self.zeros);
        for step in &mut self.steps {
            step.message = moved(&step.message);
            step.ecc = moved(&step.ecc);
        }
    }

    /// Writes bytes to the steps, each from a sequence of its own: its data and covered OOB bytes, then its
    /// ECC bytes. Bytes behind the last step get a sequence of their own, too.
    pub(in crate::ecc) fn put_by_step<S: Iterator<Item = u8>>(
        &self,
        raw: &mut [u8],
        sequence: impl Fn() -> S,
    ) {
        let mut end = 0;
        for step in &self.steps {
            let spans = || step.message.iter().chain(&step.ecc);
            let bytes: usize = spans().map(|span| span.bits.div_ceil(8) as usize).sum();
            let bytes: Vec<u8> = sequence().take(bytes).collect();
            let rest = write_spans(&step.message, raw, &bytes);
            write_spans(&step.ecc, raw, rest);
            end = spans().map(|span| span.end()).max().unwrap_or(0).max(end);
        }
        end = self.zeros.iter().map(|span| span.end()).max().unwrap_or(0).max(end);
        let rest = raw.get_mut(end.div_ceil(8) as usize..).unwrap_or(&mut []);
        rest.iter_mut().zip(sequence()).for_each(|(byte, next)| *byte = next);
    }

    /// Has the data byte where the factory marks bad blocks exchanged with the first OOB byte of the page, or of its step.
    pub(super) fn swap_marker(&mut self, page_bytes: u32, of_step: bool) -> Result<(), LayoutError> {
        let marker = 8 * page_bytes;
        let holds =
            |spans: &[Span]| spans.iter().any(|span| span.contains(marker) && span.contains(marker + 7));
        if !holds(&self.data) {
            return Err(LayoutError::Swap);
        }
        let is_meta = |span: &&Span| !self.data.iter().any(|data| data.contains(span.start));
        let step = self.steps.iter().find(|step| !of_step || holds(&step.message));
        let meta = step.and_then(|step| step.message.iter().find(is_meta)).ok_or(LayoutError::Swap)?;
        self.swap = Some([meta.start, marker]);
        Ok(())
    }

    /// True when the data of a page do not stand at its beginning in one piece: other bytes are before or between them.
    pub(in crate::ecc) fn interleaves(&self) -> bool {
        let mut end = 0;
        self.data.iter().any(|span| std::mem::replace(&mut end, span.end()) != span.start)
    }

    /// True when data and codewords are in the same bits.
    pub(in crate::ecc) fn is_same(&self, other: &Self) -> bool {
        self.data == other.data && self.steps == other.steps && self.swap == other.swap
    }

    /// Number of steps.
    pub(in crate::ecc) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// True when a byte of the raw page holds neither data nor ECC once it is written.
    pub(in crate::ecc) fn is_free(&self, byte: u32) -> bool {
        let bit = byte.saturating_mul(8);
        let is_swapped = self.swap.is_some_and(|[_, marker]| marker == bit);
        let all = self.data.iter().chain(self.steps.iter().flat_map(|step| &step.ecc));
        is_swapped || !all.into_iter().any(|span| span.start < bit + 8 && bit < span.end())
    }

    /// True when a byte of the raw page is an OOB byte that the code covers.
    pub(in crate::ecc) fn is_covered_oob(&self, byte: u32) -> bool {
        let bit = byte.saturating_mul(8);
        let holds = |spans: &[Span]| spans.iter().any(|span| span.contains(bit));
        !holds(&self.data) && self.steps.iter().any(|step| holds(&step.message))
    }

    /// Byte of the raw page where the factory marks bad blocks, if it is exchanged with another.
    pub(in crate::ecc) fn swapped_marker(&self) -> Option<usize> {
        self.swap.map(|[_, marker]| marker as usize / 8)
    }

    /// Bytes of the longest message.
    pub(super) fn most_message_bytes(&self) -> u32 {
        self.steps.iter().map(Step::message_bytes).max().unwrap_or(0)
    }

    /// Bytes of the message of each step.
    pub(in crate::ecc) fn message_bytes(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().map(|step| step.message_bytes() as usize)
    }

    /// Data bytes of the page before a step's.
    pub(in crate::ecc) fn data_offset(&self, step: usize) -> u32 {
        let first = self.steps.get(step).and_then(|step| step.message.iter().find(|span| self.is_data(span)));
        let Some(first) = first else { return 0 };
        let before = self.data.iter().take_while(|span| !span.contains(first.start));
        let own = self.data.iter().find(|span| span.contains(first.start));
        (before.map(|span| span.bits).sum::<u32>() + own.map_or(0, |span| first.start - span.start)) / 8
    }

    fn is_data(&self, span: &Span) -> bool {
        self.data.iter().any(|data| data.contains(span.start))
    }

    /// Copies the messages of a raw page, one after the other, and the ECC bytes. Bits that pad the last ECC byte of a step read 1 where the
    /// flash has none.
    pub(in crate::ecc) fn extract(&self, raw: &[u8], messages: &mut Vec<u8>, ecc: &mut Vec<u8>) {
        messages.clear();
        ecc.clear();
        for step in &self.steps {
            read_spans(&step.message, raw, messages);
            let end = ecc.len() + self.ecc_bytes as usize;
            read_spans(&step.ecc, raw, ecc);
            ecc.resize(end, 0xFF);
            if let Some(last) = ecc.last_mut()
                && !step.ecc_bits().is_multiple_of(8)
            {
                *last |= 0xFF << (step.ecc_bits() % 8);
            }
        }
    }

    /// Writes messages and ECC bytes to a raw page.
    pub(in crate::ecc) fn put(&self, raw: &mut [u8], messages: &[u8], ecc: &[u8]) {
        let mut rest = messages;
        for (step, ecc) in self.steps.iter().zip(ecc.chunks_exact(self.ecc_bytes as usize)) {
            rest = write_spans(&step.message, raw, rest);
            write_spans(&step.ecc, raw, ecc);
        }
    }

    /// Copies the ECC bytes alone to a raw page.
    pub(in crate::ecc) fn put_ecc(&self, raw: &mut [u8], ecc: &[u8]) {
        for (step, ecc) in self.steps.iter().zip(ecc.chunks_exact(self.ecc_bytes as usize)) {
            write_spans(&step.ecc, raw, ecc);
        }
    }

    /// Copies the data of a corrected raw page.
    pub(in crate::ecc) fn extract_data(&self, raw: &mut [u8], data: &mut [u8]) {
        self.exchange(raw);
        let mut out = data;
        for span in &self.data {
            let (now, later) = out.split_at_mut(((span.bits / 8) as usize).min(out.len()));
            span.read(raw, now);
            out = later;
        }
        self.exchange(raw);
    }

    /// Writes data to a raw page whose other bytes are FFh, before its ECC bytes are known.
    pub(in crate::ecc) fn put_data(&self, raw: &mut [u8], data: &[u8]) {
        for span in &self.zeros {
            span.write(raw, &vec![0; span.bits.div_ceil(8) as usize]);
        }
        write_spans(&self.data, raw, data);
        self.exchange(raw);
    }

    /// Exchanges the bad block marker with the data byte in its place.
    fn exchange(&self, raw: &mut [u8]) {
        if let Some(places) = self.swap {
            let [one, other] = places.map(|start| Span { start, bits: 8 });
            let (mut first, mut second) = ([0], [0]);
            one.read(raw, &mut first);
            other.read(raw, &mut second);
            one.write(raw, &second);
            other.write(raw, &first);
        }
    }
}

impl Builder {
    /// Bits of all parts but an unlimited `free` outside of groups.
    fn length(&self, pattern: &Pattern, page_bits: u64) -> Result<u64, LayoutError> {
        let mut bits = 0_u64;
        for part in pattern.parts() {
            bits += match part {
                Part::Item(item) => match (item.kind, item.bytes) {
                    (_, Some(bytes)) => 8 * u64::from(bytes),
                    (Kind::Data, None) => page_bits,
                    (Kind::Ecc, None) => {
                        u64::from(self.ecc_bits) * self.map.steps.len() as u64 - self.fixed_ecc(pattern)
                    }
                    _ => 0,
                },
                Part::Group(times, items) => {
                    let once: u64 = items.iter().map(|item| self.bits_in_group(item)).sum();
                    once * self.times(*times) as u64
                }
            };
        }
        Ok(bits)
    }

    /// Bits of ECC items with a length outside of groups.
    fn fixed_ecc(&self, pattern: &Pattern) -> u64 {
        let fixed = pattern.parts().iter().filter_map(|part| match part {
            Part::Item(Item { kind: Kind::Ecc, bytes }) => *bytes,
            _ => None,
        });
        let all = u64::from(self.ecc_bits) * self.map.steps.len() as u64;
        fixed.map(|bytes| 8 * u64::from(bytes)).sum::<u64>().min(all)
    }

    fn times(&self, times: Times) -> usize {
        match times {
            Times::Steps => self.map.steps.len(),
            Times::Fixed(times) => times as usize,
        }
    }

    fn bits_in_group(&self, item: &Item) -> u64 {
        match (item.kind, item.bytes) {
            (_, Some(bytes)) => 8 * u64::from(bytes),
            (Kind::Data, None) => self.step_bits.into(),
            (Kind::Ecc, None) => self.ecc_room.into(),
            _ => 0,
        }
    }

    fn parts(&mut self, pattern: &Pattern, page_bits: u64, rest: u64) -> Result<(), LayoutError> {
        let mut rest = Some(rest);
        let fixed_ecc = self.fixed_ecc(pattern);
        for part in pattern.parts() {
            match part {
                Part::Item(item) => {
                    let bits = match (item.kind, item.bytes) {
                        (_, Some(bytes)) => 8 * u64::from(bytes),
                        (Kind::Data, None) => page_bits,
                        (Kind::Ecc, None) => {
                            u64::from(self.ecc_bits) * self.map.steps.len() as u64 - fixed_ecc
                        }
                        _ => rest.take().unwrap_or(0),
                    };
                    let span = self.advance(bits);
                    self.page_item(item.kind, span);
                }
                Part::Group(times, items) => {
                    let (from, count) = match times {
                        Times::Steps => (0, self.map.steps.len()),
                        Times::Fixed(_) => (self.step, self.times(*times)),
                    };
                    for step in from..from + count {
                        self.group(step, items)?;
                    }
                    self.step = (from + count) % self.map.steps.len().max(1);
                }
            }
            if self.map.data.len() > MAX_SPANS || self.meta.len() > MAX_SPANS {
                return Err(LayoutError::Many("ranges"));
            }
        }
        Ok(())
    }

    fn advance(&mut self, bits: u64) -> Span {
        // The length of the whole was checked: it is that of a page.
        let span = Span { start: self.at as u32, bits: bits as u32 };
        self.at += bits;
        span
    }

    fn page_item(&mut self, kind: Kind, span: Span) {
        match kind {
            Kind::Data => {
                self.map.data.push(span);
                self.data.push(span);
            }
            Kind::Ecc => self.ecc.push(span),
            Kind::Meta => self.meta.push((self.step, span)),
            Kind::Zero => self.map.zeros.push(span),
            Kind::Free => {}
        }
    }

    fn group(&mut self, number: usize, items: &[Item]) -> Result<(), LayoutError> {
        for item in items {
            let span = self.advance(self.bits_in_group(item));
            let has = self.map.steps.len() as u64;
            let Some(step) = self.map.steps.get_mut(number) else {
                return Err(LayoutError::Count { what: "steps", got: number as u64 + 1, needs: has });
            };
            match item.kind {
                Kind::Data => {
                    self.map.data.push(span);
                    step.message.push(span);
                }
                Kind::Meta => self.meta.push((number, span)),
                Kind::Ecc => {
                    let room = if item.bytes.is_none() { self.ecc_room - self.ecc_bits } else { 0 };
                    step.ecc.push(span);
                    let filled = Span { start: span.start + self.ecc_bits, bits: room };
                    self.map.zeros.extend((room > 0).then_some(filled));
                }
                Kind::Zero => self.map.zeros.push(span),
                Kind::Free => {}
            }
        }
        Ok(())
    }

    fn finish(mut self, page_bits: u64) -> Result<PageMap, LayoutError> {
        let got: u64 = self.map.data.iter().map(|span| u64::from(span.bits)).sum();
        if got != page_bits {
            return Err(LayoutError::Count { what: "data", got, needs: page_bits });
        }
        let (step_bits, ecc_bits) = (self.step_bits, self.ecc_bits);
        let (mut data, mut ecc) = (Queue::new(&self.data), Queue::new(&self.ecc));
        let data_steps = self.data_steps;
        for (at, step) in self.map.steps.iter_mut().enumerate() {
            if step.message.is_empty() && at < data_steps {
                step.message = data.take_bits(step_bits);
                let got = 8 * step.message_bytes();
                if got != step_bits {
                    return Err(LayoutError::Count {
                        what: "data in the last step",
                        got: got.into(),
                        needs: step_bits.into(),
                    });
                }
            }
            step.ecc.extend(ecc.take_bits(ecc_bits - step.ecc_bits().min(ecc_bits)));
            step.limit_ecc(ecc_bits);
            if step.ecc_bits() != ecc_bits {
                let got = step.ecc_bits().into();
                return Err(LayoutError::Count { what: "ECC per step", got, needs: ecc_bits.into() });
            }
        }
        if !data.is_empty() {
            return Err(LayoutError::Count { what: "data in steps", got: 0, needs: page_bits });
        }
        for (step, span) in &self.meta {
            self.map.steps.get_mut(*step).into_iter().for_each(|step| step.message.push(*span));
        }
        for step in &mut self.map.steps {
            step.message.sort_by_key(|span| span.start);
            let got = 8 * step.message_bytes();
            if got == 0 || self.is_hamming && got != step_bits {
                return Err(LayoutError::Count {
                    what: "message in a step",
                    got: got.into(),
                    needs: step_bits.into(),
                });
            }
        }
        Ok(self.map)
    }
}

/// Spans that are used up from the first on.
struct Queue<'s> {
    spans: std::slice::Iter<'s, Span>,
    now: Span,
}

impl<'s> Queue<'s> {
    fn new(spans: &'s [Span]) -> Self {
        Self { spans: spans.iter(), now: Span { start: 0, bits: 0 } }
    }

    fn is_empty(&self) -> bool {
        self.now.bits == 0 && self.spans.as_slice().is_empty()
    }

    fn take_bits(&mut self, mut bits: u32) -> Vec<Span> {
        let mut taken = Vec::new();
        while bits > 0 {
            if self.now.bits == 0 {
                let Some(next) = self.spans.next() else { break };
                self.now = *next;
            }
            let part = self.now.bits.min(bits);
            taken.push(Span { start: self.now.start, bits: part });
            self.now = Span { start: self.now.start + part, bits: self.now.bits - part };
            bits -= part;
        }
        taken
    }
}

impl Step {
    fn message_bytes(&self) -> u32 {
        self.message.iter().map(|span| span.bits).sum::<u32>() / 8
    }

    fn ecc_bits(&self) -> u32 {
        self.ecc.iter().map(|span| span.bits).sum()
    }

    /// Cuts what an ECC item has beyond the code's own bytes.
    fn limit_ecc(&mut self, bits: u32) {
        self.ecc = Queue::new(&std::mem::take(&mut self.ecc)).take_bits(bits);
    }
}

/// Appends the bits of spans.
fn read_spans(spans: &[Span], raw: &[u8], out: &mut Vec<u8>) {
    for span in spans {
        let from = out.len();
        out.resize(from + span.bits.div_ceil(8) as usize, 0);
        if let Some(place) = out.get_mut(from..) {
            span.read(raw, place);
        }
    }
}

/// Writes bytes to spans; those that are left.
fn write_spans<'b>(spans: &[Span], raw: &mut [u8], bytes: &'b [u8]) -> &'b [u8] {
    let mut rest = bytes;
    for span in spans {
        let (now, later) = rest.split_at((span.bits.div_ceil(8) as usize).min(rest.len()));
        span.write(raw, now);
        rest = later;
    }
    rest
}

impl Span {
    /// The span where a gap was made in its page: in two parts if the gap is within.
    fn around(self, gap: Self) -> impl Iterator<Item = Self> {
        let before = gap.start.saturating_sub(self.start).min(self.bits);
        let first = Self { bits: before, ..self };
        let second = Self { start: self.start + before + gap.bits, bits: self.bits - before };
        [first, second].into_iter().filter(|span| span.bits > 0)
    }

    const fn end(self) -> u32 {
        self.start + self.bits
    }

    const fn contains(self, bit: u32) -> bool {
        self.start <= bit && bit < self.end()
    }

    /// Copies the bits, the first one lowest; those that a last byte lacks are 0.
    fn read(self, raw: &[u8], out: &mut [u8]) {
        let from = (self.start / 8) as usize;
        let source = raw.get(from..).unwrap_or(&[]);
        let shift = self.start % 8;
        if shift == 0 {
            let len = out.len().min(source.len());
            out[..len].copy_from_slice(&source[..len]);
        } else {
            for (at, out) in out.iter_mut().enumerate() {
                let byte = |at: usize| u16::from(source.get(at).copied().unwrap_or(0));
                *out = ((byte(at) | byte(at + 1) << 8) >> shift) as u8;
            }
        }
        if !self.bits.is_multiple_of(8)
            && let Some(last) = out.get_mut((self.bits / 8) as usize)
        {
            *last &= (1 << (self.bits % 8)) - 1;
        }
    }

    fn write(self, raw: &mut [u8], bytes: &[u8]) {
        if self.start.is_multiple_of(8) && self.bits.is_multiple_of(8) {
            let place = raw.get_mut((self.start / 8) as usize..).unwrap_or(&mut []);
            let len = place.len().min(bytes.len());
            place[..len].copy_from_slice(&bytes[..len]);
            return;
        }
        let bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
        for (at, bit) in (self.start..self.end()).zip(bits) {
            if let Some(place) = raw.get_mut((at / 8) as usize) {
                *place = *place & !(1 << (at % 8)) | bit << (at % 8);
            }
        }
    }
}

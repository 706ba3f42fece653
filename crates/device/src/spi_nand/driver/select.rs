//! Selection of the operations: the fastest that chip, controller and board support, by estimated duration at the
//! clock at which each would run.

use super::super::spec::{ContinuousKind, LoadVariant, SpiNandSpec};
use super::ProbeError;
use crate::spi::{Direction, Mode, PhyTooFast, SpiMem, SpiOp, Variant};
use floatgate_mtd::Nanos;

/// Operations that were selected at the probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Selected read from cache.
    pub(super) read: Variant,
    /// Selected program load.
    pub(super) load: LoadVariant,
    /// A continuous read that is supported and faster, or the reason why there is none.
    pub(super) stream: Result<Stream, NoStream>,
}

/// Reason why reads are not continuous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoStream {
    /// The option `continuous` is not set.
    NotAsked,
    /// The option is set, but continuous reads are impossible for this reason.
    Cannot(&'static str),
}

/// A continuous read operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// The operation without its length.
    pub(super) op: SpiOp,
    /// Mask of the configuration bit.
    pub(super) config_bit: u8,
    /// True if the bit is set (Macronix), false if it is cleared (Winbond) for continuous reads.
    pub(super) set: bool,
    /// Maximum number of bytes that the controller transfers before it releases CS#.
    pub(super) cs_bytes: usize,
}

/// True when controller and board allow a mode.
fn allowed<S: SpiMem>(bus: &S, spec: &SpiNandSpec, mode: Mode) -> bool {
    let stateful_ok = !mode.is_stateful() || (bus.has_reset_pin() && spec.octal.is_some());
    bus.supports(mode) && bus.mode_limit().is_none_or(|limit| mode.fits(limit)) && stateful_ok
}

/// Operation of a variant, with its clock limit.
pub(super) fn operation(spec: &SpiNandSpec, variant: &Variant, dir: Direction, len: u32) -> SpiOp {
    SpiOp { max_hz: spec.variant_hz(variant), ..variant.op(0, 2, dir, len) }
}

/// Duration of `op` on the bus.
fn duration<S: SpiMem>(bus: &S, op: &SpiOp) -> Nanos {
    bus.clock(op, true).duration(op)
}

/// Selects the operations. `continuous` determines if continuous reads may be used.
pub(super) fn choose<S: SpiMem>(
    bus: &S,
    spec: &SpiNandSpec,
    continuous: Result<(), NoStream>,
) -> Result<Choice, ProbeError> {
    let read = choose_read(bus, spec)?;
    let load = choose_load(bus, spec, read.mode.is_stateful())?;
    let stream = continuous.and_then(|()| choose_stream(bus, spec, &read).map_err(NoStream::Cannot));
    Ok(Choice { read, load, stream })
}

fn choose_read<S: SpiMem>(bus: &S, spec: &SpiNandSpec) -> Result<Variant, ProbeError> {
    let page = spec.geometry.page_bytes;
    let length = |v: &Variant| duration(bus, &operation(spec, v, Direction::In, page));
    refuse_without_reset_pin(bus, spec)?;
    let usable: Vec<&Variant> = spec.reads.iter().filter(|v| allowed(bus, spec, v.mode)).collect();
    if let Some(limit) = bus.mode_asked()
        && !usable.iter().any(|v| v.mode.reaches(limit))
    {
        return Err(out_of_reach(bus, spec, limit));
    }
    let reaches = |v: &&&Variant| bus.mode_asked().is_none_or(|asked| v.mode.reaches(asked));
    let best = usable.iter().filter(reaches).min_by_key(|v| length(v));
    let best = **best.ok_or(ProbeError::NoVariant("read from cache"))?;
    let limit = operation(spec, &best, Direction::In, page).max_hz;
    match bus.phy_hz() {
        Some(phy_hz) if limit > 0 && phy_hz > limit => {
            let same = spec.reads.iter().filter(|v| v.mode == best.mode);
            let limit = same.map(|v| operation(spec, v, Direction::In, page).max_hz).max().unwrap_or(limit);
            Err(ProbeError::PhyTooFast(PhyTooFast { mode: best.mode, limit, phy_hz }))
        }
        _ => Ok(best),
    }
}

/// Rejects a required stateful mode without a reset pin, instead of silently using a stateless mode.
fn refuse_without_reset_pin<S: SpiMem>(bus: &S, spec: &SpiNandSpec) -> Result<(), ProbeError> {
    let asked = bus.mode_asked().filter(|mode| mode.is_stateful() && !bus.has_reset_pin());
    match asked {
        Some(mode) if bus.supports(mode) && spec.reads.iter().any(|v| v.mode == mode) => {
            Err(ProbeError::NoResetPin(mode))
        }
        _ => Ok(()),
    }
}

/// The error for a mode of the setup that no read reaches; it contains the supported modes.
fn out_of_reach<S: SpiMem>(bus: &S, spec: &SpiNandSpec, wanted: Mode) -> ProbeError {
    let usable = |mode: Mode| bus.supports(mode) && (!mode.is_stateful() || bus.has_reset_pin());
    let mut offered: Vec<Mode> = spec.reads.iter().map(|v| v.mode).filter(|&mode| usable(mode)).collect();
    offered.sort_unstable();
    offered.dedup();
    ProbeError::ModeNotOffered { wanted, offered }
}

/// Selects a program load. Random loads are preferred among equal ones, as in Linux.
fn choose_load<S: SpiMem>(bus: &S, spec: &SpiNandSpec, stateful: bool) -> Result<LoadVariant, ProbeError> {
    let raw = spec.geometry.raw_page_bytes();
    let usable = spec.loads.iter().filter(|v| v.mode.is_stateful() == stateful && allowed(bus, spec, v.mode));
    let length = |v: &LoadVariant| duration(bus, &operation(spec, &v.variant(), Direction::Out, raw));
    let best = usable.min_by_key(|v| (length(v), !v.random));
    best.copied().ok_or(ProbeError::NoVariant("program load"))
}

fn choose_stream<S: SpiMem>(bus: &S, spec: &SpiNandSpec, read: &Variant) -> Result<Stream, &'static str> {
    let cont = spec.continuous.as_ref().ok_or("the chip has no continuous reads")?;
    let g = &spec.geometry;
    let winbond = cont.kind == ContinuousKind::Winbond;
    let page = g.page_bytes;
    let make = |v: &Variant| {
        let op = if winbond { headed(spec, v) } else { operation(spec, v, Direction::In, 0) };
        slowed(SpiOp { len: page, ..op }, cont.t_page_us)
    };
    let candidates = if winbond { &cont.reads } else { &spec.reads };
    // The dummy register has a single value for both kinds of read.
    let same_dummy = |v: &&Variant| v.mode.data.lanes != 8 || v.dummy == read.dummy || spec.octal.is_none();
    let op = candidates
        .iter()
        .filter(|v| v.mode.is_stateful() == read.mode.is_stateful() && allowed(bus, spec, v.mode))
        .filter(same_dummy)
        .map(make)
        .min_by_key(|op| duration(bus, op))
        .ok_or("the chip has none in the bus mode in use")?;
    let regular = spec.timing.t_rd_us + duration(bus, &operation(spec, read, Direction::In, page));
    let cs_bytes = bus.max_mapped(Direction::In);
    if cs_bytes < 2 * page as usize {
        return Err("the controller transfers no more than a page at once");
    }
    if duration(bus, &op) >= regular {
        return Err("continuous reads would be no faster than reads page by page");
    }
    Ok(Stream { op, config_bit: 1 << cont.config_bit, set: !winbond, cs_bytes })
}

/// A continuous read of Winbond: one ignored address byte (two in 8D), and the other header cycles as dummy cycles.
fn headed(spec: &SpiNandSpec, variant: &Variant) -> SpiOp {
    let bytes = if variant.mode.cmd.dtr { 2 } else { 1 };
    let op = SpiOp { max_hz: spec.variant_hz(variant), ..variant.op(0, bytes, Direction::In, 0) };
    let address = op.half_cycles()[1];
    match u8::try_from(address / 2) {
        Ok(cycles) if address.is_multiple_of(2) && cycles <= variant.dummy => {
            op.dummy(variant.dummy - cycles)
        }
        _ => op.address(0, 0),
    }
}

/// Reduces the clock limit so that a page is not transferred faster than the array delivers the next one.
fn slowed(op: SpiOp, t_page: Nanos) -> SpiOp {
    let array_hz = op.half_cycles()[3].saturating_mul(500_000_000) / t_page.as_ns().max(1);
    SpiOp { max_hz: op.max_hz.min(u32::try_from(array_hz).unwrap_or(u32::MAX)), ..op }
}

//! Protocol of `/dev/floatgate`: the structures of `hosts/linux-module/floatgate.h`, where they are documented, and
//! the requests built from them.

use floatgate_device::raw_nand::{Address, DataInterface};
use floatgate_device::spi::{CmdExt, Direction, Mode, SpiOp, Width};
use floatgate_mtd::Nanos;

/// Maximum size of a request, B.
pub const REQUEST_MAX: usize = RawRequest::SIZE + INSTR_MAX as usize * RawInstr::SIZE + DATA_MAX as usize;

/// Declares the constants of the C header.
macro_rules! constants {
    ($($name:ident = $value:expr;)*) => {
        $(pub(super) const $name: u32 = $value;)*
        #[cfg(test)]
        const CONSTANTS: &[(&str, u32)] = &[$((stringify!($name), $value)),*];
    };
}

constants! {
    MAGIC = 0x0100_6766;
    DATA_MAX = 65536;
    INSTR_MAX = 32;
    ADDR_MAX = 8;
    TARGETS_MAX = 8;
    SPI_NOR = 1;
    SPI_NAND = 2;
    RAW_NAND = 3;
    CAP_DIRMAP_READ = 1;
    CAP_DIRMAP_WRITE = 2;
    CAP_NO_SUBPAGE_WRITE = 4;
    ECC_NONE = 0;
    ECC_SOFT_BCH = 1;
    ECC_SOFT_HAMMING = 2;
    ECC_ON_DIE = 3;
    SUPPORTS = 1;
    EXEC = 2;
    MAPPED = 3;
    POLL = 4;
    NAND = 5;
    INTERFACE = 6;
    READY = 7;
    DTR_CMD = 1;
    DTR_ADDR = 2;
    DTR_DUMMY = 4;
    DTR_DATA = 8;
    NO_DATA = 0;
    DATA_IN = 1;
    DATA_OUT = 2;
    INSTR_CMD = 0;
    INSTR_ADDR = 1;
    INSTR_DATA_IN = 2;
    INSTR_DATA_OUT = 3;
    INSTR_WAIT = 4;
}

/// Type of a structure's field, encoded with the lowest byte first.
trait Field: Sized {
    /// Name of the type in the C header.
    #[cfg(test)]
    const C_TYPE: &str;

    fn read_from(bytes: &mut &[u8]) -> Option<Self>;
    fn put(&self, bytes: &mut Vec<u8>);
}

macro_rules! number {
    ($($rust:ty = $c:literal),*) => { $(
        impl Field for $rust {
            #[cfg(test)]
            const C_TYPE: &str = $c;

            fn read_from(bytes: &mut &[u8]) -> Option<Self> {
                let (first, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*first))
            }

            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    )* };
}

number!(u8 = "__u8", u16 = "__u16", u32 = "__u32", u64 = "__u64", i32 = "__s32");

impl<const N: usize> Field for [u8; N] {
    #[cfg(test)]
    const C_TYPE: &str = "__u8";

    fn read_from(bytes: &mut &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*first)
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }
}

/// Declares the structures of the C header: their fields in order, without gaps.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident = $c:ident { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub(super) struct $name { $(pub(super) $field: $kind),* }

            impl $name {
                #[allow(dead_code, reason = "not used for every structure")]
                pub(super) const SIZE: usize = $(size_of::<$kind>() +)* 0;

                #[allow(dead_code, reason = "one side of the protocol reads a structure, and the other one writes it")]
                fn read_from(bytes: &mut &[u8]) -> Option<Self> {
                    Some(Self { $($field: Field::read_from(bytes)?),* })
                }

                #[allow(dead_code, reason = "one side of the protocol reads a structure, and the other one writes it")]
                pub(super) fn put(&self, bytes: &mut Vec<u8>) {
                    $(self.$field.put(bytes);)*
                }
            }
        )*

        /// Names in the C header, with type, name and size of each field.
        #[cfg(test)]
        const STRUCTURES: &[(&str, &[(&str, &str, usize)])] = &[$(
            (stringify!($c), &[$((<$kind as Field>::C_TYPE, stringify!($field), size_of::<$kind>())),*])
        ),*];
    };
}

structures! {
    /// Properties of the chip that the module announces to the kernel.
    RawConfig = fg_config {
        magic: u32,
        kind: u32,
        caps: u32,
        clock_hz: u32,
        max_data: u32,
        max_mapped: u32,
        targets: u32,
        ecc: u32,
        ecc_step: u32,
        ecc_strength: u32,
    }
    /// Header of each request.
    RawRequest = fg_request { id: u32, kind: u32, count: u32, target: u32, out_len: u32, in_len: u32 }
    /// Header of each answer.
    RawAnswer = fg_answer { id: u32, result: i32 }
    /// An operation on a SPI bus.
    RawSpiOp = fg_spi_op {
        addr: u64,
        max_hz: u32,
        opcode: u16,
        cmd_bytes: u8,
        cmd_lanes: u8,
        addr_bytes: u8,
        addr_lanes: u8,
        dummy_bytes: u8,
        dummy_lanes: u8,
        data_lanes: u8,
        dir: u8,
        dtr: u8,
        zero: u8,
    }
    /// A repeated read of the status register.
    RawPoll = fg_poll { initial_us: u32, interval_us: u32 }
    /// A step of an operation on a raw NAND.
    RawInstr = fg_nand_instr { kind: u8, value: u8, zero: u16, len: u32, addr: [u8; ADDR_MAX as usize] }
    /// A change of the data interface of a raw NAND.
    RawInterface = fg_interface { nvddr: u32, mode: u32, check_only: u32 }
}

/// Maximum time that a request waits for a chip: one minute. Linux waits at most 0.4 s.
const WAIT_MAX_MS: u32 = 60_000;

/// Reason why bytes are not a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRequest {
    /// The length is wrong.
    #[error("a request of {0} bytes, which is not its length")]
    Length(usize),
    /// A field has an unknown value.
    #[error("field {0} of a request has the value {1}")]
    Value(&'static str, u64),
}

/// A request of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) id: u32,
    /// Number of data bytes in the answer.
    pub(super) in_len: usize,
    /// Data bytes for the chip.
    pub(super) out: &'a [u8],
    pub(super) what: RequestBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestBody {
    /// Query if the controller supports an operation; `None` for an operation that no chip has.
    Supports(Option<SpiOp>),
    Spi {
        op: SpiOp,
        mapped: bool,
    },
    Poll {
        op: SpiOp,
        initial: Nanos,
        interval: Nanos,
    },
    Nand {
        target: u8,
        steps: Vec<Step>,
    },
    Interface {
        interface: DataInterface,
        check_only: bool,
    },
    /// Report of the number of the MTD device.
    Ready(Option<u32>),
}

/// A step of an operation on a raw NAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Cmd(u8),
    Addr(Address),
    /// Data input; `register` marks data of an id, status, features or a parameter page.
    In {
        len: usize,
        register: bool,
    },
    Out {
        len: usize,
        register: bool,
    },
    Wait(Nanos),
}

impl<'a> Request<'a> {
    /// Parses a request from the bytes of one message.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, BadRequest> {
        let mut rest = bytes;
        let short = BadRequest::Length(bytes.len());
        let head = RawRequest::read_from(&mut rest).ok_or(short)?;
        check("in_len", head.in_len, head.in_len <= DATA_MAX)?;
        let what = match head.kind {
            SUPPORTS => RequestBody::Supports(spi_op(&RawSpiOp::read_from(&mut rest).ok_or(short)?, 0).ok()),
            EXEC | MAPPED => {
                let op =
                    spi_op(&RawSpiOp::read_from(&mut rest).ok_or(short)?, head.in_len.max(head.out_len))?;
                RequestBody::Spi { op, mapped: head.kind == MAPPED }
            }
            POLL => {
                let op = spi_op(&RawSpiOp::read_from(&mut rest).ok_or(short)?, head.in_len)?;
                let RawPoll { initial_us, interval_us } = RawPoll::read_from(&mut rest).ok_or(short)?;
                let us = |us: u32| Nanos::from_us(u64::from(us.min(WAIT_MAX_MS * 1000)));
                RequestBody::Poll { op, initial: us(initial_us), interval: us(interval_us) }
            }
            NAND => {
                check("count", head.count, head.count <= INSTR_MAX)?;
                check("target", head.target, head.target < TARGETS_MAX)?;
                let step = |_| step(&RawInstr::read_from(&mut rest).ok_or(short)?);
                let steps = (0..head.count).map(step).collect::<Result<Vec<_>, _>>()?;
                check_lengths(&steps, &head)?;
                RequestBody::Nand { target: head.target as u8, steps }
            }
            INTERFACE => interface(&RawInterface::read_from(&mut rest).ok_or(short)?)?,
            READY => RequestBody::Ready((head.target != u32::MAX).then_some(head.target)),
            other => return Err(BadRequest::Value("kind", other.into())),
        };
        if rest.len() != head.out_len as usize {
            return Err(short);
        }
        what.check_direction(&head)?;
        Ok(Self { id: head.id, in_len: head.in_len as usize, out: rest, what })
    }
}

impl RequestBody {
    /// Rejects data that no phase of the request uses.
    fn check_direction(&self, head: &RawRequest) -> Result<(), BadRequest> {
        let (reads, writes) = match self {
            Self::Spi { op, .. } => (op.dir == Direction::In, op.dir == Direction::Out),
            Self::Poll { op, .. } => (op.dir == Direction::In, false),
            Self::Nand { .. } => (true, true),
            Self::Supports(_) | Self::Interface { .. } | Self::Ready(_) => (false, false),
        };
        check("in_len", head.in_len, reads || head.in_len == 0)?;
        check("out_len", head.out_len, writes || head.out_len == 0)
    }
}

fn check(field: &'static str, value: impl Into<u64>, right: bool) -> Result<(), BadRequest> {
    if right { Ok(()) } else { Err(BadRequest::Value(field, value.into())) }
}

/// Checks that the data lengths of all steps add up to the length of the request.
fn check_lengths(steps: &[Step], head: &RawRequest) -> Result<(), BadRequest> {
    let (mut read, mut written) = (0, 0);
    for step in steps {
        match step {
            Step::In { len, .. } => read += *len as u64,
            Step::Out { len, .. } => written += *len as u64,
            Step::Cmd(_) | Step::Addr(_) | Step::Wait(_) => {}
        }
    }
    check("in_len", head.in_len, read == u64::from(head.in_len))?;
    check("out_len", head.out_len, written == u64::from(head.out_len))
}

/// Converts a SPI operation. An absent phase has the width of the previous phase, so that 8D-8D-8D is one mode for all
/// operations.
fn spi_op(raw: &RawSpiOp, len: u32) -> Result<SpiOp, BadRequest> {
    let width = |field, lanes: u8, dtr: u32| match lanes {
        1 | 2 | 4 | 8 => Ok(Width { lanes, dtr: u32::from(raw.dtr) & dtr != 0 }),
        _ => Err(BadRequest::Value(field, lanes.into())),
    };
    let cmd = width("cmd_lanes", raw.cmd_lanes, DTR_CMD)?;
    let addr = if raw.addr_bytes == 0 { cmd } else { width("addr_lanes", raw.addr_lanes, DTR_ADDR)? };
    let dir = match u32::from(raw.dir) {
        NO_DATA => Direction::None,
        DATA_IN => Direction::In,
        DATA_OUT => Direction::Out,
        _ => return Err(BadRequest::Value("dir", raw.dir.into())),
    };
    let data = if dir == Direction::None { addr } else { width("data_lanes", raw.data_lanes, DTR_DATA)? };
    check("addr_bytes", raw.addr_bytes, raw.addr_bytes <= 4)?;
    let (opcode, ext) = command(raw, cmd)?;
    Ok(SpiOp {
        opcode,
        ext,
        mode: Mode { cmd, addr, data },
        // The chip receives only the address bytes of the operation; higher bits are ignored.
        addr: raw.addr as u32,
        addr_bytes: raw.addr_bytes,
        dummy_cycles: dummy_cycles(raw)?,
        dir,
        len,
        max_hz: raw.max_hz,
        swap16: false,
    })
}

/// Command byte, and its extension in 8D mode.
fn command(raw: &RawSpiOp, cmd: Width) -> Result<(u8, CmdExt), BadRequest> {
    let [first, second] = raw.opcode.to_be_bytes();
    let is_octal_dtr = cmd.lanes == 8 && cmd.dtr;
    match raw.cmd_bytes {
        1 if !is_octal_dtr && first == 0 => Ok((second, CmdExt::Repeat)),
        2 if is_octal_dtr && first == second => Ok((first, CmdExt::Repeat)),
        2 if is_octal_dtr && first == !second => Ok((first, CmdExt::Invert)),
        2 if is_octal_dtr => Ok((first, CmdExt::Row(second))),
        1 | 2 => Err(BadRequest::Value("opcode", raw.opcode.into())),
        bytes => Err(BadRequest::Value("cmd_bytes", bytes.into())),
    }
}

/// Number of dummy cycles; Linux states it in bytes on the lanes of that phase.
fn dummy_cycles(raw: &RawSpiOp) -> Result<u8, BadRequest> {
    if raw.dummy_bytes == 0 {
        return Ok(0);
    }
    check("dummy_lanes", raw.dummy_lanes, matches!(raw.dummy_lanes, 1 | 2 | 4 | 8))?;
    let rate = if u32::from(raw.dtr) & DTR_DUMMY != 0 { 2 } else { 1 };
    let cycles = u16::from(raw.dummy_bytes) * 8 / u16::from(raw.dummy_lanes) / rate;
    u8::try_from(cycles).map_err(|_| BadRequest::Value("dummy_bytes", raw.dummy_bytes.into()))
}

fn step(raw: &RawInstr) -> Result<Step, BadRequest> {
    check("len", raw.len, raw.len <= DATA_MAX || u32::from(raw.kind) == INSTR_WAIT)?;
    let (len, register) = (raw.len as usize, raw.value != 0);
    Ok(match u32::from(raw.kind) {
        INSTR_CMD => Step::Cmd(raw.value),
        INSTR_ADDR => {
            let bytes = raw.addr.get(..usize::from(raw.value));
            Step::Addr(
                bytes.and_then(Address::from_cycles).ok_or(BadRequest::Value("value", raw.value.into()))?,
            )
        }
        INSTR_DATA_IN => Step::In { len, register },
        INSTR_DATA_OUT => Step::Out { len, register },
        INSTR_WAIT => Step::Wait(Nanos::from_us(u64::from(raw.len.min(WAIT_MAX_MS)) * 1000)),
        _ => return Err(BadRequest::Value("kind", raw.kind.into())),
    })
}

fn interface(raw: &RawInterface) -> Result<RequestBody, BadRequest> {
    let mode = u8::try_from(raw.mode).map_err(|_| BadRequest::Value("mode", raw.mode.into()))?;
    let interface = if raw.nvddr == 0 { DataInterface::Sdr(mode) } else { DataInterface::NvDdr(mode) };
    Ok(RequestBody::Interface { interface, check_only: raw.check_only != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn header() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts/linux-module/floatgate.h");
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn structures_are_those_of_the_header() {
        let header = header();
        for (name, fields) in STRUCTURES {
            let body =
                header.split(&format!("struct {name} {{\n")).nth(1).unwrap().split("\n};").next().unwrap();
            let lines: Vec<&str> = body.lines().map(|line| line.split(';').next().unwrap().trim()).collect();
            let expected: Vec<String> = fields
                .iter()
                .map(|(kind, field, size)| {
                    if (*kind, *field) == ("__u8", "addr") {
                        format!("{kind} {field}[{size}]")
                    } else {
                        format!("{kind} {field}")
                    }
                })
                .collect();
            assert_eq!(lines, expected, "{name}");
            // The fields are aligned such that a compiler inserts no padding.
            let mut offset = 0;
            for (kind, field, size) in *fields {
                let align = if *kind == "__u8" { 1 } else { *size };
                assert_eq!(offset % align, 0, "{name}.{field}");
                offset += size;
            }
            assert_eq!(
                offset % fields.iter().map(|f| if f.0 == "__u8" { 1 } else { f.2 }).max().unwrap(),
                0,
                "{name}"
            );
        }
        assert_eq!(header.matches("\nstruct ").count(), STRUCTURES.len());
    }

    #[test]
    fn constants_are_those_of_the_header() {
        let mut ours = CONSTANTS.to_vec();
        let header = header();
        let defined = header.lines().filter_map(|line| {
            let mut words = line.strip_prefix("#define FG_")?.split_whitespace();
            let (name, value) = (words.next()?, words.next()?);
            Some((
                name,
                value
                    .strip_prefix("0x")
                    .map_or_else(|| value.parse(), |hex| u32::from_str_radix(hex, 16))
                    .unwrap(),
            ))
        });
        let mut defined: Vec<(&str, u32)> = defined.collect();
        defined.sort_unstable();
        ours.sort_unstable();
        assert_eq!(defined, ours);
    }
}

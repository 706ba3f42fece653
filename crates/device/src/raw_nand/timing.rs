//! ONFI data interfaces: durations of the cycles on a parallel NAND bus.
//!
//! The values are the minima of ONFI 4.2, section 4.3.1 for SDR and 4.3.2 for NV-DDR, or the maxima if the host must
//! wait for the chip. Where ONFI allows a choice, the values are those of Linux's timing tables (facts 2.1 and 2.2).

use floatgate_mtd::Nanos;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::fmt;
use std::str::FromStr;

/// Highest mode number of either interface.
pub const MODE_MAX: u8 = 5;

/// A data interface with its timing mode. Within one kind a higher mode is faster; NV-DDR is faster than SDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataInterface {
    /// Single data rate (asynchronous), mode 0 to 5. Every chip starts in mode 0.
    Sdr(u8),
    /// NV-DDR (source synchronous), mode 0 to 5.
    NvDdr(u8),
}

/// Times of an SDR timing mode, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are ONFI's: table 4-13")]
pub struct SdrTiming {
    pub t_rc: u16,
    pub t_wc: u16,
    pub t_rp: u16,
    pub t_reh: u16,
    pub t_wp: u16,
    pub t_wh: u16,
    pub t_rea: u16,
    pub t_rhoh: u16,
    pub t_rloh: u16,
    pub t_whr: u16,
    pub t_rhw: u16,
    pub t_rr: u16,
    pub t_wb: u16,
    pub t_cs: u16,
    pub t_ds: u16,
}

/// Times of an NV-DDR timing mode, ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are ONFI's: table 4-20")]
pub struct NvDdrTiming {
    pub t_ck: u32,
    pub t_dqsq: u32,
    pub t_qhs: u32,
    pub t_cas: u32,
    pub t_ds: u32,
    pub t_dh: u32,
}

const fn sdr(cycle: [u16; 2], read: [u16; 2], write: [u16; 2], out: [u16; 3], turn: [u16; 6]) -> SdrTiming {
    SdrTiming {
        t_rc: cycle[0],
        t_wc: cycle[1],
        t_rp: read[0],
        t_reh: read[1],
        t_wp: write[0],
        t_wh: write[1],
        t_rea: out[0],
        t_rhoh: out[1],
        t_rloh: out[2],
        t_whr: turn[0],
        t_rhw: turn[1],
        t_rr: turn[2],
        t_wb: turn[3],
        t_cs: turn[4],
        t_ds: turn[5],
    }
}

/// Times of SDR modes 0 to 5 (facts 2.1).
pub const SDR: [SdrTiming; 6] = [
    sdr([100, 100], [50, 30], [50, 30], [40, 0, 0], [120, 200, 40, 200, 70, 40]),
    sdr([50, 45], [25, 15], [25, 15], [30, 15, 0], [80, 100, 20, 100, 35, 20]),
    sdr([35, 35], [17, 15], [17, 15], [25, 15, 0], [80, 100, 20, 100, 25, 15]),
    sdr([30, 30], [15, 10], [15, 10], [20, 15, 0], [80, 100, 20, 100, 25, 10]),
    sdr([25, 25], [12, 10], [12, 10], [20, 15, 5], [80, 100, 20, 100, 20, 10]),
    sdr([20, 20], [10, 7], [10, 7], [16, 15, 5], [80, 100, 20, 100, 15, 7]),
];

const fn nv_ddr(t_ck: u32, t_dqsq: u32, t_qhs: u32, t_cas: u32, t_ds: u32, t_dh: u32) -> NvDdrTiming {
    NvDdrTiming { t_ck, t_dqsq, t_qhs, t_cas, t_ds, t_dh }
}

/// Times of NV-DDR modes 0 to 5 (facts 2.2).
pub const NV_DDR: [NvDdrTiming; 6] = [
    nv_ddr(50_000, 5_000, 6_000, 10_000, 5_000, 5_000),
    nv_ddr(30_000, 2_500, 3_000, 5_000, 3_000, 2_500),
    nv_ddr(20_000, 1_700, 2_000, 4_000, 2_000, 1_700),
    nv_ddr(15_000, 1_300, 1_500, 3_000, 1_500, 1_300),
    nv_ddr(12_000, 1_000, 1_200, 2_500, 1_100, 1_100),
    nv_ddr(10_000, 850, 1_000, 2_000, 900, 900),
];

/// tADL, address to data loading, ns: the same in all modes (ONFI 4; older data sheets state 70 to 200).
const T_ADL_NS: u64 = 400;
/// tCCS, change column setup, ns.
const T_CCS_NS: u64 = 500;
/// tCAD, command or address cycle to the next one in NV-DDR, ns (the slow value, which every chip accepts).
const T_CAD_NS: u64 = 45;
/// tFEAT and tITC: maximum time of GET/SET FEATURES and of an interface change.
pub const T_FEAT: Nanos = Nanos::from_us(1);
/// Maximum tRST of a chip in SDR mode 0 directly after power-on.
pub const T_RST_POWER_ON_MAX: Nanos = Nanos::from_ms(250);
/// Maximum tRST at other times.
pub const T_RST_MAX: Nanos = Nanos::from_us(500);

/// Times of the bus cycles of one interface mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusTiming {
    /// Duration of a command or address cycle.
    pub cycle: Nanos,
    /// Time per byte from the chip, ps.
    pub read_ps: u64,
    /// Time per byte to the chip, ps.
    pub write_ps: u64,
    /// Time of a byte of status, id or features as a multiple of a data byte: 2 in NV-DDR, which transfers these bytes
    /// twice.
    pub register_factor: u64,
    /// tADL: address to data loading.
    pub adl: Nanos,
    /// tCCS: column change to data.
    pub ccs: Nanos,
    /// tWHR: command or address to data from the chip.
    pub whr: Nanos,
    /// tRR: ready to data from the chip.
    pub rr: Nanos,
    /// tWB: last command cycle to busy.
    pub wb: Nanos,
}

impl BusTiming {
    const fn of_sdr(t: &SdrTiming) -> Self {
        Self {
            cycle: Nanos::from_ns(t.t_wc as u64),
            read_ps: t.t_rc as u64 * 1000,
            write_ps: t.t_wc as u64 * 1000,
            register_factor: 1,
            adl: Nanos::from_ns(T_ADL_NS),
            ccs: Nanos::from_ns(T_CCS_NS),
            whr: Nanos::from_ns(t.t_whr as u64),
            rr: Nanos::from_ns(t.t_rr as u64),
            wb: Nanos::from_ns(t.t_wb as u64),
        }
    }

    const fn of_nv_ddr(t: &NvDdrTiming) -> Self {
        let t_ck_ns = t.t_ck as u64 / 1000;
        Self {
            cycle: Nanos::from_ns(if t_ck_ns > T_CAD_NS { t_ck_ns } else { T_CAD_NS }),
            read_ps: t.t_ck as u64 / 2,
            write_ps: t.t_ck as u64 / 2,
            register_factor: 2,
            adl: Nanos::from_ns(T_ADL_NS),
            ccs: Nanos::from_ns(T_CCS_NS),
            whr: Nanos::from_ns(80),
            rr: Nanos::from_ns(20),
            wb: Nanos::from_ns(100),
        }
    }

    /// Duration of a transfer of `bytes` page bytes from the chip.
    #[inline]
    pub const fn read(&self, bytes: u64) -> Nanos {
        Nanos::from_ns(self.read_ps * bytes / 1000)
    }

    /// Duration of a transfer of `bytes` page bytes to the chip.
    #[inline]
    pub const fn write(&self, bytes: u64) -> Nanos {
        Nanos::from_ns(self.write_ps * bytes / 1000)
    }
}

/// Times of all modes, computed once.
static COSTS: [[BusTiming; 6]; 2] = {
    let mut costs = [[BusTiming::of_sdr(&SDR[0]); 6]; 2];
    let mut mode = 0;
    while mode < 6 {
        costs[0][mode] = BusTiming::of_sdr(&SDR[mode]);
        costs[1][mode] = BusTiming::of_nv_ddr(&NV_DDR[mode]);
        mode += 1;
    }
    costs
};

impl DataInterface {
    /// Data interface of every chip after power-on.
    pub const POWER_ON: Self = Self::Sdr(0);

    /// The timing mode number.
    pub const fn mode(self) -> u8 {
        match self {
            Self::Sdr(mode) | Self::NvDdr(mode) => mode,
        }
    }

    /// Times of this interface's cycles. Modes above 5 are treated as 5.
    #[inline]
    pub fn timing(self) -> &'static BusTiming {
        match self {
            Self::Sdr(mode) => &COSTS[0][usize::from(mode.min(MODE_MAX))],
            Self::NvDdr(mode) => &COSTS[1][usize::from(mode.min(MODE_MAX))],
        }
    }

    /// First parameter byte of feature 01h: mode in bits 0-3, kind of interface in bits 4-5 (ONFI 4.2 table 5-1).
    pub const fn feature(self) -> u8 {
        match self {
            Self::Sdr(mode) => mode & 0x0F,
            Self::NvDdr(mode) => 0x10 | mode & 0x0F,
        }
    }

    /// The interface encoded in feature 01h; `None` for kinds and modes that this bus does not support.
    pub const fn from_feature(byte: u8) -> Option<Self> {
        let mode = byte & 0x0F;
        match byte >> 4 & 3 {
            _ if mode > MODE_MAX => None,
            0 => Some(Self::Sdr(mode)),
            1 => Some(Self::NvDdr(mode)),
            _ => None,
        }
    }
}

/// Error for a text that is not a data interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a data interface: write sdr0 to sdr5 or nvddr0 to nvddr5")]
pub struct BadInterface(String);

impl FromStr for DataInterface {
    type Err = BadInterface;

    fn from_str(text: &str) -> Result<Self, BadInterface> {
        let (kind, mode): (fn(u8) -> Self, &str) =
            match (text.strip_prefix("sdr"), text.strip_prefix("nvddr")) {
                (Some(mode), _) => (Self::Sdr, mode),
                (_, Some(mode)) => (Self::NvDdr, mode),
                _ => return Err(BadInterface(text.to_owned())),
            };
        match mode.as_bytes() {
            [digit @ b'0'..=b'5'] => Ok(kind(digit - b'0')),
            _ => Err(BadInterface(text.to_owned())),
        }
    }
}

impl fmt::Display for DataInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sdr(mode) => write!(f, "sdr{mode}"),
            Self::NvDdr(mode) => write!(f, "nvddr{mode}"),
        }
    }
}

impl<'de> Deserialize<'de> for DataInterface {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// A set of timing modes, bit n for mode n; written as a list of numbers in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modes(u8);

impl Modes {
    /// The empty set of modes.
    pub const NONE: Self = Self(0);

    /// The modes whose bit is set in `bits`; modes above 5 are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x3F)
    }

    /// All modes from 0 to `mode`.
    pub const fn up_to(mode: u8) -> Self {
        Self::from_bits(((1u16 << (if mode > MODE_MAX { MODE_MAX } else { mode } + 1)) - 1) as u8)
    }

    /// The modes as a bit set.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// True when `mode` is in the set.
    pub const fn contains(self, mode: u8) -> bool {
        mode <= MODE_MAX && self.0 >> mode & 1 == 1
    }

    /// The fastest mode; `None` for an empty set.
    pub const fn fastest(self) -> Option<u8> {
        match self.0.checked_ilog2() {
            Some(mode) => Some(mode as u8),
            None => None,
        }
    }

    /// The modes in descending order, fastest first.
    pub fn fastest_first(self) -> impl Iterator<Item = u8> {
        (0..=MODE_MAX).rev().filter(move |mode| self.contains(*mode))
    }
}

impl<'de> Deserialize<'de> for Modes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let list = Vec::<u8>::deserialize(d)?;
        match list.iter().find(|mode| **mode > MODE_MAX) {
            Some(mode) => Err(de::Error::custom(format_args!("timing mode {mode}: there are modes 0 to 5"))),
            None => Ok(Self(list.iter().fold(0, |bits, mode| bits | 1 << mode))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of facts 3.4: 17600 bytes take 352 us in SDR mode 5 and 88 us in NV-DDR mode 5.
    #[test]
    fn worked_examples_of_the_arasan_rows() {
        assert_eq!(DataInterface::Sdr(5).timing().read(17_600), Nanos::from_us(352));
        assert_eq!(DataInterface::NvDdr(5).timing().read(17_600), Nanos::from_us(88));
        assert_eq!(DataInterface::NvDdr(5).timing().write(17_600), Nanos::from_us(88));
    }

    /// Transfer rates of facts 2.2: 40, 66, 100, 133, 166 and 200 MT/s.
    #[test]
    fn nv_ddr_transfer_rates() {
        let rates = NV_DDR.map(|t| 2_000_000 / t.t_ck);
        assert_eq!(rates, [40, 66, 100, 133, 166, 200]);
    }

    /// Example of facts 3.3: 2048 bytes at 30 ns (mode 3) take 61.4 us; with the board's 33 MHz clock 62.06 us.
    #[test]
    fn mode_3_page() {
        assert_eq!(DataInterface::Sdr(3).timing().read(2048), Nanos::from_ns(61_440));
    }

    #[test]
    fn higher_modes_are_never_slower() {
        for (a, b) in SDR.iter().zip(&SDR[1..]) {
            assert!(b.t_rc < a.t_rc && b.t_wc < a.t_wc && b.t_whr <= a.t_whr && b.t_rea <= a.t_rea);
            assert!(b.t_rp + b.t_reh <= b.t_rc && b.t_wp + b.t_wh <= b.t_wc);
        }
        assert!(NV_DDR.windows(2).all(|w| w[1].t_ck < w[0].t_ck));
        assert!(DataInterface::Sdr(5) < DataInterface::NvDdr(0));
    }

    #[test]
    fn texts_and_feature_bytes_come_back() {
        for interface in (0..=5).flat_map(|m| [DataInterface::Sdr(m), DataInterface::NvDdr(m)]) {
            assert_eq!(interface.to_string().parse(), Ok(interface));
            assert_eq!(DataInterface::from_feature(interface.feature()), Some(interface));
        }
        for bad in ["", "sdr", "sdr6", "ddr1", "sdr-5", "nvddr", "sdr05", "SDR5", "sdr+1"] {
            assert!(bad.parse::<DataInterface>().is_err(), "{bad}");
        }
        assert_eq!((DataInterface::from_feature(0x06), DataInterface::from_feature(0x21)), (None, None));
    }

    #[test]
    fn mode_sets() {
        let modes = Modes::up_to(4);
        assert_eq!((modes.bits(), modes.fastest(), modes.contains(5)), (0x1F, Some(4), false));
        assert_eq!(Modes::NONE.fastest(), None);
        assert_eq!(Modes::from_bits(0b10_0101).fastest_first().collect::<Vec<_>>(), [5, 2, 0]);
    }
}

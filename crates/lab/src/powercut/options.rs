//! Options of an exploration.

use super::id::FlashId;
use floatgate_mtd::Geometry;
use floatgate_mtd::power_cut::CutKind;
use floatgate_sim::machine::FilesystemKind;

/// Selection of the operations that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This number of operations at equal distances, at most all of them; each is cut in one way, in rotation.
    Linear(u64),
    /// The first, second, fourth, eighth and so on, in every way.
    Log,
    /// Every one, in every way.
    Exhaustive,
    /// This number of operations at random, in as many workloads as that takes.
    Random(u64),
    /// None: the filesystem is unmounted after each step instead.
    Unmount,
}

/// Second power cut, while the filesystem recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondCut {
    /// Recovery is not cut.
    Never,
    /// After each first cut once, at an operation of the recovery that follows from the seed; at random up to four times.
    Sampled,
    /// At every operation of the recovery, in every way.
    Exhaustive,
}

/// Options of an exploration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The flash: at most 65536 eraseblocks of at most 16 MiB, and small if it is to be quick.
    pub flash: FlashId,
    /// Kind of the filesystem.
    pub fs: FilesystemKind,
    /// Seed of the workload, of the filesystem's kind, of faults and of what torn operations leave.
    pub seed: u64,
    /// Steps of the workload.
    pub steps: usize,
    /// True when the flash has faults too: bit errors, bad blocks, operations that fail.
    pub faults: bool,
    /// Selection of the operations that are cut.
    pub mode: Mode,
    /// Second power cuts.
    pub second: SecondCut,
    /// In which ways the first cut may happen.
    pub kinds: Vec<CutKind>,
}

impl Options {
    /// Everything for one workload: each operation, each way, each operation of the recovery.
    pub fn exhaustive(geometry: Geometry, seed: u64, steps: usize) -> Self {
        let kinds = CutKind::ALL.to_vec();
        Self {
            flash: FlashId::Ram(geometry),
            fs: FilesystemKind::Ubifs,
            seed,
            steps,
            faults: false,
            mode: Mode::Exhaustive,
            second: SecondCut::Exhaustive,
            kinds,
        }
    }
}

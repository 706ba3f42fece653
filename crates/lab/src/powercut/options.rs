//! Options of an exploration.

use super::id::FlashId;
use floatgate_mtd::Geometry;
use floatgate_mtd::power_cut::CutKind;
use floatgate_sim::machine::FilesystemKind;

/// Selection of the operations that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This number of operations at equal distances, or all if there are fewer. Each is cut in one way, in rotation.
    Linear(u64),
    /// The first, second, fourth, eighth operation and so on, in every way.
    Log,
    /// Every operation, in every way.
    Exhaustive,
    /// This number of random operations, in as many workloads as needed.
    Random(u64),
    /// No operation: the filesystem is unmounted after each step instead.
    Unmount,
}

/// Second power cut, during the recovery from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondCut {
    /// The recovery is not cut.
    Never,
    /// Once after each first cut, at an operation of the recovery that follows from the seed. With random operations,
    /// up to four times.
    Sampled,
    /// At every operation of the recovery, in every way.
    Exhaustive,
}

/// Options of an exploration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The flash, with at most 65536 eraseblocks of at most 16 MiB. Small flash makes the exploration fast.
    pub flash: FlashId,
    /// Kind of the filesystem.
    pub fs: FilesystemKind,
    /// Seed of the workload, of the filesystem's parameters, of faults, and of torn operations.
    pub seed: u64,
    /// Number of steps of the workload.
    pub steps: usize,
    /// True if the flash also has faults: bit errors, bad blocks, failing operations.
    pub faults: bool,
    /// Selection of the operations that are cut.
    pub mode: Mode,
    /// Selection of the second power cuts.
    pub second: SecondCut,
    /// Kinds of the first cut.
    pub kinds: Vec<CutKind>,
}

impl Options {
    /// Options that cut one workload completely: each operation, in each way, and each operation of the recovery.
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

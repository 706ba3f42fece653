//! Envelope of every result in JSON: its kind and its inputs, before the fields of the result itself.
//!
//! - [`ResultKind`]: kind of a result, which `report` and `advise` read.
//! - [`Origin`]: the fields of the envelope; [`Envelope`]: origin and result as one object; [`Rows`]: a list as a result.
//! - [`Concluded`]: conclusion of each result, which is part of its envelope.
//! - [`Reported`]: result of a command that is no study, with its report.

use crate::show::report::Report;
use floatgate_config::Setup;
use floatgate_config::corner::Corner;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Version of floatgate, which is written into results.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Kind of a result that does not come from a study. Its name in JSON has hyphens: `card-speed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultKind {
    /// Result of `floatgate speed`.
    Speed,
    /// Result of `floatgate speed --sweep`.
    SpeedSweep,
    /// Result of `floatgate sweep`.
    Sweep,
    /// Result of `floatgate fs`.
    Fs,
    /// Result of `floatgate fs --partition`.
    FsPartition,
    /// Result of `floatgate trace`.
    Trace,
    /// Result of `floatgate otp info`.
    OtpInfo,
    /// Result of `floatgate otp read`.
    OtpRead,
    /// Result of `floatgate otp write`, `erase` and `lock`.
    OtpWrite,
    /// Result of `floatgate list NAME --registers`.
    CardInfo,
    /// Result of `floatgate powercut`.
    CardPowercut,
    /// Result of `floatgate run --trace`.
    CardReplay,
    /// Result of `floatgate run`.
    CardRun,
    /// Result of `floatgate serve`.
    CardServe,
    /// Result of `floatgate serve --serprog`.
    ServeSerprog,
    /// Result of `floatgate serve --module`.
    ServeModule,
    /// Result of `floatgate advise`.
    Advise,
    /// Result of `floatgate probe`.
    Probe,
    /// Result of `floatgate probe` of an MTD device.
    ProbeMtd,
    /// Result of `floatgate probe --kept`.
    ProbeKept,
    /// Result of `floatgate fit`.
    Fit,
    /// Result of `floatgate ecc encode`.
    EccEncode,
    /// Result of `floatgate ecc decode`.
    EccDecode,
    /// Result of `floatgate ecc check`.
    EccCheck,
    /// Result of `floatgate ecc merge`.
    EccMerge,
    /// Result of `floatgate ecc join`.
    EccJoin,
    /// Result of `floatgate ecc advise`.
    EccAdvise,
    /// Result of `floatgate ecc layouts`.
    EccLayouts,
    /// Result of `floatgate image info`.
    ImageInfo,
    /// Result of `floatgate image map`.
    ImageMap,
    /// Result of `floatgate image env`.
    ImageEnv,
    /// Result of `floatgate image ls`.
    ImageLs,
    /// Result of `floatgate image ls --history`.
    ImageHistory,
    /// Result of `floatgate image stat`.
    ImageStat,
    /// Result of `floatgate image extract`.
    ImageExtract,
    /// Result of `floatgate image extract --all`.
    ImageExtractAll,
    /// Result of `floatgate image put` and the other changes of an image.
    ImageEdit,
    /// Result of `floatgate image check`.
    ImageCheck,
    /// Result of `floatgate image check --repair`.
    ImageRepair,
    /// Result of `floatgate image ubinize`.
    ImageUbinize,
    /// Result of `floatgate image diff`.
    ImageDiff,
    /// Result of `floatgate image patch`.
    ImagePatch,
    /// Result of `floatgate image dump`.
    ImageDump,
    /// Result of `floatgate image build`.
    ImageBuild,
    /// Result of `floatgate powercut`.
    Powercut,
    /// Result of `floatgate powercut --replay`.
    PowercutReplay,
    /// Result of `floatgate powercut --lib`.
    PowercutProgram,
    /// Result of `floatgate powercut --lib --replay`.
    PowercutProgramReplay,
    /// Result of `floatgate conformance`.
    Conformance,
    /// Result of `floatgate conformance --list`.
    ConformanceChecks,
    /// Result of `floatgate check-capture`.
    CheckCapture,
    /// Result of `floatgate list parts`.
    Parts,
    /// Result of `floatgate list NAME`.
    Part,
    /// Result of `floatgate list parts --confidence`.
    PartsConfidence,
    /// Result of `floatgate list NAME --confidence`.
    PartConfidence,
    /// Result of `floatgate list setups`.
    Setups,
    /// Result of `floatgate list keys`.
    SetupKeys,
    /// Result of `floatgate list NAME`.
    Setup,
    /// Result of `floatgate list controllers`.
    Controllers,
    /// Result of `floatgate list hosts`.
    Hosts,
    /// Result of `floatgate examples`.
    Examples,
    /// Result of `floatgate list`.
    Lists,
    /// Result of `floatgate list traces`.
    Traces,
    /// Result of `floatgate list schemas`.
    Schemas,
}

impl fmt::Display for ResultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl ResultKind {
    /// Origin of a result about a part, setup, card, file or device, as named by the user.
    pub fn of(self, target: impl AsRef<Path>) -> Origin {
        self.of_nothing().about(target)
    }

    /// Origin of a result on a setup, or on the board that was chosen for a part.
    pub fn of_setup(self, target: impl AsRef<Path>, setup: &Setup) -> Origin {
        self.of(target).on_board(setup.board())
    }

    /// Origin of a result without a target, such as a catalogue.
    pub fn of_nothing(self) -> Origin {
        Origin::of_kind(self.to_string())
    }
}

/// Kind of a result, and the inputs on which it depends.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    floatgate: &'static str,
    kind: String,
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    board: Option<String>,
    overrides: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    corner: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bad_blocks: Option<u32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    conclusion: String,
}

impl Origin {
    /// Origin of a result of this kind without a target.
    pub(crate) const fn of_kind(kind: String) -> Self {
        Self {
            floatgate: VERSION,
            kind,
            target: None,
            board: None,
            overrides: Vec::new(),
            seed: None,
            corner: None,
            bad_blocks: None,
            conclusion: String::new(),
        }
    }

    /// Adds the target: part, setup, card, file or device, as named by the user.
    #[must_use]
    pub fn about(self, target: impl AsRef<Path>) -> Self {
        Self { target: Some(target.as_ref().display().to_string()), ..self }
    }

    /// Adds the name of the setup on whose board a part is used, if one was chosen.
    #[must_use]
    pub(crate) fn on_board(self, board: Option<&str>) -> Self {
        Self { board: board.map(str::to_owned), ..self }
    }

    /// Adds the overrides of `--set`, as typed.
    #[must_use]
    pub fn with(self, overrides: &[String]) -> Self {
        Self { overrides: overrides.to_vec(), ..self }
    }

    /// Adds the seed of all random values.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Adds the corner of the chip's times and the number of factory bad blocks, if they are not the default.
    #[must_use]
    pub fn on_chip(self, corner: Corner, bad_blocks: u32) -> Self {
        let corner = (corner == Corner::Slowest).then_some("max");
        Self { corner, bad_blocks: (bad_blocks > 0).then_some(bad_blocks), ..self }
    }

    /// JSON object with the fields of the envelope, followed by the fields of a result, which must be a struct or a
    /// map.
    pub fn around<'a, T: Serialize + Concluded + ?Sized>(&self, result: &'a T) -> Envelope<'a, T> {
        let mut origin = self.clone();
        origin.conclusion = result.conclusion();
        if let Some(board) = result.board() {
            origin.board = Some(board.to_owned());
        }
        Envelope { origin, result }
    }
}

/// Conclusion of a result, and its board. [`Origin::around`] calls both methods, so that each result in an envelope has
/// its conclusion.
pub trait Concluded {
    /// Conclusion of the result, one to three sentences; empty if there is none.
    fn conclusion(&self) -> String {
        String::new()
    }

    /// Name of the setup on whose board a part was used, if the result knows it better than its origin.
    fn board(&self) -> Option<&str> {
        None
    }
}

impl<T: Concluded + ?Sized> Concluded for &T {
    fn conclusion(&self) -> String {
        (**self).conclusion()
    }

    fn board(&self) -> Option<&str> {
        (**self).board()
    }
}

/// Result of a command that is no study, with a report for the user. The command prints the report, and `floatgate report`
/// makes it again from the JSON of the result.
pub trait Reported: Concluded + Serialize {
    /// Dotted path of the list in the JSON whose elements are the rows of the CSV. If it is empty, the result is the only row.
    const ROWS: &'static str = "";

    /// Report for the user.
    fn report(&self) -> Report;

    /// Rows of the CSV, as objects. A page shows them if a reader opens the table.
    ///
    /// # Errors
    /// Rows that cannot be converted to JSON.
    fn rows(&self) -> serde_json::Result<serde_json::Value> {
        let value = serde_json::to_value(self)?;
        let rows = Self::ROWS.split('.').try_fold(&value, |value, key| value.get(key)).cloned();
        Ok(rows.unwrap_or(value))
    }
}

/// A result in its envelope.
#[derive(Serialize)]
pub struct Envelope<'a, T: ?Sized> {
    #[serde(flatten)]
    origin: Origin,
    #[serde(flatten)]
    result: &'a T,
}

/// A list as a result; it has no conclusion.
#[derive(Serialize)]
pub struct Rows<'a, T> {
    /// Elements of the list.
    pub rows: &'a [T],
}

impl<T> Concluded for Rows<'_, T> {}

//! The envelope of every result in JSON: its kind, and what it was computed from, before the fields of the result itself.
//!
//! - [`ResultKind`]: every result has one; `report` and `advise` go by it.
//! - [`Origin`]: the fields of the envelope; [`Envelope`]: origin and result as one object; [`Rows`]: a list as a result.
//! - [`kind_of`]: the kind of JSON that was read, or why it cannot be used.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Version of floatgate that writes results.
const VERSION: &str = env!("CARGO_PKG_VERSION");

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal $command:literal)*) => {
        /// Kind of a result.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum ResultKind {
            $(
                #[doc = concat!("Result of `floatgate ", $command, "`.")]
                #[serde(rename = $name)]
                $kind,
            )*
        }

        impl ResultKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Name in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Command that prints such a result, which is also its section in docs/json.md.
            pub const fn command(self) -> &'static str {
                match self { $(Self::$kind => $command,)* }
            }
        }
    };
}

kinds! {
    Speed "speed" "speed"
    SpeedSweep "speed-sweep" "speed --sweep"
    Sweep "sweep" "sweep"
    Fs "fs" "fs"
    FsPartition "fs-partition" "fs --partition"
    Age "age" "age"
    Trace "trace" "trace"
    OtpInfo "otp-info" "otp info"
    OtpRead "otp-read" "otp read"
    OtpWrite "otp-write" "otp write"
    Keystore "keystore" "keystore"
    CardSpeed "card-speed" "card speed"
    CardInfo "card-info" "card info"
    CardPowercut "card-powercut" "card powercut"
    CardAmplification "card-amplification" "card amplification"
    CardReplay "card-replay" "card replay"
    CardRun "card-run" "card run"
    CardServe "card-serve" "card serve"
    CardCompare "card-compare" "card compare"
    Advise "advise" "advise"
    Probe "probe" "probe"
    ProbeMtd "probe-mtd" "probe of an MTD"
    ProbeKept "probe-kept" "probe --kept"
    Endurance "endurance" "endurance"
    EnduranceNor "endurance-nor" "endurance of a NOR"
    EnduranceAll "endurance-all" "endurance --all"
    EndurancePredict "endurance-predict" "endurance --predict"
    Fit "fit" "fit"
    Papers "papers" "papers"
    PapersRefit "papers-refit" "papers --refit"
    EccEncode "ecc-encode" "ecc encode"
    EccDecode "ecc-decode" "ecc decode"
    EccCheck "ecc-check" "ecc check"
    EccAdvise "ecc-advise" "ecc advise"
    ImageInfo "image-info" "image info"
    ImageLs "image-ls" "image ls"
    ImageHistory "image-history" "image ls --history"
    ImageStat "image-stat" "image stat"
    ImageExtract "image-extract" "image extract"
    ImageEdit "image-edit" "image put"
    ImageCheck "image-check" "image check"
    ImageRepair "image-repair" "image check --repair"
    ImageUbinize "image-ubinize" "image ubinize"
    ImageDiff "image-diff" "image diff"
    ImageDump "image-dump" "image dump"
    ImageBuild "image-build" "image build"
    Powercut "powercut" "powercut"
    PowercutReplay "powercut-replay" "powercut --replay"
    Parts "parts" "parts"
    Part "part" "parts NAME"
    PartsConfidence "parts-confidence" "parts --confidence"
    PartConfidence "part-confidence" "parts NAME --confidence"
    Setups "setups" "setups"
    SetupKeys "setup-keys" "setups --keys"
    Setup "setup" "setups NAME"
    Controllers "controllers" "controllers"
    Hosts "hosts" "hosts"
}

impl ResultKind {
    /// Origin of a result about a part, setup, card, file or device, as it was named.
    pub fn of(self, target: impl AsRef<Path>) -> Origin {
        Origin { target: Some(target.as_ref().display().to_string()), ..self.of_nothing() }
    }

    /// Origin of a result that is about nothing in particular, such as a catalogue.
    pub const fn of_nothing(self) -> Origin {
        Origin { floatgate: VERSION, kind: self, target: None, overrides: Vec::new(), seed: None }
    }
}

/// Kind of a result, and the input that it follows from.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    floatgate: &'static str,
    kind: ResultKind,
    target: Option<String>,
    overrides: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

impl Origin {
    /// With the overrides of `--set`, as typed.
    #[must_use]
    pub fn with(self, overrides: &[String]) -> Self {
        Self { overrides: overrides.to_vec(), ..self }
    }

    /// With the seed of everything that is random.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// The JSON object with the fields of the envelope, then those of a result, which is a struct or a map.
    pub const fn around<'a, T: Serialize + ?Sized>(&'a self, result: &'a T) -> Envelope<'a, T> {
        Envelope { origin: self, result }
    }
}

/// A result in its envelope.
#[derive(Serialize)]
pub struct Envelope<'a, T: ?Sized> {
    #[serde(flatten)]
    origin: &'a Origin,
    #[serde(flatten)]
    result: &'a T,
}

/// A list as a result.
#[derive(Serialize)]
pub struct Rows<'a, T> {
    /// The elements.
    pub rows: &'a [T],
}

/// Reason for which JSON cannot be used as a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is no object with an envelope.
    #[error("JSON without `floatgate` and `kind`: an older version wrote it, or another program")]
    Missing,
    /// A later version wrote it.
    #[error("floatgate {0} wrote it, which is newer than this one, {VERSION}")]
    Newer(String),
    /// No result is of this kind.
    #[error("no result is of the kind {0:?}")]
    Unknown(String),
}

impl EnvelopeError {
    /// Advice.
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Missing => "run the command again with --json: this version of floatgate marks its results",
            Self::Newer(_) => "install that version, or run the command again with this one",
            Self::Unknown(_) => "run the command again with --json, and leave what it prints as it is",
        }
    }

    /// The error with the name of the file.
    pub fn of_file(&self, name: &str) -> Error {
        Error::asked(format!("{name}: {self}"), self.help())
    }
}

/// The kind of a result.
///
/// # Errors
/// JSON without an envelope, of a newer version, or of a kind that this version does not know.
pub fn kind_of(json: &Value) -> Result<ResultKind, EnvelopeError> {
    let text = |key: &str| json.get(key).and_then(Value::as_str).ok_or(EnvelopeError::Missing);
    let (version, kind) = (text("floatgate")?, text("kind")?);
    if numbers(version).ok_or(EnvelopeError::Missing)? > numbers(VERSION).unwrap_or_default() {
        return Err(EnvelopeError::Newer(version.to_owned()));
    }
    let known = ResultKind::ALL.iter().find(|known| known.name() == kind);
    known.copied().ok_or_else(|| EnvelopeError::Unknown(kind.to_owned()))
}

/// The three numbers of a version.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let release = version.split(['-', '+']).next()?;
    let numbers = release.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    numbers.try_into().ok()
}

//! Extraction of all contents of a flash dump: each part of its map as a file, and each filesystem with a reader also
//! as a folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use floatgate_stack::Store;
use serde::Serialize;

use super::target::{ExtractError, ExtractLimits, Extracted, Extracting as _};
use super::{DirectoryTarget, Extractions};
use crate::format::tree::TreeFiles;
use crate::image::Image;
use crate::map::{Checksum, FlashMap, Kind, Part, Value};
use crate::report::Loss;
use crate::selection::Selection;

/// Number of bytes that are copied at a time.
const CHUNK: usize = 256 << 10;

/// Length of the longest part name in a file name.
const NAME_MAX: usize = 48;

/// Report on the extraction of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AllExtracted {
    /// Parts in the order of the map.
    pub parts: Vec<ExtractedPart>,
    /// Files and attributes of all folders that were not restored exactly, each with its folder.
    pub losses: Vec<Loss>,
    /// True if the format of a part has no checksums of data, so that changed data cannot be detected.
    #[serde(skip)]
    pub is_unverified: bool,
}

/// A part that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtractedPart {
    /// Offset on the flash.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Format of the part.
    pub kind: Kind,
    /// Name of the file with the bytes of the part.
    pub file: String,
    /// Name of the folder with the files of the part, if its format has a reader.
    pub folder: Option<String>,
    /// Number of entries in the folder.
    pub entries: u64,
    /// Damage of the part, or the reason why it has no folder although its format has a reader.
    pub problem: Option<String>,
}

/// Writes all parts of a map to a folder, which is created. Erased ranges and zeros are omitted.
///
/// # Errors
/// The folder cannot be written, or a limit is exceeded.
pub fn extract_all(
    image: &Image,
    map: &FlashMap,
    folder: &Path,
    limits: &ExtractLimits,
    owners: bool,
) -> Result<AllExtracted, ExtractError> {
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let store = image.store().map_err(|error| failed(folder, io::Error::other(error.to_string())))?;
    let (mut all, mut left) = (AllExtracted::default(), limits.bytes);
    for part in map.parts.iter().filter(|part| is_written(part)) {
        let name = file_name(part);
        let path = folder.join(format!("{name}.bin"));
        let limit = |path: &Path| ExtractError::Limit {
            path: path.display().to_string(),
            what: "bytes",
            limit: limits.bytes,
        };
        left = left.checked_sub(part.len).ok_or_else(|| limit(&path))?;
        copy(&*store, part, &path).map_err(|error| failed(&path, error))?;
        let mut row = ExtractedPart {
            offset: part.offset,
            len: part.len,
            kind: part.kind,
            file: format!("{name}.bin"),
            folder: None,
            entries: 0,
            problem: part.checksum.is_damage().then(|| damage(part)),
        };
        let own = ExtractLimits { bytes: left, ..*limits };
        match files(image, part, &folder.join(&name), (&own, owners))? {
            Some(Ok(extracted)) => {
                left = left.saturating_sub(extracted.bytes);
                row.entries = extracted.entries;
                all.is_unverified |= extracted.is_unverified;
                all.losses.extend(
                    extracted
                        .losses
                        .into_iter()
                        .map(|loss| Loss { path: format!("{name}{}", loss.path), ..loss }),
                );
                row.folder = Some(name);
            }
            Some(Err(problem)) => row.problem = Some(problem),
            None => {}
        }
        all.parts.push(row);
    }
    Ok(all)
}

/// True for a part that is written to a file. If all bytes of a part are missing, its file is empty.
fn is_written(part: &Part) -> bool {
    let has_bytes = part.len > 0 || part.checksum.is_damage();
    has_bytes && !matches!(part.kind, Kind::Erased | Kind::Zeros | Kind::UbiVolume)
}

/// Text about the damage of a part.
fn damage(part: &Part) -> String {
    match part.checksum {
        Checksum::Truncated if part.len == 0 => "none of its bytes are in the dump".to_owned(),
        Checksum::Truncated => "CUT OFF: its end is missing in the dump".to_owned(),
        _ => match part.facts.0.iter().find(|(name, _)| *name == "damage") {
            Some((_, Value::Text(damage))) => format!("BAD: {damage}"),
            _ => "BAD: a checksum is wrong".to_owned(),
        },
    }
}

/// Name of the file for a part: its offset, its format and its name. The name comes from the dump. Only its letters,
/// digits and `. _ -` are used, so that it is neither a path nor an option.
fn file_name(part: &Part) -> String {
    let plain = |text: &str| -> String {
        let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        text.chars().map(kept).take(NAME_MAX).collect()
    };
    let name = part.name.as_ref().map_or_else(String::new, |name| format!("-{}", plain(name)));
    let level = if part.level == 0 { String::new() } else { format!("-{}", part.level) };
    format!("{:08x}{level}-{}{name}", part.offset, plain(&part.kind.name().to_lowercase().replace(' ', "-")))
}

fn failed(path: &Path, error: io::Error) -> ExtractError {
    ExtractError::Target { path: path.display().to_string(), error }
}

/// Copies the bytes of a part to a new file.
fn copy(store: &dyn Store, part: &Part, path: &PathBuf) -> io::Result<()> {
    let mut out = BufWriter::new(File::create_new(path)?);
    let mut buffer = vec![0; CHUNK];
    for at in (0..part.len).step_by(CHUNK) {
        let len = usize::try_from(part.len - at).map_or(CHUNK, |left| left.min(CHUNK));
        let piece = &mut buffer[..len];
        store.read_at(part.offset + at, piece).map_err(|error| io::Error::other(error.to_string()))?;
        out.write_all(piece)?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()
}

/// Extracts the files of a part into a folder, if its format has a reader.
fn files(
    image: &Image,
    part: &Part,
    folder: &Path,
    (limits, owners): (&ExtractLimits, bool),
) -> Result<Option<Result<Extracted, String>>, ExtractError> {
    let target = || DirectoryTarget::new(folder, owners).map_err(|error| failed(folder, error));
    if part.kind.has_reader() {
        let store = image.store().map_err(|error| failed(folder, io::Error::other(error.to_string())))?;
        return match TreeFiles::open(part.kind, store, (part.offset, part.len)) {
            Ok(files) => {
                let files = Box::new(files.with_keys_of(image));
                files.run(&mut target()?, limits, &|_| {}).map(|extracted| Some(Ok(extracted)))
            }
            Err(error) => Ok(Some(Err(error.to_string()))),
        };
    }
    let found = image.found.iter().find(|found| found.offset == part.offset);
    let has_reader = matches!(part.kind, Kind::Ubi | Kind::Ubifs | Kind::Jffs2);
    let Some(found) = found.filter(|_| has_reader) else { return Ok(None) };
    let selection = Selection { offset: Some(image.file_byte(found.offset)), ..Selection::default() };
    match Extractions::open(image, &selection) {
        Ok(extractions) => {
            extractions.run(&mut target()?, limits, &|_| {}).map(|extracted| Some(Ok(extracted)))
        }
        Err(error) => Ok(Some(Err(error.to_string()))),
    }
}

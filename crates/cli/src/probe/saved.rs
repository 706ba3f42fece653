//! Files with the contents that `floatgate probe --write` overwrites: options `--keep`, `--kept`, `--forget` and
//! `--restore`.

use crate::common::{self, Failure, Outcome};
use crate::devices::{is_agreed, rounded};
use crate::output::ReportFormat;
use crate::table::Table;
use crate::terminal::print_note;
use floatgate_host::disk::{Host, NotRestored, NotThisDevice};
use floatgate_host::saved::{BadSaved, Damage, FolderError, SavedFile, SavedFolder};
use floatgate_host::signals::Ending;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_mtd::size::text as size;
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest number of damaged ranges that the text lists.
const LISTED: usize = 10;

/// Folder and file in which a probe saves data.
pub(super) struct Saving {
    pub(super) folder: SavedFolder,
    pub(super) file: PathBuf,
}

/// Folder that the command line names, or the default folder.
fn folder(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let default = || SavedFolder::default_path(|name| std::env::var_os(name));
    named.map(Path::to_owned).or_else(default).ok_or_else(|| {
        Failure::new(
            "neither $XDG_STATE_HOME nor $HOME says where the contents are saved that are overwritten",
            "name a folder with --keep DIR",
        )
    })
}

/// Creates the file for the data that a probe of `path` will overwrite.
pub(super) fn begin(named: Option<&Path>, path: &Path, host: &mut Host) -> Result<Saving, Failure> {
    let help = match named {
        Some(_) => "name another folder on a disk; nothing was written to the device",
        None => "name a folder on a disk with --keep DIR; nothing was written to the device",
    };
    let failed = |error: FolderError| Failure::new(error, help);
    let folder = SavedFolder::open(&folder(named)?).map_err(failed)?;
    let file = host.save_in(&folder, path).map_err(failed)?;
    Ok(Saving { folder, file })
}

/// Reports contents of a device that an interrupted probe has not restored. A probe that writes is refused, because it would save and restore
/// the contents that the interrupted one has left.
pub(super) fn check_restored(
    named: Option<&Path>,
    path: &Path,
    host: &mut Host,
    writes: bool,
) -> Result<(), Failure> {
    // Without a folder no probe has saved anything.
    let Ok(folder) = folder(named) else { return Ok(()) };
    let Ok(Some(file)) = host.unrestored_in(&folder) else { return Ok(()) };
    let (device, saved) = (path.display(), file.display());
    let problem =
        format!("{device}: an interrupted probe has not restored the contents that are saved in {saved}");
    let help = format!(
        "`floatgate probe {device} --restore {saved}` writes them back; `floatgate probe --forget {saved}` deletes them if they are no longer needed"
    );
    if writes {
        return Err(Failure::new(problem, format!("{help}; nothing was written")));
    }
    print_note(&format!("{problem}\n{help}"));
    Ok(())
}

/// Opens a file of an earlier probe.
pub(super) fn open(path: &Path) -> Result<SavedFile, Failure> {
    SavedFile::open(path).map_err(|error| {
        let help = match error {
            BadSaved::InUse => "wait until that probe has ended: it restores what it overwrites",
            _ => "`floatgate probe --kept` lists saved files; nothing was written",
        };
        Failure::new(format!("{}: {error}", path.display()), help)
    })
}

/// Prepares the restoration of a device from a file, and reports the damaged ranges of the file.
pub(super) fn prepare_restore(
    path: &Path,
    host: &mut Host,
    saved: &Path,
    file: SavedFile,
) -> Result<(), Failure> {
    let label = file.label().to_owned();
    host.restore_from(file).map_err(|error| {
        let help = match error {
            NotThisDevice::Other(_) => {
                format!("{} has the contents of {label}; nothing was written", saved.display())
            }
            _ => "the kernel's log may say more; nothing was written".to_owned(),
        };
        Failure::new(format!("{}: {error}", path.display()), help)
    })?;
    if !host.damage().is_empty() {
        print_note(&format!("{} is damaged and cannot restore:", saved.display()));
        print_note(&listed(host.damage()));
    }
    Ok(())
}

fn listed(damage: &[Damage]) -> String {
    let mut lines: Vec<String> = damage.iter().take(LISTED).map(|damage| format!("- {damage}")).collect();
    if damage.len() > LISTED {
        lines.push(format!("- and {} more", damage.len() - LISTED));
    }
    lines.join("\n")
}

/// Failure of a restoration of `saved` bytes.
pub(super) fn not_restored(path: &Path, saved: u64, error: &NotRestored) -> Failure {
    let NotRestored { first, lost, damage, left, file } = error;
    let (path, file) = (path.display(), file.display());
    if let Some(error) = left {
        return Failure::new(
            format!("{file}: all is restored, but the file could not be deleted: {error}"),
            format!("delete it before {path} is used: restoring it later would overwrite new data"),
        );
    }
    if let Some(first) = first {
        let lost = if *lost > 0 { format!("; {} are not restored", rounded(*lost)) } else { String::new() };
        return Failure::new(
            format!("{path}: {first}{lost}"),
            format!(
                "when the device is back, `floatgate probe {path} --restore {file}` writes back what was overwritten"
            ),
        );
    }
    Failure::new(
        format!(
            "{path}: {} restored, but {file} is damaged, and the device is not as it was:\n{}",
            rounded(saved),
            listed(damage)
        ),
        format!(
            "another copy of that file may have the rest; `floatgate probe --forget {file}` deletes this one"
        ),
    )
}

/// A saved file in the list.
#[derive(Serialize)]
struct Row {
    file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<Contents>,
    /// Reason why the file cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct Contents {
    device: String,
    capacity_bytes: u64,
    saved_bytes: u64,
    /// Properties that identify the device.
    identity: Vec<Property>,
}

#[derive(Serialize)]
struct Property {
    name: String,
    value: String,
}

#[derive(Serialize)]
struct Listing {
    folder: PathBuf,
    files: Vec<Row>,
}

/// A list of files has no conclusion.
impl Concluded for Listing {}

impl Row {
    fn new((file, opened): (PathBuf, Result<SavedFile, BadSaved>)) -> Self {
        match opened {
            Err(problem) => Self { file, saved: None, problem: Some(problem.to_string()) },
            Ok(opened) => {
                let properties = opened.facts().iter();
                let identity =
                    properties.map(|fact| Property { name: fact.name.clone(), value: fact.value.clone() });
                let saved = Contents {
                    device: opened.label().to_owned(),
                    capacity_bytes: opened.capacity(),
                    saved_bytes: opened.bytes(),
                    identity: identity.collect(),
                };
                Self { file, saved: Some(saved), problem: opened.damage().first().map(ToString::to_string) }
            }
        }
    }
}

/// `--kept`: lists the saved files of a folder.
pub(super) fn list(named: Option<&Path>, format: ReportFormat) -> Outcome {
    let folder = folder(named)?;
    let files = SavedFolder::list(&folder).map_err(|error| {
        Failure::new(format!("{}: {error}", folder.display()), "name the folder with --keep DIR")
    })?;
    let files = files.into_iter().map(Row::new).collect();
    let listing = Listing { folder, files };
    format.print(&ResultKind::ProbeKept.of(&listing.folder), &listing, "files", || text(&listing))?;
    Ok(ExitCode::SUCCESS)
}

fn text(listing: &Listing) -> String {
    if listing.files.is_empty() {
        return format!("{}: no saved files: every probe has restored its device", listing.folder.display());
    }
    let mut table = Table::new(["file", "device", "size", "saved", "identity", "problem"]);
    for Row { file, saved, problem } in &listing.files {
        let contents = saved.as_ref().map_or_else(Default::default, |saved| {
            let identity = saved.identity.iter().map(|Property { name, value }| format!("{name} {value}"));
            let identity = identity.collect::<Vec<_>>().join(", ");
            [saved.device.clone(), size(saved.capacity_bytes), rounded(saved.saved_bytes), identity]
        });
        let file = [file.display().to_string()];
        table.row(file.into_iter().chain(contents).chain([problem.clone().unwrap_or_default()]));
    }
    format!(
        "{table}\n{}: `floatgate probe DEVICE --restore FILE` writes the contents back, --forget deletes a file",
        common::grouped_count(listing.files.len() as u64, "saved file")
    )
}

/// `--forget`: deletes a saved file.
pub(super) fn forget(path: &Path, agreed: bool) -> Outcome {
    let ending = Ending::new();
    // A file with a damaged header, or of another version, is also a saved file.
    let words = match SavedFile::open(path) {
        Ok(file) => format!("{} of {}", rounded(file.bytes()), file.label()),
        Err(BadSaved::Damaged { .. } | BadSaved::Version(_)) => "a file that cannot be restored".to_owned(),
        Err(_) => return open(path).map(|_| ExitCode::SUCCESS),
    };
    print_note(&format!("{}: deletes {words}, which is not restored", path.display()));
    if !agreed {
        let refused = |why: &str| {
            Err(Failure::new(
                format!("{}: {why}", path.display()),
                "nothing was deleted; --yes agrees in advance",
            ))
        };
        if !io::stdin().is_terminal() {
            return refused("nobody can be asked, as stdin is no terminal");
        }
        print_note("delete? [y/N]");
        if !is_agreed(&ending) {
            return refused("not agreed");
        }
    }
    std::fs::remove_file(path).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()), "only its owner or root may do that")
    })?;
    Ok(ExitCode::SUCCESS)
}

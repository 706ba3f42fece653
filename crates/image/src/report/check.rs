//! Result of a check.

use std::collections::BTreeSet;
use std::fmt;

use floatgate_stack::ubifs::{self, Severity};
use serde::{Serialize, Serializer};

use crate::format::location::ImageLocation;
use crate::map::probe_match::Kind;
use crate::part::Part;
use crate::words::count;

/// Largest number of paths in a finding.
const PATHS_MAX: usize = 20;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No damage.
    #[default]
    Clean,
    /// Damage that Linux repairs itself: a journal that must be replayed, remains of a power cut, or a bad copy of a
    /// structure.
    Recoverable,
    /// Data is lost, or Linux does not accept the image.
    Damaged,
}

/// Layer that a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Headers of PEBs, and the volume table.
    Ubi,
    /// A UBIFS filesystem.
    Ubifs,
    /// A JFFS2 filesystem.
    Jffs2,
    /// Data of files.
    Data,
}

/// Structure that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The image as a whole.
    Image,
    /// Other data in the file.
    OtherContent,
    /// A page of a dump with OOB.
    Page,
    /// A UBI device.
    Device,
    /// An EC header of UBI.
    EcHeader,
    /// A VID header of UBI.
    VidHeader,
    /// A block that is marked bad.
    BadBlock,
    /// The volume table of UBI.
    VolumeTable,
    /// A static volume of UBI.
    StaticVolume,
    /// A structure of UBIFS.
    Ubifs(ubifs::Structure),
    /// A JFFS2 as a whole.
    Filesystem,
    /// An eraseblock of a JFFS2.
    Eraseblock,
    /// A node of a JFFS2.
    Node,
    /// A summary of a JFFS2.
    Summary,
    /// The mark with which a node of a JFFS2 became obsolete.
    Mark,
    /// The version of a node of a JFFS2.
    Version,
    /// Inodes of a JFFS2 without any node.
    Inodes,
    /// A directory in a filesystem.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    SymbolicLink,
    /// A name in a directory.
    Name,
    /// A name that is too long for Linux.
    LongName,
    /// File type in a name.
    Type,
    /// An extended attribute.
    Attribute,
}

impl Structure {
    /// Name of the structure, for display and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::OtherContent | Self::File => "file",
            Self::Page => "page",
            Self::Device => "device",
            Self::EcHeader => "EC header",
            Self::VidHeader => "VID header",
            Self::BadBlock => "bad block",
            Self::VolumeTable => "volume table",
            Self::StaticVolume => "static volume",
            Self::Ubifs(structure) => structure.name(),
            Self::Filesystem => "filesystem",
            Self::Eraseblock => "eraseblock",
            Self::Node => "node",
            Self::Summary => "summary",
            Self::Mark => "mark",
            Self::Version => "version",
            Self::Inodes => "inodes",
            Self::Directory => "directory",
            Self::SymbolicLink => "symbolic link",
            Self::Name => "name",
            Self::LongName => "long name",
            Self::Type => "type",
            Self::Attribute => "attribute",
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Structure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Layer of the finding.
    pub layer: Layer,
    /// Severity of the finding.
    pub severity: Outcome,
    /// Offset in the file.
    pub offset: Option<u64>,
    /// PEB that the finding is about.
    pub peb: Option<u32>,
    /// Name of the volume.
    pub volume: Option<String>,
    /// LEB of the volume.
    pub leb: Option<u32>,
    /// Offset in the LEB.
    pub leb_offset: Option<u32>,
    /// Structure that the finding is about.
    pub structure: Structure,
    /// Description of the finding.
    pub what: String,
    /// Consequence for the user of the image.
    pub consequence: String,
    /// Affected files, certain and possible ones.
    pub paths: Vec<String>,
    /// Number of further affected files.
    pub more_paths: u64,
}

impl Finding {
    pub(crate) fn new(
        layer: Layer,
        severity: Severity,
        structure: Structure,
        what: impl Into<String>,
        consequence: impl Into<String>,
    ) -> Self {
        Self {
            layer,
            severity: Outcome::from_severity(severity),
            offset: None,
            peb: None,
            volume: None,
            leb: None,
            leb_offset: None,
            structure,
            what: what.into(),
            consequence: consequence.into(),
            paths: Vec::new(),
            more_paths: 0,
        }
    }

    pub(crate) fn name_paths(&mut self, paths: impl Iterator<Item = String>) {
        for path in paths {
            if self.paths.len() < PATHS_MAX {
                self.paths.push(path);
            } else {
                self.more_paths += 1;
            }
        }
    }
}

impl Finding {
    /// True for a finding about a read-only filesystem in a volume of UBI: a repair keeps the bytes of the volume.
    pub(crate) fn is_of_tree(&self) -> bool {
        self.layer == Layer::Data
            && matches!(self.structure, Structure::File | Structure::Filesystem)
            && self.volume.is_some()
            && self.leb.is_none()
            && self.peb.is_none()
    }
}

impl Outcome {
    const fn from_severity(severity: Severity) -> Self {
        match severity {
            Severity::Note => Self::Clean,
            Severity::Recoverable => Self::Recoverable,
            Severity::Damaged => Self::Damaged,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Clean => "note",
            Self::Recoverable => "recoverable",
            Self::Damaged => "damaged",
        }
    }
}

impl Layer {
    /// Layer of a structure of UBIFS.
    pub(crate) const fn of_ubifs(structure: ubifs::Structure) -> Self {
        match structure {
            ubifs::Structure::Data => Self::Data,
            _ => Self::Ubifs,
        }
    }
}

/// Number of PEBs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PebCounts {
    /// Number of all PEBs.
    pub total: u32,
    /// Number of erased PEBs with an EC header.
    pub free: u32,
    /// Number of erased PEBs without an EC header.
    pub erased: u32,
    /// Number of PEBs that contain a LEB.
    pub mapped: u32,
    /// Number of PEBs that contain an older state of a LEB, or a LEB of a removed volume, and will be erased.
    pub outdated: u32,
    /// Number of PEBs with a damaged header.
    pub damaged: u32,
    /// Number of PEBs whose blocks are marked bad in the OOB of a dump.
    pub bad: u32,
}

/// A volume that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeCheck {
    /// Volume id, within UBI.
    pub id: Option<u32>,
    /// Name of the volume, within UBI.
    pub name: Option<String>,
    /// True if a filesystem was found in the volume.
    pub ubifs: bool,
    /// Format of a read-only filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Kind>,
    /// True if Linux can mount the filesystem.
    pub mounts: bool,
    /// Number of the last commit.
    pub commit: Option<u64>,
    /// Number of reachable directories.
    pub directories: u64,
    /// Number of other reachable files.
    pub files: u64,
    /// Number of bytes in reachable files.
    pub bytes: u64,
    /// True if no LEB contains data.
    #[serde(skip)]
    pub is_blank: bool,
}

impl VolumeCheck {
    /// Filesystem without UBI, before its check.
    pub(crate) fn bare() -> Self {
        Self { id: None, name: None, ..Self::other(0, String::new()) }
    }

    /// A volume without a filesystem.
    pub(crate) const fn other(id: u32, name: String) -> Self {
        Self {
            id: Some(id),
            name: Some(name),
            ubifs: false,
            tree: None,
            mounts: false,
            commit: None,
            directories: 0,
            files: 0,
            bytes: 0,
            is_blank: false,
        }
    }
}

/// An image that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageCheck {
    /// Offset in the file, or in its data without the OOB.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// True for a JFFS2.
    pub jffs2: bool,
    /// Format of a read-only filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Kind>,
    /// Counts of PEBs of a UBI device.
    pub pebs: Option<PebCounts>,
    /// Volumes; one volume without a name if there is no UBI.
    pub volumes: Vec<VolumeCheck>,
}

impl ImageCheck {
    pub(crate) fn bare(found: &ImageLocation, volume: VolumeCheck) -> Self {
        Self { volumes: vec![volume], ..Self::empty(found) }
    }

    const fn empty(found: &ImageLocation) -> Self {
        let (offset, len) = (found.offset, found.len);
        Self { offset, len, jffs2: false, tree: None, pebs: None, volumes: Vec::new() }
    }

    pub(crate) fn tree(found: &ImageLocation, kind: Kind) -> Self {
        Self { tree: Some(kind), ..Self::empty(found) }
    }

    pub(crate) fn ubi(found: &ImageLocation, pebs: PebCounts) -> Self {
        Self { pebs: Some(pebs), ..Self::empty(found) }
    }
}

/// Report of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Outcome of the check.
    pub outcome: Outcome,
    /// Images that were checked.
    pub images: Vec<ImageCheck>,
    /// Findings of the check.
    pub findings: Vec<Finding>,
    /// Number of findings beyond the listed ones.
    pub unlisted: u64,
    /// Parts of the file that may be other data or may have overwritten an image.
    pub unknown: Vec<Part>,
    /// Ranges in which data may be lost without any evidence: data at the position where the image would continue, or
    /// the end of a device without LEBs.
    pub may_be_lost: Vec<Part>,
    /// True if a filesystem has no checksums of data, so that changed data cannot be detected.
    #[serde(skip)]
    pub is_unverified: bool,
}

impl CheckReport {
    /// Text about the parts whose former contents are unknown.
    #[must_use]
    pub fn undetermined(&self) -> Option<String> {
        let parts: Vec<String> =
            self.unknown.iter().map(|part| format!("{} to {}", part.offset, part.end())).collect();
        (!parts.is_empty()).then(|| format!("what was in bytes {} cannot be told", parts.join(" and ")))
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Sets the outcome to the severity of the worst finding.
    pub(crate) fn set_outcome(&mut self) {
        self.outcome = self.worst(|_| true);
    }

    /// Outcome of the findings that a repair can change, without read-only filesystems in volumes.
    pub(crate) fn repairable_outcome(&self) -> Outcome {
        self.worst(|finding| !finding.is_of_tree())
    }

    fn worst(&self, counts: impl Fn(&&Finding) -> bool) -> Outcome {
        if self.unlisted > 0 {
            return Outcome::Damaged;
        }
        let worst = self.findings.iter().filter(counts).map(|finding| finding.severity).max();
        worst.unwrap_or_default()
    }

    /// True when a filesystem was found in any image.
    pub(crate) fn has_filesystem(&self) -> bool {
        self.images.iter().any(|image| {
            image.jffs2
                || image.tree.is_some()
                || image.volumes.iter().any(|volume| volume.ubifs || volume.tree.is_some())
        })
    }

    /// Number of findings with this severity.
    pub fn count(&self, severity: Outcome) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Paths in the findings.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.findings.iter().flat_map(|finding| finding.paths.iter().map(String::as_str)).collect()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity.name(), self.structure, self.what)?;
        let volume = self.volume.iter().map(|name| format!("volume {name}"));
        let leb = self.leb.iter().map(|leb| match self.leb_offset {
            Some(offset) => format!("LEB {leb}:{offset}"),
            None => format!("LEB {leb}"),
        });
        let peb = self.peb.iter().map(|peb| format!("PEB {peb}"));
        let byte = self.offset.iter().map(|offset| format!("byte {offset} ({offset:#x})"));
        let places: Vec<String> = byte.chain(peb).chain(volume).chain(leb).collect();
        if !places.is_empty() {
            write!(f, "\n    at {}", places.join(", "))?;
        }
        write!(f, "\n    {}", self.consequence)?;
        for path in &self.paths {
            write!(f, "\n    {path}")?;
        }
        if self.more_paths > 0 {
            write!(f, "\n    and {} more", self.more_paths)?;
        }
        writeln!(f)
    }
}

impl fmt::Display for VolumeCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "  volume {} \"{name}\": ", self.id.unwrap_or(0))?,
            None => write!(f, "  ")?,
        }
        let name = match self.tree {
            _ if self.ubifs => "UBIFS",
            Some(kind) => kind.name(),
            None if self.is_blank => {
                return writeln!(f, "no LEB holds data: nothing was written, or all is lost");
            }
            None => return writeln!(f, "no UBIFS"),
        };
        if self.tree.is_some() && !self.mounts {
            return writeln!(f, "{name}, whose files are not read");
        }
        let Self { directories, files, bytes, .. } = self;
        write!(
            f,
            "{name} with {} and {} of {bytes} bytes",
            count(*directories, "directory"),
            count(*files, "file")
        )?;
        match self.commit {
            _ if self.tree.is_some() => writeln!(f),
            Some(commit) => writeln!(f, ", commit {commit}"),
            None => writeln!(f, ", found without the index"),
        }
    }
}

impl fmt::Display for ImageCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (self.pebs, self.tree) {
            _ if self.jffs2 => "JFFS2",
            (_, Some(kind)) => kind.name(),
            (Some(_), None) => "UBI",
            (None, None) => "UBIFS without UBI",
        };
        writeln!(f, "{kind} at byte {} ({:#x}), {} bytes", self.offset, self.offset, self.len)?;
        if let Some(pebs) = &self.pebs {
            let PebCounts { total, free, erased, mapped, outdated, damaged, bad } = pebs;
            write!(
                f,
                "  {}: {mapped} mapped, {free} free, {erased} erased, {outdated} outdated, {damaged} damaged",
                count((*total).into(), "PEB")
            )?;
            if *bad > 0 {
                write!(f, ", {bad} bad")?;
            }
            writeln!(f)?;
        }
        if let (true, [VolumeCheck { directories, files, bytes, .. }]) = (self.jffs2, self.volumes.as_slice())
        {
            let directories = count(*directories, "directory");
            return writeln!(f, "  {directories} and {} of {bytes} bytes", count(*files, "file"));
        }
        self.volumes.iter().try_for_each(|volume| volume.fmt(f))
    }
}

//! Check of a JFFS2: all nodes are scanned, and the data of all files is read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use floatgate_media::jffs2::{Body, Endian, MAGIC, OLD_MAGIC, dirent_type};
use floatgate_stack::fs::{Attributes, DirEntry, Error, FileSystem, FileType};
use floatgate_stack::jffs2::{Counts, Damage, Fault, NAME_MAX, TARGET_MAX};
use floatgate_stack::ubifs::Severity;

use super::around::{around, overwritten};
use super::cut::Cut;
use super::mount::{FileJffs2, mount};
use super::nodes::{Piece, pieces};
use super::shape::Jffs2Shape;
use super::write::Extent;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::help::commands::cuts_out;
use crate::image::{Image, Origin};
use crate::report::{CheckReport, Finding, ImageCheck, Layer, Loss, Structure, VolumeCheck};
use crate::walk::{Refused, Walk, WalkError};
use crate::words::{BEHIND_CUT, count, show_name, show_path};

/// Number of bytes of a file in one read.
const PIECE: usize = 1 << 20;

const TORN: &str =
    "power went away while the node was written: Linux leaves it out, and what it held is older";

const LOST_BLOCK: &str = "an eraseblock with nodes is lost: Linux deletes what has no name";

const SHIFTED: &str = "the eraseblocks behind are shifted: Linux does not read them from there; here they are read as if they were in place";

const ERASED_IN_PART: &str = "power went away while it was written or erased: Linux erases it; or something else has overwritten nodes";

const ERASED_BETWEEN: &str = "something has erased nodes: what they held is missing, or older";

const OVERWRITTEN: &str =
    "something has overwritten it: what nodes held there is missing, or older; or other data begin there";

const BY_CHANCE: &str = "which of them counts is chance: a change that moves one may show the other";

const BY_CHANCE_APPENDED: &str = "which of them counts is chance, as where an image of `mkfs.jffs2 -i` stands behind a base with the same name: make one image of all files, or repair this one, in which the later node counts then";

const LAST_VERSION: &str = "it can be neither changed nor removed";

const UNREACHABLE: &str = "no program can open it";

const LISTED_AS: &str = "Linux with summaries goes by the summary, and may find another file there; Linux without goes by the node, as it is read here";

const NO_SUMMARY: &str =
    "Linux reads the whole eraseblock instead, which takes longer: no node is missing by it";

const TYPES: &str = "the directory and the inode say that it is of different types";

const MARKED: &str =
    "a bit of it was cleared: Linux leaves it out, and all that only it leads to; here it is read";

const NO_XATTR: &str = "the node of the attribute is lost, or damaged: Linux leaves it out";

const INVALID_ACL: &str = "Linux fails with EINVAL when anyone but the owner opens the file";

const OLD: &str = "today's Linux does not mount it; it is read here, and an image that is built of its files has today's magic";

const LEFT_OUT: &str = "Linux leaves the node out: what it held is missing, or older";

/// Checks a JFFS2.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn check(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    origin: &Origin,
    report: &mut CheckReport,
) -> Result<ImageCheck, ImageError> {
    let mut checked = VolumeCheck::bare();
    if shape.old_magic {
        let what =
            format!("the nodes have the magic {OLD_MAGIC:#06x} of the first JFFS2 (2001), not {MAGIC:#06x}");
        report.add(Finding::new(Layer::Jffs2, Severity::Note, Structure::Filesystem, what, OLD));
    }
    let cut = Cut::find(image, found, shape)?;
    if let Some(cut) = &cut {
        let what = cut.what();
        let mut finding = Finding::new(Layer::Jffs2, Severity::Damaged, Structure::Image, what, BEHIND_CUT);
        finding.offset = Some(origin.file_byte(found.len));
        report.add(finding);
    }
    for (at, what) in image.shifts(found) {
        let mut finding = Finding::new(Layer::Jffs2, Severity::Damaged, Structure::Eraseblock, what, SHIFTED);
        finding.offset = Some(at);
        report.add(finding);
    }
    match mount(image.store()?, found, shape) {
        Ok(mut fs) => {
            checked.mounts = true;
            note_foreign(fs.counts(), origin, report);
            note_nameless(&fs, report);
            note_base(fs.counts(), report);
            note_around(image, found, shape, &fs, report)?;
            note_bad(image, found, shape, report)?;
            let cut = cut.map(|cut| cut.at);
            Check { cut, ..Check::new(&mut fs, origin, report) }.run(&mut checked);
        }
        Err(ImageError::Jffs2(error)) => {
            let consequence = "Linux does not mount the filesystem";
            report.add(Finding::new(
                Layer::Jffs2,
                Severity::Damaged,
                Structure::Filesystem,
                error.to_string(),
                consequence,
            ));
        }
        Err(error) => return Err(error),
    }
    let (offset, len) = (origin.file_byte(0), image.own_bytes(found));
    Ok(ImageCheck { offset, len, jffs2: true, ..ImageCheck::bare(found, checked) })
}

/// Reports nodes of the other byte order or magic number, which Linux also ignores: it counts them as dirty bytes. It
/// is unknown whether they belong to this filesystem.
fn note_foreign(counts: &Counts, origin: &Origin, report: &mut CheckReport) {
    let Some(first) = counts.first_foreign else { return };
    let what = format!(
        "{} of the other byte order or magic among those of the filesystem",
        count(counts.foreign_nodes, "node")
    );
    let consequence =
        "Linux leaves them out: nothing that they hold is there, be it of this filesystem or of an older one";
    let mut finding = Finding::new(Layer::Jffs2, Severity::Damaged, Structure::Node, what, consequence);
    finding.offset = Some(origin.file_byte(first));
    report.add(finding);
}

/// Adds notes about directories without a name, which a mount ignores. They may have been removed.
fn note_nameless(fs: &FileJffs2, report: &mut CheckReport) {
    let is_told = fs.damaged_nodes().iter().any(|damage| matches!(damage.fault, Fault::NoName { .. }));
    let counts = fs.counts();
    if counts.nameless_directories == 0 || is_told {
        return;
    }
    let directories = count(counts.nameless_directories, "directory");
    let what = format!("{directories} without a name of their own, with names in them");
    let consequence = "removed and not erased yet, or their names are lost: Linux leaves them out";
    report.add(Finding::new(Layer::Jffs2, Severity::Note, Structure::Directory, what, consequence));
}

/// Adds a note about an incremental image, which continues another image and is not damaged.
fn note_base(counts: &Counts, report: &mut CheckReport) {
    let Some(last) = counts.base_inodes else { return };
    let what = format!("inodes up to {last} are of another image, the base of this incremental one");
    let consequence = "Linux mounts it alone as well; `cat BASE THIS > WHOLE` puts both together, where the base is padded to whole eraseblocks and no name is in both: else make one image of all files";
    report.add(Finding::new(Layer::Jffs2, Severity::Note, Structure::Filesystem, what, consequence));
}

/// Adds notes about data around the image in its file. It is unknown whether this is other data, or has overwritten
/// nodes.
fn note_around(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    fs: &FileJffs2,
    report: &mut CheckReport,
) -> Result<(), ImageError> {
    let extent = Extent::read(image, found, shape)?;
    let own = extent.own_part(image, found);
    let [front, behind] = around(image, found, shape, fs)?;
    report.may_be_lost.extend(overwritten(image, found, [front, behind], fs));
    for (part, place, over) in [(front, "in front of", None), (behind, "behind", extent.over)] {
        let Some(part) = part else { continue };
        let (start, end) = (part.offset, part.end());
        let what = format!(
            "bytes {start} to {end} ({start:#x} to {end:#x}), {place} the nodes, are neither nodes nor erased flash"
        );
        let consequence = format!(
            "other data, or what has overwritten the image, and then files may be missing: {}",
            cuts_out(own, over)
        );
        let mut finding =
            Finding::new(Layer::Jffs2, Severity::Note, Structure::OtherContent, what, consequence);
        finding.offset = Some(start);
        report.add(finding);
        report.unknown.push(part);
    }
    Ok(())
}

/// Adds notes about blocks of a dump with OOB that are marked bad and contain good nodes. The nodes of a block that
/// is marked by mistake are missing.
fn note_bad(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    report: &mut CheckReport,
) -> Result<(), ImageError> {
    let Some(corrected) = &image.corrected else { return Ok(()) };
    let store = image.store()?;
    let mut block = vec![0; shape.erase_bytes as usize];
    for &number in &found.bad_pebs {
        let start = found.offset + u64::from(number) * u64::from(shape.erase_bytes);
        store.read_at(start, &mut block).map_err(ImageError::Store)?;
        let good = good_nodes(&block, shape.endian());
        if good == 0 {
            continue;
        }
        let mark = corrected.bad_mark(start);
        let what = format!("eraseblock {number} is marked bad and holds {}", count(good, "good node"));
        let consequence = format!(
            "Linux does not read it; if it was marked by mistake, FFh in byte {mark} ({mark:#x}) of the dump takes the mark away"
        );
        let mut finding =
            Finding::new(Layer::Jffs2, Severity::Note, Structure::Eraseblock, what, consequence);
        finding.offset = Some(image.file_byte(start));
        report.add(finding);
    }
    Ok(())
}

/// Number of good nodes of files, names and attributes in an eraseblock.
fn good_nodes(block: &[u8], endian: Endian) -> u64 {
    let is_good = |piece: &Piece<'_>| match piece {
        Piece::Node(header, node) if !header.obsolete => {
            Body::parse(header, node, endian).is_ok_and(|body| body.is_content())
        }
        _ => false,
    };
    pieces(block, endian).filter(|(_, piece)| is_good(piece)).count() as u64
}

/// A name whose newest node must be changed.
#[derive(Clone, Debug)]
pub(super) struct WrongName {
    /// Inode of the directory.
    pub(super) directory: u32,
    pub(super) name: Vec<u8>,
    pub(super) fault: NameFault,
}

/// Fault of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameFault {
    /// No part of its file can be read.
    Lost,
    /// The name is a second name of a directory, leads back to a parent directory, or is too deep.
    Again,
    /// The dirent states another file type than this one.
    Type(u8),
}

/// Losses of a filesystem, and names without a file.
pub(super) struct Survey {
    pub(super) losses: Vec<Loss>,
    pub(super) names: Vec<WrongName>,
    pub(super) gaps: Gaps,
}

/// Ranges of files that no node covers, by inode.
pub(super) type Gaps = BTreeMap<u32, Vec<Range<u64>>>;

/// Reads all files. Missing data is reported once per file.
pub(super) fn survey(fs: &mut FileJffs2, origin: &Origin) -> Survey {
    let mut report = CheckReport::default();
    let mut check = Check::new(fs, origin, &mut report);
    check.run(&mut VolumeCheck::bare());
    let (names, gaps) = (check.wrong, check.gaps);
    // A target that only Linux refuses is no loss. Types, marks, versions and summaries that are written again are no
    // losses either.
    let is_kept = |finding: &Finding| {
        use Structure::{LongName, Mark, Summary, SymbolicLink, Type, Version};
        matches!(finding.structure, SymbolicLink | LongName | Type | Mark | Version | Summary)
    };
    report.findings.retain(|finding| !is_kept(finding));
    let is_file = |finding: &Finding| finding.structure != Structure::Node;
    let files: BTreeSet<String> = report
        .findings
        .iter()
        .filter(|finding| is_file(finding))
        .flat_map(|finding| finding.paths.clone())
        .collect();
    let findings = report.findings.into_iter();
    let findings =
        findings.filter(|finding| is_file(finding) || !finding.paths.iter().any(|path| files.contains(path)));
    let losses = findings.map(|finding| {
        let path = finding.paths.first().cloned().unwrap_or_else(|| "/".to_owned());
        let place = finding.offset.map_or(String::new(), |at| format!(", at byte {at} ({at:#x})"));
        Loss { path, what: format!("{}{place}", finding.what) }
    });
    Survey { losses: losses.collect(), names, gaps }
}

struct Check<'c> {
    fs: &'c mut FileJffs2,
    /// Offset of the node in which the file ends.
    cut: Option<u64>,
    /// Number of damages that were already reported.
    reported: usize,
    origin: &'c Origin,
    report: &'c mut CheckReport,
    /// Names that must be changed.
    wrong: Vec<WrongName>,
    /// Ranges of files that no node covers, by inode.
    gaps: Gaps,
    /// Indices of the findings about each inode in the report; each name of the inode is added to them.
    of_inodes: BTreeMap<u32, Vec<usize>>,
}

impl<'c> Check<'c> {
    const fn new(fs: &'c mut FileJffs2, origin: &'c Origin, report: &'c mut CheckReport) -> Self {
        Self {
            fs,
            cut: None,
            reported: 0,
            origin,
            report,
            wrong: Vec::new(),
            gaps: Gaps::new(),
            of_inodes: BTreeMap::new(),
        }
    }

    fn run(&mut self, checked: &mut VolumeCheck) {
        self.report_new_damage(None);
        self.name(self.fs.root(), "/");
        let mut walk = Walk::new(self.fs.root());
        let mut seen = BTreeSet::new();
        while let Some(directory) = walk.next(self.fs) {
            let directory = match directory {
                Ok(directory) => directory,
                // A file that is no directory has a name with a wrong type, which is reported.
                Err((_, WalkError::Unreadable(Error::NotDirectory))) => continue,
                Err((path, error)) => {
                    self.add_unreadable(Structure::Directory, &error.to_string(), show_path(&path));
                    self.record_lost_directory(&path, &error);
                    continue;
                }
            };
            checked.directories += 1;
            let folder = show_path(&directory.path);
            for entry in directory.entries {
                let path = format!("{}/{}", folder.trim_end_matches('/'), show_name(&entry.name));
                self.check_type(directory.inode, &entry, &path);
                self.name(entry.inode, &path);
                if entry.name.len() > NAME_MAX {
                    let what =
                        format!("name of {} bytes: Linux's JFFS2 has at most {NAME_MAX}", entry.name.len());
                    self.add(
                        Structure::LongName,
                        Severity::Note,
                        what,
                        "Linux lists it and does not open it",
                        &path,
                    );
                }
                let known = self.report.findings.len();
                let is_first = seen.insert(entry.inode);
                match self.read(entry.inode) {
                    Ok(Some(bytes)) if is_first => {
                        checked.files += 1;
                        checked.bytes = checked.bytes.saturating_add(bytes);
                        self.report_gaps(entry.inode, &path);
                    }
                    Ok(_) => {}
                    // The walk enters directories itself.
                    Err(_) if entry.file_type == FileType::Directory => {}
                    Err(error) => {
                        if is_first {
                            self.add_unreadable(Structure::File, &error.to_string(), path.clone());
                        }
                        self.record_lost_name(directory.inode, &entry.name, &error);
                    }
                }
                self.report_new_damage(Some(&path));
                let new = known..self.report.findings.len();
                if !new.is_empty() {
                    self.of_inodes.entry(entry.inode).or_default().extend(new);
                }
            }
        }
        self.fs.check_parents();
        self.report_new_damage(None);
    }

    /// Adds another name of an inode to its findings.
    fn name(&mut self, inode: u32, path: &str) {
        for &number in self.of_inodes.get(&inode).into_iter().flatten() {
            self.report.findings[number].name_paths(std::iter::once(path.to_owned()));
        }
    }

    /// Reports a name whose type differs from the type of its inode.
    fn check_type(&mut self, directory: u32, entry: &DirEntry, path: &str) {
        let Ok(Attributes { file_type, mode, .. }) = self.fs.attributes(entry.inode) else { return };
        if file_type != entry.file_type {
            let consequence = "Linux goes by the inode; who only lists the directory is misled";
            self.add(Structure::Type, Severity::Damaged, TYPES.to_owned(), consequence, path);
            let fault = NameFault::Type(dirent_type(mode));
            self.wrong.push(WrongName { directory, name: entry.name.clone(), fault });
        }
    }

    /// Reports ranges of a file that no node covers, and a link target that Linux refuses.
    fn report_gaps(&mut self, inode: u32, path: &str) {
        match self.fs.attributes(inode) {
            Ok(Attributes { file_type: FileType::Regular, .. }) => {
                for gap in self.fs.gaps(inode).unwrap_or_default() {
                    let what = format!("bytes {} to {} have no node", gap.start, gap.end);
                    let consequence = "the node is lost; the bytes read as zeros";
                    self.add(Structure::File, Severity::Damaged, what, consequence, path);
                    self.gaps.entry(inode).or_default().push(gap);
                }
            }
            Ok(Attributes { file_type: FileType::Symlink, size, .. }) if size > TARGET_MAX as u64 => {
                let what = format!("target of {size} bytes: Linux's JFFS2 has at most {TARGET_MAX}");
                // This is no damage: image builders write such targets, and floatgate reads them.
                self.add(Structure::SymbolicLink, Severity::Note, what, "Linux does not open it", path);
            }
            Ok(Attributes { file_type: FileType::Symlink, .. })
                if self.fs.read_link(inode).is_ok_and(|target| target.contains(&0)) =>
            {
                let what = "the target has a zero in it".to_owned();
                self.add(
                    Structure::SymbolicLink,
                    Severity::Note,
                    what,
                    "Linux leaves out what follows that",
                    path,
                );
            }
            _ => {}
        }
    }

    fn add(
        &mut self,
        structure: Structure,
        severity: Severity,
        what: String,
        consequence: &'static str,
        path: &str,
    ) {
        let mut finding = Finding::new(Layer::Jffs2, severity, structure, what, consequence);
        finding.name_paths(std::iter::once(path.to_owned()));
        self.report.add(finding);
    }

    /// Reads all data of a file. Returns the number of bytes; `None` for a directory.
    fn read(&mut self, inode: u32) -> Result<Option<u64>, Error> {
        let attributes = self.fs.attributes(inode)?;
        match attributes.file_type {
            FileType::Directory => return Ok(None),
            FileType::Symlink => drop(self.fs.read_link(inode)?),
            FileType::Regular => {
                let mut piece = vec![0; PIECE];
                // Holes need not be read.
                let mut block = 0;
                loop {
                    let blocks =
                        self.fs.data_blocks(inode, block, PIECE / floatgate_stack::fs::BLOCK_BYTES)?;
                    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { break };
                    let bytes = floatgate_stack::fs::BLOCK_BYTES as u64;
                    let len = (u64::from(*last) - u64::from(*first) + 1) * bytes;
                    for at in (0..len).step_by(PIECE) {
                        self.fs.read(inode, u64::from(*first) * bytes + at, &mut piece)?;
                    }
                    let Some(next) = last.checked_add(1) else { break };
                    block = next;
                }
                return Ok(Some(attributes.size));
            }
            _ => {}
        }
        Ok(Some(0))
    }

    /// Records the name of a file without good nodes, or of a symbolic link without a good target.
    fn record_lost_name(&mut self, directory: u32, name: &[u8], error: &Error) {
        let inode = self.fs.lookup(directory, name);
        let is_lost = match inode.and_then(|inode| self.fs.attributes(inode)) {
            Ok(Attributes { file_type, .. }) => file_type == FileType::Symlink,
            Err(error) => error.is_damage(),
        };
        if error.is_damage() && is_lost {
            self.wrong.push(WrongName { directory, name: name.to_vec(), fault: NameFault::Lost });
        }
    }

    /// Records the name of a directory that cannot be entered.
    fn record_lost_directory(&mut self, path: &[Vec<u8>], error: &WalkError) {
        let fault = match error {
            WalkError::Refused(Refused::Again | Refused::TooDeep(_)) => NameFault::Again,
            WalkError::Unreadable(error) if error.is_damage() => NameFault::Lost,
            _ => return,
        };
        let Some((name, parents)) = path.split_last() else { return };
        let root = self.fs.root();
        let directory = parents.iter().try_fold(root, |inode, part| self.fs.lookup(inode, part));
        if let Ok(directory) = directory {
            self.wrong.push(WrongName { directory, name: name.clone(), fault });
        }
    }

    fn add_unreadable(&mut self, structure: Structure, what: &str, path: String) {
        let mut finding = Finding::new(Layer::Jffs2, Severity::Damaged, structure, what, "it cannot be read");
        finding.name_paths(std::iter::once(path));
        self.report.add(finding);
    }

    /// Reports the damage found since the last call, in a file or during the mount.
    fn report_new_damage(&mut self, path: Option<&str>) {
        let new: Vec<_> = self.fs.damaged_nodes()[self.reported..].to_vec();
        self.reported += new.len();
        for damage in new {
            // A power cut does not shorten a file.
            let is_torn = self.fs.is_torn(&damage) && self.cut != Some(damage.at);
            let severity = if is_torn || damage.fault == Fault::Summary {
                Severity::Recoverable
            } else {
                Severity::Damaged
            };
            let consequence = match damage.fault {
                Fault::NoName { .. } | Fault::Missing { .. } => LOST_BLOCK,
                Fault::NoNode { .. } if is_torn => ERASED_IN_PART,
                Fault::NoNode { .. } => OVERWRITTEN,
                Fault::Gap { .. } => ERASED_BETWEEN,
                Fault::SameVersion { name: Some(_), .. } => BY_CHANCE_APPENDED,
                Fault::SameVersion { .. } | Fault::SameXattrVersion { .. } => BY_CHANCE,
                Fault::LastVersion { .. } => LAST_VERSION,
                Fault::ListedAs { .. } => LISTED_AS,
                Fault::Marked => MARKED,
                Fault::NoXattr { .. } => NO_XATTR,
                Fault::Acl { .. } => INVALID_ACL,
                Fault::Name { .. } | Fault::ToRoot { .. } | Fault::NotInDirectory { .. } => UNREACHABLE,
                Fault::Summary => NO_SUMMARY,
                _ if is_torn => TORN,
                _ => LEFT_OUT,
            };
            let what = damage.fault.to_string();
            let mut finding = Finding::new(Layer::Jffs2, severity, structure(&damage), what, consequence);
            let has_place = !matches!(damage.fault, Fault::Missing { .. });
            finding.offset = has_place.then(|| self.origin.file_byte(damage.at));
            finding.name_paths(path.map(str::to_owned).into_iter());
            if let Fault::NoXattr { inode, .. } | Fault::Acl { inode, .. } = damage.fault {
                self.of_inodes.entry(inode).or_default().push(self.report.findings.len());
            }
            self.report.add(finding);
        }
    }
}

/// Kind of the damaged structure.
const fn structure(damage: &Damage) -> Structure {
    match damage.fault {
        Fault::Missing { .. } => Structure::Inodes,
        Fault::LastVersion { .. } => Structure::Version,
        Fault::Summary => Structure::Summary,
        Fault::Marked => Structure::Mark,
        Fault::NoXattr { .. } | Fault::Acl { .. } => Structure::Attribute,
        Fault::NoName { .. } | Fault::Name { .. } | Fault::ToRoot { .. } | Fault::NotInDirectory { .. } => {
            Structure::Name
        }
        _ => Structure::Node,
    }
}

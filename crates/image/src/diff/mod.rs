//! Comparison of two images: their filesystems entry by entry, and on request the UBI below. One side can be a directory of
//! the host or a tar archive.

mod raw;
mod side;

use std::collections::{BTreeMap, BTreeSet};

use floatgate_stack::fs::{Attributes, Error, FileSystem, FileType, Timestamp};
use floatgate_stack::ubifs::Behaviour;
use serde::Serialize;

use super::walk::{DEPTH_MAX, Entered};
use crate::ImageError;
use crate::image::Image;
use crate::report::Loss;
use crate::selection::Selection;
use crate::words::show_name;
pub use raw::diff_raw;
pub use side::{Side, diff_sides};

/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 18;

/// Properties that a comparison includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    /// True to compare modification times.
    pub times: bool,
    /// True to compare owner and group.
    pub owners: bool,
    /// True to compare the positions of holes.
    pub holes: bool,
    /// True to compare the flags of inodes.
    pub flags: bool,
    /// True to compare the attributes of the root directory.
    pub root: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self { times: true, owners: true, holes: false, flags: true, root: true }
    }
}

/// Side on which a path exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// In the first image only.
    First,
    /// In the second image only.
    Second,
    /// In both images, with differences.
    Both,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Name of the property.
    pub field: String,
    /// Value in the first image.
    pub first: String,
    /// Value in the second image.
    pub second: String,
}

/// A path that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Path from the root. Bytes that are not UTF-8 are written as `\xNN`.
    pub path: String,
    /// Side on which the path exists.
    pub presence: Presence,
    /// Properties that differ, if the path is on both sides.
    pub changes: Vec<Change>,
}

/// Differences between two images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiffReport {
    /// Number of paths: those compared, and those in one image only.
    pub entries: u64,
    /// Paths that differ.
    pub differences: Vec<Difference>,
    /// Differences below the filesystem, if asked for.
    pub raw: Vec<Change>,
    /// Volumes of the UBI devices that were not compared, because no volume was chosen by name.
    pub not_compared: Vec<String>,
    /// Parts that were not compared because they cannot be read.
    pub trouble: Vec<Loss>,
}

impl DiffReport {
    /// True when no difference was found, even if [`trouble`](Self::trouble) lists parts that cannot be read.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty() && self.raw.is_empty()
    }
}

/// Reason for which two images cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The first image.
    #[error(transparent)]
    First(ImageError),
    /// The second image.
    #[error(transparent)]
    Second(ImageError),
}

/// Compares the filesystems of two images.
///
/// # Errors
/// An image cannot be read or mounted.
pub fn diff(images: [(&Image, &Selection); 2], options: &DiffOptions) -> Result<DiffReport, DiffError> {
    let [first, second] = images.map(|(image, selection)| image.mount(selection, true, Behaviour::default()));
    let (mut first, mut second) = (first.map_err(DiffError::First)?, second.map_err(DiffError::Second)?);
    Ok(compare(&mut *first, &mut *second, options))
}

/// Compares two mounted filesystems.
pub fn compare(first: &mut dyn FileSystem, second: &mut dyn FileSystem, options: &DiffOptions) -> DiffReport {
    let mut report = DiffReport::default();
    for (number, fs) in [(1, &*first), (2, &*second)] {
        let what = |error| format!("image {number}: {error}");
        let damage = fs.damage();
        report
            .trouble
            .extend(damage.into_iter().map(|error| Loss { path: "/".to_owned(), what: what(error) }));
    }
    let (one, other) = (first.holds(), second.holds());
    let comparable = Comparable {
        nanoseconds: one.nanoseconds && other.nanoseconds,
        // Linux shows a link count for the root of a JFFS2 that does not follow from the number of its subdirectories.
        directory_links: one == other,
    };
    let options = &DiffOptions { flags: options.flags && one.flags && other.flags, ..*options };
    let roots = (first.root(), second.root());
    let entered = (Entered::new(DEPTH_MAX), Entered::new(DEPTH_MAX));
    let mut diff = Diff { first, second, options, comparable, report, entered, names: BTreeMap::new() };
    diff.run(roots);
    diff.report
}

struct Diff<'d> {
    first: &'d mut dyn FileSystem,
    second: &'d mut dyn FileSystem,
    options: &'d DiffOptions,
    comparable: Comparable,
    report: DiffReport,
    /// Directories that were entered, in each image.
    entered: (Entered, Entered),
    /// Compared pairs of inodes, each with the path at which it was compared.
    names: BTreeMap<(u32, u32), String>,
}

/// A directory in both images, with its entries that were not compared yet, in reverse order.
struct Level {
    path: String,
    rest: Vec<(Vec<u8>, Option<u32>, Option<u32>)>,
}

impl Diff<'_> {
    fn run(&mut self, roots: (u32, u32)) {
        self.report.entries += u64::from(self.options.root);
        let mut levels: Vec<Level> = self.visit(String::new(), roots, 0).into_iter().collect();
        while let Some(level) = levels.last_mut() {
            let Some((name, first, second)) = level.rest.pop() else {
                levels.pop();
                continue;
            };
            let path = format!("{}/{}", level.path, show_name(&name));
            self.report.entries += 1;
            match (first, second) {
                (Some(first), Some(second)) => {
                    let depth = levels.len();
                    levels.extend(self.visit(path, (first, second), depth));
                }
                (Some(_), None) => self.differ(path, Presence::First, Vec::new()),
                _ => self.differ(path, Presence::Second, Vec::new()),
            }
        }
    }

    fn differ(&mut self, path: String, presence: Presence, changes: Vec<Change>) {
        self.report.differences.push(Difference { path, presence, changes });
    }

    fn trouble(&mut self, path: &str, what: impl ToString) {
        self.report.trouble.push(Loss { path: path.to_owned(), what: what.to_string() });
    }

    /// Compares a path that is in both images. Returns its level if it is a directory in both.
    fn visit(&mut self, path: String, inodes: (u32, u32), depth: usize) -> Option<Level> {
        let shown = if path.is_empty() { "/".to_owned() } else { path.clone() };
        let pair = [
            self.first.attributes(inodes.0).map_err(in_first),
            self.second.attributes(inodes.1).map_err(in_second),
        ];
        let (one, other) = match pair {
            [Ok(one), Ok(other)] => (one, other),
            pair => {
                pair.into_iter().filter_map(Result::err).for_each(|error| self.trouble(&shown, error));
                return None;
            }
        };
        let is_compared = self.options.root || !path.is_empty();
        let mut changes = if is_compared {
            compare_attributes(&one, &other, self.options, self.comparable)
        } else {
            Vec::new()
        };
        let is_unseen = is_compared && self.check_names(&shown, &one, &other, &mut changes);
        if is_unseen && let Err(error) = self.compare_contents(&one, &other, &mut changes) {
            self.trouble(&shown, error);
        }
        if !changes.is_empty() {
            self.differ(shown.clone(), Presence::Both, changes);
        }
        if [&one, &other].iter().any(|file| file.file_type != FileType::Directory) {
            return None;
        }
        let entered = &mut self.entered;
        let entered = entered.0.enter(inodes.0, depth).and_then(|()| entered.1.enter(inodes.1, depth));
        if let Err(refused) = entered {
            self.trouble(&shown, refused);
            return None;
        }
        match self.both_entries(inodes) {
            Ok(rest) => Some(Level { path, rest }),
            Err(error) => {
                self.trouble(&shown, error);
                None
            }
        }
    }

    /// Compares hard links: all names of a file in one image must be names of a single file in the other. Returns false if
    /// this pair of inodes was compared before, at another path.
    fn check_names(
        &mut self,
        path: &str,
        one: &Attributes,
        other: &Attributes,
        changes: &mut Vec<Change>,
    ) -> bool {
        if one.links < 2 && other.links < 2 || one.file_type == FileType::Directory {
            return true;
        }
        if self.names.contains_key(&(one.inode, other.inode)) {
            return false;
        }
        let first_path = self.names.iter().find(|((inode, _), _)| *inode == one.inode).map(|(_, path)| path);
        let second_path =
            self.names.iter().find(|((_, inode), _)| *inode == other.inode).map(|(_, path)| path);
        if first_path != second_path {
            let shown =
                |path: Option<&String>| path.cloned().unwrap_or_else(|| "a file of its own".to_owned());
            let (first, second) = (shown(first_path), shown(second_path));
            changes.push(Change { field: "link to".to_owned(), first, second });
        }
        self.names.insert((one.inode, other.inode), path.to_owned());
        true
    }

    fn compare_contents(
        &mut self,
        one: &Attributes,
        other: &Attributes,
        changes: &mut Vec<Change>,
    ) -> Result<(), String> {
        self.compare_xattrs(one, other, changes)?;
        if one.file_type != other.file_type {
            return Ok(());
        }
        if one.is_encrypted() || other.is_encrypted() {
            return Err(Error::Unsupported("the file is encrypted").to_string());
        }
        match one.file_type {
            FileType::Regular => self.compare_data(one, other, changes),
            FileType::Symlink => {
                let first = self.first.read_link(one.inode).map_err(in_first)?;
                let second = self.second.read_link(other.inode).map_err(in_second)?;
                note(changes, "target", &show_name(&first), &show_name(&second));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn compare_data(
        &mut self,
        one: &Attributes,
        other: &Attributes,
        changes: &mut Vec<Change>,
    ) -> Result<(), String> {
        let blocks = (
            self.first.data_blocks(one.inode, 0, usize::MAX).map_err(in_first)?,
            self.second.data_blocks(other.inode, 0, usize::MAX).map_err(in_second)?,
        );
        if self.options.holes {
            note(changes, "blocks with data", &blocks.0.len().to_string(), &blocks.1.len().to_string());
        }
        let all: BTreeSet<u64> =
            blocks.0.iter().chain(&blocks.1).map(|&block| u64::from(block) * 4096 / CHUNK as u64).collect();
        let (mut a, mut b) = (vec![0; CHUNK], vec![0; CHUNK]);
        for chunk in all {
            let at = chunk * CHUNK as u64;
            let first = self.first.read(one.inode, at, &mut a).map_err(in_first)?;
            let second = self.second.read(other.inode, at, &mut b).map_err(in_second)?;
            let common = first.min(second);
            if let Some(index) = (0..common).find(|&index| a[index] != b[index]) {
                let at = at + index as u64;
                let (first, second) = (format!("{:#04x}", a[index]), format!("{:#04x}", b[index]));
                changes.push(Change { field: format!("contents from byte {at}"), first, second });
                return Ok(());
            }
        }
        Ok(())
    }

    fn compare_xattrs(
        &mut self,
        one: &Attributes,
        other: &Attributes,
        changes: &mut Vec<Change>,
    ) -> Result<(), String> {
        if one.xattr_count == 0 && other.xattr_count == 0 {
            return Ok(());
        }
        let first = xattrs(self.first, one.inode).map_err(in_first)?;
        let second = xattrs(self.second, other.inode).map_err(in_second)?;
        let names: BTreeSet<&Vec<u8>> = first.keys().chain(second.keys()).collect();
        for name in names {
            let shown =
                |value: Option<&Vec<u8>>| value.map_or_else(|| "none".to_owned(), |value| show_name(value));
            let field = format!("attribute {}", show_name(name));
            note(changes, &field, &shown(first.get(name)), &shown(second.get(name)));
        }
        Ok(())
    }

    /// Names in either of two directories, in reverse order.
    fn both_entries(&mut self, inodes: (u32, u32)) -> Result<Vec<EitherEntry>, String> {
        let mut names: BTreeMap<Vec<u8>, (Option<u32>, Option<u32>)> = BTreeMap::new();
        for entry in self.first.read_dir(inodes.0, None, usize::MAX).map_err(in_first)? {
            names.entry(entry.name).or_default().0 = Some(entry.inode);
        }
        for entry in self.second.read_dir(inodes.1, None, usize::MAX).map_err(in_second)? {
            names.entry(entry.name).or_default().1 = Some(entry.inode);
        }
        Ok(names.into_iter().rev().map(|(name, (first, second))| (name, first, second)).collect())
    }
}

/// Message of an error in the first image.
fn in_first(error: Error) -> String {
    format!("image 1: {error}")
}

/// Message of an error in the second image.
fn in_second(error: Error) -> String {
    format!("image 2: {error}")
}

/// A name with its inode in each image.
type EitherEntry = (Vec<u8>, Option<u32>, Option<u32>);

fn xattrs(fs: &mut dyn FileSystem, inode: u32) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let names = fs.list_xattrs(inode)?;
    names.into_iter().map(|name| fs.get_xattr(inode, &name).map(|value| (name, value))).collect()
}

/// Adds a change if the two values differ.
fn note(changes: &mut Vec<Change>, field: &str, first: &str, second: &str) {
    if first != second {
        let (first, second) = (first.to_owned(), second.to_owned());
        changes.push(Change { field: field.to_owned(), first, second });
    }
}

/// Attributes that both filesystems can store.
#[derive(Clone, Copy, Debug)]
struct Comparable {
    /// True if both store fractions of a second in times.
    nanoseconds: bool,
    /// True if link counts of directories have the same meaning in both.
    directory_links: bool,
}

fn compare_attributes(
    one: &Attributes,
    other: &Attributes,
    options: &DiffOptions,
    comparable: Comparable,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut field =
        |name: &str, of: &dyn Fn(&Attributes) -> String| note(&mut changes, name, &of(one), &of(other));
    field("type", &|file| format!("{:?}", file.file_type).to_lowercase());
    field("permissions", &|file| format!("{:04o}", file.mode & 0o7777));
    if comparable.directory_links || one.file_type != FileType::Directory {
        field("links", &|file| file.links.to_string());
    }
    if options.owners {
        field("owner", &|file| file.uid.to_string());
        field("group", &|file| file.gid.to_string());
    }
    // The size of a directory follows from its names, and the size of a device node has no meaning.
    let has_size = |file: &Attributes| matches!(file.file_type, FileType::Regular | FileType::Symlink);
    field("size", &|file| if has_size(file) { file.size.to_string() } else { String::new() });
    if options.times {
        // mkfs.ubifs and tar write whole seconds.
        let has_fractions =
            comparable.nanoseconds && one.mtime.nanoseconds != 0 && other.mtime.nanoseconds != 0;
        let rounded = |mut time: Timestamp| {
            time.nanoseconds *= u32::from(has_fractions);
            time
        };
        field("modified", &|file| time(rounded(file.mtime)));
    }
    field("device", &|file| {
        file.device.map_or_else(String::new, |device| format!("{}, {}", device.major, device.minor))
    });
    if options.flags {
        field("flags", &|file| format!("{:?}", file.flags));
    }
    changes
}

fn time(time: Timestamp) -> String {
    format!("{}.{:09}", time.seconds, time.nanoseconds)
}

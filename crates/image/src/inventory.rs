//! Files that an extraction restores, to compare a repaired image with the damaged one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use floatgate_stack::fs::BLOCK_BYTES;

use crate::extract::target::{Entry, ExtractLimits, Target};
use crate::extract::{Contents, Extractions};
use crate::image::Image;
use crate::report::Loss;
use crate::selection::Selection;
use crate::words::show_path;

/// Prefix of the names that a repair gives to directories and files without a name.
const LOST: &str = "lost";

/// Largest number of nanoseconds in a time.
const NANOSECONDS: u32 = 999_999_999;

/// A file as an extraction restores it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    mode: u32,
    owner: (u32, u32),
    changed: (i64, u32),
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    target: Option<Vec<u8>>,
    /// Hash of the contents, with zeros for holes.
    contents: u64,
}

/// Files that an extraction restores, by path.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    items: BTreeMap<String, Item>,
    /// Paths with losses.
    damaged: BTreeSet<String>,
}

impl Inventory {
    /// Extracts an image without writing it; an unreadable image has no files.
    pub(crate) fn of(image: &Image, selection: &Selection) -> Self {
        let mut inventory = Self::default();
        let extracted = Extractions::open(image, selection)
            .ok()
            .and_then(|extractions| extractions.run(&mut inventory, &ExtractLimits::default(), &|_| {}).ok());
        let losses = extracted.into_iter().flat_map(|extracted| extracted.losses);
        inventory.damaged = losses.map(|loss| loss.path).collect();
        inventory
    }

    /// True if there are files other than the root directory.
    pub(crate) fn has_files(&self) -> bool {
        self.items.len() > 1
    }

    /// True if this inventory has files, and the other has none. Names can differ, because a repair creates new names
    /// for lost ones.
    pub(crate) fn is_lost_in(&self, other: &Self) -> bool {
        self.has_files() && !other.has_files()
    }

    /// Files that are completely restored here, but not in `other`. Losses in `known` are omitted.
    pub(crate) fn missing_in(&self, other: &Self, known: &[Loss]) -> Vec<Loss> {
        let known: BTreeSet<&str> = known.iter().map(|loss| loss.path.as_str()).collect();
        // With several volumes, a path begins with the name of its volume.
        let is_known = |path: &str| {
            let below = path.match_indices('/').nth(1).map_or("", |(at, _)| &path[at..]);
            known.contains(path) || known.contains(below)
        };
        let is_whole = |path: &&String| {
            !self.damaged.contains(*path)
                && !is_known(path)
                && !path.split('/').any(|name| name.starts_with(LOST))
        };
        let mut losses = Vec::new();
        for path in self.items.keys().filter(is_whole) {
            let item = &self.items[path];
            let what = match other.items.get(path) {
                None => "it is not in the new image; `image extract` still restores it",
                Some(new) if new.contents != item.contents || new.target != item.target => {
                    "its contents are others in the new image; `image extract` still restores them"
                }
                Some(new) if new != item => {
                    "its attributes are others in the new image; `image extract` still restores them"
                }
                Some(_) => continue,
            };
            losses.push(Loss { path: path.clone(), what: what.to_owned() });
        }
        losses
    }

    fn add(&mut self, entry: &Entry<'_>, contents: u64) -> io::Result<Vec<String>> {
        let attributes = entry.attributes;
        let item = Item {
            mode: attributes.mode,
            owner: (attributes.uid, attributes.gid),
            // A repair replaces invalid nanoseconds.
            changed: (attributes.mtime.seconds, attributes.mtime.nanoseconds.min(NANOSECONDS)),
            xattrs: entry.xattrs.to_vec(),
            target: entry.target.map(<[u8]>::to_vec),
            contents,
        };
        self.items.insert(show_path(entry.path), item);
        Ok(Vec::new())
    }
}

/// Hash of the contents of a file. It does not depend on whether zeros are stored or holes.
fn hash(contents: &mut dyn Contents) -> u64 {
    let mut hasher = DefaultHasher::new();
    contents.size().hash(&mut hasher);
    while let Some((at, bytes)) = contents.next_piece() {
        for (block, bytes) in (at / BLOCK_BYTES as u64..).zip(bytes.chunks(BLOCK_BYTES)) {
            if let Some(last) = bytes.iter().rposition(|&byte| byte != 0) {
                (block, &bytes[..=last]).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

impl Target for Inventory {
    fn enter(&mut self, _entry: &Entry<'_>) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn leave(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        self.add(entry, 0)
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        // The entry is a volume without a filesystem, which has no inode. A repair copies its LEBs, and reports lost
        // ones.
        if entry.attributes.inode == 0 {
            return Ok(Vec::new());
        }
        let hash = hash(contents);
        self.add(entry, hash)
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        self.add(entry, 0)
    }

    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        if let Some(item) = self.items.get(&show_path(first)).cloned() {
            self.items.insert(show_path(entry.path), item);
        }
        Ok(Vec::new())
    }
}

//! What may be there after a loss of power.
//!
//! Names, links, attributes and the inodes that go with them are written by one journal head, so that after a loss of power they
//! are those of one moment: not before the last that was brought to flash, nor after the step under way. Data are written by
//! another head, block by block: each is one that the file had since it was brought to flash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use floatgate_media::ubifs::FileType;
use floatgate_stack::Volume;
use floatgate_stack::ubifs::{Result, Ubifs};

/// Bytes of a block.
const BLOCK: usize = 4096;

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) inode: u32,
    pub(super) file_type: FileType,
    links: u32,
    /// Of a directory; a file's is written later.
    size: Option<u64>,
    target: Option<Vec<u8>>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// All names with what they lead to, by path.
pub(super) type Names = BTreeMap<Vec<u8>, Named>;

/// What a file may be.
#[derive(Clone, Debug, Default)]
pub(super) struct FileStates {
    /// Sizes.
    sizes: BTreeSet<u64>,
    permissions: BTreeSet<u32>,
    /// Contents of blocks that changed.
    blocks: BTreeMap<usize, BTreeSet<Block>>,
    /// The contents now, block by block.
    now: Vec<Block>,
}

/// A whole block, zeros behind the end of the file.
type Block = Arc<[u8]>;

/// What a file is.
pub(super) struct FileNow {
    size: u64,
    permissions: u32,
    blocks: Vec<Block>,
}

/// Reads all names.
pub(super) fn names<V: Volume>(fs: &mut Ubifs<V>) -> Result<Names> {
    let mut out = Names::new();
    let mut pending = vec![(Vec::new(), fs.root())];
    while let Some((path, inode)) = pending.pop() {
        let named = named(fs, inode)?;
        if named.file_type == FileType::Directory {
            for entry in fs.read_dir(inode, None, usize::MAX)? {
                let mut below = path.clone();
                below.push(b'/');
                below.extend_from_slice(&entry.name);
                pending.push((below, entry.inode));
            }
        }
        out.insert(path, named);
    }
    Ok(out)
}

fn named<V: Volume>(fs: &mut Ubifs<V>, inode: u32) -> Result<Named> {
    let attributes = fs.attributes(inode)?;
    let file_type = attributes.file_type;
    let size = (file_type == FileType::Directory).then_some(attributes.size);
    let target = if file_type == FileType::Symlink { Some(fs.read_link(inode)?) } else { None };
    let mut xattrs = Vec::new();
    if attributes.xattr_count > 0 {
        for name in fs.list_xattrs(inode)? {
            let value = fs.get_xattr(inode, &name)?;
            xattrs.push((name, value));
        }
    }
    Ok(Named { inode, file_type, links: attributes.links, size, target, xattrs })
}

/// Reads a file.
pub(super) fn file<V: Volume>(fs: &mut Ubifs<V>, inode: u32) -> Result<FileNow> {
    let attributes = fs.attributes(inode)?;
    let mut contents = vec![0; usize::try_from(attributes.size).unwrap_or(0)];
    fs.read(inode, 0, &mut contents)?;
    let blocks = contents.chunks(BLOCK).map(whole_block).collect();
    Ok(FileNow { size: attributes.size, permissions: attributes.mode & 0o7777, blocks })
}

fn whole_block(bytes: &[u8]) -> Block {
    let mut block = vec![0; BLOCK];
    block[..bytes.len()].copy_from_slice(bytes);
    block.into()
}

impl FileStates {
    /// The file is on flash as it is now.
    pub(super) fn settle(&mut self, now: &FileNow) {
        self.sizes = BTreeSet::from([now.size]);
        self.permissions = BTreeSet::from([now.permissions]);
        self.blocks.clear();
        self.now.clone_from(&now.blocks);
    }

    /// The file has changed to this, and the change may be on flash or not.
    pub(super) fn change(&mut self, now: &FileNow) {
        let before = self.sizes.last().copied().unwrap_or(0).max(now.size);
        self.sizes.insert(now.size);
        // A write that is cut off may have grown the file block by block.
        self.sizes.extend((1..=before / BLOCK as u64).map(|block| block * BLOCK as u64));
        self.permissions.insert(now.permissions);
        for block in 0..now.blocks.len().max(self.now.len()) {
            let (old, new) = (self.now.get(block), now.blocks.get(block));
            if old != new {
                let states = self.blocks.entry(block).or_default();
                states.extend([old, new].into_iter().map(|block| block.cloned().unwrap_or_else(|| whole_block(&[]))));
            }
        }
        self.now.clone_from(&now.blocks);
    }

    /// Why the file cannot be this; `None` if it can.
    pub(super) fn refuse(&self, found: &FileNow) -> Option<String> {
        if !self.sizes.contains(&found.size) {
            return Some(format!("{} bytes long, where only {:?} are possible", found.size, self.sizes));
        }
        if !self.permissions.contains(&found.permissions) {
            return Some(format!("permissions {:o}, which it never had since", found.permissions));
        }
        (0..found.blocks.len()).find_map(|block| self.refuse_block(block, found))
    }

    fn refuse_block(&self, block: usize, found: &FileNow) -> Option<String> {
        let start = block as u64 * BLOCK as u64;
        let len = usize::try_from(found.size.saturating_sub(start)).unwrap_or(BLOCK).min(BLOCK);
        let got = found.blocks.get(block)?.get(..len)?;
        let is = |state: &Block| state.get(..len) == Some(got);
        let hole = got.iter().all(|&byte| byte == 0);
        let possible = match self.blocks.get(&block) {
            // A block that was not written yet is a hole.
            Some(states) => hole || states.iter().any(is),
            None => self.now.get(block).map_or(hole, is),
        };
        (!possible).then(|| format!("block {block} is none that it was since it was last brought to flash"))
    }
}

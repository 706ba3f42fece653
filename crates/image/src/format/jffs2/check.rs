//! What is wrong in a JFFS2: all nodes are found, and the data of all files read.

use std::collections::BTreeSet;

use floatgate_stack::fs::{Error, FileSystem, FileType};
use floatgate_stack::ubifs::Severity;

use super::{FileJffs2, Jffs2Shape, mount};
use crate::check::{CheckReport, Finding, ImageCheck, Layer, Origin, VolumeCheck};
use crate::detect::Found;
use crate::extract::{show_name, show_path};
use crate::walk::Walk;
use crate::{Image, ImageError};

/// Bytes of a file that are read at a time.
const PIECE: usize = 1 << 20;

const LEFT_OUT: &str = "Linux leaves the node out: what it held is missing, or older";

/// Checks a JFFS2.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn check(
    image: &Image,
    found: &Found,
    shape: &Jffs2Shape,
    origin: &Origin,
    report: &mut CheckReport,
) -> Result<ImageCheck, ImageError> {
    let mut checked = VolumeCheck::bare_jffs2();
    match mount(image.store()?, found, shape) {
        Ok(mut fs) => {
            checked.mounts = true;
            Check { fs: &mut fs, told: 0, origin, report }.run(&mut checked);
        }
        Err(ImageError::Jffs2(error)) => {
            let consequence = "Linux does not mount the filesystem";
            report.add(Finding::new(
                Layer::Jffs2,
                Severity::Damaged,
                "filesystem",
                error.to_string(),
                consequence,
            ));
        }
        Err(error) => return Err(error),
    }
    Ok(ImageCheck { offset: origin.file_byte(0), jffs2: true, ..ImageCheck::bare(found, checked) })
}

struct Check<'c> {
    fs: &'c mut FileJffs2,
    /// Damage that has its finding.
    told: usize,
    origin: &'c Origin,
    report: &'c mut CheckReport,
}

impl Check<'_> {
    fn run(&mut self, checked: &mut VolumeCheck) {
        self.tell(None);
        let mut walk = Walk::new(self.fs.root());
        let mut seen = BTreeSet::new();
        while let Some(directory) = walk.next(self.fs) {
            let directory = match directory {
                Ok(directory) => directory,
                Err((path, error)) => {
                    self.lose("directory", &error.to_string(), show_path(&path));
                    continue;
                }
            };
            checked.directories += 1;
            let folder = show_path(&directory.path);
            for entry in directory.entries {
                let path = format!("{}/{}", folder.trim_end_matches('/'), show_name(&entry.name));
                match self.read(entry.inode) {
                    Ok(Some(bytes)) if seen.insert(entry.inode) => {
                        checked.files += 1;
                        checked.bytes = checked.bytes.saturating_add(bytes);
                    }
                    Ok(_) => {}
                    Err(error) => self.lose("file", &error.to_string(), path.clone()),
                }
                self.tell(Some(&path));
            }
        }
    }

    /// Reads all that a file has; its bytes, or nothing of a directory.
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

    fn lose(&mut self, structure: &'static str, what: &str, path: String) {
        let mut finding = Finding::new(Layer::Jffs2, Severity::Damaged, structure, what, "it cannot be read");
        finding.name_paths(std::iter::once(path));
        self.report.add(finding);
    }

    /// Makes findings of the damage that was met since the last call, by a file or while mounting.
    fn tell(&mut self, path: Option<&str>) {
        let new: Vec<_> = self.fs.damaged_nodes()[self.told..].to_vec();
        self.told += new.len();
        for damage in new {
            let what = damage.fault.to_string();
            let mut finding = Finding::new(Layer::Jffs2, Severity::Damaged, "node", what, LEFT_OUT);
            finding.offset = Some(self.origin.file_byte(damage.at));
            finding.name_paths(path.map(str::to_owned).into_iter());
            self.report.add(finding);
        }
    }
}

//! Description of a JFFS2, and how to make one like it.

use std::fmt;

use floatgate_stack::fs::{FileSystem, FileType};
use floatgate_stack::jffs2::Counts;
use serde::Serialize;

use super::{FileJffs2, Jffs2Shape};
use crate::check::Origin;
use crate::info::size;
use crate::words::count;

/// Contents of a JFFS2.
#[derive(Clone, Debug, Serialize)]
pub struct Jffs2Info {
    /// Byte order and eraseblocks.
    #[serde(flatten)]
    pub shape: Jffs2Shape,
    /// Eraseblocks in the image.
    pub eraseblocks: u64,
    /// Of these, such with a summary of their nodes at the end.
    pub summaries: u32,
    /// Of these, such without any node but a clean marker.
    pub empty: u32,
    /// Of these, such as are marked bad in the OOB of a dump.
    pub bad: u32,
    /// Eraseblocks begin with a clean marker.
    pub clean_markers: bool,
    /// Inode nodes.
    pub inode_nodes: u64,
    /// Dirent nodes.
    pub dirent_nodes: u64,
    /// Nodes of extended attributes.
    pub xattr_nodes: u64,
    /// Nodes of the other byte order among those of the filesystem, which are left out.
    pub foreign_nodes: u64,
    /// Byte of the file where the first of them begins.
    pub foreign_offset: Option<u64>,
    /// The highest inode number of the image that this one is to be appended to, if it is an incremental one.
    pub base_inodes: Option<u32>,
    /// Directories that can be reached.
    pub directories: u64,
    /// Other files that can be reached.
    pub files: u64,
    /// Damage that mounting found.
    pub damage: Vec<String>,
}

/// Describes a mounted JFFS2 that has its place in a file.
pub(crate) fn jffs2_info(mut fs: FileJffs2, shape: Jffs2Shape, len: u64, origin: &Origin) -> Jffs2Info {
    let Counts { summaries, empty, bad, clean_markers, foreign_nodes, first_foreign, .. } = *fs.counts();
    let Counts { inode_nodes, dirent_nodes, xattr_nodes, base_inodes, .. } = *fs.counts();
    let (mut directories, mut files) = (0, 0);
    for inode in fs.inodes().unwrap_or_default() {
        match fs.attributes(inode) {
            Ok(attributes) if attributes.file_type == FileType::Directory => directories += 1,
            Ok(_) => files += 1,
            Err(_) => {}
        }
    }
    Jffs2Info {
        shape,
        eraseblocks: len.div_ceil(u64::from(shape.erase_bytes)),
        summaries,
        empty,
        bad,
        foreign_nodes,
        foreign_offset: first_foreign.map(|at| origin.file_byte(at)),
        // In eraseblocks with a summary nobody looks for them.
        clean_markers: clean_markers > 0 || shape.markers,
        inode_nodes,
        dirent_nodes,
        xattr_nodes,
        base_inodes,
        directories,
        files,
        damage: fs.damage().iter().map(ToString::to_string).collect(),
    }
}

/// Damage that is shown.
const SHOWN: usize = 10;

impl fmt::Display for Jffs2Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.shape.big_endian { "big" } else { "little" };
        let erase = u64::from(self.shape.erase_bytes);
        writeln!(
            f,
            "  {order}-endian, {} of {}{}: {} with a summary, {} empty{}",
            count(self.eraseblocks, "eraseblock"),
            size(erase),
            if self.shape.erase_is_guess { " (a guess)" } else { "" },
            self.summaries,
            self.empty,
            if self.bad > 0 { format!(", {} bad", self.bad) } else { String::new() }
        )?;
        let nodes = [
            (self.inode_nodes, "inode node"),
            (self.dirent_nodes, "dirent node"),
            (self.xattr_nodes, "xattr node"),
        ];
        let nodes: Vec<String> = nodes.iter().map(|&(number, name)| count(number, name)).collect();
        writeln!(f, "  {}", nodes.join(", "))?;
        if let Some(offset) = self.foreign_offset {
            let foreign = count(self.foreign_nodes, "node");
            writeln!(
                f,
                "  {foreign} of the other byte order left out, the first at byte {offset} ({offset:#x})"
            )?;
        }
        writeln!(f, "  {} and {}", count(self.directories, "directory"), count(self.files, "file"))?;
        if let Some(last) = self.base_inodes {
            writeln!(f, "  incremental, to be appended to the image with the inodes up to {last}")?;
        }
        for damage in self.damage.iter().take(SHOWN) {
            writeln!(f, "  damaged: {damage}")?;
        }
        if self.damage.len() > SHOWN {
            writeln!(f, "  and {} more in the JSON report", self.damage.len() - SHOWN)?;
        }
        writeln!(f, "  to make such an image:")?;
        let markers = if self.clean_markers { "" } else { " -n" };
        writeln!(f, "    mkfs.jffs2 --{order}-endian -e {erase}{markers} -r DIRECTORY -o image.jffs2")?;
        if self.summaries > 0 {
            writeln!(f, "    sumtool --{order}endian -e {erase}{markers} -i image.jffs2 -o image.sum.jffs2")?;
        }
        Ok(())
    }
}

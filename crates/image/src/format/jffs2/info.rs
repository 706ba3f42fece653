//! Description of a JFFS2, and the command that creates a similar one.

use std::fmt;

use floatgate_media::jffs2::OLD_MAGIC;
use floatgate_stack::fs::{FileSystem, FileType};
use floatgate_stack::jffs2::Counts;
use serde::Serialize;

use super::around::around;
use super::mount::{FileJffs2, damage};
use super::shape::Jffs2Shape;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::image::Image;
use crate::part::Part;
use crate::words::{count, size};

/// Contents of a JFFS2.
#[derive(Clone, Debug, Serialize)]
pub struct Jffs2Info {
    /// Byte order and eraseblocks.
    #[serde(flatten)]
    pub shape: Jffs2Shape,
    /// Number of eraseblocks in the image.
    pub eraseblocks: u64,
    /// Number of eraseblocks that end with a summary of their nodes.
    pub summaries: u32,
    /// Number of eraseblocks without nodes other than a clean marker.
    pub empty: u32,
    /// Number of eraseblocks that are marked bad in the OOB of a dump.
    pub bad: u32,
    /// True if eraseblocks begin with a clean marker.
    pub clean_markers: bool,
    /// Number of inode nodes.
    pub inode_nodes: u64,
    /// Number of dirent nodes.
    pub dirent_nodes: u64,
    /// Number of nodes of extended attributes.
    pub xattr_nodes: u64,
    /// Number of nodes with the other byte order or another magic number among the nodes of the filesystem; they are
    /// ignored.
    pub foreign_nodes: u64,
    /// Offset of the first of these nodes in the file.
    pub foreign_offset: Option<u64>,
    /// For an incremental image, the highest inode number of the image to which it is appended.
    pub base_inodes: Option<u32>,
    /// Number of reachable directories.
    pub directories: u64,
    /// Number of other reachable files.
    pub files: u64,
    /// Damage that the mount found, with offsets in the file.
    pub damage: Vec<String>,
    /// Parts of the file before and after the nodes that are neither nodes nor erased, and have no recognised format.
    pub around: Vec<Part>,
}

/// Describes a mounted JFFS2.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn jffs2_info(
    image: &Image,
    found: &ImageLocation,
    shape: Jffs2Shape,
    mut fs: FileJffs2,
) -> Result<Jffs2Info, ImageError> {
    let around = around(image, found, &shape, &fs)?.into_iter().flatten().collect();
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
    Ok(Jffs2Info {
        shape,
        eraseblocks: found.len.div_ceil(u64::from(shape.erase_bytes)),
        summaries,
        empty,
        bad,
        foreign_nodes,
        foreign_offset: first_foreign.map(|at| image.file_byte(found.offset + at)),
        // A mount does not search clean markers in eraseblocks with a summary.
        clean_markers: clean_markers > 0 || shape.markers,
        inode_nodes,
        dirent_nodes,
        xattr_nodes,
        base_inodes,
        directories,
        files,
        damage: damage(&fs, &image.origin(found)).into_iter().map(|damage| damage.what).collect(),
        around,
    })
}

/// Largest number of damages that are listed.
const SHOWN: usize = 10;

impl fmt::Display for Jffs2Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.shape.big_endian { "big" } else { "little" };
        if self.shape.old_magic {
            writeln!(
                f,
                "  magic {OLD_MAGIC:#06x} of the first JFFS2 (2001): today's Linux does not mount it"
            )?;
        }
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
                "  {foreign} of the other byte order or magic left out, the first at byte {offset} ({offset:#x})"
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
        for part in &self.around {
            let (start, end) = (part.offset, part.end());
            writeln!(
                f,
                "  bytes {start} to {end} ({start:#x} to {end:#x}) are neither nodes nor erased flash: `floatgate image check` says more"
            )?;
        }
        writeln!(f, "  to make such an image:")?;
        let markers = if self.clean_markers { "" } else { " -n" };
        let xattrs = if self.xattr_nodes > 0 { " --with-xattr" } else { "" };
        writeln!(
            f,
            "    mkfs.jffs2 --{order}-endian -e {erase}{markers}{xattrs} -r DIRECTORY -o image.jffs2"
        )?;
        if self.summaries > 0 {
            writeln!(f, "    sumtool --{order}endian -e {erase}{markers} -i image.jffs2 -o image.sum.jffs2")?;
        }
        Ok(())
    }
}

//! Command that writes an image to the flash of a board: `docs/write-back.md`.

use std::path::Path;

use crate::image::Image;

/// Kind of an image, which determines how it is written to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// A UBI device; the erase counters of the flash are kept.
    Ubi {
        /// Offset of the VID header in a PEB, bytes: `ubiformat` also writes free PEBs.
        vid_header_offset: u32,
    },
    /// A UBIFS without UBI, which is written to a volume.
    Ubifs,
    /// A JFFS2 with clean markers between its nodes.
    Jffs2OnNor,
    /// A JFFS2 whose clean markers are in the OOB.
    Jffs2OnNand,
    /// A filesystem of another format, without OOB.
    Plain,
    /// Pages with their OOB.
    WithOob,
    /// A file that contains other data in addition to the image.
    Mixed,
}

impl WriteBack {
    /// Kind of a file.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        match &image.found[..] {
            _ if image.corrected.is_some() => Self::WithOob,
            [found] if found.offset == 0 => found.format().write_back(),
            _ => Self::Mixed,
        }
    }

    /// Line with the commands for a file.
    #[must_use]
    pub fn line(self, file: &Path) -> String {
        let file = file.display();
        let commands = match self {
            Self::Ubi { vid_header_offset } => {
                format!("`ubiformat /dev/mtdN -O {vid_header_offset} -f {file}`")
            }
            Self::Ubifs => format!("`ubiupdatevol /dev/ubi0_N {file}`"),
            Self::Jffs2OnNor => format!("`flashcp {file} /dev/mtdN`"),
            Self::Jffs2OnNand => {
                format!("`flash_erase -j /dev/mtdN 0 0 && nandwrite -p /dev/mtdN {file}`")
            }
            Self::Plain => {
                format!("`flash_erase /dev/mtdN 0 0 && nandwrite -p /dev/mtdN {file}`, or `flashcp` on NOR")
            }
            Self::WithOob => {
                format!("`flash_erase /dev/mtdN 0 0 && nandwrite -n -o /dev/mtdN {file}`, or a programmer")
            }
            Self::Mixed => "in the way in which the file was read: it holds more than one image".to_owned(),
        };
        format!("to write it back: {commands} (docs/write-back.md)")
    }
}

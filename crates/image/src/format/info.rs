//! Description of an image of any format.

use std::fmt;

use serde::Serialize;

use super::jffs2::info::Jffs2Info;
use super::tree::shape::TreeInfo;
use super::ubi::info::UbiInfo;
use super::ubifs::info::UbifsInfo;
use crate::words::size;

/// Description of one image.
#[derive(Clone, Debug, Serialize)]
pub struct OneImage {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes, without the OOB.
    pub len: u64,
    /// The UBI device, if the image is one.
    pub ubi: Option<UbiInfo>,
    /// The UBIFS, if it is not in a UBI device.
    pub ubifs: Option<UbifsInfo>,
    /// The JFFS2, if the image is one.
    pub jffs2: Option<Jffs2Info>,
    /// The read-only filesystem, if the image is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeInfo>,
    /// True for a UBIFS without UBI.
    #[serde(skip)]
    pub bare: bool,
    /// Message if the file ends within the image: within an eraseblock of a UBI device, a node of a JFFS2, a page of a YAFFS2, or before the end that a
    /// superblock tells.
    pub cut: Option<String>,
    /// Damage, or the reason why the description is incomplete.
    pub damage: Option<String>,
}

impl OneImage {
    /// Description of an image at an offset of the file, without properties.
    pub(crate) const fn new(offset: u64, len: u64) -> Self {
        Self {
            offset,
            len,
            ubi: None,
            ubifs: None,
            jffs2: None,
            tree: None,
            bare: false,
            cut: None,
            damage: None,
        }
    }

    /// Removes all volumes except the volume with this name or number; false if there is none. Adds the names of all
    /// volumes to `names`.
    pub(crate) fn keep_volume(&mut self, wanted: &str, names: &mut Vec<String>) -> bool {
        let Some(ubi) = &mut self.ubi else { return false };
        names.extend(ubi.volumes.iter().map(|volume| volume.name.clone()));
        let by_name = ubi.volumes.iter().any(|volume| volume.name == wanted);
        ubi.volumes.retain(|volume| volume.name == wanted || !by_name && wanted.parse() == Ok(volume.id));
        !ubi.volumes.is_empty()
    }
}

impl fmt::Display for OneImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (&self.jffs2, &self.tree, self.bare) {
            (_, Some(tree), _) => tree.kind.name(),
            (Some(_), ..) => "JFFS2",
            (None, _, true) => "UBIFS without UBI",
            (None, _, false) => "UBI",
        };
        writeln!(f, "{kind} at byte {} ({:#x}), {}", self.offset, self.offset, size(self.len))?;
        if let Some(damage) = &self.damage {
            writeln!(f, "  damaged: {damage}")?;
        }
        if let Some(cut) = &self.cut {
            writeln!(f, "  {cut}")?;
        }
        if let Some(jffs2) = &self.jffs2 {
            jffs2.fmt(f)?;
        }
        if let Some(tree) = &self.tree {
            tree.show(f)?;
        }
        if let Some(ubi) = &self.ubi {
            ubi.fmt(f)?;
        }
        if let Some(ubifs) = &self.ubifs {
            ubifs.show(f, "  ")?;
            ubifs.show_mkfs(f, "  ", "image.ubifs")?;
        }
        Ok(())
    }
}

//! Description of an image of any format.

use std::fmt;

use serde::Serialize;

use super::jffs2::info::Jffs2Info;
use super::tree::shape::TreeInfo;
use super::ubi::info::UbiInfo;
use super::ubifs::info::UbifsInfo;
use crate::words::size;

/// One image.
#[derive(Clone, Debug, Serialize)]
pub struct OneImage {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes, without the OOB where there is some.
    pub len: u64,
    /// The UBI device, if it is one.
    pub ubi: Option<UbiInfo>,
    /// The filesystem, if there is no UBI around it.
    pub ubifs: Option<UbifsInfo>,
    /// The filesystem, if it is a JFFS2.
    pub jffs2: Option<Jffs2Info>,
    /// The filesystem, if it is one that is only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeInfo>,
    /// It is a UBIFS without UBI.
    #[serde(skip)]
    pub bare: bool,
    /// The file ends within an eraseblock of a UBI device.
    pub cut: Option<String>,
    /// Damage, or the reason for which more cannot be said.
    pub damage: Option<String>,
}

impl OneImage {
    /// An image at its place in the file, whose properties are still unknown.
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

    /// Leaves only the volumes of a name or number; false if there is none. `names` gets those of all.
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

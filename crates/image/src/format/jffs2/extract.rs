//! Files of a JFFS2 for an extraction, in their current or an earlier state.

use super::around::{around, overwritten};
use super::cut::Cut;
use super::history::{self, Mounted};
use super::mount::{FileJffs2, ReportedDamage, damage, losses, mount};
use super::shape::Jffs2Shape;
use crate::ImageError;
use crate::extract::source::FileSystemSource;
use crate::extract::target::{ExtractError, ExtractLimits, Extracted, Extracting, Target};
use crate::extract::walk::extract;
use crate::format::location::ImageLocation;
use crate::image::{Image, Origin};
use crate::part::Part;
use crate::report::{At, Loss};
use crate::words::BEHIND_CUT;

/// A mounted filesystem, with its offset in the file.
pub(super) struct Files {
    mounted: Mounted,
    origin: Origin,
}

impl Files {
    /// Files in their current state.
    ///
    /// # Errors
    /// No part of the image can be mounted, or the file cannot be read.
    pub(super) fn open(image: &Image, found: &ImageLocation, shape: &Jffs2Shape) -> Result<Self, ImageError> {
        let mut fs = mount(image.store()?, found, shape)?;
        let mut losses = losses(&mut fs, "have no node");
        let cut = Cut::find(image, found, shape)?;
        let cut = cut.map(|cut| Loss::new(&[], format!("JFFS2: {}: {BEHIND_CUT}", cut.what())));
        losses.splice(0..0, cut);
        losses.extend(image.shift_losses(found));
        losses.extend(beside(image, found, shape, &fs)?);
        let mounted = Mounted { fs, losses, notes: Vec::new() };
        Ok(Self { mounted, origin: image.origin(found) })
    }

    /// Files in the state at a point in time.
    ///
    /// # Errors
    /// A point in time of another format, or one without remaining nodes; the file cannot be read.
    pub(super) fn at(
        image: &Image,
        found: &ImageLocation,
        shape: &Jffs2Shape,
        at: At,
    ) -> Result<Self, ImageError> {
        Ok(Self { mounted: history::at(image, found, shape, at)?, origin: image.origin(found) })
    }
}

/// Bytes around the nodes of a JFFS2 that may be former nodes.
fn beside(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    fs: &FileJffs2,
) -> Result<Vec<Loss>, ImageError> {
    let parts = around(image, found, shape, fs)?;
    let loss = |part: Part| {
        let (start, end) = (part.offset, part.end());
        let what = format!(
            "bytes {start} to {end} beside the nodes are neither nodes nor erased flash: other data, or files that were there are missing"
        );
        Loss::new(&[], what)
    };
    Ok(overwritten(image, found, parts, fs).map(loss).collect())
}

impl Extracting for Files {
    fn run(
        self: Box<Self>,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        let Self { mounted: Mounted { mut fs, losses, notes }, origin } = *self;
        let mut extracted = extract(&mut FileSystemSource(&mut fs), target, limits, progress)?;
        extracted.notes.extend(notes);
        let (kept, left_out): (Vec<_>, Vec<_>) =
            damage(&fs, &origin).into_iter().partition(|damage| damage.is_kept);
        extracted.notes.extend(kept.into_iter().map(|damage| damage.what));
        let lost = |damage: ReportedDamage| {
            Loss::new(&[], format!("{}: what it held is missing, or older", damage.what))
        };
        extracted.losses.extend(left_out.into_iter().map(lost).chain(losses));
        Ok(extracted)
    }
}

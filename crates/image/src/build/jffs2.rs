//! Builder of JFFS2 images.

use floatgate_media::jffs2::Compressor;
use floatgate_mtd::{FlashKind, Geometry, Instant};
use floatgate_stack::fs::Compression;
use floatgate_stack::jffs2::{Jffs2, MountOptions};
use floatgate_stack::store::Store;
use floatgate_stack::{StoreFlash, StoreMode};

use super::{BuildError, BuildOptions, Built, FilledFiles, Jffs2Options, Source, fill_filesystem};
use crate::ImageError;
use crate::format::jffs2::write::mark_clean;
use crate::image::fill;

/// Number of eraseblocks in addition to those that the files need: blocks that writing leaves free, and a partly filled
/// one.
const SPARE_BLOCKS: u64 = 8;

/// Smallest eraseblock that Linux mounts, bytes.
const ERASE_MIN: u32 = 4 << 10;

/// Builds a JFFS2 image into a store; see [`build`](super::build).
pub(super) fn build(
    source: &Source,
    store: impl Store + 'static,
    own: &Jffs2Options,
    options: &BuildOptions,
) -> Result<Built, BuildError> {
    let flash = StoreFlash::new(store, geometry(source, own, options)?, StoreMode::WriteThrough);
    let mount = MountOptions {
        endian: Some(own.endian()),
        compressors: compressors(options.format.compression)?,
        summaries: own.summaries,
        stable: true,
        ..MountOptions::default()
    };
    let mut fs = Jffs2::mount(flash, Instant::ZERO, &mount).map_err(|(error, _)| ImageError::Jffs2(error))?;
    let filled = fill_filesystem(source, &mut fs, Compression::None, options);
    let failed = |error| match error {
        floatgate_stack::fs::Error::NoSpace => BuildError::NoSpace,
        error => ImageError::from(error).into(),
    };
    let (unmounted, mut flash) = match fs.unmount() {
        Ok(flash) => (Ok(()), flash),
        Err((error, flash)) => (Err(failed(error)), flash),
    };
    let FilledFiles { entries, bytes, losses, .. } = filled?;
    unmounted?;
    flash.fill_last_block().map_err(ImageError::Store)?;
    let erase = u64::from(options.shape.peb_bytes);
    let mut store = flash.into_store();
    let image = store.size_bytes();
    if let Some(pad) = own.pad_bytes.filter(|&pad| pad < image) {
        return Err(BuildError::PadTooSmall { image, pad });
    }
    // A JFFS2 without files is one erased eraseblock.
    let image_bytes = own.pad_bytes.unwrap_or(0).max(image).max(1).next_multiple_of(erase);
    fill(&mut store, image_bytes).map_err(ImageError::Store)?;
    // Cleanmarkers in the padding, as `mkfs.jffs2 --pad` writes them. An image without files would
    // consist of markers alone, so it gets none.
    if options.shape.page_bytes == 1 && image > 0 {
        mark_clean(&mut store, image..image_bytes, erase, own.endian())?;
    }
    let blocks = super::lebs(image_bytes / erase);
    Ok(Built { entries, bytes, image_bytes, lebs: blocks, max_lebs: blocks, losses, warnings: Vec::new() })
}

/// Geometry of the flash, large enough for the files and the blocks that writing leaves free; at most 4
/// GiB.
fn geometry(source: &Source, own: &Jffs2Options, options: &BuildOptions) -> Result<Geometry, BuildError> {
    let (page, erase) = (options.shape.page_bytes, options.shape.peb_bytes);
    if erase < ERASE_MIN || !erase.is_multiple_of(4) || page == 0 || !erase.is_multiple_of(page) {
        let what = format!(
            "JFFS2 takes eraseblocks of {ERASE_MIN} bytes and more, a multiple of the page: {erase} and {page}"
        );
        return Err(BuildError::Shape(what));
    }
    let known = options.shape.size.map(|size| u64::from(size.pebs) * u64::from(erase)).or(own.pad_bytes);
    let files = source.estimate().or(known).ok_or(BuildError::SizeUnknown { is_jffs2: true })?;
    let blocks = files.saturating_add(files / 16).div_ceil(u64::from(erase));
    // 5 % of the blocks are added: writing keeps 2 % free, and the other 3 % are a margin.
    let blocks = blocks + blocks / 20 + SPARE_BLOCKS;
    let size_bytes = (blocks * u64::from(erase)).min((1 << 32) - u64::from(erase));
    let kind = if page == 1 { FlashKind::Nor } else { FlashKind::SlcNand };
    Ok(Geometry::plain(kind, size_bytes / u64::from(erase) * u64::from(erase), erase, page))
}

/// Compressors in the order in which they are tried.
fn compressors(compression: Compression) -> Result<Vec<Compressor>, BuildError> {
    Ok(match compression {
        Compression::None => Vec::new(),
        Compression::Zlib => vec![Compressor::Zlib, Compressor::Rtime],
        Compression::Lzo => vec![Compressor::Lzo],
        _ => return Err(BuildError::Compressor),
    })
}

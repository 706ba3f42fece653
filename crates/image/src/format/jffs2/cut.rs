//! A file that ends within a node: the file is cut.
//!
//! `mkfs.jffs2` without padding writes files that end after their last node, so the length of a file alone tells nothing.

use floatgate_media::jffs2::{Header, NODE_ALIGN};

use super::nodes::{Piece, pieces};
use super::shape::Jffs2Shape;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::image::Image;
use crate::words::count;

/// The node in which a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Offset of the node in the image.
    pub(super) at: u64,
    /// Number of its bytes in the file.
    there: usize,
    /// Number of all its bytes; `None` if the file ends within its header.
    len: Option<u32>,
}

impl Cut {
    /// The node in which a file ends; `None` if the file ends after a node, or in erased flash.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn find(
        image: &Image,
        found: &ImageLocation,
        shape: &Jffs2Shape,
    ) -> Result<Option<Self>, ImageError> {
        let store = image.store()?;
        let end = found.offset + found.len;
        let rest = found.len % u64::from(shape.erase_bytes);
        if rest == 0 || end < store.size_bytes() {
            return Ok(None);
        }
        let mut block = vec![0; usize::try_from(rest).unwrap_or(0)];
        store.read_at(end - rest, &mut block).map_err(ImageError::Store)?;
        let cut = last_node(&block, shape);
        Ok(cut.map(|(at, len)| Self { at: found.len - rest + at as u64, there: block.len() - at, len }))
    }

    /// Description of the cut.
    pub(super) fn what(&self) -> String {
        let node = match self.len {
            Some(len) => format!("a node of {len}"),
            None => "the header of a node".to_owned(),
        };
        format!("the file is cut: it ends {} into {node}", count(self.there as u64, "byte"))
    }
}

/// Offset and length of the node that begins in an eraseblock and continues after its last byte.
fn last_node(block: &[u8], shape: &Jffs2Shape) -> Option<(usize, Option<u32>)> {
    let endian = shape.endian();
    let (start, Piece::Unknown(bytes)) = pieces(block, endian).last()? else { return None };
    let places = (0..bytes.len()).step_by(NODE_ALIGN as usize);
    places.filter_map(|place| Some((start + place, block.get(start + place..)?))).find_map(|(at, rest)| {
        match Header::parse(rest, endian) {
            Ok(header) => (header.len as usize > rest.len()).then_some((at, Some(header.len))),
            Err(_) => {
                let magic = endian.magic();
                let is_begun =
                    rest.len() < Header::SIZE && rest.iter().zip(magic).all(|(one, other)| *one == other);
                is_begun.then_some((at, None))
            }
        }
    })
}

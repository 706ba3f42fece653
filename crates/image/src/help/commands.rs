//! Commands that advice and findings consist of.

use crate::pages::PageShape;
use crate::part::Part;

/// Advice for what stands around an image, which is a part of the file: `over` are the eraseblocks that the image has up to the end of the file.
pub(crate) fn cuts_out(own: Part, over: Option<u32>) -> String {
    let dd = own.dd();
    match over {
        Some(over) => format!(
            "{dd} cuts out what is left of it, and `floatgate image put --lebs {over}` makes that as long as it was; with --recover it takes the bytes for a part of the image"
        ),
        None => format!("{dd} cuts out what is left of it"),
    }
}

/// The command that writes the data of a dump without its OOB.
pub(crate) fn strip_command(pages: &PageShape) -> String {
    let PageShape { page_bytes, oob_bytes, pages_per_block } = pages;
    format!(
        "`floatgate ecc decode DUMP --page-size {page_bytes} --oob-size {oob_bytes} --block-pages {pages_per_block} --code none -o DATA`"
    )
}

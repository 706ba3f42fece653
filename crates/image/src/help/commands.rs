//! Commands that advice and findings consist of.

use crate::pages::PageShape;
use crate::part::Part;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, Command, CommandLine, CommandOption};

/// Advice for what stands around an image, which is a part of the file: `over` are the eraseblocks that the image has up to the end of the file.
pub(crate) fn cuts_out(own: Part, over: Option<u32>) -> Advice {
    let advice = advice! { own.dd(), " cuts out what is left of it" };
    match over {
        Some(over) => advice.and(advice! { ", and ", Command::ImagePut.with(CommandOption::Lebs).with(over), " makes that as long as it was; with ", CommandOption::Recover, " it takes the bytes for a part of the image" }),
        None => advice,
    }
}

/// The command that writes the data of a dump without its OOB.
pub(crate) fn strip_command(pages: &PageShape) -> CommandLine {
    let PageShape { page_bytes, oob_bytes, pages_per_block } = pages;
    let decode = Command::EccDecode.with("DUMP").with(CommandOption::PageSize).with(page_bytes);
    let decode = decode.with(CommandOption::OobSize).with(oob_bytes);
    let decode = decode.with(CommandOption::BlockPages).with(pages_per_block);
    decode.with(CommandOption::Code).with("none").with(CommandOption::Output).with("DATA")
}

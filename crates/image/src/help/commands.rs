//! Commands in advice and findings.

use crate::pages::PageShape;
use crate::part::Part;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, Command, CommandLine, CommandOption};

/// Advice about data around an image that is a part of the file. `over` is the number of eraseblocks of the image up
/// to the end of the file.
pub(crate) fn cuts_out(own: Part, over: Option<u32>) -> Advice {
    let advice = advice! { own.dd(), " cuts out what is left of it" };
    match over {
        Some(over) => advice.and(advice! { ", and ", Command::ImagePut.with(CommandOption::Lebs).with(over), " makes that as long as it was; with ", CommandOption::Recover, " it takes the bytes for a part of the image" }),
        None => advice,
    }
}

/// Command that writes the data of a dump without OOB and without corrections.
pub(crate) fn strip_command(pages: &PageShape) -> CommandLine {
    let decode = sized(Command::EccDecode, pages).with(CommandOption::Code).with("none");
    decode.with(CommandOption::Output).with("DATA")
}

/// Command that shows the codes and layouts of a dump.
pub(crate) fn check_command(pages: &PageShape) -> CommandLine {
    sized(Command::EccCheck, pages)
}

fn sized(command: Command, pages: &PageShape) -> CommandLine {
    let PageShape { page_bytes, oob_bytes, pages_per_block } = pages;
    let command = command.with("DUMP").with(CommandOption::PageSize).with(page_bytes);
    let command = command.with(CommandOption::OobSize).with(oob_bytes);
    command.with(CommandOption::BlockPages).with(pages_per_block)
}

//! Advice of the Rust libraries, reworded for Python.

use floatgate_mtd::advice::{Advice, Command, CommandLine, CommandOption, Piece};

/// Text of an advice with Python names. Commands with arguments stay, and so do options that only commands have, with a
/// remark that they belong to commands.
pub(crate) fn in_python(advice: &Advice) -> String {
    let text: String = advice.pieces().iter().map(piece).collect();
    let is_left = |piece: &Piece| matches!(piece, Piece::Option(option) if argument(*option).is_none());
    if advice.pieces().iter().any(is_left) {
        format!("{text} (what begins with -- is an option of the command `floatgate`)")
    } else {
        text
    }
}

fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Option(option) => argument(*option).map(|argument| format!("`{argument}`")),
        Piece::Command(CommandLine { command, arguments }) if arguments.is_empty() => {
            call(*command).map(|call| format!("`{call}`"))
        }
        Piece::Set { key, value } => Some(format!("`set={{\"{key}\": \"{value}\"}}`")),
        Piece::Text(_) | Piece::Command(_) | Piece::Shell(_) => None,
    }
    .unwrap_or_else(|| piece.to_string())
}

/// Python argument with the same effect as an option; `None` if there is none.
const fn argument(option: CommandOption) -> Option<&'static str> {
    match option {
        CommandOption::Blocks => Some("blocks"),
        CommandOption::Code => Some("codes"),
        CommandOption::Compress => Some("compress"),
        CommandOption::FirstBlock => Some("first_block"),
        CommandOption::Fs => Some("fs"),
        CommandOption::Grow => Some("grow=True"),
        CommandOption::Offset => Some("offset"),
        CommandOption::Output => Some("output"),
        CommandOption::Part => Some("part"),
        CommandOption::PebSize => Some("peb_size"),
        CommandOption::Recover => Some("recover=True"),
        CommandOption::Recursive => Some("recursive=True"),
        CommandOption::ScrubDays => Some("scrub_days"),
        CommandOption::SecondBlock => Some("secondary_block"),
        CommandOption::Set => Some("set"),
        CommandOption::Skip => Some("skip"),
        CommandOption::Temperature => Some("temperature_c"),
        CommandOption::Volume => Some("volume"),
        CommandOption::Years => Some("years"),
        CommandOption::Area
        | CommandOption::At
        | CommandOption::AuthHashes
        | CommandOption::AuthKey
        | CommandOption::BlockPages
        | CommandOption::EccOnly
        | CommandOption::ExampleTrace
        | CommandOption::Fanout
        | CommandOption::Help
        | CommandOption::History
        | CommandOption::Inode
        | CommandOption::JournalSize
        | CommandOption::Json
        | CommandOption::Kind
        | CommandOption::Layout
        | CommandOption::Leb
        | CommandOption::Lebs
        | CommandOption::MaxLebs
        | CommandOption::Nodes
        | CommandOption::OobSize
        | CommandOption::Pad
        | CommandOption::PageSize
        | CommandOption::Path
        | CommandOption::Peb
        | CommandOption::Raw
        | CommandOption::Repair
        | CommandOption::Rw
        | CommandOption::Test
        | CommandOption::VolumeSize
        | CommandOption::Write => None,
    }
}

/// Python call with the same effect as a command; `None` if there is none.
const fn call(command: Command) -> Option<&'static str> {
    match command {
        Command::Age => Some("age()"),
        Command::Fs => Some("fs()"),
        Command::ImageBuild => Some("Image.build()"),
        Command::ImageCheck => Some("Image.check()"),
        Command::ImageExtract => Some("Image.extract()"),
        Command::ImageInfo => Some("Image.info()"),
        Command::ImageLs => Some("Image.ls()"),
        Command::ImagePut => Some("Image.edit()"),
        Command::ImageStat => Some("Image.stat()"),
        Command::Parts => Some("parts()"),
        Command::Probe => Some("probe()"),
        Command::Setups => Some("setups()"),
        Command::Speed => Some("speed()"),
        Command::Sweep => Some("sweep()"),
        Command::EccAdvise => Some("ecc.advise()"),
        Command::EccCheck
        | Command::EccDecode
        | Command::Endurance
        | Command::ImageCat
        | Command::ImageDump
        | Command::OtpInfo
        | Command::Report => None,
    }
}

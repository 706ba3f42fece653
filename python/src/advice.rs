//! Advice of the libraries in Python's words.

use floatgate_mtd::advice::{Advice, Command, CommandLine, CommandOption, Piece};

/// Advice with the names that Python has. Commands with arguments stay, and so do options that only commands have; it says which those are.
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
        Piece::Text(_) | Piece::Command(_) | Piece::Shell(_) => None,
    }
    .unwrap_or_else(|| piece.to_string())
}

/// The argument that does the same as an option.
const fn argument(option: CommandOption) -> Option<&'static str> {
    match option {
        CommandOption::Code => Some("codes"),
        CommandOption::Compress => Some("compress"),
        CommandOption::Grow => Some("grow=True"),
        CommandOption::Offset => Some("offset"),
        CommandOption::Output => Some("output"),
        CommandOption::Part => Some("part"),
        CommandOption::PebSize => Some("peb_size"),
        CommandOption::Recover => Some("recover=True"),
        CommandOption::Recursive => Some("recursive=True"),
        CommandOption::Volume => Some("volume"),
        CommandOption::Area
        | CommandOption::At
        | CommandOption::AuthHashes
        | CommandOption::AuthKey
        | CommandOption::BlockPages
        | CommandOption::EccOnly
        | CommandOption::Fanout
        | CommandOption::Help
        | CommandOption::History
        | CommandOption::Inode
        | CommandOption::JournalSize
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
        | CommandOption::VolumeSize => None,
    }
}

/// The call that does the same as a command.
const fn call(command: Command) -> Option<&'static str> {
    match command {
        Command::ImageBuild => Some("Image.build()"),
        Command::ImageCheck => Some("Image.check()"),
        Command::ImageExtract => Some("Image.extract()"),
        Command::ImageInfo => Some("Image.info()"),
        Command::ImageLs => Some("Image.ls()"),
        Command::ImagePut => Some("Image.edit()"),
        Command::ImageStat => Some("Image.stat()"),
        Command::Parts => Some("parts()"),
        Command::EccCheck | Command::EccDecode | Command::ImageCat | Command::ImageDump => None,
    }
}

/// An option in advice, and what Python calls it.
const OPTIONS: &[(&str, &str)] = &[
    ("--grow", "`grow=True`"),
    ("--recover", "`recover=True`"),
    ("--recursive", "`recursive=True`"),
    ("--offset", "`offset`"),
    ("--volume", "`volume`"),
    ("--peb-size", "`peb_size`"),
    ("--compress", "`compress`"),
    ("--part", "`part`"),
    ("--code", "`codes`"),
    ("-o", "`output`"),
    // Those of flash_speed.
    ("-b", "`first_block`"),
    ("-c", "`blocks`"),
    ("-s", "`skip`"),
    ("-k", "`secondary_block`"),
];

/// A command in advice, and the call that does the same.
const COMMANDS: &[(&str, &str)] = &[
    ("floatgate image info", "Image.info()"),
    ("floatgate image check", "Image.check()"),
    ("floatgate image ls", "Image.ls()"),
    ("floatgate image stat", "Image.stat()"),
    ("floatgate image extract", "Image.extract()"),
    ("floatgate image put", "Image.edit()"),
    ("floatgate image build", "Image.build()"),
    ("floatgate setups", "setups()"),
    ("floatgate parts", "parts()"),
    ("floatgate probe", "probe()"),
    ("floatgate sweep", "sweep()"),
    ("floatgate speed", "speed()"),
    ("floatgate age", "age()"),
    ("floatgate fs", "fs()"),
    ("floatgate ecc advise", "ecc()"),
    ("floatgate papers", "papers()"),
];

fn of<'a>(table: &[(&str, &'a str)], word: &str) -> Option<&'a str> {
    table.iter().find(|(ours, _)| *ours == word).map(|(_, python)| *python)
}

/// The same of a text.
pub(crate) fn text_in_python(advice: &str) -> String {
    let mut left_over = false;
    let pieces = advice.split('`').enumerate().map(|(number, piece)| {
        if number % 2 == 1 { format!("`{}`", code(piece)) } else { words(piece, &mut left_over) }
    });
    let text: String = pieces.collect();
    if left_over {
        format!("{text} (what begins with -- is an option of the command `floatgate`)")
    } else {
        text
    }
}

/// What stands in backquotes: a command, or an override such as `chip=NAME`.
fn code(piece: &str) -> String {
    let is_key =
        |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b"._".contains(&b));
    match piece.split_once('=') {
        Some((key, value)) if is_key(key) && !value.contains([' ', '=']) => {
            format!("set={{\"{key}\": \"{value}\"}}")
        }
        _ => of(COMMANDS, piece).unwrap_or(piece).to_owned(),
    }
}

/// Words outside of backquotes; `left_over` becomes true with an option that Python does not have.
fn words(piece: &str, left_over: &mut bool) -> String {
    let is_end = |c: char| !(c.is_ascii_alphabetic() || c == '-');
    let word = |word: &str| {
        let start = word.find('-').filter(|at| word[..*at].bytes().all(|b| b == b'('));
        let Some(start) = start else { return word.to_owned() };
        let end = word[start..].find(is_end).map_or(word.len(), |len| start + len);
        let option = &word[start..end];
        let python = of(OPTIONS, option);
        *left_over |= python.is_none() && option.len() > 2 && option.starts_with("--");
        format!("{}{}{}", &word[..start], python.unwrap_or(option), &word[end..])
    };
    piece.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

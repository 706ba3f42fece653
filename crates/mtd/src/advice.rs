//! Advice for users in error messages. Commands, options and settings in an advice are typed, so that each interface
//! can print them in its own syntax.
//!
//! ```
//! use floatgate_mtd::advice;
//! use floatgate_mtd::advice::{Command, CommandOption};
//!
//! let advice = advice!["the image is unchanged; ", CommandOption::Grow, " lets it grow"];
//! assert_eq!(advice.to_string(), "the image is unchanged; --grow lets it grow");
//! let more = advice![Command::ImagePut.with(CommandOption::Lebs).with(9), " gives it more"];
//! assert_eq!(more.to_string(), "`floatgate image put --lebs 9` gives it more");
//! ```

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

/// An error that the user can act on.
pub trait Help {
    /// Advice, printed after `help:`.
    fn help(&self) -> Advice;

    /// True if the error message already contains the file name.
    fn names_file(&self) -> bool {
        false
    }
}

/// Defines an enum of command line names with their spelling.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident, $($variant:ident = $name:literal,)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $(#[doc = concat!("`", $name, "`.")] $variant,)+
        }

        impl $type {
            /// All variants, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

names! {
    /// An option of the command line, by its name without hyphens.
    CommandOption,
    Area = "area",
    At = "at",
    AuthHashes = "auth-hashes",
    AuthKey = "auth-key",
    BlockPages = "block-pages",
    Blocks = "c",
    Code = "code",
    Compress = "compress",
    EccOnly = "ecc-only",
    ExampleTrace = "example-trace",
    Fanout = "fanout",
    FirstBlock = "b",
    Fs = "fs",
    Grow = "grow",
    Help = "help",
    History = "history",
    Inode = "inode",
    JournalSize = "journal-size",
    Json = "json",
    Kind = "kind",
    Layout = "layout",
    Leb = "leb",
    Lebs = "lebs",
    MaxLebs = "max-lebs",
    Nodes = "nodes",
    Offset = "offset",
    OobSize = "oob-size",
    Output = "o",
    Pad = "pad",
    PageSize = "page-size",
    Part = "part",
    Path = "path",
    Peb = "peb",
    PebSize = "peb-size",
    Raw = "raw",
    Recover = "recover",
    Recursive = "recursive",
    Repair = "repair",
    Rw = "rw",
    ScrubDays = "scrub-days",
    SecondBlock = "k",
    Set = "set",
    Skip = "s",
    Temperature = "temperature",
    Test = "test",
    Volume = "volume",
    VolumeSize = "volume-size",
    Write = "write",
    Years = "years",
}

names! {
    /// A subcommand of `floatgate`.
    Command,
    Age = "life",
    EccAdvise = "ecc advise",
    EccCheck = "ecc check",
    EccDecode = "ecc decode",
    Endurance = "life",
    Fs = "fs",
    ImageBuild = "image build",
    ImageCat = "image cat",
    ImageCheck = "image check",
    ImageDump = "image dump",
    ImageExtract = "image extract",
    ImageInfo = "image info",
    ImageLs = "image ls",
    ImagePut = "image put",
    ImageStat = "image stat",
    OtpInfo = "otp info",
    Parts = "list parts",
    Probe = "probe",
    Report = "report",
    Setups = "list setups",
    Speed = "speed",
    Sweep = "sweep",
}

impl Display for CommandOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let hyphens = if self.name().len() == 1 { "-" } else { "--" };
        write!(f, "{hyphens}{}", self.name())
    }
}

impl Command {
    /// The command with an argument.
    #[must_use]
    pub fn with(self, argument: impl Display) -> CommandLine {
        CommandLine::from(self).with(argument)
    }
}

/// A subcommand with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Name of the subcommand.
    pub command: Command,
    /// Options and other arguments of the subcommand.
    pub arguments: Vec<String>,
}

impl CommandLine {
    /// The command with one more argument.
    #[must_use]
    pub fn with(mut self, argument: impl Display) -> Self {
        self.arguments.push(argument.to_string());
        self
    }
}

impl From<Command> for CommandLine {
    fn from(command: Command) -> Self {
        Self { command, arguments: Vec::new() }
    }
}

impl Display for CommandLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "floatgate {}", self.command.name())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// A part of an advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that is shown as it is.
    Text(Cow<'static, str>),
    /// An option of floatgate.
    Option(CommandOption),
    /// A command of floatgate.
    Command(CommandLine),
    /// A key of a setup and its value.
    Set {
        /// Dotted path of the key.
        key: Cow<'static, str>,
        /// Value of the key, or a placeholder.
        value: Cow<'static, str>,
    },
    /// A command of another program.
    Shell(String),
}

impl From<&'static str> for Piece {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<CommandOption> for Piece {
    fn from(option: CommandOption) -> Self {
        Self::Option(option)
    }
}

impl From<Command> for Piece {
    fn from(command: Command) -> Self {
        Self::Command(command.into())
    }
}

impl From<CommandLine> for Piece {
    fn from(command: CommandLine) -> Self {
        Self::Command(command)
    }
}

/// A command of another program.
pub fn shell(command: impl Into<String>) -> Piece {
    Piece::Shell(command.into())
}

/// A setting of a key of a setup.
pub fn set(key: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) -> Piece {
    Piece::Set { key: key.into(), value: value.into() }
}

/// Formats a piece in command line syntax.
impl Display for Piece {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Option(option) => option.fmt(f),
            Self::Command(command) => write!(f, "`{command}`"),
            Self::Set { key, value } => write!(f, "`{key}={value}`"),
            Self::Shell(command) => write!(f, "`{command}`"),
        }
    }
}

/// Advice about an error. `Display` uses command line syntax; other interfaces format the pieces themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    pieces: Vec<Piece>,
}

impl Advice {
    /// Advice from a sequence of pieces.
    pub fn of<const N: usize>(pieces: [Piece; N]) -> Self {
        Self { pieces: pieces.into() }
    }

    /// Pieces of the advice, in the order in which they are shown.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Appends the pieces of another advice.
    #[must_use]
    pub fn and(mut self, other: impl Into<Self>) -> Self {
        self.pieces.extend(other.into().pieces);
        self
    }
}

impl<P: Into<Piece>> From<P> for Advice {
    fn from(piece: P) -> Self {
        Self::of([piece.into()])
    }
}

impl Display for Advice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| piece.fmt(f))
    }
}

/// Makes an [`Advice`](crate::advice::Advice) of texts, options and commands.
#[macro_export]
macro_rules! advice {
    ($($piece:expr),+ $(,)?) => {
        $crate::advice::Advice::of([$($crate::advice::Piece::from($piece)),+])
    };
}

//! Errors of the files of logic analysers.

/// Reason why a file is not a valid capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A channel of the bus is missing in the file.
    #[error("no channel for {line}; the file has {}", names.join(", "))]
    NoChannel {
        /// Name of the bus line.
        line: &'static str,
        /// Channel names in the file.
        names: Vec<String>,
    },
    /// A line of the file that cannot be parsed.
    #[error("line {line}: {why}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault.
        why: &'static str,
    },
    /// A sigrok session that cannot be read.
    #[error("a damaged session of sigrok: {0}")]
    Session(&'static str),
    /// The file is neither text nor a session of sigrok.
    #[error("neither a text nor a session of sigrok")]
    Binary,
    /// Channels were specified for a file that contains bytes instead of levels.
    #[error("a table of a SPI decoder has no channels to name")]
    NoLevels,
    /// The file contains no commands.
    #[error("no command: CS# never goes low and high again")]
    Empty,
}

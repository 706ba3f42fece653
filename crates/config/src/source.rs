//! Texts of configurations, and positions in these texts.

use super::error::{ConfigError, Problem};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a text, a hundred times the largest part file.
pub const MAX_BYTES: usize = 1 << 20;

/// Maximum length of a line that is quoted in a message, B.
const LONGEST_SHOWN: usize = 1000;

/// A text with its name: a file, a built-in file of the catalogue, or a command line argument.
#[derive(Debug)]
pub struct Source {
    name: String,
    content: Arc<str>,
    file: Option<PathBuf>,
    is_argument: bool,
}

impl Source {
    /// A text that is not a user's file, for example a built-in one.
    pub fn text(name: &str, text: &str) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), content: Arc::from(text), file: None, is_argument: false })
    }

    /// A command line argument of the user.
    pub fn argument(name: &str, text: &str) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), content: Arc::from(text), file: None, is_argument: true })
    }

    /// A text with a name, from bytes of any origin.
    ///
    /// # Errors
    /// More than [`MAX_BYTES`], or not UTF-8.
    pub fn bytes(name: &str, bytes: &[u8]) -> Result<Arc<Self>, ConfigError> {
        check_text(name, bytes).map(|text| Self::text(name, text))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// No such file, more than [`MAX_BYTES`], or not UTF-8.
    pub fn read(path: &Path) -> Result<Arc<Self>, ConfigError> {
        let mut bytes = Vec::new();
        // One byte more than the limit is read, so that an endless file is rejected like a large one.
        let most = MAX_BYTES as u64 + 1;
        let outcome = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        match outcome {
            Ok(_) => Self::file(path, &bytes),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// A text from the contents of a file.
    ///
    /// # Errors
    /// More than [`MAX_BYTES`], or not UTF-8.
    pub fn file(path: &Path, bytes: &[u8]) -> Result<Arc<Self>, ConfigError> {
        let name = path.display().to_string();
        let content = Arc::from(check_text(&name, bytes)?);
        Ok(Arc::new(Self { name, content, file: Some(path.to_path_buf()), is_argument: false }))
    }

    /// Name of the source in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True for a command line argument.
    pub fn is_argument(&self) -> bool {
        self.is_argument
    }

    /// The whole text of the source.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// Base folder for relative paths in this text; `None` for a text that is not a file.
    pub fn folder(&self) -> Option<&Path> {
        self.file.as_deref().and_then(Path::parent)
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> ConfigError {
    let (problem, reason, help) = match error.kind() {
        std::io::ErrorKind::NotFound => {
            let help = "a path is relative to the folder of the file that names it, or to the current folder; names of the \
                        catalogue have no `/` and no `.toml`";
            (Problem::MissingFile, "there is no such file".to_owned(), help)
        }
        _ => (Problem::Unreadable, error.to_string(), "name a TOML file that you can read"),
    };
    let message = format!("cannot read `{}`: {reason}", path.display());
    ConfigError::new(problem, message).help(help)
}

fn check_text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, ConfigError> {
    if bytes.len() > MAX_BYTES {
        let message = format!("`{name}` is larger than {} KiB", MAX_BYTES >> 10);
        return Err(ConfigError::new(Problem::Limit, message).help("name a TOML file"));
    }
    std::str::from_utf8(bytes).map_err(|e| {
        let message = format!("`{name}` is not a text file: byte {} is not UTF-8", e.valid_up_to());
        ConfigError::new(Problem::Unreadable, message).help("name a TOML file")
    })
}

/// Position of a value in a text.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Text that contains the value.
    pub source: Arc<Source>,
    /// Byte range of the key. For a value without a key (array element, whole document), the range of
    /// the value.
    pub key: Range<usize>,
    /// Byte range of the value; for a table, of its header.
    pub value: Range<usize>,
}

impl Origin {
    /// Position of the key.
    pub fn key_place(&self) -> SourceSpan {
        SourceSpan { source: Arc::clone(&self.source), span: self.key.clone() }
    }

    /// Position of the value.
    pub fn value_place(&self) -> SourceSpan {
        SourceSpan { source: Arc::clone(&self.source), span: self.value.clone() }
    }
}

/// A byte range in a text.
#[derive(Clone, Debug)]
pub struct SourceSpan {
    /// Text that contains the range.
    pub source: Arc<Source>,
    /// Byte range in the text.
    pub span: Range<usize>,
}

impl SourceSpan {
    /// Line and column of the first byte, both from 1; the column counts characters.
    pub fn line_column(&self) -> (usize, usize) {
        let text = self.source.content();
        let mut at = self.span.start.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }

    /// True if the lines around the range can be shown; false for a text without line breaks.
    pub(super) fn shows(&self) -> bool {
        let text = self.source.content().as_bytes();
        let (start, end) = (self.span.start.min(text.len()), self.span.end.min(text.len()));
        let before = text[..start].iter().rev().take_while(|&&byte| byte != b'\n').count();
        let after = text[end..].iter().take_while(|&&byte| byte != b'\n').count();
        before + (end - start) + after <= LONGEST_SHOWN
    }

    /// The text in the range, limited to the end of the text.
    pub fn excerpt(&self) -> &str {
        self.source.content().get(self.span.clone()).unwrap_or_default()
    }
}

impl std::fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.source.name())
    }
}

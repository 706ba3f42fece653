//! Texts of configurations, and positions in these texts.

mod read;

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

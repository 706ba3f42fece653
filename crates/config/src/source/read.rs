//! Reading of texts: files and bytes of any origin.

use super::{MAX_BYTES, Source};
use crate::error::{ConfigError, Problem};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

impl Source {
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

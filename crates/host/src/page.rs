//! Outputs, locks and inputs for a web page as host, where all files are in memory ([`floatgate_files::memory`]).

/// Outputs, which get their name when they are complete.
pub mod output {
    pub use crate::output_error::{OutputError, is_stdout};
    use floatgate_files::File;
    use floatgate_files::memory::{copy, remove_file, rename};
    use std::io::{self, Write};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Number of the next temporary file.
    static NEXT: AtomicU64 = AtomicU64::new(0);

    /// A file that is being written. [`finish`](Self::finish) gives it its name. If it is dropped earlier, the file is
    /// removed.
    #[derive(Debug)]
    pub struct Output {
        name: PathBuf,
        temporary: PathBuf,
        file: File,
    }

    impl Output {
        /// Creates an output with random access. Its name must differ from all `inputs`.
        ///
        /// # Errors
        /// An input has the name, or the name is `-` (stdout).
        pub fn create(path: &Path, inputs: &[&Path]) -> Result<Self, OutputError> {
            if is_stdout(path) {
                return Err(OutputError::NoStream);
            }
            if let Some(input) = inputs.iter().find(|input| **input == path) {
                return Err(OutputError::SameFile { output: path.to_owned(), input: (*input).to_owned() });
            }
            let temporary = PathBuf::from(format!(".floatgate-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            let file = File::create(&temporary).map_err(OutputError::host(path))?;
            Ok(Self { name: path.to_owned(), temporary, file })
        }

        /// Creates a file that replaces an existing one.
        ///
        /// # Errors
        /// The errors of [`create`](Self::create).
        pub fn replace(path: &Path) -> Result<Self, OutputError> {
            Self::create(path, &[])
        }

        /// Creates an output that is written sequentially.
        ///
        /// # Errors
        /// The errors of [`create`](Self::create).
        pub fn stream(path: &Path, inputs: &[&Path]) -> Result<Self, OutputError> {
            Self::create(path, inputs)
        }

        /// Name of the output.
        pub fn name(&self) -> &Path {
            &self.name
        }

        /// File for writing and reading.
        pub const fn file(&self) -> &File {
            &self.file
        }

        /// Name of the file until the output is complete.
        pub fn temporary(&self) -> &Path {
            &self.temporary
        }

        /// Folder of the output; a page has only one.
        pub fn folder(&self) -> &Path {
            Path::new("")
        }

        /// Converts a failure to an error with the name of this output.
        pub fn failed(&self, error: io::Error) -> OutputError {
            OutputError::host(&self.name)(error)
        }

        /// Gives the complete file its name.
        ///
        /// # Errors
        /// None.
        pub fn finish(self) -> Result<(), OutputError> {
            rename(&self.temporary, &self.name).map_err(OutputError::host(&self.name))
        }
    }

    impl Drop for Output {
        fn drop(&mut self) {
            // After `finish` no file has the temporary name.
            let _ = remove_file(&self.temporary);
        }
    }

    impl Write for Output {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.file.write(data)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Makes an empty file a copy of another one. Both share the bytes.
    ///
    /// # Errors
    /// None.
    pub fn copy_sparse(source: &File, target: &File) -> io::Result<()> {
        copy(source, target)
    }

    /// Does nothing, because memory is not reserved for files.
    ///
    /// # Errors
    /// None.
    pub const fn reserve(_file: &File, _range: &std::ops::Range<u64>) -> io::Result<()> {
        Ok(())
    }
}

/// Inputs, each of which is a regular file.
pub mod open {
    use floatgate_files::File;
    use std::io::{self, Read};
    use std::path::Path;

    /// Always false, because a page has no pipes.
    #[must_use]
    pub const fn is_pipe(_path: &Path) -> bool {
        false
    }

    /// Opens a file.
    ///
    /// # Errors
    /// No file has this name.
    pub fn open_file(path: &Path, _writes: bool) -> io::Result<File> {
        File::open(path)
    }

    /// Always fails, because a page has no pipes.
    ///
    /// # Errors
    /// Always.
    pub fn open_input(path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(open_file(path, false)?))
    }

    /// There are no pipes.
    ///
    /// # Errors
    /// Always.
    pub fn read_pipe(_path: &Path) -> io::Result<Box<dyn Read>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Locks, which have no effect, because no other process uses the page's files.
pub(crate) mod lock {
    use std::io;
    use std::path::Path;

    /// Reason why a file cannot be locked.
    #[derive(Debug, thiserror::Error)]
    pub enum LockError {
        /// Another process uses the file.
        #[error("another floatgate uses the file now")]
        InUse,
        /// The file cannot be opened.
        #[error(transparent)]
        Host(#[from] io::Error),
    }

    /// A file that no other program changes while this value exists.
    #[derive(Debug)]
    pub struct Lock(());

    impl Lock {
        /// Locks a file.
        ///
        /// # Errors
        /// No file has this name.
        pub fn new(path: &Path, _writes: bool) -> Result<Self, LockError> {
            floatgate_files::metadata(path)?;
            Ok(Self(()))
        }

        /// Does nothing, because memory needs no sync.
        ///
        /// # Errors
        /// None.
        pub const fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }
}

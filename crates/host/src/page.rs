//! Outputs, locks and inputs where the host is a web page: all files are in memory ([`floatgate_files::memory`]).

/// Outputs: each gets its name when it is complete.
pub mod output {
    pub use crate::output_error::{OutputError, is_stdout};
    use floatgate_files::File;
    use floatgate_files::memory::{copy, remove_file, rename};
    use std::io::{self, Write};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Number of the next temporary file.
    static NEXT: AtomicU64 = AtomicU64::new(0);

    /// A file that is being written. [`finish`](Self::finish) gives it its name; dropped before, it leaves nothing behind.
    #[derive(Debug)]
    pub struct Output {
        name: PathBuf,
        temporary: PathBuf,
        file: File,
    }

    impl Output {
        /// An output for reading and writing at any place. None of `inputs` may have its name.
        ///
        /// # Errors
        /// An input has the name. `-`, stdout, is refused.
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

        /// A new file in the place of one.
        ///
        /// # Errors
        /// As [`create`](Self::create).
        pub fn replace(path: &Path) -> Result<Self, OutputError> {
            Self::create(path, &[])
        }

        /// An output that is written from its beginning to its end.
        ///
        /// # Errors
        /// As [`create`](Self::create).
        pub fn stream(path: &Path, inputs: &[&Path]) -> Result<Self, OutputError> {
            Self::create(path, inputs)
        }

        /// Name of the output.
        pub fn name(&self) -> &Path {
            &self.name
        }

        /// The file to write to and to read from.
        pub const fn file(&self) -> &File {
            &self.file
        }

        /// Name of the file until the output is complete.
        pub fn temporary(&self) -> &Path {
            &self.temporary
        }

        /// The one folder.
        pub fn folder(&self) -> &Path {
            Path::new("")
        }

        /// Turns a failure into an error that names this output.
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
            // After `finish` there is none of that name.
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

    /// Makes an empty file a copy of another one, with which it shares its bytes.
    ///
    /// # Errors
    /// None.
    pub fn copy_sparse(source: &File, target: &File) -> io::Result<()> {
        copy(source, target)
    }

    /// Nothing, as a page has no room to reserve.
    ///
    /// # Errors
    /// None.
    pub const fn reserve(_file: &File, _range: &std::ops::Range<u64>) -> io::Result<()> {
        Ok(())
    }
}

/// Inputs: every one is a regular file.
pub mod open {
    use floatgate_files::File;
    use std::io::{self, Read};
    use std::path::Path;

    /// False, as a page has no pipes.
    #[must_use]
    pub const fn is_pipe(_path: &Path) -> bool {
        false
    }

    /// Opens a file.
    ///
    /// # Errors
    /// There is none.
    pub fn open_file(path: &Path, _writes: bool) -> io::Result<File> {
        File::open(path)
    }

    /// Refuses, as a page has no pipes.
    ///
    /// # Errors
    /// Always.
    pub fn read_pipe(_path: &Path) -> io::Result<Box<dyn Read>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Locks: a page is alone with its files.
pub(crate) mod lock {
    use std::io;
    use std::path::Path;

    /// Reason why a file cannot be locked.
    #[derive(Debug, thiserror::Error)]
    pub enum LockError {
        /// Another process uses it.
        #[error("another floatgate uses the file now")]
        InUse,
        /// It cannot be opened.
        #[error(transparent)]
        Host(#[from] io::Error),
    }

    /// A file that no other program changes meanwhile.
    #[derive(Debug)]
    pub struct Lock(());

    impl Lock {
        /// Locks a file.
        ///
        /// # Errors
        /// There is none of that name.
        pub fn new(path: &Path, _writes: bool) -> Result<Self, LockError> {
            floatgate_files::metadata(path)?;
            Ok(Self(()))
        }

        /// Nothing, as memory needs no synchronisation.
        ///
        /// # Errors
        /// None.
        pub const fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }
}

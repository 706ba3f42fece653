//! Files of the host, or files in memory on a machine without files.
//!
//! The crates of images access files only through this crate. On a machine with an operating system everything here
//! comes from `std` and `tempfile`. In a web page (WebAssembly), [`memory`] has the same names: a file is in memory, on
//! top of a file that the user has chosen. The page reads ranges of that file when they are needed.

pub mod memory;

#[cfg(target_family = "wasm")]
pub use memory::{File, FileExt, Metadata, OpenOptions, metadata, read_to_string, tempfile, tempfile_in};

#[cfg(not(target_family = "wasm"))]
pub use {
    std::fs::{File, Metadata, OpenOptions, metadata, read_to_string},
    std::os::unix::fs::FileExt,
    tempfile::{tempfile, tempfile_in},
};

//! Filesystems in programs of the user: such a program receives file requests and requests flash operations, over its
//! standard input and output.
//!
//! - `messages`: the messages, which docs/filesystems.md describes for other languages.
//! - [`FilesystemProgram`]: a running program; the caller executes its flash operations.
//! - [`serve`]: the other end, which makes such a program from an [`OwnFilesystem`] in Rust.

mod messages;
mod program;
mod serve;

pub use messages::{Answer, DATA_MAX, Entry, FlashOp, FlashSizes, Request, Room};
pub use program::{FilesystemProgram, Operated, ProgramError};
pub use serve::{OwnFilesystem, Refusal, RemoteFlash, serve, serve_on};

//! Errors of a program, and its operations on a simulated flash.

use floatgate_host::filesystem_program::{DATA_MAX, FlashOp, Operated, ProgramError};
use floatgate_mtd::{Instant, Mtd as _};
use floatgate_sim::vfs::Flash;
use floatgate_stack::fs::Error;

/// Converts errors of the program at a path to errors of a filesystem.
pub(super) fn of_program(path: &str) -> impl Fn(ProgramError) -> Error {
    move |error| match error {
        ProgramError::Broken(why) => Error::Failed(why),
        ProgramError::Refused(why) => match &*why {
            "no-space" => Error::NoSpace,
            "not-found" => Error::NotFound,
            "exists" => Error::Exists,
            "not-directory" => Error::NotDirectory,
            "is-directory" => Error::IsDirectory,
            "not-empty" => Error::NotEmpty,
            why => Error::Failed(format!("{path}: {why}")),
        },
    }
}

/// Executes a flash operation.
pub(super) fn operate(flash: &mut Flash, now: &mut Instant, op: FlashOp, data: &[u8]) -> Operated {
    let erase_bytes = u64::from(flash.geometry().erase_bytes);
    let mut read = Vec::new();
    let mut bad = None;
    let done = match op {
        FlashOp::Read { bytes, .. } if bytes > DATA_MAX => {
            return Err(format!("{bytes} bytes are too much for one read"));
        }
        FlashOp::Read { at, bytes } => {
            read = vec![0; bytes];
            flash.read(*now, at, &mut read).map(|done| done.at)
        }
        FlashOp::Program { at } => flash.write(*now, at, data).map(|done| done.at),
        FlashOp::Erase { at } => flash.erase(*now, at, erase_bytes).map(|done| done.at),
        FlashOp::IsBad { at } => flash.is_bad(*now, at).map(|(is_bad, at)| {
            bad = Some(is_bad);
            at
        }),
        FlashOp::MarkBad { at } => flash.mark_bad(*now, at).map(|done| done.at),
    };
    match done {
        Ok(at) => {
            *now = at;
            Ok((bad, read))
        }
        Err(error) => {
            *now = error.at;
            Err(error.to_string())
        }
    }
}

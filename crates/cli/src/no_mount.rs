//! Replacement of `image mount`, `serve` and `run` in a build without the feature `mount`: each command is refused.

use crate::common::{Failure, Outcome};
use std::ffi::OsString;

/// Any arguments; the command refuses to run with all of them.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Refuses the command.
pub(crate) fn run(_: &Args) -> Outcome {
    Err(Failure::new(
        "this build has no FUSE and no vhost-user",
        "build with `cargo build --release --features mount`; the packages of a release have it",
    ))
}

//! `floatgate image cat`.

use super::options::ImageArgs;
use crate::common::{Failure, Outcome};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image cat rootfs.ubi /etc/fstab
  floatgate image cat dump.bin /boot/zImage > zImage")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// The file in the image
    path: String,
}

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

pub(crate) fn run(args: &Args) -> Outcome {
    let mut fs = args.image.mount()?;
    let inode = fs.resolve(args.path.as_bytes()).map_err(|error| args.image.failed(error))?;
    let mut out = std::io::stdout().lock();
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let len = fs.read(inode, at, &mut chunk).map_err(|error| args.image.failed(error))?;
        if len == 0 {
            break;
        }
        match out.write_all(&chunk[..len]) {
            // Who closed the pipe has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            other => other.map_err(|error| Failure::new(error, "nothing more can be written to stdout"))?,
        }
        at += len as u64;
    }
    Ok(ExitCode::SUCCESS)
}

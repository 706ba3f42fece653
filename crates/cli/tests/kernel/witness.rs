//! The witness, `tests/kernel/witness`: it shows a tree through system calls, and makes trees. It is compiled here and runs
//! in the guest, too.

use crate::judge::{fresh, home};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program.
pub(crate) fn witness() -> &'static Path {
    static WITNESS: OnceLock<PathBuf> = OnceLock::new();
    WITNESS.get_or_init(|| {
        let program = fresh("witness").join("witness");
        let mut sources: Vec<_> =
            std::fs::read_dir(home().join("witness")).unwrap().map(|file| file.unwrap().path()).collect();
        sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
        let options = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"];
        succeed(Command::new("cc").args(options).arg(&program).args(sources));
        program
    })
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The witness' hash of a file's data.
pub(crate) fn hash(data: &[u8]) -> u64 {
    data.chunks(8).fold(0xCBF2_9CE4_8422_2325, |hash: u64, bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let mixed = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x100_0000_01B3);
        mixed ^ (mixed >> 32)
    })
}

/// Bytes as the witness prints them.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: u8| matches!(byte, b'!'..=b'~') && byte != b'\\' && byte != b'=';
    let shown = bytes
        .iter()
        .map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("\\x{byte:02x}") });
    shown.collect()
}

//! Text of attributes.

use floatgate_image::words;
use floatgate_stack::fs::{Attributes, FileType, Timestamp};

/// Type and permissions in the form of `ls -l`.
pub(super) fn mode_text(attributes: &Attributes) -> String {
    let letter = match attributes.file_type {
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::BlockDevice => 'b',
        FileType::CharacterDevice => 'c',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        _ => '-',
    };
    let mode = attributes.mode;
    let mut text = String::from(letter);
    for (shift, special, with_x, without_x) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => with_x,
            (false, true) => without_x,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Time in UTC, to the second: `2026-11-21 07:25:00`.
pub(super) fn date(time: Timestamp) -> String {
    words::date(time.seconds)
}

//! Messages between floatgate and a filesystem program: a line of JSON, followed by as many raw bytes as its `data`
//! states.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read as _, Write};

/// Version of the protocol.
pub(super) const VERSION: u32 = 1;

/// Maximum length of a line, bytes.
const LINE_MAX: u64 = 1 << 20;

/// Maximum number of raw bytes after a line.
pub const DATA_MAX: usize = 16 << 20;

/// Request that floatgate sends to the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// First request of a run.
    Start {
        /// Version of the protocol.
        version: u32,
        /// Geometry of the flash.
        flash: FlashSizes,
    },
    /// Creates an empty filesystem, which is not mounted.
    Format,
    /// Mounts the filesystem.
    Mount,
    /// Unmounts the filesystem.
    Unmount,
    /// Creates an empty file.
    Create {
        /// Path of the file.
        path: String,
    },
    /// Creates a directory.
    MakeDir {
        /// Path of the directory.
        path: String,
    },
    /// Writes the bytes that follow the line.
    Write {
        /// Path of the file.
        path: String,
        /// Position in the file, bytes.
        offset: u64,
    },
    /// Reads from a file. The bytes follow the line of the answer; there are fewer at the end of the file.
    Read {
        /// Path of the file.
        path: String,
        /// Position in the file, bytes.
        offset: u64,
        /// Requested number of bytes.
        bytes: usize,
    },
    /// Removes a file or an empty directory.
    Remove {
        /// Path of the file or directory.
        path: String,
    },
    /// Requests an [`Entry`].
    Stat {
        /// Path of the file or directory.
        path: String,
    },
    /// Requests at most `max` entries that follow the given one, or from the first one.
    List {
        /// Path of the directory.
        path: String,
        /// Name of the last entry that is known.
        after: Option<String>,
        /// Maximum number of entries.
        max: usize,
    },
    /// Writes all data of a file to flash.
    Fsync {
        /// Path of the file.
        path: String,
    },
    /// Writes all data to flash.
    Sync,
    /// Requests the total and the free bytes.
    Space,
}

/// Geometry of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashSizes {
    /// Total number of bytes.
    pub bytes: u64,
    /// Size of an eraseblock, bytes.
    pub erase_bytes: u32,
    /// Program unit, bytes: addresses and lengths of programs are multiples of it.
    pub write_bytes: u32,
}

/// Message of the program: a flash operation for whose result it waits, or the end of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    Flash(FlashOp),
    Done(Answer),
    /// Failure of the request: `no-space`, `not-found`, `exists`, `not-directory`, `is-directory`, `not-empty`, or a
    /// reason in words.
    Failed(String),
}

/// Flash operation that the program requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum FlashOp {
    /// Reads bytes that the ECC has corrected.
    Read {
        /// Address, bytes.
        at: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// Programs the bytes that follow the line.
    Program {
        /// Address, bytes.
        at: u64,
    },
    /// Erases one eraseblock.
    Erase {
        /// Address of the eraseblock, bytes.
        at: u64,
    },
    /// Requests whether an eraseblock is marked bad.
    IsBad {
        /// Address of the eraseblock, bytes.
        at: u64,
    },
    /// Marks an eraseblock bad.
    MarkBad {
        /// Address of the eraseblock, bytes.
        at: u64,
    },
}

/// Result of a flash operation, sent to the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FlashResult {
    /// The operation succeeded. Bytes that were read follow the line.
    Ok {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bad: Option<bool>,
    },
    /// The operation failed, for this reason.
    Failed(String),
}

/// Answer to a request. Fields that the request does not need are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Entry that `stat` requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
    /// Entries that `list` requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Entry>,
    /// Space that `space` requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<Room>,
}

/// A file or directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name in its directory.
    pub name: String,
    /// True for a directory.
    #[serde(default)]
    pub directory: bool,
    /// Size of a file, bytes.
    #[serde(default)]
    pub size: u64,
}

/// Space of a filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Total number of bytes.
    pub bytes: u64,
    /// Number of free bytes.
    pub free_bytes: u64,
}

/// A message with the number of bytes that follow it.
#[derive(Serialize, Deserialize)]
struct Framed<T> {
    #[serde(flatten)]
    message: T,
    #[serde(default, skip_serializing_if = "is_zero")]
    data: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(len: &usize) -> bool {
    *len == 0
}

/// Sends a message, followed by bytes.
pub(super) fn send<T: Serialize>(to: &mut impl Write, message: &T, data: &[u8]) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Framed { message, data: data.len() })?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.write_all(data)?;
    to.flush()
}

/// Receives a message with its bytes; `None` at the end of the stream.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut line = Vec::new();
    from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let shown = || String::from_utf8_lossy(line.get(..80).unwrap_or(&line)).trim_end().to_owned();
    let Framed { message, data } = serde_json::from_slice(&line)
        .map_err(|error| wrong(format!("not a message of the protocol ({error}): {}", shown())))?;
    if data > DATA_MAX {
        return Err(wrong(format!("{data} bytes behind a line, and {DATA_MAX} are the most")));
    }
    let mut bytes = vec![0; data];
    from.read_exact(&mut bytes)?;
    Ok(Some((message, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_bytes_behind_it_comes_back() {
        let mut wire = Vec::new();
        let read = Message::Flash(FlashOp::Read { at: 4096, bytes: 3 });
        let write = Request::Write { path: "a/b".to_owned(), offset: 1 };
        send(&mut wire, &read, b"").unwrap();
        send(&mut wire, &write, b"\n{}").unwrap();
        let text = String::from_utf8_lossy(&wire).into_owned();
        assert!(text.starts_with("{\"flash\":{\"op\":\"read\",\"at\":4096,\"bytes\":3}}\n"), "{text}");
        let mut wire = &wire[..];
        assert_eq!(receive(&mut wire).unwrap(), Some((read, Vec::new())));
        assert_eq!(receive(&mut wire).unwrap(), Some((write, b"\n{}".to_vec())));
        assert_eq!(receive::<Message>(&mut wire).unwrap(), None);
    }

    #[test]
    fn what_is_no_message_is_refused_with_what_it_is() {
        for (wire, why) in [
            (&b"hello\n"[..], "hello"),
            (b"{\"done\":{},\"data\":99999999999}\n", "99999999999"),
            (b"{\"done\":{},\"data\":4}\nab", ""),
            (b"{\"done\":[7]}\n", "done"),
        ] {
            let error = receive::<Message>(&mut &wire[..]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}

//! Device tables in the format of `mkfs.ubifs` and `mkfs.jffs2`, which describe devices and owners without the
//! rights to create them.

use floatgate_stack::fs::{DeviceNumber, FileFlags, Timestamp};

use super::BuildError;
use super::item::{Item, ItemKind};
use super::write::Writer;

/// Largest number of files from one line.
const MAX_COUNT: u32 = 1 << 16;

/// Line of a device table: `name type mode uid gid major minor start increment count`, with `-` for a field
/// without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    number: usize,
    path: Vec<u8>,
    kind: u8,
    permissions: u32,
    uid: u32,
    gid: u32,
    major: u32,
    minor: u32,
    start: u32,
    increment: u32,
    count: u32,
}

/// Applies a device table to the filesystem: existing files get owner and permissions, missing ones are created.
pub(super) fn apply(text: &str, time: Timestamp, writer: &mut Writer<'_>) -> Result<(), BuildError> {
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        let parsed = parse(line, number).map_err(|what| BuildError::Table { line: number, what })?;
        for item in parsed.items(time)? {
            if !writer.change(&item)? {
                parsed.makes()?;
                writer.item(item)?;
            }
        }
    }
    Ok(())
}

fn parse(text: &str, number: usize) -> Result<Line, String> {
    let mut fields = text.split_whitespace();
    let path = fields.next().unwrap_or_default().as_bytes().to_vec();
    let kind = fields.next().unwrap_or_default();
    let mode = fields.next().ok_or("too few columns")?;
    let permissions = u32::from_str_radix(mode, 8).map_err(|_| format!("{mode:?} is no octal mode"))?;
    let mut numbers = [0; 7];
    for place in &mut numbers {
        let Some(field) = fields.next() else { break };
        if field != "-" {
            *place = field.parse().map_err(|_| format!("{field:?} is no number"))?;
        }
    }
    if fields.next().is_some() {
        return Err("more than ten columns".to_owned());
    }
    let [kind] = *kind.as_bytes() else { return Err(format!("{kind:?} is no type")) };
    if !b"fdcbps".contains(&kind) {
        return Err(format!("types are f, d, c, b, p and s, not {:?}", char::from(kind)));
    }
    if permissions > 0o7777 {
        return Err(format!("{mode} has more than the permission bits"));
    }
    let [uid, gid, major, minor, start, increment, count] = numbers;
    if count > MAX_COUNT {
        return Err(format!("a line makes at most {MAX_COUNT} files"));
    }
    if count == 0 && increment != 0 {
        return Err("an increment without a count".to_owned());
    }
    Ok(Line { number, path, kind, permissions, uid, gid, major, minor, start, increment, count })
}

impl Line {
    fn wrong(&self, what: impl Into<String>) -> BuildError {
        BuildError::Table { line: self.number, what: what.into() }
    }

    /// Returns an error for a regular file. It must exist already, because a table has no contents.
    fn makes(&self) -> Result<(), BuildError> {
        if self.kind == b'f' { Err(self.wrong("there is no such file in the tree")) } else { Ok(()) }
    }

    /// Files of the line. With a count, their names end with numbers from `start` on, and their minor numbers
    /// rise.
    fn items(&self, time: Timestamp) -> Result<Vec<Item>, BuildError> {
        if self.count == 0 {
            return Ok(vec![self.item(self.path.clone(), self.minor, time)?]);
        }
        let numbered = |index: u32| {
            let number = u64::from(self.start) + u64::from(index);
            let minor = u64::from(self.minor) + u64::from(index) * u64::from(self.increment);
            let minor = u32::try_from(minor).map_err(|_| self.wrong("a minor number is too large"))?;
            self.item([&self.path[..], number.to_string().as_bytes()].concat(), minor, time)
        };
        (0..self.count).map(numbered).collect()
    }

    fn item(&self, path: Vec<u8>, minor: u32, time: Timestamp) -> Result<Item, BuildError> {
        let device = DeviceNumber { major: self.major, minor };
        let kind = match self.kind {
            b'd' => ItemKind::Directory,
            b'c' => ItemKind::CharacterDevice(device),
            b'b' => ItemKind::BlockDevice(device),
            b'p' => ItemKind::Fifo,
            b's' => ItemKind::Socket,
            _ => ItemKind::Regular(0),
        };
        let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        let path: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        if path.iter().any(|part| part == b"..") {
            return Err(self.wrong("the path leads upwards"));
        }
        Ok(Item {
            path,
            kind,
            permissions: self.permissions,
            uid: self.uid,
            gid: self.gid,
            atime: time,
            mtime: time,
            ctime: time,
            flags: FileFlags::default(),
            xattrs: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_makes_numbered_devices() {
        let line = parse("/dev/hda b 640 0 6 3 1 1 2 3", 1).unwrap();
        let items = line.items(Timestamp::default()).unwrap();
        let names: Vec<_> = items.iter().map(|item| item.path.join(&b'/')).collect();
        assert_eq!(names, [b"dev/hda1", b"dev/hda2", b"dev/hda3"]);
        let last = DeviceNumber { major: 3, minor: 5 };
        assert_eq!((&items[2].kind, items[2].gid), (&ItemKind::BlockDevice(last), 6));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_reason() {
        for (line, what) in [
            ("/dev/x q 644", "types are"),
            ("/dev/x c", "too few"),
            ("/dev/x c 999 0 0", "octal"),
            ("/dev/x c 644 root 0", "no number"),
            ("/dev/x c 644 0 0 1 1 0 1 0", "without a count"),
            ("/dev/x c 644 0 0 1 1 0 1 9999999", "at most"),
        ] {
            let error = parse(line, 7).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}

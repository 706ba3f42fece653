//! A tar of `floatgate image extract IMG -` as a manifest: POSIX headers with extended ones (`pax`), extended attributes as
//! `SCHILY.xattr`, device numbers, hard links.

use crate::manifest::Manifest;
use crate::witness::{escaped, hash};
use std::collections::BTreeMap;

/// Bytes of a header, and what contents are rounded up to.
const BLOCK: usize = 512;

/// Fields of extended headers by their names.
type Extended = BTreeMap<String, Vec<u8>>;

struct Member<'a> {
    header: &'a [u8],
    extended: Extended,
    contents: &'a [u8],
}

/// The tree in `tar`.
pub(crate) fn manifest(tar: &[u8]) -> Manifest {
    let mut tree = Tree::default();
    let (mut rest, mut extended) = (tar, Extended::new());
    while rest.len() >= BLOCK && rest[..BLOCK] != [0; BLOCK] {
        let (header, after) = rest.split_at(BLOCK);
        let size = size(header, &extended);
        let contents = &after[..size];
        rest = &after[size.next_multiple_of(BLOCK)..];
        match header[156] {
            b'x' => extended = records(contents),
            b'g' => {}
            _ => {
                let mut extended = std::mem::take(&mut extended);
                let contents = &with_holes(&mut extended, contents);
                tree.add(&Member { header, extended, contents });
            }
        }
    }
    tree.manifest()
}

/// The contents of a file; of a sparse one (GNU format 1.0: a map, padded to a block, then the data) with its holes, and its name.
fn with_holes(extended: &mut Extended, contents: &[u8]) -> Vec<u8> {
    let Some(size) = extended.get("GNU.sparse.realsize").map(|text| text_of(text).parse().unwrap()) else {
        return contents.to_vec();
    };
    extended.insert("path".to_owned(), extended["GNU.sparse.name"].clone());
    let mut at = 0;
    let mut number = || -> usize {
        let digits = contents[at..].iter().position(|byte| *byte == b'\n').unwrap();
        let number = text_of(&contents[at..at + digits]).parse().unwrap();
        at += digits + 1;
        number
    };
    let count = number();
    let map: Vec<(usize, usize)> = (0..count).map(|_| (number(), number())).collect();
    let (mut whole, mut data) = (vec![0; size], &contents[at.next_multiple_of(BLOCK)..]);
    for (offset, len) in map {
        let (piece, rest) = data.split_at(len);
        whole[offset..offset + len].copy_from_slice(piece);
        data = rest;
    }
    whole
}

fn size(header: &[u8], extended: &Extended) -> usize {
    let extended = extended.get("size").map(|text| text_of(text).parse().unwrap());
    extended.unwrap_or_else(|| number(&header[124..136]) as usize)
}

/// Octal digits or, with the highest bit set, a binary number.
fn number(field: &[u8]) -> u64 {
    if field[0] & 0x80 != 0 {
        return field[1..]
            .iter()
            .fold(u64::from(field[0] & 0x3F), |number, byte| number << 8 | u64::from(*byte));
    }
    let digits = text_of(field).trim_matches([' ', '\0']).to_owned();
    if digits.is_empty() { 0 } else { u64::from_str_radix(&digits, 8).unwrap() }
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// `LENGTH NAME=VALUE\n`, the length being that of all of it.
fn records(mut bytes: &[u8]) -> Extended {
    let mut records = Extended::new();
    while !bytes.is_empty() {
        let digits = bytes.iter().position(|byte| *byte == b' ').unwrap();
        let (record, rest) = bytes.split_at(text_of(&bytes[..digits]).parse().unwrap());
        let record = &record[digits + 1..record.len() - 1];
        let equals = record.iter().position(|byte| *byte == b'=').unwrap();
        records.insert(escaped(&record[..equals]), record[equals + 1..].to_vec());
        bytes = rest;
    }
    records
}

impl Member<'_> {
    fn text(&self, field: std::ops::Range<usize>) -> &[u8] {
        let field = &self.header[field];
        &field[..field.iter().position(|byte| *byte == 0).unwrap_or(field.len())]
    }

    fn path(&self) -> Vec<u8> {
        let prefix = self.text(345..500);
        let short = if prefix.is_empty() {
            self.text(0..100).to_vec()
        } else {
            [prefix, b"/", self.text(0..100)].concat()
        };
        plain(self.extended.get("path").unwrap_or(&short))
    }

    fn target(&self) -> Vec<u8> {
        self.extended.get("linkpath").cloned().unwrap_or_else(|| self.text(157..257).to_vec())
    }

    fn number(&self, name: &str, field: std::ops::Range<usize>) -> String {
        let extended = self.extended.get(name).map(|text| text_of(text).to_owned());
        extended.unwrap_or_else(|| number(&self.header[field]).to_string())
    }

    /// With nine digits behind the point. A time before 1970 is negative as a whole here, but in the manifest only its
    /// seconds are.
    fn time(&self) -> String {
        let time = self.number("mtime", 136..148);
        let (seconds, parts) = time.split_once('.').unwrap_or((&time, ""));
        let (seconds_number, parts) =
            (seconds.parse::<i64>().unwrap(), format!("{parts:0<9.9}").parse::<i64>().unwrap());
        match (seconds.starts_with('-'), parts) {
            (true, 1..) => format!("{}.{:09}", seconds_number - 1, 1_000_000_000 - parts),
            _ => format!("{seconds_number}.{parts:09}"),
        }
    }

    fn kind(&self) -> char {
        match self.header[156] {
            b'0' | 0 => 'f',
            b'2' => 'l',
            b'3' => 'c',
            b'4' => 'b',
            b'5' => 'd',
            b'6' => 'p',
            other => panic!("type {other:#x} of {}", escaped(&self.path())),
        }
    }

    fn fields(&self) -> BTreeMap<String, String> {
        let kind = self.kind();
        let mut fields = vec![
            ("type", kind.to_string()),
            ("mode", format!("{:04o}", number(&self.header[100..108]) & 0o7777)),
            ("uid", self.number("uid", 108..116)),
            ("gid", self.number("gid", 116..124)),
            ("mtime", self.time()),
            ("nlink", "1".to_owned()),
        ];
        match kind {
            'd' => fields.retain(|(field, _)| *field != "nlink"),
            'f' => fields.extend([
                ("size", self.contents.len().to_string()),
                ("data", format!("{:016x}", hash(self.contents))),
            ]),
            'l' => fields
                .extend([("size", self.target().len().to_string()), ("target", escaped(&self.target()))]),
            'c' | 'b' => fields.push(("rdev", self.device())),
            _ => fields.push(("size", "0".to_owned())),
        }
        let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value));
        fields.chain(self.attributes()).collect()
    }

    fn device(&self) -> String {
        format!("{}:{}", number(&self.header[329..337]), number(&self.header[337..345]))
    }

    fn attributes(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.extended.iter().filter_map(|(name, value)| {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            Some((format!("xattr:{}", name.strip_prefix("SCHILY.xattr.")?), hex))
        })
    }
}

/// A path below the folder, which itself is `.`.
fn plain(path: &[u8]) -> Vec<u8> {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let path = path.strip_suffix(b"/").unwrap_or(path);
    if path.is_empty() { b".".to_vec() } else { path.to_vec() }
}

/// Entries by path, and the other names of what has several by the path under which it came first.
#[derive(Default)]
struct Tree {
    entries: BTreeMap<Vec<u8>, BTreeMap<String, String>>,
    names: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl Tree {
    fn add(&mut self, member: &Member<'_>) {
        let path = member.path();
        if member.header[156] == b'1' {
            let first = plain(&member.target());
            assert!(self.entries.contains_key(&first), "a link to {} before it", escaped(&first));
            self.names.entry(first).or_default().push(path);
        } else {
            let before = self.entries.insert(path.clone(), member.fields());
            assert!(before.is_none(), "{} twice", escaped(&path));
        }
    }

    fn manifest(mut self) -> Manifest {
        for (first, mut others) in self.names {
            others.push(first.clone());
            others.sort();
            let mut fields = self.entries[&first].clone();
            fields.insert("nlink".to_owned(), others.len().to_string());
            fields.insert("group".to_owned(), escaped(&others[0]));
            self.entries.extend(others.into_iter().map(|path| (path, fields.clone())));
        }
        Manifest(self.entries.into_iter().map(|(path, fields)| (escaped(&path), fields)).collect())
    }
}

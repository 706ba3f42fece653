//! Tars of every kind.

use super::support::{SHAPES, Seen, bytes, from_tar, options, shape, tree};
use floatgate_image::build::{BuildError, Container};
use floatgate_stack::fs::{Compression, DeviceNumber, Timestamp};
use std::collections::BTreeMap;
use tar::{EntryType, Header};

/// A tar that is being written, entry by entry.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn put(&mut self, header: &mut Header, data: &[u8]) {
        header.set_size(data.len() as u64);
        self.put_as_it_is(header, data);
    }

    fn put_as_it_is(&mut self, header: &mut Header, data: &[u8]) {
        header.set_cksum();
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
    }

    fn entry(&mut self, kind: EntryType, name: &str, data: &[u8]) {
        self.put(&mut header(kind, name), data);
    }

    /// An extended header for the next entry.
    fn records(&mut self, records: &[(&str, &[u8])]) {
        let mut data = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut len = rest + 1;
            while len != rest + len.to_string().len() {
                len = rest + len.to_string().len();
            }
            data.extend_from_slice(format!("{len} {key}=").as_bytes());
            data.extend_from_slice(value);
            data.push(b'\n');
        }
        self.entry(EntryType::XHeader, "extended", &data);
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self.bytes
    }
}

fn header(kind: EntryType, name: &str) -> Header {
    let mut header = Header::new_ustar();
    header.set_path(name).unwrap();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(1000);
    header.set_gid(100);
    header.set_mtime(1_600_000_000);
    header
}

/// One file of each type, with attributes of every kind, and enough data for several batches.
fn full() -> Vec<u8> {
    let mut tar = Writer::default();
    tar.records(&[("mtime", b"1500000000.123456789")]);
    let mut root = header(EntryType::Directory, "./");
    root.set_mode(0o1777);
    tar.put(&mut root, b"");
    tar.records(&[
        ("path", b"a/with spaces\xFF"),
        ("mtime", b"-1.5"),
        ("uid", b"4000000000"),
        ("SCHILY.xattr.user.binary", b"\0\n=\xFF"),
        ("SCHILY.xattr.security.capability", b"\x01\0\0\x02"),
        ("SCHILY.xattr.trusted.empty", b""),
    ]);
    let mut setuid = header(EntryType::Regular, "shorter");
    setuid.set_mode(0o6755);
    tar.put(&mut setuid, b"hello");
    tar.entry(EntryType::Regular, "large/text", &bytes(3_000_000, 1, true));
    tar.entry(EntryType::Regular, "large/noise", &bytes(1_500_001, 2, false));
    tar.entry(EntryType::Regular, "empty", b"");
    let mut zeros = bytes(40_000, 3, false);
    zeros[4096..32_768].fill(0);
    tar.entry(EntryType::Regular, "holes", &zeros);
    for (kind, name, target) in
        [(EntryType::Link, "second", "large/text"), (EntryType::Symlink, "points", "../nowhere/at all")]
    {
        let mut link = header(kind, name);
        link.set_link_name(target).unwrap();
        tar.put(&mut link, b"");
    }
    for (kind, name, minor) in
        [(EntryType::Char, "dev/console", 1), (EntryType::Block, "dev/large-minor", 0xF_FFFF)]
    {
        let mut device = header(kind, name);
        device.set_device_major(5).unwrap();
        device.set_device_minor(minor).unwrap();
        tar.put(&mut device, b"");
    }
    tar.entry(EntryType::Fifo, "dev/pipe", b"");
    for number in 0..2500 {
        tar.entry(EntryType::Regular, &format!("many/{number}"), format!("file {number}\n").as_bytes());
    }
    tar.finish()
}

fn check_full(found: &BTreeMap<Vec<u8>, Seen>) {
    let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    let file = |path: &str| &found[path.as_bytes()];
    assert_eq!((found[&b""[..]].mode, found[&b""[..]].mtime), (0o041_777, at(1_500_000_000, 123_456_789)));
    let strange = &found[&b"/a/with spaces\xFF"[..]];
    assert_eq!(
        (strange.mode, strange.owner, strange.mtime),
        (0o106_755, (4_000_000_000, 100), at(-2, 500_000_000))
    );
    let xattrs: [(&[u8], &[u8]); 3] =
        [(b"security.capability", b"\x01\0\0\x02"), (b"trusted.empty", b""), (b"user.binary", b"\0\n=\xFF")];
    assert_eq!(strange.xattrs, xattrs.map(|(name, value)| (name.to_vec(), value.to_vec())));
    assert_eq!((&*strange.contents, file("/a").mode), (&b"hello"[..], 0o040_755));
    assert!(file("/large/text").contents == bytes(3_000_000, 1, true));
    assert!(file("/large/noise").contents == bytes(1_500_001, 2, false));
    assert_eq!((file("/large/text").links, file("/second")), (2, file("/large/text")));
    assert_eq!((file("/empty").contents.len(), file("/empty").mtime), (0, at(1_600_000_000, 0)));
    assert_eq!((file("/holes").contents.len(), file("/holes").blocks), (40_000, 3));
    assert_eq!((file("/points").mode, &*file("/points").contents), (0o120_644, &b"../nowhere/at all"[..]));
    assert_eq!(file("/dev/console").device, Some(DeviceNumber { major: 5, minor: 1 }));
    assert_eq!(file("/dev/console").size, 0, "as with mkfs.ubifs");
    assert_eq!(file("/dev/large-minor").device, Some(DeviceNumber { major: 5, minor: 0xF_FFFF }));
    assert_eq!((file("/dev/pipe").mode, file("/dev").links), (0o010_644, 2));
    assert!(
        (0..2500)
            .all(|number| file(&format!("/many/{number}")).contents == format!("file {number}\n").as_bytes())
    );
    assert_eq!(found.len(), 1 + 14 + 2500);
}

#[test]
fn a_tar_comes_back_with_every_attribute_whatever_the_flash_and_the_compressor() {
    let tar = full();
    let compressors = [Compression::Lzo, Compression::Zlib, Compression::Zstd, Compression::None];
    for (index, sizes) in SHAPES.into_iter().enumerate() {
        let mut options = options(compressors[index % 4]);
        options.shape = shape(sizes);
        if index == 3 {
            options.container = Container::None;
        }
        let built = from_tar(&tar, &options).unwrap();
        assert_eq!(built.losses(), [""; 0], "{sizes:?}");
        check_full(&tree(&built.path()));
        assert_eq!(built.report.image_bytes, built.bytes().len() as u64);
    }
}

/// The same sparse file in GNU's four ways.
fn sparse_tars(data: &[u8]) -> [Vec<u8>; 4] {
    let map = "1000,500,8192,300000,900000,0";
    let numbers: Vec<&str> = map.split(',').collect();
    let each = |tar: &mut Writer, records: &[(&str, &[u8])], data: &[u8]| {
        tar.records(records);
        tar.entry(EntryType::Regular, "GNUSparseFile.1/sparse", data);
        tar.entry(EntryType::Regular, "behind", b"it");
    };
    let mut tars = [(); 4].map(|()| Writer::default());
    let mut first: Vec<(&str, &[u8])> = vec![("GNU.sparse.size", b"900000"), ("path", b"sparse")];
    for pair in numbers.chunks(2) {
        first.push(("GNU.sparse.offset", pair[0].as_bytes()));
        first.push(("GNU.sparse.numbytes", pair[1].as_bytes()));
    }
    each(&mut tars[0], &first, data);
    let name: (&str, &[u8]) = ("GNU.sparse.name", b"sparse");
    each(&mut tars[1], &[name, ("GNU.sparse.size", b"900000"), ("GNU.sparse.map", map.as_bytes())], data);
    let mut with_map = format!("3\n{}\n", numbers.join("\n")).into_bytes();
    with_map.resize(512, 0);
    with_map.extend_from_slice(data);
    let version: [(&str, &[u8]); 2] = [("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0")];
    each(&mut tars[2], &[name, version[0], version[1], ("GNU.sparse.realsize", b"900000")], &with_map);
    let mut old = Header::new_gnu();
    old.set_path("sparse").unwrap();
    old.set_entry_type(EntryType::GNUSparse);
    old.set_mode(0o644);
    old.set_uid(0);
    old.set_gid(0);
    old.set_mtime(1);
    old.set_size(data.len() as u64);
    let gnu = old.as_gnu_mut().unwrap();
    gnu.set_real_size(900_000);
    gnu.set_is_extended(true);
    gnu.sparse[0].set_offset(1000);
    gnu.sparse[0].set_length(500);
    for piece in 1..4 {
        gnu.sparse[piece].set_offset(8192 + (piece as u64 - 1) * 50_000);
        gnu.sparse[piece].set_length(50_000);
    }
    let mut more = tar::GnuExtSparseHeader::new();
    more.sparse[0].set_offset(158_192);
    more.sparse[0].set_length(150_000);
    tars[3].put_as_it_is(&mut old, &[more.as_bytes(), data].concat());
    tars[3].entry(EntryType::Regular, "behind", b"it");
    tars.map(Writer::finish)
}

#[test]
fn sparse_files_keep_their_holes() {
    let data = bytes(300_500, 5, false);
    let mut whole = vec![0; 900_000];
    whole[1000..1500].copy_from_slice(&data[..500]);
    whole[8192..308_192].copy_from_slice(&data[500..]);
    for (index, tar) in sparse_tars(&data).into_iter().enumerate() {
        let built = from_tar(&tar, &options(Compression::Lzo)).unwrap();
        assert_eq!(built.losses(), [""; 0], "way {index}");
        let found = tree(&built.path());
        let file = &found[&b"/sparse"[..]];
        assert!(file.contents == whole, "way {index}");
        assert_eq!((file.blocks, &*found[&b"/behind"[..]].contents), (75, &b"it"[..]), "way {index}");
    }
}

#[test]
fn what_ubifs_cannot_have_is_listed_and_the_rest_is_there() {
    let mut tar = Writer::default();
    tar.records(&[
        ("SCHILY.xattr.system.posix_acl_access", b"x"),
        ("SCHILY.xattr.user.long", &[7; 4097]),
        ("SCHILY.acl.default", b"user::rwx,group::r-x,other::r-x"),
        ("SCHILY.xattr.user.kept", b"1"),
    ]);
    tar.entry(EntryType::Regular, "file", b"data");
    tar.records(&[("path", &[b'n'; 256])]);
    tar.entry(EntryType::Regular, "long", b"lost");
    tar.entry(EntryType::Regular, "file/below", b"lost");
    tar.records(&[("path", b"../escape")]);
    tar.entry(EntryType::Regular, "x", b"lost");
    let mut device = header(EntryType::Char, "device");
    device.set_device_major(4096).unwrap();
    device.set_device_minor(0).unwrap();
    tar.put(&mut device, b"");
    let mut link = header(EntryType::Link, "dangling");
    link.set_link_name("nowhere").unwrap();
    tar.put(&mut link, b"");
    let mut bytes = tar.finish();
    bytes.truncate(bytes.len() - 1024);
    let built = from_tar(&bytes, &options(Compression::Zstd)).unwrap();
    let losses = built.losses();
    for part in [
        "/file: extended attribute system.posix_acl_access: UBIFS has no ACLs",
        "/file: extended attribute user.long",
        "/file: extended attribute system.posix_acl_default: UBIFS has no ACLs",
        "nnn: ",
        "/file/below: ",
        "escape: the path leads out",
        "/device: ",
        "/dangling: ",
        "/: the tar has no end mark",
    ] {
        assert!(losses.iter().any(|loss| loss.contains(part)), "{part}: {losses:#?}");
    }
    assert_eq!(losses.len(), 9);
    let found = tree(&built.path());
    assert_eq!(found.len(), 2);
    assert_eq!(found[&b"/file"[..]].xattrs, [(b"user.kept".to_vec(), b"1".to_vec())]);
}

#[test]
fn of_a_name_that_comes_twice_the_last_counts() {
    let mut tar = Writer::default();
    let mut folder = header(EntryType::Directory, "d");
    folder.set_mtime(77);
    tar.put(&mut folder, b"");
    tar.entry(EntryType::Regular, "d/x", &bytes(100_000, 1, false));
    tar.entry(EntryType::Regular, "d/x", b"new");
    tar.entry(EntryType::Directory, "e", b"");
    tar.entry(EntryType::Regular, "e", b"now a file");
    let built = from_tar(&tar.finish(), &options(Compression::Lzo)).unwrap();
    assert_eq!(built.losses(), [""; 0]);
    let found = tree(&built.path());
    assert_eq!(
        (&*found[&b"/d/x"[..]].contents, &*found[&b"/e"[..]].contents),
        (&b"new"[..], &b"now a file"[..])
    );
    assert_eq!((found[&b"/d"[..]].mtime.seconds, found[&b""[..]].links), (77, 3));
}

#[test]
fn damaged_tars_make_no_image() {
    let whole = full();
    let options = options(Compression::Lzo);
    let mut flipped = whole.clone();
    flipped[3] ^= 1;
    for (tar, what) in [
        (&whole[..1_000_000], "ends early"),
        (&whole[..1600], "a header is damaged"),
        (&flipped, "a header is damaged"),
        (&b"\x1f\x8b\x08"[..], "compressed"),
        (&[1; 5000], "no tar"),
        (&whole[512..], "no tar"),
    ] {
        let error = from_tar(tar, &options).err().unwrap();
        assert!(error.to_string().contains(what), "{error}");
    }
    for map in ["5,10,0,10", "0,99", "0,10,20", "x,10"] {
        let mut tar = Writer::default();
        tar.records(&[("GNU.sparse.size", b"100"), ("GNU.sparse.map", map.as_bytes())]);
        tar.entry(EntryType::Regular, "x", &[1; 10]);
        let error = from_tar(&tar.finish(), &options).err().unwrap();
        assert!(error.to_string().contains("sparse"), "{map}: {error}");
    }
}

#[test]
fn files_that_do_not_fit_make_no_image() {
    let mut tar = Writer::default();
    tar.entry(EntryType::Regular, "noise", &bytes(4_000_000, 1, false));
    let mut options = options(Compression::Lzo);
    options.volume_bytes = Some(3 << 20);
    let error = from_tar(&tar.finish(), &options).err().unwrap();
    let BuildError::TooFewLebs { needed, most: 25 } = error else { panic!("{error}") };
    assert!((4_000_000 / 126_976..50).contains(&needed), "{error}");
}

/// As tar does, the last one of a name counts, and what is counted is what is there.
#[test]
fn what_a_tar_has_twice_is_counted_once() {
    let mut tar = Writer::default();
    tar.entry(EntryType::Regular, "made/on/the/way", b"1");
    tar.entry(EntryType::Directory, "made", b"");
    tar.entry(EntryType::Regular, "file", b"four");
    tar.entry(EntryType::Regular, "other", b"12");
    let mut link = header(EntryType::Link, "link");
    link.set_link_name("other").unwrap();
    tar.put(&mut link, b"");
    tar.entry(EntryType::Regular, "file", b"and now longer");
    tar.entry(EntryType::Regular, "other", b"123");
    let built = from_tar(&tar.finish(), &options(Compression::Lzo)).unwrap();
    // `link` keeps what `other` was.
    assert_eq!((built.report.entries, built.report.bytes), (7, 1 + 14 + 3 + 2));
}

//! UBI and UBIFS of floatgate on flash in memory, of the sizes of the guest's chips.

use crate::manifest::Manifest;
use crate::ubifs::Chip;
use crate::witness::{escaped, hash};
use floatgate_mtd::{FlashKind, Geometry, PowerCut, RamFlash};
use floatgate_stack::fs::{Attributes, FileFlags, FileSystem, FileType, Result, Timestamp};
use floatgate_stack::ubi::{self, AttachOptions, NewVolume, Ubi, UbiVolume};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, Ubifs};
use std::collections::BTreeMap;

/// Flash whose power can go away.
pub(crate) type Flash = PowerCut<RamFlash>;

/// A mounted filesystem on it.
pub(crate) type Live = Ubifs<UbiVolume<Flash>>;

pub(crate) fn geometry(chip: &Chip) -> Geometry {
    let nor = Geometry { buffer_bytes: chip.buffer, ..Geometry::nor(chip.pebs, chip.peb) };
    if chip.page == 1 {
        return nor;
    }
    let (write_bytes, sub_page_bytes) = (chip.page, chip.sub_page);
    Geometry { kind: FlashKind::SlcNand, write_bytes, sub_page_bytes, oob_bytes: chip.page / 32, ..nor }
}

/// All bytes of the flash.
pub(crate) fn image(flash: &RamFlash) -> Vec<u8> {
    let mut bytes = Vec::new();
    let copied: std::result::Result<(), std::convert::Infallible> = flash.copy_to(|block| {
        bytes.extend_from_slice(block);
        Ok(())
    });
    copied.unwrap();
    bytes
}

/// Mounts what is in an image of a chip.
pub(crate) fn mount(chip: &Chip, image: &[u8], options: &MountOptions) -> std::result::Result<Live, String> {
    let flash = PowerCut::new(RamFlash::from_bytes(geometry(chip), image));
    let attach = AttachOptions { read_only: options.read_only, ..AttachOptions::default() };
    let ubi = Ubi::attach(flash, &attach).map_err(|error| error.fault.to_string())?;
    let volume = ubi.open_volume(0).map_err(|(error, _)| error.to_string())?;
    Ubifs::mount(volume, options, Behaviour::default()).map_err(|(error, _)| error.to_string())
}

/// A new filesystem on a new chip, in a volume `fixture`.
pub(crate) fn format(chip: &Chip, options: &FormatOptions) -> Live {
    let flash = PowerCut::new(RamFlash::new(geometry(chip)));
    let formatted = Ubi::format(flash, &ubi::FormatOptions { image_seq: 1, ..ubi::FormatOptions::default() });
    let (flash, _) = formatted.map_err(|(error, _)| error).unwrap();
    let mut ubi = Ubi::attach(flash, &AttachOptions::default()).map_err(|error| error.fault).unwrap();
    let lebs = ubi.info().available_lebs;
    ubi.create_volume(&NewVolume::dynamic("fixture", lebs)).unwrap();
    let volume = ubi.open_volume(0).map_err(|(error, _)| error).unwrap();
    Ubifs::format(volume, options, Behaviour::default()).map_err(|(error, _)| error).unwrap()
}

/// The chip after all was written and everything ended properly.
pub(crate) fn close(live: Live) -> Vec<u8> {
    let volume = live.unmount().map_err(|(error, _)| error).unwrap();
    let (flash, _) = volume.into_ubi().detach().map_err(|(error, _)| error).unwrap();
    image(flash.inner())
}

/// The chip as it is.
pub(crate) fn abandon(live: Live) -> Vec<u8> {
    image(live.abandon().into_ubi().into_mtd().inner())
}

/// What is in the filesystem, with all that the witness knows.
pub(crate) fn manifest(live: &mut dyn FileSystem) -> Result<Manifest> {
    let mut tree = Tree { entries: BTreeMap::new(), first: BTreeMap::new() };
    let root = live.root();
    tree.add(live, Vec::new(), root)?;
    let Tree { mut entries, first } = tree;
    for (inode, fields) in entries.values_mut() {
        if fields["type"] != "d" && fields["nlink"] != "1" {
            fields.insert("group".to_owned(), escaped(&first[inode]));
        }
    }
    Ok(Manifest(entries.into_iter().map(|(path, (_, fields))| (shown(&path), fields)).collect()))
}

fn shown(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { escaped(path) }
}

type Fields = BTreeMap<String, String>;

struct Tree {
    entries: BTreeMap<Vec<u8>, (u32, Fields)>,
    /// The first path of each inode.
    first: BTreeMap<u32, Vec<u8>>,
}

impl Tree {
    fn add(&mut self, live: &mut dyn FileSystem, path: Vec<u8>, inode: u32) -> Result<()> {
        let fields = fields(live, inode)?;
        let first = self.first.entry(inode).or_insert_with(|| path.clone());
        if path < *first {
            first.clone_from(&path);
        }
        if fields["type"] == "d" {
            for entry in live.read_dir(inode, None, usize::MAX)? {
                let below =
                    if path.is_empty() { entry.name } else { [&path[..], b"/", &entry.name].concat() };
                self.add(live, below, entry.inode)?;
            }
        }
        self.entries.insert(path, (inode, fields));
        Ok(())
    }
}

fn fields(live: &mut dyn FileSystem, inode: u32) -> Result<Fields> {
    let attributes = live.attributes(inode)?;
    let mut fields = general(&attributes);
    match attributes.file_type {
        FileType::Regular => {
            let mut data = vec![0; attributes.size as usize];
            let read = live.read(inode, 0, &mut data)?;
            assert_eq!(read, data.len());
            fields.push(("data", format!("{:016x}", hash(&data))));
        }
        FileType::Symlink => fields.push(("target", escaped(&live.read_link(inode)?))),
        _ => {}
    }
    let mut fields: Fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
    for name in live.list_xattrs(inode)? {
        let value: String = live.get_xattr(inode, &name)?.iter().map(|byte| format!("{byte:02x}")).collect();
        fields.insert(format!("xattr:{}", escaped(&name)), value);
    }
    Ok(fields)
}

fn general(attributes: &Attributes) -> Vec<(&'static str, String)> {
    let time = |time: Timestamp| format!("{}.{:09}", time.seconds, time.nanoseconds);
    let mut fields = vec![
        ("type", letter(attributes.file_type).to_string()),
        ("ino", attributes.inode.to_string()),
        ("mode", format!("{:04o}", attributes.mode & 0o7777)),
        ("uid", attributes.uid.to_string()),
        ("gid", attributes.gid.to_string()),
        ("nlink", attributes.links.to_string()),
        ("size", attributes.size.to_string()),
        ("atime", time(attributes.atime)),
        ("mtime", time(attributes.mtime)),
        ("ctime", time(attributes.ctime)),
    ];
    if let Some(device) = attributes.device {
        fields.push(("rdev", format!("{}:{}", device.major, device.minor)));
    }
    if matches!(attributes.file_type, FileType::Regular | FileType::Directory) {
        fields.push(("flags", format!("{:x}", flags(attributes.flags))));
    }
    fields
}

const fn letter(file_type: FileType) -> char {
    match file_type {
        FileType::Regular => 'f',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::BlockDevice => 'b',
        FileType::CharacterDevice => 'c',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        _ => '?',
    }
}

/// As `FS_IOC_GETFLAGS` has them.
fn flags(flags: FileFlags) -> u32 {
    let linux = [
        (FileFlags::COMPRESS, 0x4),
        (FileFlags::SYNC, 0x8),
        (FileFlags::IMMUTABLE, 0x10),
        (FileFlags::APPEND, 0x20),
        (FileFlags::DIRSYNC, 0x1_0000),
    ];
    linux.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, bit)| bit).sum()
}

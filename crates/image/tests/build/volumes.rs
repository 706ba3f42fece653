//! UBI images from an ini file.

use super::support::{SHAPES, bytes, from_tar, options, shape};
use floatgate_image::build::Container;
use floatgate_image::ubinize::{Headers, UbinizeError, image_seq, read, ubinize};
use floatgate_image::{Access, Image, Selection};
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::Behaviour;
use std::path::{Path, PathBuf};

/// A filesystem, static bytes and an empty volume.
const INI: &str = "[rootfs]\nmode=ubi\nimage=root.ubifs\nvol_id=0\nvol_type=dynamic\nvol_name=rootfs\nvol_size=64MiB\n\
                   vol_flags=autoresize\n\n[kernel]\nmode=ubi\nimage=kernel.bin\nvol_id=3\nvol_type=static\n\
                   vol_name=kernel\nvol_alignment=4096\n\n[data]\nmode=ubi\nvol_id=1\nvol_name=data\nvol_size=1MiB\n";

fn write(folder: &Path, sizes: [u32; 3]) -> PathBuf {
    let mut options = options(Compression::Lzo);
    (options.container, options.shape) = (Container::None, shape(sizes));
    let built = from_tar(&[0; 1024], &options).unwrap();
    std::fs::write(folder.join("root.ubifs"), built.bytes()).unwrap();
    std::fs::write(folder.join("kernel.bin"), bytes(300_001, 4, false)).unwrap();
    let ini = folder.join("volumes.ini");
    std::fs::write(&ini, INI).unwrap();
    ini
}

fn made(ini: &Path, sizes: [u32; 3]) -> Result<Vec<u8>, UbinizeError> {
    let volumes = read(ini)?;
    let headers =
        Headers { geometry: shape(sizes).ubi().unwrap(), image_seq: image_seq(&volumes)?, erase_count: 5 };
    let mut store = Vec::new();
    ubinize(&shape(sizes), &headers, &volumes, &mut store)?;
    Ok(store)
}

#[test]
fn every_volume_is_there() {
    for sizes in SHAPES {
        let folder = tempfile::tempdir().unwrap();
        let ini = write(folder.path(), sizes);
        let image = folder.path().join("image");
        std::fs::write(&image, made(&ini, sizes).unwrap()).unwrap();
        let open = || Image::open(&image, Access::Read).unwrap();
        let volume = |name: &str| Selection { volume: Some(name.to_owned()), ..Selection::default() };
        open().mount(&volume("rootfs"), false, Behaviour::default()).unwrap();
        let mut kernel = open().volume(&volume("3")).unwrap();
        let geometry = kernel.geometry();
        let wanted = bytes(300_001, 4, false);
        for (lnum, part) in (0..).zip(wanted.chunks(geometry.leb_bytes as usize)) {
            let mut leb = vec![0; part.len()];
            kernel.read(lnum, 0, &mut leb).unwrap();
            assert!(leb == part, "LEB {lnum} of {sizes:?}");
        }
        assert_eq!(geometry.leb_bytes % 4096, 0);
        let mut data = open().volume(&volume("data")).unwrap();
        assert!(data.geometry().lebs * data.geometry().leb_bytes >= 1 << 20);
        assert!(!data.is_mapped(0).unwrap());
    }
}

#[test]
fn the_image_sequence_number_follows_from_what_is_in_the_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let ini = write(folder.path(), SHAPES[0]);
    let first = made(&ini, SHAPES[0]).unwrap();
    assert!(made(&ini, SHAPES[0]).unwrap() == first);
    let number = image_seq(&read(&ini).unwrap()).unwrap();
    let mut kernel = bytes(300_001, 4, false);
    kernel[299_999] ^= 1;
    std::fs::write(folder.path().join("kernel.bin"), kernel).unwrap();
    assert_ne!(image_seq(&read(&ini).unwrap()).unwrap(), number);
}

#[test]
fn volumes_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ini = write(folder.path(), SHAPES[0]);
    for (from, to, what) in [
        ("vol_id=3", "vol_id=0", "another volume has vol_id 0"),
        ("vol_name=kernel", "vol_name=rootfs", "another volume has this name"),
        ("vol_alignment=4096", "vol_alignment=1024", "vol_alignment is 1 or a multiple of 2048"),
        ("vol_alignment=4096", "vol_alignment=262144", "vol_alignment is"),
        ("vol_alignment=4096", "vol_size=100000", "do not fit"),
        ("vol_alignment=4096", "vol_flags=autoresize", "another volume has the flag"),
        ("vol_id=3", "vol_id=128", "vol_id 128 is too high"),
        ("kernel.bin", "nosuch.bin", "nosuch.bin"),
        ("vol_size=1MiB", "vol_size=0", "impossible size"),
    ] {
        std::fs::write(&ini, INI.replace(from, to)).unwrap();
        let error = made(&ini, SHAPES[0]).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(what)), "{to}: {error:?}");
    }
}

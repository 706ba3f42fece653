//! Images made by `ubinize` of mtd-utils. Where it is not installed, these tests do nothing and print a
//! message.

use super::common::{Random, attach, bytes, quiet};
use floatgate_media::ubi::VolumeType;
use floatgate_mtd::ram::RamFlash;
use floatgate_mtd::{Geometry, Mtd};
use floatgate_stack::ubi::{AttachOptions, Ubi};
use std::path::PathBuf;
use std::process::Command;

/// Creates a directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Output of `ubinize` for a static and a dynamic volume with this content; `None` if it is not
/// installed.
fn ubinize(
    name: &str,
    geometry: &Geometry,
    vid_header_offset: Option<u32>,
    content: &[u8],
) -> Option<Vec<u8>> {
    if Command::new("ubinize").arg("--version").output().is_err() {
        eprintln!("skipped: ubinize (mtd-utils) is not installed");
        return None;
    }
    let directory = directory(name);
    let (ini, input, output) = (directory.join("ini"), directory.join("in"), directory.join("out"));
    std::fs::write(&input, content).unwrap();
    let image = input.display();
    let config = format!(
        "[a]\nmode=ubi\nimage={image}\nvol_id=0\nvol_type=static\nvol_name=fixed\nvol_size=320KiB\n\
         [b]\nmode=ubi\nimage={image}\nvol_id=3\nvol_type=dynamic\nvol_name=data\nvol_size=320KiB\nvol_alignment=1\n\
         [c]\nmode=ubi\nvol_id=5\nvol_type=dynamic\nvol_name=rest\nvol_size=1KiB\nvol_flags=autoresize\n"
    );
    std::fs::write(&ini, config).unwrap();
    let mut command = Command::new("ubinize");
    command.arg("-o").arg(&output).arg("-Q").arg("0x1234abcd").arg("-e").arg("5");
    command.arg("-p").arg(geometry.erase_bytes.to_string()).arg("-m").arg(geometry.write_bytes.to_string());
    command.arg("-s").arg(geometry.sub_page_bytes.to_string());
    if let Some(offset) = vid_header_offset {
        command.arg("-O").arg(offset.to_string());
    }
    let ran = command.arg(&ini).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    Some(std::fs::read(&output).unwrap())
}

#[test]
fn images_attach_and_read_exactly() {
    let cases = [
        (Geometry::nand_2048(40), None),
        (Geometry::nand_2048(40).with_sub_pages(2048), None),
        (Geometry::nand_2048(40), Some(2048)),
        (Geometry::nand_512(120), None),
        (Geometry::nand_4096(40), None),
        (Geometry::nor(40, 65536), None),
        (Geometry::nor(40, 131_072), Some(104)),
    ];
    for (index, (geometry, vid_header_offset)) in cases.into_iter().enumerate() {
        let content = Random::new(index as u64).bytes(150_001);
        let name = format!("ubinize-{index}");
        let Some(image) = ubinize(&name, &geometry, vid_header_offset, &content) else { return };
        let flash = RamFlash::from_bytes(geometry, &image);
        let before = bytes(&flash);
        let options = AttachOptions { vid_header_offset, ..quiet() };
        let mut ubi = Ubi::attach(flash, &AttachOptions { read_only: true, ..options.clone() }).unwrap();
        check(&mut ubi, &content);
        let flash = ubi.into_mtd();
        assert!(bytes(&flash) == before);
        // On a live device, the last volume grows to the available space, and the others do not change.
        let mut ubi = Ubi::attach(flash, &options).unwrap();
        check(&mut ubi, &content);
        assert_eq!(ubi.info().available_lebs, 0);
        let rest = ubi.volume(5).unwrap();
        assert!(rest.reserved_lebs > 10 && rest.flags.bits() == 0);
        ubi.change_leb(5, rest.reserved_lebs - 1, &content[..8192]).unwrap();
        let mut ubi = Ubi::attach(ubi.into_mtd(), &options).unwrap();
        check(&mut ubi, &content);
    }
}

fn check(ubi: &mut Ubi<dyn Mtd>, content: &[u8]) {
    let info = ubi.info();
    assert_eq!((info.image_seq, info.corrupted_pebs), (0x1234_ABCD, 0));
    let volumes: Vec<_> = ubi.volumes().map(|v| (v.id, v.name, v.volume_type)).collect();
    let (fixed, dynamic) = (VolumeType::Static, VolumeType::Dynamic);
    let expected = [(0, "fixed", fixed), (3, "data", dynamic), (5, "rest", dynamic)];
    assert_eq!(volumes, expected.map(|(id, name, kind)| (id, name.as_bytes().to_vec(), kind)));
    let mut buf = vec![0; content.len() + 1];
    assert_eq!(ubi.read_volume(0, 0, &mut buf), Ok(content.len()));
    assert!(buf[..content.len()] == *content);
    assert_eq!(ubi.volume(0).unwrap().used_bytes, content.len() as u64);
    assert_eq!(ubi.read_volume(3, 0, &mut buf), Ok(buf.len()));
    assert!(buf[..content.len()] == *content && buf[content.len()] == 0xFF);
}

/// With damage anywhere in the headers of an image, an attach ends with the remaining data or an error.
#[test]
fn damaged_images_never_panic() {
    let geometry = Geometry::nor(80, 16384);
    let content = Random::new(1).bytes(100_000);
    let Some(image) = ubinize("ubinize-damaged", &geometry, None, &content) else { return };
    let mut random = Random::new(7);
    let mut attached = 0;
    for _ in 0..2000 {
        let mut image = image.clone();
        for _ in 0..1 + random.below(4) {
            let peb = random.below(image.len() as u64 / 16384) as usize * 16384;
            let at = peb + random.below(400) as usize;
            image[at] = random.bits() as u8;
        }
        let flash = RamFlash::from_bytes(geometry.clone(), &image);
        let Ok(mut ubi) = Ubi::attach(flash, &AttachOptions::default()) else { continue };
        attached += 1;
        let ids: Vec<u32> = ubi.volumes().map(|volume| volume.id).collect();
        for id in ids {
            let mut buf = vec![0; 50_000];
            drop(ubi.read_volume(id, 0, &mut buf));
            drop(ubi.write_leb(id, 0, 0, &[0; 64]));
        }
        drop(ubi.flush());
    }
    assert!(attached > 500, "{attached}");
    drop(attach(RamFlash::from_bytes(geometry, &image)));
}

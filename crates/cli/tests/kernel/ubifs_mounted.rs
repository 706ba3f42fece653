//! The kernel reads what programs wrote through `floatgate image mount`, and goes on with it.

use crate::judge::fresh;
use crate::judged::{Judged, Ours};
use crate::live::{manifest, mount};
use crate::manifest::Manifest;
use crate::mounted::{Mount, has_fuse};
use crate::ubifs::{CHIPS, Chip, floatgate};
use floatgate_stack::ubifs::MountOptions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The chips, with the compressor of each image.
const IMAGES: [(&str, &str); 3] = [("2k", "lzo"), ("4k-256k-O", "zstd"), ("nor", "zlib")];

/// An empty filesystem in most of a chip.
fn build(chip: &Chip, compressor: &str, folder: &Path) -> PathBuf {
    let image = folder.join(format!("{}.bin", chip.name));
    std::fs::create_dir_all(folder.join("empty")).unwrap();
    let size = u64::from(chip.pebs - 16) * u64::from(chip.peb - 2 * chip.page.max(64));
    let [page, sub_page, peb] = [chip.page, chip.sub_page, chip.peb].map(|bytes| bytes.to_string());
    let (size, empty) = (size.to_string(), folder.join("empty"));
    let sizes =
        ["--page-size", &page, "--sub-page-size", &sub_page, "--peb-size", &peb, "--volume-size", &size];
    let names = ["--compress", compressor, "--volume", "fixture", "-o", image.to_str().unwrap()];
    let built = floatgate(&[&["image", "build", empty.to_str().unwrap()][..], &sizes, &names].concat());
    assert!(built.status.success(), "{}: {}", chip.name, String::from_utf8_lossy(&built.stderr));
    image
}

/// Copies the sources of this project, renames, links, removes and overwrites some.
fn work(root: &Path) {
    let shell = |script: &str| {
        let status = Command::new("sh").args(["-euc", script]).current_dir(root).status();
        assert!(status.unwrap().success(), "{script}");
    };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    shell(&format!("tar -C '{}' -cf - . | tar -xf -", sources.display()));
    shell(
        "cp -r image again; mv again/mount.rs again/moved; rm again/d*.rs; ln main.rs linked; ln -s linked soft",
    );
    shell(
        "head -c 300000 /dev/zero >zeros; truncate -s 1M sparse; printf end >>sparse; truncate -s 5 common.rs || true",
    );
    shell(
        "mkfifo fifo; chmod 6751 linked; chown 70000:8 linked; touch -d @1234567890.123456789 main.rs; rm -rf image",
    );
}

/// What floatgate finds in an image, on a chip that is erased behind it.
fn found(chip: &Chip, image: &[u8]) -> Manifest {
    let mut bytes = image.to_vec();
    bytes.resize(chip.pebs as usize * chip.peb as usize, 0xFF);
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    manifest(&mut mount(chip, &bytes, &options).unwrap()).unwrap()
}

/// What `statfs` says of an image that is mounted for writing.
fn statfs(folder: &Path, image: &str) -> Vec<u64> {
    let mount = Mount::new(folder, image, &["--rw"]).unwrap();
    let space = rustix::fs::statvfs(&mount.directory).unwrap();
    mount.end();
    vec![space.f_bsize, space.f_blocks, space.f_bfree, space.f_bavail]
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_finds_what_programs_wrote() {
    if !has_fuse() {
        return;
    }
    let folder = fresh("ubifs-mounted");
    let (mut images, mut sizes) = (Vec::new(), BTreeMap::new());
    for (name, compressor) in IMAGES {
        let chip = CHIPS.iter().find(|chip| chip.name == name).unwrap();
        let image = build(chip, compressor, &folder);
        let file = image.file_name().unwrap().to_str().unwrap();
        let Some(mount) = Mount::new(&folder, file, &["--rw"]) else { return };
        work(&mount.directory);
        mount.end();
        sizes.insert(name.to_owned(), statfs(&folder, file));
        let manifest = found(chip, &std::fs::read(&image).unwrap());
        images.push(Ours { name: name.to_owned(), chip, image, manifest });
    }
    let judged = Judged::by_kernel("mounted", images).unwrap_or_else(|why| panic!("{why}"));
    judged.assert_found();
    assert_eq!(judged.statfs(), sizes);
    judged.assert_silent(|_, _| false);
    judged.assert_read_after(|_, chip, image| found(chip, image));
}

//! The matrix of formats and the options of the tools that make them: each image has the files of the folder that it was made of.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;
use std::process::Command;

use super::{Seen, noise, text, tree};
use floatgate_stack::fs::FileType;

/// Tools with their options: `IN` stands for the folder, `OUT` for the image. Several commands are run by a shell.
const TOOLS: &[&str] = &[
    "mksquashfs IN OUT -comp gzip",
    "mksquashfs IN OUT -comp lzma",
    "mksquashfs IN OUT -comp lzo",
    "mksquashfs IN OUT -comp xz -Xbcj x86,arm -b 1M",
    "mksquashfs IN OUT -comp lz4 -Xhc",
    "mksquashfs IN OUT -comp zstd -b 4K",
    "mksquashfs IN OUT -noI -noD -noF -noX -no-fragments",
    "mkfs.erofs OUT IN",
    "mkfs.erofs -zlz4 OUT IN",
    "mkfs.erofs -zlz4hc,12 -C65536 OUT IN",
    "mkfs.erofs -zlz4 -Elegacy-compress OUT IN",
    "mkfs.erofs -zlz4 -Eztailpacking OUT IN",
    "mkfs.erofs -zlz4 -Efragments,ztailpacking -C16384 OUT IN",
    "mkfs.erofs -zlz4 -Ededupe OUT IN",
    "mkfs.erofs --chunksize 4096 OUT IN",
    "mke2fs -q -t ext2 -b 1024 -d IN OUT 8M",
    "mke2fs -q -t ext3 -b 4096 -d IN OUT 8M",
    "mke2fs -q -t ext4 -b 1024 -d IN OUT 8M",
    "mke2fs -q -t ext4 -b 4096 -O inline_data -I 256 -d IN OUT 8M",
    "mke2fs -q -t ext4 -b 1024 -O meta_bg,^resize_inode,64bit -d IN OUT 16M",
    "mkfs.cramfs IN OUT",
    "truncate -s 100M OUT && mkfs.f2fs -q -f OUT && sload.f2fs -f IN OUT",
    "truncate -s 100M OUT && mkfs.f2fs -q -f -O extra_attr,inode_checksum OUT && sload.f2fs -f IN OUT",
];

fn fill(folder: &Path) {
    std::fs::create_dir_all(folder.join("etc/deep/er")).unwrap();
    std::fs::write(folder.join("text"), text()).unwrap();
    std::fs::write(folder.join("noise"), noise(300_001)).unwrap();
    std::fs::write(folder.join("long"), text().repeat(40)).unwrap();
    std::fs::write(folder.join("empty"), "").unwrap();
    std::fs::set_permissions(folder.join("text"), PermissionsExt::from_mode(0o750)).unwrap();
    for number in 0..300 {
        std::fs::write(folder.join(format!("etc/deep/a file {number}")), number.to_string()).unwrap();
    }
    std::os::unix::fs::symlink("../text", folder.join("etc/link")).unwrap();
    std::os::unix::fs::symlink("x".repeat(90), folder.join("etc/deep/far")).unwrap();
}

/// The files of a folder of the host.
fn host(root: &Path, path: &Path, seen: &mut BTreeMap<String, (u32, i64, Vec<u8>)>) {
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let status = std::fs::symlink_metadata(&path).unwrap();
        let data = match status.file_type() {
            kind if kind.is_file() => std::fs::read(&path).unwrap(),
            kind if kind.is_symlink() => {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        seen.insert(name, (status.mode() & 0o7777, status.mtime(), data));
        if status.is_dir() {
            host(root, &path, seen);
        }
    }
}

fn compare(line: &str, wanted: &BTreeMap<String, (u32, i64, Vec<u8>)>, mut seen: BTreeMap<String, Seen>) {
    seen.remove("lost+found");
    assert!(wanted.keys().eq(seen.keys()), "{line}");
    for (name, (permissions, mtime, data)) in wanted {
        let file = &seen[name];
        assert!(&file.data == data, "{line}: {name}");
        if file.file_type != FileType::Symlink {
            assert_eq!(file.permissions, *permissions, "{line}: {name}");
        }
        // CramFS has no times, and compact inodes of EROFS have that of the image.
        if !line.contains("cramfs") && !line.contains("erofs") {
            assert_eq!(file.mtime, *mtime, "{line}: {name}");
        }
    }
}

#[test]
#[ignore = "slow: ./test --all"]
fn slow_images_of_all_tools_have_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let (from, out) = (folder.path().join("from"), folder.path().join("out"));
    std::fs::create_dir(&from).unwrap();
    fill(&from);
    let mut wanted = BTreeMap::new();
    host(&from, &from, &mut wanted);
    let mut ran = 0;
    for line in TOOLS {
        let _ = std::fs::remove_file(&out);
        let words = line.split(' ').map(|word| match word {
            "IN" => from.clone().into_os_string(),
            "OUT" => out.clone().into_os_string(),
            word => word.into(),
        });
        let words: Vec<std::ffi::OsString> = if line.contains(" && ") {
            let line = line.replace("IN", from.to_str().unwrap()).replace("OUT", out.to_str().unwrap());
            vec!["sh".into(), "-c".into(), line.into()]
        } else {
            words.collect()
        };
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let made = Command::new(&words[0]).args(&words[1..]).env("PATH", path).output();
        match made {
            Ok(made) if made.status.success() => {
                println!("{line}");
                compare(line, &wanted, tree(&out));
                ran += 1;
            }
            made => println!("not run: {line}: {made:?}"),
        }
    }
    assert!(ran > 0, "no tool is installed");
}

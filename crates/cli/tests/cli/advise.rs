//! `floatgate advise`: the commands that it prints work, and what is on a device is judged.

use crate::support::{fresh, run_in};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

fn advice(folder: &Path, words: &[&str]) -> Value {
    let run = run_in(folder, [&["advise"][..], words, &["--json"]].concat());
    assert_eq!(run.code, Some(0), "{words:?}: {}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

fn commands(advice: &Value) -> Vec<String> {
    let points = advice["points"].as_array().unwrap().iter();
    points.flat_map(|p| p["commands"].as_array().unwrap()).map(|c| c.as_str().unwrap().to_owned()).collect()
}

fn point<'a>(advice: &'a Value, topic: &str) -> &'a Value {
    advice["points"].as_array().unwrap().iter().find(|p| p["topic"] == topic).unwrap()
}

/// Runs a shell command; false where its program is not installed.
fn shell(folder: &Path, command: &str) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let output =
        Command::new("sh").args(["-c", command]).env("PATH", path).current_dir(folder).output().unwrap();
    if output.status.code() == Some(127) {
        eprintln!("skipped: {command}: not installed");
        return false;
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command}: {out}{err}");
    true
}

/// The number after a word of a command.
fn number(command: &str, before: &str) -> u64 {
    let rest = &command[command.find(before).unwrap() + before.len()..];
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// mkfs of every filesystem accepts what is advised for cards with several allocation units, and FAT's first cluster is on a border.
#[test]
fn commands_of_cards_work() {
    let folder = fresh("advise_commands");
    for (capacity, au_mib) in [("4GiB", 4_u64), ("8GiB", 6), ("2GiB", 64), ("1GiB", 3)] {
        for fs in ["ext4", "f2fs", "nilfs2", "vfat"] {
            let sets = [format!("card.capacity_bytes={capacity}"), format!("card.au_bytes={au_mib}MiB")];
            let words =
                ["samsung-evo-16g", "--fs", fs, "--workload", "create", "--set", &sets[0], "--set", &sets[1]];
            let all = commands(&advice(&folder, &words));
            let (table, mkfs) = (&all[0], &all[1]);
            let (start, sectors) = (number(table, "start="), number(table, "size="));
            assert_eq!(start * 512 % (au_mib << 20), 0, "{table}");
            let part = File::create(folder.join("part")).unwrap();
            part.set_len(sectors * 512).unwrap();
            let force = match fs {
                "ext4" => " -q -F",
                "vfat" => "",
                _ => " -q -f",
            };
            let mkfs = mkfs.replacen(' ', &format!("{force} "), 1).replace("/dev/mmcblk0p1", "part");
            if shell(&folder, &mkfs) && fs == "vfat" {
                let mut boot = [0; 64];
                File::open(folder.join("part")).unwrap().read_exact_at(&mut boot, 0).unwrap();
                let le =
                    |at: usize, n: usize| (0..n).rev().fold(0_u64, |v, i| v << 8 | u64::from(boot[at + i]));
                let fat = if le(22, 2) == 0 { le(36, 4) } else { le(22, 2) };
                let data = le(14, 2) + 2 * fat + le(17, 2) * 32 / 512;
                // Reserved sectors have 16 bits: an allocation unit of 64 MiB is out of their reach, half of it is not.
                assert_eq!(data * 512 % ((au_mib << 20).min(32 << 20)), 0, "{mkfs}: {data}");
            }
        }
    }
    std::fs::remove_file(folder.join("part")).unwrap();
}

/// The partition table is accepted by sfdisk, and found again by the probe in the same image, which then has nothing to say against it.
#[test]
fn a_device_as_advised_is_left_as_it_is_and_another_is_not() {
    let folder = fresh("advise_existing");
    let json = r#"{"capacity_bytes":268435456,"answers":{"erase_block":{"value":4194304,"confidence":0.9},
        "page":{"value":16384,"confidence":0.9},"open_aus_linear":{"value":5,"confidence":0.9}}}"#;
    std::fs::write(folder.join("probe.json"), json).unwrap();
    let advised = advice(&folder, &["probe.json", "--fs", "ext4", "--workload", "create"]);
    let all = commands(&advised);
    let image = File::create(folder.join("card.img")).unwrap();
    image.set_len(256 << 20).unwrap();
    if !shell(&folder, &all[0].replace("/dev/mmcblk0", "card.img").replace("sfdisk", "sfdisk -q")) {
        return;
    }
    let start = number(&all[0], "start=") * 512;
    // mkfs.ext4 takes one -E: the offset goes before the stride.
    let size_kib = number(&all[0], "size=") / 2;
    let with_offset = |mkfs: &str| {
        let mkfs =
            mkfs.replace("-E ", &format!("-q -F -E offset={start},")).replace("/dev/mmcblk0p1", "card.img");
        shell(&folder, &format!("{mkfs} {size_kib}k"))
    };
    if !with_offset(&all[1]) {
        return;
    }
    let stated = std::fs::read(folder.join("card.img")).unwrap();
    let superblock = &stated[start as usize + 1024..];
    assert_eq!(superblock[56..58], [0x53, 0xEF]);
    assert_eq!(superblock[368..372], 1024_u32.to_le_bytes());
    let found = advice(&folder, &["card.img", "--fs", "ext4", "--workload", "create"]);
    let there = point(&found, "what is there");
    assert!(there["rests_on"].to_string().contains("ext4"), "{there}");
    with_offset("mkfs.ext4 -b 4096 -E stride=1,stripe_width=1 /dev/mmcblk0p1");
    let other = advice(&folder, &["card.img", "--fs", "ext4", "--workload", "create"]);
    let advice = point(&other, "what is there")["advice"].as_str().unwrap().to_owned();
    assert!(advice.contains("tune2fs -E stride=") && advice.contains(" /dev/mmcblk0p1`"), "{advice}");
    std::fs::remove_file(folder.join("card.img")).unwrap();
}

#[test]
fn what_cannot_be_advised_on_says_why() {
    let folder = fresh("advise_errors");
    std::fs::write(folder.join("list.json"), "{\"a\": [1]}").unwrap();
    std::fs::write(folder.join("broken.json"), "{\"answers\": ").unwrap();
    let au = r#"{"capacity_bytes": 1073741824, "answers": {"erase_block": {"value": 3, "confidence": 1}}}"#;
    std::fs::write(folder.join("au.json"), au).unwrap();
    std::fs::write(folder.join("fs.json"), "{\"flash_bytes\": 1, \"rows\": []}").unwrap();
    std::fs::write(folder.join("flash_speed.txt"), "eraseblock write speed is 2400 KiB/s\n").unwrap();
    for (words, part) in [
        (&["list.json"][..], "no answers of a probe"),
        (&["au.json"], "answers.erase_block.value is 3"),
        (&["/dev/mtd77"], "/dev/mtd77: there is no such device"),
        (&["broken.json"], "no JSON of a probe"),
        (&["fs.json"], "a result of `floatgate fs`, of which no advice follows"),
        (&["flash_speed.txt"], "a log of flash_speed, dd or U-Boot"),
        (&["w25n01gx"], "did you mean `w25n01gv`"),
        (&["kingston-class-10", "--fs", "ntfs"], "there are ext4, f2fs, nilfs2, vfat"),
        (&["kingston-class-10", "--workload", "x"], "there are create, dbench, kernel-build, postmark"),
        (&["imx6-mx30lf2g18ac", "--fs", "ext4"], "raw flash has UBIFS or JFFS2"),
        (&["imx6-mx30lf2g18ac", "--workload", "create"], "--workload says nothing about imx6-mx30lf2g18ac"),
        (&["imx6-mx30lf2g18ac", "--state", "full"], "--state says nothing about"),
        (&["imx6-mx30lf2g18ac", "--partition", "0"], "a partition of 0 bytes holds nothing"),
        (&["imx6-mx30lf2g18ac", "--partition", "1.3"], "is no size"),
        (&["imx6-mx30lf2g18ac", "--partition", "1GiB"], "reach beyond the end of the device"),
        (&["kingston-class-10", "--partition", "1MiB"], "--partition says nothing about kingston-class-10"),
        (&["kingston-class-10", "--years", "5"], "--years says nothing about"),
        (&["kingston-class-10", "--write-per-day", "0"], "does not wear"),
        (&["kingston-class-10", "--temperature", "50"], "--temperature says nothing about"),
        (&["list.json", "--set", "card.open_aus=3"], "is measured, not simulated"),
    ] {
        let run = run_in(&folder, [&["advise"][..], words].concat());
        assert_eq!(run.code, Some(2), "{words:?}");
        assert!(run.err.contains(part), "{words:?}: {}", run.err);
    }
}

/// Partitions of a few eraseblocks have no filesystem, or JFFS2, and the reasons are those of the filesystems.
#[test]
fn small_partitions_of_raw_flash_are_not_for_ubifs() {
    let folder = fresh("advise_small");
    let of = |size: &str| {
        advice(&folder, &["imx6-mx30lf2g18ac", "--partition", size, "--write-per-day", "0", "--years", "1"])
    };
    for size in ["128KiB", "256KiB"] {
        let tiny = of(size);
        let filesystem = point(&tiny, "filesystem");
        assert!(filesystem["advice"].as_str().unwrap().starts_with("choose neither"), "{filesystem}");
        assert!(!commands(&tiny).iter().any(|command| command.contains("ubi")), "{tiny}");
    }
    let small = of("1MiB");
    assert!(point(&small, "filesystem")["advice"].as_str().unwrap().starts_with("choose JFFS2"), "{small}");
    assert!(commands(&small).iter().any(|command| command.starts_with("mkfs.jffs2")), "{small}");
    let life = point(&small, "speed and life")["advice"].as_str().unwrap();
    assert!(life.contains("nothing wears"), "{life}");
}

/// mkfs.jffs2 makes images for 8 KiB and more, and Linux drops nodes that cross the ends of smaller eraseblocks.
#[test]
fn jffs2_on_small_sectors_is_for_larger_ones() {
    let folder = fresh("advise_sectors");
    let of = |set: &[&str]| {
        let words = ["stm32-n25q128a", "--partition", "1MiB", "--write-per-day", "0", "--years", "1"];
        advice(&folder, &[&words[..], set].concat())
    };
    let small = of(&[]);
    assert!(
        commands(&small).contains(&"mkfs.jffs2 -l -e 65536 -r FOLDER -o root.jffs2".to_owned()),
        "{small}"
    );
    let make = point(&small, "mkfs and mount")["advice"].as_str().unwrap().to_owned();
    assert!(make.contains("without CONFIG_MTD_SPI_NOR_USE_4K_SECTORS"), "{make}");
    let large = point(&of(&["--set", "driver.erase_bytes=64KiB"]), "mkfs and mount")["advice"].to_string();
    assert!(!large.contains("CONFIG"), "{large}");
}

/// A node of raw flash has no card behind it. Who is not root cannot make nodes, and the test is skipped then.
#[test]
fn nodes_of_raw_flash_are_refused() {
    let folder = fresh("advise_mtd");
    for (name, kind, numbers) in [("flash", "c", "90 154"), ("flash-block", "b", "31 77")] {
        let made = Command::new("sh")
            .args(["-c", &format!("mknod {name} {kind} {numbers}")])
            .current_dir(&folder)
            .status()
            .unwrap();
        if !made.success() {
            eprintln!("skipped: no nodes can be made here");
            return;
        }
        let run = run_in(&folder, ["advise", name]);
        assert_eq!(run.code, Some(2), "{}", run.err);
        for part in ["raw flash", "name its part or setup", "floatgate probe /dev/mtd77"] {
            assert!(run.err.contains(part), "{}", run.err);
        }
    }
    // The kernel has no flash of that number.
    let run = run_in(&folder, ["probe", "flash"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("flash: No such device"), "{}", run.err);
    for name in ["flash", "flash-block"] {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
}

/// Each command of a point is a line of its field, so that it can be pasted.
#[test]
fn commands_in_csv_are_lines() {
    let folder = fresh("advise_csv");
    let run = run_in(&folder, ["advise", "samsung-evo-16g", "--fs", "ext4", "--workload", "create", "--csv"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("/dev/mmcblk0p1\nmount -t ext4 "), "{}", run.out);
}

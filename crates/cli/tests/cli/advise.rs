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
    let json = r#"{"floatgate":"0.1.0","kind":"probe","capacity_bytes":268435456,"answers":{"erase_block":{"value":4194304,"confidence":0.9},
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
    let au = r#"{"floatgate": "0.1.0", "kind": "probe", "capacity_bytes": 1073741824, "answers": {"erase_block": {"value": 3, "confidence": 1}}}"#;
    std::fs::write(folder.join("au.json"), au).unwrap();
    std::fs::write(folder.join("fs.json"), r#"{"floatgate": "0.1.0", "kind": "fs", "rows": []}"#).unwrap();
    std::fs::write(folder.join("newer.json"), r#"{"floatgate": "99.0.0", "kind": "probe"}"#).unwrap();
    std::fs::write(folder.join("flash_speed.txt"), "eraseblock write speed is 2400 KiB/s\n").unwrap();
    for (words, part) in [
        (&["list.json"][..], "JSON without `floatgate` and `kind`"),
        (&["newer.json"], "floatgate 99.0.0 wrote it, which is newer"),
        (&["au.json"], "answers.erase_block.value is 3"),
        (&["/dev/mtd77"], "/dev/mtd77: there is no such device"),
        (&["broken.json"], "no JSON of a probe"),
        (&["fs.json"], "a result of the kind `fs`, of which no advice follows"),
        (&["flash_speed.txt"], "a log of flash_speed, dd or U-Boot"),
        (&["w25n01gx"], "did you mean `w25n01gv`"),
        (&["kingston-class-10", "--fs", "ntfs"], "there are ext4, f2fs, nilfs2, vfat"),
        (&["kingston-class-10", "--workload", "x"], "there are camera, create, dbench, docker, journald,"),
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

/// Commands, kernel configuration and figures are of one size of eraseblocks. mkfs.jffs2 makes images for 8 KiB and more, and Linux drops nodes that cross
/// the ends of smaller eraseblocks.
#[test]
fn commands_for_nor_are_of_the_eraseblocks_that_the_kernel_is_told_to_have() {
    let folder = fresh("advise_sectors");
    let of = |words: &[&str]| advice(&folder, &[words, &["--write-per-day", "0", "--years", "1"]].concat());
    for size in ["512KiB", "4MiB"] {
        let all = of(&["qca9558-s25fl064k", "--partition", size]);
        let make = point(&all, "mkfs and mount");
        let (text, commands) = (make["advice"].as_str().unwrap(), make["commands"].to_string());
        let is_small = text.contains("CONFIG_MTD_SPI_NOR_USE_4K_SECTORS=y, which makes eraseblocks of 4 KiB");
        let is_large =
            text.contains("CONFIG_MTD_SPI_NOR_USE_4K_SECTORS=n, which makes eraseblocks of 64 KiB");
        assert!(is_small != is_large, "{make}");
        assert_eq!(commands.contains("mkfs."), is_large, "{make}");
        assert!(!commands.contains("mkfs.jffs2") || commands.contains(" -e 65536 "), "{make}");
        let figures = point(&all, "filesystem")["rests_on"].to_string();
        let (chosen, other) = if is_small { ("4 KiB", "64 KiB") } else { ("64 KiB", "4 KiB") };
        for part in [format!("eraseblocks of {chosen}: "), format!("eraseblocks of {other}, ")] {
            assert!(figures.contains(&part), "{part}: {figures}");
        }
    }
    let set = ["qca9558-s25fl064k", "--partition", "512KiB", "--set", "driver.erase_bytes=64KiB"];
    let fixed = point(&of(&set), "mkfs and mount").to_string();
    assert!(!fixed.contains("CONFIG"), "{fixed}");
}

/// A board that runs firmware has no filesystem of Linux.
#[test]
fn a_microcontroller_is_told_nothing_about_mount() {
    let folder = fresh("advise_firmware");
    let all = advice(&folder, &["stm32-n25q128a", "--partition", "512KiB", "--years", "1"]);
    assert!(!commands(&all).iter().any(|command| command.contains("mount")), "{all}");
    let filesystem = point(&all, "filesystem")["advice"].as_str().unwrap();
    assert!(filesystem.contains("runs firmware"), "{filesystem}");
}

/// A bare chip is judged on the board on which the other commands measure it.
#[test]
fn a_bare_chip_is_on_the_board_that_speed_takes() {
    let folder = fresh("advise_stand_in");
    let all = advice(&folder, &["gd25q128e", "--partition", "512KiB", "--years", "1"]);
    let speed = run_in(&folder, ["speed", "gd25q128e", "-c1"]).out;
    let title = all["title"].as_str().unwrap();
    assert!(title.contains(" on the board ") && speed.lines().next() == Some(title), "{title}");
}

/// The life, its scrub period and `life` come from one computation, and rest on the cycles for which the ECC holds.
#[test]
fn a_board_has_one_life() {
    let folder = fresh("advise_life");
    let words = ["--write-per-day", "100MB", "--temperature", "55", "--years", "10"];
    let all = advice(&folder, &[&["w25n01gv", "--partition", "8MiB"][..], &words].concat());
    let board = all["target"].as_str().unwrap();
    let set =
        ["--set", "chip=w25n01gv", "--set", "partition.size=8MiB", "--chips", "1", "--scrub-days", "never"];
    let is_jffs2 = commands(&all).iter().any(|command| command.starts_with("mkfs.jffs2"));
    let fs = ["--fs", if is_jffs2 { "jffs2" } else { "ubifs" }];
    let run = run_in(&folder, [&["age", board, "--json"][..], &set, &fs, &words].concat());
    let aged: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}", run.err));
    let wear = &aged["runs"][0]["wear"];
    let (years, cycles) = (wear["worn_out_after_years"].as_f64().unwrap(), wear["cycles"].as_u64().unwrap());
    assert!(cycles < 100_000, "the ECC is weaker than the part: {wear}");
    let life = point(&all, "speed and life");
    let words = format!("{years:.1} years at 100 MB a day");
    assert!(life["advice"].as_str().unwrap().contains(&words), "{life} {wear}");
    assert!(life["rests_on"].to_string().contains(&format!("{cycles} cycles up to which")), "{life}");
    let ecc = point(&all, "ECC")["advice"].as_str().unwrap();
    assert!(ecc.contains(&format!("holds for {cycles} cycles")), "{ecc}");
}

/// Beyond a hundred years wear is not what ends a chip, and retention is named.
#[test]
fn thousands_of_years_are_not_counted() {
    let folder = fresh("advise_years");
    let all = advice(&folder, &["qca9558-s25fl064k", "--partition", "512KiB", "--write-per-day", "1000"]);
    let life = point(&all, "speed and life");
    assert!(life["advice"].as_str().unwrap().ends_with("wear is not the limit"), "{life}");
    assert!(life["rests_on"].to_string().contains("of retention"), "{life}");
}

/// A used eMMC says in EXT_CSD how much of its life is over: the rest is counted.
#[test]
fn only_what_is_left_of_an_emmc_is_counted() {
    let folder = fresh("advise_emmc");
    let run = |words: &[&str]| {
        let run = run_in(&folder, words.to_vec());
        assert_eq!(run.code, Some(0), "{words:?}: {}", run.err);
        run.out
    };
    run(&["card", "info", "emmc-16g", "--registers", "regs"]);
    let state = |pre_eol: u8, life_a: u8, life_b: u8| {
        let path = folder.join("regs/ext_csd");
        let mut digits = std::fs::read_to_string(&path).unwrap();
        digits.replace_range(2 * 267..2 * 270, &format!("{pre_eol:02x}{life_a:02x}{life_b:02x}"));
        std::fs::write(path, digits).unwrap();
        let samples =
            "# floatgate probe, capacity_bytes=15762194432\norder,test,about,kind,position,bytes,ns,found\n";
        std::fs::write(folder.join("samples.csv"), samples).unwrap();
        let args = ["probe", "--from", "samples.csv", "--registers", "regs"];
        let text = run(&args);
        std::fs::write(folder.join("e.json"), run(&[&args[..], &["--json"]].concat())).unwrap();
        let words = ["e.json", "--fs", "ext4", "--workload", "create", "--write-per-day", "200GB"];
        (text, advice(&folder, &words))
    };
    let terabytes = |all: &Value| {
        let life = point(all, "life")["advice"].as_str().unwrap().to_owned();
        let mut words = life["about ".len()..].split(' ');
        let number = words.next().unwrap().parse::<f64>().unwrap();
        match words.next().unwrap() {
            "TB" => number,
            "GB" => number / 1000.0,
            unit => panic!("{unit} in {life}"),
        }
    };
    let (_, new) = state(1, 1, 1);
    let (text, used) = state(1, 5, 6);
    assert!(text.contains("the card says that 40 to 60 % of its life is used"), "{text}");
    let ratio = terabytes(&used) / terabytes(&new);
    assert!((ratio - 0.4 / 0.9).abs() < 0.03, "{ratio}");
    assert!(!used["points"].to_string().contains("do not use this card"), "{used}");
    let (_, over) = state(3, 0x0B, 1);
    assert!(point(&over, "trust")["rests_on"].to_string().contains("90 % of the spare blocks"), "{over}");
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

/// Of NOR the promises of the data sheet are printed, by `life` of a chip and of a board.
#[test]
fn nor_has_a_life_by_its_data_sheet() {
    let folder = fresh("nor_life");
    let run = run_in(&folder, ["endurance", "w25q128jv"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(
        run.out.contains("promises 100 000 erase cycles of a block and 20 years of retention"),
        "{}",
        run.out
    );
    let set = ["--set", "partition.size=1MiB", "--fs", "jffs2", "--write-per-day", "1MiB"];
    let run = run_in(&folder, [&["age", "sama5d2-mx25l25635e"][..], &set].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    for part in ["wear is not the limit", "the part promises 20 years of retention", "nothing fails"] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    assert!(!run.out.contains("probability"), "{}", run.out);
}

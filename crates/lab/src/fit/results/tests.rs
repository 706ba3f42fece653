//! Tests of the parsers of each tool's lines.

use super::*;

fn only(text: &str) -> Measurement {
    let results = parse(text.as_bytes());
    assert!(results.unknown.is_empty(), "{:?}", results.unknown);
    assert_eq!(results.blocks.len(), 1, "{text}");
    results.blocks[0].figures[0].clone()
}

#[test]
fn figures_beyond_the_limit_are_named() {
    let line = "eraseblock write speed is 3542 KiB/s\n";
    let results = parse(line.repeat(FIGURES_MAX + 1).as_bytes());
    assert_eq!(results.understood, FIGURES_MAX);
    let [beyond] = &results.unknown[..] else { panic!("{:?}", results.unknown) };
    assert!(beyond.line == FIGURES_MAX + 1 && beyond.why.contains("500 figures"), "{beyond:?}");
}

#[test]
fn forms_of_each_tool_are_understood() {
    let kernel = "[  103.5] mtd_speedtest: eraseblock write speed is 3542 KiB/s\r\n";
    assert_eq!(
        (only(kernel).measure, only(kernel).figure),
        (Measure::Test(Test::Write(0)), Figure::FlashSpeed(3542.0))
    );
    let many = only("2x multi-block erase speed is 247841 KiB/s");
    assert_eq!(many.measure, Measure::Test(Test::Erase(2)));
    let busybox =
        only("16+0 records in\n16+0 records out\n16777216 bytes (16.0MB) copied, 2.71 seconds, 5.9MB/s");
    assert_eq!(busybox.measure, Measure::Bytes { unit: 1 << 20, write: false });
    let Figure::NsPerByte(low, high) = busybox.figure else { panic!("{busybox:?}") };
    assert!((low * 16.777216 - 2705.0).abs() < 1e-6 && (high * 16.777216 - 2715.0).abs() < 1e-6);
    let gnu = only(
        "# dd if=/dev/zero of=/dev/mtd3 bs=128k\n67108864 bytes (67 MB, 64 MiB) copied, 14.58 s, 4.6 MB/s",
    );
    assert_eq!(gnu.measure, Measure::Bytes { unit: 128 << 10, write: true });
    assert_eq!(only("4194304 bytes read in 350 ms (11.4 MiB/s)").measure, Measure::Test(Test::Read(0)));
    let update = only("16777216 bytes written, 0 bytes skipped in 59.8s, speed 285975 B/s");
    assert_eq!(update.measure, Measure::Update);
    assert_eq!(only("page read 227 us").figure, Figure::NsPerCall(226.5e3, 227.5e3));
}

#[test]
fn runs_of_dd_below_time_are_understood_in_all_shells() {
    let run = |prompt: &str, times: &str| {
        format!(
            "{prompt}time dd if=/dev/mtd4 of=/dev/null bs=10M count=1\n1+0 records in\n1+0 records out\n{times}\n"
        )
    };
    let busybox = "real\t0m 1.86s\nuser\t0m 0.00s\nsys\t0m 0.28s";
    for (prompt, times) in [
        ("# ", busybox),
        ("root@OpenWrt:~# ", busybox),
        ("/ # ", busybox),
        ("$ ", "\nreal\t0m1.863s\nuser\t0m0.003s\nsys\t0m0.281s"),
        ("[root@board ~]$ ", "real 1.86\nuser 0.00\nsys 0.28"),
        (
            "",
            "0.00user 0.28system 0:01.86elapsed 15%CPU (0avgtext+0avgdata 1408maxresident)k\n0inputs+0outputs (0major+75minor)pagefaults 0swaps",
        ),
    ] {
        let found = only(&run(prompt, times));
        assert_eq!(found.measure, Measure::Bytes { unit: 10 << 20, write: false }, "{times}");
        assert_eq!(found.bytes, Some(10 << 20));
        let Figure::NsPerByte(low, high) = found.figure else { panic!("{found:?}") };
        let seconds = [low, high].map(|ns| ns * f64::from(10 << 20) / 1e9);
        assert!(
            seconds[0] > 1.84 && seconds[0] < 1.863 && seconds[1] > 1.863 && seconds[1] < 1.88,
            "{seconds:?}"
        );
    }
    // Several consecutive runs, quoted by a mail, with other commands between them.
    let quoted =
        format!("{}root@OpenWrt:~# cat /proc/mtd\n{}", run("root@OpenWrt:~# ", busybox), run("# ", busybox));
    let quoted: String = quoted.lines().map(|line| format!("> {line}\n")).collect();
    let results = parse(quoted.as_bytes());
    assert!(results.unknown.is_empty(), "{:?}", results.unknown);
    assert_eq!(results.blocks[0].figures.iter().map(|figure| figure.line).collect::<Vec<_>>(), [4, 11]);
    let long = only("# time dd if=/dev/mtd4 of=/dev/null bs=1M count=64 2>/dev/null\nreal 1m 0.00s\n");
    assert_eq!((long.bytes, long.text.as_str()), (Some(64 << 20), "1m 0.00s"));
}

#[test]
fn a_time_that_dd_has_printed_itself_counts_once() {
    let text = "# time dd if=/dev/mtd1 of=/dev/null bs=1M count=8 status=progress 8+0 records in\n8+0 records out\n\
                8388608 bytes (8.0MB) copied, 2.71 seconds, 2.9MB/s\nreal\t0m 2.72s\nuser\t0m 0.00s\nsys\t0m 0.30s\n";
    assert_eq!(only(text).text, "2.71 s");
    // Output in the line of its command, as in a paste that lost its line breaks.
    let line = "root@OpenWrt:~# dd if=/dev/mtd1 of=/dev/null bs=10M count=1 status=progress 10485760 bytes (10 MB, 10 MiB) copied, 1.68404 s, 6.2 MB/s";
    assert_eq!(only(line).measure, Measure::Bytes { unit: 10 << 20, write: false });
}

#[test]
fn a_time_whose_bytes_are_not_known_is_refused_with_the_reason() {
    let command = "$ time dd if=/dev/mtd1 of=/dev/null bs=8M\n";
    for (text, why) in [
        (format!("{command}0+1 records in\n0+1 records out\nreal\t0m 3.21s\n"), "a record that is not whole"),
        (format!("{command}real\t0m 3.21s\n"), "how many records"),
        ("256+0 records in\n256+0 records out\nreal    0m 2.71s\n".to_owned(), "no command line above"),
        ("# time dd if=/dev/zero of=/tmp/x bs=1M count=1\nreal 0m 0.10s\n".to_owned(), "neither from nor to"),
        ("# time dd if=/dev/mtd1 of=/dev/null bs=1M count=1\nreal 0m 0.00s\n".to_owned(), "no time above 0"),
    ] {
        assert!(refused(&text).1.contains(why), "{text}: {}", refused(&text).1);
    }
}

/// Number of the only line that is not understood, and the reason.
fn refused(text: &str) -> (usize, String) {
    let results = parse(text.as_bytes());
    let [unknown] = &results.unknown[..] else { panic!("{text}: {results:?}") };
    (unknown.line, unknown.why.clone())
}

#[test]
fn dd_that_does_not_measure_the_flash_is_named() {
    let with = |command: &str| {
        format!("# dd {command}\n8+0 records in\n8388608 bytes (8.0MB) copied, 2.71 seconds, 2.9MB/s")
    };
    for (command, why) in [
        ("if=/dev/zero of=/tmp/x bs=1M", "neither"),
        ("if=/dev/mmcblk0 of=/dev/null bs=1M", "neither"),
        ("if=/dev/mtd0 of=/dev/mtd1 bs=1M", "flash to flash"),
        ("if=/dev/mtd0 of=/dev/mmcblk0 bs=1M", "another device"),
    ] {
        let (line, reason) = refused(&with(command));
        assert!(line == 3 && reason.contains(why), "{command}: {reason}");
    }
    for (command, write) in [
        ("if=/dev/mtd0 of=/dev/null bs=1M", false),
        ("if=/dev/mtd0 of=/tmp/x bs=1M", false),
        ("if=/dev/mtd0 bs=1M > /dev/null", false),
        ("if=x.bin of=/dev/mtd0 bs=1M", true),
    ] {
        assert_eq!(only(&with(command)).measure, Measure::Bytes { unit: 1 << 20, write }, "{command}");
    }
    for line in [
        "16777216 octets (17 MB, 16 MiB) copiés, 2,71 s, 6,2 MB/s",
        "16777216 Bytes (17 MB, 16 MiB) kopiert, 2,71 s, 6,2 MB/s",
        "16777216 bytes (17 MB, 16 MiB) copied, 2,71 s, 6,2 MB/s",
    ] {
        assert!(refused(line).1.contains("LC_ALL=C"), "{line}");
    }
}

#[test]
fn other_units_are_taken_or_named() {
    let test = Measure::Test(Test::Read(0));
    for (speed, low) in [("15.2 MB/s", 1e3 / 15.25), ("18.1 MiB/s", 1e9 / (18.15 * 1_048_576.0))] {
        let found = only(&format!("eraseblock read speed is {speed}"));
        let Figure::NsPerByte(found_low, _) = found.figure else { panic!("{found:?}") };
        assert!(found.measure == test && (found_low - low).abs() < 1e-9, "{speed}: {found_low}");
    }
    for (speed, why) in [
        ("14883 KB/s", "`KB/s`"),
        ("1e4 KiB/s", "`1e4`"),
        ("14 883 KiB/s", "`14 883`"),
        ("nan KiB/s", "`nan`"),
        ("0 KiB/s", "measure more blocks"),
    ] {
        let (_, reason) = refused(&format!("eraseblock read speed is {speed}"));
        assert!(reason.contains(why), "{speed}: {reason}");
    }
}

#[test]
fn raw_timings_of_u_boot_are_understood() {
    for text in [
        "=> time sf read 0x42000000 0 0x400000\ndevice 0 offset 0x0, size 0x400000\nSF: 4194304 bytes @ 0x0 Read: OK\n\ntime: 1.680 seconds",
        "=> time nand read 0x42000000 0 0x400000\n\nNAND read: device 0 offset 0x0, size 0x400000\n 4194304 bytes read: OK\n\ntime: 1.680 seconds",
    ] {
        let found = only(text);
        assert_eq!((found.measure, found.bytes), (Measure::Test(Test::Read(0)), Some(4 << 20)));
        let Figure::NsPerByte(low, high) = found.figure else { panic!("{found:?}") };
        assert!((low * 4.194304 - 1679.5).abs() < 1e-6 && (high * 4.194304 - 1680.5).abs() < 1e-6);
    }
    assert_eq!(
        only("SF: 64 bytes @ 0x0 Written: OK\ntime: 1 minutes, 2.000 seconds").text,
        "1 minutes, 2.000 s"
    );
    assert_eq!(refused("time: 1.680 seconds").0, 1);
    assert_eq!(refused("SF: 4096 bytes @ 0x0 Erased: OK\ntime: 1.680 seconds").0, 2);
    assert!(only("4194304 bytes read in 350 ms (11.4 MiB/s)").remark.is_some());
}

#[test]
fn speeds_of_written_blocks_are_taken_from_a_probe() {
    let speed = "page read speed is 9000 KiB/s\n";
    let text = format!(
        "\n# 16 eraseblocks, written\n{speed}\n# 1 eraseblock, blank\n{speed}\n# 1 eraseblock, just written\npage write speed is 9 KiB/s\n{speed}"
    );
    let results = parse(text.as_bytes());
    let lines: Vec<usize> = results.blocks[0].figures.iter().map(|figure| figure.line).collect();
    let unknown: Vec<usize> = results.unknown.iter().map(|unknown| unknown.line).collect();
    assert_eq!((lines, unknown), (vec![3, 9], vec![6, 10]));
}

#[test]
fn conditions_hold_until_figures_and_new_conditions_follow() {
    let results = parse(b"set bus.mode=1-1-1\nset bus.lanes=1\npage read 9 us\npage write 9 us\nset bus.mode=1-1-4\npage read 5 us\nset\npage read 1 us");
    let sets: Vec<usize> = results.blocks.iter().map(|block| block.set.len()).collect();
    assert_eq!((sets, results.blocks[0].figures.len(), results.understood), (vec![2, 1, 0], 2, 8));
}

#[test]
fn latin_1_and_byte_order_marks_are_read() {
    assert_eq!(parse(b"\xEF\xBB\xBFpage read 9 us\r\n").blocks.len(), 1);
    let results = parse(b"# caf\xE9\npage read 9 us\n\xB5 nonsense");
    assert_eq!((results.blocks.len(), results.unknown.len(), results.unknown[0].line), (1, 1, 3));
}

/// Reasons of the lines that are not understood, in an input without a figure.
fn reasons(text: &str) -> Vec<String> {
    let results = parse(text.as_bytes());
    assert!(results.blocks.is_empty(), "{text}: {results:?}");
    results.unknown.into_iter().map(|unknown| unknown.why).collect()
}

#[test]
fn a_dd_that_failed_is_no_measurement() {
    let command = "# time dd if=/dev/mtd4 of=/dev/null bs=1M count=10\n";
    for (output, why) in [
        ("dd: /dev/mtd4: Connection timed out\n", "dd failed: Connection timed out"),
        ("dd: can't open '/dev/mtd4': No such file or directory\n", "dd failed: No such file or directory"),
        (
            "dd: error reading '/dev/mtd4': Input/output error\n3+0 records in\n",
            "dd failed: Input/output error",
        ),
        ("-sh: dd: not found\n", "dd failed: not found"),
        ("dd: read error: Bad message\n", "dd failed: Bad message"),
        ("^C\n", "dd failed: interrupted by ^C"),
        ("Command terminated by signal 9\n", "dd failed: Command terminated by signal 9"),
    ] {
        for time in ["real\t0m 0.20s", "3145728 bytes (3.0MB) copied, 0.20 seconds, 15.0MB/s"] {
            let reasons = reasons(&format!("{command}{output}{time}\n"));
            assert!(reasons.len() == 2 && reasons.iter().all(|reason| reason == why), "{reasons:?}");
        }
        // The time belongs to the next run.
        let next = format!("{command}{output}real 0m 0.20s\n{command}10+0 records in\nreal 0m 1.86s\n");
        let results = parse(next.as_bytes());
        assert_eq!(results.blocks[0].figures.len(), 1, "{results:?}");
    }
    // A run with fewer records than in `count=` counts with its actual records.
    assert_eq!(only(&format!("{command}3+0 records in\nreal 0m 0.60s\n")).bytes, Some(3 << 20));
    assert_eq!(
        reasons(&format!("{command}0+0 records in\nreal 0m 0.60s\n")),
        ["dd has read no whole record"]
    );
    // A write without `count=` ends at the end of the flash.
    let full = "# dd if=/dev/zero of=/dev/mtd3 bs=128k\ndd: error writing '/dev/mtd3': No space left on device\n\
                513+0 records in\n512+0 records out\n67108864 bytes (67 MB, 64 MiB) copied, 14.58 s, 4.6 MB/s\n";
    assert_eq!(only(full).bytes, Some(64 << 20));
}

#[test]
fn a_time_of_another_command_is_not_that_of_dd() {
    let run = "# time dd if=/dev/mtd4 of=/dev/null bs=1M count=10\n";
    for other in
        ["# time ubiattach -p /dev/mtd4\n", "root@board:~# flash_erase /dev/mtd4 0 0\n", "time sync\n"]
    {
        let reasons = reasons(&format!("{run}{other}real 0m 0.50s\n"));
        assert!(matches!(&reasons[..], [why] if why.contains("no command line above")), "{reasons:?}");
    }
}

#[test]
fn dd_of_what_is_above_the_flash_is_named() {
    for (path, why) in [
        ("/dev/mtdblock4", "page cache"),
        ("\"/dev/mtdblock4\"", "page cache"),
        ("/dev/ubi0_0", "UBI is above the flash"),
        ("/dev/ubiblock0_0", "UBI is above the flash"),
        ("/dev/mmcblk0", "no figure of the raw flash"),
        ("/dev/sda", "no figure of the raw flash"),
        ("dump.bin", "no figure of the raw flash"),
    ] {
        let text = format!("# time dd if={path} of=/dev/null bs=1M count=4\n4+0 records in\nreal 0m 1.20s\n");
        assert!(refused(&text).1.contains(why), "{path}: {}", refused(&text).1);
    }
    for path in
        ["/dev/mtd4", "/dev/mtd4ro", "/dev/mtd12", "/dev/mtd/4", "/dev/mtd/by-name/rootfs", "'/dev/mtd4'"]
    {
        let text = format!("# time dd if={path} of=/dev/null bs=1M count=4\n4+0 records in\nreal 0m 1.20s\n");
        assert_eq!(only(&text).bytes, Some(4 << 20), "{path}");
    }
    let pipe = "# time dd if=/dev/mtd4 bs=1M count=4 | md5sum\n4+0 records in\nreal 0m 1.20s\n";
    assert!(refused(pipe).1.contains("pipe"));
}

#[test]
fn u_boot_counts_below_commands_of_the_raw_flash_only() {
    let loaded = "4194304 bytes read in 350 ms (11.4 MiB/s)\n";
    for command in [
        "=> load mmc 0 80000000 x",
        "=> run loadit",
        "u-boot=> ubifsload 80000000 x",
        "MX6 U-Boot > fatload usb 0 80000000 x",
        "=> time tftpboot 80000000 x",
        "STM32MP> load mmc 0 80000000 x",
        "load mmc 0 80000000 x",
    ] {
        let (line, why) = refused(&format!("{command}\n{loaded}"));
        assert!(line == 2 && why.contains("does not read the raw flash"), "{command}: {why}");
    }
    assert!(only(loaded).remark.is_some());
    let time = "time: 1.680 seconds\n";
    for (command, output) in [
        (
            "=> time nand read 80000000 0 400000",
            "NAND read: device 0 offset 0x0, size 0x400000\n 4194304 bytes read: OK\n",
        ),
        ("=> sf probe && time sf read 80000000 0 400000", "SF: 4194304 bytes @ 0x0 Read: OK\n"),
        (
            "U-Boot> time mtd read spi-nand0 80000000 0 400000",
            "Reading 4194304 byte(s) (2048 page(s)) at offset 0x00000000\n",
        ),
    ] {
        let found = only(&format!("=> load mmc 0 80000000 x\n{command}\n{output}\n{time}"));
        assert_eq!((found.measure, found.bytes), (Measure::Test(Test::Read(0)), Some(4 << 20)), "{command}");
    }
    // The bytes of one command do not belong to the next command.
    let (line, why) = refused(&format!(
        "=> sf read 80000000 0 40\nSF: 64 bytes @ 0x0 Read: OK\n=> time mmc read 80000000 0 8\n{time}"
    ));
    assert!(line == 4 && why.contains("`mmc read 80000000 0 8`"), "{why}");
}

#[test]
fn messages_about_numbers_are_true() {
    let long = "9".repeat(400);
    for (text, why) in [
        ("page read 1.3e2 us", "`1.3e2` is no plain number"),
        ("page read -5 us", "`-5` is no plain number"),
        ("page read 1.2.3 us", "`1.2.3` is no plain number"),
        ("page read 0.0 us", "no figure above 0"),
        (&format!("page read {long} us"), "10^15 or more"),
        (&format!("page read speed is {long} KiB/s"), "10^15 or more"),
        ("blocks 999999999999", "`999999999999` is more blocks than any flash has"),
        ("blocks 0", "no number of blocks above 0"),
        ("blocks many", "`many` is no plain number"),
        ("blocks 1.5", "no whole number of blocks"),
        (&format!("{long} bytes (1 MB) copied, 2.71 s, 1 MB/s"), "10^15 or more"),
        ("16777216 bytes (17 MB, 16 MiB) copied, 2.6e-05 s, 6.2 MB/s", "`2.6e-05` is no plain number"),
        (&format!("{long} bytes read in 350 ms"), "10^15 or more"),
        (&format!("4194304 bytes read in {long} ms"), "10^15 or more"),
    ] {
        let (_, reason) = refused(text);
        assert!(reason.contains(why) && reason.len() < 160, "{text}: {reason}");
    }
    let unit =
        "# dd if=/dev/mtd4 of=/dev/null bs=2x1M\n16777216 bytes (16.0MB) copied, 2.71 seconds, 5.9MB/s";
    assert!(refused(unit).1.contains("`2x1M`"));
}

#[test]
fn messages_of_ubi_are_named() {
    for text in [
        "[    2.345678] ubi0: attaching mtd4",
        "ubi0: attached mtd4 (name \"rootfs\", size 64 MiB)",
        "[    2.345678] ubi0: scanning is finished",
        "UBI: attached mtd4 to ubi0",
        "Jan  1 00:00:02 board kernel: [    2.345678] ubi0: good PEBs: 512, bad PEBs: 0, corrupted PEBs: 0",
        "ubi0 warning: ubi_io_read: error -74 while reading 64 bytes",
        "UBI device number 0, total 512 LEBs (65011712 bytes, 62.0 MiB)",
    ] {
        assert!(refused(text).1.contains("attach times are not used by fit"), "{text}: {}", refused(text).1);
    }
    assert!(refused("[ 2.5] UBIFS (ubi0:0): mounted UBI device 0").1.contains("mount times are not used"));
}

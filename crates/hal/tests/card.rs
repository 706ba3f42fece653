//! Tests of embedded-sdmmc, an external driver, on simulated cards with a FAT made by mkfs.fat.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failure is the test's, and a skipped test says so"
)]

use embedded_sdmmc::{Mode, SdCard as Driver, TimeSource, Timestamp, VolumeIdx, VolumeManager};
use floatgate_hal::{CardWires, Delay, SdCard, Violation};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// A clock that does not advance.
struct NoClock;

impl TimeSource for NoClock {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp {
            year_since_1970: 56,
            zero_indexed_month: 0,
            zero_indexed_day: 0,
            hours: 0,
            minutes: 0,
            seconds: 0,
        }
    }
}

/// First sector of the FAT partition.
const PARTITION: u32 = 2048;

/// Size of the partition, sectors.
const SECTORS: u32 = 80 << 10;

/// A partition table with one FAT32 partition addressed by LBA.
fn partition_table() -> [u8; 512] {
    let mut table = [0; 512];
    table[446..454].copy_from_slice(&[0, 0, 0, 0, 0x0C, 0, 0, 0]);
    table[454..458].copy_from_slice(&PARTITION.to_le_bytes());
    table[458..462].copy_from_slice(&SECTORS.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xAA]);
    table
}

/// A card with a FAT made by mkfs.fat; `None` if mkfs.fat is not installed.
fn formatted(name: &str) -> Option<SdCard> {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(u64::from(SECTORS) * 512).unwrap();
    let made = Command::new("mkfs.fat").args(["-F", "32"]).arg(image.path()).stdout(Stdio::null()).status();
    if !made.is_ok_and(|made| made.success()) {
        eprintln!("skipped: mkfs.fat is not installed");
        return None;
    }
    let mut card = SdCard::new(name).unwrap();
    card.write_contents(0, &partition_table()).unwrap();
    let bytes = std::fs::read(image.path()).unwrap();
    for (sector, bytes) in (u64::from(PARTITION)..).step_by(8).zip(bytes.chunks(4096)) {
        if bytes.iter().any(|byte| *byte != 0) {
            card.write_contents(sector, bytes).unwrap();
        }
    }
    Some(card)
}

/// Checks the partition with fsck.fat.
fn check(card: &mut SdCard) {
    let mut image = tempfile::NamedTempFile::new().unwrap();
    let mut bytes = vec![0; SECTORS as usize * 512];
    card.read_contents(PARTITION.into(), &mut bytes).unwrap();
    image.write_all(&bytes).unwrap();
    let output = Command::new("fsck.fat").arg("-n").arg(image.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The driver on a card that has received its initial clock cycles.
fn mounted(card: &SdCard) -> VolumeManager<Driver<SdCard, Delay<CardWires>>, NoClock> {
    let mut card = card.clone();
    card.set_clock(400_000);
    card.clock_idle(80);
    let driver = Driver::new(card.clone(), card.delay());
    assert!(driver.num_bytes().unwrap() > 0, "the card is initialised");
    card.set_clock(25_000_000);
    VolumeManager::new(driver, NoClock)
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8).collect()
}

#[test]
fn embedded_sdmmc_writes_files_to_a_fat_of_mkfs_fat_and_reads_them_back() {
    let Some(mut card) = formatted("kingston-microsd-8g") else { return };
    {
        let manager = mounted(&card);
        let volume = manager.open_volume(VolumeIdx(0)).unwrap();
        let root = volume.open_root_dir().unwrap();
        root.make_dir_in_dir("LOGS").unwrap();
        let logs = root.open_dir("LOGS").unwrap();
        for length in [1, 512, 30_000] {
            let file = logs.open_file_in_dir(&*format!("{length}.BIN"), Mode::ReadWriteCreate).unwrap();
            file.write(&content(length)).unwrap();
        }
    }
    {
        let manager = mounted(&card);
        let volume = manager.open_volume(VolumeIdx(0)).unwrap();
        let logs = volume.open_root_dir().unwrap().open_dir("LOGS").unwrap();
        for length in [1, 512, 30_000] {
            let file = logs.open_file_in_dir(&*format!("{length}.BIN"), Mode::ReadOnly).unwrap();
            let mut back = vec![0; length];
            assert_eq!(file.read(&mut back).unwrap(), length);
            assert_eq!(back, content(length));
        }
    }
    check(&mut card);
    let rules: Vec<Violation> = card.violations().iter().map(|violation| violation.rule).collect();
    // A SpiDevice raises CS# after each call, and the driver makes one call for each part of a command.
    let known = |rule: &Violation| {
        let text = rule.to_string();
        text.contains("CS# went high inside") || text.contains("between response and data")
    };
    assert!(rules.iter().all(known), "{:?}", rules.iter().find(|rule| !known(rule)));
}

#[test]
fn a_file_that_embedded_sdmmc_closed_survives_a_power_cut_in_the_next_write() {
    let Some(card) = formatted("kingston-microsd-8g") else { return };
    let write = |card: &SdCard, name: &str| {
        let manager = mounted(card);
        let volume = manager.open_volume(VolumeIdx(0)).map_err(drop)?;
        let root = volume.open_root_dir().map_err(drop)?;
        let file = root.open_file_in_dir(name, Mode::ReadWriteCreate).map_err(drop)?;
        file.write(&content(3000)).map_err(drop)?;
        file.close().map_err(drop)
    };
    write(&card, "FIRST.BIN").unwrap();
    for cut in 1..8 {
        let mut card = card.fork();
        card.cut_power(cut);
        assert!(write(&card, "SECOND.BIN").is_err() && card.is_dead(), "{cut}");
        card.restore_power().unwrap();
        let manager = mounted(&card);
        let volume = manager.open_volume(VolumeIdx(0)).unwrap();
        let root = volume.open_root_dir().unwrap();
        let file = root.open_file_in_dir("FIRST.BIN", Mode::ReadOnly).unwrap();
        let mut back = vec![0; 3000];
        assert_eq!(file.read(&mut back).unwrap(), 3000);
        assert_eq!(back, content(3000), "{cut}");
    }
}

#[test]
fn a_disturbed_block_is_an_error_of_the_driver() {
    let Some(mut card) = formatted("kingston-microsd-8g") else { return };
    let manager = mounted(&card);
    card.disturb_next_block(77);
    assert!(manager.open_volume(VolumeIdx(0)).is_err());
    assert!(manager.open_volume(VolumeIdx(0)).is_ok());
}

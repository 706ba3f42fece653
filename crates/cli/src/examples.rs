//! `floatgate examples DIR`: files that the examples in help texts name.

mod images;

use crate::common::{Failure, Outcome};
use crate::output::{self, ReportFormat};
use floatgate_config::{Kind, Library};
use floatgate_host::output::write_file;
use floatgate_lab::report::ResultKind;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate examples my-examples

Each example of a help text runs in that folder without changes. Existing files are not overwritten; the output lists them.")]
pub(crate) struct Args {
    /// Folder for the files; it is created if it does not exist
    folder: PathBuf,

    #[command(flatten)]
    format: ReportFormat,
}

/// A file for the examples.
#[derive(Serialize)]
struct ExampleRow {
    file: &'static str,
    what: &'static str,
    /// False if the file already existed.
    written: bool,
}

/// Names of the catalogue whose files are copied for the user.
const BOARD: &str = "am62a-w35n01jw";
const CHIP: &str = "w35n01jw";
const CARD: &str = "kingston-class-10";

const DESIGNS: &str = "setup = \"am62a-w35n01jw\"\nspace.\"bus.mode\" = [\"1-1-1\", \"1-1-8\"]\n";

/// A paper with one row whose simulation gives the published figure (`floatgate speed am62a-w35n01jw`).
const MEASUREMENTS: &str = "paper = 'mine'
title = 'Measured at home'

[[table]]
name = 'reads'
title = 'Page reads'
unit = 'KiB/s'
setup = 'am62a-w35n01jw'
row = [{ row = 'page', published = 11000.0, kind = 'predicted', measure = 'page read' }]
";

/// Figures of flash_speed on an i.MX6 (papers/p0-raynal-2025.toml).
const FLASH_SPEED: &str = "MTD device: 0    count: 16
set driver.continuous=false
eraseblock read speed is 15633 KiB/s
page read speed is 15515 KiB/s
2 page read speed is 15398 KiB/s
";

/// A line of /proc/diskstats: 40 GiB written to an SD card.
const DISKSTATS: &str = "\
 179       0 mmcblk0 52110 8123 4100312 300120 1310720 90211 83886080 990122 0 500120 1290242 0 0 0 0 0 0
";

const TRACE: &str = "time_us,kind,sector,sectors,latency_us
0.000,write,2048,8,1000.000
5000.000,read,4096,16,450.250
6000.000,discard,8192,2048,900.000
7000.000,flush,0,0,
";

const BOOT_LOG: &str = "[    1.201] nand: device found, Manufacturer ID: 0xc2, Chip ID: 0xda
[    1.207] nand: Macronix MX30LF2G18AC
[    1.211] nand: 256 MiB, SLC, erase size: 128 KiB, page size: 2048, OOB size: 64
[    1.402] spi-nor spi0.0: w25q128 (16384 Kbytes)
";

/// A capture as the SPI decoder of Saleae Logic 2 writes it: a status read of a W25Q128JV, a program of a page, and
/// the status reads after it.
const CAPTURE: &str = "name,type,start_time,duration,mosi,miso
SPI,enable,0.000000,0,,
SPI,result,0.000001,8e-07,0x05,0xFF
SPI,result,0.000002,8e-07,0x00,0x00
SPI,enable,0.000010,0,,
SPI,result,0.000011,8e-07,0x06,0xFF
SPI,enable,0.000020,0,,
SPI,result,0.000021,8e-07,0x02,0xFF
SPI,result,0.000022,8e-07,0x00,0xFF
SPI,result,0.000023,8e-07,0x10,0xFF
SPI,result,0.000024,8e-07,0x00,0xFF
SPI,result,0.000025,8e-07,0xA5,0xFF
SPI,enable,0.000030,0,,
SPI,result,0.000031,8e-07,0x05,0xFF
SPI,result,0.000032,8e-07,0x00,0x03
SPI,enable,0.000480,0,,
SPI,result,0.000481,8e-07,0x05,0xFF
SPI,result,0.000482,8e-07,0x00,0x00
";

/// Size of a page of `rootfs.ubi`, bytes.
const PAGE_BYTES: usize = 2048;

const JOB: &str = "[global]\nsize=16m\nbs=4k\n\n[random-writes]\nrw=randwrite\n";

pub(crate) fn run(args: &Args) -> Outcome {
    std::fs::create_dir_all(&args.folder).map_err(|error| {
        Failure::new(format!("{}: {error}", args.folder.display()), "name a folder that can be made")
    })?;
    let rows = Folder { path: &args.folder, rows: Vec::new() }.fill()?;
    args.format.finish_rows(&ResultKind::Examples.of(&args.folder), &rows, || {
        let mut table = crate::table::Table::new(["file", "what it is", ""]);
        for row in &rows {
            table.row([row.file, row.what, if row.written { "" } else { "was there" }]);
        }
        format!("{table}\n\nThe examples of each help run in {}", args.folder.display())
    })
}

/// Folder that is filled with the files.
struct Folder<'a> {
    path: &'a Path,
    rows: Vec<ExampleRow>,
}

impl Folder<'_> {
    fn fill(mut self) -> Result<Vec<ExampleRow>, Failure> {
        let library = Library::built_in();
        let toml = |kind, name| Ok(library.open(kind, Path::new(name), None)?.content().as_bytes().to_vec());
        self.file("my-board.toml", "a setup of your own", || toml(Kind::Setup, BOARD))?;
        self.file("my-chip.toml", "a chip of your own", || toml(Kind::Part, CHIP))?;
        self.file("my-card.toml", "a card of your own", || toml(Kind::Card, CARD))?;
        self.text("designs.toml", "designs for `sweep`", DESIGNS)?;
        self.text("my-measurements.toml", "measurements for `papers`", MEASUREMENTS)?;
        self.text("flash_speed.txt", "what flash_speed printed, for `fit`", FLASH_SPEED)?;
        self.text("boot.log", "the log of a boot, for `identify`", BOOT_LOG)?;
        self.text("trace.csv", "requests to a card", TRACE)?;
        self.text("diskstats.txt", "counters of a block device, for `life`", DISKSTATS)?;
        self.text("capture.csv", "commands to a SPI NOR, from a logic analyser", CAPTURE)?;
        self.text("before.csv", "requests that came before those", TRACE)?;
        self.text("MLO", "a boot loader for a NAND", "boot loader")?;
        self.text("job.fio", "a job of fio", JOB)?;
        self.images()?;
        self.dumps()?;
        Ok(self.rows)
    }

    fn images(&mut self) -> Result<(), Failure> {
        self.text("hostname", "a file to put into an image", "board-7")?;
        self.text("config.toml", "a file to put into an image", "x = 1")?;
        self.text("app/run", "a folder to put into an image", "#!/bin/sh")?;
        self.text("overlay/etc/motd", "a tree to build an image from", "hi")?;
        self.text("devices.txt", "a table of devices for `image build`", images::DEVICES)?;
        self.text("volumes.ini", "volumes for `image ubinize`", images::VOLUMES)?;
        self.file("rootfs.ubi", "an image with UBIFS in one volume", || images::clean(&["rootfs"]))?;
        self.file("two-volumes.ubi", "an image with two volumes", || images::clean(&["rootfs", "data"]))?;
        self.file("dump.bin", "a dump of a board in use: the last file is in the journal", images::in_use)?;
        self.file(
            "router.bin",
            "a dump of a whole flash: boot loader, environment twice, UBI",
            images::router,
        )?;
        self.file(
            "flash.nand",
            "a dump with OOB: an empty UBI on pages of 4096 + 224 bytes",
            images::empty_dump,
        )
    }

    /// Writes dumps as a programmer reads them from a chip.
    fn dumps(&mut self) -> Result<(), Failure> {
        let folder = self.path.to_owned();
        let encoded = |name: &str, form: &[&str]| {
            let image = ["ecc", "encode", "rootfs.ubi", "--part", "mt29f2g08aad", "--code", "bch4/512"];
            let floatgate = std::env::current_exe().map_err(output::bug)?;
            let run = Command::new(floatgate)
                .args(image)
                .args(form)
                .args(["-o", "-"])
                .current_dir(&folder)
                .output();
            let run = run.map_err(output::bug)?;
            if run.status.success() {
                return Ok(run.stdout);
            }
            let help = "remove it: it is made anew";
            Err(Failure::new(format!("{name}: {}", String::from_utf8_lossy(&run.stderr).trim()), help))
        };
        self.file("rootfs.oob", "the OOB of rootfs.ubi under bch4/512", || {
            encoded("rootfs.ubi", &["--oob-only"])
        })?;
        self.file("dump.nand", "rootfs.ubi as read from a chip, with wrong bits", || {
            encoded("rootfs.ubi", &[]).map(|dump| images::with_wrong_bits(dump, 0))
        })?;
        let chip = |number: usize| {
            let image = std::fs::read(self.path.join("rootfs.ubi")).map_err(output::bug)?;
            let pages = image.chunks(PAGE_BYTES).skip(number).step_by(2);
            Ok(pages.flatten().copied().collect())
        };
        let chips = [chip(0), chip(1)];
        let [one, other] = chips;
        self.file("chip0.bin", "every other page of rootfs.ubi, from a board with two chips", || one)?;
        self.file("chip1.bin", "the other pages of rootfs.ubi", || other)?;
        self.file("second.nand", "the same chip read once more, with other wrong bits", || {
            encoded("rootfs.ubi", &[]).map(|dump| images::with_wrong_bits(dump, 1000))
        })
    }

    fn text(&mut self, name: &'static str, what: &'static str, text: &str) -> Result<(), Failure> {
        self.file(name, what, || Ok(text.into()))
    }

    /// Writes a file, unless it exists.
    fn file(
        &mut self,
        file: &'static str,
        what: &'static str,
        contents: impl FnOnce() -> Result<Vec<u8>, Failure>,
    ) -> Result<(), Failure> {
        let path = self.path.join(file);
        let written = path.symlink_metadata().is_err();
        if written {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(|error| {
                    Failure::new(format!("{}: {error}", folder.display()), "name another folder")
                })?;
            }
            write_file(&path, &contents()?)?;
        }
        self.rows.push(ExampleRow { file, what, written });
        Ok(())
    }
}

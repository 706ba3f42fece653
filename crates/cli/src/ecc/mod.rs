//! `floatgate ecc`, with one file per subcommand.

mod advise;
mod check;
mod decode;
mod encode;
mod files;
mod join;
mod layouts;
mod merge;
mod options;
mod show;

use crate::common::Outcome;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o rootfs.nand
  floatgate ecc decode dump.nand --part mt29f2g08aad --code bch4/512 -o corrected.ubi
  floatgate ecc check dump.nand --page-size 2048 --oob-size 64 --code bch4/512
  floatgate ecc check dump.nand --part mt29f2g08aad --json
  floatgate ecc encode MLO --page-size 2048 --oob-size 64 --layout omap-bch8 -o MLO.nand
  floatgate ecc merge dump.nand second.nand --part mt29f2g08aad -o merged.nand
  floatgate ecc join chip0.bin chip1.bin -o both.ubi
  floatgate ecc layouts
  floatgate ecc advise mt29f8g08maawc

Codes of Linux's software engines, bit for bit: hamming/256 and hamming/512; hamming-smartmedia/256 and hamming-smartmedia/512; bch<bits>/<step bytes>. \
Codes of controllers: hamming-pl35x/512, hamming-davinci/512, hamming-omap/512; Reed-Solomon codes rs4/512 (Qualcomm), rs4-davinci/512, rs4-kirkwood/512, rs4-full/512 (Ingenic), and rs4-, rs6- and rs8-packed/512 (Tegra).

bch<bits>/<step bytes>@<polynomial> uses another primitive polynomial, in decimal or as 0x... Linux's default is 8219 for steps of 512 bytes and 16427 for \
steps of 1024 bytes; 17475 is another polynomial in use for 1024 bytes.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Encode data into pages with OOB, ready for a programmer
    Encode(encode::Args),
    /// Decode a dump with OOB into corrected data, with a report
    Decode(decode::Args),
    /// Check a dump with OOB, and report; without --code, detect its code and layout
    Check(check::Args),
    /// Merge several dumps of one chip by vote and by ECC
    Merge(merge::Args),
    /// Join the dumps of two chips that a board uses as one
    Join(join::Args),
    /// List the known page layouts, or show one
    Layouts(layouts::Args),
    /// Determine the ECC code that a chip needs, and how often each code fails
    Advise(advise::Args),
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Encode(args) => encode::run(args),
        Command::Decode(args) => decode::run(args),
        Command::Check(args) => check::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Join(args) => join::run(args),
        Command::Layouts(args) => layouts::run(args),
        Command::Advise(args) => advise::run(args),
    }
}

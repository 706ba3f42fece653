//! Parsers of numbers on the command line, and options for the flash of an image.

use crate::common::Failure;
use floatgate_config::Library;
use floatgate_image::TargetFlash;
use floatgate_image::build::FlashShape;
use floatgate_lab::part_sizes;
use floatgate_mtd::advice::Help;
use std::path::PathBuf;

pub(crate) use floatgate_mtd::size::parse as bytes;

/// Parses a size below 4 GiB with [`bytes`].
pub(crate) fn bytes32(text: &str) -> Result<u32, String> {
    let bytes = bytes(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| format!("{text} is too large"))
}

/// Parser of UID:GID.
pub(super) fn owner(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    numbers.ok_or_else(|| format!("{text:?} is not UID:GID, two numbers"))
}

/// The chip that an image is for, and its partition.
#[derive(clap::Args)]
#[command(next_help_heading = "Flash")]
pub(super) struct ChipArgs {
    /// NAND part: a name (see `floatgate list parts`), or the path of a TOML file. Sub-pages have the size that Linux uses with
    /// software ECC; for controllers that cannot program sub-pages (NAND_NO_SUBPAGE_WRITE), use --setup
    #[arg(long, value_name = "NAME")]
    part: Option<PathBuf>,

    /// Setup whose chip and controller the image is for: a name (see `floatgate list setups`), or the path of a TOML file
    #[arg(long, value_name = "NAME", conflicts_with = "part")]
    setup: Option<PathBuf>,

    /// Use an MLC NAND in slc-mode: one page of each pair is used, and PEBs are half as large
    #[arg(long, requires = "part")]
    slc: bool,

    /// Size of the partition that the image is for [default: all of the part, or the partition of the setup]. UBI reserves PEBs for the bad
    /// blocks of the whole chip, however small the partition is
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    partition: Option<u64>,
}

impl ChipArgs {
    const fn is_named(&self) -> bool {
        self.part.is_some() || self.setup.is_some()
    }

    /// Sizes of the chip and its partition; `None` if no chip is named.
    fn shape(&self) -> Result<Option<FlashShape>, Failure> {
        let library = Library::built_in();
        let shape = match (&self.part, &self.setup) {
            (Some(part), _) => {
                let shape = part_sizes::shape_of_part(&library, part)?;
                if self.slc { part_sizes::in_slc_mode(shape, &library, part)? } else { shape }
            }
            (None, Some(setup)) => part_sizes::shape_of_setup(&library, setup)?,
            (None, None) if self.partition.is_some() => {
                return Err(Failure::new(
                    "--partition says nothing without the chip: UBI reserves PEBs for the bad blocks of all of it",
                    "add --part NAME (`floatgate list parts` lists them) or --setup NAME",
                ));
            }
            (None, None) => return Ok(None),
        };
        let Some(bytes) = self.partition else { return Ok(Some(shape)) };
        let shape = shape.on_partition(bytes);
        shape.map(Some).map_err(|error| Failure::new(&error, "give whole PEBs, at most the size of the chip"))
    }

    /// Flash for which the image is checked; `None` if the options name no flash.
    pub(super) fn target(&self) -> Result<Option<TargetFlash>, Failure> {
        let target = self.shape()?.map(TargetFlash::new).transpose();
        target.map_err(|error| Failure::new(&error, error.help()))
    }
}

/// Sizes of flash.
#[derive(clap::Args)]
#[command(next_help_heading = "Flash")]
pub(super) struct FlashArgs {
    #[command(flatten)]
    chip: ChipArgs,

    /// Smallest write, bytes: the page size, or 1 on NOR [default: 1 for a JFFS2]
    #[arg(long, short = 'm', visible_alias = "min-io-size", value_name = "BYTES", value_parser = bytes32, conflicts_with_all = ["part", "setup"])]
    page_size: Option<u32>,

    /// Size of a PEB, such as 128KiB
    #[arg(long, short = 'p', value_name = "BYTES", value_parser = bytes32, conflicts_with_all = ["part", "setup"])]
    peb_size: Option<u32>,

    /// Smallest write of UBI's headers, bytes [default: a page]
    #[arg(long, short = 's', value_name = "BYTES", value_parser = bytes32)]
    sub_page_size: Option<u32>,

    /// Offset of the VID header in a PEB [default: the sub-page behind the EC header]
    #[arg(long, short = 'O', value_name = "BYTE", value_parser = bytes32)]
    vid_header_offset: Option<u32>,
}

impl FlashArgs {
    /// Size of the partition, if it is given.
    pub(super) const fn partition(&self) -> Option<u64> {
        self.chip.partition
    }

    /// True if a partition is given, but no chip.
    pub(super) const fn is_partition_alone(&self) -> bool {
        self.chip.partition.is_some() && !self.chip.is_named()
    }

    /// Sizes of the flash for UBI, which requires a page size.
    pub(super) fn shape(&self) -> Result<FlashShape, Failure> {
        self.shape_or(None)
    }

    /// Sizes of the flash for JFFS2. The default is NOR, as in `mkfs.jffs2`, because nodes of JFFS2 do not depend on
    /// pages.
    pub(super) fn shape_for_jffs2(&self) -> Result<FlashShape, Failure> {
        self.shape_or(Some(1))
    }

    /// Sizes of pages and blocks of a filesystem for microcontrollers; the defaults are those in ESP-IDF.
    pub(super) fn shape_of_blocks(&self) -> Result<FlashShape, Failure> {
        const PAGE: u32 = 256;
        const BLOCK: u32 = 4096;
        if self.chip.is_named()
            && let Some(shape) = self.chip.shape()?
        {
            return Ok(shape);
        }
        let page_bytes = self.page_size.unwrap_or(PAGE);
        Ok(FlashShape {
            page_bytes,
            sub_page_bytes: page_bytes,
            peb_bytes: self.peb_size.unwrap_or(BLOCK),
            vid_header_offset: None,
            size: None,
        })
    }

    /// Sizes of the flash; `usual_page` is the default page size in bytes.
    fn shape_or(&self, usual_page: Option<u32>) -> Result<FlashShape, Failure> {
        let named = self.chip.shape()?;
        let mut shape = match (named, self.page_size.or(usual_page), self.peb_size) {
            (Some(shape), ..) => shape,
            (None, Some(page_bytes), Some(peb_bytes)) => FlashShape {
                page_bytes,
                sub_page_bytes: page_bytes,
                peb_bytes,
                vid_header_offset: None,
                size: None,
            },
            _ => {
                let own = if usual_page.is_some() { "--peb-size" } else { "--page-size and --peb-size" };
                let help = format!(
                    "--part NAME takes a chip's (`floatgate list parts` lists them), --setup NAME a board's; else give {own}"
                );
                return Err(Failure::new("the sizes of the flash are not known", help));
            }
        };
        shape.sub_page_bytes = self.sub_page_size.unwrap_or(shape.sub_page_bytes);
        shape.vid_header_offset = self.vid_header_offset;
        Ok(shape)
    }
}

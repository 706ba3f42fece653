//! Options that the subcommands share: sizes, code, layout, OOB in its own file.

use super::files::{self, Input, Source};
use crate::common::Failure;
use floatgate_config::Library;
use floatgate_image::dump_kind::{DumpKind, Kind};
use floatgate_image::ecc::{Apart, Code, EccError, Layout, LayoutError, PageGeometry, Scheme};
use floatgate_lab::part_sizes;
use floatgate_mtd::advice::Help;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Options that name the shape of pages.
#[derive(clap::Args)]
pub(super) struct GeometryArgs {
    /// NAND part: a name (see `floatgate list parts`), or the path of a TOML file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["page_size", "oob_size", "pages_per_block"])]
    part: Option<String>,

    /// Data bytes of a page, instead of --part
    #[arg(long, value_name = "BYTES", requires = "oob_size", value_parser = crate::image::sizes::bytes32)]
    page_size: Option<u32>,

    /// OOB bytes of a page
    #[arg(long, value_name = "BYTES", requires = "page_size", value_parser = crate::image::sizes::bytes32)]
    oob_size: Option<u32>,

    /// Pages of a block; needed to detect bad blocks
    #[arg(long, visible_alias = "block-pages", value_name = "N", requires = "page_size")]
    pages_per_block: Option<u32>,
}

/// Options that name the ECC code and its layout.
#[derive(clap::Args)]
pub(super) struct CodeArgs {
    /// ECC code: hamming/256, hamming/512, hamming-smartmedia/256 or /512 (two ECC bytes in the other order), or bch with bits and step bytes:
    /// bch4/512, bch8/512, bch24/1024 ... A polynomial after the code, as in bch24/1024@17475, replaces Linux's default
    #[arg(long)]
    code: Option<String>,

    /// Layout of data and ECC bytes in the page: a name (see `floatgate ecc layouts`), the path of a TOML file, or linux for the layout
    /// of Linux's software ECC [default: linux]
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
}

/// Options for OOB in a file of its own.
#[derive(clap::Args)]
pub(super) struct ApartArgs {
    /// Read the OOB from this file; the dump then has only the data
    #[arg(long, value_name = "FILE")]
    oob: Option<PathBuf>,

    /// The file of --oob has only the ECC bytes of each page, in order
    #[arg(long, requires = "oob")]
    ecc_only: bool,
}

/// Pages of a dump.
pub(super) enum DumpPages {
    /// Known page sizes, and the kind of the dump if the sizes follow from it.
    Known(PageGeometry, Option<DumpKind>),
    /// The dump has no OOB, or its page sizes cannot be detected.
    Unknown(DumpKind),
}

impl DumpPages {
    /// Page sizes.
    ///
    /// # Errors
    /// The sizes are unknown.
    pub(super) fn require(self, path: &Path) -> Result<PageGeometry, Failure> {
        match self {
            Self::Known(geometry, _) => Ok(geometry),
            Self::Unknown(kind) => Err(Failure::new(format!("{}: {kind}", path.display()), no_pages(&kind))),
        }
    }
}

/// Advice for a dump whose page sizes with OOB cannot be detected.
pub(super) fn no_pages(kind: &DumpKind) -> &'static str {
    match kind.kind {
        Kind::DataOnly => {
            "the data are ready for `floatgate image`; to check the ECC, dump the chip with its OOB (`nanddump --noecc --oob`), or name the OOB with --oob FILE"
        }
        Kind::Erased => "take a dump of a part that was written",
        Kind::Empty => "name the dump of a chip",
        Kind::WithOob | Kind::Unknown => {
            "--part NAME takes a chip's sizes (`floatgate list parts` lists them); else give --page-size and --oob-size"
        }
    }
}

impl GeometryArgs {
    /// True if the options state the sizes of the pages.
    pub(super) const fn is_stated(&self) -> bool {
        self.part.is_some() || self.page_size.is_some()
    }

    /// Usual code that meets the requirement of the chip, if a chip was named.
    pub(super) fn asked(&self) -> Result<Option<Code>, Failure> {
        if self.is_stated() { Ok(self.open()?.1) } else { Ok(None) }
    }

    /// Pages of a dump: stated sizes, or sizes detected from its contents.
    pub(super) fn of_dump(&self, path: &Path, oob: Option<&Path>) -> Result<DumpPages, Failure> {
        if self.is_stated() {
            return Ok(DumpPages::Known(self.open()?.0, None));
        }
        let Some(kind) = files::kind_of(path)? else { return Ok(DumpPages::Known(self.open()?.0, None)) };
        let shape = match oob {
            None => kind.shape(),
            Some(_) if matches!(kind.kind, Kind::Erased | Kind::Empty) => None,
            Some(oob) => Some(with_oob_apart(&kind, path, oob)?),
        };
        let Some((page, oob, pages_per_block)) = shape else { return Ok(DumpPages::Unknown(kind)) };
        let geometry = PageGeometry::new(page, oob, pages_per_block).map_err(|error| plain(&error))?;
        Ok(DumpPages::Known(geometry, Some(kind)))
    }

    /// Pages, and a usual code that meets the requirement of the chip, if it is known.
    pub(super) fn open(&self) -> Result<(PageGeometry, Option<Code>), Failure> {
        if let Some(name) = &self.part {
            let part = part_sizes::pages_of_part(&Library::built_in(), name)?;
            return Ok((part.geometry, asked_for(part.requires)));
        }
        let (Some(page), Some(oob)) = (self.page_size, self.oob_size) else {
            return Err(Failure::new(
                "how large are the pages?",
                "--part NAME takes a chip's sizes (`floatgate list parts` lists them); else give --page-size and --oob-size",
            ));
        };
        let geometry = PageGeometry::new(page, oob, self.pages_per_block);
        Ok((geometry.map_err(|error| plain(&error))?, None))
    }
}

/// Sizes of usual pages, the most likely first.
const USUAL_PAGES: [u32; 6] = [2048, 4096, 8192, 512, 16_384, 1024];

/// Page sizes if the OOB is in another file: both files have the same number of pages. The data tell the size of a page, or a usual one fits both
/// lengths.
fn with_oob_apart(kind: &DumpKind, data: &Path, oob: &Path) -> Result<(u32, u32, Option<u32>), Failure> {
    let [data_bytes, oob_bytes] =
        [data, oob].map(|path| std::fs::metadata(path).map_or(0, |found| found.len()));
    let with_page = |page: u32| {
        let pages = data_bytes.div_ceil(u64::from(page));
        let bytes = u32::try_from(oob_bytes.checked_div(pages)?).ok()?;
        (bytes > 0 && u64::from(bytes) * pages == oob_bytes).then_some((page, bytes))
    };
    let is_usual = |&(page, bytes): &(u32, u32)| (page / 32..=page / 4).contains(&bytes);
    let told = kind.page_bytes.filter(|_| kind.kind == Kind::DataOnly);
    let found = match told {
        Some(page) => with_page(page),
        None => USUAL_PAGES.into_iter().filter_map(with_page).find(is_usual),
    };
    let Some((page, bytes)) = found else {
        let pages = told.map_or_else(String::new, |page| format!(" in pages of {page} bytes"));
        return Err(Failure::new(
            format!(
                "{}: these {oob_bytes} bytes are not the OOB of as many pages as the {data_bytes} bytes of {} have{pages}",
                oob.display(),
                data.display()
            ),
            "both files have the same number of pages; --page-size and --oob-size state other sizes",
        ));
    };
    Ok((page, bytes, kind.block_bytes.and_then(|block| block.checked_div(page))))
}

fn asked_for((strength, step_bytes): (u32, u32)) -> Option<Code> {
    let code = match strength {
        1 => Code::Hamming { step_bytes },
        _ => Code::Bch { strength, step_bytes },
    };
    code.check().is_ok().then_some(code)
}

impl CodeArgs {
    /// The code, if one is given.
    pub(super) fn code(&self) -> Result<Option<Code>, Failure> {
        let Some(text) = &self.code else { return Ok(None) };
        let code = text.parse().map_err(EccError::from);
        code.map(Some).map_err(|error| Failure::new(format!("--code {text}: {error}"), error.help()))
    }

    /// The layout, if one is given other than Linux's choice.
    pub(super) fn layout(&self) -> Result<Option<Cow<'static, Layout>>, Failure> {
        let Some(text) = self.layout.as_deref().filter(|text| *text != "linux") else { return Ok(None) };
        let failed = |error: LayoutError| {
            let help = "`floatgate ecc layouts` lists the layouts; docs/ecc-layouts.md describes the files";
            Failure::new(format!("--layout {text}: {error}"), help)
        };
        if text.contains('/') || text.ends_with(".toml") {
            return Layout::open(Path::new(text)).map(|layout| Some(Cow::Owned(layout))).map_err(failed);
        }
        Layout::named(text).map(|layout| Some(Cow::Borrowed(layout))).map_err(failed)
    }

    /// True if neither a code nor a layout is given, so that both are detected.
    pub(super) const fn is_open(&self) -> bool {
        self.code.is_none() && self.layout.is_none()
    }

    /// True if the option states that there is no code.
    pub(super) fn is_none(&self) -> bool {
        self.code.as_deref() == Some("none")
    }

    /// Code and layout for pages.
    pub(super) fn scheme(&self, geometry: &GeometryArgs) -> Result<Scheme, Failure> {
        let (geometry, asked) = geometry.open()?;
        self.scheme_for(geometry, asked)
    }

    /// Code and layout for pages of known sizes.
    pub(super) fn scheme_for(&self, geometry: PageGeometry, asked: Option<Code>) -> Result<Scheme, Failure> {
        let (code, layout) = (self.code()?, self.layout()?);
        let usual = layout.as_deref().and_then(Layout::usual_code);
        let code = code.or(usual).ok_or_else(|| no_code(asked))?;
        let scheme = match layout {
            Some(layout) => Scheme::new(geometry, code, &layout),
            None => Scheme::linux(geometry, code),
        };
        scheme.map_err(|error| plain(&error))
    }
}

fn no_code(asked: Option<Code>) -> Failure {
    let asks = asked.map_or(String::new(), |code| format!("the chip asks for --code {code} or better; "));
    Failure::new(
        "no ECC code is given",
        format!(
            "{asks}`floatgate ecc check FILE` finds out the code of a dump, `floatgate ecc decode --code none` writes its data without OOB"
        ),
    )
}

/// Failure of an error that concerns no file.
fn plain(error: &EccError) -> Failure {
    Failure::new(error, error.help())
}

impl ApartArgs {
    /// Opens the file, if one is named.
    pub(super) fn open(&self, geometry: &PageGeometry) -> Result<Option<Input>, Failure> {
        self.oob.as_deref().map(|path| Input::open_dump(path, self.oob_bytes(geometry))).transpose()
    }

    /// The file for several reads, if one is named.
    pub(super) fn source(&self, geometry: &PageGeometry) -> Result<Option<Source>, Failure> {
        self.oob.as_deref().map(|path| Source::new(path, self.oob_bytes(geometry))).transpose()
    }

    /// Number of bytes per page in the file with the OOB; 0 if it depends on the code.
    const fn oob_bytes(&self, geometry: &PageGeometry) -> u32 {
        if self.ecc_only { 0 } else { geometry.oob_bytes }
    }

    /// Number of bytes per page in the file with the pages.
    pub(super) const fn page_bytes(&self, geometry: &PageGeometry) -> u32 {
        if self.oob.is_some() { geometry.page_bytes } else { geometry.full_page() }
    }

    /// The OOB in the form that the library reads.
    pub(super) fn apart<'a>(&self, input: &'a mut Option<Input>) -> Option<Apart<'a>> {
        let only_ecc = self.ecc_only;
        input.as_mut().map(|input| Apart { bytes: &mut input.reader, only_ecc })
    }

    /// True if the file contains only the ECC bytes.
    pub(super) const fn only_ecc(&self) -> bool {
        self.ecc_only
    }

    /// Path of the file, if one is named.
    pub(super) fn path(&self) -> Option<&Path> {
        self.oob.as_deref()
    }

    /// Failure with the name of the file that the error concerns.
    pub(super) fn failure(&self, error: &EccError, input: &Path, output: Option<&Path>) -> Failure {
        let blamed = match error {
            EccError::Write { .. } => output.unwrap_or(input),
            EccError::Apart { .. } => self.path().unwrap_or(input),
            _ => input,
        };
        files::failure(blamed, error)
    }
}

//! Layouts of raw pages, as data: where a controller puts data, OOB bytes and ECC bytes, and the code it uses.
//!
//! - [`Layout`]: a layout from a TOML file of `data/layouts`, or of a user (docs/ecc-layouts.md).
//! - `pattern`: the text that names the bytes of a page in their order.
//! - `map`: a pattern for pages of one size and one code, as ranges of bits.
//! - `randomizer`: the bits that a controller adds to pages.

pub(super) mod map;
mod pattern;
pub(super) mod randomizer;

use super::{EccError, PageGeometry};
use floatgate_ecc::{BitOrder, Code, Inversion, POLYNOMIALS_9, RsForm, Variant};
use include_dir::{Dir, include_dir};
use map::{MapOptions, PageMap};
use pattern::Pattern;
use randomizer::{Randomizer, RandomizerForm};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The files of the layouts that come with the program.
static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/layouts");

/// Name of a layout that was found in a dump.
const FOUND: &str = "found";

/// Most bytes of a layout's file.
const MAX_FILE: u64 = 64 << 10;

/// Most page shapes and most codes in a file.
const MAX_ENTRIES: usize = 64;

/// Most bytes at the place of the marker that a controller leaves alone, and largest alignment of ECC bytes.
const MAX_SKIP: u32 = 64;

/// A layout of raw pages.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Its name.
    pub name: Arc<str>,
    title: String,
    source: String,
    used_by: Vec<String>,
    text: String,
    /// Codes that go with it, the usual one first; empty where it goes with any.
    codes: Vec<Code>,
    bits: BitOrder,
    inversion: Inversion,
    options: MapOptions,
    /// Properties of the code that the source leaves open.
    open: Vec<Open>,
    randomizer: Option<Randomizer>,
    /// Check bits end with the last bit of the ECC bytes.
    ends_with_check_bits: bool,
    swap: Option<Swap>,
    pages: Vec<Shape>,
}

/// Property of a code that a source leaves open: the file has the usual one, and dumps are tried with the others as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Open {
    /// Order of the bits of a byte.
    Bits,
    /// Mask on the ECC bytes.
    Inversion,
    /// Primitive polynomial of the field.
    Polynomial,
}

/// Byte of the OOB that changes places with the data byte where the factory marks bad blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Swap {
    /// The first OOB byte of the page.
    First,
    /// The first OOB byte of the same step.
    Step,
}

/// A pattern for some pages.
#[derive(Clone, Debug)]
struct Shape {
    page_bytes: Option<u32>,
    oob_bytes: Option<u32>,
    pattern: Pattern,
}

impl Shape {
    fn row(&self) -> PatternRow {
        PatternRow {
            page_bytes: self.page_bytes,
            oob_bytes: self.oob_bytes,
            pattern: self.pattern.text().to_owned(),
        }
    }
}

/// A layout as a row of a table.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutRow {
    /// Name of the partition.
    pub name: String,
    /// Controller or program that writes it.
    pub title: String,
    /// Origin of the facts.
    pub source: String,
    /// Boards and SoCs that use it.
    pub used_by: Vec<String>,
    /// Codes that go with it; empty for any.
    pub codes: Vec<String>,
    /// Bit of a byte that comes first in a codeword: `msb` or `lsb`.
    pub bits: &'static str,
    /// Mask on the ECC bytes: `erased`, `none` or `all`.
    pub inversion: &'static str,
    /// The data byte in the place of the factory's bad block marker is exchanged with an OOB byte.
    pub swaps_marker: bool,
    /// Pages are randomized.
    pub is_randomized: bool,
    /// The source leaves properties of the code open: the file has the usual ones, and dumps are tried with others as well.
    pub is_assumed: bool,
    /// Patterns by size of page.
    pub pages: Vec<PatternRow>,
}

/// A pattern of a layout.
#[derive(Clone, Debug, Serialize)]
pub struct PatternRow {
    /// Data bytes of a page; absent for any.
    pub page_bytes: Option<u32>,
    /// OOB bytes of a page; absent for any.
    pub oob_bytes: Option<u32>,
    /// The bytes of a page in their order.
    pub pattern: String,
}

/// A layout as a file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    title: String,
    source: String,
    #[serde(default)]
    used_by: Vec<String>,
    #[serde(default)]
    codes: Vec<String>,
    #[serde(default)]
    bits: BitsForm,
    #[serde(default)]
    inversion: InversionForm,
    #[serde(default)]
    packed: bool,
    #[serde(default)]
    ends_with_check_bits: bool,
    #[serde(default)]
    skip_marker: u32,
    ecc_align: Option<u32>,
    swap: Option<Swap>,
    #[serde(default)]
    open: Vec<Open>,
    randomizer: Option<RandomizerForm>,
    pages: Vec<ShapeForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeForm {
    page: Option<u32>,
    oob: Option<u32>,
    pattern: String,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum BitsForm {
    #[default]
    Msb,
    Lsb,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum InversionForm {
    #[default]
    Erased,
    None,
    All,
}

/// Reason for which a layout's file is refused, or does not suit a page.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The file cannot be read.
    #[error("{0}")]
    File(std::io::Error),
    /// No layout is that large.
    #[error("the file has more than {MAX_FILE} bytes")]
    Large,
    /// Not TOML, or not the keys of a layout.
    #[error("{0}")]
    Toml(String),
    /// No such code.
    #[error("codes: {0}")]
    Code(floatgate_ecc::CodeError),
    /// More codes or page shapes than a controller has.
    #[error("more than {MAX_ENTRIES} {0}")]
    Many(&'static str),
    /// Not a pattern.
    #[error("pattern, column {column}: {reason}")]
    Pattern {
        /// Column in the text, from 1.
        column: usize,
        /// Description of the fault.
        reason: &'static str,
    },
    /// No shape of the layout is for such pages.
    #[error("no pattern is for pages of {page_bytes} + {oob_bytes} bytes")]
    Shape {
        /// Size of a page without OOB, bytes.
        page_bytes: u32,
        /// Size of a page's OOB, bytes.
        oob_bytes: u32,
    },
    /// The pattern has more bytes than the page.
    #[error("data, marker and ECC need {needs} bytes, and a page with its OOB has {has}")]
    Long {
        /// Bytes of the pattern.
        needs: u64,
        /// Bytes of the page.
        has: u64,
    },
    /// Data or ECC bytes of the pattern are not those of the page.
    #[error("the pattern has {got} bits of {what}, and the page {needs}")]
    Count {
        /// `data` or `ECC`.
        what: &'static str,
        /// Bits of the pattern.
        got: u64,
        /// Bits that are needed.
        needs: u64,
    },
    /// The factory's bad block marker is not among the data.
    #[error("no data lie where the factory marks bad blocks, so nothing can be swapped with them")]
    Swap,
    /// Bytes at the marker's place, or an alignment, that no controller has.
    #[error("{key} is {value}, and may be {least} to {most}")]
    Range {
        /// Key of the file.
        key: &'static str,
        /// Its value.
        value: u32,
        /// Least value.
        least: u32,
        /// Greatest value.
        most: u32,
    },
    /// The generator of the randomizer is not valid.
    #[error("randomizer: {0}")]
    Randomizer(&'static str),
    /// No layout of that name.
    #[error("no such layout: `floatgate ecc layouts` lists them")]
    Unknown,
}

impl Layout {
    /// All layouts that come with the program, in the order of their names.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Layout>> = OnceLock::new();
        ALL.get_or_init(|| {
            // A test reads each file.
            let mut all: Vec<Self> = FILES
                .files()
                .filter_map(|file| {
                    let name = file.path().file_stem()?.to_str()?;
                    Self::parse(name, file.contents_utf8()?).ok()
                })
                .collect();
            all.sort_by(|one, other| one.name.cmp(&other.name));
            all
        })
    }

    /// The layout of a name.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn named(name: &str) -> Result<&'static Self, LayoutError> {
        Self::all().iter().find(|layout| &*layout.name == name).ok_or(LayoutError::Unknown)
    }

    /// The layout of a file.
    ///
    /// # Errors
    /// A file that cannot be read, or that holds no layout.
    pub fn open(path: &Path) -> Result<Self, LayoutError> {
        let file = floatgate_host::open::open_input(path).map_err(LayoutError::File)?;
        let mut text = String::new();
        let read = std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_FILE + 1), &mut text);
        if read.map_err(LayoutError::File)? as u64 > MAX_FILE {
            return Err(LayoutError::Large);
        }
        Self::parse(&path.display().to_string(), &text)
    }

    /// The layout of the text of a file.
    ///
    /// # Errors
    /// A text that holds no layout.
    pub fn parse(name: &str, text: &str) -> Result<Self, LayoutError> {
        let form: FileForm = toml::from_str(text).map_err(|error| LayoutError::Toml(error.to_string()))?;
        let within = |what, count| if count > MAX_ENTRIES { Err(LayoutError::Many(what)) } else { Ok(()) };
        within("codes", form.codes.len())?;
        within("pages", form.pages.len())?;
        within("open properties", form.open.len())?;
        let range = |key, value, least| match value {
            _ if (least..=MAX_SKIP).contains(&value) => Ok(value),
            _ => Err(LayoutError::Range { key, value, least, most: MAX_SKIP }),
        };
        let codes = form.codes.iter().map(|code| code.parse().map_err(LayoutError::Code));
        let shape = |shape: ShapeForm| {
            let pattern = Pattern::parse(&shape.pattern)?;
            Ok(Shape { page_bytes: shape.page, oob_bytes: shape.oob, pattern })
        };
        Ok(Self {
            name: name.into(),
            title: form.title,
            source: form.source,
            used_by: form.used_by,
            text: text.to_owned(),
            codes: codes.collect::<Result<_, _>>()?,
            bits: match form.bits {
                BitsForm::Msb => BitOrder::Msb,
                BitsForm::Lsb => BitOrder::Lsb,
            },
            inversion: match form.inversion {
                InversionForm::Erased => Inversion::Erased,
                InversionForm::None => Inversion::None,
                InversionForm::All => Inversion::All,
            },
            options: MapOptions {
                packed: form.packed,
                skip_marker: range("skip_marker", form.skip_marker, 0)?,
                ecc_align: range("ecc_align", form.ecc_align.unwrap_or(1), 1)?,
            },
            open: form.open,
            randomizer: form.randomizer.map(Randomizer::new).transpose()?,
            ends_with_check_bits: form.ends_with_check_bits,
            swap: form.swap,
            pages: form.pages.into_iter().map(shape).collect::<Result<_, LayoutError>>()?,
        })
    }

    /// A layout that was found in a dump.
    pub(super) fn found(
        pattern: &str,
        code: Code,
        bits: BitOrder,
        inversion: Inversion,
    ) -> Result<Self, LayoutError> {
        let (bits, inversion) = (bits_name(bits), inversion_name(inversion));
        let text = format!(
            "title = \"Found in a dump\"\nsource = \"The pages are codewords of this code\"\ncodes = [\"{code}\"]\nbits = \"{bits}\"\ninversion = \"{inversion}\"\n\n[[pages]]\npattern = \"{pattern}\"\n"
        );
        Self::parse(FOUND, &text)
    }

    /// The layout with the randomizer of a text.
    ///
    /// # Errors
    /// A layout that has one.
    pub(super) fn randomized(&self, randomizer: &str) -> Result<Self, LayoutError> {
        let name = format!("{} (randomizer found)", self.name);
        Self::parse(&name, &format!("{}{randomizer}", self.text))
    }

    /// The layout with each combination of the properties that its source leaves open, but the one in its file; with the code that goes with it.
    pub(super) fn alternatives(&self) -> Vec<(Self, Code)> {
        let is_open = |property| self.open.contains(&property);
        let orders = [BitOrder::Msb, BitOrder::Lsb];
        let orders = orders.into_iter().filter(|bits| *bits == self.bits || is_open(Open::Bits));
        let masks = [Inversion::Erased, Inversion::None, Inversion::All];
        let masks: Vec<Inversion> =
            masks.into_iter().filter(|mask| *mask == self.inversion || is_open(Open::Inversion)).collect();
        let mut all = Vec::new();
        for (bits, inversion) in orders.flat_map(|bits| masks.iter().map(move |mask| (bits, *mask))) {
            for code in &self.codes {
                let codes = if is_open(Open::Polynomial) { polynomials(*code) } else { vec![*code] };
                let is_own = |other: &Code| (bits, inversion, *other) == (self.bits, self.inversion, *code);
                for other in codes.into_iter().filter(|other| !is_own(other)) {
                    all.push((self.with(other, bits, inversion), other));
                }
            }
        }
        all
    }

    /// The layout with another code.
    fn with(&self, code: Code, bits: BitOrder, inversion: Inversion) -> Self {
        Self {
            name: format!("{} ({} first, mask {})", self.name, bits_name(bits), inversion_name(inversion))
                .into(),
            text: self.text_with(code, bits, inversion),
            codes: vec![code],
            bits,
            inversion,
            open: Vec::new(),
            ..self.clone()
        }
    }

    /// The text of the file with another code.
    fn text_with(&self, code: Code, bits: BitOrder, inversion: Inversion) -> String {
        let replaced = ["codes", "bits", "inversion", "open"];
        let key = |line: &str| line.split('=').next().map_or(String::new(), |key| key.trim().to_owned());
        let (head, pages) = self.text.split_at(self.text.find("\n[").unwrap_or(self.text.len()));
        let kept = head.lines().filter(|line| !replaced.contains(&key(line).as_str()));
        let (bits, inversion) = (bits_name(bits), inversion_name(inversion));
        let own = format!("codes = [\"{code}\"]\nbits = \"{bits}\"\ninversion = \"{inversion}\"");
        let lines: Vec<&str> = kept.chain(own.lines()).collect();
        format!("{}\n{pages}", lines.join("\n"))
    }

    /// The bits that a controller adds to the pages.
    pub(super) const fn randomizer(&self) -> Option<&Randomizer> {
        self.randomizer.as_ref()
    }

    /// The code to take where none is given.
    pub fn usual_code(&self) -> Option<Code> {
        self.codes.first().copied()
    }

    /// Codes that go with it, the usual one first; empty where it goes with any.
    pub fn codes(&self) -> &[Code] {
        &self.codes
    }

    /// True of a layout that has no name to give it by: one that was found in a dump, or an alternative.
    pub(super) fn is_nameless(&self) -> bool {
        &*self.name == FOUND || self.name.ends_with(')')
    }

    /// The text of its file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The layout as a row of a table.
    pub fn row(&self) -> LayoutRow {
        LayoutRow {
            name: self.name.to_string(),
            title: self.title.clone(),
            source: self.source.clone(),
            used_by: self.used_by.clone(),
            codes: self.codes.iter().map(Code::to_string).collect(),
            bits: bits_name(self.bits),
            inversion: inversion_name(self.inversion),
            swaps_marker: self.swap.is_some(),
            is_randomized: self.randomizer.is_some(),
            is_assumed: !self.open.is_empty(),
            pages: self.pages.iter().map(Shape::row).collect(),
        }
    }

    /// The bits of a page, and the representation of the code.
    pub(super) fn map(&self, geometry: &PageGeometry, code: Code) -> Result<(PageMap, Variant), EccError> {
        let (page_bytes, oob_bytes) = (geometry.page_bytes, geometry.oob_bytes);
        let suits = |shape: &&Shape| {
            shape.page_bytes.is_none_or(|bytes| bytes == page_bytes)
                && shape.oob_bytes.is_none_or(|bytes| bytes == oob_bytes)
        };
        let refused =
            |error| EccError::Layout { code: code.to_string(), layout: self.name.to_string(), error };
        let shape = self.pages.iter().find(suits);
        let shape = shape.ok_or_else(|| refused(LayoutError::Shape { page_bytes, oob_bytes }))?;
        let mut map = PageMap::new(&shape.pattern, geometry, code, self.options).map_err(refused)?;
        match self.swap {
            None => {}
            Some(Swap::First) => map.swap_marker(page_bytes, false).map_err(refused)?,
            Some(Swap::Step) => map.swap_marker(page_bytes, true).map_err(refused)?,
        }
        let extra_bytes = map.most_message_bytes().saturating_sub(code.step_bytes());
        let variant = Variant {
            extra_bytes,
            bits: self.bits,
            inversion: self.inversion,
            ends_with_check_bits: self.ends_with_check_bits,
        };
        Ok((map, variant))
    }
}

/// A code over each field in use that is of the same degree; of packed symbols also with both places in the codeword.
fn polynomials(code: Code) -> Vec<Code> {
    if let Code::ReedSolomon { strength, step_bytes, form: RsForm::Packed { .. } } = code {
        let form = |polynomial| [false, true].map(|is_full| RsForm::Packed { polynomial, is_full });
        let code = |form| Code::ReedSolomon { strength, step_bytes, form };
        return POLYNOMIALS_9.into_iter().flat_map(form).map(code).collect();
    }
    let of_degree = POLYNOMIALS.into_iter().filter(|polynomial| polynomial.ilog2() == code.degree());
    let code = |polynomial| Code::bch_over(code.strength(), code.step_bytes(), polynomial).ok();
    of_degree.filter_map(code).collect()
}

/// Primitive polynomials in use, by degree: Linux's (8219, 16427, 32771), the one of Atmel and others,
/// Allwinner's, and the reciprocals of Linux's.
const POLYNOMIALS: [u32; 7] = [0x201B, 0x3601, 0x402B, 0x4443, 0x5803, 0x8003, 0xC001];

const fn bits_name(bits: BitOrder) -> &'static str {
    match bits {
        BitOrder::Msb => "msb",
        BitOrder::Lsb => "lsb",
    }
}

const fn inversion_name(inversion: Inversion) -> &'static str {
    match inversion {
        Inversion::Erased => "erased",
        Inversion::None => "none",
        Inversion::All => "all",
    }
}

/// Layouts have one name each.
impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read() {
        for file in FILES.files() {
            let text = file.contents_utf8().unwrap();
            assert!(
                Layout::parse("", text).is_ok(),
                "{}: {:?}",
                file.path().display(),
                Layout::parse("", text).err()
            );
        }
        assert_eq!(Layout::all().len(), FILES.files().count());
    }
}

//! Identifies a chip from an id, a parameter page, registers of a card, or a boot log.
//!
//! Each [`Device`] is described by one id, page or log line, and lists the matching parts of the catalogue and of
//! Linux's tables. Several matching parts are twins: chips with the same id.

use floatgate_config::{ChipKind, Kind, Library, Part};
use floatgate_device::spec::ChipSpec;
use floatgate_media::sd::{CardType, Cid, Csd, ExtCsd, parse_hex};
use floatgate_media::{cfi, jedec, nand_id, onfi, sfdp};
use serde::{Deserialize, Serialize};

/// Maximum length of a log line that is parsed, bytes.
const LINE_MAX: usize = 1024;

/// Maximum number of devices in a log.
const MAX_DEVICES: usize = 64;

/// Devices described in an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identified {
    /// The devices, in the order of the input.
    pub devices: Vec<Device>,
}

/// A device as described by an id, a page or a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Source of the description: `id`, `ONFI`, `JEDEC`, `SFDP`, `CFI`, `CID`, `CSD`, `EXT_CSD`, or the line of the log.
    pub source: String,
    /// Id in hexadecimal.
    pub id: Option<String>,
    /// Name stated by the source.
    pub name: Option<String>,
    /// Maker stated by the source, or implied by the first byte of the id.
    pub maker: Option<String>,
    /// Size stated by the source, bytes.
    pub size_bytes: Option<u64>,
    /// Geometry of a NAND as stated by the source.
    pub nand: Option<NandSizes>,
    /// Further properties.
    pub notes: Vec<String>,
    /// Matching parts. More than one part are twins.
    pub parts: Vec<Candidate>,
}

/// Geometry of a NAND and its ECC requirement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NandSizes {
    /// Data bytes per page.
    pub page_bytes: u32,
    /// OOB bytes per page.
    pub oob_bytes: u32,
    /// Pages per block.
    pub pages_per_block: u32,
    /// Number of bits to correct per ECC step, if known.
    pub ecc_bits: Option<u32>,
    /// Bytes of data per ECC step, if known.
    pub ecc_step_bytes: Option<u32>,
    /// True if the chip has on-die ECC.
    pub on_die_ecc: bool,
}

/// A part that matches a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name of the part in the catalogue.
    pub part: String,
    /// Name as printed on the chip.
    pub name: String,
    /// Maker of the part.
    pub maker: String,
    /// Kind of chip.
    #[serde(rename = "part_kind")]
    pub kind: String,
    /// Id in hexadecimal.
    pub id: String,
    /// Size in bytes, if known.
    pub size_bytes: Option<u64>,
    /// Geometry of a NAND.
    pub nand: Option<NandSizes>,
    /// Version of the Linux kernel whose tables contain the part.
    pub kernel: Option<String>,
    /// Values of the source that contradict the part.
    pub contradictions: Vec<String>,
}

/// Identifies the chips in an input: the bytes of a page or register, a log, or an id.
#[must_use]
pub fn identify(input: &[u8]) -> Identified {
    let catalogue = Catalogue::new();
    let text = std::str::from_utf8(input).ok();
    let mut devices: Vec<Device> = match (of_page(input), text) {
        (Some(device), _) => vec![device],
        (None, Some(text)) => of_register(text)
            .or_else(|| of_page(&hex(text)?))
            .map(|device| vec![device])
            .or_else(|| ids(text))
            .unwrap_or_else(|| catalogue.of_log(text)),
        (None, None) => catalogue.of_log(&String::from_utf8_lossy(input)),
    };
    for device in &mut devices {
        catalogue.find_parts(device);
    }
    Identified { devices }
}

/// Bytes in hexadecimal, with any separators.
fn hex(text: &str) -> Option<Vec<u8>> {
    let plain = text.trim().to_lowercase().replace("0x", "");
    let digits: String = plain.chars().filter(|c| !"-:, \n\t[]h".contains(*c)).collect();
    let is_hex =
        digits.len().is_multiple_of(2) && !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_hexdigit());
    is_hex.then(|| {
        let pairs = (0..digits.len()).step_by(2).filter_map(|at| digits.get(at..at + 2));
        pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
    })
}

/// Parses an id in hexadecimal.
fn id(text: &str) -> Option<Vec<u8>> {
    hex(text).filter(|id| (2..=8).contains(&id.len()))
}

/// Ids in a text that contains nothing else: one per line, or several of at least three bytes in a line.
fn ids(text: &str) -> Option<Vec<Device>> {
    let of_line = |line: &str| -> Option<Vec<Vec<u8>>> {
        let words: Option<Vec<Vec<u8>>> = line.split_whitespace().map(id).collect();
        let words = words.filter(|words| words.iter().all(|word| word.len() >= 3));
        words.or_else(|| Some(vec![id(line)?]))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty()).take(MAX_DEVICES);
    let ids: Vec<Vec<u8>> = lines.map(of_line).collect::<Option<Vec<_>>>()?.concat();
    (!ids.is_empty()).then(|| ids.iter().take(MAX_DEVICES).map(|id| of_id(id)).collect())
}

fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn of_id(id: &[u8]) -> Device {
    let raw = nand_id::NandId::new(id).ok();
    let maker = raw.and_then(|raw| raw.manufacturer_name()).map(str::to_owned);
    Device { source: "id".to_owned(), id: Some(hex_text(id)), maker, ..Device::default() }
}

/// Device described by a parameter page, an SFDP area, a CFI table or an EXT_CSD register, recognised by its signature.
fn of_page(bytes: &[u8]) -> Option<Device> {
    if let Ok(page) = onfi::parse_copies(bytes) {
        let nand = NandSizes {
            page_bytes: page.page_bytes,
            oob_bytes: page.spare_bytes.into(),
            pages_per_block: page.pages_per_block,
            // A value of FFh means that the extended parameter page contains it.
            ecc_bits: Some(page.ecc_bits.into()).filter(|bits| *bits != 0xFF),
            ecc_step_bytes: (page.ecc_bits != 0xFF).then_some(512),
            on_die_ecc: false,
        };
        return Some(Device {
            source: "ONFI".to_owned(),
            name: Some(page.model.as_str().to_owned()),
            maker: Some(page.manufacturer.as_str().to_owned()),
            size_bytes: page.chip_bytes(),
            nand: Some(nand),
            ..Device::default()
        });
    }
    if bytes.starts_with(b"ONFI") {
        return Some(Device {
            source: "ONFI".to_owned(),
            notes: vec!["no copy of the parameter page has a good CRC: read it again".to_owned()],
            ..Device::default()
        });
    }
    if let Ok(page) = jedec::parse(bytes) {
        return Some(Device {
            source: "JEDEC".to_owned(),
            name: Some(page.model.as_str().to_owned()),
            maker: Some(page.manufacturer.as_str().to_owned()),
            size_bytes: page.chip_bytes(),
            ..Device::default()
        });
    }
    if let Ok(area) = sfdp::parse(bytes) {
        return Some(Device {
            source: "SFDP".to_owned(),
            size_bytes: area.bfpt.body.capacity_bytes(),
            notes: vec!["SFDP states no name: the id tells which chip it is".to_owned()],
            ..Device::default()
        });
    }
    let table = [cfi::BusView::X8, cfi::BusView::X16, cfi::BusView::X16AsX8]
        .into_iter()
        .find_map(|view| cfi::parse(bytes, view).ok());
    if let Some(table) = table {
        let notes = vec!["CFI states no name: the id tells which chip it is".to_owned()];
        return Some(Device {
            source: "CFI".to_owned(),
            size_bytes: table.identification.chip_bytes(),
            notes,
            ..Device::default()
        });
    }
    // An EXT_CSD has no signature, so its size, revision and sector count are checked.
    let register = bytes.first_chunk::<{ ExtCsd::BYTES }>().filter(|_| bytes.len() == ExtCsd::BYTES)?;
    let parsed = ExtCsd::parse(register);
    ((1..=10).contains(&parsed.revision) && parsed.sectors > 0).then(|| of_ext_csd(&parsed))
}

fn of_ext_csd(register: &ExtCsd) -> Device {
    let revision = match register.revision {
        5 => "eMMC 4.41",
        6 => "eMMC 4.5",
        7 => "eMMC 5.0",
        8 => "eMMC 5.1",
        _ => "eMMC",
    };
    let mut notes = vec![revision.to_owned()];
    let cache = register.cache_kbit / 8;
    notes.push(if cache == 0 { "no cache".to_owned() } else { format!("cache of {cache} KiB") });
    let life = |name: &str, tenths: u8| match tenths {
        1..=10 => Some(format!("life used of {name}: {} to {} %", 10 * (tenths - 1), 10 * tenths)),
        11 => Some(format!("life used of {name}: more than all of it")),
        _ => None,
    };
    notes.extend(life("SLC", register.life_a).into_iter().chain(life("MLC or TLC", register.life_b)));
    Device {
        source: "EXT_CSD".to_owned(),
        size_bytes: Some(u64::from(register.sectors) * 512),
        notes,
        ..Device::default()
    }
}

/// Date in a CID. The year of an MMC has two meanings, between which only its EXT_CSD decides (JESD84-B51, MDT).
fn made(cid: &Cid, kind: CardType) -> String {
    let later = cid.of_revision(u8::MAX).year;
    let date = |year: u16| format!("{year}-{:02}", cid.month);
    match kind {
        CardType::Mmc if later != cid.year => {
            format!("{} or {}, which EXT_CSD_REV decides", date(cid.year), date(later))
        }
        _ => date(cid.year),
    }
}

/// Device described by a card register in hexadecimal, as in sysfs.
fn of_register(text: &str) -> Option<Device> {
    if let Ok(bytes) = parse_hex::<{ ExtCsd::BYTES }>(text) {
        return Some(of_ext_csd(&ExtCsd::parse(&bytes)));
    }
    let bytes = parse_hex::<{ Cid::BYTES }>(text).ok()?;
    let is_text = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|text| text.iter().all(|byte| (b' '..=b'~').contains(byte)))
    };
    // In the CID of an SD card, two letters of the manufacturer precede the name; in that of an MMC, a number does.
    let kind = if is_text(1..8) { CardType::Sd } else { CardType::Mmc };
    if is_text(3..8) {
        let cid = Cid::parse(&bytes, kind);
        let notes = vec![format!("made in {}, serial number {:#010x}", made(&cid, kind), cid.serial)];
        return Some(Device {
            source: if kind == CardType::Sd { "CID of an SD card" } else { "CID of an eMMC" }.to_owned(),
            id: Some(format!("{:02x}", cid.manufacturer_id)),
            name: Some(cid.name.as_str().to_owned()),
            maker: Some(cid.oem.as_str().trim().to_owned()).filter(|oem| !oem.is_empty()),
            notes,
            ..Device::default()
        });
    }
    // The structure field of the CSD is 0 or 1 on SD cards. On MMC it is 1 to 3 with a version in the same byte.
    let kind = if matches!(bytes[0], 0 | 0x40 | 0x80) { CardType::Sd } else { CardType::Mmc };
    let csd = Csd::parse(&bytes, kind).ok()?;
    Some(Device { source: "CSD".to_owned(), size_bytes: csd.capacity_bytes, ..Device::default() })
}

/// Parts to search.
struct Catalogue {
    library: Library,
    parts: Vec<CataloguePart>,
}

/// A part with its id.
struct CataloguePart {
    key: String,
    /// Name in the kernel's table, if it differs.
    alias: Option<&'static str>,
    kind: ChipKind,
    id: Vec<u8>,
    kernel: Option<&'static str>,
}

impl Catalogue {
    fn new() -> Self {
        let library = Library::built_in();
        let own = library.names(Kind::Part).filter_map(|key| {
            let loaded = library.load(Kind::Part, key).ok()?;
            let kind = loaded.chip().ok()?.kind();
            let id: Vec<u16> = loaded.table.extract("id").unwrap_or_default();
            let id = id.into_iter().filter_map(|byte| u8::try_from(byte).ok()).collect();
            Some(CataloguePart { key: key.to_owned(), alias: None, kind, id, kernel: None })
        });
        let mut parts: Vec<CataloguePart> = own.collect();
        for chip in floatgate_config::kernel_chips() {
            let own = library.own_of(&chip).map(str::to_owned);
            match own.and_then(|own| parts.iter_mut().find(|part| part.key == own)) {
                Some(part) if part.id == bytes_of(chip.id()) => {
                    (part.kernel, part.alias) = (Some(chip.kernel()), Some(chip.key));
                }
                _ => parts.push(CataloguePart {
                    key: chip.key.to_owned(),
                    alias: None,
                    kind: chip.kind,
                    id: bytes_of(chip.id()),
                    kernel: Some(chip.kernel()),
                }),
            }
        }
        Self { library, parts }
    }

    /// Adds the parts that match a device by its id or by its name.
    fn find_parts(&self, device: &mut Device) {
        let id = device.id.as_ref().and_then(|id| hex(id)).unwrap_or_default();
        let name = device.name.as_ref().map(|name| name.to_lowercase());
        let fits = |part: &&CataloguePart| {
            // A reader may return fewer id bytes than the table contains, or more.
            let by_id =
                id.len() >= 2 && part.id.len() >= 2 && (part.id.starts_with(&id) || id.starts_with(&part.id));
            by_id || id.len() < 2 && name.as_ref().is_some_and(|name| part.is_named(name))
        };
        let candidates = self.parts.iter().filter(fits).map(|part| self.candidate(part, device));
        let mut candidates: Vec<Candidate> = candidates.collect();
        candidates.sort_by_key(|part| (part.contradictions.len(), std::cmp::Reverse(part.id.len())));
        device.parts = candidates;
        if device.id.is_none() && device.name.is_none() {
            device.parts = self.of_sizes(device);
        }
    }

    /// SPI NAND parts of a maker with the sizes in a log, because Linux does not print their names.
    fn of_sizes(&self, device: &Device) -> Vec<Candidate> {
        let (Some(maker), Some(_)) = (&device.maker, &device.nand) else { return Vec::new() };
        let is_possible = |part: &Candidate| {
            part.maker.eq_ignore_ascii_case(maker) && part.nand.is_some() && part.contradictions.is_empty()
        };
        let nands = self.parts.iter().filter(|part| part.kind == ChipKind::SpiNand);
        nands.map(|part| self.candidate(part, device)).filter(is_possible).collect()
    }

    fn candidate(&self, part: &CataloguePart, device: &Device) -> Candidate {
        let loaded = self.library.load(Kind::Part, &part.key).ok();
        let head: Option<Part> = loaded.as_ref().and_then(|loaded| loaded.head.extract("").ok());
        let chip = loaded.as_ref().and_then(|loaded| loaded.chip().ok());
        let facts = chip.as_ref().map(ChipSpec::facts);
        let nand = facts.as_ref().and_then(|facts| facts.nand.as_ref()).map(|nand| NandSizes {
            page_bytes: nand.page_bytes,
            oob_bytes: nand.oob_bytes,
            pages_per_block: nand.pages_per_block,
            ecc_bits: Some(nand.ecc.strength),
            ecc_step_bytes: Some(nand.ecc.step_bytes),
            on_die_ecc: nand.on_die_ecc,
        });
        let mut candidate = Candidate {
            part: part.key.clone(),
            name: head.as_ref().map_or_else(|| part.key.to_uppercase(), |head| head.name.clone()),
            maker: head.map(|head| head.maker).unwrap_or_default(),
            kind: part.kind.name().to_owned(),
            id: hex_text(&part.id),
            size_bytes: facts.map(|facts| facts.size_bytes).filter(|size| *size > 0),
            nand,
            kernel: part.kernel.map(str::to_owned),
            contradictions: Vec::new(),
        };
        candidate.contradictions = contradictions(&candidate, device);
        candidate
    }

    /// Devices described by the lines of a log.
    fn of_log(&self, text: &str) -> Vec<Device> {
        let lines = text.lines().filter(|line| line.len() <= LINE_MAX);
        let mut devices: Vec<Device> = Vec::new();
        for line in lines {
            if let Some(device) = self.of_line(line) {
                if devices.len() < MAX_DEVICES && !devices.iter().any(|other| other.is_same(&device)) {
                    devices.push(device);
                }
            } else if let (Some((size, nand)), Some(last)) = (nand_sizes(line), devices.last_mut()) {
                // The line `nand: 256 MiB, SLC, erase size: 128 KiB, page size: 2048, OOB size: 64` follows the line
                // with the id.
                last.size_bytes = last.size_bytes.or(Some(size));
                last.nand = last.nand.take().or(Some(nand));
            }
        }
        devices
    }

    fn of_line(&self, line: &str) -> Option<Device> {
        // The line contains only an id.
        if let Some(id) = id(line).filter(|_| line.contains(|c: char| c.is_ascii_digit())) {
            return Some(of_id(&id));
        }
        let lower = line.to_lowercase();
        let is_about_flash = ["nand", "nor", "spi", "flash", "jedec", "sf:", "mtd", "m25p80", "mmc"];
        if !is_about_flash.iter().any(|word| lower.contains(word)) {
            return None;
        }
        let source = line.trim().to_owned();
        if let Some(device) = of_card(line).or_else(|| of_spi_nand(line)) {
            return Some(Device { source, ..device });
        }
        if let Some(id) = id_of_line(&lower) {
            return Some(Device { source, size_bytes: size_of_line(&lower), ..of_id(&id) });
        }
        let words =
            without_driver(&lower).split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        let part = words
            .filter(|word| word.len() >= 5)
            .find(|word| self.parts.iter().any(|part| part.is_named(word)))
            .or_else(|| stated_name(&lower))?;
        Some(Device {
            source,
            name: Some(part.to_uppercase()),
            size_bytes: size_of_line(&lower),
            ..Device::default()
        })
    }
}

impl CataloguePart {
    /// True if this is the part's name. The letters for package and grade that data sheets add may be missing.
    fn is_named(&self, name: &str) -> bool {
        self.key == name || self.alias == Some(name) || self.key.len() >= 7 && name.starts_with(&self.key)
    }
}

impl Device {
    fn is_same(&self, other: &Self) -> bool {
        (&self.id, &self.name, &self.maker) == (&other.id, &other.name, &other.maker)
    }
}

/// Bytes of a list such as `[0xEF, 0xAA, 0x21]`.
fn bytes_of(text: &str) -> Vec<u8> {
    hex(text).unwrap_or_default()
}

/// Id in a line of Linux or U-Boot: after `id bytes:`, or for raw NAND in `manufacturer id: 0x.., chip id: 0x..`.
fn id_of_line(line: &str) -> Option<Vec<u8>> {
    let behind = |mark: &str| line.split_once(mark).map(|(_, rest)| rest);
    let byte = |text: &str| {
        let digits = text.trim().trim_start_matches("0x");
        let digits = digits.get(..2).filter(|digits| digits.bytes().all(|c| c.is_ascii_hexdigit()))?;
        u8::from_str_radix(digits, 16).ok()
    };
    if let Some((maker, chip)) = behind("manufacturer id:").zip(behind("chip id:")) {
        return Some(vec![byte(maker)?, byte(chip)?]);
    }
    let rest = behind("id bytes:")
        .or_else(|| behind("jedec id"))
        .or_else(|| behind("id="))
        .or_else(|| behind("id:"))?;
    let rest = rest.trim_start_matches([' ', ':', '=']);
    let rest = rest.strip_prefix("0x").unwrap_or(rest);
    let end = rest.find(|c: char| !c.is_ascii_hexdigit() && !" ,-:x".contains(c)).unwrap_or(rest.len());
    hex(rest[..end].trim_end_matches([' ', ',', '-', ':'])).filter(|id| (2..=8).contains(&id.len()))
}

/// Line without the driver and device that Linux prints first, and without the chip that the device tree expects:
/// `m25p80` is also the name of a driver.
fn without_driver(line: &str) -> &str {
    let rest = line.split_once("m25p80 spi").and_then(|(_, rest)| rest.split_once(": "));
    let rest = rest.map_or(line, |(_, rest)| rest);
    rest.split_once(", expected").map_or(rest, |(found, _)| found)
}

/// Name in `SF: Detected NAME with page size 256 Bytes` or `spi-nor spi0.0: NAME (32768 Kbytes)`, even if no table
/// contains the chip.
fn stated_name(line: &str) -> Option<&str> {
    let of_uboot = || Some(line.split_once("sf: detected ")?.1.split_once(" with page size")?.0);
    let of_linux = || Some(line.split_once("spi-nor spi")?.1.split_once(": ")?.1.split_once(" (")?.0);
    of_uboot().or_else(of_linux).filter(|name| name.len() >= 4 && !name.contains(' '))
}

/// Card in a line such as `mmcblk1: mmc1:0001 8GTF4R 7.28 GiB`. Linux rounds its size.
fn of_card(line: &str) -> Option<Device> {
    let rest = line.get(line.find("mmcblk")?..)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [block, card, name, size, unit, ..] = words.as_slice() else { return None };
    let is_card = block.ends_with(':') && card.starts_with("mmc") && size.parse::<f64>().is_ok();
    is_card.then(|| Device {
        name: Some((*name).to_owned()),
        notes: vec![format!("about {size} {unit}")],
        ..Device::default()
    })
}

/// Maker in the line `spi-nand spi1.0: Winbond SPI NAND was found.`
fn of_spi_nand(line: &str) -> Option<Device> {
    let (before, _) = line.split_once(" SPI NAND was found")?;
    let maker = before.rsplit(": ").next()?.trim().to_owned();
    Some(Device { maker: Some(maker), ..Device::default() })
}

/// Size in a line (`N MiB`, `N KiB`, `(N Kbytes)`), bytes: the one after `total`, or the first.
fn size_of_line(line: &str) -> Option<u64> {
    let line = line.split_once("total").map_or(line, |(_, total)| total);
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || "(),".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).find_map(|pair| {
        let shift = match pair[1] {
            "kib" | "kbytes" => 10,
            "mib" | "mbytes" => 20,
            "gib" => 30,
            _ => return None,
        };
        pair[0].parse::<u64>().ok()?.checked_mul(1 << shift)
    })
}

/// Size and geometry in a line of Linux: `256 MiB, SLC, erase size: 128 KiB, page size: 2048, OOB size: 64`.
fn nand_sizes(line: &str) -> Option<(u64, NandSizes)> {
    let line = line.to_lowercase();
    let behind = |mark: &str| -> Option<u32> {
        let rest = line.split_once(mark)?.1.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    let block_kib = behind("erase size:").or_else(|| behind("block size:"))?;
    let (page_bytes, oob_bytes) = behind("page size:").zip(behind("oob size:"))?;
    let pages_per_block = block_kib.checked_mul(1024)?.checked_div(page_bytes)?;
    let nand = NandSizes { page_bytes, oob_bytes, pages_per_block, ..NandSizes::default() };
    Some((size_of_line(&line)?, nand))
}

/// Sizes of the source that differ from those of the part.
fn contradictions(part: &Candidate, device: &Device) -> Vec<String> {
    let mut all = Vec::new();
    let mut compare = |what: &str, stated: Option<u64>, own: Option<u64>| {
        if let Some((stated, own)) = stated.zip(own).filter(|(stated, own)| stated != own) {
            all.push(format!("{what}: {stated}, and the part has {own}"));
        }
    };
    compare("bytes", device.size_bytes, part.size_bytes);
    if let Some((stated, own)) = device.nand.as_ref().zip(part.nand.as_ref()) {
        compare("bytes of a page", Some(stated.page_bytes.into()), Some(own.page_bytes.into()));
        compare("OOB bytes of a page", Some(stated.oob_bytes.into()), Some(own.oob_bytes.into()));
        compare("pages of a block", Some(stated.pages_per_block.into()), Some(own.pages_per_block.into()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(input: &str) -> Vec<Vec<String>> {
        let devices = identify(input.as_bytes()).devices;
        devices.iter().map(|device| device.parts.iter().map(|part| part.part.clone()).collect()).collect()
    }

    #[test]
    fn an_id_is_found_however_it_is_written() {
        for text in ["ef4018", "EF 40 18", "0xef,0x40,0x18", "ef-40-18", "EFh 40h 18h"] {
            let found = names(text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].contains(&"w25q128jv".to_owned()), "{text}: {found:?}");
        }
        assert!(names("ffff")[0].is_empty());
    }

    #[test]
    fn lines_of_boot_logs_name_chips() {
        let log = "[    1.2] nand: device found, Manufacturer ID: 0xc2, Chip ID: 0xda\n\
                   [    1.2] nand: Macronix MX30LF2G18AC\n\
                   [    1.2] nand: 256 MiB, SLC, erase size: 128 KiB, page size: 2048, OOB size: 64\n\
                   [    1.3] usb 1-1: new device\n\
                   [    1.4] spi-nor spi0.0: unrecognized JEDEC id bytes: ef 40 18\n\
                   SF: Detected w25q128 with page size 256 Bytes, erase size 64 KiB, total 16 MiB\n";
        let identified = identify(log.as_bytes());
        let found = names(log);
        assert!(found.iter().flatten().any(|part| part == "mx30lf2g18ac"), "{identified:#?}");
        assert!(found.iter().flatten().any(|part| part == "w25q128jv"), "{identified:#?}");
        assert_eq!(identified.devices[0].id.as_deref(), Some("c2 da"));
    }

    #[test]
    fn several_ids_are_several_devices() {
        for text in ["ef4018 c22018", "ef4018\nc22018\n", "ef 40 18\nc2 20 18\n"] {
            let ids: Vec<Option<String>> =
                identify(text.as_bytes()).devices.into_iter().map(|device| device.id).collect();
            assert_eq!(ids, [Some("ef 40 18".to_owned()), Some("c2 20 18".to_owned())], "{text}");
        }
        assert_eq!(names("c2 da 90 95 06").len(), 1);
    }

    #[test]
    fn the_driver_is_not_the_chip() {
        for line in ["m25p80 spi0.0: w25q128 (16384 Kbytes)", "m25p80 spi0.0: found w25q128, expected m25p80"]
        {
            let device = &identify(line.as_bytes()).devices[0];
            assert_eq!(device.name.as_deref(), Some("W25Q128"), "{line}");
        }
    }

    #[test]
    fn usual_lines_are_read() {
        let first = |text: &str| identify(text.as_bytes()).devices.into_iter().next().unwrap();
        let flash = first("SF: Detected w25q128 with page size 256 Bytes, erase size 64 KiB, total 16 MiB");
        assert_eq!(flash.size_bytes, Some(16 << 20));
        let flash =
            first("SF: Detected mx25l25635e with page size 256 Bytes, erase size 64 KiB, total 32 MiB");
        assert_eq!((flash.name.as_deref(), flash.size_bytes), (Some("MX25L25635E"), Some(32 << 20)));
        let nand = first(
            "spi-nand spi1.0: Winbond SPI NAND was found.\n\
             spi-nand spi1.0: 128 MiB, block size: 128 KiB, page size: 2048, OOB size: 64\n",
        );
        assert_eq!((nand.maker.as_deref(), nand.size_bytes), (Some("Winbond"), Some(128 << 20)));
        assert!(nand.parts.iter().any(|part| part.part.starts_with("w25n01")), "{nand:#?}");
        let card = first("[    2.1] mmcblk1: mmc1:0001 8GTF4R 7.28 GiB");
        assert_eq!(card.name.as_deref(), Some("8GTF4R"));
        let nand = first("c2 da\nnand: 256 MiB, SLC, erase size: 128 KiB, page size: 2048, OOB size: 64\n");
        assert_eq!((nand.id.as_deref(), nand.size_bytes), (Some("c2 da"), Some(256 << 20)));
    }

    #[test]
    fn a_good_copy_of_a_parameter_page_is_taken() {
        let page = floatgate_media::onfi::OnfiPage {
            page_bytes: 2048,
            spare_bytes: 64,
            pages_per_block: 64,
            blocks_per_lun: 1024,
            luns: 1,
            ..floatgate_media::onfi::OnfiPage::default()
        };
        let mut copies = vec![0; 3 * onfi::PAGE_BYTES];
        onfi::emit_copies(&page, 3, &mut copies).unwrap();
        copies[100] ^= 1;
        copies[onfi::PAGE_BYTES] ^= 1;
        let device = &identify(&copies).devices[0];
        assert_eq!(device.nand.as_ref().unwrap().page_bytes, 2048);
        let device = &identify(&copies[..onfi::PAGE_BYTES]).devices[0];
        assert_eq!((device.source.as_str(), &device.nand), ("ONFI", &None));
        assert_eq!(device.notes.len(), 1);
    }

    #[test]
    fn a_size_that_the_part_does_not_have_is_a_contradiction() {
        let identified = identify(b"spi-nor spi0.0: w25q128jv (8192 Kbytes)");
        let part = &identified.devices[0].parts[0];
        assert_eq!(part.contradictions.len(), 1, "{identified:#?}");
    }

    #[test]
    fn registers_of_cards_are_read() {
        // CID of a SanDisk SU04G, as in sysfs.
        let identified = identify(b"035344535530344780a3c5d1e600d7a3\n");
        assert_eq!(identified.devices[0].name.as_deref(), Some("SU04G"));
        let notes = |cid: &[u8]| identify(cid).devices[0].notes.concat();
        assert!(notes(b"035344535530344780a3c5d1e600d7a3").starts_with("made in 2013-07, serial"));
        // An eMMC of revision 5 and later counts from 2010, where codes of four bits are left.
        let told = notes(b"110145454d4d43313610000000016505");
        assert!(told.starts_with("made in 2002-06 or 2018-06, which EXT_CSD_REV decides,"), "{told}");
        assert!(notes(b"110145454d4d43313610000000016d05").starts_with("made in 2010-06, serial"));
    }

    #[test]
    fn nothing_breaks_on_any_bytes() {
        let mut seed = 7_u32;
        for len in 0..600_usize {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed >> 24) as u8
                })
                .collect();
            let _ = of_page(&bytes);
            let _ = of_register(&String::from_utf8_lossy(&bytes));
            let _ = id_of_line(&String::from_utf8_lossy(&bytes).to_lowercase());
            let _ = nand_sizes(&String::from_utf8_lossy(&bytes));
        }
    }
}

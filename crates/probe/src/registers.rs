//! Registers of SD cards and eMMC as Linux shows them in sysfs: `cid`, `csd`, `scr` and `ssr` as hexadecimal digits,
//! `life_time` and `pre_eol_info` of an eMMC. `ext_csd` is a file in debugfs.
//!
//! [`floatgate_media::sd`] defines their layout.

use crate::answer::{Answer, Answers, Value, not_stated};
use floatgate_media::Reason;
use floatgate_media::sd;
use floatgate_mtd::size::text as size;
use serde::Serialize;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A register that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("register {name}: {problem}")]
pub struct BadRegister {
    /// Name of the register and of its file.
    pub name: &'static str,
    /// Description of the fault.
    pub problem: String,
}

/// Card type, which determines the register layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CardType {
    /// SD card.
    #[serde(rename = "SD")]
    Sd,
    /// MMC or eMMC.
    #[serde(rename = "MMC")]
    Mmc,
}

impl CardType {
    const fn of_media(self) -> sd::CardType {
        match self {
            Self::Sd => sd::CardType::Sd,
            Self::Mmc => sd::CardType::Mmc,
        }
    }
}

/// Parses a register of `N` bytes from hexadecimal digits.
fn bytes<const N: usize>(name: &'static str, text: &str) -> Result<[u8; N], BadRegister> {
    sd::parse_hex(text).map_err(|error| BadRegister {
        name,
        problem: match error.reason {
            Reason::Truncated { need, have } => {
                format!("{need} hexadecimal digits are needed, {have} are there")
            }
            _ => "not hexadecimal".to_owned(),
        },
    })
}

/// Fields of the register `cid`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identification {
    /// Number of the manufacturer, given by the SD Association or JEDEC.
    pub manufacturer_id: u64,
    /// Two letters of the maker or brand.
    pub oem: String,
    /// Product name.
    pub name: String,
    /// Revision, as n.m.
    pub revision: String,
    /// Serial number.
    pub serial: u64,
    /// Year of manufacture; the earlier of two possible years if an MMC does not state its revision.
    pub year: u64,
    /// The later of two possible years.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later_year: Option<u64>,
    /// Month of manufacture, 1 to 12.
    pub month: u64,
}

impl Identification {
    /// Parses the 16 bytes of a CID.
    ///
    /// # Errors
    /// Digits that are missing or wrong.
    pub fn parse(text: &str, kind: CardType) -> Result<Self, BadRegister> {
        Ok(Self::of_cid(&sd::Cid::parse(&bytes("cid", text)?, kind.of_media())))
    }

    fn of_cid(cid: &sd::Cid) -> Self {
        Self {
            manufacturer_id: cid.manufacturer_id.into(),
            oem: printable(cid.oem.as_bytes()),
            name: printable(cid.name.as_bytes()),
            revision: format!("{}.{}", cid.revision >> 4, cid.revision & 0xF),
            serial: cid.serial.into(),
            year: cid.year.into(),
            later_year: None,
            month: cid.month.into(),
        }
    }

    /// The same of an MMC whose revision is not known.
    fn of_unknown_revision(cid: &sd::Cid) -> Self {
        let later = cid.of_revision(u8::MAX).year;
        Self { later_year: (later != cid.year).then_some(later.into()), ..Self::of_cid(cid) }
    }

    /// Date of manufacture: `2018-06`, or `2002-06 or 2018-06`.
    pub fn made(&self) -> String {
        let date = |year: u64| format!("{year}-{:02}", self.month);
        let later = self.later_year.map_or_else(String::new, |year| format!(" or {}", date(year)));
        format!("{}{later}", date(self.year))
    }
}

/// Printable characters of `bytes`.
fn printable(bytes: &[u8]) -> String {
    let all = bytes.iter().map(|byte| char::from(*byte));
    all.filter(|c| c.is_ascii_graphic() || *c == ' ').collect::<String>().trim().to_owned()
}

/// Capacity in bytes from the register `csd`; `None` for an MMC of more than 2 GB, which states it in EXT_CSD.
///
/// # Errors
/// Digits that are missing or wrong; a structure that is not specified.
pub fn capacity_of_csd(text: &str, kind: CardType) -> Result<Option<u64>, BadRegister> {
    match sd::Csd::parse(&bytes("csd", text)?, kind.of_media()) {
        Ok(csd) => Ok(csd.capacity_bytes),
        Err(error) => Err(BadRegister { name: "csd", problem: format!("{}: not specified", error.reason) }),
    }
}

/// Version of the SD specification from the register `scr`.
///
/// # Errors
/// Digits that are missing or wrong.
pub fn specification_of_scr(text: &str) -> Result<&'static str, BadRegister> {
    Ok(sd::Scr::parse(&bytes("scr", text)?).version.name())
}

/// Classes and allocation units stated by the SD status register `ssr`. Values that the card does not state are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Speed class: minimum sequential write speed, MB/s.
    pub speed_class: Option<u64>,
    /// UHS speed grade: 1 for 10 MB/s, 3 for 30 MB/s.
    pub uhs_grade: Option<u64>,
    /// Video speed class, MB/s.
    pub video_class: Option<u64>,
    /// Application performance class: 1 for A1, 2 for A2.
    pub app_class: Option<u64>,
    /// Allocation unit, B.
    pub au_bytes: Option<u64>,
    /// Allocation unit in UHS modes, B.
    pub uhs_au_bytes: Option<u64>,
    /// Allocation unit of the video speed class, B.
    pub video_au_bytes: Option<u64>,
}

impl Status {
    /// Decodes the 64 bytes of an SD status.
    ///
    /// # Errors
    /// Digits that are missing or wrong.
    pub fn parse(text: &str) -> Result<Self, BadRegister> {
        let ssr = sd::Ssr::parse(&bytes("ssr", text)?);
        let stated = |value: u64| Some(value).filter(|value| *value > 0);
        Ok(Self {
            speed_class: stated(ssr.speed_class.into()),
            uhs_grade: stated(ssr.uhs_grade.into()),
            video_class: stated(ssr.video_class.into()),
            app_class: stated(ssr.app_class.into()),
            au_bytes: stated(ssr.au_bytes),
            uhs_au_bytes: stated(ssr.uhs_au_bytes),
            video_au_bytes: stated(ssr.video_au_bytes),
        })
    }
}

/// State of the spare blocks of an eMMC (PRE_EOL_INFO).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpareBlocks {
    /// Less than 80 % of them are used.
    Normal,
    /// 80 % of them are used.
    Warning,
    /// 90 % of them are used.
    Urgent,
}

impl SpareBlocks {
    /// State for a register value; `None` for a reserved or undefined value.
    const fn of_register(value: u8) -> Option<Self> {
        match value {
            1 => Some(Self::Normal),
            2 => Some(Self::Warning),
            3 => Some(Self::Urgent),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Warning => "warning",
            Self::Urgent => "urgent",
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Normal => "less than 80 % of the spare blocks are used",
            Self::Warning => "80 % of the spare blocks are used",
            Self::Urgent => "90 % of the spare blocks are used",
        }
    }
}

/// Used life of the blocks of an eMMC (DEVICE_LIFE_TIME_EST_TYP_A or _B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LifeUsed {
    /// Lower bound, %.
    pub from_percent: u64,
    /// Upper bound, %. Both are 100 when the estimated life is over.
    pub to_percent: u64,
}

impl LifeUsed {
    /// Used life for a register value, which counts tenths from 1; 11 means beyond the estimated life. `None` for a
    /// reserved or undefined value.
    const fn of_register(value: u8) -> Option<Self> {
        match value as u64 {
            tenth @ 1..=10 => Some(Self { from_percent: (tenth - 1) * 10, to_percent: tenth * 10 }),
            11 => Some(Self { from_percent: 100, to_percent: 100 }),
            _ => None,
        }
    }

    fn words(self) -> String {
        match self.from_percent {
            100 => "all".to_owned(),
            from => format!("{from} to {} %", self.to_percent),
        }
    }
}

/// Wear stated by an eMMC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatedLife {
    /// State of the spare blocks.
    pub spare_blocks: Option<SpareBlocks>,
    /// Used life of type A blocks: SLC.
    pub type_a: Option<LifeUsed>,
    /// Used life of type B blocks: MLC and TLC.
    pub type_b: Option<LifeUsed>,
}

impl StatedLife {
    const fn new(pre_eol: u8, life_a: u8, life_b: u8) -> Self {
        Self {
            spare_blocks: SpareBlocks::of_register(pre_eol),
            type_a: LifeUsed::of_register(life_a),
            type_b: LifeUsed::of_register(life_b),
        }
    }

    /// Parses `life_time` (types A and B) and `pre_eol_info` from sysfs: numbers such as `0x02`.
    fn of_sysfs(life_time: Option<&str>, pre_eol_info: Option<&str>) -> Result<Self, BadRegister> {
        let numbers = |name, text: Option<&str>| -> Result<Vec<u8>, BadRegister> {
            let number = |word: &str| {
                let digits = word.strip_prefix("0x").unwrap_or(word);
                u8::from_str_radix(digits, 16).map_err(|_| BadRegister {
                    name,
                    problem: format!("{word:?} is not a number such as 0x02"),
                })
            };
            text.unwrap_or_default().split_whitespace().map(number).collect()
        };
        let life = numbers("life_time", life_time)?;
        let spare = numbers("pre_eol_info", pre_eol_info)?;
        let at = |all: &[u8], place: usize| all.get(place).copied().unwrap_or(0);
        Ok(Self::new(at(&spare, 0), at(&life, 0), at(&life, 1)))
    }

    /// Used life over all types of blocks: the range from the least to the most worn type.
    pub fn used(&self) -> Option<LifeUsed> {
        let stated = || self.type_a.into_iter().chain(self.type_b);
        let from_percent = stated().map(|life| life.from_percent).min()?;
        Some(LifeUsed { from_percent, to_percent: stated().map(|life| life.to_percent).max()? })
    }

    /// Used life as text.
    pub fn words(&self) -> Option<String> {
        Some(format!("{} of its life is used", self.used()?.words()))
    }

    /// Answer about the used life.
    fn life_used(&self) -> Answer {
        let Some((used, words)) = self.used().zip(self.words()) else { return not_stated("%") };
        let of_type =
            |what: &str, life: Option<LifeUsed>| life.map(|life| format!("{} of {what}", life.words()));
        let types: Vec<String> =
            [of_type("type A (SLC)", self.type_a), of_type("type B (MLC and TLC)", self.type_b)]
                .into_iter()
                .flatten()
                .collect();
        let reason = format!("the card says that {words}: {}", types.join(", "));
        Answer::found(Value::Count(used.to_percent), "%", STATED, reason)
    }

    fn spare_state(&self) -> Answer {
        let Some(state) = self.spare_blocks else { return not_stated("") };
        let reason = format!("the card says that {}", state.meaning());
        Answer::found(Value::Word(state.name()), "", STATED, reason)
    }
}

/// Confidence in a stated value that no measurement confirms.
const STATED: f64 = 0.6;

/// Registers of a card that the system shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Registers {
    /// Kind of the card.
    pub kind: CardType,
    /// Identification of the card, from `cid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identification: Option<Identification>,
    /// Capacity that the card states, B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Version of the SD specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specification: Option<&'static str>,
    /// Classes and allocation units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Wear of an eMMC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub life: Option<StatedLife>,
}

/// Folder in sysfs with the registers of the card behind a block device or partition, `None` if it does not exist.
pub fn folder_of(device: &Path) -> Option<PathBuf> {
    let metadata = device.metadata().ok().filter(|metadata| metadata.file_type().is_block_device())?;
    let number = format!("{}:{}", rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    folder_below(&Path::new("/sys/dev/block").join(number).canonicalize().ok()?)
}

/// Folder with the registers, from the sysfs folder of the block device or partition. The folder of a partition is
/// inside the folder of its device.
fn folder_below(block: &Path) -> Option<PathBuf> {
    let folders = [block.join("device"), block.parent()?.join("device")];
    folders.into_iter().find(|folder| folder.join("cid").exists())
}

/// Maximum size of a register file, B.
const FILE_MAX: u64 = 4096;

impl Registers {
    /// Reads the files `type`, `cid`, `csd`, `scr`, `ssr`, `ext_csd`, `life_time` and `pre_eol_info` of a folder, if
    /// they exist. `None` if neither `cid` nor `csd` does.
    ///
    /// # Errors
    /// `InvalidData` for a malformed file; I/O errors.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        let text = |name: &str| -> io::Result<Option<String>> {
            use std::io::Read;
            let file = match std::fs::File::open(folder.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let mut text = String::new();
            file.take(FILE_MAX).read_to_string(&mut text)?;
            Ok(Some(text))
        };
        let files = Files {
            kind: text("type")?,
            cid: text("cid")?,
            csd: text("csd")?,
            scr: text("scr")?,
            ssr: text("ssr")?,
            ext_csd: text("ext_csd")?,
            life_time: text("life_time")?,
            pre_eol_info: text("pre_eol_info")?,
        };
        if files.cid.is_none() && files.csd.is_none() {
            return Ok(None);
        }
        files.decode().map(Some).map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))
    }

    /// Adds the answers that only registers provide.
    pub fn answer(&self, answers: &mut Answers) {
        if let Some(life) = &self.life {
            answers.life_used = life.life_used();
            answers.spare_blocks = life.spare_state();
        }
    }

    /// Contradictions between the registers and the measurement, one sentence each.
    pub fn disagreements(&self, claimed: u64, answers: &Answers) -> Vec<String> {
        let mut found = Vec::new();
        // A larger stated capacity is no contradiction: the device may be a partition of the card.
        if let Some(stated) = self.capacity_bytes.filter(|stated| *stated < claimed) {
            found.push(format!("the registers state {}, the device has {}", size(stated), size(claimed)));
        }
        let status = self.status.unwrap_or_default();
        let stated: Vec<u64> =
            [status.au_bytes, status.uhs_au_bytes, status.video_au_bytes].into_iter().flatten().collect();
        // The stated allocation unit must be a multiple of the card's real one, because speed classes are measured in
        // stated units.
        if let (Some(measured), Some(most)) = (answers.erase_block.count(), stated.iter().max())
            && !most.is_multiple_of(measured)
        {
            found.push(format!(
                "the registers state an allocation unit of {}, which is not a multiple of the measured {}",
                size(*most),
                size(measured)
            ));
        }
        found
    }
}

/// Contents of the register files.
#[derive(Default)]
struct Files {
    kind: Option<String>,
    cid: Option<String>,
    csd: Option<String>,
    scr: Option<String>,
    ssr: Option<String>,
    ext_csd: Option<String>,
    life_time: Option<String>,
    pre_eol_info: Option<String>,
}

impl Files {
    fn decode(&self) -> Result<Registers, BadRegister> {
        let is_mmc = self.kind.as_deref().is_some_and(|kind| kind.trim() == "MMC");
        let kind = if is_mmc { CardType::Mmc } else { CardType::Sd };
        let of_sd = |text: &Option<String>| text.clone().filter(|_| !is_mmc);
        let of_csd = self.csd.as_deref().map(|text| capacity_of_csd(text, kind)).transpose()?;
        let ext_csd = self.ext_csd.as_deref().map(|text| bytes("ext_csd", text)).transpose()?;
        let ext_csd = ext_csd.map(|bytes| sd::ExtCsd::parse(&bytes));
        let cid = self.cid.as_deref().map(|text| bytes("cid", text)).transpose()?;
        let cid = cid.map(|bytes| sd::Cid::parse(&bytes, kind.of_media()));
        // The revision in EXT_CSD determines which of two possible years is meant.
        let cid = cid.map(|cid| ext_csd.map_or(cid, |ext_csd| cid.of_revision(ext_csd.revision)));
        let of_ext_csd = ext_csd.map(|ext_csd| u64::from(ext_csd.sectors) * 512);
        Ok(Registers {
            kind,
            identification: cid.map(|cid| match is_mmc && ext_csd.is_none() {
                true => Identification::of_unknown_revision(&cid),
                false => Identification::of_cid(&cid),
            }),
            capacity_bytes: of_csd.flatten().or(of_ext_csd),
            specification: of_sd(&self.scr).map(|text| specification_of_scr(&text)).transpose()?,
            status: of_sd(&self.ssr).map(|text| Status::parse(&text)).transpose()?,
            life: if is_mmc {
                Some(self.life(ext_csd.as_ref())?).filter(|life| *life != StatedLife::default())
            } else {
                None
            },
        })
    }

    /// Wear from EXT_CSD or, without it, from sysfs.
    fn life(&self, ext_csd: Option<&sd::ExtCsd>) -> Result<StatedLife, BadRegister> {
        match ext_csd {
            Some(ext_csd) => Ok(StatedLife::new(ext_csd.pre_eol, ext_csd.life_a, ext_csd.life_b)),
            None => StatedLife::of_sysfs(self.life_time.as_deref(), self.pre_eol_info.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_real_cards_say_what_linux_says() {
        // From the logs of wirenboard/sdcard_benchmark, with what Linux printed beside them.
        let cards = [
            ("03534453553034478021aeb8a900da00", 0x03, "SD", "SU04G", "8.0", 2013, 10),
            ("02544d534130344711222adf3a00dc00", 0x02, "TM", "SA04G", "1.1", 2013, 12),
            ("824a544e4361726410d801878300da00", 0x82, "JT", "NCard", "1.0", 2013, 10),
            ("744a605553442020104b0ccfc200f601", 0x74, "J`", "USD", "1.0", 2015, 6),
            ("413432534438474220a070df2800e200", 0x41, "42", "SD8GB", "2.0", 2014, 2),
        ];
        for (cid, manufacturer_id, oem, name, revision, year, month) in cards {
            let found = Identification::parse(cid, CardType::Sd).unwrap();
            assert_eq!((found.manufacturer_id, found.year, found.month), (manufacturer_id, year, month));
            assert_eq!(
                (found.oem.as_str(), found.name.as_str(), found.revision.as_str()),
                (oem, name, revision)
            );
        }
        let capacity = |csd| capacity_of_csd(csd, CardType::Sd).unwrap();
        // C_SIZE is 1d8ah, 3adfh: units of 512 KiB.
        assert_eq!(capacity("400e00325b5900001d8a7f800a404000"), Some((0x1D8A + 1) << 19));
        assert_eq!(capacity("400e00325b5900003adf7f800a400000"), Some((0x3ADF + 1) << 19));
    }

    #[test]
    fn small_cards_have_another_csd() {
        // READ_BL_LEN 9, C_SIZE 4095, C_SIZE_MULT 7: (4095 + 1) * 2^9 blocks of 512 B.
        let mut csd: u128 = 9 << 80 | 4095 << 62 | 7 << 47;
        assert_eq!(capacity_of_csd(&format!("{csd:032x}"), CardType::Sd), Ok(Some(1 << 30)));
        assert_eq!(capacity_of_csd(&format!("{csd:032x}"), CardType::Mmc), Ok(None));
        csd |= 3 << 126;
        assert!(capacity_of_csd(&format!("{csd:032x}"), CardType::Sd).is_err());
    }

    /// An SD status with fields set: high bit, low bit, value.
    fn ssr(fields: &[(usize, u64)]) -> String {
        let mut bytes = [0_u8; 64];
        for (low, value) in fields {
            for bit in 0..16 {
                let at = low + bit;
                bytes[63 - at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
            }
        }
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn classes_and_allocation_units_are_stated() {
        let text = ssr(&[(440, 4), (428, 9), (396, 3), (392, 10), (384, 30), (368, 16), (336, 2)]);
        let status = Status::parse(&text).unwrap();
        let expected = Status {
            speed_class: Some(10),
            uhs_grade: Some(3),
            video_class: Some(30),
            app_class: Some(2),
            au_bytes: Some(4 << 20),
            uhs_au_bytes: Some(8 << 20),
            video_au_bytes: Some(16 << 20),
        };
        assert_eq!(status, expected);
        assert_eq!(Status::parse(&ssr(&[])), Ok(Status::default()));
    }

    #[test]
    fn anything_may_be_in_a_file() {
        for text in ["", "0", "zz534453553034478021aeb8a900da00", &"ü".repeat(16), &"f".repeat(128)] {
            assert!(Identification::parse(text, CardType::Sd).is_err(), "{text}");
            assert!(capacity_of_csd(text, CardType::Mmc).is_err());
            assert!(specification_of_scr(text).is_err());
        }
        for kind in [CardType::Sd, CardType::Mmc] {
            Identification::parse(&"f".repeat(32), kind).unwrap();
        }
        assert!(Status::parse(&"f".repeat(128)).is_ok());
        assert_eq!(specification_of_scr("0235800000000000"), Ok("3.0"));
        assert_eq!(specification_of_scr("ffffffffffffffff"), Ok("unknown"));
    }

    #[test]
    fn the_registers_of_a_partition_are_those_of_its_card() {
        let folder = tempfile::tempdir().unwrap();
        let card = folder.path().join("mmcblk0");
        std::fs::create_dir_all(card.join("mmcblk0p1")).unwrap();
        std::fs::create_dir_all(card.join("device")).unwrap();
        assert_eq!(folder_below(&card), None);
        std::fs::write(card.join("device/cid"), "").unwrap();
        assert_eq!(folder_below(&card), Some(card.join("device")));
        assert_eq!(folder_below(&card.join("mmcblk0p1")), Some(card.join("device")));
        assert_eq!(folder_of(folder.path()), None);
    }

    #[test]
    fn an_emmc_has_its_size_and_its_century_in_ext_csd() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let [cid, csd] = ["110145454d4d43313610000000016500", "d00000320f5903ffc0007f800a400000"];
        let mut ext_csd = [0_u8; 512];
        (ext_csd[192], ext_csd[215]) = (8, 1);
        write("type", "MMC");
        write("cid", cid);
        write("csd", csd);
        let read = || Registers::read(folder.path()).unwrap().unwrap();
        assert_eq!((read().capacity_bytes, read().identification.unwrap().year), (None, 2002));
        let made = || read().identification.unwrap().made();
        assert_eq!(made(), "2002-06 or 2018-06");
        write("ext_csd", &ext_csd.map(|byte| format!("{byte:02x}")).concat());
        assert_eq!((read().capacity_bytes, read().identification.unwrap().year), (Some(8 << 30), 2018));
        assert_eq!(made(), "2018-06");
        write("ext_csd", "08");
        assert!(Registers::read(folder.path()).is_err());
    }

    /// Tenths of JESD84-B51 in EXT_CSD, and what Linux shows of them to everybody.
    #[test]
    fn a_used_emmc_says_how_much_of_its_life_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("type", "MMC");
        write("cid", "110145454d4d43313610000000016500");
        let answers = || {
            let mut answers = crate::conclude(&crate::Samples::default());
            Registers::read(folder.path()).unwrap().unwrap().answer(&mut answers);
            answers
        };
        assert_eq!((answers().life_used.value, answers().spare_blocks.value), (None, None));
        write("life_time", "0x05 0x06\n");
        write("pre_eol_info", "0x02\n");
        assert_eq!(answers().life_used.count(), Some(60));
        assert!(
            answers()
                .life_used
                .reason
                .starts_with("the card says that 40 to 60 % of its life is used: 40 to 50 % of type A")
        );
        assert_eq!(answers().spare_blocks.value, Some(Value::Word("warning")));
        let stated = |pre_eol: u8, life_a: u8, life_b: u8| {
            let mut ext_csd = [0_u8; 512];
            ext_csd[267..270].copy_from_slice(&[pre_eol, life_a, life_b]);
            write("ext_csd", &ext_csd.map(|byte| format!("{byte:02x}")).concat());
            (answers().life_used.count(), answers().spare_blocks.value)
        };
        assert_eq!(stated(1, 0, 1), (Some(10), Some(Value::Word("normal"))));
        assert_eq!(stated(3, 0x0B, 3), (Some(100), Some(Value::Word("urgent"))));
        assert_eq!(stated(0, 0, 0), (None, None));
        assert_eq!(stated(0xFF, 0x0C, 0xFF), (None, None), "reserved values");
        std::fs::remove_file(folder.path().join("ext_csd")).unwrap();
        write("life_time", "0x05 many");
        assert!(Registers::read(folder.path()).unwrap_err().to_string().contains("life_time"));
    }

    #[test]
    fn a_folder_is_read_and_contradictions_are_said() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Registers::read(folder.path()).unwrap(), None);
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("type", "SD\n");
        write("cid", "03534453553034478021aeb8a900da00\n");
        write("csd", "400e00325b5900001d8a7f800a404000\n");
        write("ssr", &ssr(&[(440, 4), (428, 9)]));
        let registers = Registers::read(folder.path()).unwrap().unwrap();
        assert_eq!(registers.identification.as_ref().unwrap().name, "SU04G");
        let mut answers = crate::conclude(&crate::Samples::default());
        let capacity = registers.capacity_bytes.unwrap();
        assert_eq!(registers.disagreements(capacity, &answers), [""; 0]);
        answers.erase_block.value = Some(crate::Value::Count(3 << 20));
        let said = registers.disagreements(8 << 30, &answers);
        assert!(said[0].ends_with("the device has 8192 MiB"), "{said:?}");
        assert!(said[1].contains("not a multiple of the measured 3 MiB"), "{said:?}");
        assert_eq!(said.len(), 2);
        write("cid", "short");
        assert_eq!(Registers::read(folder.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

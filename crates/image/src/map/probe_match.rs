//! Result of a probe: a part with its properties.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::partitions::Partition;
use crate::words::date;

/// Declares the kinds with their names for display.
macro_rules! kinds {
    ($( $(#[$meta:meta])* $kind:ident = $name:literal, )*) => {
        /// Format of a part.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Kind {
            $( $(#[$meta])* $kind, )*
        }

        impl Kind {
            /// Name of the format.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$kind => $name, )* }
            }
        }
    };
}

kinds! {
    /// Erased flash: every byte is FFh.
    Erased = "erased",
    /// Every byte is 0.
    Zeros = "zeros",
    /// Bytes of unknown format.
    Data = "data",
    /// A UBI device.
    Ubi = "UBI",
    /// A volume of a UBI device.
    UbiVolume = "UBI volume",
    /// A UBIFS without UBI.
    Ubifs = "UBIFS",
    /// A JFFS2.
    Jffs2 = "JFFS2",
    /// An environment of U-Boot.
    UbootEnv = "U-Boot environment",
    /// An image of U-Boot with a header of 64 bytes.
    UImage = "uImage",
    /// A FIT image of U-Boot: a device tree with images.
    Fit = "FIT",
    /// An image within another one.
    Payload = "image",
    /// A device tree blob.
    DeviceTree = "device tree",
    /// A firmware with a TRX header.
    Trx = "TRX",
    /// A sparse image of Android.
    Sparse = "Android sparse",
    /// A boot image of Android.
    AndroidBoot = "Android boot",
    /// A SquashFS filesystem.
    Squashfs = "SquashFS",
    /// An EROFS filesystem.
    Erofs = "EROFS",
    /// A CramFS filesystem.
    Cramfs = "CramFS",
    /// A romfs filesystem.
    Romfs = "romfs",
    /// A LittleFS filesystem of version 2.
    Littlefs = "LittleFS",
    /// A SPIFFS filesystem.
    Spiffs = "SPIFFS",
    /// A FAT12, FAT16, FAT32 or exFAT filesystem.
    Fat = "FAT",
    /// A filesystem under the wear levelling of ESP-IDF.
    WearLevelled = "FAT under wear levelling",
    /// An ext2, ext3 or ext4 filesystem.
    Ext = "ext",
    /// An F2FS filesystem.
    F2fs = "F2FS",
    /// A YAFFS2 filesystem.
    Yaffs = "YAFFS2",
    /// A firmware with a tag of Broadcom.
    BroadcomTag = "Broadcom image",
    /// CFE, a boot loader of Broadcom.
    Cfe = "CFE",
    /// The directory of RedBoot.
    Fis = "RedBoot FIS",
    /// A structure of the bad block layer NMBM of MediaTek.
    Nmbm = "NMBM",
    /// The table of the bad block layer BMT of MediaTek.
    Bmt = "MediaTek BMT",
    /// A partition table of UEFI.
    Gpt = "GPT",
    /// A partition table of a PC.
    Mbr = "MBR",
}

impl Kind {
    /// True for a range between parts.
    #[must_use]
    pub const fn is_gap(self) -> bool {
        matches!(self, Self::Erased | Self::Zeros | Self::Data)
    }

    /// True for a format that has a reader.
    pub(crate) const fn has_reader(self) -> bool {
        matches!(
            self,
            Self::Cramfs
                | Self::Romfs
                | Self::Squashfs
                | Self::Ext
                | Self::Fat
                | Self::Littlefs
                | Self::Erofs
                | Self::Spiffs
                | Self::Yaffs
                | Self::F2fs
                | Self::WearLevelled
        )
    }
}

/// Result of the checksums of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// All checksums are right.
    Good,
    /// A checksum is wrong.
    Bad,
    /// The end of the part is missing in the dump.
    Truncated,
    /// The format has no checksum, or none that is verified.
    None,
}

impl Checksum {
    /// True for a part that is damaged.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        matches!(self, Self::Bad | Self::Truncated)
    }

    /// Name for display.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "BAD",
            Self::Truncated => "CUT OFF",
            Self::None => "-",
        }
    }
}

impl From<bool> for Checksum {
    fn from(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Bad }
    }
}

/// Value of a property.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Number(u64),
    /// A number with a fraction.
    Real(f64),
    /// Text, in UTF-8.
    Text(String),
}

/// Properties of a part with their names, in the order of display.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(pub Vec<(&'static str, Value)>);

impl Facts {
    /// Names and values for people: times as dates in UTC, addresses in hexadecimal.
    pub fn shown(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.0.iter().map(|(name, value)| {
            let text = match value {
                Value::Text(text) => text.clone(),
                Value::Real(number) => format!("{number:.2}"),
                Value::Number(seconds) if *name == "time" => {
                    date(i64::try_from(*seconds).unwrap_or(i64::MAX))
                }
                Value::Number(address) if matches!(*name, "load" | "entry") => format!("{address:#x}"),
                Value::Number(number) => number.to_string(),
            };
            (name.replace('_', " "), text)
        })
    }

    pub(super) fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (at, (name, value)) in self.0.iter().enumerate() {
            // If a name occurs twice, its first property is used.
            if self.0.iter().take(at).all(|(other, _)| other != name) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// A part of a dump.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// First byte on the flash.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Number of parts that it is within.
    pub level: u32,
    /// Format of the part.
    pub kind: Kind,
    /// Name of the part in its container.
    pub name: Option<String>,
    /// Result of the checksums of the format.
    pub checksum: Checksum,
    /// Properties that the format states.
    pub facts: Facts,
}

impl Part {
    /// Offset of the first byte after the part.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Part that a probe found.
#[derive(Clone, Debug)]
pub(crate) struct ProbeMatch {
    /// Length that the part claims in bytes; the dump may be shorter.
    pub(crate) len: u64,
    /// Number of bytes before the found offset that belong to the part.
    pub(crate) before: u64,
    pub(crate) kind: Kind,
    pub(crate) checksum: Checksum,
    pub(crate) facts: Facts,
    /// Parts that the part lists.
    pub(crate) inner: Vec<Inner>,
    /// Partitions of the flash that the part lists.
    pub(crate) partitions: Vec<Partition>,
}

/// A part that another part lists.
#[derive(Clone, Debug)]
pub(crate) struct Inner {
    /// Offset in the containing part; `None` if its bytes are scattered.
    pub(crate) at: Option<u64>,
    /// Length in bytes.
    pub(crate) len: u64,
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    pub(crate) checksum: Checksum,
    pub(crate) facts: Facts,
}

impl Inner {
    pub(crate) fn new(name: impl Into<String>, at: u64, len: u64) -> Self {
        Self {
            at: Some(at),
            len,
            kind: Kind::Payload,
            name: Some(name.into()),
            checksum: Checksum::None,
            facts: Facts::default(),
        }
    }
}

impl ProbeMatch {
    pub(crate) const fn new(kind: Kind, len: u64) -> Self {
        Self {
            len,
            before: 0,
            kind,
            checksum: Checksum::None,
            facts: Facts(Vec::new()),
            inner: Vec::new(),
            partitions: Vec::new(),
        }
    }

    /// Sets the result of a checksum. A wrong checksum remains wrong.
    pub(crate) fn sum_is(mut self, is_good: bool) -> Self {
        if self.checksum != Checksum::Bad {
            self.checksum = is_good.into();
        }
        self
    }

    /// Sets the result of a checksum that is known only if the dump contains all bytes.
    pub(crate) fn sum_if_whole(self, is_good: Option<bool>) -> Self {
        match is_good {
            Some(is_good) => self.sum_is(is_good),
            None => self,
        }
    }

    pub(crate) fn number(mut self, name: &'static str, value: impl Into<u64>) -> Self {
        self.facts.0.push((name, Value::Number(value.into())));
        self
    }

    /// Adds a text, unless it is empty.
    pub(crate) fn text(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        if !value.as_ref().is_empty() {
            self.facts.0.push((name, Value::Text(value.as_ref().to_owned())));
        }
        self
    }

    /// Adds a contained part.
    pub(crate) fn with(mut self, inner: Inner) -> Self {
        self.inner.push(inner);
        self
    }
}

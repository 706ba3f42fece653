//! A part as a probe describes it.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::partitions::Partition;
use crate::info::OneVolume;
use crate::words::date;

/// Declares the kinds with their names for people.
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
    /// Bytes whose format is not known.
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
    /// A SquashFS.
    Squashfs = "SquashFS",
    /// An EROFS.
    Erofs = "EROFS",
    /// A CramFS.
    Cramfs = "CramFS",
    /// A romfs filesystem.
    Romfs = "romfs",
    /// A LittleFS of version 2.
    Littlefs = "LittleFS",
    /// A SPIFFS.
    Spiffs = "SPIFFS",
    /// A FAT12, FAT16, FAT32 or exFAT.
    Fat = "FAT",
    /// A filesystem under the wear levelling of ESP-IDF.
    WearLevelled = "FAT under wear levelling",
    /// An ext2, ext3 or ext4.
    Ext = "ext",
    /// An F2FS.
    F2fs = "F2FS",
    /// A YAFFS2.
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
    /// True for a stretch between parts.
    #[must_use]
    pub const fn is_gap(self) -> bool {
        matches!(self, Self::Erased | Self::Zeros | Self::Data)
    }
}

/// Result of the checksums of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// All are right.
    Good,
    /// One is wrong.
    Bad,
    /// The end of the part is missing in the dump.
    Truncated,
    /// The format has none, or none that is verified.
    None,
}

impl Checksum {
    /// True for a part that is damaged.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        matches!(self, Self::Bad | Self::Truncated)
    }

    /// The word for people.
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

/// Properties of a part, by name, in the order in which they are shown.
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
            // Of a name that occurs twice the first stays.
            if self.0.iter().take(at).all(|(other, _)| other != name) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// A part as a probe finds it.
#[derive(Clone, Debug)]
pub(crate) struct ProbeMatch {
    /// Bytes that it claims, which may be more than there are.
    pub(crate) len: u64,
    /// Bytes in front of the place where it was found that belong to it.
    pub(crate) before: u64,
    pub(crate) kind: Kind,
    pub(crate) checksum: Checksum,
    pub(crate) facts: Facts,
    /// Parts that it lists.
    pub(crate) inner: Vec<Inner>,
    /// Partitions of the flash that it lists.
    pub(crate) partitions: Vec<Partition>,
}

/// A part that another one lists.
#[derive(Clone, Debug)]
pub(crate) struct Inner {
    /// Offset in the part around it; `None` where its bytes are scattered.
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

    pub(super) fn volume(volume: &OneVolume) -> Self {
        let content = match (&volume.ubifs, &volume.starts_with) {
            (Some(_), _) => "UBIFS",
            (None, Some(format)) => format,
            (None, None) => "unknown",
        };
        let mut facts = Facts::default();
        facts.0.push(("content", Value::Text(content.to_owned())));
        facts.0.push(("type", Value::Text(if volume.is_static { "static" } else { "dynamic" }.to_owned())));
        facts.0.push(("lebs", Value::Number(volume.lebs.into())));
        facts.0.push(("leb_bytes", Value::Number(volume.leb_bytes.into())));
        Self {
            at: None,
            len: volume.used_bytes.unwrap_or(u64::from(volume.lebs) * u64::from(volume.leb_bytes)),
            kind: Kind::UbiVolume,
            name: Some(volume.name.clone()),
            checksum: if volume.damaged { Checksum::Bad } else { Checksum::None },
            facts,
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

    /// Sets the result of a checksum. One that is wrong stays so.
    pub(crate) fn sum_is(mut self, is_good: bool) -> Self {
        if self.checksum != Checksum::Bad {
            self.checksum = is_good.into();
        }
        self
    }

    /// Sets the result of a checksum that is known if the bytes are all there.
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

    /// Adds a part that it holds.
    pub(crate) fn with(mut self, inner: Inner) -> Self {
        self.inner.push(inner);
        self
    }
}

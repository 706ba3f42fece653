//! The `[partition]` table of a setup, or several `[[partition]]` tables: parts of the chip that are used.

use crate::Error;
use floatgate_config::{Config, ConfigError, Library, Override, Value};
use floatgate_device::units;
use floatgate_device::wire::Device;
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use floatgate_mtd::{Mtd, SlcMode};
use serde::Deserialize;

/// A part of the chip. Without this table the whole chip is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Partition {
    /// Name of the partition, by which `use` chooses one of several.
    pub name: String,
    /// Offset of the partition in the chip, in bytes; a multiple of the eraseblock size.
    #[serde(with = "units::bytes")]
    pub offset: u64,
    /// Size of the partition in bytes, a multiple of the eraseblock size; 0 for a partition up to the end of the
    /// chip.
    #[serde(with = "units::bytes")]
    pub size: u64,
    /// True to use only the LSB page of each pair of MLC pages (Linux: `slc-mode`).
    pub slc: bool,
}

impl Partition {
    /// End of the partition, B; the highest number if it extends to the end of the chip.
    const fn end(&self) -> u64 {
        if self.size == 0 { u64::MAX } else { self.offset.saturating_add(self.size) }
    }

    const fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }

    /// The partition in use and its key: the one named by `use`, or the first.
    fn of_setup(config: &Config) -> Result<(Self, String), ConfigError> {
        let several =
            config.tree().get("partition").is_some_and(|node| matches!(node.value, Value::Array(_)));
        if !several {
            let partition: Self = config.extract_or_default("partition")?;
            if config.tree().get("use").is_some() {
                return Err(config
                    .wrong("use", "there is one partition only")
                    .help("leave `use` out, or write [[partition]] for each of several"));
            }
            return Ok((partition, "partition".to_owned()));
        }
        let all: Vec<Self> = config.extract("partition")?;
        check_apart(config, &all)?;
        let wanted: Option<String> = config.extract_or_default("use")?;
        let found = match &wanted {
            Some(name) => all.iter().position(|partition| partition.name == *name),
            None => Some(0).filter(|_| !all.is_empty()),
        };
        let Some(found) = found else {
            let names: Vec<&str> = all.iter().map(|partition| partition.name.as_str()).collect();
            let key = if wanted.is_some() { "use" } else { "partition" };
            let message =
                format!("no partition {:?}; there are {}", wanted.unwrap_or_default(), names.join(", "));
            return Err(config.wrong(key, message));
        };
        Ok((all[found].clone(), format!("partition.{found}")))
    }
}

/// Checks that several partitions have distinct names, which `use` requires, and do not overlap.
fn check_apart(config: &Config, all: &[Partition]) -> Result<(), ConfigError> {
    for (index, one) in all.iter().enumerate() {
        if let Some(other) = all[..index].iter().find(|other| !one.name.is_empty() && other.name == one.name)
        {
            let message = format!("there is another partition {:?}", other.name);
            return Err(config
                .wrong(&format!("partition.{index}.name"), message)
                .help("give it another name"));
        }
        if let Some(other) = all[..index].iter().find(|other| one.overlaps(other)) {
            let message = format!("the partition begins or ends inside partition {:?}", other.name);
            let help = "partitions share no bytes; one without `size` goes up to the end of the chip";
            return Err(config.wrong(&format!("partition.{index}"), message).help(help));
        }
    }
    Ok(())
}

/// An override that sets the size of the partition in use, in bytes as programs see it. In slc-mode the partition takes
/// twice as many bytes of the chip.
///
/// # Errors
/// Size 0, which would mean the whole chip; an invalid `[partition]` table.
pub fn of_size(config: &Config, bytes: u64) -> Result<Override, Error> {
    let (partition, key) = Partition::of_setup(config)?;
    let bytes = if partition.slc { bytes.saturating_mul(2) } else { bytes };
    if bytes == 0 {
        return Err(Error::request(
            "a partition of 0 bytes holds nothing",
            "give it at least one eraseblock",
        ));
    }
    Ok(Override::parse(&format!("{key}.size={bytes}"), 1)?)
}

/// Maximum size in bytes that [`of_size`] can set for the partition in use: up to the end of the chip, or of the last chip of
/// `concat`.
///
/// # Errors
/// An invalid `[partition]` table, or an invalid chip.
pub fn largest(library: &Library, config: &Config) -> Result<u64, ConfigError> {
    let (partition, _) = Partition::of_setup(config)?;
    let mut size = config.chip()?.facts().size_bytes;
    for other in library.concatenated(config)? {
        size += other.chip()?.facts().size_bytes;
    }
    let room = size.saturating_sub(partition.offset);
    Ok(if partition.slc { room / 2 } else { room })
}

/// Offset of the partition in use, B.
///
/// # Errors
/// An invalid value.
pub fn offset(config: &Config) -> Result<u64, ConfigError> {
    Partition::of_setup(config).map(|(partition, _)| partition.offset)
}

/// Offset of the partition in use on the chip, B; `None` in slc-mode, which uses only every second page of the chip.
///
/// # Errors
/// An invalid value.
pub fn linear_offset(config: &Config) -> Result<Option<u64>, ConfigError> {
    Partition::of_setup(config).map(|(partition, _)| (!partition.slc).then_some(partition.offset))
}

/// Wraps a device in the partition of the setup.
///
/// # Errors
/// An invalid value, or a chip without slc-mode.
pub fn apply(config: &Config, device: Box<dyn Device>) -> Result<Box<dyn Device>, ConfigError> {
    let (partition, key) = Partition::of_setup(config)?;
    let device = window(config, &partition, &key, device)?;
    if !partition.slc {
        return Ok(device);
    }
    let chip = &config.part().name;
    match SlcMode::new(device) {
        Ok(slc) => Ok(Box::new(slc)),
        Err(why) => Err(config.wrong(&format!("{key}.slc"), format!("{chip}: {why}")).help(
            advice! { "leave it out, or take an MLC chip with a [chip.mlc] table (", Command::Parts.with("h27ucg8t2etr-bc"), ")" },
        )),
    }
}

fn window(
    config: &Config,
    partition: &Partition,
    key: &str,
    device: Box<dyn Device>,
) -> Result<Box<dyn Device>, ConfigError> {
    let whole = device.geometry().size_bytes;
    if partition.offset == 0 && matches!(partition.size, 0) {
        return Ok(device);
    }
    let size = match partition.size {
        0 => whole.saturating_sub(partition.offset),
        size => size,
    };
    match floatgate_mtd::Partition::new(device, partition.offset, size) {
        Ok(window) => Ok(Box::new(window)),
        Err(why) => {
            let place = if partition.size > 0 { format!("{key}.size") } else { format!("{key}.offset") };
            Err(config.wrong(&place, format!("{}: {why}", config.part().name)))
        }
    }
}

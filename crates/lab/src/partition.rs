//! The `[partition]` table of a setup: how the device is used.

use crate::config::{Config, ConfigError};
use crate::rig::{Device, Link};
use floatgate_device::Host;
use floatgate_mtd::{Mtd, SlcMode};
use serde::Deserialize;

/// Use of the device: the part of it that is tested, and slc-mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Partition {
    /// Only the LSB page of each pair of MLC pages (Linux: `slc-mode`).
    pub slc: bool,
}

/// The device as the setup's partition shows it.
///
/// # Errors
/// When a value is wrong, or the chip has no slc-mode.
pub(crate) fn apply(config: &Config, device: Box<dyn Device>) -> Result<Box<dyn Device>, ConfigError> {
    let partition: Partition = config.extract_or_default("partition")?;
    if !partition.slc {
        return Ok(device);
    }
    let chip = &config.part().name;
    match SlcMode::new(device) {
        Ok(slc) => Ok(Box::new(slc)),
        Err(why) => Err(config.wrong("partition.slc", format!("{chip}: {why}")).help(
            "leave it out, or take an MLC chip with a [chip.mlc] table (`floatgate parts h27ucg8t2etr-bc`)",
        )),
    }
}

impl Device for SlcMode<Box<dyn Device>> {
    fn host(&mut self) -> &mut Host {
        self.inner_mut().host()
    }

    fn link(&self) -> Link {
        let mut link = self.inner().link();
        let scheme = self.inner().geometry().pairing.scheme();
        link.notes.push(format!("slc-mode: LSB pages only, pairing {scheme}"));
        link
    }
}

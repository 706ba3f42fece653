//! The `[firmware]` table of a setup: a microcontroller that accesses a SPI NOR through a polling
//! HAL.

use floatgate_config::{Config, ConfigError, Problem};
use floatgate_mtd::Nanos;
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use serde::Deserialize;

/// Time costs of the firmware's HAL calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// SPI clock in Hz.
    #[serde(with = "floatgate_device::units::hz")]
    pub clock_hz: u64,
    /// Time of each HAL call before its first byte, in us.
    #[serde(with = "floatgate_device::units::us")]
    pub call_us: Nanos,
    /// CPU time per byte sent, in ns. If the bus takes longer for a byte, the time of the bus counts.
    #[serde(with = "floatgate_device::units::ns")]
    pub tx_ns_per_byte: Nanos,
    /// CPU time per byte received, in ns.
    #[serde(with = "floatgate_device::units::ns")]
    pub rx_ns_per_byte: Nanos,
    /// Time to compare a page with its expected contents, in ns.
    #[serde(with = "floatgate_device::units::ns")]
    pub compare_page_ns: Nanos,
    /// Duration of a tick of the HAL, in us.
    #[serde(with = "floatgate_device::units::us")]
    pub tick_us: Nanos,
    /// Number of ticks that the driver with delays waits after each HAL call.
    pub delay_ticks: u64,
    /// Number of ticks that the driver with delays waits between two status polls.
    pub poll_delay_ticks: u64,
}

impl Firmware {
    /// Name of the first invalid value, with the reason.
    fn impossible(&self) -> Option<(&'static str, &'static str)> {
        let (byte, tick) = (Nanos::from_us(1000), Nanos::from_us(1)..=Nanos::from_us(1_000_000));
        let rules = [
            (
                "clock_hz",
                (1..=u64::from(u32::MAX)).contains(&self.clock_hz),
                "a SPI clock lies between 1 Hz and 4 GHz",
            ),
            ("tx_ns_per_byte", self.tx_ns_per_byte <= byte, "a byte takes at most 1 ms"),
            ("rx_ns_per_byte", self.rx_ns_per_byte <= byte, "a byte takes at most 1 ms"),
            ("tick_us", tick.contains(&self.tick_us), "a tick takes between 1 us and 1 s"),
            ("delay_ticks", self.delay_ticks <= 1000, "at most 1000 ticks"),
            ("poll_delay_ticks", self.poll_delay_ticks <= 1000, "at most 1000 ticks"),
        ];
        rules.into_iter().find(|rule| !rule.1).map(|(key, _, why)| (key, why))
    }

    /// Reads the firmware table of a setup.
    ///
    /// # Errors
    /// The setup has no firmware, or an invalid one.
    pub fn of_config(config: &Config) -> Result<Self, ConfigError> {
        let firmware: Self = config.extract("firmware").map_err(|error| match error.problem() {
            Problem::MissingKey => config
                .wrong("firmware", "this setup has no firmware, and these keys are only a part of one")
                .help(advice! { "only the keystore test has firmware: ", Command::Setups.with("stm32-n25q128a"), " shows one" }),
            _ => error,
        })?;
        match firmware.impossible() {
            Some((key, why)) => Err(config.wrong(&format!("firmware.{key}"), why)),
            None => Ok(firmware),
        }
    }

    /// Checks the firmware table of a setup, even if the setup is used for another purpose.
    pub(crate) fn check(config: &Config) -> Result<(), ConfigError> {
        config.tree().get("firmware").map_or(Ok(()), |_| Self::of_config(config).map(drop))
    }
}

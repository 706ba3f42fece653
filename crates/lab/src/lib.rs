//! The laboratory: setups wired into rigs, what is measured on them, and how it is shown.
//!
//! - [`config`]: TOML texts with origins, merged, overridden, and turned into typed specifications.
//! - [`speed`]: `flash_speed`'s tests in virtual time.
//! - [`keystore`]: a microcontroller's keystore test on a SPI NOR.

pub mod config;
pub mod keystore;
pub mod speed;

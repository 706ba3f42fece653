//! The laboratory: setups wired into rigs, what is measured on them, and how it is shown.
//!
//! - [`speed`]: `flash_speed`'s tests in virtual time.

pub mod speed;

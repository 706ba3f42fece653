//! The laboratory: setups wired into rigs, what is measured on them, and how it is shown.
//!
//! - [`speed`]: `flash_speed`'s tests in virtual time.
//! - [`plot`]: where the time went, as bars and waterfalls, in SVG and in the terminal.

pub mod plot;
pub mod speed;

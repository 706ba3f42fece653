//! Pictures of times by phase, as SVG documents and as text for a terminal.
//!
//! - [`Ink`]: colour and glyph of each [`Phase`](floatgate_mtd::Phase), common to all pictures.
//! - [`percentages`], [`breakdown_text`]: shares that add up to exactly 100.0 as printed.
//! - [`addresses`]: requests of a device, address over time.
//! - [`bars`]: one stacked bar per test or sweep combination.
//! - [`curves`]: curves on logarithmic axes.
//! - [`panels`]: several small pictures with their own axes.
//! - [`heatmap`]: a matrix of ratios.
//! - [`comparisons`]: published figures over simulated ones.
//! - [`waterfall_svg`], [`waterfall_text`]: one operation on the timelines of its resources.
//!
//! All functions depend only on their input: the same input gives the same bytes. SVG text names only the generic
//! font. Its width is an upper estimate, so that labels fit with the font of any viewer.

mod addresses;
mod axis;
mod bars;
pub(crate) mod canvas;
mod comparison;
mod curves;
mod heatmap;
mod lanes;
pub(crate) mod legend;
pub(crate) mod palette;
mod panels;
mod pen;
pub(crate) mod scale;
mod share;
mod table;
mod terminal;
pub(crate) mod text_width;
mod waterfall;

pub use addresses::{Addresses, addresses};
pub use bars::{BarRow, Scale, bars};
pub use comparison::{Compared, Comparison, Published, comparisons};
pub use curves::{Chart, Curve, curves};
pub use heatmap::{Heatmap, heatmap};
pub(crate) use lanes::name as resource_name;
pub use palette::{Ink, ink};
pub use panels::{Panel, panels};
pub use share::{breakdown_text, legend_text, percentages, shares_text};
pub use terminal::waterfall_text;
pub use waterfall::waterfall_svg;

//! Pictures of where the time went, as SVG documents and as text for a terminal.
//!
//! - [`Ink`]: the one table of colours and glyphs per [`Phase`](floatgate_mtd::Phase); all pictures use it.
//! - [`percentages`], [`breakdown_text`]: shares that add up to 100.0 as printed.
//! - [`addresses`]: requests of a device, address over time.
//! - [`bars`]: one stacked bar per test or sweep combination.
//! - [`curves`]: curves on logarithmic axes.
//! - [`panels`]: several small pictures with their own axes.
//! - [`heatmap`]: a matrix of ratios.
//! - [`comparisons`]: published figures over simulated ones.
//! - [`wear_figures`]: how long chips live, and how their times change.
//! - [`waterfall_svg`], [`waterfall_text`]: one operation on the timelines of its resources.
//!
//! All of them are functions of their input alone: the same input gives the same bytes. SVG text names the generic
//! font only, and its width is estimated from above, so that labels fit whatever font the viewer has.

mod addresses;
mod axis;
mod bars;
mod canvas;
mod comparison;
mod curves;
mod heatmap;
mod lanes;
mod legend;
mod palette;
mod panels;
mod pen;
mod scale;
mod share;
mod table;
mod terminal;
mod text_width;
mod waterfall;
#[cfg(not(target_family = "wasm"))]
mod wear;

pub use addresses::{Addresses, addresses};
pub use bars::{BarRow, Scale, bars};
pub use comparison::{Compared, Comparison, Published, comparisons};
pub use curves::{Chart, Curve, curves};
pub use heatmap::{Heatmap, heatmap};
pub use palette::{Ink, ink};
pub use panels::{Panel, panels};
pub use share::{breakdown_text, legend_text, percentages, shares_text};
pub use terminal::waterfall_text;
pub use waterfall::waterfall_svg;
#[cfg(not(target_family = "wasm"))]
pub use wear::{Figure, wear_figures};

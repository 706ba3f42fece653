//! `floatgate sweep`: measures many designs of a setup, and finds the best ones and the parameter with the largest
//! effect.
//!
//! - [`Spec`]: setup, space of designs, population, constraints and objectives, from a TOML file or from a program.
//! - [`Results`]: distributes [`Work`], which is some consecutive designs, and receives the [`Batch`]es of figures in
//!   the same order. Each goes to a checkpoint at once, so that memory does not grow with the number of designs.
//! - [`Evaluator`]: measures the designs of a piece of work, on this machine ([`run`]) or on another one.
//! - At the end, [`Results::write`] writes the rows with Pareto front and sensitivities.
//!
//! A design follows only from its number and the seed. So the result has the same bytes for any number of threads,
//! workers and interruptions.

mod analysis;
mod batch;
mod checkpoint;
mod constraint;
mod evaluator;
mod fault;
mod figures;
mod measure;
#[cfg(feature = "parquet")]
mod parquet;
mod population;
mod results;
mod shard;
mod space;
mod spec;
#[cfg(test)]
mod tests;
mod waves;
mod write;

pub use analysis::Sensitivity;
pub use batch::Batch;
pub use constraint::Constraint;
pub use evaluator::Evaluator;
pub use measure::MeasureKind;
pub use results::{Cells, Page, Results};
pub use shard::Shard;
pub use space::{Design, MAX_DESIGNS, Work};
pub use spec::{Objectives, Population, Spec, Stop};
pub use waves::{Piece, Waves};
pub use write::{Format, WriteError};

use floatgate_sim::error::Error;

/// Number of designs that are measured on all CPU cores before their results go to the checkpoint.
pub fn designs_at_once(measure: MeasureKind) -> usize {
    rayon::current_num_threads().max(1) * measure.designs_at_once()
}

/// Measures all missing designs on all CPU cores. `progress` receives the number of finished designs.
///
/// # Errors
/// A wrong setup; a column of a constraint or an objective that no design has; a checkpoint that cannot be written.
pub fn run(evaluator: &Evaluator, results: &mut Results, progress: impl Fn(usize)) -> Result<(), Error> {
    let chunk = designs_at_once(evaluator.spec().measure);
    let waves = results.waves();
    while let Some(work) = results.work(results.done(), chunk) {
        results.add(&evaluator.measure(&work, true, &waves, &|| ())?)?;
        progress(results.done());
    }
    Ok(())
}

//! `floatgate sweep`: many designs of a setup, measured; which are best, and which parameter matters.
//!
//! - [`Spec`]: setup, space of designs, population, constraints and objectives, as a TOML file or a program has them.
//! - [`Results`]: hands out [`Work`], some consecutive designs each, and takes the [`Batch`]es of figures in the same order. They
//!   go to a checkpoint at once, so that memory does not grow with them.
//! - [`Evaluator`]: measures the designs of a piece of work, here ([`run`]) or on another machine.
//! - At the end the rows are written ([`Results::write`]) with Pareto front and sensitivities.
//!
//! A design follows from its number and the seed alone, so that any number of threads, workers and interruptions gives the same bytes.

mod analysis;
mod batch;
mod checkpoint;
mod constraint;
mod evaluator;
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
pub use space::{Design, Work};
pub use spec::{MAX_DESIGNS, Objectives, Population, Spec, Stop};
pub use waves::{Piece, Waves};
pub use write::{Format, WriteError};

use floatgate_sim::error::Error;

/// Designs that are measured on all cores of this machine before they go to the checkpoint.
pub fn designs_at_once(measure: MeasureKind) -> usize {
    rayon::current_num_threads().max(1) * measure.designs_at_once()
}

/// Measures all designs that the results do not have yet, on all cores. `progress` is called with the number of designs that are done.
///
/// # Errors
/// A wrong setup; a column in a constraint or an objective that no design has; a checkpoint that cannot be written.
pub fn run(evaluator: &Evaluator, results: &mut Results, progress: impl Fn(usize)) -> Result<(), Error> {
    let chunk = designs_at_once(evaluator.spec().measure);
    let waves = results.waves();
    while let Some(work) = results.work(results.done(), chunk) {
        results.add(&evaluator.measure(&work, true, &waves, &|| ())?)?;
        progress(results.done());
    }
    Ok(())
}

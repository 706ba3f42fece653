//! Pipeline of a build, which reads, compresses and writes at the same time.

use std::sync::mpsc;

use super::compress::{Compressors, Piece};
use super::error::BuildError;
use super::item::{Batch, Feeder};
use super::write::Writer;

/// Batch of steps, with its blocks compressed.
struct Ready {
    batch: Batch,
    pieces: Vec<Piece>,
}

/// Runs a build: `feed` reads a batch while others are compressed and written. Each written batch is returned to the
/// reader, which reuses its memory.
pub(super) fn run(
    feed: impl FnOnce(Feeder) -> Result<(), BuildError> + Send,
    writer: &mut Writer<'_>,
    mut compressors: Compressors,
) -> Result<(), BuildError> {
    std::thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(1);
        let (back, spent) = mpsc::channel();
        let reader = scope.spawn(|| feed(Feeder::new(sender, spent)));
        let mut ready = Ready { batch: Batch::new(), pieces: Vec::new() };
        let mut pieces = Vec::new();
        let mut outcome = Ok(());
        for batch in &batches {
            outcome = rayon::join(
                || writer.batch(&mut ready.batch, &ready.pieces),
                || compressors.run(&batch, &mut pieces),
            )
            .0;
            std::mem::swap(&mut pieces, &mut ready.pieces);
            let written = std::mem::replace(&mut ready.batch, batch);
            // A reader that has finished needs no more memory.
            let _ = back.send(written);
            if outcome.is_err() {
                break;
            }
        }
        drop(batches);
        let read = reader.join().unwrap_or(Err(BuildError::Stopped));
        outcome?;
        read?;
        writer.batch(&mut ready.batch, &ready.pieces)
    })
}

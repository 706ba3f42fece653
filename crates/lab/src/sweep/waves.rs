//! Members of unfinished designs. Measuring the members of one design may take hours, so a checkpoint stores each wave
//! of them.

use super::batch::Batch;
use super::checkpoint::{Appender, Wave};
use super::figures::ChipFigures;
use super::space::Work;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Results that a worker sends back: of all its designs, or of the next wave of members of its only design.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Piece {
    /// Results of the designs; `None` if more waves must be measured.
    batch: Option<Batch>,
    wave: Option<Wave>,
}

impl Piece {
    /// Results of the designs, if all of them are finished.
    pub const fn batch(&self) -> Option<&Batch> {
        self.batch.as_ref()
    }

    /// JSON text of the piece in one line, without a line feed.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a piece from its line; `None` for an invalid line.
    pub fn from_line(line: &str) -> Option<Self> {
        let piece: Self = serde_json::from_str(line).ok()?;
        piece.batch.as_ref().is_none_or(Batch::is_whole).then_some(piece)
    }
}

/// Destination of the measured members.
#[derive(Debug, Default)]
enum Sink {
    #[default]
    Nothing,
    /// Appender of a checkpoint.
    File(Appender),
    /// Next piece that a worker sends back.
    Piece(Mutex<Option<Wave>>),
}

/// Waves of unfinished designs, and the destination of further waves.
#[derive(Debug, Default)]
pub struct Waves {
    known: Mutex<BTreeMap<usize, Vec<ChipFigures>>>,
    sink: Sink,
}

impl Waves {
    /// Waves of a worker, which sends each of them back.
    pub(super) fn of_work(work: &Work) -> Self {
        if work.designs.len() != 1 {
            return Self::default();
        }
        let known = BTreeMap::from([(work.first, work.members.clone())]);
        Self { known: Mutex::new(known), sink: Sink::Piece(Mutex::default()) }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<usize, Vec<ChipFigures>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, wave: Wave) {
        self.known().entry(wave.design).or_default().extend(wave.members);
    }

    /// Drops the members of finished designs.
    pub(super) fn forget(&self, done: usize) {
        let mut known = self.known();
        *known = known.split_off(&done);
    }

    /// Stores the members of unfinished designs in a checkpoint from now on.
    pub(super) fn go_on(&mut self, done: usize, file: Option<Appender>) {
        self.forget(done);
        self.sink = file.map_or(Sink::Nothing, Sink::File);
    }

    /// Stores nothing from now on.
    pub(super) fn close(&self) {
        if let Sink::File(file) = &self.sink {
            file.close();
        }
    }

    /// Members of a design that are already measured.
    pub(super) fn members(&self, design: usize) -> Vec<ChipFigures> {
        self.known().get(&design).cloned().unwrap_or_default()
    }

    /// Number of waves of a design that are measured at once; `None` for all.
    pub(super) const fn most(&self) -> Option<u32> {
        match self.sink {
            Sink::Piece(_) => Some(1),
            Sink::Nothing | Sink::File(_) => None,
        }
    }

    /// Stores the next members of a design. Members that cannot be stored are measured again, so an error does not end
    /// the sweep.
    pub(super) fn keep(&self, design: usize, members: &[ChipFigures]) {
        self.keep_wave(Wave { design, members: members.to_vec() });
    }

    fn keep_wave(&self, wave: Wave) {
        match &self.sink {
            Sink::Nothing => {}
            Sink::File(file) => {
                if let Ok(line) = serde_json::to_string(&wave) {
                    let _ = file.append(&line);
                }
            }
            Sink::Piece(piece) => *piece.lock().unwrap_or_else(PoisonError::into_inner) = Some(wave),
        }
    }

    /// Stores the members that a worker sent, for the remaining work.
    pub(super) fn keep_piece(&self, piece: &Piece) {
        if let Some(wave) = &piece.wave {
            self.keep_wave(wave.clone());
            self.add(wave.clone());
        }
    }

    /// Piece of a worker whose designs gave this batch. The batch is empty if its only design is unfinished.
    pub(super) fn into_piece(self, batch: Batch) -> Piece {
        let wave = match self.sink {
            Sink::Piece(wave) => wave.into_inner().unwrap_or_else(PoisonError::into_inner),
            Sink::Nothing | Sink::File(_) => None,
        };
        Piece { batch: (!batch.is_empty()).then_some(batch), wave }
    }
}

//! Members of designs that are not done: measuring those of one design may take hours, so a checkpoint keeps each wave of them.

use super::checkpoint::Appender;
use super::measure::ChipFigures;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The members of a design behind those of its waves before.
#[derive(Deserialize, Serialize)]
pub(super) struct Wave {
    design: usize,
    members: Vec<ChipFigures>,
}

impl Wave {
    /// A wave from its line; `None` for a line that is not valid.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// The waves of designs that are not done, and where the next ones go.
#[derive(Debug, Default)]
pub struct Waves {
    known: BTreeMap<usize, Vec<ChipFigures>>,
    file: Option<Appender>,
}

impl Waves {
    pub(super) fn add(&mut self, wave: Wave) {
        self.known.entry(wave.design).or_default().extend(wave.members);
    }

    /// Forgets the members of designs that are done, and keeps those of others in a checkpoint from now on.
    pub(super) fn go_on(&mut self, done: usize, file: Option<Appender>) {
        self.known = self.known.split_off(&done);
        self.file = file;
    }

    /// Keeps nothing from now on.
    pub(super) fn close(&self) {
        self.file.iter().for_each(Appender::close);
    }

    /// Members of a design that are measured already.
    pub(super) fn members(&self, design: usize) -> Vec<ChipFigures> {
        self.known.get(&design).cloned().unwrap_or_default()
    }

    /// Keeps the next members of a design. What cannot be kept is measured again: that is no reason to end a sweep.
    pub(super) fn keep(&self, design: usize, members: &[ChipFigures]) {
        let Some(file) = &self.file else { return };
        let wave = Wave { design, members: members.to_vec() };
        if let Ok(line) = serde_json::to_string(&wave) {
            let _ = file.append(&line);
        }
    }
}

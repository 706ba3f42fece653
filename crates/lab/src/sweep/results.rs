//! Results of a sweep: batches in the order of the designs, and the rows that follow from all of them.

use super::analysis::{Analysis, Best, Sensitivity};
use super::batch::Batch;
use super::checkpoint::{Checkpoint, Line};
use super::evaluator::Evaluator;
use super::shard::Shard;
use super::space::{KeyType, Space, Work};
use super::spec::{Objectives, Spec};
use super::waves::{Piece, Waves};
use crate::show::number::three;
use floatgate_image::words::count;
use floatgate_sim::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of rows written at once, which form a row group of a Parquet file. It limits memory, and it is constant, so
/// that files have the same bytes however the designs were measured.
const PAGE_ROWS: usize = 1 << 16;

/// Maximum number of reasons in a conclusion.
const REASONS: usize = 3;

/// Units at the end of figure names.
const UNITS: [&str; 9] = [" KiB/s", " MiB/s", " MB/s", " KiB", " ms", " us", " s", " years", " cycles"];

/// Text of a column with its value and unit: `page read is 11034 KiB/s`.
fn measured(column: &str, value: f64) -> String {
    let value = three(value);
    if let Some((name, unit)) =
        UNITS.iter().find_map(|unit| Some((column.strip_suffix(unit)?, unit.trim_start())))
    {
        return format!("{name} is {value} {unit}");
    }
    let unit = floatgate_config::keys().into_iter().find(|key| key.key == column).map_or("", |key| key.unit);
    let space = if unit.is_empty() { "" } else { " " };
    format!("`{column}` is {value}{space}{unit}")
}

/// Values of a column, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Booleans, such as `feasible`.
    Bool(Vec<Option<bool>>),
    /// Whole numbers.
    Integer(Vec<Option<i64>>),
    /// Numbers with decimals.
    Number(Vec<Option<f64>>),
    /// Texts, such as names.
    Text(Vec<Option<String>>),
}

/// Some rows of the result, by column: keys, figures, texts, `feasible`, `pareto`, `refused`.
pub type Page = Vec<(String, Cells)>;

/// Text of everything on which the figures depend.
fn subject(evaluator: &Evaluator, spec: &Spec) -> Result<String, Error> {
    let all = serde_json::to_string(spec).unwrap_or_default();
    Ok(format!("{}\n{all}", evaluator.basis()?))
}

/// Designs with their figures.
pub struct Results {
    spec: Spec,
    space: Space,
    checkpoint: Checkpoint,
    analysis: Analysis,
    done: usize,
    /// Number after the last design to measure: of all designs, or of a share.
    end: usize,
    waves: Arc<Waves>,
    /// Name of the setup on whose board the specification's part is used.
    board: Option<String>,
}

impl Results {
    /// Creates results without designs, or with those of a checkpoint.
    ///
    /// # Errors
    /// An invalid space; a checkpoint that cannot be opened or belongs to another sweep.
    pub fn new(evaluator: &Evaluator, spec: &Spec, checkpoint: Option<&Path>) -> Result<Self, Error> {
        let checkpoint = match checkpoint {
            Some(path) => Checkpoint::open(path, &subject(evaluator, spec)?)?,
            None => Checkpoint::temporary()?,
        };
        Ok(Self::of_checkpoint(spec, checkpoint, None)?.on_board(evaluator))
    }

    fn on_board(self, evaluator: &Evaluator) -> Self {
        Self { board: evaluator.board(), ..self }
    }

    /// Name of the setup on whose board the specification's part is used.
    pub fn board(&self) -> Option<&str> {
        self.board.as_deref()
    }

    /// Creates results for a share of the designs, with a checkpoint for [`merged`](Self::merged).
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), and a shard without designs.
    pub fn shard(evaluator: &Evaluator, spec: &Spec, shard: Shard, path: &Path) -> Result<Self, Error> {
        let designs = spec.space()?.len();
        let numbers = shard.designs(designs);
        if numbers.is_empty() {
            let message = format!("the share {shard} has none of the {}", count(designs as u64, "design"));
            return Err(Error::request(message, "make fewer shares"));
        }
        let checkpoint = Checkpoint::open(path, &subject(evaluator, spec)?)?;
        Ok(Self::of_checkpoint(spec, checkpoint, Some(numbers))?.on_board(evaluator))
    }

    /// Merges the results in the checkpoints of all shares, in any order.
    ///
    /// # Errors
    /// A file cannot be read or belongs to another sweep; a design is in no file, or in two.
    pub fn merged(evaluator: &Evaluator, spec: &Spec, parts: &[PathBuf]) -> Result<Self, Error> {
        let subject = subject(evaluator, spec)?;
        let mut results = Self::of_checkpoint(spec, Checkpoint::temporary()?, None)?.on_board(evaluator);
        let mut known = Vec::new();
        for path in parts {
            let part = Checkpoint::read(path, &subject)?;
            let first = part.batches().next().transpose()?.map(|batch| batch.first);
            known.extend(first.map(|first| (first, path, part)));
        }
        known.sort_by_key(|(first, ..)| *first);
        for (_, path, part) in known {
            for batch in part.batches() {
                let batch = batch?;
                if batch.first < results.done {
                    let message =
                        format!("{}: design {} is in another file, too", path.display(), batch.first);
                    return Err(Error::request(message, "name each share once"));
                }
                results.check_next(batch.first)?;
                results.add(&batch)?;
            }
        }
        results.check_next(results.designs())?;
        Ok(results)
    }

    /// Returns an error if designs before this one are missing.
    fn check_next(&self, design: usize) -> Result<(), Error> {
        if design <= self.done {
            return Ok(());
        }
        Err(Error::request(
            format!("no file has the designs {} to {}", self.done, design - 1),
            "measure the missing shares to their end: the same command goes on from their checkpoints",
        ))
    }

    /// Creates results from batches that were measured elsewhere.
    ///
    /// # Errors
    /// An invalid space; batches of another space.
    pub fn of_batches(spec: &Spec, batches: impl IntoIterator<Item = Batch>) -> Result<Self, Error> {
        let mut results = Self::of_checkpoint(spec, Checkpoint::temporary()?, None)?;
        batches.into_iter().try_for_each(|batch| results.add(&batch))?;
        Ok(results)
    }

    fn of_checkpoint(
        spec: &Spec,
        checkpoint: Checkpoint,
        numbers: Option<Range<usize>>,
    ) -> Result<Self, Error> {
        let space = spec.space()?;
        let mut analysis = Analysis::new(spec, &space);
        let Range { start, end } = numbers.unwrap_or(0..space.len());
        let (mut done, mut waves) = (start, Waves::default());
        for line in checkpoint.lines() {
            let batch = match line? {
                Line::Batch(batch) => batch,
                Line::Wave(wave) => {
                    waves.add(wave);
                    continue;
                }
            };
            if batch.first != done || batch.len() > end - done {
                let has = match batch.first == done {
                    true => format!("designs up to {}, and the last is {}", done + batch.len() - 1, end - 1),
                    false => format!("design {} where {done} is expected", batch.first),
                };
                return Err(Error::request(
                    format!("the checkpoint has {has}"),
                    "it is that of another share, or damaged: name another one, or remove it",
                ));
            }
            done += batch.len();
            analysis.add(spec, &space, &batch);
        }
        analysis.check_columns(spec)?;
        waves.go_on(done, checkpoint.appender());
        let results = Self {
            spec: spec.head(),
            space,
            checkpoint,
            analysis,
            done,
            end,
            waves: Arc::new(waves),
            board: None,
        };
        results.close_if_complete();
        Ok(results)
    }

    /// Closes a complete sweep, because the same sweep may run again in this session.
    fn close_if_complete(&self) {
        if self.done == self.end {
            self.close();
        }
    }

    /// Ends the sweep. Another one may continue from the checkpoint, and measurements that still run no longer write to
    /// it.
    pub fn close(&self) {
        self.waves.close();
        self.checkpoint.release();
    }

    /// Number of designs.
    pub fn designs(&self) -> usize {
        self.space.len()
    }

    /// Number after the last design to measure here.
    pub const fn end(&self) -> usize {
        self.end
    }

    /// Number after the last design that was measured or refused.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Members of unfinished designs. [`Evaluator::measure`] adds members, and the checkpoint stores them.
    pub fn waves(&self) -> Arc<Waves> {
        Arc::clone(&self.waves)
    }

    /// Work for at most `most` designs from number `first` on; `None` after the last one. For a single design, it
    /// includes the members measured so far.
    pub fn work(&self, first: usize, most: usize) -> Option<Work> {
        let end = self.end.min(first.saturating_add(most));
        let members = if end == first + 1 { self.waves.members(first) } else { Vec::new() };
        (first < end).then(|| Work { members, ..self.space.work(first..end) })
    }

    /// Stores the members of design `first` that a worker sent. Returns the remaining work if the design is unfinished.
    /// Pieces may come in any order; their batches must be [added](Self::add) in the order of the designs.
    pub fn keep(&self, first: usize, piece: &Piece) -> Option<Work> {
        self.waves.keep_piece(piece);
        piece.batch().is_none().then(|| self.work(first, 1)).flatten()
    }

    /// Adds the results of the next designs.
    ///
    /// # Errors
    /// Results of other designs; a checkpoint that cannot be written; a column of a constraint or an objective that no
    /// design has.
    pub fn add(&mut self, batch: &Batch) -> Result<(), Error> {
        if batch.first != self.done || batch.len() > self.end - self.done {
            let message =
                format!("results of design {} where those of {} are expected", batch.first, self.done);
            return Err(Error::request(message, "this is a bug in floatgate: please report it"));
        }
        self.checkpoint.append(batch)?;
        let has_checked = self.analysis.measured > 0;
        self.analysis.add(&self.spec, &self.space, batch);
        self.done += batch.len();
        self.waves.forget(self.done);
        self.close_if_complete();
        // A wrong column name concerns the whole sweep, so it is reported after the first batch.
        if has_checked { Ok(()) } else { self.analysis.check_columns(&self.spec) }
    }

    /// Setup of designs that name no other one.
    pub fn setup(&self) -> &str {
        &self.spec.setup
    }

    /// Name of the measurement.
    pub fn measure(&self) -> &'static str {
        self.spec.measure.name()
    }

    /// Columns to maximise or minimise.
    pub const fn objectives(&self) -> &Objectives {
        &self.spec.objectives
    }

    /// Number of designs that are not refused and meet all constraints.
    pub fn feasible(&self) -> usize {
        self.analysis.feasible
    }

    /// Number of designs on the Pareto front.
    pub fn pareto(&self) -> usize {
        self.analysis.pareto()
    }

    /// Number of impossible designs, and the reason of the first one.
    pub fn refused(&self) -> (usize, Option<&str>) {
        (self.analysis.refused.count, self.analysis.refused.first.as_deref())
    }

    /// Number of designs that missed a condition of `screen`, and the reason of the first one.
    pub fn screened(&self) -> (usize, Option<&str>) {
        (self.analysis.screened.count, self.analysis.screened.first.as_deref())
    }

    /// Conclusion, one sentence each: the number of feasible designs, the reasons of the others, and the best designs.
    pub fn conclusion(&self) -> Vec<String> {
        let designs = count(self.designs() as u64, "design");
        let (refused, screened) = (&self.analysis.refused, &self.analysis.screened);
        let constraints = !self.spec.constraints.is_empty();
        let board = self.board().map_or_else(String::new, |board| format!(" on the board {board}"));
        let feasible = self.feasible();
        let (are, meet) = if feasible == 1 { ("is", "meets") } else { ("are", "meet") };
        let constraints = if constraints { format!(" and {meet} all constraints") } else { String::new() };
        let mut feasible = format!("{feasible} of {designs}{board} {are} possible{constraints}");
        if screened.count > 0 {
            feasible += &format!("; {} miss `screen`", screened.count);
        }
        if refused.count > 0 {
            let reasons = refused.by_count().into_iter().take(REASONS);
            let reasons: Vec<String> = reasons.map(|(why, count)| format!("{count} because {why}")).collect();
            feasible += &format!("; {} cannot be had: {}", refused.count, reasons.join(", "));
        }
        let best = self.analysis.best().into_iter().map(|Best { column, value, design }| {
            let keys = self.space.keys().zip(self.space.values(design));
            // A key that is an objective is already named with its value.
            let keys: Vec<String> = keys
                .filter(|(key, _)| *key != column)
                .filter_map(|(key, value)| Some(format!("{key}={}", value?)))
                .collect();
            let with = if keys.is_empty() { String::new() } else { format!(", with {}", keys.join(", ")) };
            format!("The best {}{with}.", measured(&column, value))
        });
        let front = (self.objectives().maximise.len() + self.objectives().minimise.len() > 1)
            .then(|| format!("The Pareto front has {}.", count(self.pareto() as u64, "design")));
        [format!("{feasible}.")].into_iter().chain(best).chain(front).collect()
    }

    /// Returns an error if all designs are impossible, because the specification is then probably wrong.
    ///
    /// # Errors
    /// All designs are refused.
    pub fn check_measured(&self) -> Result<(), Error> {
        match self.refused() {
            (refused, Some(first)) if refused == self.designs() => Err(Error::request(
                format!(
                    "{refused} of {} cannot be had, the first because: {first}",
                    count(self.designs() as u64, "design")
                ),
                "change the space, the overrides or the options of the sweep",
            )),
            _ => Ok(()),
        }
    }

    /// Sensitivities of the objectives, in descending order for each, followed by the share of the rest.
    pub fn sensitivity(&self) -> Vec<Sensitivity> {
        self.analysis.sensitivity()
    }

    /// Names and types of the columns, as a page without rows.
    pub fn columns(&self) -> Page {
        let keys = self.space.key_types().map(|(key, of)| {
            let cells = match of {
                KeyType::Bool => Cells::Bool(Vec::new()),
                KeyType::Integer => Cells::Integer(Vec::new()),
                KeyType::Number => Cells::Number(Vec::new()),
                KeyType::Text => Cells::Text(Vec::new()),
            };
            (key.to_owned(), cells)
        });
        let figures = self.analysis.figures.iter().map(|name| (name.clone(), Cells::Number(Vec::new())));
        let texts = self.analysis.texts.iter().map(|name| (name.clone(), Cells::Text(Vec::new())));
        let flags = ["feasible", "pareto"].map(|name| (name.to_owned(), Cells::Bool(Vec::new())));
        let refused = [("refused".to_owned(), Cells::Text(Vec::new()))];
        keys.chain(figures).chain(texts).chain(flags).chain(refused).collect()
    }

    /// Batches of all finished designs.
    pub fn batches(&self) -> impl Iterator<Item = Result<Batch, Error>> {
        self.checkpoint.batches()
    }

    /// Calls `write` with the rows in order, page by page; once without rows if there are none.
    ///
    /// # Errors
    /// A checkpoint that cannot be read; errors of `write`.
    pub fn each_page<E: From<Error>>(&self, mut write: impl FnMut(Page) -> Result<(), E>) -> Result<(), E> {
        let front = self.analysis.front();
        let mut page = self.columns();
        let mut rows = 0;
        for batch in self.checkpoint.batches() {
            let batch = batch?;
            for at in 0..batch.len() {
                self.push_row(&mut page, &batch, at, &front);
                rows += 1;
                if rows == PAGE_ROWS {
                    write(std::mem::replace(&mut page, self.columns()))?;
                    rows = 0;
                }
            }
        }
        if rows > 0 || self.done == 0 { write(page) } else { Ok(()) }
    }

    /// The first `most` rows.
    ///
    /// # Errors
    /// A checkpoint that cannot be read.
    pub fn first_rows(&self, most: usize) -> Result<Page, Error> {
        let front = self.analysis.front();
        let mut page = self.columns();
        let mut left = most;
        for batch in self.checkpoint.batches() {
            if left == 0 {
                break;
            }
            let batch = batch?;
            let count = batch.len().min(left);
            (0..count).for_each(|at| self.push_row(&mut page, &batch, at, &front));
            left -= count;
        }
        Ok(page)
    }

    fn push_row(&self, page: &mut Page, batch: &Batch, at: usize, front: &[u32]) {
        let design = batch.first + at;
        let values = self.space.values(design);
        let is_feasible = self.analysis.is_feasible(&self.spec, batch, at, &values);
        let is_front = u32::try_from(design).is_ok_and(|design| front.binary_search(&design).is_ok());
        let text =
            |name: &str| batch.texts.iter().find(|(known, _)| known == name)?.1.get(at).cloned().flatten();
        let mut values = values.into_iter();
        let keys = self.space.keys().count();
        for (place, (name, cells)) in page.iter_mut().enumerate() {
            let value = if place < keys { values.next().flatten() } else { None };
            match cells {
                Cells::Bool(all) if place < keys => all.push(value.and_then(|text| text.parse().ok())),
                Cells::Integer(all) => all.push(value.and_then(|text| text.parse().ok())),
                Cells::Number(all) if place < keys => all.push(value.and_then(|text| text.parse().ok())),
                Cells::Text(all) if place < keys => {
                    all.push(value.map(|text| text.trim_matches('"').to_owned()))
                }
                Cells::Bool(all) => all.push(Some(if name == "pareto" { is_front } else { is_feasible })),
                Cells::Number(all) => all.push(batch.figure(name, at)),
                Cells::Text(all) if name == "refused" => all.push(batch.refused.get(at).cloned().flatten()),
                Cells::Text(all) => all.push(text(name)),
            }
        }
    }
}

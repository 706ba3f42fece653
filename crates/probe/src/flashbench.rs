//! Parser for the output of flashbench (Bergmann), and the conclusions that flashbench leaves to the reader.
//!
//! Tables: reads before, on and after borders (`-a`), speed of each of the first eraseblocks (`--find-fat`), several
//! eraseblocks written round robin (`--open-au`). flashbench calls allocation units eraseblocks, and so does this
//! module.
//!
//! The output does not contain the number of units that `--open-au` writes. It is taken from the command line if the
//! log has it (`# flashbench --open-au --open-au-nr=3`), or from headings with `AU=3` and `linear` or `random`, as
//! printed by the script of wirenboard/sdcard_benchmark. A log of a failed card has headings without rows. Tables
//! contain only means, so answers have lower confidence than those from samples.

use crate::analysis::period::{AU_MIN, Fit, GROUP_MIN, Point, candidates, fit_usual, prior};
use crate::analysis::us;
use crate::answer::{Answer, Answers, Value};
use crate::stats::{median, quantile};
use floatgate_mtd::size::text as size;
use std::collections::{BTreeMap, BTreeSet};

/// Tables of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Alignment in bytes, extra time of a read across the border, and time of a read beside it, ns.
    borders: Vec<(u64, f64, f64)>,
    /// Tables of the first eraseblocks: size of a write, and the speed of each eraseblock, B/s.
    fat: Vec<Vec<(u64, Vec<f64>)>>,
    /// Devices named in command lines.
    devices: BTreeSet<String>,
    /// Speeds in B/s by number of eraseblocks and size of a write, in order and in random order.
    linear: BTreeMap<u64, BTreeMap<u64, f64>>,
    random: BTreeMap<u64, BTreeMap<u64, f64>>,
}

/// Error: the log covers several devices, so no conclusion is possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tables of several devices: {}", .0.join(", "))]
pub struct SeveralDevices(pub Vec<String>);

impl SeveralDevices {
    /// Refuses a log that names more than one device.
    pub(crate) fn refuse(devices: &BTreeSet<String>) -> Result<(), Self> {
        if devices.len() > 1 { Err(Self(devices.iter().cloned().collect())) } else { Ok(()) }
    }
}

/// Meaning of the rows below a heading.
#[derive(Clone, Copy, Debug)]
enum Table {
    Unknown,
    Fat,
    Linear(u64),
    Random(u64),
}

impl Log {
    /// Parses a log and ignores other lines. `None` if it has no table of flashbench.
    pub fn parse(text: &str) -> Option<Self> {
        // A command line of a shell may continue in the next line.
        let text = &text.replace("\\\r\n", " ").replace("\\\n", " ");
        let mut log = Self::default();
        let mut table = Table::Unknown;
        for line in text.lines() {
            let Some(next) = heading(line) else {
                log.add(line, table);
                continue;
            };
            table = next;
            log.devices.extend(devices(line));
            if matches!(table, Table::Fat) {
                log.fat.push(Vec::new());
            }
        }
        log.fat.retain(|table| !table.is_empty());
        // The log of a failing card has headings without rows.
        let has_table = log != Self { devices: log.devices.clone(), ..Self::default() };
        (has_table || has_headings(text)).then_some(log)
    }

    fn add(&mut self, line: &str, table: Table) {
        if let Some(border) = border(line) {
            self.borders.push(border);
            return;
        }
        let Some((bytes, speeds)) = speeds(line) else { return };
        match table {
            Table::Linear(aus) => drop(self.linear.entry(aus).or_default().insert(bytes, speeds[0])),
            Table::Random(aus) => drop(self.random.entry(aus).or_default().insert(bytes, speeds[0])),
            Table::Fat => self.add_fat(bytes, speeds),
            // Only a table of the first erase blocks has several columns. It begins with the longest writes.
            Table::Unknown if speeds.len() > 1 => {
                let last = self.fat.last().and_then(|rows| rows.last());
                if last.is_none_or(|(last, _)| *last <= bytes) {
                    self.fat.push(Vec::new());
                }
                self.add_fat(bytes, speeds);
            }
            Table::Unknown => {}
        }
    }

    fn add_fat(&mut self, bytes: u64, speeds: Vec<f64>) {
        if let Some(table) = self.fat.last_mut() {
            table.push((bytes, speeds));
        }
    }

    /// Answers the questions that the tables cover.
    ///
    /// # Errors
    /// The tables cover several devices.
    pub fn conclude(&self) -> Result<Answers, SeveralDevices> {
        SeveralDevices::refuse(&self.devices)?;
        let erase_block = self.erase_block();
        Ok(Answers {
            page: self.page(erase_block.count()),
            open_aus_linear: open_aus(&self.linear, None),
            open_aus_random: open_aus(&self.random, self.linear.get(&1)),
            fat_area: self.fat_area(),
            read_latency: self.read_latency(),
            erase_block,
            write_speed: self.write_speed(),
            ..Answers::unknown("not in a log of flashbench")
        })
    }

    /// Searches for a period in the rows. Each alignment counts with the median of all tables, twice if there are
    /// several tables: these read the same positions again, so more tables do not reduce the deviation of a position.
    /// Rows with a step may differ by `of_step` of it.
    fn fit(&self, rows: &[Row], periods: &[u64], of_step: f64) -> Fit {
        let points: Vec<Point> =
            rows.iter().flat_map(|row| vec![row.point; row.tables.min(TABLES_MAX)]).collect();
        let usual_max = self.usual_max();
        let usual = |period| prior(period) * if period > usual_max { RARE } else { 1.0 };
        let step = quantile(points.iter().map(|point| point.value), STEPS);
        fit_usual(&points, periods, (FLOOR * self.base_ns()).max(of_step * step), |_| vec![0], usual)
    }

    /// Rows with these alignments.
    fn rows(&self, aligns: std::ops::RangeInclusive<u64>) -> Vec<Row> {
        let mut tries: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (align, diff, _) in self.borders.iter().filter(|(align, ..)| aligns.contains(align)) {
            tries.entry(*align).or_default().push(*diff);
        }
        let row = |(at, mut diffs): (u64, Vec<f64>)| Row {
            point: Point { at, value: median(&mut diffs) },
            tables: diffs.len(),
        };
        tries.into_iter().map(row).collect()
    }

    /// Largest eraseblock usual on a card of this size, B. It is twice the largest allocation unit that the SD
    /// specification allows, because two planes may be erased together. The size is derived from the first alignment:
    /// flashbench begins at the power of two above a seventh of the capacity.
    fn usual_max(&self) -> u64 {
        let first = self.borders.iter().map(|(align, ..)| *align).max().unwrap_or(0);
        if first <= LARGEST_SDHC { 8 << 20 } else { 128 << 20 }
    }

    /// Median time of a read beside a border, ns.
    fn base_ns(&self) -> f64 {
        let mut times: Vec<f64> = self.borders.iter().map(|(_, _, base)| *base).collect();
        median(&mut times)
    }

    fn erase_block(&self) -> Answer {
        if self.borders.is_empty() {
            return Answer::unknown("B", 0.0, "the log has no alignment table");
        }
        let rows = self.rows(BORDER_ROWS.0..=BORDER_ROWS.1);
        let periods = candidates(AU_MIN, BORDER_ROWS.1 / 2);
        if let Some(answer) = step(&rows, FLOOR * self.base_ns()) {
            return answer;
        }
        let fit = self.fit(&rows, &periods, OF_STEP);
        let Some((period, confidence)) = fit.best() else { return invisible(&rows, &periods, &fit) };
        let has_rival = fit.periods.get(1).is_some_and(|other| other.1 > confidence / 3.0);
        if has_rival && fit.step < CLEAR_STEP * fit.sigma {
            let reason = "the step is as small as the noise: several sizes of eraseblocks explain the table";
            return Answer::unknown("B", fit.nothing, reason).or(fit.periods.iter().copied());
        }
        let reason = format!(
            "reads across borders of {} and more take {} longer than across smaller ones; a block of 3 or 5 times a power of two \
             would look the same",
            size(period),
            us(fit.step)
        );
        let most = if period < USUAL_MIN { UNUSUAL } else { MEANS };
        let explained = (1.0 - fit.unexplained).max(0.3);
        let confidence = confidence.min(most) * explained;
        let others = fit.periods[1..].iter().map(|(other, weight)| (*other, weight * explained));
        let odd = (period < USUAL_MIN).then_some((3 * period, UNUSUAL * confidence));
        Answer::found(Value::Count(period), "B", confidence, reason).or(odd).or(others)
    }

    fn page(&self, erase_block: Option<u64>) -> Answer {
        let most = erase_block.map_or(PAGE_MAX, |block| (block / 8).min(PAGE_MAX));
        let periods: Vec<u64> = (11..18).map(|bits| 1 << bits).filter(|period| *period <= most).collect();
        let rows = self.rows(1024..=most);
        let fit = self.fit(&rows, &periods, 0.0);
        match fit.best() {
            None if self.borders.is_empty() => Answer::unknown("B", 0.0, "the log has no alignment table"),
            None => invisible(&rows, &periods, &fit),
            Some((period, confidence)) => {
                // If a smaller alignment shows only a part of the step, the next larger alignment shows the whole step.
                let larger = fit
                    .periods
                    .iter()
                    .copied()
                    .find(|(other, weight)| *other > period && 2.0 * weight > confidence);
                let (found, weight) = larger.unwrap_or((period, confidence));
                let reason =
                    format!("reads across borders of {} and more take {} longer", size(found), us(fit.step));
                let others = fit.periods.iter().filter(|(other, _)| *other != found);
                let others =
                    others.map(|(other, own)| (*other, if *other == period { weight } else { *own }));
                Answer::found(Value::Count(found), "B", confidence.min(PAGES), reason).or(others)
            }
        }
    }

    fn read_latency(&self) -> Answer {
        if self.borders.is_empty() {
            return Answer::unknown("us", 0.0, "the log has no alignment table");
        }
        let ns = self.base_ns();
        let reason = format!("median of reads next to borders: {}", us(ns));
        Answer::found(Value::Measure((ns / 100.0).round() / 10.0), "us", 0.9, reason)
    }

    fn write_speed(&self) -> Answer {
        // Longer writes are left out, because their time includes closing the units that were open before.
        let rows = self.linear.get(&1).into_iter().flat_map(|speeds| speeds.range(128 << 10..=1 << 20));
        let mut speeds: Vec<f64> = rows.map(|(_, speed)| *speed).collect();
        if speeds.is_empty() {
            return Answer::unknown("MB/s", 0.0, "the log has no sequential writes to one eraseblock");
        }
        let reason = "median of writes of 128 KiB to 1 MiB to one eraseblock".to_owned();
        Answer::found(Value::Measure((median(&mut speeds) / 1e5).round() / 10.0), "MB/s", 0.8, reason)
    }

    fn fat_area(&self) -> Answer {
        let odd: Vec<Vec<(u64, f64)>> = self.fat.iter().map(|table| odd_blocks(table)).collect();
        let Some(block) = self.fat.first().and_then(|table| table.first()).map(|(bytes, _)| *bytes) else {
            return Answer::unknown("B", 0.0, "the log has no table of the first eraseblocks");
        };
        let mut votes: BTreeMap<u64, (usize, f64)> = BTreeMap::new();
        for (column, factor) in odd.iter().flatten() {
            let vote = votes.entry(*column).or_insert((0, *factor));
            vote.0 += 1;
        }
        votes.retain(|_, (count, _)| *count * 2 > self.fat.len());
        let (Some((first, (count, factor))), Some((last, _))) =
            (votes.first_key_value(), votes.last_key_value())
        else {
            return Answer::unknown("B", 0.8, "the first eraseblocks are equally fast");
        };
        if last - first >= votes.len() as u64 {
            let columns: Vec<String> = votes.keys().map(|column| size(column * block)).collect();
            let reason = format!(
                "the eraseblocks at {} differ from the others, but are not one area: earlier writes are the likely cause",
                columns.join(", ")
            );
            return Answer::unknown("B", 0.5, reason);
        }
        let reason = format!(
            "from {}: writes are {factor:.1} times as fast as in most, in {count} of {} tables",
            size(first * block),
            self.fat.len()
        );
        let confidence = if *count >= 2 { 0.85 } else { 0.6 };
        Answer::found(Value::Count(votes.len() as u64 * block), "B", confidence, reason)
    }
}

/// Row of the alignment tables: the median of all tables.
struct Row {
    point: Point,
    tables: usize,
}

/// True when the rows can show a period: enough rows are multiples of it, and enough others are not.
fn is_tested(rows: &[Row], period: u64) -> bool {
    let count = |wanted: bool| {
        let of = rows.iter().filter(|row| row.point.at.is_multiple_of(period) == wanted);
        of.map(|row| row.tables.min(TABLES_MAX)).sum::<usize>()
    };
    count(true).min(count(false)) >= GROUP_MIN
}

/// Answer for rows that show no period. Periods covered by too few rows remain possible.
fn invisible(rows: &[Row], periods: &[u64], fit: &Fit) -> Answer {
    let usual = || periods.iter().copied().filter(|period| period.is_power_of_two());
    let tested = usual().filter(|&period| is_tested(rows, period)).count();
    if tested == 0 {
        let rows = rows.len();
        return Answer::unknown("B", 0.0, format!("too few rows: {rows} with suitable alignments"));
    }
    let most = rows.iter().map(|row| row.point.value).fold(fit.bound, f64::max);
    let reason = format!("not visible in reads; any effect is below {}", us(most));
    let confidence = fit.nothing.min(0.9) * tested as f64 / usual().count() as f64;
    Answer::unknown("B", confidence, reason)
}

/// Eraseblock from too few rows for a fit. The rows must form two groups of at least two rows each that are much
/// further apart than the rows of each group. In a complete table the uppermost rows wrap around the end of the device
/// and do not count as a group.
fn step(rows: &[Row], floor: f64) -> Option<Answer> {
    let values = |rows: &[Row]| rows.iter().map(|row| row.point.value).collect::<Vec<f64>>();
    let range = |values: &[f64]| {
        let (least, most) =
            (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        Some((least, most))
    };
    let split = |at: usize| {
        let (below, above) = rows.split_at_checked(at).filter(|_| at >= 2 && rows.len() - at >= 2)?;
        let ((low, low_end), (high, high_end)) = (range(&values(below))?, range(&values(above))?);
        let spread = (low_end - low).max(high_end - high).max(floor);
        let (gap, period) = (high - low_end, above.first()?.point.at);
        let is_clear = gap > CLEAR_STEP * spread && period >= AU_MIN;
        (is_clear && !is_tested(rows, period)).then_some((period, gap))
    };
    let (period, gap) =
        (2..rows.len().min(TABLE_ROWS)).find_map(split).filter(|_| rows.len() < TABLE_ROWS)?;
    let reason = format!(
        "reads across borders of {} and more take {} longer than across smaller ones, in only {} rows",
        size(period),
        us(gap),
        rows.len()
    );
    Some(Answer::found(Value::Count(period), "B", FEW_ROWS, reason))
}

/// Number of rows above which a table is long enough to test most periods.
const TABLE_ROWS: usize = 8;
/// Maximum number of tables that count for a row.
const TABLES_MAX: usize = 2;
/// Confidence in an eraseblock from few rows.
const FEW_ROWS: f64 = 0.4;
/// Minimum standard deviation of a row, as a share of the read time: means over seven positions in logs of real cards
/// differ by about that much.
const FLOOR: f64 = 0.012;
/// Minimum standard deviation of a row for the eraseblock, as a share of the step, because some of its positions wrap
/// around; and share of the rows below the row that shows the step.
const OF_STEP: f64 = 0.05;
const STEPS: f64 = 0.75;
/// Alignments from which the eraseblock is determined. Above them, positions wrap around the end of the device; below
/// them, pages are visible.
const BORDER_ROWS: (u64, u64) = (64 << 10, 128 << 20);
/// Largest alignment from which the page is determined, B.
const PAGE_MAX: u64 = 128 << 10;
/// Highest confidence in an eraseblock and in a page from means.
const MEANS: f64 = 0.85;
const PAGES: f64 = 0.6;
/// Smallest usual eraseblock of a card, B. An apparently smaller one is more probably 3 or 5 times a power of two: two
/// of the seven positions of each row are borders of such an eraseblock.
const USUAL_MIN: u64 = 2 << 20;
const UNUSUAL: f64 = 0.5;
/// Step in standard deviations of a row below which an eraseblock with a competing period is not reported.
const CLEAR_STEP: f64 = 4.0;
/// Largest first alignment of a card of 32 GB or less, B. Such cards have allocation units of at most 4 MiB (SD
/// Physical Layer Specification, AU_SIZE).
const LARGEST_SDHC: u64 = 8 << 30;
/// Factor of the probability of an eraseblock larger than that.
const RARE: f64 = 0.1;
/// Sizes of writes from which the number of open eraseblocks is determined, B.
const OPEN_ROWS: std::ops::RangeInclusive<u64> = 32 << 10..=1 << 20;
/// Minimum slowdown with one eraseblock more than can be open, and the slowdown from which it is certain.
const CLIFF: f64 = 1.7;
const CLEAR_CLIFF: f64 = 3.0;
/// Confidence that no eraseblock can be written in random order, if each write seems to close one.
const NONE_OPEN: f64 = 0.75;
/// Difference of the logarithms of speeds from which on an eraseblock is special.
const FAT_SPEED: f64 = 0.35;

/// Geometric mean of the time per byte over the `sizes` of writes, s.
fn cost(speeds: &BTreeMap<u64, f64>, sizes: &[u64]) -> f64 {
    let logs = sizes.iter().filter_map(|size| speeds.get(size)).map(|speed| -libm::log(*speed));
    libm::exp(logs.sum::<f64>() / sizes.len() as f64)
}

/// Largest number of eraseblocks before the speed drops for good. `in_order` contains the speeds of a single eraseblock
/// written in order.
fn open_aus(speeds: &BTreeMap<u64, BTreeMap<u64, f64>>, in_order: Option<&BTreeMap<u64, f64>>) -> Answer {
    let tables: Vec<(u64, &BTreeMap<u64, f64>)> = speeds
        .iter()
        .filter(|(_, speeds)| speeds.range(OPEN_ROWS).next().is_some())
        .map(|(aus, speeds)| (*aus, speeds))
        .collect();
    let Some(((most, last), others)) = tables.split_last() else {
        return Answer::unknown("AUs", 0.0, "the log has no round-robin writes to eraseblocks");
    };
    // An interrupted table lacks its short writes, which are slower than long ones. Only sizes that all tables contain
    // are compared.
    let sizes: Vec<u64> = last
        .range(OPEN_ROWS)
        .map(|(size, _)| *size)
        .filter(|size| others.iter().all(|(_, speeds)| speeds.contains_key(size)))
        .collect();
    if sizes.is_empty() {
        return Answer::unknown("AUs", 0.0, "the tables of round-robin writes have no size in common");
    }
    let costs: Vec<(u64, f64)> = tables.iter().map(|(aus, speeds)| (*aus, cost(speeds, &sizes))).collect();
    let cliffs = costs.windows(2).enumerate().filter_map(|(place, pair)| {
        let before = costs[..=place].iter().map(|(_, cost)| *cost).fold(0.0, f64::max);
        let after = costs[place + 1..].iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
        Some((pair[0].0, pair[1].0, after / before)).filter(|cliff| cliff.2 > CLIFF)
    });
    let Some((good, bad, factor)) = cliffs.max_by(|a, b| a.2.total_cmp(&b.2)) else {
        let closing = in_order.zip(speeds.get(&1)).and_then(|(in_order, any)| closing(in_order, any));
        return without_cliff(*most, others.len(), closing);
    };
    let is_repeated = bad < *most;
    let confidence = match factor {
        _ if bad != good + 1 => 0.4,
        factor if factor >= CLEAR_CLIFF && is_repeated => 0.9,
        factor if factor >= CLEAR_CLIFF || is_repeated => 0.75,
        _ => 0.6,
    };
    let reason = format!(
        "round-robin writes of 32 KiB to 1 MiB to {bad} eraseblocks take {factor:.1} times as long as to {good}"
    );
    Answer::found(Value::Count(good), "AUs", confidence, reason)
}

/// Answer for tables of about equal speed; `closing` is the time for closing an eraseblock if every write closes one,
/// s.
fn without_cliff(most: u64, others: usize, closing: Option<f64>) -> Answer {
    match (closing, others) {
        (Some(seconds), 1..) => {
            let reason = format!(
                "a write to one eraseblock in random order takes {} longer than in order, whatever its size, and to {most} eraseblocks as long",
                us(seconds * 1e9)
            );
            Answer::found(Value::Count(0), "AUs", NONE_OPEN, reason)
        }
        (Some(_), 0) => {
            let reason = "one eraseblock in random order is slow, and the log has no tests with more";
            Answer::unknown("AUs", 1.0 - NONE_OPEN, reason).or([(0, NONE_OPEN)])
        }
        (None, 0) => {
            Answer::unknown("AUs", 0.0, format!("the log has no other number of eraseblocks than {most}"))
        }
        (None, 1..) => {
            let reason = format!(
                "at least {most}: round-robin writes to this number of eraseblocks are about as fast as to one"
            );
            Answer::unknown("AUs", 0.7, reason)
        }
    }
}

/// Extra time of random over sequential writes if it is about equal for all sizes, s: the cost of closing an
/// eraseblock. If random writes are slower by a constant factor, the cause is another one; if only short ones are slow,
/// they write parts of pages.
fn closing(in_order: &BTreeMap<u64, f64>, any_order: &BTreeMap<u64, f64>) -> Option<f64> {
    let rows =
        in_order.range(OPEN_ROWS).filter_map(|(size, speed)| Some((*size, *speed, *any_order.get(size)?)));
    let longer: Vec<f64> =
        rows.clone().map(|(size, speed, any)| size as f64 / any - size as f64 / speed).collect();
    let factors: Vec<f64> = rows.map(|(_, speed, any)| libm::log(speed / any)).collect();
    let least = longer.iter().copied().fold(f64::INFINITY, f64::min);
    let most = longer.iter().copied().fold(0.0, f64::max);
    let factor = libm::exp(factors.iter().sum::<f64>() / factors.len() as f64);
    let is_closing = longer.len() > 1 && factor > CLIFF && least > most / 2.0;
    is_closing.then(|| f64::midpoint(least, most))
}

/// Columns of a table whose speed differs from most others, with the ratio.
fn odd_blocks(table: &[(u64, Vec<f64>)]) -> Vec<(u64, f64)> {
    let rows = || table.iter().filter(|(bytes, _)| (16 << 10..=1 << 20).contains(bytes));
    let columns = rows().map(|(_, speeds)| speeds.len()).min().unwrap_or(0);
    let factor = |column: usize| {
        let mut factors: Vec<f64> =
            rows().map(|(_, speeds)| speeds[column] / median(&mut speeds.clone())).collect();
        median(&mut factors)
    };
    let all = (0..columns).map(|column| (column as u64, factor(column)));
    all.filter(|(_, factor)| libm::log(*factor).abs() > FAT_SPEED).collect()
}

/// True when the log has headings of the wirenboard script.
fn has_headings(text: &str) -> bool {
    let known = |table| matches!(table, Some(Table::Fat | Table::Linear(_) | Table::Random(_)));
    text.lines().any(|line| known(script_heading(line)))
}

/// Meaning of the rows below a heading or command line.
fn heading(line: &str) -> Option<Table> {
    script_heading(line).or_else(|| command(line))
}

/// Number of eraseblocks that flashbench writes without `--open-au-nr`.
const USUAL_AUS: u64 = 2;

/// Meaning of the rows below a command line, which may follow a prompt: `root@host:~# ./flashbench -O --open-au-nr=3
/// /dev/sdb`.
fn command(line: &str) -> Option<Table> {
    let is_program = |word: &&str| word.rsplit('/').next() == Some("flashbench");
    let mut words = line.split_whitespace().skip_while(|word| !is_program(word));
    words.next()?;
    let (mut open, mut random, mut fat, mut aus) = (false, false, false, Some(USUAL_AUS));
    while let Some(word) = words.next() {
        let Some(long) = word.strip_prefix("--") else {
            let has = |flag| short_flags(word).contains(flag);
            open |= has('O');
            random |= has('r');
            fat |= has('f');
            continue;
        };
        match long.split_once('=').unwrap_or((long, "")) {
            ("open-au", _) => open = true,
            ("random", _) => random = true,
            ("find-fat", _) => fat = true,
            ("open-au-nr", "") => aus = words.next().and_then(|count| count.parse().ok()),
            ("open-au-nr", count) => aus = count.parse().ok(),
            _ => {}
        }
    }
    Some(match aus.filter(|aus| open && *aus > 0) {
        Some(aus) if random => Table::Random(aus),
        Some(aus) => Table::Linear(aus),
        None if fat && !open => Table::Fat,
        None => Table::Unknown,
    })
}

/// Devices named in a command line of flashbench.
fn devices(line: &str) -> impl Iterator<Item = String> {
    let words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'', ';', ')', '`']));
    let is_device = |word: &&str| word.starts_with("/dev/") && !["/dev/null", "/dev/stdout"].contains(word);
    let words = words.filter(is_device).filter(|_| command(line).is_some());
    words.map(str::to_owned)
}

/// Short options without values in a word such as `-Or`. Characters after an option with a value are its value.
fn short_flags(word: &str) -> &str {
    let flags = word.strip_prefix('-').unwrap_or_default();
    flags.split(['o', 'F', 'c', 'b', 'e']).next().unwrap_or_default()
}

fn script_heading(line: &str) -> Option<Table> {
    let line = line.strip_prefix("=======")?.to_ascii_lowercase();
    let aus = line
        .split("au=")
        .nth(1)
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    Some(match aus {
        Some(aus) if line.contains("random") => Table::Random(aus),
        Some(aus) => Table::Linear(aus),
        None if line.contains("find fat:") => Table::Fat,
        None => Table::Unknown,
    })
}

/// A row of an alignment table: alignment, extra time across the border, and time beside it, ns.
fn border(line: &str) -> Option<(u64, f64, f64)> {
    let mut words = line.strip_prefix("align ")?.split_whitespace();
    let align = words.next()?.parse().ok().filter(|align| (1..=1 << 50).contains(align))?;
    let mut value = |name: &str| (words.next()? == name).then(|| nanoseconds(words.next()?))?;
    let (pre, on, post) = (value("pre")?, value("on")?, value("post")?);
    let base = f64::midpoint(pre, post);
    Some((align, on - base, base))
}

fn nanoseconds(text: &str) -> Option<f64> {
    let units = [("ns", 1.0), ("µs", 1e3), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    units
        .iter()
        .find_map(|(unit, ns)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ns))
        .filter(|ns| is_plausible(*ns))
}

fn is_plausible(value: f64) -> bool {
    (1e-3..1e15).contains(&value)
}

/// A row of speeds: size of a write, and speeds in B/s.
fn speeds(line: &str) -> Option<(u64, Vec<f64>)> {
    let mut words = line.split_whitespace();
    let bytes = bytes(words.next()?)?;
    let speeds: Vec<f64> = words.map(speed).collect::<Option<_>>()?;
    (!speeds.is_empty()).then_some((bytes, speeds))
}

fn bytes(text: &str) -> Option<u64> {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
    let found =
        units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?.parse::<u64>().ok()?, *bits)));
    found.filter(|(count, _)| (1..=1 << 20).contains(count)).map(|(count, bits)| count << bits)
}

fn speed(text: &str) -> Option<f64> {
    // flashbench's prefixes of speeds are decimal.
    let units = [("G/s", 1e9), ("M/s", 1e6), ("K/s", 1e3), ("B/s", 1.0)];
    units
        .iter()
        .find_map(|(unit, scale)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * scale))
        .filter(|value| is_plausible(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of a card with eraseblocks of 4 MiB, 3 of them open, and a special second one.
    fn log() -> String {
        let mut text = String::from("======= Align test: 1 =======\n");
        for bits in (10..30).rev() {
            let on = if bits >= 22 { 700 } else { 500 + bits };
            text += &format!("align {}\tpre 500µs\ton {on}µs\tpost 502µs\tdiff 0µs\n", 1_u64 << bits);
        }
        for _ in 0..2 {
            text += "======= find FAT: 1 =======\n4MiB    4M/s  4M/s 4M/s 4M/s\n";
            text += "1MiB    4.1M/s  12M/s 4M/s 4M/s\n64KiB    4.2M/s  12.1M/s 4M/s 4M/s\n";
        }
        for aus in 1..6 {
            let speed = if aus < 4 { 16 } else { 2 };
            text += &format!(
                "======= AU={aus}, linear access =======\n4MiB    4M/s\n1MiB    {speed}M/s\n64KiB    {speed}M/s\n"
            );
            // Each write closes an erase block, which takes half a second.
            text += &format!("======= AU={aus}, random access =======\n1MiB    1.85M/s\n64KiB    130K/s\n");
        }
        text
    }

    /// Rows of `--open-au` below a command line: sizes in KiB and times of a write in ms.
    fn table(command: &str, rows: &[(u64, f64)]) -> String {
        let row = |(kib, ms): &(u64, f64)| format!("{kib}KiB    {:.3}M/s\n", *kib as f64 * 1.024 / ms);
        format!("root@board:~# {command}\n{}", rows.iter().map(row).collect::<String>())
    }

    /// Times of sequential writes to one eraseblock, on a card of 20 MB/s.
    const IN_ORDER: [(u64, f64); 6] =
        [(1024, 52.0), (512, 26.0), (256, 13.0), (128, 6.5), (64, 3.3), (32, 1.7)];

    #[test]
    fn a_card_that_is_slow_in_random_order_from_the_first_row_on_is_counted_by_its_cliff() {
        // A factor of 4 in random order, as of a card that copies pages, which alone would be more than the cliff behind four blocks.
        let slow = |factor: f64| IN_ORDER.map(|(kib, ms)| (kib, ms * factor));
        let logs = [3.0, 5.0].map(|cliff| {
            let mut log = table("flashbench -O --open-au-nr=1 /dev/sdb", &IN_ORDER);
            for aus in 1..7 {
                let factor = if aus < 5 { 4.0 } else { 4.0 * cliff };
                log +=
                    &table(&format!("./flashbench -Or --open-au-nr {aus} -b 16384 /dev/sdb"), &slow(factor));
            }
            Log::parse(&log).unwrap().conclude().unwrap().open_aus_random
        });
        assert!(logs.iter().all(|answer| answer.count() == Some(4)), "{logs:?}");
    }

    #[test]
    fn no_open_block_is_concluded_from_what_closing_costs_and_never_from_one_table() {
        let conclude = |longer: fn(f64) -> f64, tables: u64| {
            let mut log = table("flashbench --open-au --open-au-nr=1 /dev/sdb", &IN_ORDER);
            for aus in 1..=tables {
                let rows = IN_ORDER.map(|(kib, ms)| (kib, longer(ms)));
                log +=
                    &table(&format!("sudo flashbench --open-au --random --open-au-nr={aus} /dev/sdb"), &rows);
            }
            Log::parse(&log).unwrap().conclude().unwrap().open_aus_random
        };
        let closing: fn(f64) -> f64 = |ms| ms + 200.0;
        let factor: fn(f64) -> f64 = |ms| 4.0 * ms;
        assert_eq!(conclude(closing, 5).count(), Some(0));
        for (longer, tables) in [(closing, 1), (factor, 1), (factor, 5)] {
            let answer = conclude(longer, tables);
            assert_eq!(answer.value, None, "{answer:?}");
        }
        assert_eq!(conclude(closing, 1).alternatives[0].value, Value::Count(0));
        assert!(conclude(factor, 5).reason.starts_with("at least 5: "));
    }

    #[test]
    fn tables_behind_command_lines_are_read() {
        let log = [
            "$ sudo ./flashbench -a /dev/sdb -b 1024\nalign 8388608\tpre 500\u{b5}s\ton 700\u{b5}s\tpost 500\u{b5}s\n".to_owned(),
            table("./flashbench --open-au --erasesize=$[4*1024*1024] /dev/sdb --open-au-nr=1", &IN_ORDER),
            table("flashbench /dev/sdb --open-au \\\n  --open-au-nr=2", &IN_ORDER),
            // Somebody has interrupted it, and its short writes are missing.
            table("flashbench -O --open-au-nr=3 /dev/sdb", &[(1024, 200.0), (512, 190.0)]) + "^C\n",
            "# flashbench -f --fat-nr=3 /dev/sdb\n1MiB 4M/s 12M/s 4M/s\n64KiB 4M/s 12M/s 4M/s\n".to_owned(),
        ];
        let log = Log::parse(&log.concat()).unwrap();
        assert_eq!((log.borders.len(), log.linear.len(), log.random.len(), log.fat.len()), (1, 3, 0, 1));
        assert_eq!(log.conclude().unwrap().open_aus_linear.count(), Some(2));
        for (line, expected) in [
            ("# flashbench --open-au /dev/sdb", "Linear(2)"),
            ("# flashbench -rO --open-au-nr=7 /dev/sdb", "Random(7)"),
            ("# flashbench -O -b4096 -ofr /dev/sdb", "Linear(2)"),
            ("for n in 1 2; do flashbench -O --open-au-nr=$n /dev/sdb; done", "Unknown"),
            ("# flashbench -s /dev/sdb", "Unknown"),
        ] {
            assert_eq!(format!("{:?}", heading(line).unwrap()), expected, "{line}");
        }
        assert!(heading("root@host:~/flashbench# ls").is_none());
    }

    #[test]
    fn a_log_gets_a_conclusion() {
        let answers = Log::parse(&log()).unwrap().conclude().unwrap();
        assert_eq!(answers.erase_block.count(), Some(4 << 20), "{:?}", answers.erase_block);
        assert_eq!(answers.open_aus_linear.count(), Some(3), "{:?}", answers.open_aus_linear);
        assert_eq!(answers.open_aus_random.count(), Some(0), "{:?}", answers.open_aus_random);
        assert_eq!(answers.fat_area.count(), Some(4 << 20), "{:?}", answers.fat_area);
        assert!(
            answers.fat_area.reason.starts_with("from 4 MiB: writes are 3.0 times as fast"),
            "{:?}",
            answers.fat_area
        );
        assert_eq!(answers.write_speed.value, Some(Value::Measure(16.0)));
    }

    #[test]
    fn a_log_may_be_anything() {
        assert_eq!(Log::parse(""), None);
        assert_eq!(
            Log::parse(
                "align 0\tpre 1us\ton 1us\tpost 1us\nalign 4096 pre nanus on 1us post 1us\n4MiB\n9999999MiB 1M/s\n"
            ),
            None
        );
        let good = log();
        for line in 0..good.lines().count() {
            let cut: Vec<&str> =
                good.lines().enumerate().filter(|(at, _)| *at != line).map(|(_, text)| text).collect();
            let answers = Log::parse(&cut.join("\n")).unwrap().conclude().unwrap();
            assert!(answers.all().iter().all(|(_, answer)| (0.0..1.0).contains(&answer.confidence)));
        }
        for text in [
            "align 4096\tpre 1us\ton 2us\tpost 1us\n",
            "======= AU=1, random access =======\n1MiB 1M/s\n",
            "1MiB 1M/s 2M/s\n",
        ] {
            Log::parse(text).unwrap().conclude().unwrap();
        }
    }

    /// Rows of an alignment table: MiB and us.
    fn rows(rows: &[(u64, f64)]) -> String {
        let row = |(mib, us): &(u64, f64)| {
            format!("align {}\tpre 1000µs\ton {}µs\tpost 1000µs\tdiff {us}µs\n", mib << 20, 1000.0 + us)
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn few_rows_tell_their_step_or_nothing() {
        let block = |table: &[(u64, f64)]| Log::parse(&rows(table)).unwrap().conclude().unwrap().erase_block;
        let five = block(&[(16, 171.0), (8, 178.0), (4, 169.0), (2, 37.7), (1, 39.1)]);
        assert!(five.count() == Some(4 << 20) && five.confidence < 0.5, "{five:?}");
        let six = block(&[(32, 174.0), (16, 171.0), (8, 178.0), (4, 169.0), (2, 37.7), (1, 39.1)]);
        assert!(six.count() == Some(4 << 20) && six.confidence < 0.5, "{six:?}");
        for few in [&[(16, 171.0)][..], &[(4, 169.0), (2, 37.7)], &[(4, 90.0), (2, 60.0), (1, 30.0)]] {
            let few = block(few);
            assert!(few.value.is_none() && few.confidence < 0.01, "{few:?}");
            assert!(few.reason.starts_with("too few rows"), "{few:?}");
        }
        // Most rows are as fast as each other, and one is not.
        let odd: Vec<(u64, f64)> =
            (0..7).map(|bits| (1 << bits, if bits == 3 { 400.0 } else { 30.0 })).collect();
        let odd = block(&odd);
        assert!(odd.value.is_none() && odd.reason.ends_with("below 400 us"), "{odd:?}");
    }

    #[test]
    fn tables_of_two_devices_are_refused_with_both_names() {
        let table = rows(&[(16, 171.0), (8, 178.0), (4, 169.0), (2, 37.7), (1, 39.1)]);
        let log = |devices: [&str; 2]| {
            let log: String =
                devices.iter().map(|device| format!("# flashbench -a {device}\n{table}")).collect();
            Log::parse(&log).unwrap().conclude()
        };
        assert!(log(["/dev/sdb", "/dev/sdb"]).is_ok());
        let refused = log(["/dev/sdb", "/dev/mmcblk0"]).unwrap_err();
        assert_eq!(refused.to_string(), "tables of several devices: /dev/mmcblk0, /dev/sdb");
    }
}

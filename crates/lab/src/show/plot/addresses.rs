//! Picture of the requests to a device: address over time. Reads, writes and cells with both have three colours;
//! boundaries of allocation units are faint lines (Chubb 2015).

use super::canvas::{Area, Canvas, MARGIN};
use super::legend::{Key, grid, keys, levels, vertical_title};
use super::palette::{GRID, series};
use super::scale::Scale;
use floatgate_mtd::{Nanos, SECTOR_BYTES};

const COLUMNS: usize = 420;
const ROWS: usize = 210;
/// Size of the picture, px: 2 for each cell, or less if an axis extends to a round number.
const WIDE: i32 = 840;
const HIGH: i32 = 420;
/// Width of the labels at the left, px.
const LABELS: i32 = 56;
/// Width for half of the last label at the right, px.
const EDGE: i32 = 20;
/// Minimum distance of two boundary lines, px.
const BORDERS_PX_MIN: f64 = 6.0;

/// Initial time of a column, ns. It doubles whenever the columns are full.
const COLUMN_NS: u64 = 1 << 10;
/// Initial number of sectors of a row. It doubles whenever the rows are full.
const ROW_SECTORS: u64 = 8;

/// Cells that contain requests of one kind.
#[derive(Clone, Debug)]
struct Cells(Vec<bool>);

impl Cells {
    fn new() -> Self {
        Self(vec![false; COLUMNS * ROWS])
    }

    /// Merges pairs of columns.
    fn fold_columns(&mut self) {
        for row in self.0.chunks_exact_mut(COLUMNS) {
            for column in 0..COLUMNS / 2 {
                row[column] = row[2 * column] || row[2 * column + 1];
            }
            row[COLUMNS / 2..].fill(false);
        }
    }

    /// Merges pairs of rows.
    fn fold_rows(&mut self) {
        for row in 0..ROWS / 2 {
            for column in 0..COLUMNS {
                let pair = 2 * row * COLUMNS + column;
                self.0[row * COLUMNS + column] = self.0[pair] || self.0[pair + COLUMNS];
            }
        }
        self.0[ROWS / 2 * COLUMNS..].fill(false);
    }
}

/// Addresses and times of requests, at the resolution of the picture: memory does not grow with the number of requests.
#[derive(Clone, Debug)]
pub struct Addresses {
    reads: Cells,
    writes: Cells,
    column_ns: u64,
    row_sectors: u64,
    end: Nanos,
    end_sector: u64,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            reads: Cells::new(),
            writes: Cells::new(),
            column_ns: COLUMN_NS,
            row_sectors: ROW_SECTORS,
            end: Nanos::ZERO,
            end_sector: 0,
        }
    }
}

impl Addresses {
    /// Adds a request at a time since the start.
    pub fn add(&mut self, at: Nanos, is_write: bool, sector: u64, sectors: u64) {
        if sectors == 0 {
            return;
        }
        let last = sector + sectors - 1;
        (self.end, self.end_sector) = (self.end.max(at), self.end_sector.max(last + 1));
        while at.as_ns() / self.column_ns >= COLUMNS as u64 {
            self.column_ns *= 2;
            self.reads.fold_columns();
            self.writes.fold_columns();
        }
        while last / self.row_sectors >= ROWS as u64 {
            self.row_sectors *= 2;
            self.reads.fold_rows();
            self.writes.fold_rows();
        }
        let cells = if is_write { &mut self.writes } else { &mut self.reads };
        let column = (at.as_ns() / self.column_ns) as usize;
        for row in sector / self.row_sectors..=last / self.row_sectors {
            cells.0[row as usize * COLUMNS + column] = true;
        }
    }
}

impl Addresses {
    /// Cells with reads only, with writes only, and with both.
    fn kinds(&self) -> [Cells; 3] {
        let of = |is_read: bool, is_write: bool| {
            let pairs = self.reads.0.iter().zip(&self.writes.0);
            Cells(pairs.map(|pair| pair == (&is_read, &is_write)).collect())
        };
        [of(true, false), of(false, true), of(true, true)]
    }
}

/// Picture of requests as an SVG document: a panel for each list of requests, with its name and its own scales.
pub fn addresses(panels: &[(String, &Addresses)], au_bytes: u64, (title, subtitle): (&str, &str)) -> String {
    let mut canvas = Canvas::new(title, 2 * MARGIN + LABELS + WIDE + EDGE);
    let mut y = canvas.heading(title, subtitle) + 8;
    for (name, requests) in panels {
        y = panel(&mut canvas, y, (name, requests), au_bytes);
    }
    canvas.finish(y)
}

/// Draws a panel with its top at `y`, and returns its bottom.
fn panel(canvas: &mut Canvas, y: i32, (name, requests): (&str, &Addresses), au_bytes: u64) -> i32 {
    let left = MARGIN + LABELS;
    let mib = |sectors: u64| (sectors * SECTOR_BYTES as u64) as f64 / f64::from(1 << 20);
    let x = Scale::linear((left, left + WIDE), requests.end.as_secs_f64().max(1e-9));
    let end_mib = mib(requests.end_sector).max(1e-3);
    let lines = border_step(au_bytes, end_mib);
    let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
    let named = [
        (Key::Fill(series(0).colour), format!("reads{of}")),
        (Key::Fill(series(1).colour), format!("writes{of}")),
        (Key::Fill(series(2).colour), "both".to_owned()),
        (Key::Fill(GRID), lines.1),
    ];
    let top = keys(canvas, y, left + WIDE, &named) + 24;
    let bottom = top + HIGH;
    let y = Scale::linear((bottom, top), end_mib);
    let border_mib = lines.0 as f64 / f64::from(1 << 20);
    for border in (1..).map(|n| f64::from(n) * border_mib).take_while(|at| *at <= end_mib) {
        canvas.line((left, y.at(border)), (left + WIDE, y.at(border)), GRID);
    }
    levels(canvas, &x, &y);
    grid(canvas, &x, (top, bottom), "time, s");
    vertical_title(canvas, top, "address, MiB");
    for (number, cells) in requests.kinds().iter().enumerate() {
        for (row, run) in runs(cells) {
            let time = |column: usize| x.at((column as u64 * requests.column_ns) as f64 / 1e9);
            let address = |row: usize| y.at(mib(row as u64 * requests.row_sectors));
            let (from, to, low, high) = (time(run.start), time(run.end), address(row), address(row + 1));
            // The last cell may extend beyond the scale, which ends at the requested value.
            let (to, high) = (to.min(left + WIDE), high.max(top));
            let area = Area { x: from, y: high, w: (to - from).max(1), h: (low - high).max(1) };
            canvas.fill(area, series(number).colour, String::new());
        }
    }
    bottom + 44
}

/// Distance of the boundary lines in bytes, wide enough to distinguish them, and its description.
fn border_step(au_bytes: u64, end_mib: f64) -> (u64, String) {
    let px = au_bytes as f64 / f64::from(1 << 20) / end_mib * f64::from(HIGH);
    let mut every: u64 = 1;
    while every < 1 << 40 && every as f64 * px < BORDERS_PX_MIN {
        every *= 2;
    }
    let name = if every == 1 { "borders of AUs".to_owned() } else { format!("borders of every {every} AUs") };
    (every.saturating_mul(au_bytes), name)
}

/// Rows, each with the ranges of consecutive cells that contain requests.
fn runs(cells: &Cells) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    cells.0.chunks_exact(COLUMNS).enumerate().flat_map(|(row, cells)| {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at + cells[at..].iter().position(|cell| *cell)?;
            let end = cells[start..].iter().position(|cell| !cell).map_or(COLUMNS, |len| start + len);
            at = end;
            Some((row, start..end))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::canvas::tests::{assert_shapes_inside, assert_texts_inside, assert_well_formed};
    use super::*;
    use proptest::prelude::*;

    fn picture(requests: &Addresses) -> String {
        addresses(&[("one".to_owned(), requests), ("two".to_owned(), requests)], 4 << 20, ("T", "S"))
    }

    #[test]
    fn requests_make_a_document() {
        let mut requests = Addresses::default();
        assert_well_formed(&picture(&requests));
        for n in 0..10_000 {
            requests.add(Nanos::from_us(n * 777), n % 3 == 0, n * 5000 % 8_000_000, 64);
        }
        let svg = picture(&requests);
        assert_well_formed(&svg);
        assert_texts_inside(&svg);
        assert_shapes_inside(&svg);
        assert!(svg.contains("borders of every 16 AUs"), "{}", &svg[..2000]);
    }

    proptest! {
        #[test]
        fn folding_keeps_each_request_in_its_cell(all in prop::collection::vec((0u64..1 << 50, 0u64..1 << 45), 1..50)) {
            let mut requests = Addresses::default();
            for (ns, sector) in &all {
                requests.add(Nanos::from_ns(*ns), true, *sector, 1);
            }
            let mut expected = vec![false; COLUMNS * ROWS];
            for (ns, sector) in all {
                let (column, row) = (ns / requests.column_ns, sector / requests.row_sectors);
                expected[row as usize * COLUMNS + column as usize] = true;
            }
            prop_assert!(requests.writes.0 == expected);
            prop_assert!(requests.reads.0.iter().all(|cell| !cell));
        }
    }
}

//! Picture of published figures over simulated ones, one row each.

use super::canvas::{Anchor, Area, Canvas, LABEL, MARGIN, SMALL, Type};
use super::legend::{Key, grid, keys};
use super::palette::{AXIS, FAINT, Rgb, Series, TEXT, series};
use super::scale::Scale;
use super::text_width::wrap;

/// Published figure or range of a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Published {
    /// A single published value.
    Figure(f64),
    /// A range between two values.
    Range(f64, f64),
}

/// A quantity with its published and simulated figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Name of the row.
    pub name: String,
    /// Figure or range in the document.
    pub published: Published,
    /// Simulated figure.
    pub simulated: f64,
    /// 80 % interval of the simulated figure, if any.
    pub interval: Option<(f64, f64)>,
    /// Text at the right: the residual.
    pub note: String,
}

/// Rows of a table on a common axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Title of the table.
    pub title: String,
    /// Unit of the figures, which is the title of the axis.
    pub unit: String,
    /// Rows of the table.
    pub rows: Vec<Compared>,
}

const WIDTH: i32 = 1000;
const NAMES: i32 = 330;
const NOTE: i32 = 120;
const ROW: i32 = 22;
/// Largest ratio of two figures on a linear axis. With a larger ratio, the small figures could not be compared.
const LINEAR: f64 = 20.0;

/// Style of simulated figures.
fn simulated() -> Series {
    series(0)
}

/// Colour of published figures and ranges.
fn published() -> Rgb {
    series(1).colour
}

/// Tables as an SVG document, one below the other. Simulated figures are squares with bars for their intervals.
/// Published figures are rings over them, and published ranges are bars behind them.
pub fn comparisons(title: &str, tables: &[Comparison]) -> String {
    let mut canvas = Canvas::new(title, WIDTH);
    let y = canvas.heading(title, "") + 6;
    let rows = || tables.iter().flat_map(|table| &table.rows);
    let mut legend = vec![(Key::Mark(simulated()), "simulated".to_owned())];
    if rows().any(|row| matches!(row.published, Published::Figure(_))) {
        legend.push((Key::Ring(published()), "published figure".to_owned()));
    }
    if rows().any(|row| matches!(row.published, Published::Range(..))) {
        legend.push((Key::Fill(published()), "published range".to_owned()));
    }
    if rows().any(|row| row.interval.is_some()) {
        legend.push((Key::Fill(FAINT), "80 % interval".to_owned()));
    }
    let mut y = keys(&mut canvas, y, WIDTH - MARGIN, &legend) + 4;
    for table in tables {
        y = draw(&mut canvas, y, table);
    }
    canvas.finish(y)
}

fn draw(canvas: &mut Canvas, y: i32, table: &Comparison) -> i32 {
    let mut y = y;
    for line in wrap(&table.title, LABEL + 2, WIDTH - 2 * MARGIN, 2) {
        canvas.text((MARGIN, y + 8), &line, Type::new(LABEL, TEXT, Anchor::Left).bold());
        y += 18;
    }
    let top = y + 22;
    let bottom = top + i32::try_from(table.rows.len()).unwrap_or(i32::MAX / ROW / 2).saturating_mul(ROW);
    let scale = scale(table);
    canvas.text((MARGIN + NAMES - 12, top - 10), "row", Type::new(SMALL, FAINT, Anchor::Right));
    canvas.text((WIDTH - MARGIN - NOTE + 12, top - 10), "residual", Type::new(SMALL, FAINT, Anchor::Left));
    grid(canvas, &scale, (top, bottom), &table.unit);
    for (i, row) in (0..).zip(&table.rows) {
        draw_row(canvas, top + i * ROW + ROW / 2, &scale, row);
    }
    bottom + 48
}

/// Axis that covers all figures of a table.
fn scale(table: &Comparison) -> Scale {
    let px = (MARGIN + NAMES, WIDTH - MARGIN - NOTE);
    let figures = table.rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.simulated, row.simulated));
        match row.published {
            Published::Figure(figure) => [figure, figure, row.simulated, low, high],
            Published::Range(min, max) => [min, max, row.simulated, low, high],
        }
    });
    let (min, max) = figures.fold((f64::INFINITY, 0.0_f64), |(min, max), f| (min.min(f), max.max(f)));
    if min > 0.0 && max > min * LINEAR { Scale::log(px, min, max) } else { Scale::linear(px, max) }
}

fn draw_row(canvas: &mut Canvas, middle: i32, scale: &Scale, row: &Compared) {
    let name = Type::new(LABEL, TEXT, Anchor::Right);
    canvas.text_within((MARGIN + NAMES - 12, middle), &row.name, name, NAMES - 12);
    canvas.line((scale.from, middle), (scale.to, middle), AXIS);
    let at = |figure: f64| scale.at(figure.max(0.0));
    let mark = (at(row.simulated), middle);
    let tip = format!("{}: simulated {}", row.name, row.simulated);
    if let Some((low, high)) = row.interval {
        let area = Area { x: at(low), y: middle - 2, w: (at(high) - at(low)).max(2), h: 4 };
        canvas.fill(area, FAINT, format!("{}: 80 % interval {low:.4} to {high:.4}", row.name));
    }
    match row.published {
        Published::Figure(figure) => {
            canvas.mark(mark, simulated(), tip);
            canvas.ring((at(figure), middle), published(), format!("{}: published {figure}", row.name));
        }
        Published::Range(min, max) => {
            let area = Area { x: at(min), y: middle - 5, w: (at(max) - at(min)).max(2), h: 10 };
            canvas.fill(area, published(), format!("{}: published {min} to {max}", row.name));
            canvas.mark(mark, simulated(), tip);
        }
    }
    let note = (WIDTH - MARGIN - NOTE + 12, middle);
    canvas.text_within(note, &row.note, Type::new(LABEL, FAINT, Anchor::Left), NOTE - 12);
}

#[cfg(test)]
mod tests {
    use super::super::canvas::tests::{assert_shapes_inside, assert_texts_inside, assert_well_formed};
    use super::*;

    fn table(rows: &[(Published, f64)]) -> Comparison {
        let rows = rows.iter().map(|&(published, simulated)| Compared {
            name: "page read".to_owned(),
            published,
            simulated,
            interval: Some((simulated * 0.8, simulated * 1.3)),
            note: "+1.0 %".to_owned(),
        });
        Comparison { title: "A table".to_owned(), unit: "KiB/s".to_owned(), rows: rows.collect() }
    }

    #[test]
    fn published_figures_are_drawn_over_simulated_ones() {
        let linear = table(&[(Published::Figure(900.0), 1000.0), (Published::Range(400.0, 1800.0), 300.0)]);
        let wide = table(&[(Published::Figure(2.0), 9e6), (Published::Figure(3e7), 1.0)]);
        let svg = comparisons("Papers", &[linear, wide, table(&[(Published::Figure(0.0), 0.0)]), table(&[])]);
        assert_well_formed(&svg);
        assert_texts_inside(&svg);
        assert_shapes_inside(&svg);
        assert!(svg.contains("\nKiB/s\n") && svg.contains("\nrow\n"), "both axes have titles");
        let simulated = svg.find("<title>page read: simulated 1000</title>").unwrap();
        assert!(
            simulated < svg.find("<title>page read: published 900</title>").unwrap(),
            "the ring is on top"
        );
    }
}

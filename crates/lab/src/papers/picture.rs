//! Picture of published figures over simulated ones, with a panel for each table.

use super::{Paper, Report, ReportRow};
use crate::show::plot::{Compared, Comparison, Published, comparisons};

/// Draws the comparison as an SVG document.
pub fn picture(papers: &[Paper], report: &Report) -> String {
    let tables = papers.iter().flat_map(|paper| {
        paper.tables.iter().map(move |table| {
            let own = |row: &&ReportRow| row.paper == paper.paper && row.table == table.name;
            Comparison {
                title: format!("{}/{}: {}", paper.paper, table.name, table.title),
                unit: table.unit.clone(),
                rows: report.rows.iter().filter(own).map(compared).collect(),
            }
        })
    });
    let title = match papers {
        [paper] => paper.title.as_str(),
        _ => "Published and simulated figures",
    };
    comparisons(title, &tables.collect::<Vec<_>>())
}

fn compared(row: &ReportRow) -> Compared {
    let published = match (row.published_min, row.published_max) {
        (Some(min), Some(max)) => Published::Range(min, max),
        (Some(end), None) | (None, Some(end)) => Published::Figure(end),
        _ => Published::Figure(row.published),
    };
    let tenths = (row.residual * 1000.0).round() / 10.0;
    let note = if tenths == 0.0 { "none".to_owned() } else { format!("{tenths:+.1} %") };
    let interval = row.simulated_min.zip(row.simulated_max);
    Compared { name: row.row.clone(), published, simulated: row.simulated, interval, note }
}

//! Sections as one HTML page.

use super::model::{Bar, Cell, Section, Table, Waterfall, plain};
use super::read::shown;
use crate::plot::{ink, percentages};
use floatgate_mtd::{Breakdown, Nanos, Phase};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::json;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Observable Plot with its licences, as `scripts/plot-library` makes it.
pub(super) const LIBRARY: &str = include_str!("plot/plot.min.js");

/// Nothing is loaded from anywhere: the policy lets a browser refuse it if anything tried.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The page with at most `most` rows of each table.
pub(super) fn page(
    title: &str,
    command: &str,
    comparison: Option<&Table>,
    sections: &[Section],
    most: usize,
) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="generator" content={ "floatgate " (env!("CARGO_PKG_VERSION")) };
                meta name="color-scheme" content="light dark";
                title { (plain(title)) }
                style { (PreEscaped(STYLE)) (PreEscaped(colours())) }
            }
            body {
                a.skip href="#main" { "Skip to the contents" }
                header {
                    h1 { (plain(title)) }
                    p { "Made by floatgate " (env!("CARGO_PKG_VERSION")) " with" }
                    pre.command tabindex="0" aria-label="Command that made this report" { code { (plain(command)) } }
                    (contents(comparison, sections))
                }
                main #main {
                    noscript { p { "Without JavaScript the tables cannot be sorted, and plots and waterfalls are not drawn." } }
                    (summary(sections))
                    @if let Some(table) = comparison {
                        section #comparison aria-labelledby="comparison-h" {
                            h2 #comparison-h { "Comparison" }
                            (self::table("comparison-t", table, most))
                        }
                    }
                    @for (number, section) in sections.iter().enumerate() { (self::section(number, section, most)) }
                }
                footer { p { "Columns that are empty in every row are left out. Virtual times are simulated; each number's source and confidence stand with its setup." } }
                @if draws(comparison, sections) { script { (PreEscaped(LIBRARY)) } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// True when a plot or a waterfall needs the library.
fn draws(comparison: Option<&Table>, sections: &[Section]) -> bool {
    let tables = sections.iter().flat_map(|section| &section.tables).chain(comparison);
    tables.into_iter().any(|table| table.plot)
        || sections.iter().any(|section| !section.waterfalls.is_empty())
}

/// Classes with the colours of the phases.
fn colours() -> String {
    let rule = |phase: Phase| {
        let [r, g, b] = ink(phase).rgb;
        format!(".p-{0}{{background:#{r:02x}{g:02x}{b:02x};fill:#{r:02x}{g:02x}{b:02x}}}", phase.name())
    };
    Phase::ALL.into_iter().map(rule).collect()
}

fn contents(comparison: Option<&Table>, sections: &[Section]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                li { a href="#summary" { "Summary" } }
                @if comparison.is_some() { li { a href="#comparison" { "Comparison" } } }
                @for (number, section) in sections.iter().enumerate() {
                    li { a href={ "#s" (number) } { (section.origin) } }
                }
            }
        }
    }
}

/// A row for each section: the first bars say most.
fn summary(sections: &[Section]) -> Markup {
    html! {
        section #summary aria-labelledby="summary-h" {
            h2 #summary-h { "Summary" }
            div.scroll tabindex="0" role="region" aria-label="Summary table" {
                table {
                    caption { "Inputs of this report" }
                    thead { tr { th scope="col" { "input" } th scope="col" { "kind" } th scope="col" { "title" } th scope="col" { "figures" } } }
                    tbody {
                        @for (number, section) in sections.iter().enumerate() {
                            tr {
                                th scope="row" { a href={ "#s" (number) } { (section.origin) } }
                                td { (section.kind) }
                                td { (section.heading) }
                                td { (figures(section)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figures(section: &Section) -> String {
    let of_bars: Vec<String> =
        section.bars.iter().take(4).map(|bar| format!("{}: {}", bar.name, bar.figure)).collect();
    if !of_bars.is_empty() {
        return of_bars.join("; ");
    }
    let facts: Vec<(&str, String)> = match section.tables.first().filter(|_| section.facts.is_empty()) {
        Some(table) => table.first_row(),
        None => section.facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect(),
    };
    let last = facts.iter().rev().take(3).rev();
    last.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ")
}

fn section(number: usize, section: &Section, most: usize) -> Markup {
    let id = |part: &str, i: usize| format!("s{number}-{part}{i}");
    html! {
        section id={ "s" (number) } aria-labelledby={ "s" (number) "-h" } {
            h2 id={ "s" (number) "-h" } { (section.heading) }
            p.origin { (section.origin) " (" (section.kind) ")" }
            @for note in &section.notes { p { (note) } }
            @if !section.facts.is_empty() {
                dl { @for (name, value) in &section.facts { div { dt { (name) } dd { (value) } } } }
            }
            @if !section.bars.is_empty() { (bars(&section.bars)) }
            @for (i, waterfall) in section.waterfalls.iter().enumerate() { (self::waterfall(&id("w", i), waterfall, most)) }
            @for (i, table) in section.tables.iter().enumerate() { (self::table(&id("t", i), table, most)) }
            @if let Some(sources) = &section.sources { (table(&id("sources", 0), sources, most)) }
        }
    }
}

fn bars(bars: &[Bar]) -> Markup {
    let mut used: Vec<Phase> = bars.iter().flat_map(|bar| &bar.parts).map(|(phase, _)| *phase).collect();
    used.sort_by_key(|phase| Phase::ALL.into_iter().position(|p| p == *phase));
    used.dedup();
    html! {
        h3 { "Where the time goes" }
        ul.legend { @for phase in &used { li { span.swatch.{ "p-" (phase.name()) } {} " " (phase.name()) } } }
        ul.bars { @for bar in bars { li { (self::bar(bar)) } } }
    }
}

fn bar(bar: &Bar) -> Markup {
    let mut times = Breakdown::default();
    bar.parts.iter().for_each(|&(phase, ns)| times.add(phase, Nanos::from_ns(ns)));
    let shares = percentages(&times);
    let words: Vec<String> = shares.iter().map(|(phase, share)| format!("{phase} {share:.1} %")).collect();
    let words = words.join(", ");
    let total: u64 = bar.parts.iter().map(|(_, ns)| *ns).sum();
    let width = |ns: u64| format!("width:{:.3}%", ns as f64 * 100.0 / total.max(1) as f64);
    let share = |phase: Phase| {
        let share = shares.iter().find(|(known, _)| *known == phase);
        share.map_or_else(|| "< 0.05 %".to_owned(), |(_, share)| format!("{share:.1} %"))
    };
    html! {
        p.figure { strong { (bar.name) } " " (bar.figure) }
        div.bar role="img" aria-label=(words) {
            @for &(phase, ns) in &bar.parts {
                span.{ "p-" (phase.name()) } style=(width(ns)) title={ (phase.name()) " " (share(phase)) } {}
            }
        }
        p.shares { (words) }
        @if !bar.advice.is_empty() { p.advice { (bar.advice) } }
    }
}

/// JSON inside a script element, in which no tag can begin.
fn embedded(value: &serde_json::Value) -> PreEscaped<String> {
    PreEscaped(
        value
            .to_string()
            .replace('<', "\\u003c")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029"),
    )
}

fn waterfall(id: &str, waterfall: &Waterfall, most: usize) -> Markup {
    let spans = waterfall.spans.iter().take(most);
    let data: Vec<_> =
        spans.clone().map(|s| json!([s.resource, s.phase, s.start_ns, s.end_ns, s.what])).collect();
    let left_out = waterfall.spans.len() - data.len();
    html! {
        figure.waterfall id=(id) {
            figcaption { "Waterfall: " (waterfall.caption) @if left_out > 0 { "; the last " (left_out) " steps are not drawn" } }
            div.controls role="group" aria-label="Zoom" {
                button type="button" data-zoom="in" { "Zoom in" }
                button type="button" data-zoom="out" { "Zoom out" }
                button type="button" data-zoom="left" { "Earlier" }
                button type="button" data-zoom="right" { "Later" }
                button type="button" data-zoom="all" { "All" }
            }
            div.canvas tabindex="0" role="group" aria-label="Waterfall. Plus and minus zoom, the arrow keys move, 0 shows all; the steps are listed below." {}
            p.readout role="status" aria-live="polite" { "Point at a step to read its times." }
            script type="application/json" { (embedded(&json!(data))) }
            details {
                summary { "The steps as a table" }
                div.scroll tabindex="0" role="region" aria-label="Steps" {
                    table {
                        caption { "Steps: " (waterfall.caption) }
                        thead { tr { th scope="col" { "resource" } th scope="col" { "activity" } th scope="col" { "phase" } th scope="col" { "from (ns)" } th scope="col" { "to (ns)" } } }
                        tbody { @for s in spans.take(500) {
                            tr { td { (s.resource) } td { (s.what) } td { (s.phase) } td.n { (s.start_ns) } td.n { (s.end_ns) } }
                        } }
                    }
                }
                @if waterfall.spans.len() > 500 { p { "The first 500 of " (waterfall.spans.len()) " steps are listed." } }
            }
        }
    }
}

fn table(id: &str, table: &Table, most: usize) -> Markup {
    let chosen = table.chosen(most);
    let numeric = table.numeric();
    let (shown_rows, all) = (chosen.len(), table.rows.len());
    html! {
        div.data id=(id) data-plot=[table.plot.then(|| table.equal.map_or_else(String::new, |columns| columns.join(",")))] {
            h3 { (table.caption) }
            @if shown_rows < all { p.left-out { (shown_rows) " of " (all) " rows are in this report: the Pareto front, and others at even distances." } }
            @if all > 1 {
                div.controls {
                    label for={ (id) "-f" } { "Filter rows" }
                    input type="search" id={ (id) "-f" } placeholder="word, column<60" aria-describedby={ (id) "-n" };
                    span.count id={ (id) "-n" } role="status" aria-live="polite" { (shown_rows) " rows" }
                }
            }
            div.scroll tabindex="0" role="region" aria-label=(table.caption) {
                table.sortable {
                    caption { (table.caption) }
                    thead { tr { @for (column, numeric) in table.columns.iter().zip(&numeric) {
                        th scope="col" class=[numeric.then_some("n")] aria-sort="none" data-better=[table.better(column)] {
                            @if all > 1 { button type="button" { (column) } } @else { (column) }
                        }
                    } } }
                    tbody { @for row in chosen.iter().filter_map(|&i| table.rows.get(i)) {
                        tr class=[row.marked.then_some("front")] {
                            @for (i, cell) in row.cells.iter().enumerate() { (self::cell(cell, i == 0)) }
                        }
                    } }
                }
            }
        }
    }
}

fn cell(cell: &Cell, is_head: bool) -> Markup {
    let text = shown(cell);
    match cell {
        // What is shown is rounded; sorting uses the exact value.
        Cell::Number(n) if n.to_string() == text => html! { td.n { (text) } },
        Cell::Number(n) => html! { td.n data-v=(n) { (text) } },
        _ if is_head => html! { th scope="row" { (text) } },
        // A sentence in a narrow column would make its row as tall as a screen.
        _ => html! { td.long[text.chars().count() > 40] { (text) } },
    }
}

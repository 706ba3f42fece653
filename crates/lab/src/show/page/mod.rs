//! HTML page made from sections.
//!
//! `model`: sections with their tables, bars and waterfalls. Style and script of the page are in `page.css` and
//! `page.js`, and its plotting library is in `plot`.

pub(crate) mod model;

use crate::show::number::three;
use crate::show::plot::{ink, percentages, resource_name};
use crate::show::report::{Timed, Waterfall};
use floatgate_device::Span;
use floatgate_mtd::{Nanos, Phase};
use model::{Cell, Chart, ChartBar, Heat, Section, Table, plain};
use serde_json::json;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Observable Plot with its licences, as created by `scripts/plot-library`.
pub(crate) const LIBRARY: &str = include_str!("plot/plot.min.js");

/// Content security policy: the page loads nothing, and a browser refuses any attempt.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// HTML of the page, with at most `most` rows per table.
pub(crate) fn page(
    title: &str,
    command: &str,
    comparison: Option<&Table>,
    sections: &[Section],
    most: usize,
) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let title = escaped(&plain(title));
    let compared = comparison.map_or_else(String::new, |compared| {
        let compared = table("comparison-t", compared, most);
        format!(
            r#"<section id="comparison" aria-labelledby="comparison-h"><h2 id="comparison-h">Comparison</h2>{compared}</section>"#
        )
    });
    let library =
        if draws(comparison, sections) { format!("<script>{LIBRARY}</script>") } else { String::new() };
    let opens = |one: &&Section| one.opens_report && sections.len() > 1;
    let (opening, others): (Vec<_>, Vec<_>) = sections.iter().enumerate().partition(|(_, one)| opens(one));
    let of = |all: &[(usize, &Section)]| {
        each(all, |(number, shown)| section(*number, shown, (most, sections.len() == 1)))
    };
    format!(
        r##"<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="generator" content="floatgate {version}"><meta name="color-scheme" content="light dark">
<title>{title}</title><style>{STYLE}{colours}</style></head>
<body><a class="skip" href="#main">Skip to the contents</a>
<header><h1>{title}</h1>{verdict}{contents}</header>
<main id="main">
<noscript><p>Without JavaScript the tables cannot be sorted, and plots and waterfalls are not drawn.</p></noscript>
{opening}{compared}{others}</main>
<footer><p>Made by floatgate {version} with</p>
<pre class="command" aria-label="Command that made this report"><code>{command}</code></pre><p>Columns that are empty in every row are left out. Virtual times are simulated; each number's source and confidence stand with its setup.</p></footer>
{library}<script>{SCRIPT}</script></body></html>"##,
        colours = colours(),
        command = escaped(&plain(command)),
        contents = contents(comparison, sections),
        verdict = verdict(sections),
        opening = of(&opening),
        others = of(&others),
    )
}

/// Text in which markup characters are escaped; also safe in attributes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text in which parts between backquotes become code.
fn coded(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escaped).collect();
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    each(parts.iter().enumerate(), |(number, part)| match number % 2 {
        0 => part.clone(),
        _ => format!("<code>{part}</code>"),
    })
}

/// Text in which no line breaks between a number and its unit.
fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for c in escaped(text).chars() {
        if c == ' ' && before.is_ascii_digit() {
            out += "&nbsp;";
        } else {
            out.push(c);
        }
        before = c;
    }
    out
}

/// Markup of all items, concatenated.
fn each<T>(items: impl IntoIterator<Item = T>, markup: impl FnMut(T) -> String) -> String {
    items.into_iter().map(markup).collect()
}

/// Row of heading cells.
fn heads(names: &[&str]) -> String {
    format!(
        "<thead><tr>{}</tr></thead>",
        each(names, |name| format!(r#"<th scope="col">{}</th>"#, escaped(name)))
    )
}

/// True if a plot or a waterfall needs the library.
fn draws(comparison: Option<&Table>, sections: &[Section]) -> bool {
    let tables = sections.iter().flat_map(|section| &section.tables).chain(comparison);
    tables.into_iter().any(|table| table.plot)
        || sections.iter().any(|section| !section.waterfalls.is_empty())
}

/// CSS classes with the colours of the phases.
fn colours() -> String {
    let rule = |phase: Phase| {
        let [r, g, b] = ink(phase).rgb;
        format!(".p-{0}{{background:#{r:02x}{g:02x}{b:02x};fill:#{r:02x}{g:02x}{b:02x}}}", phase.name())
    };
    Phase::ALL.into_iter().map(rule).collect()
}

fn contents(comparison: Option<&Table>, sections: &[Section]) -> String {
    let compared = comparison.map_or("", |_| r##"<li><a href="#comparison">Comparison</a></li>"##);
    let opens = |one: &Section| one.opens_report && sections.len() > 1;
    let links = |is_opening: bool| {
        let meant = sections.iter().enumerate().filter(|(_, section)| opens(section) == is_opening);
        each(meant, |(number, section)| {
            format!(r##"<li><a href="#s{number}">{}</a></li>"##, escaped(&section.origin))
        })
    };
    let (opening, others) = (links(true), links(false));
    format!(r##"<nav aria-label="Contents"><ul>{opening}{compared}{others}</ul></nav>"##)
}

/// Conclusions of all sections. If several targets were compared, only the conclusion of the
/// comparison.
fn verdict(sections: &[Section]) -> String {
    let opening = sections.iter().find(|one| one.opens_report);
    if let (Some(one), _) | (None, [one]) = (opening, sections) {
        return format!(r#"<p class="verdict" id="summary">{}</p>"#, unbroken(&figures(one)));
    }
    let lines = each(sections.iter().enumerate(), |(number, section)| {
        format!(
            r##"<div><dt><a href="#s{number}">{}</a></dt><dd>{}</dd></div>"##,
            escaped(&section.origin),
            unbroken(&figures(section)),
        )
    });
    format!(r#"<dl class="verdicts" id="summary">{lines}</dl>"#)
}

fn figures(section: &Section) -> String {
    if !section.conclusion.is_empty() {
        return section.conclusion.clone();
    }
    let of_bars: Vec<String> =
        section.bars.iter().take(4).map(|row| format!("{} {}", row.bar.label, row.figure)).collect();
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

fn section(number: usize, section: &Section, (most, is_alone): (usize, bool)) -> String {
    let id = |part: &str, i: usize| format!("s{number}-{part}{i}");
    let conclusion = match section.conclusion.as_str() {
        // The conclusion is already at the top of the page.
        _ if section.opens_report || is_alone => String::new(),
        "" => String::new(),
        conclusion => format!(r#"<p class="conclusion">{}</p>"#, unbroken(conclusion)),
    };
    let notes = each(&section.notes, |note| format!(r#"<p class="notes">{}</p>"#, coded(note)));
    let facts = each(&section.facts, |(name, value)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value))
    });
    let facts = match (facts.is_empty(), section.has_more_than_facts()) {
        (true, _) => facts,
        (false, false) => format!("<dl>{facts}</dl>"),
        (false, true) => format!("<details><summary>All values</summary><dl>{facts}</dl></details>"),
    };
    let heat = section.heat.as_ref().map_or_else(String::new, heat);
    let charts = match each(&section.charts(), chart) {
        none if none.is_empty() => none,
        charts => format!(r#"<div class="charts">{charts}</div>"#),
    };
    let bars = if section.bars.is_empty() { String::new() } else { bars(&section.bars) };
    let waterfalls =
        each(section.waterfalls.iter().enumerate(), |(i, shown)| waterfall(&id("w", i), shown, most));
    let tables = each(section.tables.iter().enumerate(), |(i, shown)| table(&id("t", i), shown, most));
    let sources = each(&section.sources, |shown| {
        let shown = table(&id("sources", 0), shown, most);
        format!("<details><summary>Sources of the numbers</summary>{shown}</details>")
    });
    format!(
        r#"<section id="s{number}" aria-labelledby="s{number}-h"><h2 id="s{number}-h">{heading}</h2>
<p class="origin">{origin} ({kind})</p>{conclusion}{heat}{charts}{bars}{waterfalls}{tables}{notes}{facts}{sources}</section>
"#,
        heading = escaped(&section.heading),
        origin = escaped(&section.origin),
        kind = escaped(&section.kind),
    )
}

/// Chart with a bar for each row of a table.
fn chart(shown: &Chart) -> String {
    let most = shown.bars.iter().map(|bar| bar.value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let line = |bar: &ChartBar| {
        let width = (bar.value / most * 100.0).clamp(0.0, 100.0);
        format!(
            r#"<li><span>{}</span><span class="track"><span style="width:{width:.2}%"></span></span><span class="n">{}</span></li>"#,
            escaped(&bar.name),
            escaped(&bar.text)
        )
    };
    let meaning = match shown.meaning() {
        "" => String::new(),
        meaning => format!(r#" <span class="meaning">({meaning})</span>"#),
    };
    format!(
        r#"<figure><figcaption>{}{meaning}</figcaption><ul class="chart">{}</ul></figure>"#,
        escaped(&shown.caption),
        each(&shown.bars, line)
    )
}

/// Heat map: a table whose cells are darker for larger ratios, with its scale.
fn heat(heat: &Heat) -> String {
    let share =
        |ratio: f64| (libm::log(ratio.max(1.0)) / libm::log(HEAT_MOST) * HEAT_SHARE).clamp(0.0, HEAT_SHARE);
    let groups = each(&heat.groups, |(name, columns)| {
        format!(r#"<th scope="colgroup" colspan="{}">{}</th>"#, columns.len(), escaped(name))
    });
    let columns = each(heat.groups.iter().flat_map(|(_, columns)| columns), |column| {
        format!(r#"<th scope="col">{}</th>"#, escaped(column))
    });
    let rows = each(&heat.rows, |(name, cells)| {
        let cells = each(cells, |cell| match cell {
            Some(ratio) => {
                format!(
                    r#"<td><i style="opacity:{:.2}"></i><span>{}</span></td>"#,
                    share(*ratio),
                    escaped(&three(*ratio))
                )
            }
            None => "<td></td>".to_owned(),
        });
        format!(r#"<tr><th scope="row">{}</th>{cells}</tr>"#, escaped(name))
    });
    let scale = each([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], |ratio: f64| {
        format!(r#"<li><span class="swatch"><i style="opacity:{:.2}"></i></span> {ratio}</li>"#, share(ratio))
    });
    let caption = escaped(&heat.caption);
    format!(
        r#"<div class="scroll"><table class="heat"><caption>{caption}</caption><thead><tr><td></td>{groups}</tr><tr><td></td>{columns}</tr></thead><tbody>{rows}</tbody></table></div>
<ul class="legend heat" aria-label="Scale">{scale}</ul>"#
    )
}

/// Ratio from which the colour of a heat map no longer changes, and its opacity there.
const HEAT_MOST: f64 = 32.0;
const HEAT_SHARE: f64 = 0.6;

fn bars(rows: &[Timed]) -> String {
    let is_used = |phase: &Phase| rows.iter().any(|row| row.bar.breakdown[*phase] > Nanos::ZERO);
    let legend = each(Phase::ALL.into_iter().filter(is_used), |phase| {
        format!(r#"<li><span class="swatch p-{phase}"></span> {phase}</li>"#)
    });
    let bars = each(rows, |row| format!("<li>{}</li>", bar(row)));
    format!(
        r#"<h3>Where the time goes</h3><p class="origin">Each bar is the whole time of its test.</p><ul class="legend">{legend}</ul><ul class="bars">{bars}</ul>"#
    )
}

fn bar(Timed { bar, figure, above, below, .. }: &Timed) -> String {
    let shares = percentages(&bar.breakdown);
    let words: Vec<String> = shares.iter().map(|(phase, share)| format!("{phase} {share:.1} %")).collect();
    let words = escaped(&words.join(", "));
    let total = bar.breakdown.total().as_ns();
    let share = |phase: Phase| {
        let share = shares.iter().find(|(known, _)| *known == phase);
        share.map_or_else(|| "&lt; 0.05 %".to_owned(), |(_, share)| format!("{share:.1} %"))
    };
    let parts = each(bar.breakdown.iter().filter(|(_, time)| *time > Nanos::ZERO), |(phase, time)| {
        let width = time.as_ns() as f64 * 100.0 / total.max(1) as f64;
        format!(
            r#"<span class="p-{phase}" style="width:{width:.3}%" title="{phase} {}"></span>"#,
            share(phase)
        )
    });
    let remark = |text: &str| format!(r#"<p class="advice">{}</p>"#, escaped(&plain(text)));
    format!(
        r#"<p class="figure"><strong>{}</strong> {}</p>{}<div class="bar" role="img" aria-label="{words}">{parts}</div><p class="shares">{words}</p>{}"#,
        escaped(&plain(&bar.label)),
        escaped(&plain(figure)),
        each(above, |line| remark(line)),
        each(below, |line| remark(&line.to_string())),
    )
}

/// JSON for a script element, escaped so that no tag can begin in it.
fn embedded(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Maximum number of steps of a waterfall that are listed below it.
const LISTED_STEPS: usize = 500;

fn waterfall(id: &str, waterfall: &Waterfall, most: usize) -> String {
    let spans = waterfall.spans.iter().take(most);
    let cells = |s: &Span| {
        let (resource, phase) = (resource_name(s.resource), s.phase.name());
        (resource, phase, s.start.as_ns(), s.end.as_ns(), plain(s.what))
    };
    let data: Vec<_> = spans.clone().map(|s| json!(cells(s))).collect();
    let left_out = match waterfall.spans.len() - data.len() {
        0 => String::new(),
        steps => format!("; the last {steps} steps are not drawn"),
    };
    let rows = each(spans.take(LISTED_STEPS).map(cells), |(resource, phase, start, end, what)| {
        let what = escaped(&what);
        format!(
            r#"<tr><td>{resource}</td><td>{what}</td><td>{phase}</td><td class="n">{start}</td><td class="n">{end}</td></tr>"#
        )
    });
    let rest = match waterfall.spans.len() {
        steps if steps > LISTED_STEPS => {
            format!("<p>The first {LISTED_STEPS} of {steps} steps are listed.</p>")
        }
        _ => String::new(),
    };
    format!(
        r#"<figure class="waterfall" id="{id}"><figcaption>Waterfall: {caption}{left_out}</figcaption>
<div class="controls" role="group" aria-label="Zoom"><button type="button" data-zoom="in">Zoom in</button>
<button type="button" data-zoom="out">Zoom out</button><button type="button" data-zoom="left">Earlier</button>
<button type="button" data-zoom="right">Later</button><button type="button" data-zoom="all">All</button></div>
<div class="canvas" tabindex="0" role="group" aria-label="Waterfall. Plus and minus zoom, the arrow keys move, 0 shows all; the steps are listed below."></div>
<p class="readout" role="status" aria-live="polite">Point at a step to read its times.</p>
<script type="application/json">{data}</script>
<details><summary>The steps as a table</summary><div class="scroll"><table>
<caption>Steps: {caption}</caption>{heads}<tbody>{rows}</tbody></table></div>{rest}</details></figure>"#,
        caption = escaped(&plain(&format!("{} {}", waterfall.operation, waterfall.duration))),
        data = embedded(&json!(data)),
        heads = heads(&["resource", "activity", "phase", "from (ns)", "to (ns)"]),
    )
}

fn table(id: &str, table: &Table, most: usize) -> String {
    let chosen = table.chosen(most);
    let numeric = table.numeric();
    let (shown_rows, all) = (chosen.len(), table.rows.len());
    let plot = match (&table.equal, table.plot) {
        (_, false) => String::new(),
        (equal, true) => {
            let columns: Vec<String> = equal.iter().flatten().map(ToString::to_string).collect();
            format!(r#" data-plot="{}""#, columns.join(","))
        }
    };
    let mut above = format!("<h3>{}</h3>", coded(&table.caption));
    if shown_rows < all {
        above += &format!(
            r#"<p class="left-out">{shown_rows} of {all} rows are in this report: the Pareto front, and others at even distances.</p>"#
        );
    }
    if all > 1 {
        above += &format!(
            r#"<div class="controls"><label for="{id}-f">Filter rows</label>
<input type="search" id="{id}-f" placeholder="word, column&lt;60" aria-describedby="{id}-n">
<span class="count" id="{id}-n" role="status" aria-live="polite">{shown_rows} rows</span></div>"#
        );
    }
    let columns = each(table.columns.iter().zip(&numeric), |(column, numeric)| {
        let class = if *numeric { r#" class="n""# } else { "" };
        let better =
            table.better(column).map_or_else(String::new, |better| format!(r#" data-better="{better}""#));
        let name = escaped(column);
        let name = if all > 1 { format!(r#"<button type="button">{name}</button>"#) } else { name };
        format!(r#"<th scope="col"{class} aria-sort="none"{better}>{name}</th>"#)
    });
    let rows = each(chosen.iter().filter_map(|&i| table.rows.get(i)), |row| {
        let class = if row.marked { r#" class="front""# } else { "" };
        format!("<tr{class}>{}</tr>", each(row.cells.iter().enumerate(), |(i, shown)| cell(shown, i == 0)))
    });
    let texts = |cells: &[Cell]| cells.iter().map(|cell| cell.shown().chars().count()).sum::<usize>();
    let mut drawn = chosen.iter().filter_map(|&i| table.rows.get(i));
    let is_tall = shown_rows >= TALL
        && table.columns.len() <= HALF_COLUMNS
        && drawn.all(|row| texts(&row.cells) <= HALF_TEXT);
    let (open, close) = match table.folded {
        true => (format!("<details><summary>{}</summary>", escaped(&table.caption)), "</details>"),
        false => (String::new(), ""),
    };
    format!(
        r#"{open}<div class="data" id="{id}"{plot}>{above}<div class="scroll{tall}">
<table class="sortable"><caption>{caption}</caption><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div></div>{close}
"#,
        tall = if is_tall { " tall" } else { "" },
        caption = escaped(&table.caption),
    )
}

/// Number of rows from which a table is set in two halves side by side on paper, if it is narrow enough: number of its columns, and
/// number of characters in a row.
const TALL: usize = 14;
const HALF_COLUMNS: usize = 11;
const HALF_TEXT: usize = 70;

fn cell(cell: &Cell, is_head: bool) -> String {
    let text = cell.shown();
    let words = escaped(&text);
    match cell {
        // The displayed value is rounded; sorting uses the exact value.
        Cell::Number(n) if n.to_string() == text => format!(r#"<td class="n">{words}</td>"#),
        Cell::Number(n) | Cell::Shown(n, _) => format!(r#"<td class="n" data-v="{n}">{words}</td>"#),
        _ if is_head => format!(r#"<th scope="row">{words}</th>"#),
        // A sentence in a narrow column would make its row very high.
        _ if text.chars().count() > 40 => format!(r#"<td class="long">{words}</td>"#),
        _ => format!("<td>{words}</td>"),
    }
}

//! Values that a fit does not change, and the fitted setup as TOML.

use super::parameters::{self, Parameter};
use super::{Block, FitReport, Measurement, Unknown};
use crate::interval::Interval;
use floatgate_config::{Library, Node, Override, Setup, Source, Value};
use floatgate_sim::error::Error;
use std::path::Path;

/// `set` lines that all figures share and that state a number which a fit would change. They are facts of the board.
pub(super) fn held(blocks: &[Block], parameters: &[Parameter]) -> Vec<String> {
    let path = |set: &str| set.split_once('=').map_or(set, |(path, _)| path).trim().to_owned();
    let states_a_number = |set: &str| parameters.iter().any(|p| covers(&path(set), &p.path));
    let is_shared = |set: &String| {
        blocks.iter().all(|block| {
            let same = || block.set.iter().filter(|other| path(other) == path(set));
            same().count() > 0 && same().all(|other| other == set)
        })
    };
    let first = blocks.first().map_or(&[][..], |first| first.set.as_slice());
    let mut held: Vec<String> = Vec::new();
    for set in first.iter().filter(|set| !names_a_file(&path(set)) && states_a_number(set) && is_shared(set))
    {
        if !held.contains(set) {
            held.push(set.clone());
        }
    }
    held
}

/// Blocks without these `set` lines.
pub(super) fn without(blocks: &[Block], held: &[String]) -> Vec<Block> {
    let one = |block: &Block| Block {
        set: block.set.iter().filter(|set| !held.contains(set)).cloned().collect(),
        ..block.clone()
    };
    blocks.iter().map(one).collect()
}

/// Blocks without the figures of these lines.
pub(super) fn without_lines(blocks: &[Block], lines: &[Unknown]) -> Vec<Block> {
    let is_left = |figure: &&Measurement| lines.iter().all(|unknown| unknown.line != figure.line);
    let one = |block: &Block| Block {
        figures: block.figures.iter().filter(is_left).cloned().collect(),
        ..block.clone()
    };
    blocks.iter().map(one).collect()
}

/// Parameters that no override states, and parameters that the user frees.
pub(super) fn open(all: Vec<Parameter>, sets: &[Override]) -> Vec<Parameter> {
    let stated: Vec<String> = sets.iter().map(Override::path).filter(|path| !names_a_file(path)).collect();
    let is_open = |p: &Parameter| p.is_freed() || !stated.iter().any(|path| covers(path, &p.path));
    all.into_iter().filter(is_open).collect()
}

/// True if an override of `path` states the number at `number`.
fn covers(path: &str, number: &str) -> bool {
    number.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// True of the path of a whole file.
fn names_a_file(path: &str) -> bool {
    matches!(path.split('.').next_back(), Some("chip" | "controller" | "host" | "base" | "profile"))
}

/// TOML of the fitted setup, based on the setup named `base`. `sets` are the overrides of the fit.
///
/// # Errors
/// The setup does not accept an override.
pub fn to_toml(
    report: &FitReport,
    library: &Library,
    (setup, base): (&Setup, &str),
    sets: &[Override],
) -> Result<String, Error> {
    let fitted = report.rows.iter().filter(|row| row.fitted).count();
    let mut text = format!(
        "title = {}\nsource = {}\nbase = {}\n",
        quoted(&format!("{}, fitted", report.title)),
        quoted(&format!(
            "floatgate fit to {fitted} figures, the worst {:.1} % away",
            report.worst.abs() * 100.0
        )),
        // A setup cannot have a part as its base, so a part's board is used.
        quoted(setup.board().unwrap_or(base))
    );
    let held = Override::parse_all(&report.held)?;
    let all: Vec<Override> = sets.iter().chain(&held).cloned().collect();
    let is_fitted = |path: &str| report.parameters.iter().any(|p| p.path == path);
    for (path, value) in leaves(&stated(library, setup, &all)?, "", "") {
        if !is_fitted(&path) && !["title", "source", "base"].contains(&path.as_str()) {
            text += &value;
        }
    }
    let mut heading = String::new();
    for p in report.predictions.iter().filter(|p| p.set.is_empty()) {
        let of = format!("# {}: KiB/s, and the 80 % interval of the board's by the figures\n", p.link);
        if of != heading {
            text += &of;
            heading = of;
        }
        let Interval { min, max } = p.interval;
        text += &format!("#   {}: {:.0}, {min:.0} to {max:.0}\n", p.name, p.kib_s);
    }
    for p in &report.parameters {
        text += &format!(
            "# {} to {}\n{} = {}\n",
            tidy(p.low),
            tidy(p.high),
            p.path,
            parameters::text(&p.path, p.value)
        );
    }
    Ok(text)
}

/// Tree of the values in the overrides and in the files that they name, to be merged over the setup.
fn stated(library: &Library, setup: &Setup, sets: &[Override]) -> Result<Node, Error> {
    let mut tree = Node::parse(&Source::text("the fitted setup", ""))?;
    let files = setup.with_files(sets)?;
    for table in ["chip", "controller", "host"] {
        let is_named = sets.iter().any(|set| set.names_a_base() && set.keys().first() == Some(&table));
        let is_of_part = setup.board().is_some() && table == "chip";
        if let Some(node) = files.child(table).filter(|_| is_named || is_of_part) {
            let mut node = node.clone();
            if let Some(base) = node.as_table_mut().and_then(|entries| entries.get_mut("base")) {
                make_absolute(base);
            }
            put(&mut tree, table, node);
        }
    }
    let config = library.resolve(setup, sets)?;
    for set in sets.iter().filter(|set| !set.names_a_base()) {
        match array(config.tree(), &set.keys()) {
            // TOML has no path into an array, so the whole array is written.
            Some((path, node)) => {
                Override::parse_of("the fitted setup", &format!("{path}={}", inline(node)))?
                    .apply(&mut tree)?;
            }
            None => set.apply(&mut tree)?,
        }
    }
    Ok(tree)
}

fn put(tree: &mut Node, key: &str, node: Node) {
    if let Some(entries) = tree.as_table_mut() {
        entries.insert(key.into(), node);
    }
}

/// Makes a path absolute, because the written file is in another folder.
fn make_absolute(base: &mut Node) {
    let Some(name) = base.as_text().filter(|name| name.contains(['/', '\\']) || name.ends_with(".toml"))
    else {
        return;
    };
    let path = base.origin.source.folder().unwrap_or(Path::new("")).join(name);
    if let Ok(path) = std::path::absolute(path) {
        base.value = Value::Text(path.to_string_lossy().into());
    }
}

/// First array on a path, with its own path.
fn array<'n>(tree: &'n Node, keys: &[&str]) -> Option<(String, &'n Node)> {
    (1..keys.len()).find_map(|n| {
        let path = keys.get(..n)?.join(".");
        let node = tree.get(&path).filter(|node| matches!(node.value, Value::Array(_)))?;
        Some((path, node))
    })
}

/// Lines of all values of a tree, each with its dotted path. `path` and `key` belong to the tree; `key` is quoted if
/// TOML requires it.
fn leaves(node: &Node, path: &str, key: &str) -> Vec<(String, String)> {
    let Some(table) = node.as_table() else {
        return vec![(path.to_owned(), format!("{key} = {}\n", inline(node)))];
    };
    let join =
        |above: &str, name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
    let is_bare = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let one = |(name, node): (&std::sync::Arc<str>, &Node)| {
        let shown = if is_bare(name) && !name.is_empty() { (**name).to_owned() } else { quoted(name) };
        leaves(node, &join(path, name), &join(key, &shown))
    };
    table.iter().flat_map(one).collect()
}

/// Text of a value in one line.
fn inline(node: &Node) -> String {
    toml::Value::try_from(node).map_or_else(|_| quoted(""), |value| value.to_string())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Text of a number with four significant digits.
fn tidy(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

//! Generates `docs/setup.md` from the types that read setups, parts, cards, controllers and hosts. `UPDATE_GOLDEN=1`
//! rewrites it.
//!
//! The sources are parsed line by line: rustfmt puts each field on its own line, below its documentation and
//! attributes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::{Kind, Library, Node, Value, keys};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Field of a struct, or variant of an enum.
#[derive(Clone, Debug, Default)]
struct Member {
    name: String,
    kind: String,
    doc: String,
    serde: String,
    /// Fields of the variant.
    fields: Vec<Self>,
}

/// Struct or enum that serde deserialises.
#[derive(Clone, Debug, Default)]
struct Type {
    file: PathBuf,
    is_enum: bool,
    attributes: String,
    members: Vec<Member>,
}

/// All types of the sources by name. Several modules may have types of the same name.
struct Sources {
    types: BTreeMap<String, Vec<Type>>,
    texts: BTreeMap<PathBuf, String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

impl Sources {
    fn read() -> Self {
        let mut files = Vec::new();
        let crates = ["device/src", "card/src", "config/src", "sim/src", "lab/src", "stack/src/ubi"];
        crates.iter().for_each(|folder| rust_files(&root().join("crates").join(folder), &mut files));
        files.sort();
        let mut all = Self { types: BTreeMap::new(), texts: BTreeMap::new() };
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (name, found) in types(&file, &text) {
                all.types.entry(name).or_default().push(found);
            }
            all.texts.insert(file, text);
        }
        all
    }

    /// Type of this name that is nearest to `by`.
    fn find(&self, name: &str, by: &Path) -> Option<&Type> {
        let common = |t: &&Type| t.file.components().zip(by.components()).take_while(|(a, b)| a == b).count();
        self.types.get(name)?.iter().max_by_key(common)
    }

    /// Body of the function or constant `name` in `file`, on one line.
    fn body(&self, file: &Path, name: &str) -> Option<String> {
        let text = &self.texts[file];
        let from = text.find(&format!("fn {name}() ->")).or_else(|| text.find(&format!("const {name}:")))?;
        let end = text[from..].find("\n}").or_else(|| text[from..].find("};"))?;
        let body = text[from..from + end].split_once(['{', '='])?.1;
        Some(body.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Values that `Default` gives to the fields of a type, as written.
    fn defaults(&self, name: &str, of: &Type) -> BTreeMap<String, String> {
        let text = &self.texts[&of.file];
        let Some(from) = text.find(&format!("impl Default for {name} {{")) else { return BTreeMap::new() };
        let mut body = text[from..].split_once("-> Self {").unwrap().1;
        if let Some(constant) = body.lines().take(5).find_map(|l| l.trim().strip_prefix("Self::")) {
            body = &text[text.find(&format!("const {constant}: Self")).unwrap()..];
        }
        let body = body.split_once("Self {").unwrap().1.split_once('}').unwrap().0;
        let flat = body.split_whitespace().collect::<Vec<_>>().join(" ");
        flat.split(", ")
            .filter_map(|field| field.trim_end_matches(',').split_once(": "))
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect()
    }

    /// Value of a default as in a setup, also of `FilesystemKind::default()` and of a field of another default.
    fn value(&self, value: &str, by: &Path) -> String {
        let Some((kind, rest)) = value.split_once("::default()") else { return plain(value) };
        let value = match rest.strip_prefix('.') {
            None => self.variant(kind, by).unwrap_or_else(|| panic!("{kind} has no default")),
            Some(field) => plain(&self.field(kind, field)),
        };
        assert!(!value.contains(['(', ':']), "the default {value} is no value of a setup");
        value
    }

    /// Value of a field of a default. A constant has its value.
    fn field(&self, kind: &str, field: &str) -> String {
        let line = |start: &str, text: &str| {
            let found = text.lines().find_map(|line| line.trim().strip_prefix(start));
            found.map(|rest| rest.trim_end_matches([',', ';']).to_owned())
        };
        let defaults = |text: &&String| text.contains(&format!("impl Default for {kind} {{"));
        let text = self.texts.values().find(defaults).unwrap();
        let value = line(&format!("{field}: "), text.split_once("impl Default for").unwrap().1).unwrap();
        let constant = self.texts.values().find_map(|text| {
            let constant = format!("const {value}: ");
            line(&constant, text).or_else(|| line(&format!("pub {constant}"), text))
        });
        constant.map_or(value, |constant| constant.split_once(" = ").unwrap().1.to_owned())
    }
}

/// Types in a file that derive `Deserialize`.
fn types(file: &Path, text: &str) -> Vec<(String, Type)> {
    let mut out = Vec::new();
    let (mut attributes, mut reads) = (String::new(), false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[derive(") {
            reads = line.contains("Deserialize");
        } else if line.starts_with("#[serde(") {
            attributes += line;
        } else if let Some(rest) = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "))
        {
            let name = rest.split([' ', '(', '<']).next().unwrap().to_owned();
            if reads && rest.ends_with('{') {
                let members = members(&mut lines);
                let attributes = std::mem::take(&mut attributes);
                let is_enum = line.starts_with("pub enum");
                out.push((name, Type { file: file.to_owned(), is_enum, attributes, members }));
            }
            (attributes, reads) = (String::new(), false);
        } else if !line.starts_with("///") {
            (attributes, reads) = (String::new(), false);
        }
    }
    out
}

/// Members up to the closing brace.
fn members<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<Member> {
    let mut out: Vec<Member> = Vec::new();
    let mut member = Member::default();
    for line in lines.take_while(|line| *line != "}") {
        let nested = line.starts_with("        ");
        let inner = line.trim_start();
        if let Some(doc) = inner.strip_prefix("/// ") {
            member.doc += if member.doc.is_empty() { "" } else { " " };
            member.doc += doc;
        } else if inner.starts_with("#[serde(") {
            member.serde += inner;
        } else if !inner.starts_with([' ', '#', '/', '}']) && !inner.is_empty() {
            let inner = inner.trim_end_matches([',', '{']).trim();
            let (name, kind) = inner.split_once(": ").unwrap_or((inner.split('(').next().unwrap(), ""));
            let name = name.rsplit(' ').next().unwrap().to_owned();
            let found = Member { name, kind: kind.to_owned(), ..std::mem::take(&mut member) };
            match out.last_mut().filter(|_| nested) {
                Some(variant) => variant.fields.push(found),
                None => out.push(found),
            }
        }
    }
    out
}

/// Text between `before` and the next quote.
fn quoted<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split('"').next()
}

/// Type inside `Option`, `Vec`, `Arc`, `Box` and arrays, and whether it is a list.
fn inner(kind: &str) -> (&str, bool) {
    for (wrapper, many) in [("Option<", false), ("Arc<", false), ("Box<", false), ("Vec<", true)] {
        if let Some(rest) = kind.strip_prefix(wrapper) {
            let (name, more) = inner(rest.strip_suffix('>').unwrap());
            return (name, many || more);
        }
    }
    match kind.strip_prefix("BTreeMap<String, ") {
        Some(rest) => (inner(rest.strip_suffix('>').unwrap()).0, false),
        None => (kind.trim_start_matches('[').split(';').next().unwrap(), kind.starts_with('[')),
    }
}

fn unit(name: &str) -> &'static str {
    let units = [
        ("_ns_per_kb", "ns per 1000 B"),
        ("_ns_per_kib", "ns per 1024 B"),
        ("ns_per_byte", "ns per byte"),
        ("_us_per_bit", "us per bit"),
        ("_us_per_byte", "us per byte"),
        ("ns_per_kb", "ns per 1000 B"),
        ("_hz", "Hz"),
        ("_us", "us"),
        ("_ua", "uA"),
        ("_mv", "mV"),
        ("_ns", "ns"),
        ("_ps", "ps"),
        ("_bytes", "bytes"),
        ("_days", "days"),
        ("_years", "years"),
        ("_ev", "eV"),
        ("_c", "C"),
        ("_cycles", "cycles"),
    ];
    match name {
        "ns" => "ns",
        "us" => "us",
        "bytes" => "bytes",
        "cycles" => "cycles",
        _ => units.iter().find(|(suffix, _)| name.ends_with(suffix)).map_or("", |(_, unit)| unit),
    }
}

/// Text of a default in TOML.
fn plain(value: &str) -> String {
    let value = value.trim().trim_end_matches(';').trim();
    let number = |text: &str| text.trim_end_matches(')').replace('_', "");
    for (call, factor) in [("Nanos::from_ms(", "000"), ("Nanos::from_us(", ""), ("Nanos::from_ns(", " ns")] {
        if let Some(rest) = value.strip_prefix(call) {
            return format!("{}{factor}", number(rest));
        }
    }
    match value {
        "Nanos::ZERO" | "0" | "0.0" => "0".to_owned(),
        "None" | "Vec::new()" => "none".to_owned(),
        // Types that are not parsed field by field.
        "Modes::up_to(0)" => "[0]".to_owned(),
        "vec![MarkerPage::First]" => "[\"first\"]".to_owned(),
        _ if value.starts_with(|c: char| c.is_ascii_digit()) => value.replace('_', ""),
        _ => match value.rsplit_once("::") {
            Some((_, variant)) if variant.chars().all(char::is_alphanumeric) => kebab(variant),
            _ => value.to_owned(),
        },
    }
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// A row of the document.
struct Row {
    key: String,
    unit: String,
    default: String,
    meaning: String,
}

impl Sources {
    fn rows(&self, prefix: &str, name: &str, by: &Path) -> Vec<Row> {
        let of = self.find(name, by).unwrap_or_else(|| panic!("no type {name} near {}", by.display()));
        let defaults = self.defaults(name, of);
        let mut out = Vec::new();
        for member in &of.members {
            let key = quoted(&member.serde, "rename = \"").unwrap_or(&member.name);
            let (kind, many) = inner(&member.kind);
            let several = match () {
                () if member.kind.starts_with("BTreeMap<String, ") => ".<name>",
                () if many && self.is_table(kind, &of.file) => "[]",
                () => "",
            };
            let key = format!("{prefix}{key}{several}");
            let row = Row {
                unit: match member.name.as_str() {
                    "typ" | "max" if prefix.ends_with("_us.") => "us".to_owned(),
                    _ if member.doc.starts_with("Exponent") => String::new(),
                    name => unit(name).to_owned(),
                },
                default: self.default(member, of, &defaults),
                meaning: format!("{}{}", member.doc, self.choices(kind, &of.file)),
                key,
            };
            let below = format!("{}.", row.key);
            out.push(row);
            if self.is_table(kind, &of.file) {
                out.extend(self.rows(&below, kind, &of.file));
            }
            out.extend(self.variants(&below, kind, &of.file));
        }
        out
    }

    /// Keys of a table whose fields depend on one of them.
    fn variants(&self, prefix: &str, kind: &str, by: &Path) -> Vec<Row> {
        let Some(of) = self.find(kind, by).filter(|found| found.is_enum) else { return Vec::new() };
        let Some(tag) = quoted(&of.attributes, "tag = \"") else { return Vec::new() };
        let row = |key: &str, default: String, unit: &str, meaning: String| Row {
            key: format!("{prefix}{key}"),
            unit: unit.to_owned(),
            default,
            meaning,
        };
        let mut out = vec![row(tag, "required".to_owned(), "", "Kind of the table.".to_owned())];
        for variant in &of.members {
            for field in &variant.fields {
                let default = self.default(field, of, &BTreeMap::new());
                let meaning = format!("With `{tag} = \"{}\"`: {}", kebab(&variant.name), field.doc);
                out.push(row(&field.name, default, unit(&field.name), meaning));
            }
        }
        out
    }

    fn is_table(&self, kind: &str, by: &Path) -> bool {
        self.find(kind, by).is_some_and(|found| !found.is_enum)
    }

    /// Values of an enum.
    fn choices(&self, kind: &str, by: &Path) -> String {
        let Some(found) = self.find(kind, by).filter(|found| found.is_enum) else { return String::new() };
        let lower = found.attributes.contains("rename_all = \"lowercase\"");
        let name = |member: &Member| match quoted(&member.serde, "rename = \"") {
            Some(name) => name.to_owned(),
            None if lower => member.name.to_lowercase(),
            None => kebab(&member.name),
        };
        let values: Vec<String> =
            found.members.iter().map(|m| format!("`{}`: {}", name(m), m.doc.trim_end_matches('.'))).collect();
        let tag =
            quoted(&found.attributes, "tag = \"").map_or_else(String::new, |tag| format!(" the {tag}s:"));
        format!(" One of{tag} {}.", values.join("; "))
    }

    fn default(&self, member: &Member, of: &Type, defaults: &BTreeMap<String, String>) -> String {
        let zero = || match inner(&member.kind) {
            _ if member.kind.starts_with("Option<") => "none".to_owned(),
            (_, true) => "none".to_owned(),
            ("bool", _) => "false".to_owned(),
            ("String", _) => "empty".to_owned(),
            ("Nanos", _) => "0".to_owned(),
            (kind, _) if kind.starts_with(['u', 'i', 'f']) => "0".to_owned(),
            (kind, _) if self.is_table(kind, &of.file) => "as below".to_owned(),
            (kind, _) => self.variant(kind, &of.file).unwrap_or_else(|| "none".to_owned()),
        };
        if let Some(function) = quoted(&member.serde, "default = \"") {
            return self.body(&of.file, function).map_or_else(|| function.to_owned(), |body| plain(&body));
        }
        let own = member.serde.contains("(default") || of.attributes.contains("default");
        match defaults.get(&member.name) {
            Some(value) if of.attributes.contains("default") => self.value(value, &of.file),
            _ if own => zero(),
            _ if member.kind.starts_with("Option<") && !member.serde.contains("with") => "none".to_owned(),
            _ => "required".to_owned(),
        }
    }

    /// Variant that is marked as default.
    fn variant(&self, kind: &str, by: &Path) -> Option<String> {
        let found = self.find(kind, by).filter(|found| found.is_enum)?;
        let text = &self.texts[&found.file];
        let from = text.find(&format!("pub enum {kind} {{"))?;
        let rest = text[from..].split_once("#[default]")?.1;
        let name = rest.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with(['/', '#']))?;
        let name = name.trim_end_matches([',', '{']).trim();
        let lower = found.attributes.contains("rename_all = \"lowercase\"");
        Some(if lower { name.to_lowercase() } else { kebab(name) })
    }
}

/// Section of the document: title, prefix of its keys, type, and file of the type.
const SECTIONS: [(&str, &str, &str, &str); 24] = [
    ("Cells: wear, age and temperature of a NAND", "cells.", "CellsProfile", "device/src/cells/block.rs"),
    ("ECC engine of a NAND", "ecc.", "EccProfile", "device/src/ecc_engine.rs"),
    ("Partition, or `[[partition]]` for each of several", "partition.", "Partition", "sim/src/partition.rs"),
    ("Filesystem", "filesystem.", "Filesystem", "sim/src/machine.rs"),
    ("Page cache", "page_cache.", "PageCacheProfile", "sim/src/page_cache.rs"),
    ("Host", "host.", "HostProfile", "device/src/host.rs"),
    ("CPU of a host, from which its costs follow", "host.cpu.", "CpuProfile", "config/src/mechanism.rs"),
    (
        "Work of a controller's driver, from which its costs follow",
        "controller.work.",
        "DriverWork",
        "config/src/mechanism.rs",
    ),
    ("Bus of SPI chips", "bus.", "SpiBus", "device/src/spi/controller.rs"),
    ("Bus of raw NAND", "bus.", "NandBoard", "device/src/raw_nand/controller.rs"),
    ("Bus of parallel NOR", "bus.", "NorBus", "device/src/parallel_nor/bus.rs"),
    ("Controller of SPI chips", "controller.", "SpiProfile", "device/src/spi/controller.rs"),
    ("Controller of raw NAND", "controller.", "NandProfile", "device/src/raw_nand/controller.rs"),
    ("Controller of parallel NOR", "controller.", "NorProfile", "device/src/parallel_nor/bus.rs"),
    ("Driver of SPI NAND", "driver.", "Options", "device/src/spi_nand/driver/mod.rs"),
    ("Driver of raw NAND", "driver.", "Options", "device/src/raw_nand/driver/mod.rs"),
    ("Driver of SPI NOR", "driver.", "Options", "device/src/spi_nor/driver/options.rs"),
    ("Driver of parallel NOR", "driver.", "Options", "device/src/parallel_nor/driver/mod.rs"),
    ("Firmware of `papers keystore`", "firmware.", "Firmware", "sim/src/firmware.rs"),
    ("Chip: raw NAND", "chip.", "RawNandSpec", "device/src/raw_nand/spec.rs"),
    ("Chip: SPI NAND", "chip.", "SpiNandSpec", "device/src/spi_nand/spec/mod.rs"),
    ("Chip: SPI NOR", "chip.", "SpiNorSpec", "device/src/spi_nor/spec.rs"),
    ("Chip: parallel NOR", "chip.", "ParallelNorSpec", "device/src/parallel_nor/spec.rs"),
    ("Card: SD card or eMMC", "card.", "CardSpec", "card/src/spec/mod.rs"),
];

const HEAD: &str = "# Keys of setups, parts, controllers and hosts

A setup is a TOML file; `floatgate list NAME` prints one to start from. `chip`, `controller` and `host` name a file of `parts/`,
`controllers/` and `hosts/` in `crates/config/data/`, or are tables with `base = \"NAME\"` and the keys that differ. `--set KEY=VALUE` overrides any key.
In such a table, keys have no prefix: `host = { base = \"linux-cpu\", cpu.core = \"cortex-a7\" }`.
A part file of your own begins with the part that it is based on and with its name; the keys that differ follow: `base = \"w25n01gv\"`, `name = \"MINE\"`,
`chip.timing.t_prog_us.typ = 400`. Every command accepts the path of such a file as a part. Commands that need a board use the best matching board of the catalogue.
A plain number has the unit of its key; a text may name another: `\"80 MHz\"`, `\"3.5 ms\"`, `\"64 KiB\"`.
`required` means that the key has no default; a file must contain it if it contains the key's table. A table whose default is
`as below` has the defaults of its keys. `key[]` is a list of tables, `key.<name>` a table for
each name.

This page is generated from the types that read the files: `UPDATE_GOLDEN=1 cargo test --workspace --test setup_keys` rewrites it, and
`floatgate list keys` prints it as a table.

## Setup

| key | unit | default | meaning |
|---|---|---|---|
| `title` |  | empty | Title of the setup. |
| `source` |  | empty | Source of the setup's own values. |
| `base` |  | none | Setup that this one is based on: a name or a path. |
| `chip` |  | required | Name of a part, or the table of a chip. In the table, `base` names a part, and `profile` one of its profiles. |
| `controller` |  | none | Name of a controller, or its table; `base` names a controller, and `profile` one of its profiles. |
| `host` |  | none | Name of a host, or its table; `base` names a host, and `profile` one of its profiles. |
| `concat` |  | none | List of parts whose chips follow `chip` on the same bus, each with its own chip select. All chips form one MTD, like Linux's `mtdconcat`: `concat = [\"w25n01gv\"]`. They have the same kind, page size, OOB and ECC; only NOR may have different eraseblocks, and is erased in the largest of them. |
| `use` |  | first partition | Name of the partition to use, if the setup has several. |
| `part` |  | none | Description of a chip that the setup itself defines: `kind`, `name`, `maker`, `title`, `source`. |
";

fn document() -> String {
    let sources = Sources::read();
    let mut text = HEAD.to_owned();
    for (title, prefix, name, file) in SECTIONS {
        text += &format!("\n## {title}\n\n| key | unit | default | meaning |\n|---|---|---|---|\n");
        for row in sources.rows(prefix, name, &root().join("crates").join(file)) {
            let meaning = row.meaning.replace('|', "\\|");
            assert!(!meaning.is_empty(), "{} has no documentation", row.key);
            text += &format!(
                "| `{}` | {} | {} | {meaning} |\n",
                row.key,
                row.unit,
                row.default.replace('|', "\\|")
            );
        }
    }
    text
}

#[test]
fn every_key_of_the_types_has_its_line() {
    let path = root().join("docs/setup.md");
    let fresh = document();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    for (old, new) in kept.lines().zip(fresh.lines()) {
        assert_eq!(old, new, "docs/setup.md is not current: UPDATE_GOLDEN=1 rewrites it");
    }
    assert_eq!(kept, fresh);
}

/// Paths of all values of a file, with list elements as `name[]`.
fn paths(node: &Node, path: &str, out: &mut BTreeSet<String>) {
    match &node.value {
        Value::Table(table) => {
            for (key, node) in table {
                paths(node, &if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }, out);
            }
        }
        Value::Array(all) if all.iter().any(|node| node.as_table().is_some()) => {
            all.iter().for_each(|node| paths(node, &format!("{path}[]"), out));
        }
        _ => {
            out.insert(path.to_owned());
        }
    }
}

/// Checks the document against all built-in files, which were not written for it.
#[test]
fn every_key_of_the_catalogue_is_documented() {
    let library = Library::built_in();
    let known: BTreeSet<String> = keys().into_iter().map(|key| key.key).collect();
    let mut used = BTreeSet::new();
    let kinds =
        [(Kind::Part, "chip"), (Kind::Card, "card"), (Kind::Controller, "controller"), (Kind::Host, "host")];
    for (kind, table) in kinds {
        for name in library.names(kind) {
            paths(&library.load(kind, name).unwrap().table, table, &mut used);
        }
    }
    for name in library.names(Kind::Setup) {
        paths(library.setup(name).unwrap().tree(), "", &mut used);
    }
    let heads =
        ["chip.base", "chip.profile", "controller.base", "controller.profile", "host.base", "host.profile"];
    let named = |path: &str| {
        let mut keys = path.splitn(4, '.');
        let (table, key, _, rest) = (keys.next()?, keys.next()?, keys.next()?, keys.next()?);
        Some(format!("{table}.{key}.<name>.{rest}"))
    };
    let documented = |path: &str| {
        let by_name = named(path).is_some_and(|path| known.contains(&path));
        let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
        heads.contains(&path) || known.contains(path) || by_name || path.starts_with("part.") || {
            // Opaque values: a typical and a maximum time, and tables whose types parse themselves.
            known.contains(parent) && !known.iter().any(|key| key.starts_with(&format!("{parent}.")))
        }
    };
    let missing: Vec<&String> = used.iter().filter(|path| !documented(path)).collect();
    assert!(missing.is_empty(), "not in docs/setup.md: {missing:?}");
    assert!(used.len() > 200, "{}", used.len());
}

//! JSON Schema (2020-12) of every result, generated from the tables of docs/json.md. A test compares these with real
//! output in both directions.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The page that documents the JSON of every command.
const PAGE: &str = include_str!("../../json.md");

/// Dialect of the schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Title of the section with the keys of every result.
const ENVELOPE: &str = "Envelope";

/// A kind of result: a section of docs/json.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentedKind {
    /// Value of `kind` in the JSON, such as `card-speed`.
    pub kind: &'static str,
    /// Title of its section, usually the command that prints it.
    pub title: &'static str,
}

/// Kinds of all results, in the order of docs/json.md.
pub fn documented_kinds() -> Vec<DocumentedKind> {
    let of_section = |section: Section| Some(DocumentedKind { kind: section.kind?, title: section.title });
    sections().into_iter().filter_map(of_section).collect()
}

/// JSON Schema of the results of one kind; `None` for an unknown kind.
pub fn schema_of(kind: &str) -> Option<Value> {
    let sections = sections();
    let section = sections.iter().find(|section| section.kind == Some(kind))?;
    let mut names = vec![ENVELOPE, section.title];
    add_references(&sections, &mut names);
    Some(json!({
        "$schema": DIALECT,
        "title": format!("floatgate {}", section.title),
        "type": "object",
        "properties": { "kind": { "const": kind } },
        "allOf": [reference(ENVELOPE), reference(section.title)],
        "$defs": definitions(sections.iter().filter(|section| names.contains(&section.title))),
    }))
}

/// JSON Schema of the results of all kinds. The value of `kind` selects the definition.
pub fn schema_of_all() -> Value {
    let sections = sections();
    let of_kind = |section: &Section| {
        let kind = section.kind?;
        Some(json!({
            "if": { "properties": { "kind": { "const": kind } } },
            "then": reference(section.title),
        }))
    };
    let kinds: Vec<&str> = sections.iter().filter_map(|section| section.kind).collect();
    let cases = sections.iter().filter_map(of_kind);
    json!({
        "$schema": DIALECT,
        "title": "Results of floatgate",
        "type": "object",
        "properties": { "kind": { "enum": kinds } },
        "allOf": std::iter::once(reference(ENVELOPE)).chain(cases).collect::<Vec<_>>(),
        "$defs": definitions(sections.iter()),
    })
}

/// A section of docs/json.md.
#[derive(Default)]
struct Section {
    title: &'static str,
    kind: Option<&'static str>,
    keys: Vec<Key>,
}

/// A row of a section's table.
struct Key {
    /// Dotted path; `[]` stands for each element of a list.
    path: &'static str,
    /// Type, without `or null` and `optional`.
    kind: &'static str,
    is_null_allowed: bool,
    is_optional: bool,
    meaning: &'static str,
}

/// All sections that have a table.
fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title, ..Section::default() });
        } else if let Some(section) = sections.last_mut() {
            section.add(line);
        }
    }
    sections.retain(|section| !section.keys.is_empty());
    sections
}

impl Section {
    /// Adds a line after the title, if it contains the kind or a row of the table.
    fn add(&mut self, line: &'static str) {
        if let Some(kind) = line.strip_prefix("Kind: `").and_then(|rest| rest.strip_suffix("`.")) {
            self.kind = Some(kind);
        } else if let Some(key) = Key::of_row(line) {
            self.keys.push(key);
        }
    }

    fn schema(&self) -> Value {
        let mut root = Node::default();
        for key in &self.keys {
            root.at(key.path).key = Some(key);
        }
        let mut schema = root.members();
        schema.insert("type".to_owned(), "object".into());
        Value::Object(schema)
    }
}

impl Key {
    /// Parses a row, `` | `path` | type | meaning | ``.
    fn of_row(line: &'static str) -> Option<Self> {
        let (path, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let (kind, meaning) = rest.split_once(" | ")?;
        let required = kind.strip_suffix(", optional");
        let kind = required.unwrap_or(kind);
        let not_null = kind.strip_suffix(" or null");
        Some(Self {
            path,
            kind: not_null.unwrap_or(kind),
            is_null_allowed: not_null.is_some(),
            is_optional: required.is_some(),
            meaning: meaning.trim_end_matches(" |"),
        })
    }

    /// Title of the section that describes the type, if there is one.
    fn section(&self) -> Option<&'static str> {
        Some(match self.kind {
            "breakdown" => "Breakdown",
            "decode" => "ecc decode",
            "answer" => "probe answer",
            "check" => "image check",
            kind @ ("speed" | "life of a chip" | "ubifs") => kind,
            _ => return None,
        })
    }
}

/// A position in a result: a key of an object, or the elements of a list.
#[derive(Default)]
struct Node<'a> {
    /// Row in the table; `None` for a position that only leads to others.
    key: Option<&'a Key>,
    /// Positions inside an object, in the order of the table.
    members: Vec<(&'a str, Node<'a>)>,
    /// The elements of a list.
    elements: Option<Box<Node<'a>>>,
}

impl<'a> Node<'a> {
    /// Position at a path below this one.
    fn at(&mut self, path: &'a str) -> &mut Self {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let depth = first.matches("[]").count();
        let name = first.trim_end_matches("[]");
        let mut place = if name.is_empty() { self } else { self.member(name) };
        for _ in 0..depth {
            place = place.elements.get_or_insert_default();
        }
        if rest.is_empty() { place } else { place.at(rest) }
    }

    fn member(&mut self, name: &'a str) -> &mut Self {
        let index = self.members.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.members.push((name, Self::default()));
            self.members.len() - 1
        });
        &mut self.members[index].1
    }

    fn schema(&self) -> Value {
        let mut schema = Map::new();
        if let Some(key) = self.key {
            schema.insert("description".to_owned(), key.meaning.into());
        }
        match self.key.and_then(Key::section) {
            Some(section) => self.add_reference(section, &mut schema),
            None => self.add_type(&mut schema),
        }
        Value::Object(schema)
    }

    fn add_reference(&self, section: &str, schema: &mut Map<String, Value>) {
        let other = reference(section);
        if self.is_null_allowed() {
            schema.insert("anyOf".to_owned(), json!([other, { "type": "null" }]));
        } else if let Value::Object(other) = other {
            schema.extend(other);
        }
    }

    fn add_type(&self, schema: &mut Map<String, Value>) {
        let kind = match self.key.map_or("object", |key| key.kind) {
            "any" => return,
            "string[]" => {
                schema.insert("items".to_owned(), json!({ "type": "string" }));
                "array"
            }
            "object" | "columns" => {
                schema.extend(self.members());
                if self.elements.is_some() { "array" } else { "object" }
            }
            kind => kind,
        };
        if kind == "integer" {
            schema.insert("minimum".to_owned(), 0.into());
        }
        let kinds = if self.is_null_allowed() { json!([kind, "null"]) } else { kind.into() };
        schema.insert("type".to_owned(), kinds);
    }

    /// Keywords of the schema about members or elements.
    fn members(&self) -> Map<String, Value> {
        let mut schema = Map::new();
        if let Some(elements) = &self.elements {
            schema.insert("items".to_owned(), elements.schema());
        }
        if self.members.is_empty() {
            return schema;
        }
        let properties = self.members.iter().map(|(name, node)| ((*name).to_owned(), node.schema()));
        schema.insert("properties".to_owned(), Value::Object(properties.collect()));
        let required = self.members.iter().filter(|(_, node)| node.key.is_some_and(|key| !key.is_optional));
        let required: Vec<&str> = required.map(|(name, _)| *name).collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        if self.key.is_some_and(|key| key.kind == "columns") {
            let scalar = json!({ "type": ["string", "number", "boolean", "null"] });
            schema.insert("additionalProperties".to_owned(), scalar);
        }
        schema
    }

    /// True if the position has no row: docs/json.md then describes only its contents, so it may be null.
    fn is_null_allowed(&self) -> bool {
        self.key.is_none_or(|key| key.is_null_allowed)
    }
}

/// Adds the sections to which the sections in `names` refer, directly or through others.
fn add_references(sections: &[Section], names: &mut Vec<&'static str>) {
    let mut next = 0;
    while let Some(name) = names.get(next).copied() {
        next += 1;
        let keys = sections.iter().filter(|section| section.title == name).flat_map(|section| &section.keys);
        for other in keys.filter_map(Key::section) {
            if !names.contains(&other) {
                names.push(other);
            }
        }
    }
}

/// Name of a section among the definitions. It contains no spaces, because it is part of a reference.
fn definition(section: &str) -> String {
    section.to_lowercase().replace(' ', "-")
}

fn reference(section: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{}", definition(section)) })
}

fn definitions<'a>(sections: impl Iterator<Item = &'a Section>) -> BTreeMap<String, Value> {
    sections.map(|section| (definition(section.title), section.schema())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ResultKind;
    use crate::study::STUDIES;

    #[test]
    fn each_study_is_described_in_json_md() {
        for study in STUDIES {
            for form in study.forms() {
                let kind = study.kind(form);
                assert!(schema_of(&kind).is_some(), "docs/json.md has no section of {kind}");
            }
        }
    }

    #[test]
    fn each_kind_has_a_schema_with_its_own_keys() {
        let schema = schema_of("speed").unwrap();
        assert_eq!(schema["properties"]["kind"]["const"], "speed");
        let speed = &schema["$defs"]["speed"];
        let test = &speed["properties"]["tests"]["items"]["properties"];
        assert_eq!(test["ns"]["type"], "integer");
        assert_eq!(test["breakdown_ns"]["$ref"], "#/$defs/breakdown");
        assert_eq!(speed["properties"]["latency"]["type"], json!(["object", "null"]));
        assert!(schema["$defs"].get("breakdown").is_some() && schema["$defs"].get("fs").is_none());
        assert_eq!(schema_of(&ResultKind::Lists.to_string()).unwrap()["type"], "object");
        assert!(schema_of("no-such-kind").is_none());
    }

    #[test]
    fn references_lead_somewhere() {
        let all = schema_of_all();
        let text = all.to_string();
        for part in text.split("\"#/$defs/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(all["$defs"].get(name).is_some(), "{name}");
        }
    }
}

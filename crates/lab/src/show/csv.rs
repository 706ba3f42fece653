//! CSV (RFC 4180, with LF line ends): writes results and reads files.

use serde_json::{Map, Value};

/// CSV with a header of all keys, in the order of first use, and a line for each row. Keys of nested objects are joined
/// by dots. A value that is not a list is a single row.
pub fn table(rows: &Value) -> String {
    let rows: Vec<Map<String, Value>> = match rows {
        Value::Array(rows) => rows.iter().map(flat).collect(),
        row => vec![flat(row)],
    };
    let mut columns: Vec<&String> = Vec::new();
    for key in rows.iter().flat_map(Map::keys) {
        if !columns.contains(&key) {
            columns.push(key);
        }
    }
    let mut text = line(columns.iter().map(|key| quoted(key)));
    for row in &rows {
        text += &line(columns.iter().map(|key| row.get(*key).map_or_else(String::new, field)));
    }
    text
}

/// One CSV line of fields, with its line feed.
pub fn line(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<_>>().join(",") + "\n"
}

/// Text of a field. Lists of numbers and words are joined by spaces, lists of texts that contain spaces by line feeds.
/// Lists of objects are JSON, and null is empty.
pub fn field(value: &Value) -> String {
    quoted(&plain(value))
}

/// Text as a field, quoted if necessary.
pub fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Object in which the keys of nested objects are joined by dots.
fn flat(value: &Value) -> Map<String, Value> {
    let Value::Object(fields) = value else {
        return std::iter::once(("value".to_owned(), value.clone())).collect();
    };
    let mut out = Map::new();
    for (key, value) in fields {
        match value {
            Value::Object(_) => out.extend(flat(value).into_iter().map(|(k, v)| (format!("{key}.{k}"), v))),
            _ => drop(out.insert(key.clone(), value.clone())),
        }
    }
    out
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) if !list.iter().any(|value| value.is_object() || value.is_array()) => {
            let all: Vec<String> = list.iter().map(plain).collect();
            let has_spaces = all.iter().any(|text| text.contains(char::is_whitespace));
            all.join(if has_spaces { "\n" } else { " " })
        }
        other => other.to_string(),
    }
}

/// Records of a CSV text with LF or CR LF line ends. Blank lines at the end are ignored.
///
/// # Errors
/// A quote is not closed; the text describes it.
pub fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut all, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            c if quoted => field.push(c),
            '"' if field.is_empty() => quoted = true,
            ',' => record.push(std::mem::take(&mut field)),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => {
                record.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    if quoted {
        return Err("a quote is not closed".to_owned());
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        all.push(record);
    }
    while all.last().is_some_and(|record| record.as_slice() == [String::new()]) {
        all.pop();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_has_a_column_for_each_key_and_a_line_for_each_row() {
        let rows = json!([
            { "name": "a, \"b\"", "time": { "array": 1, "cpu": 2.5 }, "pages": [1, 2] },
            { "name": null, "time": { "array": 3 }, "runs": [{ "x": 1 }] },
        ]);
        let text = "name,time.array,time.cpu,pages,runs\n\
                    \"a, \"\"b\"\"\",1,2.5,1 2,\n\
                    ,3,,,\"[{\"\"x\"\":1}]\"\n";
        assert_eq!(table(&rows), text);
        assert_eq!(table(&json!({ "a": 1, "b": true })), "a,b\n1,true\n");
        assert_eq!(table(&json!([7])), "value\n7\n");
        let commands = json!([{ "commands": ["mkfs.ext4 /dev/sda1", "sync"], "words": ["a", "b"] }]);
        assert_eq!(table(&commands), "commands,words\n\"mkfs.ext4 /dev/sda1\nsync\",a b\n");
    }

    #[test]
    fn any_text_is_read_back_as_it_was_written() {
        let texts = ["", "plain", "a,b", "\"", "\"\"", "line\nfeed", "cr\rlf\r\n", " space ", "ü"];
        let rows: Vec<Value> = texts.iter().map(|text| json!({ "first": text, "last": 1 })).collect();
        let read = records(&table(&Value::Array(rows))).unwrap();
        let first: Vec<&str> = read.iter().skip(1).map(|record| record[0].as_str()).collect();
        assert_eq!(first, texts);
    }
}

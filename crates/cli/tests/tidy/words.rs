//! Plain technical English in doc comments, help texts and pages: sentences of a length that can be read once, no inverted
//! word order, none of the phrases that readers stumbled over, and one word for one thing.
//!
//! A text is split into paragraphs (code, tables and headings are left out), these into sentences, and each sentence
//! is compared with the rules below.

use super::{CRATES, crates, files, product_sources};

/// Most words of a sentence; a piece of code counts as one word.
const WORDS_MAX: usize = 35;

/// First words of a sentence whose subject would follow its verb, or its object.
const INVERTED: [&str; 14] = [
    "Of ",
    "Nor ",
    "Neither is ",
    "Neither are ",
    "Neither does ",
    "So is ",
    "So are ",
    "So does ",
    "So do ",
    "Thus is ",
    "Beside it ",
    "Such is ",
    "Gone is ",
    "Only then is ",
];

/// Phrases with two readings, with a better one. All are lower case.
const PHRASES: [(&str, &str); 37] = [
    ("what is asked", "name the option or request"),
    ("so many", "name the number, or write \"this number of\""),
    ("so much that", "name the amount"),
    ("by turns", "alternately"),
    ("is told", "name who reports it and where"),
    ("are told", "name who reports it and where"),
    ("is none", "say what the thing is, or \"does not exist\""),
    ("are none", "say what they are, or \"do not exist\""),
    ("what became", "name the result"),
    ("what has become", "name the result"),
    ("cannot be had", "is impossible, is not available"),
    ("has come to", "name the state that was reached"),
    ("had come to", "name the state that was reached"),
    ("have come to", "name the state that was reached"),
    ("knows nothing of", "does not know"),
    ("says nothing of", "does not state"),
    ("say nothing of", "do not state"),
    ("of which nothing", "name the thing in a sentence of its own"),
    ("nothing of it", "name the thing"),
    ("nothing else than", "only"),
    ("in turn", "alternately, one after the other, or round robin"),
    ("as far as", "up to, if, or where"),
    ("that of", "repeat the noun"),
    ("let expect", "imply"),
    ("lets expect", "implies"),
    ("is to be had", "is available"),
    ("of its own accord", "without a command"),
    ("beside that", "compared with, or besides"),
    ("all the same", "nevertheless, or leave it out"),
    ("by which much", "name the amount"),
    ("one in so", "give the ratio"),
    ("that are none", "repeat the noun"),
    ("as well as that", "and"),
    ("somebody", "name the program or caller"),
    ("nobody", "name the program or caller"),
    ("stands for itself", "say what it means"),
    ("gives out", "returns, or evicts"),
];

/// Second names of things, with the word of the glossary.
const SYNONYMS: [(&str, &str); 8] = [
    ("erase block", "eraseblock (raw flash), PEB (UBI) or allocation unit (cards)"),
    ("erase blocks", "eraseblocks (raw flash), PEBs (UBI) or allocation units (cards)"),
    ("mapping unit", "map unit"),
    ("mapping units", "map units"),
    ("file system", "filesystem"),
    ("file systems", "filesystems"),
    ("datasheet", "data sheet"),
    ("datasheets", "data sheets"),
];

/// A sentence with the line on which its paragraph begins.
struct Sentence {
    line: usize,
    text: String,
}

/// A rule that a sentence breaks.
fn problem(sentence: &str) -> Option<String> {
    let plain = without_code(sentence);
    let count = plain.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
    if count > WORDS_MAX {
        return Some(format!("{count} words, the limit is {WORDS_MAX}"));
    }
    let lower = plain.to_lowercase();
    if let Some(opening) = INVERTED.iter().find(|opening| plain.starts_with(*opening)) {
        return Some(format!("begins with \"{}\": write the subject first", opening.trim_end()));
    }
    let phrases = PHRASES.iter().chain(&SYNONYMS);
    let found = phrases.into_iter().find(|(phrase, _)| has_phrase(&lower, phrase));
    found.map(|(phrase, better)| format!("\"{phrase}\": write {better}"))
}

/// True when `text` has `phrase` between borders of words; "there is none" is a sentence like any other.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        let is_plain = phrase.ends_with(" none") && before.ends_with("there ");
        !is_plain && !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    })
}

/// A sentence with each piece of code as one word.
fn without_code(sentence: &str) -> String {
    let pieces = sentence.split('`').enumerate();
    pieces.map(|(at, piece)| if at % 2 == 1 { "Code" } else { piece }).collect()
}

/// True for a doc comment that only repeats that its item is there: "The tree.", "Bytes.".
fn is_empty(paragraphs: &[Sentence], is_item: bool) -> bool {
    let [only] = paragraphs else { return false };
    let words: Vec<&str> = only.text.split(' ').collect();
    match words.as_slice() {
        // A name of a standard, a code or a link is what its item is called.
        [word] => is_item && word.chars().skip(1).all(|c| c.is_ascii_lowercase() || c == '.'),
        [first, second] => {
            ["The", "A", "An"].contains(first) && second.chars().all(|c| c.is_ascii_lowercase() || c == '.')
        }
        _ => false,
    }
}

/// Paragraphs of lines of Markdown, without code, tables and headings. An item of a list is one.
fn paragraphs<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Sentence> {
    let mut found: Vec<Sentence> = Vec::new();
    let (mut is_code, mut continues) = (false, false);
    for (line, text) in lines {
        let trimmed = text.trim();
        let is_fence = trimmed.starts_with("```");
        is_code ^= is_fence;
        let is_prose = !is_code && !is_fence && !trimmed.is_empty() && !is_markup(text);
        if !is_prose {
            continues = false;
            continue;
        }
        let item = list_item(trimmed);
        match found.last_mut().filter(|_| continues && item.is_none()) {
            Some(last) => last.text.extend([" ", trimmed]),
            None => found.push(Sentence { line, text: item.unwrap_or(trimmed).to_owned() }),
        }
        continues = true;
    }
    found
}

/// True for a line of a table, a heading, HTML, a link's target or an indented block of code.
fn is_markup(line: &str) -> bool {
    let marks = ["|", "#", "<", "    ", "!["];
    marks.iter().any(|mark| line.starts_with(mark)) || line.starts_with('[') && line.contains("]: ")
}

/// Text of an item of a list.
fn list_item(line: &str) -> Option<&str> {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = if numbered.len() < line.len() { numbered.strip_prefix(". ") } else { None };
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or(number)
}

/// Sentences of a paragraph: they end with a full stop, an exclamation or a question mark before a capital letter.
fn sentences(paragraph: &Sentence) -> Vec<Sentence> {
    let text = &paragraph.text;
    let mut begin = 0;
    let mut found = Vec::new();
    let begins = |rest: &str| {
        rest.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || ['`', '[', '('].contains(&c))
    };
    for (at, _) in text.match_indices([' ']) {
        let ends = text[..at].trim_end_matches([')', '"', '*', '_']).ends_with(['.', '!', '?']);
        if ends && begins(&text[at + 1..]) {
            found.push(Sentence { line: paragraph.line, text: text[begin..at].to_owned() });
            begin = at + 1;
        }
    }
    found.push(Sentence { line: paragraph.line, text: text[begin..].to_owned() });
    found
}

/// Findings of a text with the name of its file.
fn findings(name: &str, paragraphs: &[Sentence]) -> Vec<String> {
    let all = paragraphs.iter().flat_map(sentences);
    all.filter_map(|s| problem(&s.text).map(|why| format!("{name}:{}: {why}: {}", s.line, s.text))).collect()
}

/// Doc comments of a source file, each as its lines with their numbers, and true for those of an item.
fn doc_comments(source: &str) -> Vec<(Vec<(usize, &str)>, bool)> {
    let mut found: Vec<(Vec<(usize, &str)>, bool)> = Vec::new();
    let mut previous = None;
    for (number, line) in (1..).zip(source.lines()) {
        let trimmed = line.trim_start();
        let kind = ["///", "//!"].into_iter().find(|kind| trimmed.starts_with(kind));
        if let Some(kind) = kind {
            let text = &trimmed[kind.len()..];
            let text = text.strip_prefix(' ').unwrap_or(text);
            match found.last_mut().filter(|_| previous == Some(kind)) {
                Some((lines, _)) => lines.push((number, text)),
                None => found.push((vec![(number, text)], kind == "///")),
            }
        }
        previous = kind;
    }
    found
}

/// Findings of the doc comments of a source file.
fn source_findings(name: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (lines, is_item) in doc_comments(source) {
        let paragraphs = paragraphs(lines.into_iter());
        found.extend(findings(name, &paragraphs));
        if is_empty(&paragraphs, is_item) {
            let only = &paragraphs[0];
            found.push(format!("{name}:{}: says nothing about its item: {}", only.line, only.text));
        }
    }
    found
}

/// Findings of a page of Markdown.
fn page_findings(name: &str, page: &str) -> Vec<String> {
    findings(name, &paragraphs((1..).zip(page.lines())))
}

/// Findings of a help text: descriptions of commands and options, without the examples.
pub(crate) fn help_findings(command: &str, help: &str) -> Vec<String> {
    let text = help.split("\nExamples:\n").next().unwrap_or_default();
    let prose = (1..).zip(text.lines().map(str::trim)).flat_map(|(at, line)| match line.rsplit_once("  ") {
        // A list of commands: each description is a paragraph.
        Some((_, description)) => vec![(at, ""), (at, description)],
        None if line.starts_with(['-', '<']) || line.starts_with("Usage:") => vec![(at, "")],
        None => vec![(at, line)],
    });
    findings(&format!("floatgate {command} --help"), &paragraphs(prose))
}

#[test]
fn words_of_crates() {
    let mut wrong = Vec::new();
    for name in CRATES {
        for path in product_sources(name) {
            let shown = path.strip_prefix(crates()).unwrap().display().to_string();
            wrong.extend(source_findings(&shown, &std::fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(wrong.is_empty(), "{} sentences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn words_of_pages() {
    let mut wrong = Vec::new();
    for path in files(&crates().join("../docs"), "md") {
        let name = path.file_name().unwrap().to_str().unwrap();
        wrong.extend(page_findings(name, &std::fs::read_to_string(&path).unwrap()));
    }
    assert!(wrong.is_empty(), "{} sentences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn words_that_break_a_rule_are_found() {
    let long = "word ".repeat(WORDS_MAX + 1);
    let bad = [
        ("Of what is read, the first page counts.", "begins with \"Of\""),
        ("Nor does it write.", "begins with \"Nor\""),
        ("The account is that of the workload.", "\"that of\""),
        ("Maximum of so many bytes.", "\"so many\""),
        ("A record that is none.", "\"is none\""),
        ("Bytes of an erase block.", "\"erase block\""),
        (long.as_str(), "36 words"),
    ];
    for (sentence, expected) in bad {
        let found = problem(sentence);
        assert!(found.as_ref().is_some_and(|found| found.contains(expected)), "{sentence}: {found:?}");
    }
    assert_eq!(problem("Number of reads after which `so many` is recomputed, B."), None);
}

#[test]
fn words_are_read_in_their_paragraphs() {
    let source = "//! Head. Second\n//! line of it.\n\n/// The tree.\nfn tree() {}\n/// - one item\n/// - so many\n/// ```\n/// so many\n/// ```\nfn list() {}\n";
    let found = source_findings("a.rs", source);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("a.rs:4: says nothing") && found[1].starts_with("a.rs:7: \"so many\""));
    let page = "# so many\n\n| so many |\n\nText with\nso many words.\n";
    assert_eq!(page_findings("p.md", page).len(), 1);
}

//! Wording that can be checked by a program: doc comments, help texts, and numbers with their nouns in golden files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates whose public items are checked.
const CRATES: [&str; 20] = [
    "media",
    "ecc",
    "mtd",
    "device",
    "config",
    "card",
    "host",
    "files",
    "probe",
    "stack",
    "sim",
    "image",
    "lab",
    "floatgate",
    "program",
    "capture",
    "capi",
    "hal",
    "web",
    "cli",
];

/// Words with which a doc comment asks instead of naming its item.
const QUESTIONS: [&str; 8] = ["What", "What.", "Whether", "How", "Where", "Which", "Who", "Why"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below a folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// First lines of the doc comments of public items, with file and line; true when there is a second line.
fn public_docs(text: &str) -> Vec<(usize, &str, bool)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let continues = at > 0 && lines[at - 1].starts_with("///");
        let Some(first) = line.strip_prefix("/// ").filter(|_| !continues) else { continue };
        let rest = &lines[at + 1..];
        let is_more = rest.first().is_some_and(|next| next.starts_with("///"));
        let item = rest.iter().find(|next| !next.starts_with("///") && !next.starts_with("#["));
        if item.is_some_and(|item| item.starts_with("pub ")) {
            found.push((at + 1, first, is_more));
        }
    }
    found
}

#[test]
fn doc_comments_of_public_items_name_them() {
    let mut wrong = Vec::new();
    for name in CRATES {
        for path in files(&crates().join(name).join("src"), "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for (line, first, is_more) in public_docs(&text) {
                let mut words = first.split(' ');
                let asks = words.next().is_some_and(|word| QUESTIONS.contains(&word));
                let is_one_word = words.next().is_none() && !is_more;
                if asks || is_one_word {
                    wrong.push(format!("{}:{line}: {first}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "write a noun phrase or a sentence that names the item:\n{}", wrong.join("\n"));
}

/// Nouns that are counted in the output of the command.
const NOUNS: &str = "bits blocks bytes cuts cycles directories eraseblocks entries files findings images LEBs lines links \
    losses names nodes operations pages parts PEBs reads rows runs setups spans steps times volumes workloads";

/// Heads of modules and private items, too, say something instead of asking.
#[test]
fn doc_comments_do_not_begin_with_a_question() {
    let asks = |line: &&str| {
        let text = line.trim_start();
        let text = text.strip_prefix("//! ").or_else(|| text.strip_prefix("/// "));
        text.is_some_and(|text| text.starts_with("What ") || text.starts_with("How "))
    };
    let mut wrong = Vec::new();
    for path in CRATES.iter().flat_map(|name| product_sources(name)) {
        let text = std::fs::read_to_string(&path).unwrap();
        wrong.extend(text.lines().filter(asks).map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(wrong.is_empty(), "write a noun phrase or a sentence:\n{}", wrong.join("\n"));
}

/// Places at which `text` has the number 1 before a noun in the plural.
fn wrong_plurals(text: &str) -> Vec<String> {
    // Cells of a table have two spaces between them; an empty word keeps their contents apart.
    let words: Vec<&str> = text.split([' ', '\n']).collect();
    let is_noun =
        |word: &str| NOUNS.split_whitespace().any(|n| n == word.trim_matches([',', '.', ';', ':', ')']));
    // "2^31 - 1 LEBs" is a difference and "0 to 1 times" a range.
    let is_one = |w: &[&str]| w[1].trim_start_matches('(') == "1" && !matches!(w[0], "-" | "to");
    let pairs = words.windows(3).filter(|w| is_one(w) && is_noun(w[2]));
    pairs.map(|w| w.join(" ")).collect()
}

#[test]
fn unsafe_code_is_where_it_is_known_to_be() {
    let allows = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.contains("allow(unsafe_code") || text.contains("ctor(unsafe)")
    };
    let sources = CRATES.iter().flat_map(|name| files(&crates().join(name).join("src"), "rs"));
    let found: Vec<PathBuf> = sources.filter(allows).collect();
    let known = [
        "program/src/c.rs",
        "program/src/object.rs",
        "program/src/process.rs",
        "cli/src/output.rs",
        "ecc/src/simd/mod.rs",
        "host/src/mtd/char_device.rs",
        "web/src/page.rs",
    ];
    assert!(found.iter().all(|path| known.iter().any(|known| path.ends_with(known))), "{found:?}");
}

/// Source files of a crate that are no tests.
fn product_sources(name: &str) -> Vec<PathBuf> {
    let is_test = |path: &Path| {
        path.iter().any(|part| part.to_str().is_some_and(|part| part.starts_with("test") || part == "stress"))
            || path.to_str().is_some_and(|path| path.ends_with("tests.rs"))
    };
    let sources = crates().join(name).join("src");
    files(&sources, "rs").into_iter().filter(|path| !is_test(path.strip_prefix(&sources).unwrap())).collect()
}

/// Modules of `image` that see its formats through their trait only.
const ABOVE_FORMATS: [&str; 12] = [
    "check",
    "diff",
    "dump",
    "edit",
    "history",
    "info",
    "inventory",
    "list",
    "mount",
    "open",
    "raw",
    "repair",
];

/// No format imports what stands above it, and nothing above tells formats apart.
#[test]
fn formats_of_images_stand_behind_their_trait() {
    let (mut formats, mut wrong) = (0, Vec::new());
    for path in product_sources("image") {
        let shown = path.display().to_string();
        let is_format = shown.contains("image/src/format/");
        let imports =
            |line: &str| ABOVE_FORMATS.iter().any(|name| line.contains(&format!("crate::{name}::")));
        let tells = |line: &str| if is_format { imports(line) } else { line.contains("Content::") };
        let is_wrong = |line: &&str| !line.trim_start().starts_with("//") && tells(line);
        let text = std::fs::read_to_string(&path).unwrap();
        wrong.extend(text.lines().filter(is_wrong).map(|line| format!("{shown}: {}", line.trim())));
        formats += usize::from(is_format);
    }
    assert!(formats > 30 && wrong.is_empty(), "of {formats} files of formats:\n{}", wrong.join("\n"));
}

/// The module `show` of `lab` imports nothing else of its crate, and so no study.
#[test]
fn renderers_know_no_study() {
    let sources = product_sources("lab");
    let shows: Vec<_> =
        sources.iter().filter(|path| path.to_str().unwrap().contains("lab/src/show/")).collect();
    let is_wrong = |line: &&str| line.replace("crate::show", "").contains("crate::") && !line.contains("//");
    let mut wrong = Vec::new();
    for path in &shows {
        let text = std::fs::read_to_string(path).unwrap();
        wrong
            .extend(text.lines().filter(is_wrong).map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(shows.len() > 20 && wrong.is_empty(), "of {} files:\n{}", shows.len(), wrong.join("\n"));
}

/// A magic number stands where its format does.
#[test]
fn magic_numbers_of_ubi_and_ubifs_are_in_media_only() {
    let magics = ["UBI#", "UBI!", "0610_1831", "06101831", "0x31, 0x18, 0x10, 0x06"];
    let is_one =
        |line: &str| !line.trim_start().starts_with("//") && magics.iter().any(|magic| line.contains(magic));
    let mut found = Vec::new();
    for name in CRATES.iter().filter(|name| **name != "media") {
        for path in product_sources(name) {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(
                text.lines().filter(|line| is_one(line)).map(|line| format!("{}: {line}", path.display())),
            );
        }
    }
    assert!(found.is_empty(), "use the constant of floatgate_media:\n{}", found.join("\n"));
}

/// A length that its field cannot hold is an error where bytes are emitted (`narrow` in `media/src/wire.rs`), never the largest value of the field.
#[test]
fn bytes_of_media_are_not_saturated() {
    // Sizes in memory, and bounds that no field holds.
    let bounds = ["ubifs/limits.rs", "lpt/node.rs", "lpt/geometry.rs", "fastmap/mod.rs"];
    let is_one = |line: &str| line.contains("try_from(") && line.contains(".unwrap_or(");
    let mut found = Vec::new();
    for path in product_sources("media") {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = without_tests(&text).lines().filter(|line| is_one(line));
        let is_bound = bounds.iter().any(|bound| path.ends_with(bound));
        found.extend(lines.filter(|_| !is_bound).map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(found.is_empty(), "return an error instead:\n{}", found.join("\n"));
}

/// The tests at the end of a file do not count.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// A command has the name that its data sheet gives it.
#[test]
fn commands_of_chips_are_named_constants() {
    let naked = ["command(0x", "Command(0x", "opcode: 0x", "opcode(0x", "with_opcode(0x"];
    let mut found = Vec::new();
    for path in product_sources("device").into_iter().filter(|path| !path.ends_with("command.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines =
            without_tests(&text).lines().filter(|line| naked.iter().any(|naked| line.contains(naked)));
        found.extend(lines.map(|line| format!("{}: {line}", path.display())));
    }
    assert!(found.is_empty(), "name it in the family's command module:\n{}", found.join("\n"));
}

#[test]
fn golden_files_have_one_in_the_singular() {
    assert_eq!(
        wrong_plurals("with 1 blocks, and 11 blocks; 2^32 - 1 bytes; 0 to 1 times"),
        ["with 1 blocks,"]
    );
    let mut wrong = Vec::new();
    for folder in ["cli/tests/golden", "image/tests/golden", "lab/tests/golden"] {
        for path in files(&crates().join(folder), "txt") {
            let text = std::fs::read_to_string(&path).unwrap();
            wrong
                .extend(wrong_plurals(&text).into_iter().map(|words| format!("{}: {words}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn help(command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_floatgate")).args(command).arg("--help").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Subcommands that a help text lists.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, listed)) = help.split_once("<COMMAND>\n") else { return Vec::new() };
    let lines = listed.lines().take_while(|line| *line != "Options:");
    // A continued description stands further to the right.
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !["", "help"].contains(name)).map(str::to_owned).collect()
}

#[test]
fn every_help_text_has_examples() {
    let (mut checked, mut found) = (0, Vec::new());
    let mut left = vec![Vec::new()];
    while let Some(command) = left.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let text = help(&words);
        assert!(text.contains("\nExamples:\n"), "`floatgate {} --help` has no examples", words.join(" "));
        checked += 1;
        found.extend(words::help_findings(&words.join(" "), &text));
        left.extend(subcommands(&text).into_iter().map(|name| [command.clone(), vec![name]].concat()));
    }
    assert!(checked > 30, "only {checked} help texts were found");
    println!("help texts: {} findings\n{}", found.len(), found.join("\n"));
}

/// Files below `cli` that write command lines: the names of texts in errors, the commands of published tables, and
/// commands of mtd-utils that make an image like one.
const WRITES_COMMANDS: [&str; 5] = [
    "config/src/set.rs",
    "config/src/sweep.rs",
    "lab/src/papers/file.rs",
    "image/src/format/jffs2/info.rs",
    "image/src/patch.rs",
];

/// True for a line of code with an option of the command line in it. What `shell` takes is a command of another program.
fn names_an_option(line: &str) -> bool {
    let code = line.trim_start();
    let is_option = |at: usize| {
        let (before, after) = (&code[..at], &code[at + 2..]);
        let begins = !before.ends_with(|c: char| c == '-' || c == '!' || c.is_alphanumeric());
        let in_shell = before.rfind("shell(").is_some_and(|open| !before[open..].contains("\")"));
        begins && !in_shell && after.starts_with(|c: char| c.is_ascii_lowercase())
    };
    !code.starts_with("//")
        && !code.starts_with("#[")
        && code.match_indices("--").any(|(at, _)| is_option(at))
}

/// Code without the help of the commands that studies are.
fn without_help(code: &str) -> String {
    let mut parts = code.split("command(after_help = \"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        let (help, after) = part.split_once("\")").unwrap();
        before + &"\n".repeat(help.matches('\n').count()) + after
    })
}

/// The other crates are libraries too: what their errors advise is put into options of a command by `cli`.
#[test]
fn options_of_the_command_line_are_named_in_cli_only() {
    let mut wrong = Vec::new();
    for name in CRATES.into_iter().filter(|&name| name != "cli") {
        for path in files(&crates().join(name).join("src"), "rs") {
            let shown = path.display().to_string();
            let is_test =
                shown.contains("/tests") || WRITES_COMMANDS.iter().any(|file| shown.ends_with(file));
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let code = without_help(code);
            let lines = (1..).zip(code.lines()).filter(|(_, line)| !is_test && names_an_option(line));
            wrong.extend(lines.map(|(number, line)| format!("{shown}:{number}: {}", line.trim())));
        }
    }
    assert!(wrong.is_empty(), "options below cli:\n{}", wrong.join("\n"));
}

/// Python's words for commands and options of advice are its functions and arguments.
#[test]
fn names_of_pythons_advice_exist() {
    let python = crates().join("../python");
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    let package: String = files(&python.join("floatgate"), "py").iter().map(read).collect();
    let words = read(&python.join("src/advice.rs"));
    let names: Vec<&str> =
        words.split("Some(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let exists = |name: &&str| match name.strip_suffix("()") {
        Some(call) => package.contains(&format!("def {}(", call.rsplit('.').next().unwrap())),
        None => package.contains(&format!(" {}: ", name.trim_end_matches("=True"))),
    };
    let missing: Vec<&&str> = names.iter().filter(|name| !exists(name)).collect();
    assert!(names.len() > 15 && missing.is_empty(), "{missing:?}");
}

#[test]
fn tests_of_limits_exist() {
    let page = std::fs::read_to_string(crates().join("../docs/limits.md")).unwrap();
    let sources: Vec<String> =
        files(&crates(), "rs").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let last_cells = page.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once(" | "));
    let named: Vec<&str> = last_cells.flat_map(|(_, tests)| tests.split('`').skip(1).step_by(2)).collect();
    let is_missing = |name: &&str| !sources.iter().any(|text| text.contains(&format!("fn {name}()")));
    let missing: Vec<&str> = named.iter().copied().filter(is_missing).collect();
    assert!(named.len() > 20 && missing.is_empty(), "{missing:?}");
}

/// A crate that embeds files from outside of itself cannot be published.
#[test]
fn crates_embed_only_their_own_files() {
    for path in CRATES.iter().flat_map(|name| product_sources(name)) {
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let depth = path.strip_prefix(crates()).unwrap().components().count();
        for found in text.split("include_str!(\"").chain(text.split("include_bytes!(\"")).skip(1) {
            let file = found.split('"').next().unwrap();
            assert!(
                file.matches("../").count() < depth - 1,
                "{}: {file} is outside of the crate",
                path.display()
            );
        }
        assert!(!text.contains("$CARGO_MANIFEST_DIR/.."), "{}", path.display());
    }
}

/// A file of the repository is source, data or a picture of some hundred KiB: packages and other products of a build do not belong to it.
#[test]
fn no_file_is_large() {
    let root = crates().join("..");
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(&root).output();
    let Ok(listed) = listed else { return };
    let names = String::from_utf8(listed.stdout).unwrap();
    for name in names.split_terminator('\0') {
        let bytes = std::fs::metadata(root.join(name)).map_or(0, |data| data.len());
        assert!(bytes <= 512 << 10, "{name} has {bytes} bytes");
    }
}

/// A dev-dependency of a driver brings few packages along. Those of floatgate are not counted.
#[test]
fn the_traits_of_embedded_rust_need_few_packages() {
    const MOST: usize = 20;
    let tree =
        ["tree", "-p", "floatgate-hal", "--edges", "normal", "--prefix", "none", "--locked", "--offline"];
    let output = Command::new(env!("CARGO")).args(tree).current_dir(crates()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let foreign: std::collections::BTreeSet<&str> =
        names.filter(|name| !name.is_empty() && !name.starts_with("floatgate")).collect();
    assert!(foreign.len() <= MOST, "{} packages: {foreign:?}", foreign.len());
}

use super::*;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

const PART: &str = r#"
kind = "spi-nand"
name = "ONE"
maker = "Maker"
[chip]
id = [1, 2]
read = [{ mode = "1-1-1", dummy = 8 }, { mode = "1-1-4", dummy = 8 }]
[chip.timing]
t_rd_us = 25
t_prog_us = 250
[profile.slow.chip.timing]
t_rd_us = 50
t_prog_us = 500
[[source]]
of = ["chip"]
from = "data sheet"
confidence = 0.9
"#;

/// A part that differs from its base only in name and program time.
const DERIVED: &str = r#"
name = "TWO"
[chip]
base = "one"
timing.t_prog_us = 300
[[source]]
of = ["chip.timing.t_prog_us"]
from = "errata"
confidence = 0.5
"#;

fn library() -> Library {
    Library::empty()
        .with(Kind::Part, "one", PART)
        .with(Kind::Part, "two", DERIVED)
        .with(Kind::Controller, "quad", "title = 'Quad'\n[controller]\nlanes = 4\n")
        .with(Kind::Setup, "board", "chip = 'one'\ncontroller = 'quad'\nbus.clock_hz = 25e6\n")
}

fn parse(text: &str) -> Node {
    Node::parse(&Source::text("test.toml", text)).unwrap()
}

fn json(node: &Node) -> String {
    serde_json::to_string(node).unwrap()
}

fn resolve(text: &str, sets: &[&str]) -> Result<Config, ConfigError> {
    let library = library();
    let setup = library.setup_from(&Source::text("test.toml", text))?;
    library.resolve(&setup, &Override::parse_all(sets)?)
}

fn number(config: &Config, path: &str) -> u32 {
    config.extract(path).unwrap()
}

#[test]
fn tables_merge_and_the_rest_is_replaced() {
    let merged = parse("a = 1\nt = { x = 1, y = { z = 2 } }\nl = [1, 2]")
        .merge(parse("b = 2\nt = { y = { z = 3, w = 4 } }\nl = [3]"));
    assert_eq!(json(&merged), r#"{"a":1,"b":2,"l":[3],"t":{"x":1,"y":{"w":4,"z":3}}}"#);
}

#[test]
fn merged_values_keep_their_places() {
    let lower = Node::parse(&Source::text("low.toml", "[t]\nx = 1\ny = 2")).unwrap();
    let upper = Node::parse(&Source::text("up.toml", "\n[t]\ny = 3")).unwrap();
    let merged = lower.merge(upper);
    let place = |path| merged.get(path).unwrap().origin.value_place().to_string();
    assert_eq!([place("t"), place("t.x"), place("t.y")], ["low.toml:1:1", "low.toml:2:5", "up.toml:3:5"]);
}

#[test]
fn a_setup_lies_over_profile_and_part() {
    let config = resolve("[chip]\nbase = 'ONE'\nprofile = 'slow'\ntiming.t_rd_us = 60", &[]).unwrap();
    assert_eq!(number(&config, "chip.timing.t_rd_us"), 60);
    assert_eq!(number(&config, "chip.timing.t_prog_us"), 500);
    assert_eq!(config.extract::<Vec<u8>>("chip.id").unwrap(), [1, 2]);
    assert_eq!((config.part().kind.as_str(), config.part().name.as_str()), ("spi-nand", "ONE"));
    assert!(config.tree().get("chip.base").is_none() && config.tree().get("chip.profile").is_none());
}

#[test]
fn a_derived_part_inherits_numbers_profiles_and_sources() {
    let config = resolve("chip = 'two'", &["chip.profile=slow"]).unwrap();
    assert_eq!(number(&config, "chip.timing.t_rd_us"), 50);
    assert_eq!((config.part().name.as_str(), config.part().maker.as_str()), ("TWO", "Maker"));
    let from: Vec<&str> = config.part().sources.iter().map(|source| source.from.as_str()).collect();
    assert_eq!(from, ["data sheet", "errata"]);
    assert!(config.part().sources[1].covers("chip.timing.t_prog_us"));
    assert!(!config.part().sources[1].covers("chip.timing.t_prog_us_max"));
}

#[test]
fn a_part_can_name_its_base_at_its_top() {
    let library = library()
        .with(Kind::Part, "three", "base = 'two'\nname = 'THREE'\nchip.timing.t_rd_us = 7\n")
        .with(Kind::Part, "four", "base = 'one'\nname = 'FOUR'\n")
        .with(Kind::Part, "five", "base = 'one'\n[chip]\nbase = 'two'\n");
    let of = |name: &str| {
        let setup = library.setup_from(&Source::text("test.toml", &format!("chip = '{name}'")))?;
        library.resolve(&setup, &[])
    };
    let three = of("three").unwrap();
    assert_eq!((three.part().name.as_str(), three.part().maker.as_str()), ("THREE", "Maker"));
    let times = ["chip.timing.t_rd_us", "chip.timing.t_prog_us"].map(|key| number(&three, key));
    assert_eq!(times, [7, 300]);
    assert_eq!(number(&of("four").unwrap(), "chip.timing.t_rd_us"), 25);
    assert_eq!(
        of("five").unwrap_err().to_string().lines().next(),
        Some("`base`: it is in the table [chip], too")
    );
}

#[test]
fn a_setup_names_its_own_chip() {
    let config = resolve("[chip]\nbase = 'one'\nname = 'MINE'\ntiming.t_rd_us = 60", &[]).unwrap();
    assert_eq!((config.part().name.as_str(), config.part().maker.as_str()), ("MINE", "Maker"));
    assert!(config.tree().get("chip.name").is_none());
}

#[test]
fn a_setup_can_start_from_another() {
    let config = resolve("base = 'board'\nbus.clock_hz = 50e6\nchip.timing.t_rd_us = 1", &[]).unwrap();
    assert_eq!(number(&config, "chip.timing.t_rd_us"), 1);
    assert_eq!(number(&config, "controller.lanes"), 4);
    assert_eq!(config.extract::<f64>("bus.clock_hz").unwrap(), 50e6);
}

#[test]
fn a_loaded_part_lists_its_leaves() {
    let part = library().load(Kind::Part, "two").unwrap();
    assert_eq!(
        part.table.leaves("chip"),
        ["chip.id", "chip.read", "chip.timing.t_prog_us", "chip.timing.t_rd_us"]
    );
    assert_eq!(part.head.extract::<Part>("").unwrap().name, "TWO");
    let profiles: Vec<&str> = part.profiles.as_table().unwrap().keys().map(AsRef::as_ref).collect();
    assert_eq!(profiles, ["slow"]);
}

#[test]
fn sets_take_toml_and_plain_text() {
    let sets = [
        "bus.mode=1-4-4",
        "bus.clock_hz = 80 MHz",
        "bus.max_hz=80e6",
        "bus.phy=true",
        "bus.name=\"8\"",
        "bus.since=2024-01-02",
        "chip.id=[3, 4]",
    ];
    let config = resolve("chip = 'one'", &sets).unwrap();
    assert_eq!(
        json(config.tree().get("bus").unwrap()),
        r#"{"clock_hz":"80 MHz","max_hz":80000000.0,"mode":"1-4-4","name":"8","phy":true,"since":"2024-01-02"}"#
    );
    assert_eq!(config.extract::<Vec<u8>>("chip.id").unwrap(), [3, 4]);
}

#[test]
fn sets_reach_into_arrays_and_later_ones_win() {
    let sets = ["chip.read.1.dummy=12", "chip.read.1={ dummy = 14 }", "chip.timing={ t_rd_us = 1 }"];
    let config = resolve("chip = 'one'", &sets).unwrap();
    assert_eq!(number(&config, "chip.read.0.dummy"), 8);
    assert_eq!(number(&config, "chip.read.1.dummy"), 14);
    assert_eq!(config.extract::<String>("chip.read.1.mode").unwrap(), "1-1-4");
    assert_eq!(number(&config, "chip.timing.t_prog_us"), 250);
}

#[test]
fn naming_another_chip_drops_what_the_setup_says_of_the_old_one() {
    let setup = "[chip]\nbase = 'one'\ntiming.t_prog_us = 9";
    let named = resolve(setup, &["chip=two", "chip.timing.t_rd_us=7"]).unwrap();
    assert_eq!(number(&named, "chip.timing.t_prog_us"), 300);
    assert_eq!(number(&named, "chip.timing.t_rd_us"), 7);
    let rebased = resolve(setup, &["chip.base=two"]).unwrap();
    assert_eq!(number(&rebased, "chip.timing.t_prog_us"), 9);
    assert_eq!(rebased.part().name, "TWO");
}

#[test]
fn sweeps_multiply_and_the_last_changes_fastest() {
    let rows =
        sweep(&Library::built_in(), &["bus.mode=1-1-1,1-4-4", "chip.id=[1, 2],[3,4], \"a,b\""]).unwrap();
    let shown: Vec<String> = rows.iter().map(ToString::to_string).collect();
    assert_eq!(shown[0], "bus.mode=1-1-1 chip.id=[1, 2]");
    assert_eq!(shown[2], "bus.mode=1-1-1 chip.id=\"a,b\"");
    assert_eq!(shown[3], "bus.mode=1-4-4 chip.id=[1, 2]");
    assert_eq!(rows.len(), 6);
    assert_eq!(sweep(&Library::built_in(), &[] as &[&str]).unwrap().len(), 1);
}

#[test]
fn sweeps_are_bounded() {
    let hundred = (0..101).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let error = sweep(&Library::built_in(), &[format!("a={hundred}"), format!("b={hundred}")]).unwrap_err();
    assert_eq!(error.one_line(), "--sweep #2:1:1: this makes 10201 combinations; at most 10000 are run");
    let twice = sweep(&Library::built_in(), &["a=1,2", "a=3"]).unwrap_err();
    assert_eq!(twice.one_line(), "--sweep #2:1:1: `a` is swept twice");
    let gap = sweep(&Library::built_in(), &["a=1,,2"]).unwrap_err();
    assert_eq!(
        gap.one_line(),
        "--sweep #1:1:5: there is no value after `=` or between commas (an empty text is written `\"\"`)"
    );
}

/// Creates a folder with files for one test.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("floatgate-config-{name}-{}", std::process::id()));
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn paths_start_from_the_file_that_names_them() {
    let files = [
        ("rig.toml", "base = 'sub/rig.toml'\nbus.clock_hz = 1"),
        ("sub/rig.toml", "chip = '../parts/mine.toml'"),
        ("parts/mine.toml", "name = 'MINE'\nchip = 'one'"),
    ];
    let folder = folder("paths", &files);
    let library = library();
    let setup = library.setup(folder.join("rig.toml").to_str().unwrap()).unwrap();
    let config = library.resolve(&setup, &[]).unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert_eq!(config.part().name, "MINE");
}

#[test]
fn files_that_name_each_other_are_refused() {
    let files = [("a.toml", "base = './sub/b.toml'"), ("sub/b.toml", "\nbase = '../a.toml'")];
    let folder = folder("cycle", &files);
    let a = folder.join("a.toml");
    let error = library().setup(a.to_str().unwrap()).unwrap_err();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(error.problem(), Problem::Cycle);
    assert_eq!(error.place().unwrap().line_column(), (2, 8));
}

#[test]
fn chains_are_bounded() {
    let library = (0..30).fold(Library::empty(), |library, n| {
        library.with(Kind::Part, &format!("p{n}"), format!("chip = 'p{}'", n + 1))
    });
    let setup = library.setup_from(&Source::text("test.toml", "chip = 'p0'")).unwrap();
    let error = library.resolve(&setup, &[]).unwrap_err();
    assert_eq!(error.one_line(), "parts/p15.toml:1:8: more than 16 files name each other as base");
}

#[test]
fn unreadable_files_say_why() {
    let large = Source::bytes("large.toml", &vec![b'#'; MAX_BYTES + 1]).unwrap_err();
    assert_eq!(large.one_line(), "`large.toml` is larger than 1024 KiB (name a TOML file)");
    let binary = Source::bytes("chip.bin", b"abc\xFF").unwrap_err();
    assert_eq!(binary.to_string(), "`chip.bin` is not a text file: byte 3 is not UTF-8");
    let missing = library().setup("./none.toml").unwrap_err();
    assert_eq!(missing.to_string(), "cannot read `./none.toml`: there is no such file");
    assert!(missing.one_line().contains("a path is relative to the folder"));
}

#[test]
fn a_line_too_long_to_quote_is_only_named() {
    let text = format!("chip = 'one'\na = {}1{}", "[".repeat(5000), "]".repeat(5000));
    let error = library().setup_from(&Source::text("deep.toml", &text)).unwrap_err();
    assert_eq!(error.excerpt(), None);
    assert!(error.advice().unwrap().to_string().starts_with("it is at deep.toml:2:"), "{error:?}");
}

#[test]
fn an_excerpt_marks_the_place() {
    let config = resolve("chip = 'one'\n\n[bus]\nlanes = 300\n", &[]).unwrap();
    let error = config.extract::<u8>("bus.lanes").unwrap_err();
    let excerpt = error.excerpt().unwrap();
    assert_eq!((excerpt.name, &excerpt.text[excerpt.span]), ("test.toml", "300"));
}

#[test]
fn a_report_has_all_for_programs() {
    let config = resolve("chip = 'one'\n[bus]\nclok = 1", &[]).unwrap();
    let error = config.tree().get("bus").unwrap().only_keys("bus", &["clock"]).unwrap_err();
    assert_eq!(
        serde_json::to_string(&error.report()).unwrap(),
        concat!(
            r#"{"problem":"unknown-key","message":"unknown key `clok` in [bus]","#,
            r#""help":"did you mean `clock`? valid keys: `clock`","#,
            r#""path":"bus.clok","file":"test.toml","line":3,"column":1}"#
        )
    );
}

#[test]
fn errors_of_the_wiring_point_into_the_text() {
    let config = resolve("chip = 'one'\n[bus]\nlanes = 3", &[]).unwrap();
    let error = config.wrong("bus.lanes", "a bus has 1, 2, 4 or 8 lanes");
    assert_eq!(error.one_line(), "test.toml:3:9: `bus.lanes`: a bus has 1, 2, 4 or 8 lanes");
    let absent = config.wrong("bus.clock_hz", "a clock is needed");
    assert_eq!(absent.one_line(), "test.toml:2:1: `bus.clock_hz`: a clock is needed");
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Erase {
    Uniform(u32),
    Regions { sizes: Vec<u32> },
    None,
}

#[test]
fn enums_with_content_are_read() {
    let tree =
        parse("a.uniform = 4\nb.regions.sizes = [1, 2]\nc = 'none'\nd.uniform = 'x'\ne.unifrm = 1\nf = 1");
    assert_eq!(tree.extract::<Erase>("a").unwrap(), Erase::Uniform(4));
    assert_eq!(tree.extract::<Erase>("b").unwrap(), Erase::Regions { sizes: vec![1, 2] });
    assert_eq!(tree.extract::<Erase>("c").unwrap(), Erase::None);
    let line = |path| tree.extract::<Erase>(path).unwrap_err().one_line();
    assert!(line("d").starts_with("test.toml:4:13: `d.uniform`: expected a whole number"), "{}", line("d"));
    assert!(line("e").contains("did you mean `uniform`?"), "{}", line("e"));
    assert_eq!(
        line("f"),
        "test.toml:6:5: `f`: expected one of `uniform`, `regions`, `none`, found the number 1"
    );
}

#[test]
fn arrays_of_fixed_length_refuse_more() {
    let tree = parse("id = [1, 2, 3]");
    let error = tree.extract::<[u8; 2]>("id").unwrap_err();
    assert_eq!(error.one_line(), "test.toml:1:6: `id`: expected 2 elements, found 3");
    assert_eq!(tree.extract::<(u8, u8, u8)>("id").unwrap(), (1, 2, 3));
}

/// Strategy for text that is nearly TOML, which reaches more code than random bytes.
fn nearly_toml() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "chip",
        "base",
        "profile",
        "bus",
        "controller",
        "one",
        "two",
        ".",
        "=",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        ",",
        "\"",
        "'",
        "\n",
        "#",
        " ",
        "1",
        "0x",
        "1e9",
        "nan",
        "true",
        "ü",
        "\u{feff}",
        "\r\n",
        "\"one\"",
        "chip = \"one\"\n",
        "[chip]\n",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Applies every operation to a text; the result must be printable.
fn exercise(bytes: &[u8], set: &str) {
    let library = library();
    let outcome = Source::bytes("x.toml", bytes).and_then(|source| {
        let setup = library.setup_from(&source)?;
        let config = library.resolve(&setup, &[Override::parse(set, 1)?])?;
        config.only_keys(&["chip"])?;
        config.extract::<Erase>("bus")
    });
    if let Err(error) = outcome {
        assert!(!error.one_line().is_empty());
        if let Some(excerpt) = error.excerpt() {
            assert!(excerpt.text.get(excerpt.span.clone()).is_some(), "{excerpt:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), set in ".{0,40}") {
        exercise(&bytes, &set);
    }

    #[test]
    fn nothing_like_toml_panics(text in nearly_toml(), set in nearly_toml()) {
        exercise(text.as_bytes(), &set);
        exercise(text.as_bytes(), &format!("chip.id={set}"));
        exercise(b"chip = 'one'", &set);
    }

    #[test]
    fn no_sweep_panics(arguments in prop::collection::vec(nearly_toml(), 0..3), text in ".{0,40}") {
        let _ = sweep(&Library::built_in(), &arguments);
        let _ = sweep(&Library::built_in(), &[text]);
    }

    #[test]
    fn merging_with_itself_changes_nothing(text in nearly_toml()) {
        if let Ok(tree) = Node::parse(&Source::text("x.toml", &text)) {
            prop_assert_eq!(json(&tree.clone().merge(tree.clone())), json(&tree));
        }
    }
}

#[test]
fn a_sweep_writes_out_ranges_and_kinds_of_chips() {
    let values = |argument: &str| {
        let rows = sweep(&Library::built_in(), &[argument]).unwrap();
        rows.iter().map(|row| row.overrides[0].value_text().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(values("bus.clock_hz=10e6..40e6:10e6"), ["10000000", "20000000", "30000000", "40000000"]);
    assert_eq!(values("a=0.1..0.3:0.1,7"), ["0.1", "0.2", "0.3", "7"]);
    assert_eq!(values("a=1..4:2"), ["1", "3"]);
    let nor = values("chip=@parallel-nor,w35n01jw");
    assert!(nor.contains(&"s29gl128p".to_owned()) && nor.ends_with(&["w35n01jw".to_owned()]), "{nor:?}");
    for wrong in ["a=1..4:0", "a=4..1:1", "a=1..1e9:1", "a=1..nan:1", "chip=@nand", "chip=@"] {
        let error = sweep(&Library::built_in(), &[wrong]).unwrap_err();
        assert_eq!(error.problem(), Problem::Override, "{wrong}");
    }
}

fn title(text: &str, sets: &[&str]) -> String {
    let config = resolve(text, sets).unwrap();
    config.tree().child("title").and_then(Node::as_text).unwrap_or_default().to_owned()
}

#[test]
fn a_title_says_what_a_setup_has_in_place_of_its_own() {
    let board = "title = 'Board'\nchip = 'one'\ncontroller = 'quad'";
    assert_eq!(title(board, &["controller.lanes=2", "chip=one"]), "Board");
    assert_eq!(title(board, &["chip=two"]), "Board; here with the Maker TWO");
    let library = library().with(Kind::Controller, "octal", "[controller]\nlanes = 8\n").with(
        Kind::Setup,
        "board",
        board,
    );
    let of = |text: &str, sets: &[&str]| {
        let setup = library.setup_from(&Source::text("test.toml", text)).unwrap();
        let config = library.resolve(&setup, &Override::parse_all(sets).unwrap()).unwrap();
        config.tree().child("title").and_then(Node::as_text).unwrap().to_owned()
    };
    assert_eq!(of("base = 'board'", &["controller=octal"]), "Board; here with the controller octal");
    assert_eq!(of("base = 'board'\ncontroller = 'octal'", &[]), "Board; here with the controller octal");
    assert_eq!(
        of("base = 'board'\ncontroller = 'octal'\nchip = 'two'", &[]),
        "Board; here with the Maker TWO and the controller octal"
    );
    assert_eq!(of("base = 'board'\ntitle = 'Mine'\ncontroller = 'octal'", &[]), "Mine");
    assert_eq!(of("base = 'board'\nchip.name = 'MINE'", &[]), "Board; here with the Maker MINE");
}

#[test]
fn another_chip_replaces_profile_and_changes_of_the_base() {
    let library = library().with(Kind::Setup, "slow", "chip = { base = 'one', profile = 'slow' }");
    for text in ["base = 'slow'\nchip = 'two'", "base = 'slow'\nchip.base = 'two'"] {
        let setup = library.setup_from(&Source::text("test.toml", text)).unwrap();
        let config = library.resolve(&setup, &[]).unwrap();
        assert_eq!((config.part().name.as_str(), number(&config, "chip.timing.t_rd_us")), ("TWO", 25));
    }
}

/// A profile was measured on the base's chip, so values that the file itself states have priority.
#[test]
fn own_values_win_over_profiles_of_the_base() {
    let config = resolve("chip = { base = 'two', profile = 'slow' }", &[]).unwrap();
    let times = ["chip.timing.t_rd_us", "chip.timing.t_prog_us"].map(|key| number(&config, key));
    assert_eq!(times, [50, 300]);
    let error = config.wrong("chip.timing", "wrong").one_line();
    assert!(error.starts_with("parts/two.toml:"), "{error}");
}

#[test]
fn kinds_of_parts_and_cards_are_checked_where_a_file_is_read() {
    let library = library().with(Kind::Part, "wrong", PART.replace("spi-nand", "spi-nad")).with(
        Kind::Card,
        "card",
        "kind = 'emcc'\nname = 'C'\n[card]\n",
    );
    let error = |kind, name| library.load(kind, name).unwrap_err().one_line();
    let part = error(Kind::Part, "wrong");
    assert!(part.contains("did you mean `spi-nand`?") && part.contains(":2:8"), "{part}");
    let card = error(Kind::Card, "card");
    assert!(card.contains("did you mean `emmc`?") && card.contains(":1:8"), "{card}");
}

#[test]
fn the_file_of_a_part_runs_on_the_board_of_that_part() {
    let folder = std::env::temp_dir().join(format!("floatgate-own-part-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let library = Library::built_in().in_folder(&folder);
    let board = |name: &str| library.setup(name).unwrap().board().map(str::to_owned);
    for part in ["w25n01gv", "mx30lf1g18ac", "n25q128a"] {
        let text = library.open(Kind::Part, part, None).unwrap();
        fs::write(folder.join("part.toml"), text.content()).unwrap();
        fs::write(folder.join("based.toml"), format!("base = \"{part}\"\n")).unwrap();
        for own in ["part.toml", "based.toml"] {
            assert_eq!(board(own), board(part), "{own} of {part}");
        }
    }
    assert_eq!(board("ef-aa-21"), board("w25n01gv"));
    fs::remove_dir_all(&folder).unwrap();
}

/// An area of the OOB that a user's value makes overlap another one is rejected at that value.
#[test]
fn areas_of_the_oob_must_not_overlap() {
    let library = Library::built_in();
    let setup = library.setup("w25n01gv").unwrap();
    let chip = |sets: &[&str]| {
        library.resolve(&setup, &Override::parse_all(sets).unwrap()).and_then(|config| config.chip())
    };
    chip(&[]).unwrap();
    let error = chip(&["chip.oob.user.len=9"]).unwrap_err();
    assert!(error.one_line().starts_with("--set #1:"), "{}", error.one_line());
    assert!(error.to_string().contains("in two of its areas"), "{error}");
}

/// A user's chip stays on its board when its size changes.
#[test]
fn the_board_of_an_own_chip_does_not_follow_its_size() {
    let text = |blocks: u32, base: &str| {
        format!("base = \"{base}\"\nname = \"MINE\"\n[chip.geometry]\nblocks_per_lun = {blocks}\n")
    };
    let own = Library::built_in();
    let whole = own.load(Kind::Part, "w25n01gv").unwrap().to_toml(Kind::Part).replace("W25N01GV", "MINE");
    let files = [("small.toml", text(512, "w25n01gv")), ("large.toml", text(4096, "w25n01gv"))];
    let copies = [512, 2048].map(|blocks| {
        let line = format!("blocks_per_lun = {blocks}");
        (format!("own-{blocks}.toml"), whole.replace("blocks_per_lun = 1024", &line))
    });
    let all: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .chain(copies.iter().map(|(name, text)| (name.as_str(), text.as_str())))
        .collect();
    let folder = folder("own-size", &all);
    let board = |name: &str| own.setup(folder.join(name)).unwrap().board().map(str::to_owned);
    let boards: Vec<_> = all.iter().map(|(name, _)| board(name)).collect();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!((&boards[0], &boards[2]), (&boards[1], &boards[3]));
    assert!(boards.iter().all(Option::is_some), "{boards:?}");
}

/// All sources of the catalogue refer to existing keys, and sources of a user's file must, too.
#[test]
fn a_source_of_no_key_is_refused_where_it_stands() {
    let source = |of: &str| {
        format!(
            "base = \"emmc-16g\"\n[[source]]\nof = [\"card.dies\", \"{of}\"]\nfrom = \"x\"\nconfidence = 0.5\n"
        )
    };
    let (right, wrong) = (source("card.wear.static_difference"), source("card.wear.static_diference"));
    let folder = folder("sources", &[("right.toml", &right), ("wrong.toml", &wrong)]);
    let library = Library::built_in();
    let load = |name: &str| library.card(folder.join(name), &[]).map(drop);
    let (right, wrong) = (load("right.toml"), load("wrong.toml"));
    fs::remove_dir_all(&folder).unwrap();
    right.unwrap();
    let error = wrong.unwrap_err();
    assert_eq!(error.place().unwrap().line_column(), (3, 20));
    assert!(error.one_line().contains("did you mean `card.wear.static_difference`?"), "{}", error.one_line());
}

#[test]
fn tables_that_few_commands_read_have_documented_keys_only() {
    let config = |text: &str| resolve(&format!("base = 'board'\n{text}"), &[]).unwrap();
    config("filesystem.kind = 'jffs2'\npage_cache.bytes = 1").only_documented("filesystem").unwrap();
    let error = config("page_cache.byte = 1").only_documented("page_cache").unwrap_err().one_line();
    assert!(error.contains("did you mean `bytes`?"), "{error}");
}

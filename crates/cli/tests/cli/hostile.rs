//! Arguments and files that nobody should give: they are refused, or harmless, and nothing panics.

use crate::support::{Run, assert_refused, finish, floatgate, fresh, run_in, stdout};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Every command line of one argument more than `{}` stands for.
const HOLES: &[&[&str]] = &[
    &["sweep", "{}", "-o", "designs.csv"],
    &["report", "{}", "-o", "-"],
    &["report", "am62a-w35n01jw", "-o", "-", "--set", "{}"],
    &["fit", "{}", "/dev/null"],
    &["fit", "imx6-mx30lf2g18ac", "{}"],
    &["speed", "{}"],
    &["speed", "am62a-w35n01jw", "--set", "{}"],
    &["speed", "am62a-w35n01jw", "--sweep", "{}"],
    &["trace", "{}", "read-page"],
    &["trace", "am62a-w35n01jw", "{}"],
    &["keystore", "{}"],
    &["endurance", "{}"],
    &["endurance", "mt29f8g08maawc", "--set", "{}"],
    &["endurance", "mt29f8g08maawc", "--predict", "{}"],
    &["card", "speed", "{}"],
    &["card", "speed", "kingston-class-10", "--set", "{}"],
    &["card", "info", "{}"],
    &["card", "info", "kingston-class-10", "--set", "{}"],
    &["card", "powercut", "{}"],
    &["card", "powercut", "kingston-class-10", "--replay", "{}"],
    &["card", "amplification", "--over-provisioning", "{}"],
    &["card", "run", "kingston-class-10", "--cuts", "{}"],
    &["card", "run", "kingston-class-10", "--fs", "nilfs2", "--nilfs-cleaner", "{}"],
    &["card", "run", "kingston-class-10", "--host", "{}"],
    &["card", "replay", "kingston-class-10", "{}"],
    &["card", "compare", "{}"],
    &["card", "compare", "kingston-class-10", "--fs", "{}"],
    &["advise", "{}"],
    &["advise", "kingston-class-10", "--fs", "{}"],
    &["fs", "{}", "--partition", "4MiB"],
    &["fs", "stm32-n25q128a", "--partition", "{}"],
    &["probe", "kingston-class-10", "--set", "{}"],
    &["probe", "kingston-class-10", "--printed", "{}"],
    &["probe", "--from", "{}"],
    &["papers", "{}"],
    &["parts", "{}"],
    &["setups", "{}"],
];

/// What goes into the holes: names, paths and overrides that cannot be right.
const NASTY: [&str; 30] = [
    "",
    " ",
    ".",
    "..",
    "/",
    "./",
    "folder.toml",
    "binary.toml",
    "empty.toml",
    "deep.toml",
    "dotted.toml",
    "large.toml",
    "loop.toml",
    "missing.toml",
    "no/such/folder.toml",
    "two\nlines",
    "=",
    "==",
    "a=",
    "=b",
    "bus.mode",
    "bus..mode=1-1-1",
    "chip=",
    "chip=[",
    "chip={a=1",
    "chip=folder.toml",
    "chip=loop.toml",
    "\u{202e}\u{1F4A5}",
    "--",
    "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z=1",
];

fn folder() -> std::path::PathBuf {
    let folder = fresh("hostile");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    std::fs::create_dir_all(folder.join("folder.toml")).unwrap();
    write("binary.toml", &[0x7F, b'E', b'L', b'F', 0xFF, 0xFE, 0]);
    write("empty.toml", b"");
    write("deep.toml", format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000)).as_bytes());
    write("dotted.toml", format!("chip = 'w35n01jw'\n[{}]\nx = 1\n", vec!["a"; 5000].join(".")).as_bytes());
    write("large.toml", &vec![b'#'; 3 << 20]);
    write("loop.toml", b"base = 'loop.toml'\nkind = 'spi-nand'\nname = 'x'\n[chip]\nbase = 'loop.toml'\n");
    folder
}

#[test]
fn nonsense_is_refused() {
    let folder = folder();
    for &hole in HOLES {
        for nasty in NASTY {
            let args: Vec<&str> = hole.iter().map(|arg| if *arg == "{}" { nasty } else { arg }).collect();
            if args == ["papers", ""] || args == ["parts", "--"] || args == ["setups", "--"] {
                continue;
            }
            // Nothing is an empty list there.
            if nasty == "--" && (hole.len() == 2 || args == ["card", "compare", "--"]) {
                assert_harmless(&args, &run_in(&folder, &args));
                continue;
            }
            assert_refused(&format!("{args:?}"), &run_in(&folder, &args));
        }
    }
}

/// Titles and names come from anybody's files: a terminal obeys none of their characters, and no line of theirs looks like a figure. JSON has them
/// as they are.
#[test]
fn titles_and_names_do_nothing_to_a_terminal() {
    let folder = fresh("titles");
    let title = r"two\npage read speed is 99999 KiB/s\r\u001b]0;taken\u0007\u001b[2J\u202e";
    let setup = stdout("setups am62a-w35n01jw");
    let (first, rest) = setup.split_at(setup.find("title = ").unwrap());
    let rest = rest.split_once('\n').unwrap().1;
    std::fs::write(folder.join("evil.toml"), format!("{first}title = \"{title}\"\n{rest}")).unwrap();
    let read: Value = serde_json::from_str(&format!("\"{title}\"")).unwrap();
    for args in [&["speed", "evil.toml", "-c1"][..], &["trace", "evil.toml", "read-page"]] {
        let shown = run_in(&folder, args);
        assert_eq!(shown.code, Some(0), "{}", shown.err);
        let is_bad = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!shown.out.contains(is_bad), "{:?}", shown.out);
        assert!(
            shown.out.lines().any(|line| line.starts_with("two page read speed is 99999")),
            "{}",
            shown.out
        );
        let json: Value = serde_json::from_str(&run_in(&folder, [args, &["--json"]].concat()).out).unwrap();
        assert_eq!(json["title"], read);
    }
    let messages = [
        &["speed", "\u{1b}]0;taken\u{7}"][..],
        &["image", "info", "\u{1b}[2J.ubi"],
        &["\u{1b}[2J"],
        &["speed", "--\u{1b}[2J"],
        &["speed", "am62a-w35n01jw", "-c", "\u{1b}]0;taken\u{7}"],
        &["speed", "am62a-w35n01jw", "--corner", "\u{1b}[2J\u{202e}"],
    ];
    for args in messages {
        let refused = run_in(&folder, args);
        assert_refused(&format!("{args:?}"), &refused);
        assert!(!refused.err.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", refused.err);
    }
}

/// Numbers at and beyond the borders of what fits.
const NUMBERS: [&str; 12] = [
    "-1",
    "0",
    "1",
    "1.5",
    "1e9",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "NaN",
    "0x10",
];

#[test]
fn numbers_beyond_the_borders_do_no_harm() {
    let folder = fresh("numbers");
    for option in ["-b", "-c", "-s", "-k", "--pages", "--seed", "--bad-blocks"] {
        for number in NUMBERS {
            let args = ["speed", "imx6-mx30lf2g18ac", option, number];
            assert_harmless(&args, &run_in(&folder, args));
        }
    }
    for option in ["--blocks", "--chips", "--seed", "--temperature", "--interleave", "--example-trace"] {
        for number in NUMBERS.into_iter().filter(|n| *n != "4294967295") {
            let args = ["endurance", "mt29f8g08maawc", option, number];
            assert_harmless(&args, &run_in(&folder, args));
        }
    }
    for args in [&["card", "speed", "a1-32g", "--sizes", "4x"][..], &["speed", "am62a-w35n01jw", "-c", "1.5"]]
    {
        let refused = run_in(&folder, args);
        assert_refused("no number", &refused);
        assert!(!refused.err.contains("digit found in string"), "{}", refused.err);
    }
    let args = ["speed", "am62a-w35n01jw", "-s", "4294967295", "-c", "4294967295", "-b", "4294967295"];
    assert_refused("blocks beyond 64 bits", &run_in(&folder, args));
}

/// Asserts that a run ended in an orderly way, whatever its outcome.
fn assert_harmless<A: std::fmt::Debug>(args: &A, run: &Run) {
    assert!(matches!(run.code, Some(0 | 2)), "{args:?}: {:?}\n{}", run.code, run.err);
    assert_eq!(run.code == Some(2), run.out.is_empty(), "{args:?}");
}

#[test]
#[cfg(unix)]
fn arguments_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bytes = OsStr::from_bytes(b"\xFF\xFE.toml");
    for before in [
        &["speed"][..],
        &["speed", "am62a-w35n01jw", "--set"],
        &["papers"],
        &["parts"],
        &["card", "speed"],
        &["keystore"],
        &["endurance"],
    ] {
        let run = finish(floatgate().args(before).arg(bytes));
        assert_refused(&format!("{before:?} and bytes"), &run);
    }
    // A path of bytes is a path all the same.
    let folder = fresh("bytes");
    let bytes = OsStr::from_bytes(b"\xFF\xFE.svg");
    let run = finish(
        floatgate().args(["speed", "am62a-w35n01jw", "-c1", "--plot"]).arg(bytes).current_dir(&folder),
    );
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(folder.join(bytes).is_file());
}

/// Dotted paths of a setup's numbers; of a list of tables those of its first.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(table) => table.iter().for_each(|(key, value)| numbers(value, &below(key), found)),
        Value::Array(list) => list.first().into_iter().for_each(|first| numbers(first, &below("0"), found)),
        _ if path.starts_with("part.") => {}
        _ => found.push(path.to_owned()),
    }
}

/// Sets every field of `setup` to nothing, much and too much, and sees whether the binary survives.
fn survives(folder: &Path, setup: &str) -> usize {
    let tree: Value = serde_json::from_str(&run_in(folder, ["setups", setup, "--json"]).out).unwrap();
    let mut paths = Vec::new();
    numbers(&tree, "", &mut paths);
    for path in &paths {
        let set = |value: &str| format!("{path}={value}");
        for value in ["0", "9007199254740993"] {
            let args = ["trace", setup, "write-page", "--set", &set(value)];
            assert_harmless(&args, &run_in(folder, args));
        }
        let args = ["speed", setup, "-c", "1", "--set", &set("1000000000")];
        assert_harmless(&args, &run_in(folder, args));
    }
    paths.len()
}

#[test]
fn no_value_of_the_firmware_is_fatal() {
    let folder = fresh("firmware");
    let fields = [
        "clock_hz",
        "call_us",
        "tx_ns_per_byte",
        "rx_ns_per_byte",
        "compare_page_ns",
        "tick_us",
        "delay_ticks",
    ];
    for field in fields {
        for value in ["0", "1000000000", "9007199254740993", "-1", "'1 h'"] {
            let set = format!("firmware.{field}={value}");
            let args = ["keystore", "--set", &set];
            assert_harmless(&args, &run_in(&folder, args));
        }
    }
}

#[test]
fn no_value_of_a_card_is_fatal() {
    values_of_cards(&["0", "9007199254740993"]);
}

#[test]
#[ignore = "slow: six values of each field of three cards"]
fn slow_no_value_of_a_card_is_fatal() {
    values_of_cards(&["0", "9007199254740993", "1", "1000000000", "-1", "spi"]);
}

/// Tries the values in each field of three cards; where a card before had the field, too, only the first.
fn values_of_cards(values: &[&str]) {
    let folder = fresh(&format!("cards-{}", values.len()));
    let mut seen = BTreeSet::new();
    for card in ["sandisk-extreme", "fake-chain-32g", "a1-32g"] {
        let shown: Value = serde_json::from_str(&stdout(&format!("parts {card} --json"))).unwrap();
        let mut paths = Vec::new();
        numbers(&shown["card"], "card", &mut paths);
        assert!(paths.len() > 20, "{card} has few fields");
        for path in paths {
            let is_new = seen.insert(path.clone());
            for value in &values[..if is_new { values.len() } else { 1 }] {
                let set = format!("{path}={value}");
                let small = "card.capacity_bytes=256MiB";
                let args = ["card", "speed", card, "--requests", "5", "--set", small, "--set", &set];
                assert_harmless(&args, &run_in(&folder, args));
            }
        }
    }
}

#[test]
fn no_value_of_any_field_is_fatal() {
    let folder = fresh("fields");
    let setups = ["am62a-w35n01jw", "zc702-mx25uw12845g", "imx6-mx30lf2g18ac", "memory-bus-s29gl128p"];
    std::thread::scope(|threads| {
        for setup in setups {
            let folder = &folder;
            threads.spawn(move || assert!(survives(folder, setup) > 15, "{setup} has few fields"));
        }
    });
}

#[test]
fn no_value_of_the_wear_is_fatal() {
    let folder = fresh("wear");
    let tree: Value =
        serde_json::from_str(&run_in(&folder, ["parts", "mt29f8g08maawc", "--json"]).out).unwrap();
    let mut paths = Vec::new();
    numbers(&tree["chip"], "chip", &mut paths);
    let wear = ["break_in_cycles", "program_exponent", "erase_exponent", "pace_spread"];
    paths.extend(wear.map(|key| format!("chip.wear.{key}")));
    std::fs::write(folder.join("block.csv"), "1000,650,2000\n200000,490,4250\n").unwrap();
    for path in paths {
        for value in ["0", "-1", "1e-9", "2", "1000000000", "9007199254740993", "nan", "inf"] {
            let set = format!("{path}={value}");
            for with in [["--blocks", "3"], ["--predict", "block.csv"]] {
                let args = ["endurance", "mt29f8g08maawc", "--set", &set, with[0], with[1]];
                assert_harmless(&args, &run_in(&folder, args));
            }
        }
    }
}

#[test]
fn the_catalogue_has_no_part_that_a_suitable_setup_refuses() {
    let folder = fresh("suitable");
    let spi = "controller = 'ideal-spi'\n[bus]\nclock_hz = '50 MHz'\nlanes = 8\nreset_pin = true\n";
    std::fs::write(folder.join("nor.toml"), format!("chip = 'w25q128jv'\n{spi}")).unwrap();
    // Not every SPI NAND corrects by itself; an engine on the host suits them all.
    let ecc = "[ecc]\nengine = 'software'\ndecode_ns_per_kb = 1000\n";
    std::fs::write(folder.join("nand.toml"), format!("chip = 'w25n01gv'\n{spi}{ecc}")).unwrap();
    let kinds = [
        ("spi-nand", "./nand.toml"),
        ("spi-nor", "./nor.toml"),
        ("raw-nand", "imx6-mx30lf2g18ac"),
        ("parallel-nor", "memory-bus-s29gl128p"),
    ];
    let all: Value = serde_json::from_str(&stdout("parts --json")).unwrap();
    for (kind, setup) in kinds {
        let of_kind = all["rows"].as_array().unwrap().iter().filter(|row| row["kind"] == kind);
        for part in of_kind.map(|row| row["part"].as_str().unwrap()) {
            let chip = format!("chip={part}");
            let run = run_in(&folder, ["speed", setup, "-c", "1", "--set", &chip]);
            assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{part} on {setup}");
        }
    }
    assert!(stdout("parts").contains("w35n01jw"));
}

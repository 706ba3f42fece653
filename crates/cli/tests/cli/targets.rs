//! Every command takes every kind of target that it understands, and says of the others what takes them.

use crate::support::{fresh, run_in};
use std::path::{Path, PathBuf};

/// Kinds of targets: name in this test, and what is typed.
const TARGETS: [(&str, &str); 8] = [
    ("board", "imx6-mx30lf2g18ac"),
    ("part", "mx30lf1g18ac"),
    ("card", "emmc-16g"),
    ("file of a board", "board.toml"),
    ("file of a part", "part.toml"),
    ("file of a card", "card.toml"),
    ("image", "images/rootfs.ubi"),
    ("result", "speed.json"),
];

/// Raw flash, cards and both, in the order of [`TARGETS`].
const FLASH: &str = "++-++---";
const CARDS: &str = "--+--+--";
const BOTH: &str = "++++++--";

/// A command, which targets it takes (`?`: not tried, as it takes long), and its options for boards, parts and cards.
type Line = (&'static str, &'static str, [&'static str; 3]);

const COMMANDS: [Line; 17] = [
    ("speed T", BOTH, ["-c 1", "-c 1", "--set card.capacity_bytes=256MiB --sizes 4096 --requests 10"]),
    ("speed T --sweep bus.interface=sdr0,sdr1 -c 1", FLASH, [""; 3]),
    ("speed T --fs jffs2 --partition 2MiB -c 1", FLASH, [""; 3]),
    (
        "fs T",
        BOTH,
        [
            "--fs raw --test read --bytes 64KiB --partition 2MiB",
            "--fs raw --test read --bytes 64KiB --partition 2MiB",
            "--state empty --fs vfat --workload create",
        ],
    ),
    ("trace T read-page", FLASH, [""; 3]),
    (
        "powercut T --cuts 4",
        BOTH,
        ["--fs jffs2 --steps 20 --partition 1MiB", "--fs jffs2 --steps 20 --partition 1MiB", ""],
    ),
    (
        "life T",
        "++?++?--",
        ["--years 0.1 --chips 1 --partition 8MiB", "--blocks 1 --chips 1 --erase-only", ""],
    ),
    ("record T --bytes 1MiB", "++?++?--", ["--fs jffs2 --partition 8MiB", "--fs jffs2 --partition 8MiB", ""]),
    ("advise T", "???+?+--", ["--partition 4MiB", "", "--workload create --state empty"]),
    ("compare T board.toml --partition 4MiB", "?+?+??--", [""; 3]),
    ("otp info T", FLASH, [""; 3]),
    ("ecc advise T", FLASH, [""; 3]),
    ("run T --trace vfat-create", CARDS, [""; 3]),
    ("list T", BOTH, [""; 3]),
    ("list T --registers", CARDS, [""; 3]),
    ("report T -o page.html", "+++++?-+", ["", "", "--set card.capacity_bytes=256MiB"]),
    ("image info T", "------+-", [""; 3]),
];

/// The files that [`TARGETS`] name, in a folder for one test.
fn folder(test: &str) -> PathBuf {
    let folder = fresh(&format!("targets-{test}"));
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("board.toml", "base = \"imx6-mx30lf2g18ac\"\n");
    write("part.toml", "base = \"mx30lf1g18ac\"\nname = \"MINE\"\n");
    write("card.toml", "base = \"emmc-16g\"\nname = \"MINE\"\n");
    let images = folder.join("images");
    std::fs::create_dir(&images).unwrap();
    crate::images::write(&images);
    let result = run_in(&folder, ["speed", "imx6-mx30lf2g18ac", "-c", "1", "--json"]);
    write("speed.json", &result.out);
    folder
}

/// The words of a command for a target.
fn words((command, _, [boards, parts, cards]): Line, (kind, target): (&str, &str)) -> Vec<String> {
    let own = match kind {
        kind if kind.ends_with("card") => cards,
        kind if kind.ends_with("part") => parts,
        _ => boards,
    };
    let line = format!("{} {own}", command.replacen('T', target, 1));
    line.split_whitespace().map(str::to_owned).collect()
}

fn wrong(folder: &Path, line: Line, target: (&str, &str), is_taken: bool) -> Option<String> {
    let words = words(line, target);
    let run = run_in(folder, &words);
    let is_right = match is_taken {
        true => matches!(run.code, Some(0 | 1)),
        // A refusal says what to do.
        false => run.code == Some(2) && ["help:", "Usage:", "tip:"].iter().any(|word| run.err.contains(word)),
    };
    (!is_right).then(|| format!("{}: {:?} {}", words.join(" "), run.code, run.err))
}

#[test]
fn every_command_takes_the_targets_that_it_understands() {
    let folder = folder("matrix");
    let mut all = Vec::new();
    for line in COMMANDS {
        for (target, taken) in TARGETS.into_iter().zip(line.1.chars()).filter(|(_, taken)| *taken != '?') {
            all.extend(wrong(&folder, line, target, taken == '+'));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// A result names the board on which a part ran.
#[test]
fn results_of_a_part_name_its_board() {
    let folder = folder("board");
    let board = |line: &str| {
        let run = run_in(&folder, line.split(' '));
        let json: serde_json::Value =
            serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{line}: {}", run.err));
        json["board"].as_str().map(str::to_owned)
    };
    let found = board("speed mx30lf1g18ac -c 1 --json").unwrap();
    assert_eq!(board("trace part.toml read-page --json"), Some(found.clone()));
    assert_eq!(
        board("powercut mx30lf1g18ac --fs jffs2 --cuts 2 --steps 20 --partition 1MiB --json"),
        Some(found.clone())
    );
    // Each kind of result has it from its setup or from itself.
    for line in [
        "record mx30lf1g18ac --fs jffs2 --partition 8MiB --bytes 1MiB --json",
        "otp info mx30lf1g18ac --json",
        "advise mx30lf1g18ac --partition 4MiB --json",
    ] {
        assert!(board(line).is_some(), "{line}");
    }
    assert_eq!(board("speed imx6-mx30lf2g18ac -c 1 --json"), None);
    let sweep = "speed mx30lf1g18ac -c 1 --sweep bus.interface=sdr0";
    assert_eq!(board(&format!("{sweep} --json")), Some(found.clone()));
    let text = run_in(&folder, sweep.split(' ')).out;
    let csv = run_in(&folder, format!("{sweep} --csv").split(' ')).out;
    assert!(text.contains(&found) && csv.contains(&format!(",{found},")), "{text}\n{csv}");
    let spec = "setup = \"mx30lf1g18ac\"\n[space]\nbus.interface = [\"sdr0\"]\n";
    std::fs::write(folder.join("designs.toml"), spec).unwrap();
    let swept = run_in(&folder, ["sweep", "designs.toml", "-o", "-", "--format", "csv"]);
    assert!(
        swept.out.contains(&format!(",{found},")) && swept.err.contains(&found),
        "{}{}",
        swept.out,
        swept.err
    );
}

/// One option has one name everywhere, and the older spellings mean the same.
#[test]
fn older_spellings_mean_the_same() {
    let folder = folder("spellings");
    let numbers = |line: &str| {
        let run = run_in(&folder, line.split(' '));
        let mut json: serde_json::Value =
            serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{line}: {}", run.err));
        json.as_object_mut().unwrap().remove("overrides");
        json
    };
    let board = "imx6-mx30lf2g18ac";
    for (one, other) in [
        (
            format!("speed {board} --partition 4MiB -c 1"),
            format!("speed {board} --set partition.size=4MiB -c 1"),
        ),
        (format!("speed {board} --size 4MiB -c 1"), format!("speed {board} --partition 4MiB -c 1")),
        (
            format!("powercut {board} --fs jffs2 --cuts 4 --steps 20 --partition 1MiB --second"),
            format!("powercut {board} --fs jffs2 --cuts 4 --steps 20 --size 1MiB --recovery-cuts 1"),
        ),
        (
            format!(
                "powercut {board} --fs jffs2 --exhaustive --steps 12 --partition 1MiB --fast --second never"
            ),
            format!(
                "powercut {board} --fs jffs2 --mode exhaustive --steps 12 --partition 1MiB --fast --recovery-cuts 0"
            ),
        ),
    ] {
        assert_eq!(numbers(&format!("{one} --json")), numbers(&format!("{other} --json")), "{one}");
    }
}

/// `--color` and `--quiet` go with every command, before its name or behind it.
#[test]
fn colours_and_remarks_are_chosen() {
    let folder = folder("colours");
    let run = |line: &str| run_in(&folder, line.split(' '));
    let bold = "\u{1B}[1m";
    for line in ["--color always speed mx30lf1g18ac -c 1", "speed mx30lf1g18ac -c 1 --color=always"] {
        assert!(run(line).out.contains(bold), "{line}");
    }
    assert!(!run("speed mx30lf1g18ac -c 1").out.contains('\u{1B}'));
    assert!(run("-q speed emmc-16g --sizes 4096 --requests 10").err.is_empty());
    let spoken = run("report part.toml -o page.html");
    assert_eq!(
        (spoken.err.is_empty(), run("report part.toml -o page.html -q").err.is_empty()),
        (false, true)
    );
    assert!(run("speed nothing -q").err.contains("no setup and no part is called"));
}

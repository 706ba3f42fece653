//! A chip of the user's own: a file that names what it is based on.

use crate::support::{fresh, run_in};

const OWN: &str = "base = \"w25n01gv\"\nname = \"MINE\"\nchip.timing.t_prog_us.typ = 400\n";

#[test]
fn commands_take_its_file_where_they_take_a_part() {
    let folder = fresh("own-chip");
    std::fs::write(folder.join("mine.toml"), OWN).unwrap();
    for (line, said) in [
        ("speed mine.toml -c1", "Winbond MINE on the board "),
        ("trace mine.toml read-page", "MINE"),
        ("advise mine.toml --partition 8MiB", "Winbond MINE on the board "),
        ("life mine.toml", "MINE"),
        ("report mine.toml -o mine.html", "wrote mine.html"),
        ("otp info mine.toml", "MINE"),
        ("ecc advise mine.toml", "MINE"),
    ] {
        let run = run_in(&folder, line.split(' '));
        assert_eq!(run.code, Some(0), "{line}: {}", run.err);
        assert!(format!("{}{}", run.out, run.err).contains(said), "{line}: {}", run.out);
    }
}

/// A copy whose size was changed kept the SFDP of the other chip, and the driver found the other size.
#[test]
fn the_sfdp_of_another_chip_is_refused() {
    let folder = fresh("own-chip-sfdp");
    let copy = run_in(&folder, ["list", "w25q128jv", "--toml"]).out;
    let larger = copy.replace("size_bytes = \"16 MiB\"", "size_bytes = \"32 MiB\"");
    assert_ne!(copy, larger);
    std::fs::write(folder.join("mine.toml"), larger).unwrap();
    let refused = run_in(&folder, ["speed", "mine.toml"]);
    assert_eq!(refused.code, Some(2), "{}", refused.out);
    assert!(refused.err.contains("states 16 MiB, and geometry.size_bytes is 32 MiB"), "{}", refused.err);
    let unknown = run_in(&folder, ["list", "5e-40"]);
    assert!(unknown.err.contains("no chip of the catalogue has the id 5e-40"), "{}", unknown.err);
}

/// The sources of its base say nothing about what the file changes.
#[test]
fn its_own_values_are_named_as_the_files_own() {
    let folder = fresh("own-chip-values");
    std::fs::write(folder.join("mine.toml"), OWN).unwrap();
    let listed = run_in(&folder, ["list", "mine.toml"]).out;
    let source = |field: &str| {
        let line = listed.lines().find(|line| line.starts_with(&format!("{field} "))).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(source("chip.timing.t_prog_us.typ"), "this");
    assert!(source("chip.timing.t_prog_us.max").starts_with('['));
}

/// A file can be based on another one, and `list` says what is wrong with a setup's file.
#[test]
fn files_of_setups_and_of_parts_based_on_files_are_targets() {
    let folder = fresh("own-chip-files");
    let whole = run_in(&folder, ["list", "w25n01gv", "--toml"]).out;
    std::fs::write(folder.join("whole.toml"), whole).unwrap();
    std::fs::write(folder.join("mine.toml"), "base = \"./whole.toml\"\nname = \"MINE\"\n").unwrap();
    std::fs::write(folder.join("board.toml"), "base = \"am62a-w35n01jw\"\n").unwrap();
    std::fs::write(folder.join("unknown.toml"), "base = \"w25n01gv\"\nchip.timing.t_porg_us = 4\n").unwrap();
    std::fs::write(folder.join("unknown-card.toml"), "base = \"emmc-16g\"\ncard.capacity_bits = 4\n")
        .unwrap();
    std::fs::write(folder.join("wrong.toml"), "base = \"./wrong.toml\"\n").unwrap();
    let impossible = "base = \"w25n01gv\"\n[chip.oob]\nuser = { start = 2, step = 0, len = 900 }\n";
    std::fs::write(folder.join("impossible.toml"), impossible).unwrap();
    for (line, code, said) in [
        ("speed mine.toml -c1", 0, "Winbond MINE on the board "),
        ("speed impossible.toml", 2, "chip.oob"),
        ("list board.toml", 0, "am62a-w35n01jw"),
        ("list wrong.toml", 2, "wrong.toml"),
        ("list unknown.toml", 2, "unknown key `t_porg_us`"),
        ("list unknown-card.toml", 2, "unknown key `capacity_bits`"),
    ] {
        let run = run_in(&folder, line.split(' '));
        assert_eq!(run.code, Some(code), "{line}: {}", run.err);
        assert!(format!("{}{}", run.out, run.err).contains(said), "{line}: {}{}", run.out, run.err);
    }
}

/// Whatever form is asked for, a wrong file is refused; each form is there for each kind of name.
#[test]
fn list_checks_a_file_in_every_form() {
    let folder = fresh("list-forms");
    for (name, text, said) in [
        ("setup.toml", "base = \"am62a-w35n01jw\"\n[filesystem]\nkin = \"ubifs\"\n", "did you mean `kind`?"),
        ("cache.toml", "base = \"stm32-n25q128a\"\n[page_cache]\nbites = 1\n", "[page_cache]"),
        ("part.toml", "base = \"w25n01gv\"\nchip.nops = 4\n", "did you mean `nop`?"),
        ("card.toml", "base = \"emmc-16g\"\nkind = \"emcc\"\n", "did you mean `emmc`?"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        for form in ["", "--toml", "--resolved", "--json"] {
            let words = ["list", name, form].into_iter().filter(|word| !word.is_empty());
            let run = run_in(&folder, words);
            assert_eq!(run.code, Some(2), "{name} {form}: {}", run.out);
            assert!(run.err.contains(said), "{name} {form}: {}", run.err);
        }
    }
    for name in ["w25n01gv", "emmc-16g", "am62a-w35n01jw", "cadence-qspi-am62a", "linux-am62a"] {
        for form in ["--toml", "--resolved", "--json"] {
            let run = run_in(&folder, ["list", name, form]);
            assert_eq!(run.code, Some(0), "{name} {form}: {}", run.err);
        }
    }
}

/// The file of a part of the catalogue runs on the board of that part, and what differs is in the title.
#[test]
fn the_file_of_a_part_is_measured_as_the_part() {
    let folder = fresh("part-file");
    let text = run_in(&folder, ["list", "w25n01gv", "--toml"]).out;
    std::fs::write(folder.join("part.toml"), text).unwrap();
    let speeds = |target: &str| {
        let out = run_in(&folder, ["speed", target, "-c1"]).out;
        out.lines().filter(|line| line.contains("speed is")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(speeds("part.toml"), speeds("w25n01gv"));
    let other = run_in(&folder, "speed am62a-w35n01jw -c1 --set host=linux-allwinner-r8".split(' ')).out;
    assert!(
        other.starts_with("TI AM62A") && other.contains("; here with the host linux-allwinner-r8"),
        "{other}"
    );
}

/// A profile of its base says nothing about what the file states, and errors show the line of the file.
#[test]
fn its_own_values_count_and_are_shown_where_they_are_wrong() {
    let folder = fresh("own-chip-profile");
    std::fs::write(folder.join("mine.toml"), OWN).unwrap();
    let page_write = |line: &str| {
        let shown = run_in(&folder, line.split(' ')).out;
        shown.lines().find(|line| line.starts_with("page write")).unwrap().to_owned()
    };
    let set = page_write("speed w25n01gv --set chip.timing.t_prog_us.typ=400 -c1");
    assert_eq!(page_write("speed mine.toml -c1"), set);
    for (file, text, said) in [
        (
            "max.toml",
            "base = \"w25n01gv\"\nchip.timing.t_prog_us = { typ = 800, max = 700 }\n",
            "max.toml:2:",
        ),
        ("oob.toml", "base = \"w25n01gv\"\nchip.oob.ecc.start = 60\n", "oob.toml:2:"),
        ("typo.toml", "base = \"w25n01gx\"\nname = \"MINE\"\n", "`w25n01gv`"),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
        let refused = run_in(&folder, ["speed", file]);
        assert!(refused.code == Some(2) && refused.err.contains(said), "{file}: {}", refused.err);
    }
    let refused = run_in(&folder, ["speed", "w25n01gv", "--set", "chip.timing.t_prog_us.typ=0"]);
    assert!(refused.code == Some(2) && refused.err.contains("t_prog_us.typ=0"), "{}", refused.err);
}

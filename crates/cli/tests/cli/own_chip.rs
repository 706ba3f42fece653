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
    for (line, code, said) in [
        ("speed mine.toml -c1", 0, "Winbond MINE on the board "),
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

//! `fs --fs ./PROGRAM`: a filesystem that nobody here wrote, a program at the other end of a pipe.

use crate::support::{Run, fresh, run_in};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const SETUP: [&str; 6] = ["fs", "imx6-mx30lf2g18ac", "--set", "partition.size=16MiB", "--bytes", "512KiB"];

/// The example; cargo builds it with the tests.
pub(crate) fn example() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.parent().unwrap().with_file_name("examples").join("own_filesystem");
    assert!(built.exists(), "{}: `cargo build --example own_filesystem` makes it", built.display());
    built
}

fn compared(folder: &Path, program: &str, more: &[&str]) -> Run {
    run_in(folder, [&SETUP[..], &["--fs", program], more].concat())
}

/// A shell script that may be executed.
pub(crate) fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("./{name}")
}

#[test]
fn a_program_stands_beside_ubifs() {
    let (folder, program) = (fresh("own-program"), example());
    let both = format!("{},ubifs", program.display());
    let run = compared(&folder, &both, &["--json"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{}", run.out);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert!(json["refused"].as_array().unwrap().is_empty(), "{}", json["refused"]);
    let rows = json["rows"].as_array().unwrap();
    let of = |subject: &str, name: &str| {
        let found = rows.iter().find(|row| row["subject"] == subject && row["name"] == name);
        found.unwrap_or_else(|| panic!("{subject} {name}: {}", run.out)).clone()
    };
    let own = |name: &str| of("own_filesystem", name);
    let written = own("write random 64 KiB");
    assert!(written["flash"]["programmed_bytes"].as_u64().unwrap() > 512 << 10);
    assert!((1.0..1.1).contains(&written["write_amplification"].as_f64().unwrap()), "{written}");
    // It compresses nothing, so zeros take as long as random bytes; UBIFS compresses them.
    let speed = |row: &Value| row["value"].as_f64().unwrap();
    let zeros = own("write zeros 64 KiB");
    assert!((speed(&zeros) / speed(&written) - 1.0).abs() < 0.05, "{zeros}");
    assert!(speed(&of("ubifs", "write zeros 64 KiB")) > 2.0 * speed(&zeros));
    // Its mount looks at each record, so it takes the longer the more there are.
    assert!(speed(&own("mount many small files")) > 5.0 * speed(&own("mount empty")));
    assert_eq!(compared(&folder, &both, &["--json"]), run, "it repeats exactly");

    let text = compared(&folder, &both, &["--test", "write"]).out;
    assert!(text.contains("the time of own_filesystem itself on the CPU is not counted"), "{text}");
}

#[test]
fn a_program_skips_the_bad_blocks_that_it_asks_for() {
    let program = example();
    let larger = ["--set", "partition.size=32MiB", "--test", "space,bad-blocks", "--json"];
    let run = compared(&fresh("own-program-bad"), program.to_str().unwrap(), &larger);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let free = |name: &str| {
        let rows = json["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["value"].as_f64().unwrap()
    };
    assert!(free("bad-blocks: free after mkfs") <= free("free after mkfs") - 128.0, "{}", run.out);
}

#[test]
fn programs_that_are_none_are_told_so() {
    let folder = fresh("own-program-wrong");
    fs::write(folder.join("plain"), "text").unwrap();
    for (program, why) in
        [("./nowhere", "No such file"), ("./plain", "not a program"), ("./", "not a program")]
    {
        let run = compared(&folder, program, &[]);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{program}");
        assert!(run.err.contains(why), "{program}: {}", run.err);
    }
}

#[test]
fn programs_that_misbehave_end_with_what_they_said() {
    let folder = fresh("own-program-hostile");
    let cases = [
        ("gone", "exit 0", "ended (exit status: 0)"),
        ("fails", "echo no licence >&2; exit 3", "ended (exit status: 3)"),
        ("talks", "echo hello; cat > /dev/null", "not a message of the protocol"),
        ("echoes", "exec cat", "not a message of the protocol"),
        ("endless", "exec yes", "not a message of the protocol"),
        ("zeros", "exec cat /dev/zero", "not a message of the protocol"),
        ("huge", r#"echo '{"done":{},"data":99999999999}'; cat > /dev/null"#, "are the most"),
        (
            "early",
            r#"echo '{"flash":{"op":"erase","at":0}}'; read a; read b; echo "$b" >&2; exit 1"#,
            "the flash is not there yet",
        ),
        ("refuses", r#"read a; echo '{"failed":"not on Tuesdays"}'; cat > /dev/null"#, "not on Tuesdays"),
        (
            "outside",
            r#"read a; echo '{"done":{}}'; read a; echo '{"flash":{"op":"read","at":99999999999,"bytes":9}}'; read a; echo "$a" >&2; exit 1"#,
            "ended (exit status: 1)",
        ),
    ];
    for (name, text, why) in cases {
        let program = script(&folder, name, text);
        let run = compared(&folder, &program, &["--test", "write"]);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{name}: {}", run.err);
        let said = run.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(why), "{name}: {said}");
    }
    let outside = compared(&folder, "./outside", &["--test", "write"]).err;
    assert!(outside.contains("ends beyond the device"), "{outside}");
}

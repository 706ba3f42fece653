//! `floatgate card run`: filesystems of the kernel on a simulated card, each with its own checker.

use serde_json::Value;
use std::process::Command;

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn each_filesystem_is_sound_after_files_were_made_on_a_card() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    command.args(["card", "run", "a1-32g", "--set", "card.capacity_bytes=1GiB", "--workload", "create"]);
    let run =
        command.args(["--fs", "ext4,f2fs,nilfs2,vfat", "--patience", "5400", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stdout));
    let runs: Vec<Value> = serde_json::from_slice(&run.stdout).unwrap();
    let names: Vec<&Value> = runs.iter().map(|run| &run["filesystem"]).collect();
    assert_eq!(names, ["ext4", "f2fs", "nilfs2", "vfat"]);
    for run in &runs {
        assert_eq!(run["verdict"], "clean", "{run}");
        assert_eq!(run["files"], 300, "{run}");
        // Each file is synced, so that its content and its directory must have reached the card.
        let number = |value: &Value| value.as_u64().unwrap();
        assert!(number(&run["write"]["requests"]) >= 300, "{run}");
        assert!(number(&run["write"]["bytes"]) >= 300 * 4096, "{run}");
        assert_eq!(run["failed"], 0, "{run}");
    }
}

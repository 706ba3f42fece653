//! `powercut --lib` and `conformance`: programs and drivers in C, which `cc` compiles here; `powercut --fs ./PROGRAM`.

use crate::support::{Run, fresh, run_in};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn capi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi")
}

/// Compiles a C file into `NAME.so` of a folder.
fn compile(folder: &Path, name: &str, source: &Path, flags: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", "-I"]);
    cc.arg(capi().join("include")).args(flags).arg("-o").arg(folder.join(format!("{name}.so"))).arg(source);
    assert!(cc.status().unwrap().success(), "{name}");
}

/// Compiles the example of a key-value store, as it is and with its fault, into `good.so` and `bad.so`.
pub(crate) fn key_value_stores(folder: &Path) {
    let source = capi().join("examples/key_value.c");
    compile(folder, "good", &source, &[]);
    compile(folder, "bad", &source, &["-DFORGET_SYNC"]);
}

fn cuts(folder: &Path, arguments: &str) -> Run {
    let line = format!("powercut w25q128jv --mode exhaustive {arguments}");
    run_in(folder, line.split_whitespace())
}

#[test]
fn a_forgotten_sync_is_found_shortened_and_repeats() {
    let folder = fresh("c-program");
    key_value_stores(&folder);
    let good = cuts(&folder, "--steps 20 --recovery-cuts 2 --lib ./good.so");
    assert_eq!((good.code, good.err.as_str()), (Some(0), ""), "{}", good.out);
    let end = good.out.trim_end().lines().last().unwrap_or_default();
    assert!(end.starts_with("./good.so: nothing was lost in "), "{}", good.out);

    let bad = cuts(&folder, "--steps 20 --lib ./bad.so --json");
    assert_eq!(bad.code, Some(1), "{}", bad.err);
    let json: Value = serde_json::from_str(&bad.out).unwrap();
    let failure = &json["failures"][0];
    assert_eq!((&failure["kind"], &failure["steps"]), (&"lost".into(), &serde_json::json!([0, 1, 2, 3, 4])));
    let replay = format!("--replay {}", failure["id"].as_str().unwrap());
    assert_eq!(cuts(&folder, &format!("--lib ./bad.so {replay}")).code, Some(1));
    assert_eq!(cuts(&folder, &format!("--lib ./good.so {replay}")).code, Some(0));
}

const UNCHECKED: &str = r#"
#include <floatgate.h>
const char *floatgate_test_recover(fg_device *device) { (void)device; return NULL; }
const char *floatgate_test_step(fg_device *device, uint32_t number) {
  static const uint8_t bytes[1] = {0};
  fg_mtd_write(device, number * 16, bytes, sizeof bytes);
  return NULL;
}
"#;

/// A program that names no value and has no check has not lost nothing: nothing was looked at.
#[test]
fn a_program_without_expectations_is_not_praised() {
    let folder = fresh("c-program-unchecked");
    let source = folder.join("unchecked.c");
    std::fs::write(&source, UNCHECKED).unwrap();
    compile(&folder, "unchecked", &source, &[]);
    let run = cuts(&folder, "--steps 3 --lib ./unchecked.so");
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.out.contains("nothing was checked") && !run.out.contains("nothing was lost"), "{}", run.out);
}

const HOSTILE: &str = r#"
#include <floatgate.h>
#include <stdio.h>
#include <stdlib.h>
static int boots;
const char *floatgate_test_recover(fg_device *device) {
  uint8_t bytes[2];
  if (boots++) return "static variables are not fresh";
  fg_mtd_read(device, 0, bytes, sizeof bytes, NULL);
  if (bytes[0] != 0xFF && bytes[1] == 0xFF) {
    puts("found");
    fputs("half", stderr);
    HOSTILE;
  }
  return NULL;
}
const char *floatgate_test_step(fg_device *device, uint32_t number) {
  const uint8_t zero = 0;
  if (number < 2) fg_mtd_write(device, number, &zero, 1);
  return NULL;
}
"#;

#[test]
fn crashes_and_hangs_are_failures_of_the_program() {
    let folder = fresh("c-program-hostile");
    let source = folder.join("hostile.c");
    std::fs::write(&source, HOSTILE).unwrap();
    for (name, does, kind, why) in [
        ("crash", "-DHOSTILE=abort()", "crash", "SIGABRT"),
        ("hang", "-DHOSTILE=for(;;)", "hang", "no end after 0.5 s"),
        ("exit", "-DHOSTILE=exit(3)", "exit", "it ended itself with status 3"),
        ("text", "-DHOSTILE=return\"torn\"", "recovery", "torn"),
    ] {
        compile(&folder, name, &source, &[does]);
        // On a busy machine, half a second is short for a program that ends.
        let limit = if name == "hang" { "0.5" } else { "20" };
        let run =
            cuts(&folder, &format!("--steps 3 --kind late --time-limit {limit} --lib ./{name}.so --json"));
        assert_eq!(run.code, Some(1), "{name}: {}", run.err);
        let failure = serde_json::from_str::<Value>(&run.out).unwrap()["failures"][0].clone();
        assert_eq!(failure["kind"], kind, "{failure}");
        assert_eq!(
            (&failure["why"], &failure["at"]),
            (&why.into(), &"floatgate_test_recover after 1 power cut".into())
        );
        assert_eq!(failure["printed"], serde_json::json!(["found", "half"]), "{name}");
    }
}

#[test]
fn what_is_no_program_is_refused() {
    let folder = fresh("c-program-none");
    std::fs::write(folder.join("text.so"), "text").unwrap();
    std::fs::write(folder.join("empty.c"), "int nothing;").unwrap();
    compile(&folder, "empty", &folder.join("empty.c"), &[]);
    for (arguments, why) in [
        ("--lib ./absent.so", "./absent.so: No such file"),
        ("--lib ./text.so", "./text.so: the loader: "),
        ("--fs ./text.so", "./text.so: not a program"),
        ("--lib ./empty.so", "no function `floatgate_test_recover`"),
        ("--lib ./empty.so --fast", "--fast does not go with a program"),
        ("--lib ./empty.so --replay lib:chip1_00000000:0:0:1.late", "another setup"),
        ("--replay lib:chip1_00000000:0:0:1.late", "this run was of a program"),
        ("--lib ./empty.so --time-limit nan", "give seconds"),
        ("--recovery-cuts 2", "UBIFS and JFFS2 are cut once in each recovery"),
        ("--lib ./empty.so --recovery-cuts exhaustive", "does not go with a program"),
    ] {
        let run = cuts(&folder, arguments);
        assert_eq!(run.code, Some(2), "{arguments}: {}", run.out);
        assert!(run.err.contains(why), "{arguments}: {}", run.err);
    }
}

#[test]
fn a_filesystem_at_the_other_end_of_a_pipe_is_cut() {
    let folder = fresh("c-program-fs");
    let program = crate::own_program::example();
    let line = format!(
        "powercut stm32-n25q128a --fs {} --partition 1MiB --steps 2 --cuts 4 --json",
        program.display()
    );
    let run = run_in(&folder, line.split_whitespace());
    let json: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}", run.err));
    assert_eq!((&json["kind"], &json["runs"]), (&"powercut-program".into(), &4.into()));
    let forget = format!("FORGET_FSYNC=1 exec {}", program.display());
    let forget = crate::own_program::script(&folder, "forget", &forget);
    for (program, code, kinds) in [(program.to_str().unwrap(), 0, 0), (forget.as_str(), 1, 1)] {
        let line = format!(
            "powercut imx6-mx30lf2g18ac --fs {program} --partition 4MiB --steps 9 --mode exhaustive --kind before --json"
        );
        let run = run_in(&folder, line.split_whitespace());
        let lost = run.out.matches("\"kind\": \"lost\"").count();
        assert_eq!((run.code, lost), (Some(code), kinds), "{program}: {}{}", run.out, run.err);
    }
    let run = run_in(&folder, "powercut stm32-n25q128a --fs ./absent --cuts 4".split_whitespace());
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("./absent: No such file"), "{}", run.err);
}

/// Compiles the example of a driver, with a fault or without.
pub(crate) fn driver(folder: &Path, name: &str, flags: &[&str]) {
    compile(folder, name, &capi().join("examples/nor_driver.c"), flags);
}

const TALKATIVE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define floatgate_driver_erase erase
#include "nor_driver.c"
#undef floatgate_driver_erase
const char *floatgate_driver_erase(fg_device *chip, uint64_t address) {
  for (int line = 0; line < 30; line++) printf("line %d\n", line);
  fprintf(stderr, "erase of %#llx\n", (unsigned long long)address);
  abort();
  return erase(chip, address);
}
"#;

#[test]
fn a_failed_check_has_the_last_lines_of_the_driver() {
    let folder = fresh("c-program-talkative");
    let source = folder.join("talkative.c");
    std::fs::write(&source, TALKATIVE).unwrap();
    let examples = format!("-I{}", capi().join("examples").display());
    compile(&folder, "talkative", &source, &[&examples]);
    let line = "conformance w25q128jv --driver ./talkative.so --junit card.xml";
    let json = run_in(&folder, format!("{line} --verbose --json").split_whitespace());
    assert!(json.err.contains("w25q128jv: erase: line 0\nw25q128jv: erase: line 1\n"), "{}", json.err);
    let rows = serde_json::from_str::<Value>(&json.out).unwrap()["rows"].as_array().unwrap().clone();
    let erase = rows.iter().find(|row| row["check"] == "erase").unwrap();
    assert_eq!((&erase["why"], &erase["printed_lines"]), (&"the driver crashed: SIGABRT".into(), &31.into()));
    let printed = erase["printed"].as_array().unwrap();
    assert_eq!(
        (printed.len(), &printed[0], &printed[19]),
        (20, &"line 11".into(), &"erase of 0xffe000".into())
    );
    assert!(rows.iter().all(|row| row["result"] == "failed" || row["printed"].is_null()), "{rows:?}");
    let xml = std::fs::read_to_string(folder.join("card.xml")).unwrap();
    assert!(xml.contains("SIGABRT\"/><system-out>line 11\n"), "{xml}");
    let text = run_in(&folder, line.split_whitespace()).out;
    assert!(text.contains("SIGABRT\n  | (26 lines before)\n  | line 26\n"), "{text}");
}

#[test]
fn a_score_card_names_the_fault_of_a_driver() {
    let folder = fresh("c-program-driver");
    driver(&folder, "good", &[]);
    let card = |arguments: &str| run_in(&folder, format!("conformance {arguments}").split_whitespace());
    let good = card("w25q128jv w25q256jv --driver ./good.so --junit card.xml");
    assert_eq!((good.code, good.err.as_str()), (Some(0), "wrote card.xml\n"), "{}", good.out);
    assert!(good.out.trim_end().ends_with("./good.so: all 23 checks passed."), "{}", good.out);
    let xml = std::fs::read_to_string(folder.join("card.xml")).unwrap();
    assert!(xml.contains("tests=\"30\" failures=\"0\" skipped=\"7\""), "{xml}");

    for (fault, checks) in [
        ("NO_POLL", &["polling"][..]),
        ("NO_RELEASE", &["address mode left"][..]),
        ("IGNORE_LOCK", &["locked block reported"][..]),
        ("WRONG_BLOCK", &["erase"][..]),
        ("PART_OF_BLOCK", &["erase"][..]),
        ("FIRST_BYTES", &["program", "cut in program", "cut in erase"][..]),
        ("FOREIGN_COMMAND", &["no violation"][..]),
    ] {
        driver(&folder, fault, &[&format!("-D{fault}")]);
        let run = card(&format!("w25q256jv --driver ./{fault}.so --json"));
        assert_eq!(run.code, Some(1), "{fault}: {}", run.err);
        let json: Value = serde_json::from_str(&run.out).unwrap();
        let rows = json["rows"].as_array().unwrap().iter();
        let failed: Vec<_> = rows.filter(|row| row["result"] == "failed").map(|row| &row["check"]).collect();
        assert_eq!(failed, checks, "{fault}");
    }
    driver(&folder, "fast", &["-DCLOCK_HZ=60000000"]);
    let fast = card("w25q128jv --driver ./fast.so --json").out;
    let failed = (
        fast.matches("\"result\": \"failed\"").count(),
        fast.matches("\"why\": \"clock of 60000000 Hz").count(),
    );
    assert_eq!(failed, (7, 7), "{fast}");
    let other = card("w25n01gv --driver ./good.so --csv");
    assert_eq!((other.code, other.out.matches(",failed,").count()), (Some(1), 1), "{}", other.out);
    assert_eq!(card("w25q128jv --driver ./absent.so").code, Some(2));
    assert_eq!(card("nosuch --driver ./good.so").code, Some(2));
}

/// Driver of a raw NAND with pages of 2 KiB: it waits on R/B#, then reads the status, as the data sheets' flow charts do.
const NAND_DRIVER: &str = r#"
#include <floatgate.h>
#define PAGE 2048u
static void row(fg_device *chip, uint64_t address, int columns) {
  uint32_t page = (uint32_t)(address / PAGE);
  uint8_t bytes[5] = {0, 0, (uint8_t)page, (uint8_t)(page >> 8), (uint8_t)(page >> 16)};
  fg_nand_address(chip, columns ? bytes : bytes + 2, columns ? 5 : 3);
}
static const char *status(fg_device *chip) {
  uint8_t status = 0xff;
#ifndef NO_WAIT
  fg_nand_wait(chip);
#endif
  fg_nand_command(chip, 0x70);
  fg_nand_read(chip, &status, 1);
#ifdef STATUS_LOOP
  while (!(status & 0x40)) fg_nand_read(chip, &status, 1);
#endif
  return status & 1 ? "failed" : NULL;
}
const char *floatgate_driver_probe(fg_device *chip, fg_geometry *geometry) {
  const uint8_t zero = 0;
  uint8_t id[2];
  fg_nand_command(chip, 0xff);
  fg_nand_wait(chip);
  fg_nand_command(chip, 0x90);
  fg_nand_address(chip, &zero, 1);
  fg_nand_read(chip, id, sizeof id);
  if (id[0] == 0xff) return "no chip";
  geometry->size_bytes = 256u << 20;
  geometry->erase_bytes = 64 * PAGE;
  geometry->write_bytes = PAGE;
  return NULL;
}
const char *floatgate_driver_read(fg_device *chip, uint64_t address, uint8_t *bytes, size_t length) {
  fg_nand_command(chip, 0x00);
  row(chip, address, 1);
  fg_nand_command(chip, 0x30);
  fg_nand_wait(chip);
  fg_nand_read(chip, bytes, length);
  return NULL;
}
const char *floatgate_driver_program(fg_device *chip, uint64_t address, const uint8_t *bytes, size_t length) {
  fg_nand_command(chip, 0x80);
  row(chip, address, 1);
  fg_nand_write(chip, bytes, length);
  fg_nand_command(chip, 0x10);
  return status(chip);
}
const char *floatgate_driver_erase(fg_device *chip, uint64_t address) {
  fg_nand_command(chip, 0x60);
  row(chip, address, 0);
  fg_nand_command(chip, 0xd0);
  return status(chip);
}
"#;

#[test]
fn a_driver_that_reads_the_status_after_its_wait_has_waited() {
    let folder = fresh("c-program-nand");
    let source = folder.join("nand.c");
    std::fs::write(&source, NAND_DRIVER).unwrap();
    for (flags, waits) in [(&[][..], true), (&["-DNO_WAIT", "-DSTATUS_LOOP"], true), (&["-DNO_WAIT"], false)]
    {
        compile(&folder, "nand", &source, flags);
        let run = run_in(&folder, "conformance mx30lf2g18ac --driver ./nand.so --json".split_whitespace());
        let json: Value = serde_json::from_str(&run.out).unwrap();
        let polling = json["rows"].as_array().unwrap().iter().find(|row| row["check"] == "polling").unwrap();
        assert_eq!(polling["result"] == "passed", waits, "{flags:?}: {polling}");
    }
}

#[test]
fn a_driver_that_finds_its_own_fault_is_told_the_rule_that_it_broke() {
    let folder = fresh("c-program-verify");
    let source = folder.join("verify.c");
    let verify = r#"
#define floatgate_driver_program program
#include "nor_driver.c"
#undef floatgate_driver_program
const char *floatgate_driver_program(fg_device *chip, uint64_t address, const uint8_t *bytes, size_t length) {
  uint8_t read[256] = {0};
  size_t at = 0;
  const uint8_t enable[] = {0x06};
  const uint8_t head[] = {0x02, (uint8_t)(address >> 16), (uint8_t)(address >> 8), (uint8_t)address};
  fg_spi_transfer(chip, 1, 0, enable, NULL, 1);
  fg_spi_transfer(chip, 1, FG_HOLD, head, NULL, sizeof head);
  fg_spi_transfer(chip, 1, 0, bytes, NULL, length);
  floatgate_driver_read(chip, address, read, length);
  while (at < length && read[at] == bytes[at]) at++;
  return at < length ? "verify failed" : NULL;
}
"#;
    std::fs::write(&source, verify).unwrap();
    let examples = format!("-I{}", capi().join("examples").display());
    compile(&folder, "verify", &source, &[&examples]);
    let run = run_in(&folder, "conformance w25q128jv --driver ./verify.so --json".split_whitespace());
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let program = json["rows"].as_array().unwrap().iter().find(|row| row["check"] == "program").unwrap();
    let why = program["why"].as_str().unwrap();
    assert!(why.contains("busy") && why.ends_with("verify failed"), "{why}");
}

//! A capture of the simulated pins is what a capture of real ones is.

use crate::support::{Run, assert_refused, fresh, run_in};
use std::path::Path;

fn in_folder(folder: &Path, line: &str) -> Run {
    run_in(folder, line.split_whitespace())
}

/// Opcodes that `check-capture` finds in what `trace --pins` wrote, and the number of rules that they break.
fn opcodes(setup: &str, operation: &str, part: &str) -> (Vec<u64>, u64) {
    let folder = fresh("pins");
    assert_eq!(in_folder(&folder, &format!("trace {setup} {operation} --pins pins.vcd")).code, Some(0));
    let checked = in_folder(&folder, &format!("check-capture pins.vcd --part {part} --json"));
    let found: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    let commands = found["commands"].as_array().unwrap();
    let opcodes = commands.iter().map(|command| command["opcode"].as_u64().unwrap()).collect();
    (opcodes, found["violation_count"].as_u64().unwrap())
}

#[test]
fn pins_are_decoded() {
    let one_line = "qca9558-s25fl064k --set bus.mode=1-1-1";
    let (write, status, enable) = (0x02, 0x05, 0x06);
    assert_eq!(opcodes(one_line, "write-page", "s25fl064k"), (vec![write, status, enable], 0));
    let (reads, violations) = opcodes(one_line, "read-page", "s25fl064k");
    assert!(reads.iter().all(|opcode| [0x03, 0x0B].contains(opcode)) && violations == 0, "{reads:X?}");
}

#[test]
fn a_chip_without_a_serial_bus_has_no_pins_to_draw() {
    let folder = fresh("pins-none");
    let run = in_folder(&folder, "trace imx6-mx30lf2g18ac read-page --pins pins.vcd");
    assert_refused("pins of a raw NAND", &run);
    assert!(!folder.join("pins.vcd").exists());
}

#[test]
fn a_trace_without_pins_is_refused_with_the_option_that_writes_them() {
    let folder = fresh("pins-activity");
    let trace =
        "$var wire 1 w0 cpu $end\n$var string 1 t0 cpu_activity $end\n$enddefinitions $end\n#0\n0w0\n";
    std::fs::write(folder.join("trace.vcd"), trace).unwrap();
    let run = in_folder(&folder, "check-capture trace.vcd --part w25q128jv");
    assert_refused("a trace of resources", &run);
    assert!(run.err.contains("floatgate trace SETUP OPERATION --pins FILE.vcd"), "{}", run.err);
}

//! Costs of software, computed from the work that a CPU does.
//!
//! A host states its CPU (`host.cpu`), and a controller states the work of its driver (`controller.work`): instructions,
//! register accesses, interrupts. Resolving a setup replaces both tables by the costs computed from them, such as `host.call_us`
//! and `controller.exec.setup_us`. A cost that a file or the user states is not replaced.
//!
//! The instruction counts for Linux's layers below are rounded means over the boards whose costs were fitted. The count of a
//! board is its fitted cost divided by the duration of an instruction on its CPU. docs/fidelity.md lists the counts.

use super::error::ConfigError;
use super::node::{Node, Table, Value};
use super::source::Origin;
use floatgate_device::units;
use floatgate_mtd::Nanos;
use serde::Deserialize;

/// CPU of a host: `host.cpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuProfile {
    /// Core of the CPU.
    pub core: Core,
    /// Clock of the core.
    #[serde(with = "units::hz")]
    pub clock_hz: u64,
    /// Time of a read from a device register, in ns; the usual value of the core when absent.
    #[serde(default)]
    pub register_read_ns: Option<u32>,
    /// Time of a write to a device register, in ns; the usual value of the core when absent.
    #[serde(default)]
    pub register_write_ns: Option<u32>,
    /// True if the kernel checks each use of its locks (Linux: `PROVE_LOCKING`), which makes calls and operations slower.
    #[serde(default)]
    pub lock_debugging: bool,
}

/// Work of a controller's driver: `controller.work`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriverWork {
    /// Number of instructions per operation, including cache misses.
    pub instructions: u32,
    /// Number of register reads per operation.
    pub register_reads: u32,
    /// Number of register writes per operation.
    pub register_writes: u32,
    /// Number of register writes per operation that wait for the previous write (Linux: `writel` on 32-bit ARM).
    pub ordered_writes: u32,
    /// Number of interrupts that an operation waits for, in addition to the interrupt of `exec.interrupt` or
    /// `op_cost.interrupt`.
    pub interrupts: u32,
    /// Work for each word that the CPU reads from the chip.
    pub rx: Option<WordWork>,
    /// Work for each word that the CPU writes to the chip.
    pub tx: Option<WordWork>,
    /// Work for each word that the CPU reads from the memory window.
    pub mapped_rx: Option<WordWork>,
    /// Work for each word that the CPU writes to the memory window.
    pub mapped_tx: Option<WordWork>,
    /// Work each time that the driver serves a FIFO (`fifo_bytes`), besides the words. The entry of the interrupt is added if
    /// the interrupt handler moves the data.
    pub fifo: FifoWork,
}

/// Work of the CPU each time that it serves a FIFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FifoWork {
    /// Number of register reads.
    pub register_reads: u32,
    /// Number of register writes.
    pub register_writes: u32,
    /// Number of instructions.
    pub instructions: u32,
    /// Pause between two polls of the status, in ns. On average, half of it is lost.
    pub poll_ns: u32,
}

/// Work of the CPU for each word that it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordWork {
    /// Size of a word in bytes.
    pub bytes: u8,
    /// Number of register reads per word.
    #[serde(default)]
    pub register_reads: u32,
    /// Number of register writes per word.
    #[serde(default)]
    pub register_writes: u32,
    /// Number of register writes per word that wait for the previous write (Linux: `writel` on 32-bit ARM).
    #[serde(default)]
    pub ordered_writes: u32,
    /// Number of instructions per word.
    #[serde(default)]
    pub instructions: u32,
}

/// CPU cores with their published speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Core {
    /// ARM920T.
    #[serde(rename = "arm920t")]
    Arm920t,
    /// ARM926EJ-S.
    #[serde(rename = "arm926")]
    Arm926,
    /// ARM1136 and ARM1176.
    #[serde(rename = "arm11")]
    Arm11,
    /// Cortex-A5.
    #[serde(rename = "cortex-a5")]
    CortexA5,
    /// Cortex-A7.
    #[serde(rename = "cortex-a7")]
    CortexA7,
    /// Cortex-A8.
    #[serde(rename = "cortex-a8")]
    CortexA8,
    /// Cortex-A9.
    #[serde(rename = "cortex-a9")]
    CortexA9,
    /// Cortex-A15 and Brahma-B15.
    #[serde(rename = "cortex-a15")]
    CortexA15,
    /// Cortex-A35.
    #[serde(rename = "cortex-a35")]
    CortexA35,
    /// Cortex-A53 and Brahma-B53.
    #[serde(rename = "cortex-a53")]
    CortexA53,
    /// Cortex-A55.
    #[serde(rename = "cortex-a55")]
    CortexA55,
    /// Cortex-A72.
    #[serde(rename = "cortex-a72")]
    CortexA72,
    /// Cortex-A73.
    #[serde(rename = "cortex-a73")]
    CortexA73,
    /// Cortex-M0 and Cortex-M0+.
    #[serde(rename = "cortex-m0")]
    CortexM0,
    /// Cortex-M3.
    #[serde(rename = "cortex-m3")]
    CortexM3,
    /// Cortex-M4.
    #[serde(rename = "cortex-m4")]
    CortexM4,
    /// Cortex-M7.
    #[serde(rename = "cortex-m7")]
    CortexM7,
    /// Cortex-M33.
    #[serde(rename = "cortex-m33")]
    CortexM33,
    /// MIPS 24K and 24KEc.
    #[serde(rename = "mips-24k")]
    Mips24k,
    /// MIPS 34Kc.
    #[serde(rename = "mips-34k")]
    Mips34k,
    /// MIPS 74Kc.
    #[serde(rename = "mips-74k")]
    Mips74k,
    /// MIPS 1004Kc.
    #[serde(rename = "mips-1004k")]
    Mips1004k,
    /// PowerPC e300.
    #[serde(rename = "powerpc-e300")]
    PowerpcE300,
    /// PowerPC e500.
    #[serde(rename = "powerpc-e500")]
    PowerpcE500,
    /// XuanTie C906 (RISC-V).
    #[serde(rename = "xuantie-c906")]
    XuantieC906,
    /// SiFive U74 (RISC-V).
    #[serde(rename = "sifive-u74")]
    SifiveU74,
    /// Xtensa LX6 of the ESP32.
    #[serde(rename = "xtensa-lx6")]
    XtensaLx6,
    /// Xtensa LX7 of the ESP32-S2 and ESP32-S3.
    #[serde(rename = "xtensa-lx7")]
    XtensaLx7,
    /// RISC-V core of the ESP32-C3 and ESP32-C6.
    #[serde(rename = "riscv-esp32c3")]
    RiscvEsp32c3,
}

/// Caches of a core, and its connection to memory and device registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// First-level caches only.
    Level1,
    /// First- and second-level caches.
    Level2,
    /// First- and second-level caches, with hardware prefetch.
    Prefetched,
    /// On-chip RAM; device registers are on a bus with the core's clock.
    Tight,
    /// On-chip RAM; device registers are on a slower peripheral bus.
    TightSlowBus,
}

impl Core {
    /// Published Dhrystone MIPS per MHz, times 100, and the memory system of the core.
    const fn facts(self) -> (u64, Memory) {
        match self {
            Self::Arm920t | Self::Arm926 => (110, Memory::Level1),
            Self::Arm11 => (125, Memory::Level1),
            Self::CortexA5 => (157, Memory::Level2),
            Self::CortexA7 => (190, Memory::Level2),
            Self::CortexA8 => (200, Memory::Level2),
            Self::CortexA9 => (250, Memory::Level2),
            Self::CortexA15 => (350, Memory::Prefetched),
            Self::CortexA35 => (178, Memory::Prefetched),
            Self::CortexA53 => (230, Memory::Prefetched),
            Self::CortexA55 => (270, Memory::Prefetched),
            Self::CortexA72 => (472, Memory::Prefetched),
            Self::CortexA73 => (480, Memory::Prefetched),
            Self::CortexM0 => (95, Memory::Tight),
            Self::CortexM3 | Self::CortexM4 => (125, Memory::Tight),
            Self::CortexM33 => (150, Memory::Tight),
            Self::CortexM7 => (214, Memory::TightSlowBus),
            Self::Mips24k => (144, Memory::Level1),
            Self::Mips34k | Self::Mips74k => (160, Memory::Level1),
            Self::Mips1004k => (160, Memory::Level2),
            Self::PowerpcE300 => (189, Memory::Level1),
            Self::PowerpcE500 => (240, Memory::Level2),
            Self::XuantieC906 => (200, Memory::Level1),
            Self::SifiveU74 => (264, Memory::Level2),
            Self::XtensaLx6 | Self::XtensaLx7 => (110, Memory::TightSlowBus),
            Self::RiscvEsp32c3 => (135, Memory::TightSlowBus),
        }
    }
}

impl Core {
    /// Number of bus accesses for which a register write with a barrier waits. On ARMv7 Linux's barrier waits until the previous
    /// write has arrived. With an outer L2C-310 cache it also drains the buffers of this cache through a register. The number is
    /// 0 if the barrier only preserves the order of writes.
    const fn barrier_accesses(self) -> u32 {
        match self {
            Self::CortexA5 | Self::CortexA9 => 2,
            Self::CortexA7 | Self::CortexA8 | Self::CortexA15 => 1,
            _ => 0,
        }
    }
}

impl Memory {
    /// Times of a register read and of a register write, ns. A read waits for the answer of the bus, a write is posted.
    fn register_ns(self, clock_hz: u64) -> (f64, f64) {
        let cycle = 1e9 / clock_hz.max(1) as f64;
        match self {
            Self::Level1 | Self::Level2 | Self::Prefetched => (READ_NS, WRITE_NS),
            Self::Tight => (3.0 * cycle, 2.0 * cycle),
            Self::TightSlowBus => (12.0 * cycle, 6.0 * cycle),
        }
    }

    /// Number of CPU cycles per copied byte.
    const fn copy_cycles(self) -> f64 {
        match self {
            Self::Level1 => 6.0,
            Self::Level2 => 2.0,
            Self::Prefetched => 0.72,
            Self::Tight | Self::TightSlowBus => 1.0,
        }
    }

    /// Time of a miss of the kernel's code in a first-level cache of 16 KiB, ns. A second-level cache or a larger first-level cache holds
    /// this code.
    const fn line_ns(self) -> f64 {
        match self {
            Self::Level1 => self.miss_ns() as f64,
            Self::Level2 | Self::Prefetched | Self::Tight | Self::TightSlowBus => 0.0,
        }
    }

    /// Time to fetch a cache line of 32 bytes from memory, ns.
    const fn miss_ns(self) -> i64 {
        match self {
            Self::Level1 => 150,
            Self::Level2 => 50,
            Self::Prefetched => 20,
            Self::Tight | Self::TightSlowBus => 0,
        }
    }
}

/// Time of a register read in a system on chip, ns: nine accesses for each word of the Macronix controller on a Zynq-7000 take
/// 1040 ns (papers/p0-raynal-2025.toml).
const READ_NS: f64 = 115.0;

/// Time of a register write in a system on chip, ns: a third of a read, as on the ARM926EJ-S of papers/p1-simmonds-2009.toml.
const WRITE_NS: f64 = 38.0;

/// CPU cycles per instruction of ECC code on an ARM926EJ-S (Linux commit 437aa565e265), whose DMIPS per MHz are 1.1.
const ARM926_CYCLES: f64 = 1.29;

/// Numbers of instructions in the layers above a driver.
#[derive(Clone, Copy, Debug)]
struct Layers {
    /// Instructions of an MTD call.
    call: f64,
    /// Instructions for each page of an MTD call.
    page: f64,
    /// Instructions of an interrupt, the wake-up and the switch to the waiting thread.
    wakeup: f64,
    /// Instructions from an interrupt until its handler runs.
    interrupt: f64,
}

impl Layers {
    /// Linux: medians of fitted costs. The count of a call is the median over the boards with published page reads and
    /// eraseblock reads. An ARM1176 at 700 MHz takes 9 us from the edge of a pin until the handler of its interrupt runs
    /// (J. Jackowski, "Raspberry Pi + Linux Interrupt Latency", 2013-03-01, the case without a display).
    const LINUX: Self = Self { call: 6_000.0, page: 6_000.0, wakeup: 14_000.0, interrupt: 5_500.0 };
    /// Firmware without a kernel; the numbers are assumed.
    const FIRMWARE: Self = Self { call: 300.0, page: 300.0, wakeup: 300.0, interrupt: 300.0 };

    /// Numbers of the software of a host.
    fn of(tree: &Node) -> Self {
        let firmware = tree.get("host.firmware");
        if firmware.is_some_and(|node| matches!(node.value, Value::Bool(true))) {
            Self::FIRMWARE
        } else {
            Self::LINUX
        }
    }
}

/// Number of instructions, and of cache lines that are fetched.
#[derive(Clone, Copy, Debug)]
struct Count {
    instructions: f64,
    lines: f64,
}

/// No work.
const NOTHING: Count = Count { instructions: 0.0, lines: 0.0 };

/// Work that lock debugging adds to each layer: Linux 6.1 with `PROVE_LOCKING` minus the same kernel without it, both compiled for
/// ARMv5 and counted in QEMU with caches of 16 KiB. docs/fidelity.md describes the measurement.
struct LockDebugging;

impl LockDebugging {
    /// Locks of the chip and its controller.
    const CALL: Count = Count { instructions: 1_600.0, lines: 80.0 };
    /// Runtime power management and the waiting for an interrupt that has come.
    const OPERATION: Count = Count { instructions: 2_600.0, lines: 150.0 };
    /// From the interrupt until the thread that waited for it continues.
    const WAKEUP: Count = Count { instructions: 13_400.0, lines: 450.0 };
}

/// Durations of a CPU's basic operations.
#[derive(Clone, Copy, Debug)]
struct Times {
    instruction_ps: f64,
    read_ns: f64,
    write_ns: f64,
    ordered_write_ns: f64,
    wakeup_us: f64,
    interrupt_us: f64,
    /// Time that lock debugging adds to an operation, us.
    checks_us: f64,
}

impl Times {
    fn instructions_us(&self, count: f64) -> f64 {
        count * self.instruction_ps / 1e6
    }

    fn registers_ns(&self, reads: u32, writes: u32, ordered: u32) -> f64 {
        f64::from(reads) * self.read_ns
            + f64::from(writes) * self.write_ns
            + f64::from(ordered) * self.ordered_write_ns
    }

    fn op_us(&self, work: &DriverWork) -> f64 {
        let registers = self.registers_ns(work.register_reads, work.register_writes, work.ordered_writes);
        self.instructions_us(work.instructions.into()) + registers / 1e3 + self.checks_us
    }

    /// Time until a FIFO is served, without a wake-up.
    fn fifo_us(&self, work: &FifoWork) -> f64 {
        let registers = self.registers_ns(work.register_reads, work.register_writes, 0);
        self.instructions_us(work.instructions.into()) + (registers + f64::from(work.poll_ns) / 2.0) / 1e3
    }

    fn byte_ns(&self, word: &WordWork) -> f64 {
        let ns = self.registers_ns(word.register_reads, word.register_writes, word.ordered_writes)
            + f64::from(word.instructions) * self.instruction_ps / 1e3;
        ns / f64::from(word.bytes.max(1))
    }
}

/// Replaces `host.cpu` and `controller.work` of a resolved setup by costs.
pub(super) fn derive(tree: &mut Node) -> Result<(), ConfigError> {
    let host = derive_host(tree)?;
    if tree.get("controller.work").is_none() {
        return Ok(());
    }
    let counts: DriverWork = tree.extract("controller.work")?;
    if let (Some(work), Some(times)) = (remove(tree, "controller", "work"), host) {
        derive_controller(tree, &work.origin, &counts, times);
    }
    Ok(())
}

/// Adds the costs of the host's CPU. Returns `None` for a host whose software takes no time.
fn derive_host(tree: &mut Node) -> Result<Option<Times>, ConfigError> {
    if tree.get("host.cpu").is_none() {
        return Ok(host_times(tree));
    }
    if let Some(missing) = ["core", "clock_hz"].into_iter().find(|key| lacks(tree, key)) {
        only_host_keys(tree)?;
        let example = if missing == "core" { "core=cortex-a7" } else { "clock_hz=1.2e9" };
        let message = format!("all costs follow from the CPU's core and clock: set host.cpu.{example}");
        return Err(match tree.get("host.cpu") {
            Some(node) => node.wrong("host.cpu", message),
            None => tree.wrong("host", message),
        });
    }
    let cpu: CpuProfile = tree.extract("host.cpu")?;
    if let Some(clock) = tree.get("host.cpu.clock_hz").filter(|_| cpu.clock_hz < SLOWEST_CPU_HZ) {
        let message = format!("{} Hz is no clock of a CPU; a plain number is in Hz", cpu.clock_hz);
        return Err(clock.wrong("host.cpu.clock_hz", message));
    }
    let Some(node) = remove(tree, "host", "cpu") else { return Ok(host_times(tree)) };
    let (dmips, memory) = cpu.core.facts();
    let mhz = cpu.clock_hz as f64 / 1e6;
    let instruction_ps = ARM926_CYCLES * 110.0 / dmips as f64 * 1e6 / mhz;
    let layers = Layers::of(tree);
    let checks_us = |count: Count| {
        let us = count.instructions * instruction_ps / 1e6 + count.lines * memory.line_ns() / 1e3;
        if cpu.lock_debugging { us } else { 0.0 }
    };
    let us = |instructions: f64, checks: Count| {
        Value::Float(round(instructions * instruction_ps / 1e6 + checks_us(checks)))
    };
    let costs = [
        ("instruction_ps", Value::Integer(instruction_ps.round() as i64)),
        ("call_us", us(layers.call, LockDebugging::CALL)),
        ("page_us", us(layers.page, NOTHING)),
        ("wakeup_us", us(layers.wakeup, LockDebugging::WAKEUP)),
        ("copy_ns_per_kb", Value::Integer((memory.copy_cycles() * 1e6 / mhz).round() as i64)),
        ("cache_miss_ns", Value::Integer(memory.miss_ns())),
    ];
    for (key, value) in costs {
        set_default(tree, "host", key, value, &node.origin);
    }
    let (read_ns, write_ns) = memory.register_ns(cpu.clock_hz);
    let read_ns = cpu.register_read_ns.map_or(read_ns, f64::from);
    let write_ns = cpu.register_write_ns.map_or(write_ns, f64::from);
    let ordered_write_ns = write_ns.max(read_ns * f64::from(cpu.core.barrier_accesses()));
    let checks_us = checks_us(LockDebugging::OPERATION);
    Ok(host_times(tree).map(|times| Times { read_ns, write_ns, ordered_write_ns, checks_us, ..times }))
}

/// Rejects a key that no host has. A wrong key may be the reason why the CPU is not known.
fn only_host_keys(tree: &Node) -> Result<(), ConfigError> {
    let Some(host) = tree.child("host") else { return Ok(()) };
    let all = crate::keys();
    let mut known: Vec<&str> =
        all.iter().filter_map(|key| key.key.strip_prefix("host.")?.split('.').next()).collect();
    known.dedup();
    host.only_keys("host", &known)
}

/// True if the table `host.cpu` lacks this key.
fn lacks(tree: &Node, key: &str) -> bool {
    tree.get(&format!("host.cpu.{key}")).is_none()
}

/// A time in the notation of setups.
#[derive(Deserialize)]
struct Microseconds(#[serde(with = "units::us")] Nanos);

/// Lowest accepted CPU clock, Hz. A lower value is rejected as a unit mistake.
const SLOWEST_CPU_HZ: u64 = 1_000_000;

/// Durations for a host that states the time of an instruction.
fn host_times(tree: &Node) -> Option<Times> {
    let instruction_ps = tree.extract::<f64>("host.instruction_ps").ok().filter(|&ps| ps > 0.0)?;
    let wakeup = tree.extract::<Microseconds>("host.wakeup_us").map_or(Nanos::ZERO, |us| us.0);
    let wakeup_us = wakeup.as_ns() as f64 / 1e3;
    let interrupt_us = Layers::of(tree).interrupt * instruction_ps / 1e6;
    let (read_ns, write_ns) = (READ_NS, WRITE_NS);
    Some(Times {
        instruction_ps,
        read_ns,
        write_ns,
        ordered_write_ns: write_ns,
        wakeup_us,
        interrupt_us,
        checks_us: 0.0,
    })
}

fn derive_controller(tree: &mut Node, origin: &Origin, work: &DriverWork, times: Times) {
    let setup = Value::Float(round(times.op_us(work)));
    let finish = Value::Float(round(f64::from(work.interrupts) * times.wakeup_us));
    let is_spi = tree.get("controller.reference_hz").is_some();
    let mut operations = vec![if is_spi { "controller.exec" } else { "controller.op_cost" }];
    for (mapped, cost) in [("read", "controller.dirmap.read_cost"), ("write", "controller.dirmap.write_cost")]
    {
        let uses = tree.get(&format!("controller.dirmap.{mapped}"));
        if uses.is_some_and(|node| matches!(node.value, Value::Bool(true))) {
            operations.push(cost);
        }
    }
    for operation in operations {
        set_default(tree, operation, "setup_us", setup.clone(), origin);
        set_default(tree, operation, "finish_us", finish.clone(), origin);
    }
    let words = [
        ("controller.rx", work.rx),
        ("controller.tx", work.tx),
        ("controller.dirmap.rx", work.mapped_rx),
        ("controller.dirmap.tx", work.mapped_tx),
    ];
    for (path, word) in words {
        if let Some(word) = word {
            set_default(tree, path, "ns_per_byte", Value::Float(round(times.byte_ns(&word))), origin);
        }
    }
    for (path, _) in words {
        let text = |key: &str| tree.get(&format!("{path}.{key}")).map(|node| &node.value);
        if text("fifo_bytes").is_some_and(|value| !matches!(value, Value::Integer(0))) {
            let by_handler = matches!(text("fifo_by"), Some(Value::Text(by)) if &**by == "handler");
            let entry = if by_handler { times.interrupt_us } else { 0.0 };
            let us = Value::Float(round(entry + times.fifo_us(&work.fifo)));
            set_default(tree, path, "interrupt_us", us, origin);
        }
    }
}

/// Rounds a time to three decimals: microseconds to the nanosecond, nanoseconds to the picosecond.
fn round(time: f64) -> f64 {
    (time * 1e3).round() / 1e3
}

/// Removes `table.key` from the tree.
fn remove(tree: &mut Node, table: &str, key: &str) -> Option<Node> {
    tree.as_table_mut()?.get_mut(table)?.as_table_mut()?.remove(key)
}

/// Sets `path.key` unless it has a value. Missing tables are added.
fn set_default(tree: &mut Node, path: &str, key: &str, value: Value, origin: &Origin) {
    let mut node = tree;
    for step in super::node::keys(path) {
        let Some(table) = node.as_table_mut() else { return };
        node = table
            .entry(step.into())
            .or_insert_with(|| Node { value: Value::Table(Table::new()), origin: origin.clone() });
    }
    if let Some(table) = node.as_table_mut() {
        table.entry(key.into()).or_insert_with(|| Node { value, origin: origin.clone() });
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Library, Override, Source};

    fn config(text: &str, sets: &[&str]) -> Config {
        let library = Library::built_in();
        let setup = library.setup_from(&Source::text("test", text)).unwrap();
        library.resolve(&setup, &Override::parse_all(sets).unwrap()).unwrap()
    }

    const BOARD: &str = "chip = 'w25n01gv'
        bus.clock_hz = 50e6
        [host]
        cpu = { core = 'cortex-a7', clock_hz = '1 GHz' }
        [controller]
        reference_hz = 100e6
        max_hz = 100e6
        lanes = 1
        work = { instructions = 10000, register_reads = 10, register_writes = 4, interrupts = 1, rx = { bytes = 4, register_reads = 2 } }
    ";

    fn number(config: &Config, path: &str) -> f64 {
        config.extract(path).unwrap()
    }

    /// At half the CPU clock, software takes twice as long, but register accesses take the same time.
    #[test]
    fn costs_follow_from_the_clock() {
        let (fast, slow) = (config(BOARD, &[]), config(BOARD, &["host.cpu.clock_hz=500e6"]));
        for path in ["host.call_us", "host.page_us", "host.wakeup_us", "controller.exec.finish_us"] {
            let (fast, slow) = (number(&fast, path), number(&slow, path));
            assert!((slow / fast - 2.0).abs() < 0.01, "{path}: {slow} {fast}");
        }
        let path = "controller.rx.ns_per_byte";
        assert_eq!(number(&fast, path), number(&slow, path));
        assert!(number(&slow, "controller.exec.setup_us") > number(&fast, "controller.exec.setup_us"));
    }

    /// Interrupts, register reads and instructions each make an operation slower; a faster core makes it faster.
    #[test]
    fn each_count_changes_the_time_of_an_operation() {
        let operation = |sets: &[&str]| {
            let config = config(BOARD, sets);
            number(&config, "controller.exec.setup_us") + number(&config, "controller.exec.finish_us")
        };
        let usual = operation(&[]);
        for more in ["interrupts=2", "register_reads=20", "register_writes=8", "instructions=20000"] {
            assert!(operation(&[&format!("controller.work.{more}")]) > usual, "{more}");
        }
        assert!(operation(&["host.cpu.core=cortex-a72"]) < usual);
        assert!(operation(&["host.cpu.core=arm926"]) > usual);
        assert!(operation(&["host.cpu.register_read_ns=500"]) > usual);
    }

    /// A FIFO that the interrupt handler empties costs the entry of the interrupt; one in a loop costs half of its polls' pause.
    #[test]
    fn a_fifo_costs_what_its_part_of_the_driver_costs() {
        let served = |sets: &[&str]| {
            let usual = ["controller.rx.fifo_bytes=32", "controller.work.fifo.register_reads=1"];
            number(&config(BOARD, &[&usual, sets].concat()), "controller.rx.interrupt_us")
        };
        let in_loop = served(&["controller.rx.fifo_by=loop"]);
        assert!((in_loop - 0.115).abs() < 1e-6, "{in_loop}");
        let polled = served(&["controller.rx.fifo_by=loop", "controller.work.fifo.poll_ns=1000"]);
        assert!((polled - 0.615).abs() < 1e-6, "{polled}");
        let handler = served(&["controller.rx.fifo_by=handler"]);
        assert!((4.0..5.0).contains(&handler), "5500 instructions at 1 GHz: {handler}");
    }

    /// A barrier waits for the previous write on ARMv7, longer with an outer cache. It does not wait on ARMv8.
    #[test]
    fn ordered_writes_wait_on_armv7() {
        let byte = |core: &str, kind: &str| {
            let tx = format!("controller.work.tx={{ bytes = 4, {kind} = 1 }}");
            number(&config(BOARD, &[&format!("host.cpu.core={core}"), &tx]), "controller.tx.ns_per_byte")
        };
        let plain = byte("cortex-a9", "register_writes");
        assert!(byte("cortex-a9", "ordered_writes") > byte("cortex-a7", "ordered_writes"));
        assert!(byte("cortex-a7", "ordered_writes") > plain);
        assert_eq!(byte("cortex-a53", "ordered_writes"), byte("cortex-a53", "register_writes"));
    }

    /// Lock debugging makes all software slower, and a core without a second-level cache more so.
    #[test]
    fn lock_debugging_makes_calls_and_operations_slower() {
        let costs = |core: &str, checks: bool| {
            let core = format!("host.cpu.core={core}");
            let config = config(BOARD, &[&core, &format!("host.cpu.lock_debugging={checks}")]);
            let paths = ["host.call_us", "host.wakeup_us", "controller.exec.setup_us"];
            paths.map(|path| number(&config, path))
        };
        let ratios = |core: &str| {
            let (with, without) = (costs(core, true), costs(core, false));
            assert!(with.iter().zip(&without).all(|(with, without)| with > without), "{core} {with:?}");
            with.iter().sum::<f64>() / without.iter().sum::<f64>()
        };
        assert!(ratios("arm926") > ratios("cortex-a7"));
    }

    /// The costs of an example CPU are not used for an unknown CPU.
    #[test]
    fn a_cpu_without_core_or_clock_is_refused() {
        let library = Library::built_in();
        let setup = library.setup("mt7986-gd5f1gq5ue").unwrap();
        for (sets, names) in [
            (&["host=linux-cpu"][..], "host.cpu.core="),
            (&["host=linux-cpu", "host.cpu.core=cortex-a53"], "host.cpu.clock_hz="),
        ] {
            let error = library.resolve(&setup, &Override::parse_all(sets).unwrap()).unwrap_err();
            assert!(error.one_line().contains(names), "{}", error.one_line());
        }
        // A prefix too many is named, not only what is missing because of it.
        let text = "base = 'mt7986-gd5f1gq5ue'\nhost = { base = 'linux-cpu', host.cpu.core = 'cortex-a53' }";
        let setup = library.setup_from(&Source::text("test", text)).unwrap();
        let error = library.resolve(&setup, &[]).unwrap_err().one_line();
        assert!(error.contains("unknown key `host` in [host]"), "{error}");
    }

    #[test]
    fn a_stated_cost_is_kept_and_the_tables_are_gone() {
        let config = config(BOARD, &["host.call_us=77", "controller.exec.setup_us=5"]);
        assert_eq!(number(&config, "host.call_us"), 77.0);
        assert_eq!(number(&config, "controller.exec.setup_us"), 5.0);
        assert!(config.tree().get("host.cpu").is_none() && config.tree().get("controller.work").is_none());
    }

    /// Firmware has no system calls.
    #[test]
    fn firmware_is_lighter_than_linux() {
        let linux = number(&config(BOARD, &[]), "host.call_us");
        assert!(number(&config(BOARD, &["host.firmware=true"]), "host.call_us") < linux / 10.0);
    }

    #[test]
    fn errors_name_the_wrong_value() {
        let library = Library::built_in();
        let setup = library.setup_from(&Source::text("test", BOARD)).unwrap();
        for (set, names) in [
            ("host.cpu.core=cortex-a99", "cortex-a99"),
            ("host.cpu.clock_hz=1.2", "clock"),
            ("controller.work.interupts=1", "interupts"),
        ] {
            let sets = Override::parse_all(&[set]).unwrap();
            let error = library.resolve(&setup, &sets).unwrap_err();
            assert!(error.one_line().contains(names), "{}", error.one_line());
        }
    }
}

//! CPU time of the host for filesystem work: compression, checksums, copies.
//!
//! Each cost is a number of instructions and of data cache misses, multiplied by their duration on the host
//! ([`HostProfile::instruction_ps`], [`HostProfile::cache_miss_ns`]). The numbers are those of the algorithms in Linux: zlib at JFFS2's
//! level 3, LZO1X-1, Zstandard at level 3, with blocks of 4 KiB. They were measured by `valgrind --tool=cachegrind` with the data cache
//! of an ARM926EJ-S (16 KiB, 4 ways, lines of 32 bytes). LZO was also measured in the version before Linux 3.9
//! ([`HostProfile::lzo_before_linux_3_9`]). docs/performance.md describes the measurement, and the deviation of text from the line
//! through zeros and random bytes.

use floatgate_device::host::HostProfile;
use floatgate_mtd::{Nanos, Operations};
use floatgate_stack::fs::{Codec, Through, Work};

/// Number of instructions and cache misses per thousand calls or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    instructions: u64,
    misses: u64,
}

const fn per_thousand(instructions: u64, misses: u64) -> Count {
    Count { instructions, misses }
}

/// Costs of a codec: per call, per input byte and per output byte.
#[derive(Clone, Copy, Debug)]
struct Cost {
    call: Count,
    byte_in: Count,
    byte_out: Count,
    /// True if incompressible data costs only the input bytes, because the codec skips most of it.
    gives_up: bool,
}

/// Cost of compression by a codec.
const fn packing(codec: Codec) -> Cost {
    let none = per_thousand(0, 0);
    match codec {
        // zlib first clears a hash table of 64 KiB.
        Codec::Zlib => Cost {
            call: per_thousand(4_000_000, 2_048_000),
            byte_in: per_thousand(26_200, 98),
            byte_out: per_thousand(86_500, 1_220),
            gives_up: false,
        },
        // LZO first clears a hash table of 32 KiB.
        Codec::Lzo => Cost {
            call: per_thousand(0, 1_024_000),
            byte_in: per_thousand(9_000, 60),
            byte_out: per_thousand(17_200, 300),
            gives_up: true,
        },
        Codec::Zstd => Cost {
            call: none,
            byte_in: per_thousand(10_000, 300),
            byte_out: per_thousand(95_000, 1_500),
            gives_up: true,
        },
        Codec::Rtime | Codec::Rubin => {
            Cost { call: none, byte_in: per_thousand(14_000, 25), byte_out: none, gives_up: true }
        }
    }
}

/// Cost of LZO before Linux 3.9: each byte without a match is looked up in a table four times as large as the cache.
const OLD_LZO: Cost = Cost {
    call: per_thousand(0, 0),
    byte_in: per_thousand(8_000, 31),
    byte_out: per_thousand(29_200, 887),
    gives_up: false,
};

/// Cost of decompression by a codec.
const fn unpacking(codec: Codec) -> Cost {
    let none = per_thousand(0, 0);
    let (byte_in, byte_out) = match codec {
        Codec::Zlib => (per_thousand(51_500, 60), per_thousand(6_800, 40)),
        Codec::Lzo => (per_thousand(3_500, 30), per_thousand(5_100, 32)),
        Codec::Zstd => (per_thousand(42_000, 370), per_thousand(1_100, 48)),
        Codec::Rtime => (none, per_thousand(12_000, 32)),
        // Rubin decodes bit by bit. The cost is an estimate, because no current tool writes Rubin data.
        Codec::Rubin => (none, per_thousand(150_000, 32)),
    };
    Cost { call: none, byte_in, byte_out, gives_up: false }
}

/// Cost of CRC32 by table, as `crc32_le` of Linux: four instructions per byte plus a fifth of the loop.
const CHECKSUM: Count = per_thousand(5_000, 32);

/// Cost of UBI's code for one of the two headers that a scan reads from each eraseblock: call, check, record. It was determined from the
/// published attach time of a Devkit8000 (papers/unfitted.toml, devkit8000).
const HEADER: Count = per_thousand(28_500_000, 0);

/// Cost of a copy, with cache misses on both sides.
const COPY: Count = per_thousand(250, 62);

/// A CPU with its costs per operation.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    instruction_ps: u64,
    miss_ps: u64,
    /// Time of a system call, including filesystem and VFS.
    call: Nanos,
    old_lzo: bool,
    /// Time to copy 1000 bytes between kernel and program, ns; 0 if it is derived from instructions and misses.
    to_user: u32,
    from_user: u32,
}

impl Cpu {
    /// The CPU of a host.
    pub fn of(host: &HostProfile) -> Self {
        Self {
            instruction_ps: u64::from(host.instruction_ps),
            miss_ps: u64::from(host.cache_miss_ns) * 1000,
            call: host.call_us,
            old_lzo: host.lzo_before_linux_3_9,
            to_user: host.copy_to_user_ns_per_kb,
            from_user: host.copy_from_user_ns_per_kb,
        }
    }

    /// False if the host's file does not state the speed of its CPU.
    pub const fn is_known(&self) -> bool {
        self.instruction_ps > 0
    }

    fn time(&self, count: Count, units: u64) -> Nanos {
        let ps = u128::from(count.instructions) * u128::from(self.instruction_ps)
            + u128::from(count.misses) * u128::from(self.miss_ps);
        Nanos::from_ns(u64::try_from(ps * u128::from(units) / 1_000_000).unwrap_or(u64::MAX))
    }

    fn codec(&self, cost: Cost, through: Through) -> Nanos {
        let out = if cost.gives_up { through.to - through.in_vain.min(through.to) } else { through.to };
        self.time(cost.call, through.calls)
            + self.time(cost.byte_in, through.from)
            + self.time(cost.byte_out, out)
    }

    const fn packing(&self, codec: Codec) -> Cost {
        match codec {
            Codec::Lzo if self.old_lzo => OLD_LZO,
            codec => packing(codec),
        }
    }

    /// Time of compression and decompression.
    pub fn codecs(&self, work: &Work) -> Nanos {
        let packed = work.packed().map(|(codec, through)| self.codec(self.packing(codec), through));
        let unpacked = work.unpacked().map(|(codec, through)| self.codec(unpacking(codec), through));
        packed.chain(unpacked).sum()
    }

    /// Time of the checksums over all bytes that a filesystem reads and writes.
    pub fn checksums(&self, operations: &Operations) -> Nanos {
        self.time(CHECKSUM, operations.read_bytes + operations.programmed_bytes)
    }

    /// Time of UBI's code for `reads` headers read in an attach.
    pub fn headers(&self, reads: u64) -> Nanos {
        self.time(HEADER, reads)
    }

    /// Time to copy `bytes` from the kernel to a program.
    pub fn copy_to_user(&self, bytes: u64) -> Nanos {
        self.copy(self.to_user, bytes)
    }

    /// Time to copy `bytes` from a program to the kernel.
    pub fn copy_from_user(&self, bytes: u64) -> Nanos {
        self.copy(self.from_user, bytes)
    }

    fn copy(&self, ns_per_kb: u32, bytes: u64) -> Nanos {
        match ns_per_kb {
            0 => self.time(COPY, bytes),
            known => Nanos::from_ns(bytes.saturating_mul(u64::from(known)) / 1000),
        }
    }

    /// Time of a system call.
    pub const fn call(&self) -> Nanos {
        self.call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm926() -> Cpu {
        Cpu::of(&HostProfile { instruction_ps: 8_323, cache_miss_ns: 300, ..HostProfile::NONE })
    }

    fn packed_by(cpu: Cpu, codec: Codec, from: usize, to: Option<usize>) -> Nanos {
        let mut work = Work::default();
        work.pack(codec, from, to);
        cpu.codecs(&work)
    }

    fn packed(codec: Codec, from: usize, to: Option<usize>) -> Nanos {
        packed_by(arm926(), codec, from, to)
    }

    /// Measured values: 467 thousand instructions and 7463 misses for random bytes, 111 thousand and 2450 for zeros. A scan of twice as
    /// many eraseblocks takes twice the time, and a CPU of twice the speed halves it.
    #[test]
    fn headers_take_the_time_of_the_cpu() {
        let (slow, fast) = (arm926(), Cpu::of(&HostProfile { instruction_ps: 4_161, ..HostProfile::NONE }));
        assert_eq!(slow.headers(2000), slow.headers(1000) * 2);
        assert!(fast.headers(1000) < slow.headers(1000));
        assert_eq!(Cpu::of(&HostProfile::NONE).headers(1000), Nanos::ZERO);
    }

    #[test]
    fn zlib_takes_longer_over_random_bytes() {
        let (random, zeros) = (packed(Codec::Zlib, 4096, None), packed(Codec::Zlib, 4096, Some(41)));
        assert!((6.0..6.3).contains(&(random.as_us_f64() / 1000.0)), "{random:?}");
        assert!((1.6..1.75).contains(&(zeros.as_us_f64() / 1000.0)), "{zeros:?}");
    }

    #[test]
    fn lzo_gives_random_bytes_up() {
        let random = packed(Codec::Lzo, 4096, None);
        assert!(random < packed(Codec::Lzo, 4096, Some(1482)));
        assert!(random * 5 < packed(Codec::Zlib, 4096, None));
    }

    /// Measured values: 152 thousand instructions and 3759 misses for random bytes, 33 thousand and 128 for zeros, 83 thousand and 1071
    /// for text.
    #[test]
    fn old_lzo_gives_nothing_up_and_clears_nothing() {
        let old = Cpu { old_lzo: true, ..arm926() };
        let (random, zeros) =
            (packed_by(old, Codec::Lzo, 4096, None), packed_by(old, Codec::Lzo, 4096, Some(41)));
        assert!((2.35..2.5).contains(&(random.as_us_f64() / 1000.0)), "{random:?}");
        assert!((0.3..0.34).contains(&(zeros.as_us_f64() / 1000.0)), "{zeros:?}");
        assert!(zeros < packed(Codec::Lzo, 4096, Some(41)));
    }

    #[test]
    fn a_copy_takes_what_was_measured_or_follows_from_instructions() {
        let measured = Cpu::of(&HostProfile { copy_to_user_ns_per_kb: 63_250, ..HostProfile::NONE });
        assert_eq!(measured.copy_to_user(4000), Nanos::from_us(253));
        assert_eq!(measured.copy_from_user(4000), Nanos::ZERO);
        let counted = arm926().copy_to_user(1000);
        assert_eq!(counted, arm926().copy_from_user(1000));
        assert!((20.0..21.0).contains(&counted.as_us_f64()), "{counted:?}");
    }

    #[test]
    fn a_cpu_of_unknown_speed_takes_no_time() {
        let mut work = Work::default();
        work.pack(Codec::Zlib, 4096, None);
        assert_eq!(Cpu::of(&HostProfile::NONE).codecs(&work), Nanos::ZERO);
        assert!(!Cpu::of(&HostProfile::NONE).is_known());
    }
}

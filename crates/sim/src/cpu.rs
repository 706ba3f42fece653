//! Time of the host's CPU for what filesystems give it to do: compression, checksums, copies.
//!
//! Each is a count of instructions and of lines that are missed in the data cache, times what one of these takes on the host
//! ([`HostProfile::instruction_ps`], [`HostProfile::cache_miss_ns`]). The counts are of the algorithms as Linux has them: zlib at JFFS2's level 3,
//! LZO1X-1, Zstandard's level 3, with blocks of 4 KiB, by `valgrind --tool=cachegrind` with the data cache of an ARM926EJ-S (16 KiB, 4 ways, lines
//! of 32 bytes); LZO also as it was before Linux 3.9 ([`HostProfile::lzo_before_linux_3_9`]). docs/performance.md says how they were taken, and how far text is off a line through zeros and random bytes.

use floatgate_device::host::HostProfile;
use floatgate_mtd::{Nanos, Operations};
use floatgate_stack::fs::{Codec, Through, Work};

/// Instructions and missed lines, each of a thousand calls or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    instructions: u64,
    misses: u64,
}

const fn per_thousand(instructions: u64, misses: u64) -> Count {
    Count { instructions, misses }
}

/// A codec: for each call, each byte in, each byte out.
#[derive(Clone, Copy, Debug)]
struct Cost {
    call: Count,
    byte_in: Count,
    byte_out: Count,
    /// It runs over what it cannot compress without making much of it: that counts as bytes in alone.
    gives_up: bool,
}

/// Compression.
const fn packing(codec: Codec) -> Cost {
    let none = per_thousand(0, 0);
    match codec {
        // Clears a table of hashes of 64 KiB first.
        Codec::Zlib => Cost {
            call: per_thousand(4_000_000, 2_048_000),
            byte_in: per_thousand(26_200, 98),
            byte_out: per_thousand(86_500, 1_220),
            gives_up: false,
        },
        // Clears one of 32 KiB.
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

/// LZO before Linux 3.9: each byte without a match is looked up in a table four times as large as the cache.
const OLD_LZO: Cost = Cost {
    call: per_thousand(0, 0),
    byte_in: per_thousand(8_000, 31),
    byte_out: per_thousand(29_200, 887),
    gives_up: false,
};

/// Decompression.
const fn unpacking(codec: Codec) -> Cost {
    let none = per_thousand(0, 0);
    let (byte_in, byte_out) = match codec {
        Codec::Zlib => (per_thousand(51_500, 60), per_thousand(6_800, 40)),
        Codec::Lzo => (per_thousand(3_500, 30), per_thousand(5_100, 32)),
        Codec::Zstd => (per_thousand(42_000, 370), per_thousand(1_100, 48)),
        Codec::Rtime => (none, per_thousand(12_000, 32)),
        // A bit at a time: an estimate, as nothing writes it.
        Codec::Rubin => (none, per_thousand(150_000, 32)),
    };
    Cost { call: none, byte_in, byte_out, gives_up: false }
}

/// CRC32 by a table, as `crc32_le` of Linux: four instructions a byte and a fifth of the loop.
const CHECKSUM: Count = per_thousand(5_000, 32);

/// A copy: both sides miss.
const COPY: Count = per_thousand(250, 62);

/// A CPU with its costs.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    instruction_ps: u64,
    miss_ps: u64,
    /// A system call with the filesystem's and the VFS's share, instructions.
    call: Nanos,
    old_lzo: bool,
    /// 1000 bytes to a program and from one, ns; 0 where they follow from instructions and misses.
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

    /// False when the host's file does not say how fast it is.
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

    /// Compressing and decompressing.
    pub fn codecs(&self, work: &Work) -> Nanos {
        let packed = work.packed().map(|(codec, through)| self.codec(self.packing(codec), through));
        let unpacked = work.unpacked().map(|(codec, through)| self.codec(unpacking(codec), through));
        packed.chain(unpacked).sum()
    }

    /// Checksums of all that a filesystem reads and writes.
    pub fn checksums(&self, operations: &Operations) -> Nanos {
        self.time(CHECKSUM, operations.read_bytes + operations.programmed_bytes)
    }

    /// Copying `bytes` from the kernel to a program.
    pub fn copy_to_user(&self, bytes: u64) -> Nanos {
        self.copy(self.to_user, bytes)
    }

    /// Copying `bytes` from a program to the kernel.
    pub fn copy_from_user(&self, bytes: u64) -> Nanos {
        self.copy(self.from_user, bytes)
    }

    fn copy(&self, ns_per_kb: u32, bytes: u64) -> Nanos {
        match ns_per_kb {
            0 => self.time(COPY, bytes),
            known => Nanos::from_ns(bytes.saturating_mul(u64::from(known)) / 1000),
        }
    }

    /// A system call.
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

    /// Counted: 467 thousand instructions and 7463 misses of random bytes, 111 thousand and 2450 of zeros.
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

    /// Counted: 152 thousand instructions and 3759 misses of random bytes, 33 thousand and 128 of zeros, 83 thousand and 1071 of text.
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

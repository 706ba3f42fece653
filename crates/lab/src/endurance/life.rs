//! Life of one block.

use floatgate_device::cells::{BlockLife, Wear};
use floatgate_mtd::Nanos;

/// Consecutive cycles with the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// First cycle of the stretch; the first cycle of the block is 0.
    pub from: u64,
    /// Number of cycles in the stretch.
    pub cycles: u64,
    /// tPROG of a page in each cycle.
    pub program: Nanos,
    /// tBERS in each cycle.
    pub erase: Nanos,
}

impl Stretch {
    /// First cycle after the stretch.
    pub const fn end(&self) -> u64 {
        self.from + self.cycles
    }
}

/// Life of a block: all cycles before the first one that fails. Each cycle has `stress`, in thousandths of an ordinary
/// cycle. Only the cycles at which a time changes are simulated.
pub fn life(wear: &Wear, block: &BlockLife, stress: u64) -> Vec<Stretch> {
    let stress = stress.max(1);
    let mut stretches = Vec::new();
    let mut cycle = 0;
    while !Wear::is_dead(block, cycle * stress) {
        let now = cycle * stress;
        let change = wear.next_change(block, now).unwrap_or(block.end);
        let until = change.div_ceil(stress).max(cycle + 1);
        let (program, erase) = (wear.program_time(block, now), wear.erase_time(block, now));
        extend(&mut stretches, Stretch { from: cycle, cycles: until - cycle, program, erase });
        cycle = until;
    }
    stretches
}

/// Adds a stretch, merged with the last one if their times are equal.
fn extend(stretches: &mut Vec<Stretch>, next: Stretch) {
    match stretches.last_mut() {
        Some(last) if (last.program, last.erase) == (next.program, next.erase) => last.cycles += next.cycles,
        _ => stretches.push(next),
    }
}

/// Number of cycles before the one that fails.
pub fn cycles(life: &[Stretch]) -> u64 {
    life.last().map_or(0, Stretch::end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use floatgate_device::cells::{CYCLE, WearSpec};
    use floatgate_device::units::TypMaxUs;
    use proptest::prelude::*;

    /// Reference life, simulated cycle by cycle without `next_change`.
    fn stepped(wear: &Wear, block: &BlockLife, stress: u64) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        for cycle in 0.. {
            let now = cycle * stress;
            if Wear::is_dead(block, now) {
                break;
            }
            let (program, erase) = (wear.program_time(block, now), wear.erase_time(block, now));
            extend(&mut stretches, Stretch { from: cycle, cycles: 1, program, erase });
        }
        stretches
    }

    fn model(bits: u8, cycles: u64, pace: f64) -> Wear {
        let typ = |us| TypMaxUs { typ: Nanos::from_us(us), max: Nanos::from_us(us) };
        let spec = WearSpec { pace_spread: pace, ..WearSpec::typical(bits, typ(300), typ(2000)) };
        Wear::new(spec, cycles)
    }

    #[test]
    fn a_life_by_hand() {
        // Typical SLC. A program takes 30 us and 8 to 5 steps of 33.75 us. An erase takes 200 us and 4 to 12 steps of
        // 450 us, with a break-in of 300 cycles.
        let wear = model(1, 100, 0.0);
        let block = wear.block(1, 0);
        let life = life(&wear, &block, CYCLE);
        assert_eq!(cycles(&life), block.end.div_ceil(CYCLE));
        let (first, last) = (life[0], life[life.len() - 1]);
        assert_eq!((first.program.as_ns(), first.erase.as_ns()), (333_750, 2_000_000));
        assert_eq!((last.program.as_ns(), last.erase.as_ns()), (30_000 + 5 * 33_750, 200_000 + 12 * 450_000));
        // The second additional erase pulse comes at (2 / 8.5)^(1 / 0.62) = 0.0969 of the life.
        let second = life.iter().find(|s| s.erase.as_ns() == 2_900_000).unwrap();
        assert_eq!(second.from, (block.end as f64 * (2.0_f64 / 8.5).powf(1.0 / 0.62) / 1000.0).ceil() as u64);
    }

    proptest! {
        /// Checks that jumping from change to change gives the same life as stepping through all cycles.
        #[test]
        fn jumps_miss_nothing(
            seed: u64, block in 0u32..64, bits in 1u8..3, cycles in 1u64..200, pace in 0.0f64..1.0,
            stress in prop_oneof![Just(CYCLE), Just(2 * CYCLE), 1u64..9000],
        ) {
            let wear = model(bits, cycles, pace);
            let block = wear.block(seed, block);
            prop_assert_eq!(life(&wear, &block, stress.max(50)), stepped(&wear, &block, stress.max(50)));
        }
    }
}

//! Energy of raw flash: the chip's current multiplied by the time of each phase.
//!
//! A part file states the currents of reads, programs and erases from the data sheet (`[supply]`). The chip draws the
//! current of the operation while its array works and while command, address and data are on the bus, and its standby
//! current otherwise. Array time that overlaps a transfer counts once, so the real energy of cached operations is
//! higher. Controller and host are not included.

use crate::speed::{Measured, Test};
use floatgate_config::Supply;
use floatgate_mtd::Phase;

/// Phases in which the chip draws the current of the operation.
const ACTIVE: [Phase; 5] = [Phase::Array, Phase::Command, Phase::Address, Phase::Dummy, Phase::Data];

/// Energy of a test per MiB moved or erased, mJ; `None` for other kinds of tests.
pub fn mj_per_mib(supply: &Supply, test: &Measured) -> Option<f64> {
    let active_ma = match Test::from_name(&test.name)? {
        Test::Read(_) => supply.read_ma,
        Test::Write(_) => supply.program_ma,
        Test::Erase(_) => supply.erase_ma,
    };
    let active_ns: u64 = ACTIVE.iter().map(|phase| test.breakdown_ns[*phase].as_ns()).sum();
    let waiting_ns = test.ns.saturating_sub(active_ns);
    let standby_ma = f64::from(supply.standby_ua) / 1e3;
    // Units: V * mA * s = mJ.
    let mj = supply.volts * (active_ma * active_ns as f64 + standby_ma * waiting_ns as f64) / 1e9;
    (test.bytes > 0).then(|| mj * f64::from(1 << 20) / test.bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::SpeedOptions;
    use crate::speed_run;
    use floatgate_config::Library;
    use floatgate_sim::rig::RigOptions;

    #[test]
    fn an_erase_takes_its_current_for_its_time() {
        let library = Library::built_in();
        let config = library.resolve(&library.setup("w25n01gv").unwrap(), &[]).unwrap();
        let tests = SpeedOptions { blocks: Some(1), ..SpeedOptions::default() };
        let run = speed_run::measure(&library, &config, RigOptions::default(), &tests).unwrap();
        let supply = config.part().supply.clone().unwrap();
        let of = |name: &str| {
            let test = run.report.tests.iter().find(|test| test.name == name).unwrap();
            (test, mj_per_mib(&supply, test).unwrap())
        };
        let (erase, mj) = of("erase");
        let most =
            supply.volts * supply.erase_ma * erase.ns as f64 / 1e9 * f64::from(1 << 20) / erase.bytes as f64;
        assert!(mj <= most && mj > 0.8 * most, "{mj} of {most}");
        assert!(of("page write").1 > of("erase").1);
    }
}

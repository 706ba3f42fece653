//! Selection of the data interface: the fastest one that chip and controller support.

use super::discover::{T_RST, get_feature, reset, set_feature};
use super::info::ChipInfo;
use crate::raw_nand::bus::{NandBus, NandError};
use crate::raw_nand::command as c;
use crate::raw_nand::timing::DataInterface;
use crate::timeline::Host;

/// The best common interface: NV-DDR before SDR, higher modes first. NV-DDR must be enabled by SET FEATURES. A chip
/// without that feature may be used in all SDR modes that it supports.
fn best<B: NandBus>(bus: &B, info: &ChipInfo) -> DataInterface {
    let nvddr = info.nvddr_modes.fastest_first().map(DataInterface::NvDdr).filter(|_| info.timing_feature);
    let sdr = info.sdr_modes.fastest_first().map(DataInterface::Sdr);
    nvddr.chain(sdr).find(|interface| bus.supports(*interface)).unwrap_or(DataInterface::POWER_ON)
}

/// Switches all targets and the controller to the best interface, and checks the result with GET FEATURES if supported.
/// If a chip did not switch, it is reset, and all stay in SDR mode 0.
pub(super) fn choose<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    info: &ChipInfo,
) -> Result<DataInterface, NandError> {
    let wanted = best(bus, info);
    if wanted == DataInterface::POWER_ON {
        return Ok(wanted);
    }
    if set_timing_mode(bus, host, info, wanted).is_ok() && confirmed(bus, host, info, wanted)? {
        return Ok(wanted);
    }
    bus.set_interface(host, DataInterface::POWER_ON)?;
    for target in 0..info.geometry.targets {
        bus.select(target as u8);
        reset(bus, host, T_RST)?;
    }
    bus.select(0);
    Ok(DataInterface::POWER_ON)
}

fn set_timing_mode<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    info: &ChipInfo,
    wanted: DataInterface,
) -> Result<(), NandError> {
    for target in (0..info.geometry.targets).filter(|_| info.timing_feature) {
        bus.select(target as u8);
        set_feature(bus, host, c::TIMING_MODE, wanted.feature())?;
    }
    Ok(())
}

/// Switches the controller and checks that every target uses the same interface. A chip in another interface does not
/// understand the command.
fn confirmed<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    info: &ChipInfo,
    wanted: DataInterface,
) -> Result<bool, NandError> {
    bus.set_interface(host, wanted)?;
    if !info.timing_feature || !info.get_features {
        return Ok(true);
    }
    for target in 0..info.geometry.targets {
        bus.select(target as u8);
        let answer = get_feature(bus, host, c::TIMING_MODE);
        if !answer.is_ok_and(|parameters| parameters[0] == wanted.feature()) {
            return Ok(false);
        }
    }
    bus.select(0);
    Ok(true)
}

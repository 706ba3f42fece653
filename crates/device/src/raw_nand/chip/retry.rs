//! Read retry: shifted read thresholds, set by a feature or by registers.

use super::RawNand;
use super::command::{Step, Wants};
use super::lun::Lun;
use crate::raw_nand::spec::{ReadRetry, RetryKind};
use crate::raw_nand::timing::BusTiming;
use crate::violation::Violation;
use floatgate_mtd::Instant;

impl Lun {
    /// Changes the read thresholds if `feature` is the read retry feature.
    pub(super) fn set_thresholds(&mut self, retry: Option<&ReadRetry>, feature: u8, mode: u8) {
        let retry = retry.filter(|retry| retry.kind == RetryKind::Feature && retry.feature == feature);
        if let Some(retry) = retry {
            self.lowered = retry.lowered(mode);
        }
    }
}

impl RawNand {
    fn retry_registers(&self) -> Option<&ReadRetry> {
        self.spec.read_retry.as_ref().filter(|retry| retry.kind == RetryKind::Hynix)
    }

    /// True if the chip has read retry registers (36h and 16h).
    pub(super) fn has_retry_registers(&self) -> bool {
        self.retry_registers().is_some()
    }

    /// Handles 36h. The registers retain their values until new ones arrive.
    pub(super) fn begin_parameters(&mut self) {
        let mode = usize::from(self.luns[0].retry_mode);
        let values = self.retry_registers().and_then(|retry| retry.values.get(mode).cloned());
        self.retry_values = values.unwrap_or_default();
    }

    /// Handles the address of a read retry register.
    pub(super) fn address_parameter(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let [address] = *bytes else {
            return Err(Violation::Sequence("wrong number of address cycles"));
        };
        let registers = self.retry_registers().map_or(&[][..], |retry| &retry.registers);
        let index = registers.iter().position(|register| *register == address);
        self.step = Step::ParameterAt(index.ok_or(Violation::BadAddress)?);
        self.hold_data(at + timing.adl, "data before tADL was over");
        Ok(())
    }

    /// Handles the value of a read retry register.
    pub(super) fn set_parameter(&mut self, index: usize, bytes: &[u8]) -> Result<(), Violation> {
        let ([value], Some(place)) = (bytes, self.retry_values.get_mut(index)) else {
            return Err(Violation::Sequence("a register has one byte"));
        };
        *place = *value;
        self.step = Step::Wants(Wants::Parameter);
        Ok(())
    }

    /// Handles 16h: later reads use these thresholds. Values that belong to no mode are rejected, because their
    /// thresholds are unknown.
    pub(super) fn apply_parameters(&mut self) -> Result<(), Violation> {
        let found = self.retry_registers().and_then(|retry| {
            let mode = retry.values.iter().position(|values| *values == self.retry_values)? as u8;
            Some((mode, retry.lowered(mode)))
        });
        let Some((mode, lowered)) = found else {
            return Err(Violation::Sequence("read retry registers hold the values of no mode"));
        };
        self.luns.iter_mut().for_each(|lun| (lun.retry_mode, lun.lowered) = (mode, lowered));
        self.step = Step::Idle;
        Ok(())
    }
}

//! Read retry: other read thresholds, by a feature or by registers.

use super::RawNand;
use super::command::{Step, Wants};
use super::lun::Lun;
use crate::raw_nand::spec::{ReadRetry, RetryKind};
use crate::raw_nand::timing::BusTiming;
use crate::violation::Violation;
use floatgate_mtd::Instant;

impl Lun {
    /// Changes the read thresholds if the feature that was set is the feature of read retry.
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

    /// True when 36h and 16h exist.
    pub(super) fn has_retry_registers(&self) -> bool {
        self.retry_registers().is_some()
    }

    /// 36h: the registers keep what they have until their new values come.
    pub(super) fn begin_parameters(&mut self) {
        let mode = usize::from(self.luns[0].retry_mode);
        let values = self.retry_registers().and_then(|retry| retry.values.get(mode).cloned());
        self.retry_values = values.unwrap_or_default();
    }

    /// The address of a register.
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

    /// The value of a register.
    pub(super) fn set_parameter(&mut self, index: usize, bytes: &[u8]) -> Result<(), Violation> {
        let ([value], Some(place)) = (bytes, self.retry_values.get_mut(index)) else {
            return Err(Violation::Sequence("a register has one byte"));
        };
        *place = *value;
        self.step = Step::Wants(Wants::Parameter);
        Ok(())
    }

    /// 16h: pages are read with these thresholds from now on. Values of no mode are refused, as their thresholds are
    /// unknown.
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

//! GET and SET FEATURES: timing mode, OTP mode, block protection, read retry.

use super::Output;
use super::RawNand;
use super::command::{Step, Wants};
use crate::raw_nand::command as c;
use crate::raw_nand::timing::{BusTiming, DataInterface};
use crate::violation::Violation;
use floatgate_mtd::Instant;

impl RawNand {
    /// Handles the address cycles of the four feature commands.
    pub(super) fn address_feature(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        wants: Wants,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let (lun, feature) = match (wants, bytes) {
            (Wants::GetFeature | Wants::SetFeature, [feature]) => (None, *feature),
            (Wants::GetLunFeature | Wants::SetLunFeature, [lun, feature])
                if usize::from(*lun) < self.luns.len() =>
            {
                (Some(*lun), *feature)
            }
            _ => return Err(Violation::Sequence("wrong number of address cycles")),
        };
        let stored = self.luns[usize::from(lun.unwrap_or(0))].features.get(feature);
        let parameters = stored.ok_or(Violation::BadAddress)?;
        if matches!(wants, Wants::SetFeature | Wants::SetLunFeature) {
            self.step = Step::FeatureData { lun, feature };
            self.hold_data(at + timing.adl, "data before tADL was over");
            return Ok(());
        }
        self.step = Step::Idle;
        self.output = Output::Feature(parameters);
        self.position = 0;
        self.feature_busy(at, timing);
        self.hold_data(self.lun().ready + timing.rr, "data before tRR was over");
        Ok(())
    }

    /// Handles the four parameters of SET FEATURES.
    pub(super) fn set_feature(
        &mut self,
        at: Instant,
        interface: DataInterface,
        lun: Option<u8>,
        feature: u8,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let Ok(parameters) = <[u8; 4]>::try_from(bytes) else {
            return Err(Violation::Sequence("a feature has four parameters"));
        };
        if self.takes_effect(feature, parameters[0]) {
            let chosen = |index: usize| lun.is_none_or(|lun| usize::from(lun) == index);
            for (index, state) in self.luns.iter_mut().enumerate() {
                if chosen(index) {
                    state.features.set(feature, parameters);
                    state.set_thresholds(self.spec.read_retry.as_ref(), feature, parameters[0]);
                }
            }
            self.apply(feature, parameters[0]);
        }
        self.step = Step::Idle;
        let end = at + interface.timing().write(4 * interface.timing().register_factor);
        self.feature_busy(end, interface.timing());
        Ok(())
    }

    /// True if the feature takes effect. As in silicon, a timing mode is ignored if the chip lacks
    /// it or cannot set it.
    fn takes_effect(&self, feature: u8, first: u8) -> bool {
        if feature != c::TIMING_MODE {
            return true;
        }
        let known = match DataInterface::from_feature(first) {
            Some(DataInterface::Sdr(mode)) => self.spec.sdr_modes.contains(mode),
            Some(DataInterface::NvDdr(mode)) => self.spec.nvddr_modes.contains(mode),
            None => false,
        };
        known && self.spec.features.timing_mode
    }

    fn apply(&mut self, feature: u8, first: u8) {
        if feature == c::TIMING_MODE {
            self.interface = DataInterface::from_feature(first).unwrap_or(self.interface);
        }
        if self.spec.otp.is_some_and(|otp| otp.feature == feature) {
            self.otp.set_mode(first);
            self.lun_mut().empty_registers();
        }
    }

    /// Ends OTP mode, as RESET does.
    pub(super) fn leave_otp(&mut self) {
        if let Some(otp) = self.spec.otp {
            self.otp.set_mode(0);
            for lun in &mut self.luns {
                lun.features.set(otp.feature, [0; 4]);
            }
        }
    }

    /// True if block protection covers the whole chip.
    #[inline]
    pub(super) fn all_locked(&self) -> bool {
        self.spec.protection.is_some_and(|p| {
            self.lun().features.get(p.feature).is_some_and(|parameters| parameters[0] == p.lock_all)
        })
    }
}

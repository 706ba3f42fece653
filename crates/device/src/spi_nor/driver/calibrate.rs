//! Calibration of the controller's PHY.

use super::engine::Engine;
use super::probe_error::ProbeError;
use crate::spi::{Data, PhyState, SpiMem, SpiOp};
use crate::timeline::Host;

/// Length of the calibration pattern, bytes.
const PATTERN_BYTES: usize = 128;

/// Calibration pattern with all kinds of transitions on every line: runs, single bits, all lines at once.
const PATTERN: [u8; PATTERN_BYTES] = {
    let mut bytes = [0; PATTERN_BYTES];
    let mut at = 0;
    let mut state: u8 = 0x5A;
    while at < PATTERN_BYTES {
        // The first bytes toggle all lines together, the other bytes are the sequence of a maximal-length 8-bit shift
        // register.
        bytes[at] = if at < 16 { [0x00, 0xFF, 0x55, 0xAA][at % 4] } else { state };
        let feedback = (state ^ (state >> 2) ^ (state >> 3) ^ (state >> 4)) & 1;
        state = (state >> 1) | (feedback << 7);
        at += 1;
    }
    bytes
};

impl<S: SpiMem> Engine<S> {
    /// Checks that the flash contains the pattern, then sweeps the sampling point while the array is read through the
    /// mapping. Only mapped reads use the PHY's clock, so reads of id and SFDP, which are plain operations, would not
    /// be a test.
    pub(super) fn calibrate(&mut self, host: &mut Host) -> Result<PhyState, ProbeError> {
        let addr = match self.options.pattern_addr {
            0 => self.spec.geometry.size_bytes - u64::from(self.erase_bytes),
            addr => addr,
        };
        self.place_pattern(host, addr)?;
        let op = self.pattern_op(addr);
        Ok(self.bus.calibrate(host, &op, &PATTERN)?)
    }

    fn pattern_op(&self, addr: u64) -> SpiOp {
        SpiOp { addr: addr as u32, len: PATTERN_BYTES as u32, ..self.ops.read }
    }

    /// Writes the pattern if needed; the current contents are read by plain operations at the bus's normal clock.
    fn place_pattern(&mut self, host: &mut Host, addr: u64) -> Result<(), ProbeError> {
        let op = self.pattern_op(addr);
        // A device in timing-only mode leaves the buffer unchanged, so the pattern appears to be present.
        let mut held = PATTERN;
        self.bus.exec(host, &op, Data::In(&mut held))?;
        if held == PATTERN {
            return Ok(());
        }
        if !self.options.write_pattern || held.iter().any(|&b| b != 0xFF) {
            return Err(ProbeError::PatternPlace { addr });
        }
        let mut at = addr;
        for chunk in self.pages(addr, &PATTERN) {
            self.program(host, at, chunk)?;
            at += chunk.len() as u64;
        }
        Ok(())
    }
}

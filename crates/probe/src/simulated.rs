//! A whole probe of a simulated card.

use crate::{Probe, ProbeError, ProbeOptions, Samples, Simulated, conclude};
use floatgate_mtd::BlockDevice;

/// Probes a simulated card, with writes if `write`. Its real size is measured on a card that stores contents; times on one that does
/// not, which needs no memory. `card(stores)` makes either. `watch` is called before each request with the question in words; the probe
/// ends when it returns true. Returns the requests, and the reason of an early end.
///
/// # Errors
/// Those of `card`.
pub fn probe_simulated<D: BlockDevice, E>(
    card: impl Fn(bool) -> Result<Simulated<D>, E>,
    seed: u64,
    write: bool,
    mut watch: impl FnMut(&'static str) -> bool,
) -> Result<(Samples, Option<ProbeError>), E> {
    let (mut samples, mut usable_bytes) = (Samples::default(), 0);
    if write {
        let mut stored = card(true)?;
        let options = ProbeOptions { seed, usable_bytes: 0 };
        let mut probe = Probe::new(&mut stored, options).watched(&mut watch);
        let trouble = probe.measure_capacity().err();
        samples = probe.into_samples();
        if trouble.is_some() {
            return Ok((samples, trouble));
        }
        usable_bytes = conclude(&samples).capacity.count().unwrap_or(samples.capacity);
    }
    let mut timed = card(false)?;
    let mut probe = Probe::new(&mut timed, ProbeOptions { seed, usable_bytes }).watched(&mut watch);
    let mut trouble = probe.measure_reads().err();
    if write && trouble.is_none() {
        let plan = probe.write_plan();
        trouble = probe.measure_writes(&plan).err();
    }
    let timed = probe.into_samples();
    samples.capacity = timed.capacity;
    samples.all.extend(timed.all);
    Ok((samples, trouble))
}

//! Complete probe of a simulated card.

use crate::{Probe, ProbeError, ProbeOptions, Samples, Simulated, Test, conclude};
use floatgate_mtd::BlockDevice;

/// Probes a simulated card, with writes if `write`. `card(stores)` makes a card: one that stores data for the tests of
/// data and real capacity, and one without data, which needs no memory, for timing. `watch` receives the question as
/// text before each request; the probe ends when it returns true. Returns the requests, and the reason of an early end.
///
/// # Errors
/// Errors of `card`.
pub fn probe_simulated<D: BlockDevice, E>(
    card: impl Fn(bool) -> Result<Simulated<D>, E>,
    seed: u64,
    write: bool,
    mut watch: impl FnMut(&'static str) -> bool,
) -> Result<(Samples, Option<ProbeError>), E> {
    let mut stored = card(true)?;
    let mut probe =
        Probe::new(&mut stored, ProbeOptions { seed, usable_bytes: 0, limits: None }).watched(&mut watch);
    let contents = probe.measure_again();
    let trouble = contents.and_then(|()| if write { probe.measure_capacity() } else { Ok(()) }).err();
    let mut samples = probe.into_samples();
    drop(stored);
    if trouble.is_some() {
        return Ok((samples, trouble));
    }
    let usable_bytes = if write { conclude(&samples).capacity.count().unwrap_or(0) } else { 0 };
    let mut timed = card(false)?;
    let mut probe =
        Probe::new(&mut timed, ProbeOptions { seed, usable_bytes, limits: None }).watched(&mut watch);
    let mut trouble = probe.measure_reads().err();
    if write && trouble.is_none() {
        let plan = probe.write_plan();
        trouble = probe.measure_writes(&plan).err();
    }
    let timed = probe.into_samples();
    samples.cost += timed.cost;
    // This card stores no data, so its test for stable data shows nothing.
    samples.all.extend(timed.all.into_iter().filter(|sample| sample.test != Test::Again));
    Ok((samples, trouble))
}

//! Wear levelling of ESP-IDF: the last sector of the partition contains its sizes.

use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::View;
use crate::readonly::{CONFIG_BYTES, WearLevelling};

/// Size of the partition whose last sector begins with these bytes.
pub(crate) fn ends(sector: &[u8]) -> Option<u64> {
    WearLevelling::partition_bytes(sector.first_chunk::<CONFIG_BYTES>()?)
}

/// Match for a partition that fills the range.
pub(crate) fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let levelling = WearLevelling::read(&|at, buf| view.read(at, buf), view.len())?;
    let states = levelling.states();
    let found = ProbeMatch::new(Kind::WearLevelled, view.len())
        .number("sector_bytes", WearLevelling::SECTOR)
        .number("data_bytes", levelling.data_bytes())
        .number("moves", levelling.moves())
        .number("dummy_sector", levelling.dummy())
        .text("states", states.words());
    // One of two states is sufficient, because Espressif's code restores the other one.
    Some(found.sum_is(true))
}

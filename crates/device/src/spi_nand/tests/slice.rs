//! Test of the whole path: probe, erase, write, read.

use super::rig::{Rig, spec};
use floatgate_mtd::{Instant, Mtd, Nanos, Phase};

#[test]
fn writes_and_reads_back_in_every_mode() {
    for mode in ["1S-1S-1S", "1S-1S-8S", "1S-8S-8S", "1S-1D-8D", "8D-8D-8D"] {
        let mut d = Rig::new(mode).driver("w35n01jw");
        let data: Vec<u8> = (0..3 * 4096u32).map(|i| ((i * 7) >> 3) as u8).collect();
        let at = d.erase(d.ready_at(), 262_144, 262_144).unwrap().at;
        let at = d.write(at, 262_144, &data).unwrap().at;
        let mut got = vec![0; data.len() - 100];
        let done = d.read(at, 262_144 + 50, &mut got).unwrap();
        assert_eq!(got, data[50..data.len() - 50], "{mode}");
        assert_eq!(d.breakdown().total(), done.at.since(Instant::ZERO), "{mode}");
        assert_eq!(d.read_operation().mode.to_string(), mode);
    }
}

#[test]
fn a_page_read_takes_what_its_parts_take() {
    let mut d = Rig::new("1S-8S-8S").driver("w35n01jw");
    let mut page = vec![0; 4096];
    let start = d.read(d.ready_at(), 0, &mut page).unwrap().at;
    let before = d.breakdown();
    let end = d.read(start, 4096, &mut page).unwrap().at;
    let cost = d.breakdown() - before;
    // PAGE READ: 8 + 24 cycles of 40 ns, READ FROM CACHE: 8 + 2 + 8 + 4096 cycles.
    assert_eq!(cost[Phase::Command], Nanos::from_ns(2 * 8 * 40));
    assert_eq!(cost[Phase::Address], Nanos::from_ns((24 + 2) * 40));
    assert_eq!(cost[Phase::Data], Nanos::from_ns(4096 * 40));
    assert_eq!(cost[Phase::Array], spec("w35n01jw").timing.t_rd_ecc_us);
    assert_eq!(cost.total(), end.since(start));
}

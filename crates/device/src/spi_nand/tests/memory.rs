//! Test of the memory that a device uses.

use super::rig::{Driver, Rig};
use crate::oracle::Oracle;
use floatgate_mtd::{Instant, Mtd};

fn array(device: &Driver) -> &crate::array::Array {
    device.bus().chip().array(0).unwrap()
}

#[test]
fn one_page_written_holds_one_page() {
    let mut device = Rig::new("1S-8S-8S").driver("w35n01jw");
    assert_eq!(array(&device).held_bytes(), 0);
    let page = vec![0x5A; device.geometry().write_bytes as usize];
    device.write(Instant::ZERO, 0, &page).unwrap();
    let g = device.geometry();
    assert_eq!(array(&device).held_bytes(), (g.write_bytes + g.oob_bytes) as usize);
}

#[test]
fn clones_share_pages_until_one_of_them_writes() {
    let mut device = Rig::new("1S-8S-8S").driver("w35n01jw");
    let g = device.geometry().clone();
    let data = vec![0x5A; g.erase_bytes as usize - g.write_bytes as usize];
    let now = device.write(Instant::ZERO, 0, &data).unwrap().at;
    let mut fork = device.clone();
    let last = u64::from(g.erase_bytes - g.write_bytes);
    let now = fork.write(now, last, &vec![0; g.write_bytes as usize]).unwrap().at;
    let page = |device: &Driver, row| array(device).stored(row).map(|page| page.as_ptr());
    assert_eq!(page(&device, 0), page(&fork, 0));
    let last_row = (g.erase_bytes / g.write_bytes) as usize - 1;
    assert_eq!((page(&device, last_row), page(&fork, last_row).is_some()), (None, true));
    fork.erase(now, 0, u64::from(g.erase_bytes)).unwrap();
    assert_eq!((array(&fork).held_bytes(), page(&device, 0).is_some()), (0, true));
}

//! Tests that compare flash in a store with flash in memory.

use super::*;
use crate::store::Window;
use floatgate_mtd::RamFlash;
use proptest::prelude::*;

const NOW: Instant = Instant::ZERO;

/// Geometry of 8 blocks of 4 pages of 64 bytes, with sub-pages of 16 bytes.
fn tiny() -> Geometry {
    let block = Geometry::nand_2048(1);
    Geometry {
        size_bytes: 2048,
        erase_bytes: 256,
        write_bytes: 64,
        buffer_bytes: 64,
        sub_page_bytes: 16,
        ..block
    }
}

fn flash(image: Vec<u8>, mode: StoreMode) -> StoreFlash<Vec<u8>> {
    StoreFlash::new(image, tiny(), mode)
}

fn read<D: Mtd>(device: &mut D, addr: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    device.read(NOW, addr, &mut out).unwrap();
    out
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind
}

#[test]
fn behind_the_end_of_the_store_all_is_erased() {
    let mut d = flash(vec![7; 300], StoreMode::WriteThrough);
    assert_eq!(read(&mut d, 296, 8), [7, 7, 7, 7, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert_eq!(kind(d.write(NOW, 256, &[1; 64])), ErrorKind::NotErased);
    d.erase(NOW, 256, 512).unwrap();
    assert_eq!(d.store().len(), 300);
    d.write(NOW, 1040, &[1; 16]).unwrap();
    assert_eq!(read(&mut d, 1036, 8), [[0xFF; 4], [1; 4]].concat());
    assert_eq!(d.store().len(), 1280, "the store does not end inside an eraseblock");
}

#[test]
fn the_last_block_of_a_store_can_be_filled() {
    let mut d = flash(vec![7; 300], StoreMode::WriteThrough);
    d.fill_last_block().unwrap();
    assert_eq!(d.into_store().len(), 512);
}

#[test]
fn an_overlay_leaves_the_store_alone_until_it_is_committed() {
    let image: Vec<u8> = (0..700u32).map(|i| (i % 251) as u8).collect();
    let mut d = flash(image.clone(), StoreMode::Overlay);
    d.write(NOW, 704, &[1; 64]).unwrap();
    d.erase(NOW, 0, 256).unwrap();
    d.write(NOW, 16, &[2; 16]).unwrap();
    d.erase(NOW, 1024, 256).unwrap();
    assert_eq!(read(&mut d, 252, 8), [0xFF, 0xFF, 0xFF, 0xFF, 5, 6, 7, 8]);
    assert_eq!(read(&mut d, 696, 12)[..5], [194, 195, 196, 197, 0xFF]);
    assert_eq!((d.store(), d.changed_blocks().collect::<Vec<_>>()), (&image, vec![0, 2, 4]));
    let seen = read(&mut d, 0, 2048);
    d.commit().unwrap();
    assert_eq!((d.changed_blocks().count(), read(&mut d, 0, 2048)), (0, seen));
    assert_eq!((d.store().len(), &d.store()[16..18]), (768, &[2, 2][..]));
}

#[test]
fn what_must_not_change_does_not() {
    let mut d = flash(vec![0; 64], StoreMode::ReadOnly);
    assert_eq!(kind(d.write(NOW, 64, &[1; 64])), ErrorKind::WriteProtected);
    assert_eq!(kind(d.erase(NOW, 0, 256)), ErrorKind::WriteProtected);
    let mut d = flash(Vec::new(), StoreMode::WriteThrough).with_bad_blocks([3]);
    d.mark_bad(NOW, 1300).unwrap();
    assert!(d.is_bad(NOW, 768).unwrap().0 && d.is_bad(NOW, 1535).unwrap().0 && !d.is_bad(NOW, 0).unwrap().0);
    let error = d.erase(NOW, 512, 512).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::BadBlock, 768));
    assert_eq!(kind(d.write(NOW, 1280, &[1; 16])), ErrorKind::BadBlock);
    assert_eq!(kind(d.write(NOW, 8, &[1; 16])), ErrorKind::Misaligned { unit: 16 });
    assert_eq!(kind(d.read(NOW, 2040, &mut [0; 16])), ErrorKind::OutOfRange { len: 16, size: 2048 });
    assert!(matches!(
        kind(d.read_oob(NOW, 0, &mut [], &mut [], floatgate_mtd::OobMode::Raw)),
        ErrorKind::Unsupported(_)
    ));
    d.write(NOW, 768, &[]).unwrap();
    assert!(d.store().is_empty());
}

#[test]
fn the_hosts_failures_are_kept() {
    let mut d = StoreFlash::new(Window::new(Vec::new(), 100, 1000), tiny(), StoreMode::WriteThrough);
    d.write(NOW, 512, &[1; 64]).unwrap();
    let error = d.write(NOW, 960, &[1; 64]).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::DeviceLost, 960));
    // A store grows by whole blocks.
    assert_eq!(d.host_error().unwrap().offset, 768);
    assert_eq!(d.into_store().into_inner()[612], 1);
    let mut d = StoreFlash::new(Window::new(Vec::new(), 0, 1000), tiny(), StoreMode::Overlay);
    d.write(NOW, 960, &[1; 64]).unwrap();
    d.write(NOW, 256, &[1; 64]).unwrap();
    d.commit().unwrap_err();
    assert_eq!(d.changed_blocks().collect::<Vec<_>>(), [3]);
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize, u8),
    Erase(usize, usize),
    MarkBad(usize),
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..128, 1usize..12, any::<u8>()).prop_map(|(a, n, b)| Step::Write(a, n, b)),
        2 => (0usize..8, 0usize..3).prop_map(|(b, n)| Step::Erase(b, n)),
        1 => (0usize..8).prop_map(Step::MarkBad),
        1 => Just(Step::Commit),
    ]
}

fn apply<D: Mtd>(device: &mut D, step: &Step) -> Result<(), ErrorKind> {
    let done = match *step {
        Step::Write(addr, len, byte) => {
            let data: Vec<u8> = (0..len * 16)
                .map(|i| if i / 16 % 3 == 2 { 0xFF } else { byte })
                .take(2048 - addr * 16)
                .collect();
            device.write(NOW, addr as u64 * 16, &data)
        }
        Step::Erase(block, count) => device.erase(NOW, block as u64 * 256, count.min(8 - block) as u64 * 256),
        Step::MarkBad(block) => device.mark_bad(NOW, block as u64 * 256),
        Step::Commit => Ok(Done::default()),
    };
    done.map(|_| ()).map_err(|e| e.kind)
}

/// A store that counts its read and write calls.
#[derive(Default)]
struct Counted {
    bytes: Vec<u8>,
    reads: std::cell::Cell<usize>,
    writes: usize,
}

impl Store for Counted {
    fn size_bytes(&self) -> u64 {
        self.bytes.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.reads.set(self.reads.get() + 1);
        self.bytes.read_at(offset, buf)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.writes += 1;
        self.bytes.write_at(offset, data)
    }
}

/// A program of an unwritten range is one write and no read, for any page size. One additional write extends the store
/// by a block.
#[test]
fn a_program_is_one_write_and_no_read_where_nothing_was_written() {
    for geometry in [Geometry { buffer_bytes: 1, ..Geometry::nor(8, 256) }, tiny()] {
        let mut d = StoreFlash::new(Counted::default(), geometry.clone(), StoreMode::WriteThrough);
        let slow = d.write(NOW, 0, &[1; 192]).unwrap().at;
        assert_eq!((d.store().reads.get(), d.store().writes), (0, 2), "{geometry:?}");
        let pages = 192 / u64::from(geometry.write_bytes);
        assert_eq!(slow.since(NOW).as_ns(), OPERATION.as_ns() * pages, "a page takes its time");
        d.write(slow, 0, &[1; 0]).unwrap();
        // Before written bytes are programmed again, they are read.
        assert_eq!(d.write(slow, 128, &[3; 128]).unwrap_err().addr, 128);
        assert_eq!(d.store().reads.get(), 1);
    }
}

proptest! {
    /// The same steps give the same bytes with write-through, with an overlay, and in memory. NOR is used because flash
    /// in memory does not count its programs.
    #[test]
    fn equals_flash_in_memory(steps in prop::collection::vec(step(), 1..60), image in prop::collection::vec(any::<u8>(), 0..900)) {
        let nor = Geometry { size_bytes: 2048, buffer_bytes: 64, ..Geometry::nor(8, 256) };
        let mut memory = RamFlash::from_bytes(nor.clone(), &image);
        let mut through = StoreFlash::new(image.clone(), nor.clone(), StoreMode::WriteThrough);
        let mut overlay = StoreFlash::new(image, nor, StoreMode::Overlay);
        for step in &steps {
            let want = apply(&mut memory, step);
            prop_assert_eq!(&apply(&mut through, step), &want, "{:?}", step);
            prop_assert_eq!(&apply(&mut overlay, step), &want, "{:?}", step);
            if matches!(step, Step::Commit) {
                overlay.commit().unwrap();
            }
            let bytes = read(&mut memory, 0, 2048);
            prop_assert_eq!(&read(&mut through, 0, 2048), &bytes, "{:?}", step);
            prop_assert_eq!(&read(&mut overlay, 0, 2048), &bytes, "{:?}", step);
        }
    }

    /// The same comparison for NAND, between the overlay and write-through.
    #[test]
    fn overlay_equals_write_through(steps in prop::collection::vec(step(), 1..60), image in prop::collection::vec(any::<u8>(), 0..900)) {
        let (mut through, mut overlay) = (flash(image.clone(), StoreMode::WriteThrough), flash(image, StoreMode::Overlay));
        for step in &steps {
            prop_assert_eq!(apply(&mut through, step), apply(&mut overlay, step), "{:?}", step);
            prop_assert_eq!(read(&mut through, 0, 2048), read(&mut overlay, 0, 2048), "{:?}", step);
        }
        overlay.commit().unwrap();
        let len = through.store().len().min(overlay.store().len());
        prop_assert_eq!(&through.store()[..len], &overlay.store()[..len]);
    }
}

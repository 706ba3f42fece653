//! Tests of the device against a simple model of bytes, and of each rule.

use super::block::is_erased;
use super::*;
use alloc::collections::BTreeSet;
use proptest::prelude::*;

const NOW: Instant = Instant::ZERO;

/// A geometry with small blocks, so that random steps collide: 8 blocks of 4 pages of 64+8 bytes, sub-pages of `sub` bytes.
fn tiny(sub: u32) -> Geometry {
    Geometry {
        size_bytes: 2048,
        erase_bytes: 256,
        write_bytes: 64,
        buffer_bytes: 64,
        oob_bytes: 8,
        oob_free_bytes: 6,
        ..Geometry::nand_2048(1)
    }
    .with_sub_pages(sub)
}

fn tiny_nor() -> Geometry {
    Geometry { size_bytes: 2048, buffer_bytes: 16, ..Geometry::nor(8, 256) }
}

fn read(device: &mut RamFlash, addr: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    device.read(NOW, addr, &mut out).unwrap();
    out
}

fn kind<T: core::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind
}

#[test]
fn a_page_takes_as_many_programs_as_it_has_sub_pages() {
    let mut device = RamFlash::new(tiny(16));
    for part in 0..4 {
        device.write(NOW, part * 16, &[part as u8; 16]).unwrap();
    }
    assert_eq!(kind(device.write(NOW, 0, &[0xFF; 16])), ErrorKind::NotErased);
    assert_eq!(read(&mut device, 48, 32), [[3; 16], [0xFF; 16]].concat());
    let mut whole = RamFlash::new(tiny(64));
    whole.write(NOW, 64, &[0xFF; 64]).unwrap();
    assert_eq!(kind(whole.write(NOW, 64, &[1; 64])), ErrorKind::NotErased);
    whole.erase(NOW, 0, 256).unwrap();
    whole.write(NOW, 64, &[1; 64]).unwrap();
    assert_eq!(whole.erases(0), 1);
}

#[test]
fn a_sub_page_that_holds_data_takes_no_more_but_a_padded_page_passes_it_by() {
    let mut device = RamFlash::new(tiny(16));
    device.write(NOW, 0, &[0x0F; 16]).unwrap();
    assert_eq!(kind(device.write(NOW, 0, &[0x0F; 16])), ErrorKind::NotErased);
    let mut padded = [0xFF; 64];
    padded[16..32].fill(7);
    device.write(NOW, 0, &padded).unwrap();
    assert_eq!(read(&mut device, 0, 48), [[0x0F; 16], [7; 16], [0xFF; 16]].concat());
    assert_eq!(kind(device.write(NOW, 8, &[1; 16])), ErrorKind::Misaligned { unit: 16 });
}

#[test]
fn nor_clears_bits_and_sets_none() {
    let mut device = RamFlash::new(tiny_nor());
    device.write(NOW, 3, &[0xF0]).unwrap();
    device.write(NOW, 3, &[0x50]).unwrap();
    assert_eq!(kind(device.write(NOW, 3, &[0x51])), ErrorKind::NotErased);
    assert_eq!(read(&mut device, 2, 3), [0xFF, 0x50, 0xFF]);
    assert!(matches!(kind(device.mark_bad(NOW, 0)), ErrorKind::Unsupported(_)));
    assert!(matches!(
        kind(device.read_oob(NOW, 0, &mut [], &mut [], OobMode::Raw)),
        ErrorKind::Unsupported(_)
    ));
}

#[test]
fn bad_blocks_keep_what_they_hold() {
    let mut device = RamFlash::new(tiny(64)).with_bad_blocks(&[5, 1, 5, 99]);
    device.write(NOW, 768, &[4; 64]).unwrap();
    device.mark_bad(NOW, 800).unwrap();
    assert_eq!(device.bad_blocks(), [1, 3, 5]);
    assert!(device.is_bad(NOW, 1023).unwrap().0 && !device.is_bad(NOW, 1024).unwrap().0);
    let error = device.erase(NOW, 512, 512).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::BadBlock, 768));
    assert_eq!(kind(device.write(NOW, 832, &[1; 64])), ErrorKind::BadBlock);
    assert_eq!(read(&mut device, 768, 64), [4; 64]);
}

#[test]
fn oob_bytes_are_kept_and_free_ones_are_the_last() {
    let mut device = RamFlash::new(tiny(64));
    device.write_oob(NOW, 320, &[1; 64], &[9; 6], OobMode::Auto).unwrap();
    let (mut data, mut oob) = ([0; 64], [0; 8]);
    device.read_oob(NOW, 320, &mut data, &mut oob, OobMode::Raw).unwrap();
    assert_eq!((data, oob), ([1; 64], [0xFF, 0xFF, 9, 9, 9, 9, 9, 9]));
    device.read_oob(NOW, 256, &mut [], &mut oob, OobMode::Place).unwrap();
    assert_eq!(oob, [0xFF; 8]);
    assert_eq!(kind(device.write_oob(NOW, 320, &[], &[0; 8], OobMode::Place)), ErrorKind::NotErased);
    assert_eq!(
        kind(device.write_oob(NOW, 0, &[], &[0; 7], OobMode::Auto)),
        ErrorKind::OutOfRange { len: 7, size: 6 }
    );
    assert_eq!(
        kind(device.write_oob(NOW, 0, &[0; 16], &[], OobMode::Raw)),
        ErrorKind::Misaligned { unit: 64 }
    );
    assert!(device.write_oob(NOW, 0, &[0; 128], &[], OobMode::Raw).is_err());
    device.erase(NOW, 256, 256).unwrap();
    device.read_oob(NOW, 320, &mut data, &mut oob, OobMode::Raw).unwrap();
    assert_eq!((data, oob), ([0xFF; 64], [0xFF; 8]));
}

#[test]
fn an_image_comes_out_as_it_went_in() {
    let image: Vec<u8> = (0..700u32).map(|i| (i % 251) as u8).collect();
    let mut device = RamFlash::from_bytes(tiny(64), &image);
    assert_eq!(device.block(0), Some(&image[..256]));
    assert_eq!(device.block(2).map(<[u8]>::len), Some(700 - 512));
    assert_eq!(device.block(3), None);
    let mut dump = Vec::new();
    device
        .copy_to(|bytes| {
            dump.extend_from_slice(bytes);
            Ok::<(), ()>(())
        })
        .unwrap();
    assert_eq!(dump.len(), 2048);
    assert_eq!((&dump[..700], is_erased(&dump[700..])), (&image[..], true));
    assert_eq!(kind(device.write(NOW, 640, &[0; 64])), ErrorKind::NotErased);
    device.write(NOW, 704, &[0; 64]).unwrap();
    assert!(RamFlash::from_bytes(tiny(64), &[0xFF; 2048]).blocks.iter().all(Option::is_none));
    assert_eq!(RamFlash::from_bytes(tiny(64), &[0; 5000]).block(7), Some(&[0; 256][..]));
}

#[test]
fn odd_geometries_are_cut_to_whole_blocks() {
    let odd = Geometry { size_bytes: 1000, sub_page_bytes: 0, ..tiny(64) };
    assert_eq!(RamFlash::new(odd).geometry().size_bytes, 768);
    let none = Geometry { erase_bytes: 0, write_bytes: 0, ..tiny(64) };
    assert_eq!(RamFlash::new(none).geometry().pages_per_block(), 1);
}

#[test]
fn time_goes_on_and_adds_up() {
    let mut device = RamFlash::new(tiny(64));
    let written = device.write(Instant::from_ns(5000), 0, &[1; 192]).unwrap();
    assert_eq!(written.at, Instant::from_ns(8000));
    let got = device.read(Instant::from_ns(7000), 0, &mut [0; 64]).unwrap();
    assert_eq!(got.at, Instant::from_ns(9000));
    assert_eq!(device.breakdown().total(), Nanos::from_us(5));
    assert_eq!(device.breakdown()[Phase::Waiting], Nanos::from_us(1));
}

#[test]
fn presets_divide_evenly() {
    for g in
        [Geometry::nand_512(64), Geometry::nand_2048(8), Geometry::nand_4096(8), Geometry::nor(16, 65536)]
    {
        assert!(g.size_bytes.is_multiple_of(u64::from(g.erase_bytes)));
        assert!(
            g.erase_bytes.is_multiple_of(g.write_bytes) && g.write_bytes.is_multiple_of(g.sub_page_bytes)
        );
        assert_eq!(g.bitflip_threshold, Geometry::default_bitflip_threshold(g.ecc_strength));
        assert_eq!(RamFlash::new(g.clone()).geometry(), &g);
    }
    assert_eq!(Geometry::nand_2048(128).size_bytes, 16 << 20);
}

/// Reference model: bytes, and the number of programs of each page.
struct Model {
    geometry: Geometry,
    bytes: Vec<u8>,
    programs: Vec<u32>,
    bad: BTreeSet<usize>,
}

impl Model {
    fn new(geometry: &Geometry) -> Self {
        let size = geometry.size_bytes as usize;
        let pages = size / geometry.write_bytes as usize;
        Self {
            geometry: geometry.clone(),
            bytes: vec![0xFF; size],
            programs: vec![0; pages],
            bad: BTreeSet::new(),
        }
    }

    /// Programs byte by byte; stops at the first page that rejects the program.
    fn write(&mut self, addr: usize, data: &[u8]) -> bool {
        let page = page_bytes(&self.geometry) as usize;
        let mut at = addr;
        while at < addr + data.len() {
            let end = ((at / page + 1) * page).min(addr + data.len());
            if !self.takes(at, &data[at - addr..end - addr]) {
                return false;
            }
            (at..end).for_each(|i| self.bytes[i] &= data[i - addr]);
            self.programs[at / self.geometry.write_bytes as usize] += 1;
            at = end;
        }
        true
    }

    fn takes(&self, at: usize, new: &[u8]) -> bool {
        let g = &self.geometry;
        if self.bad.contains(&(at / g.erase_bytes as usize)) {
            return false;
        }
        if g.kind == FlashKind::Nor {
            return (0..new.len()).all(|i| new[i] & !self.bytes[at + i] == 0);
        }
        let sub = g.sub_page_bytes as usize;
        let free = |from: usize| {
            let old = &self.bytes[at + from..at + from + sub];
            old.iter().all(|b| *b == 0xFF) || new[from..from + sub].iter().all(|b| *b == 0xFF)
        };
        self.programs[at / g.write_bytes as usize] < g.write_bytes / g.sub_page_bytes
            && (0..new.len()).step_by(sub).all(free)
    }

    fn erase(&mut self, block: usize, count: usize) -> bool {
        for block in block..block + count {
            if self.bad.contains(&block) {
                return false;
            }
            let (size, page) = (self.geometry.erase_bytes as usize, self.geometry.write_bytes as usize);
            self.bytes[block * size..][..size].fill(0xFF);
            self.programs[block * size / page..][..size / page].fill(0);
        }
        true
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize, u8),
    Erase(usize, usize),
    MarkBad(usize),
    Fork,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..128, 1usize..12, prop_oneof![Just(0xFF), any::<u8>()]).prop_map(|(a, n, b)| Step::Write(a, n, b)),
        2 => (0usize..8, 0usize..3).prop_map(|(b, n)| Step::Erase(b, n)),
        1 => (0usize..8).prop_map(Step::MarkBad),
        1 => Just(Step::Fork),
    ]
}

/// Applies one step to device and model, and returns true if both allow or both reject it.
fn apply(device: &mut RamFlash, model: &mut Model, step: &Step) -> bool {
    let unit = model.geometry.sub_page_bytes.max(16) as usize;
    let size = model.bytes.len();
    match *step {
        Step::Write(addr, len, byte) => {
            let addr = addr * unit % size;
            let data: Vec<u8> =
                (0..(len * unit).min(size - addr)).map(|i| byte | (i / unit % 3 * 0x55) as u8).collect();
            device.write(NOW, addr as u64, &data).is_ok() == model.write(addr, &data)
        }
        Step::Erase(block, count) => {
            let count = count.min(8 - block);
            device.erase(NOW, block as u64 * 256, count as u64 * 256).is_ok() == model.erase(block, count)
        }
        Step::MarkBad(block) => {
            let marked = device.mark_bad(NOW, block as u64 * 256).is_ok();
            if marked {
                model.bad.insert(block);
            }
            marked == (model.geometry.kind != FlashKind::Nor)
        }
        Step::Fork => true,
    }
}

proptest! {
    /// After any steps the device contains the same bytes as a plain array under the same rules, and changes of a fork do not
    /// affect the original.
    #[test]
    fn equals_a_plain_array(steps in prop::collection::vec(step(), 1..80), which in 0usize..4) {
        let geometry = [tiny(64), tiny(16), tiny(32), tiny_nor()][which].clone();
        let (mut device, mut model) = (RamFlash::new(geometry.clone()), Model::new(&geometry));
        let mut forks: Vec<(RamFlash, Vec<u8>)> = Vec::new();
        for step in &steps {
            if matches!(step, Step::Fork) {
                forks.push((device.clone(), model.bytes.clone()));
            }
            prop_assert!(apply(&mut device, &mut model, step), "{:?}", step);
            prop_assert_eq!(&read(&mut device, 0, 2048), &model.bytes, "{:?}", step);
        }
        for (mut fork, bytes) in forks {
            prop_assert_eq!(read(&mut fork, 0, 2048), bytes);
        }
    }
}

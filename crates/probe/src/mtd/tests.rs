use super::*;
use floatgate_mtd::{Geometry, OobMode, RamFlash};

/// 8 eraseblocks: 1 is bad, 2 and 5 hold data.
fn flash() -> Simulated<RamFlash> {
    let mut ram = RamFlash::new(Geometry::nand_2048(8)).with_bad_blocks(&[1]);
    let geometry = ram.geometry().clone();
    for block in [2_u32, 5] {
        ram.load(block, &vec![0x5A; geometry.erase_bytes as usize]);
    }
    Simulated::new(ram, Instant::ZERO, "ram")
}

fn content(flash: &Simulated<RamFlash>) -> Vec<u8> {
    let mut all = Vec::new();
    flash
        .device()
        .copy_to(|bytes| {
            all.extend_from_slice(bytes);
            Ok::<_, ()>(())
        })
        .unwrap();
    all
}

#[test]
fn a_reading_pass_changes_nothing_and_tells_blank_blocks_from_written_ones() {
    let mut flash = flash();
    let before = content(&flash);
    let found = measure(&mut flash, false, &mut |_, _| false).unwrap();
    assert_eq!(
        (found.bad_blocks.as_slice(), found.blank_blocks, found.read_blocks),
        ([1_u64].as_slice(), 5, 7)
    );
    assert!(found.complete && found.weak_blocks.is_empty());
    assert_eq!(found.speeds.len(), 6, "{:?}", found.speeds);
    assert!(found.speeds.iter().all(|speed| speed.name.ends_with("read") && speed.kib_s > 0));
    assert!(content(&flash) == before);
    assert!((0..8).all(|block| flash.device().erases(block) == 0));
}

#[test]
fn writes_use_blank_blocks_alone_and_leave_them_blank() {
    let mut flash = flash();
    let before = content(&flash);
    let found = measure(&mut flash, true, &mut |_, _| false).unwrap();
    let names: Vec<&str> = found.speeds.iter().map(|speed| speed.name).collect();
    for name in ["eraseblock write", "page write", "2 page write", "erase"] {
        assert_eq!(names.iter().filter(|n| **n == name).count(), 1, "{name}: {names:?}");
    }
    assert!(content(&flash) == before);
    for block in [1, 2, 5] {
        assert_eq!(flash.device().erases(block), 0, "block {block}");
    }
    assert_eq!(flash.device().erases(0), 3);
}

/// JFFS2's clean marker of block 3 is in the OOB of its first page, a tag of block 6 in that of its last one.
#[test]
fn a_block_that_holds_something_in_its_oob_is_not_blank() {
    let mut ram = RamFlash::new(Geometry::nand_2048(8));
    let Geometry { erase_bytes, write_bytes, oob_bytes, .. } = *ram.geometry();
    let pages = [(3, 0), (6, u64::from(erase_bytes / write_bytes) - 1)];
    let pages = pages.map(|(block, page)| block * u64::from(erase_bytes) + page * u64::from(write_bytes));
    let mut oob = vec![0xFF; oob_bytes as usize];
    oob[40..48].copy_from_slice(&[0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0]);
    for page in pages {
        ram.write_oob(Instant::ZERO, page, &[], &oob, OobMode::Raw).unwrap();
    }
    let mut flash = Simulated::new(ram, Instant::ZERO, "ram");
    let found = measure(&mut flash, true, &mut |_, _| false).unwrap();
    assert_eq!((found.blank_blocks, found.read_blocks), (6, 8));
    assert_eq!([0, 3, 6].map(|block| flash.device().erases(block)), [3, 0, 0]);
    for page in pages {
        let mut now = vec![0; oob.len()];
        flash.read_oob(page, &mut now).unwrap();
        assert_eq!(now, oob);
    }
}

#[test]
fn a_device_that_somebody_begins_to_use_is_not_written() {
    let mut failing = Failing { flash: flash(), writes_left: 100, users: vec!["it is mounted on /mnt"] };
    let before = content(&failing.flash);
    let error = measure(&mut failing, true, &mut |_, _| false).unwrap_err().to_string();
    assert!(error.contains("it is in use by now: it is mounted on /mnt"), "{error}");
    assert_eq!((content(&failing.flash) == before, failing.writes_left), (true, 100));
    assert!((0..8).all(|block| failing.flash.device().erases(block) == 0));
    assert!(measure(&mut failing, false, &mut |_, _| false).unwrap().complete);
}

/// A device that fails after a number of writes, or is used.
struct Failing {
    flash: Simulated<RamFlash>,
    writes_left: u32,
    users: Vec<&'static str>,
}

impl Flash for Failing {
    fn shape(&self) -> &Shape {
        self.flash.shape()
    }
    fn is_bad(&mut self, block: u64) -> Result<bool, TargetError> {
        self.flash.is_bad(block)
    }
    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        self.flash.read(position, buf)
    }
    fn read_oob(&mut self, position: u64, oob: &mut [u8]) -> Result<(), TargetError> {
        self.flash.read_oob(position, oob)
    }
    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        let left = self.writes_left.checked_sub(1);
        self.writes_left = left.ok_or_else(|| failed("write", position, data.len() as u64, &"no more"))?;
        self.flash.write(position, data)
    }
    fn erase(&mut self, block: u64) -> Result<u64, TargetError> {
        self.flash.erase(block)
    }
    fn counters(&mut self) -> Option<Counters> {
        None
    }
    fn holders(&mut self) -> Result<Vec<String>, TargetError> {
        Ok(self.users.iter().map(|user| (*user).to_owned()).collect())
    }
}

#[test]
fn a_test_that_fails_leaves_its_blocks_blank() {
    for writes_left in [0, 1, 3, 7, 100] {
        let mut failing = Failing { flash: flash(), writes_left, users: Vec::new() };
        let before = content(&failing.flash);
        let error = measure(&mut failing, true, &mut |_, _| false).unwrap_err();
        assert_eq!((error.operation, error.reason.as_str()), ("write", "no more"));
        assert!(content(&failing.flash) == before, "{writes_left}");
    }
}

#[test]
fn an_early_end_gives_what_was_found_so_far() {
    let found = measure(&mut flash(), true, &mut |done, _| done == 3).unwrap();
    assert_eq!((found.read_blocks, found.complete, found.speeds.len()), (2, false, 0));
}

#[test]
fn bits_that_were_corrected_are_counted_by_block() {
    struct Weakly(Simulated<RamFlash>, Counters);
    impl Flash for Weakly {
        fn shape(&self) -> &Shape {
            self.0.shape()
        }
        fn is_bad(&mut self, block: u64) -> Result<bool, TargetError> {
            self.0.is_bad(block)
        }
        fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
            if position == 2 * u64::from(self.0.shape().erase_bytes) {
                self.1.corrected += 3;
            }
            self.0.read(position, buf)
        }
        fn read_oob(&mut self, position: u64, oob: &mut [u8]) -> Result<(), TargetError> {
            self.0.read_oob(position, oob)
        }
        fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
            self.0.write(position, data)
        }
        fn erase(&mut self, block: u64) -> Result<u64, TargetError> {
            self.0.erase(block)
        }
        fn counters(&mut self) -> Option<Counters> {
            Some(self.1)
        }
    }
    let mut weakly = Weakly(flash(), Counters { corrected: 100, failed: 0 });
    let found = measure(&mut weakly, false, &mut |_, _| false).unwrap();
    assert_eq!(found.weak_blocks, [Weak { block: 2, corrected: 3, failed: 0 }]);
}

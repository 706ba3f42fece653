//! Cuts power at each step of a probe that saves, overwrites and restores, on a model that loses unsynced data; and checks that every
//! damage of a saved file is rejected or reported.

use super::*;
use floatgate_mtd::random::hash;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::LazyLock;

const SECTOR: usize = 512;
const CAPACITY: u64 = 1 << 20;

/// Contents of a file or device, with the writes that no sync has made durable.
#[derive(Clone, Default)]
struct Medium {
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

fn apply(contents: &mut Vec<u8>, at: usize, data: &[u8]) {
    contents.resize(contents.len().max(at + data.len()), 0);
    contents[at..at + data.len()].copy_from_slice(data);
}

impl Medium {
    fn now(&self) -> Vec<u8> {
        let mut now = self.durable.clone();
        self.pending.iter().for_each(|(at, data)| apply(&mut now, *at, data));
        now
    }

    fn length(&self) -> usize {
        let ends = self.pending.iter().map(|(at, data)| at + data.len());
        ends.chain([self.durable.len()]).max().unwrap_or(0)
    }

    fn read(&self, at: usize, buf: &mut [u8]) -> io::Result<()> {
        let end = at + buf.len();
        if end > self.length() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let durable = std::iter::once((0, &self.durable));
        for (start, data) in durable.chain(self.pending.iter().map(|(at, data)| (*at, data))) {
            let both = at.max(start)..end.min(start + data.len());
            if !both.is_empty() {
                buf[both.start - at..both.end - at]
                    .copy_from_slice(&data[both.start - start..both.end - start]);
            }
        }
        Ok(())
    }

    fn sync(&mut self) {
        for (at, data) in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, at, &data);
        }
    }

    /// Cuts power: each unsynced sector survives if `is_kept` returns true, in any order.
    fn cut(&mut self, mut is_kept: impl FnMut() -> bool) {
        for (at, data) in std::mem::take(&mut self.pending) {
            for (number, sector) in data.chunks(SECTOR).enumerate() {
                if is_kept() {
                    apply(&mut self.durable, at + number * SECTOR, sector);
                }
            }
        }
    }
}

/// Unsynced writes that survive a power cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Nothing,
    Everything,
    Some(u64),
}

/// A model of a host with a device and a file.
#[derive(Clone, Default)]
struct World {
    device: Medium,
    file: Medium,
    /// True if the file's name is in its folder, now and after a cut.
    has_name: bool,
    has_durable_name: bool,
    /// Number of steps until power is cut; `None` for no power cut.
    left: Option<u64>,
    steps: u64,
    /// True for a disk that reports the end of a sync before the data is durable.
    file_lies: bool,
}

impl World {
    /// Executes one step; after the cut every step fails.
    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        match &mut self.left {
            Some(0) => Err(io::Error::other("power is cut")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Restarts the host after a power cut.
    fn restart(&mut self, cut: Cut) {
        let mut drawn = 0;
        let mut is_kept = || match cut {
            Cut::Nothing => false,
            Cut::Everything => true,
            Cut::Some(seed) => {
                drawn += 1;
                hash(seed, drawn, 0) & 1 == 1
            }
        };
        if is_kept() {
            self.has_durable_name = self.has_name;
        }
        self.has_name = self.has_durable_name;
        self.device.cut(&mut is_kept);
        self.file.cut(&mut is_kept);
        self.left = None;
    }
}

type Shared = Rc<RefCell<World>>;

struct File(Shared);

impl Store for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.borrow().file.length() as u64)
    }

    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        self.0.borrow().file.read(at as usize, buf)
    }

    fn write_at(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        world.file.pending.push((at as usize, data.to_vec()));
        world.step()
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        world.step()?;
        if !world.file_lies {
            world.file.sync();
        }
        Ok(())
    }

    fn sync_name(&mut self) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        world.step()?;
        world.has_durable_name = world.has_name;
        Ok(())
    }

    fn remove(&mut self) -> io::Result<()> {
        self.0.borrow_mut().has_name = false;
        self.sync_name()
    }
}

struct Device(Shared);

impl Disk for Device {
    fn read_at(&mut self, position: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.borrow().device.read(position as usize, buf)
    }

    fn write_back(&mut self, position: u64, data: &[u8]) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        world.device.pending.push((position as usize, data.to_vec()));
        world.step()
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        world.step()?;
        world.device.sync();
        Ok(())
    }
}

static ORIGINAL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    (0..CAPACITY as usize / SECTOR).flat_map(|sector| [hash(1, sector as u64, 0) as u8; SECTOR]).collect()
});

fn facts() -> Vec<Fact> {
    vec![Fact::new("CID", "035344535344323036851b0c00a9")]
}

fn created(world: &Shared) -> io::Result<SavedRanges<File>> {
    world.borrow_mut().has_name = true;
    let identity = Identity::of(Path::new("/dev/mmcblk0"), CAPACITY, facts(), &mut Device(Rc::clone(world)));
    SavedRanges::create(File(Rc::clone(world)), 7, identity)
}

/// Ranges that the probe writes, some of them twice. The flag is true if the probe then syncs the device.
const WRITES: [(u64, u64, bool); 6] = [
    (4096, 1024, false),
    (512 << 10, 20_480, true),
    (4608, 8192, false),
    (0, 512, true),
    (512 << 10, 4096, false),
    (CAPACITY - 1024, 1024, false),
];

/// A probe that saves and overwrites ranges, and restores them at the end.
fn probe(world: &Shared) -> io::Result<()> {
    let mut saved = created(world)?;
    let mut device = Device(Rc::clone(world));
    saved.save(&mut device, 300 << 10, 303 << 10)?;
    for (position, bytes, syncs) in WRITES {
        saved.prepare(&mut device, position, position + bytes)?;
        device.write_back(position, &vec![0xEE; bytes as usize])?;
        if syncs {
            device.sync()?;
        }
    }
    finish(saved, &mut device)
}

fn finish(mut saved: SavedRanges<File>, device: &mut Device) -> io::Result<()> {
    let trouble = saved.restore(device, |_| ());
    trouble.first.map_or(Ok(()), |first| Err(io::Error::other(first.to_string())))?;
    saved.remove()
}

/// Restores the device after a cut, as `probe --restore` does.
fn recover(world: &Shared) -> Result<(), String> {
    if !world.borrow().has_name {
        return Ok(());
    }
    let mut device = Device(Rc::clone(world));
    let mut saved = match SavedRanges::open(File(Rc::clone(world))) {
        // Power was cut before the header was durable.
        Err(BadSaved::Foreign | BadSaved::Damaged { .. }) => return Ok(()),
        saved => saved.map_err(|error| error.to_string())?,
    };
    saved.check_device(&mut device, CAPACITY, &facts()).map_err(|error| error.to_string())?;
    saved.verify();
    if let Some(damage) = saved.damage().first() {
        return Err(damage.to_string());
    }
    finish(saved, &mut device).map_err(|error| error.to_string())
}

fn world(left: Option<u64>, file_lies: bool) -> Shared {
    let device = Medium { durable: ORIGINAL.clone(), pending: Vec::new() };
    Rc::new(RefCell::new(World { device, left, file_lies, ..World::default() }))
}

/// Cuts power after `first` steps of a probe, then after `second` steps of a restoration, and finally restores without a power cut.
fn after_cuts(first: u64, second: u64, cut: Cut, file_lies: bool) -> Result<(), String> {
    let world = world(Some(first), file_lies);
    let ended = probe(&world);
    assert!(ended.is_err(), "the probe ended before step {first}");
    world.borrow_mut().restart(cut);
    world.borrow_mut().left = Some(second);
    let _ = recover(&world);
    world.borrow_mut().restart(cut);
    recover(&world)?;
    world.borrow_mut().restart(Cut::Nothing);
    let found = &world.borrow().device.durable;
    let differs = found.iter().zip(&*ORIGINAL).position(|(found, before)| found != before);
    differs.map_or(Ok(()), |at| Err(format!("byte {at} of the device has other contents")))
}

fn steps() -> u64 {
    let world = world(None, false);
    probe(&world).unwrap();
    let steps = world.borrow().steps;
    assert!(world.borrow().device.durable == *ORIGINAL && !world.borrow().has_durable_name);
    steps
}

#[test]
fn a_loss_of_power_at_any_step_loses_nothing() {
    let steps = steps();
    assert!(steps > 30, "{steps}");
    for first in 0..steps {
        for cut in [Cut::Nothing, Cut::Everything, Cut::Some(first), Cut::Some(first + 1000)] {
            for second in [first % 3, first % 11, 100] {
                let result = after_cuts(first, second, cut, false);
                assert_eq!(
                    result,
                    Ok(()),
                    "cut after {first} of {steps} steps and {second} of the next, {cut:?}"
                );
            }
        }
    }
}

/// Checks that the model is strict enough to detect a saved file that is not durable.
#[test]
fn a_loss_of_power_shows_a_file_that_was_not_synced() {
    let lost = (0..steps()).filter(|&first| after_cuts(first, 100, Cut::Nothing, true).is_err());
    assert!(lost.count() > 5);
}

/// A saved file with three ranges, two of which are durable, and a device on which nothing was restored.
fn saved_file() -> (Shared, Vec<u8>) {
    let world = world(None, false);
    let mut saved = created(&world).unwrap();
    let mut device = Device(Rc::clone(&world));
    saved.prepare(&mut device, 512, 1536).unwrap();
    saved.prepare(&mut device, 8192, 8704).unwrap();
    saved.save(&mut device, 65_536, 66_048).unwrap();
    let bytes = world.borrow().file.now();
    (world, bytes)
}

fn opened(world: &Shared, bytes: &[u8]) -> Result<SavedRanges<File>, BadSaved> {
    world.borrow_mut().file = Medium { durable: bytes.to_vec(), pending: Vec::new() };
    let mut saved = SavedRanges::open(File(Rc::clone(world)))?;
    saved.verify();
    Ok(saved)
}

/// Checks that the durable ranges are restored or reported as damaged, or that the file is rejected because of its header.
fn assert_accounted(world: &Shared, bytes: &[u8], context: &str) {
    let Ok(mut saved) = opened(world, bytes) else { return };
    let has = |position: u64| saved.pieces.iter().any(|piece| piece.position == position);
    assert!(has(512) && has(8192) || !saved.damage().is_empty(), "{context}: {:?}", saved.pieces);
    // Restored data equals the data on the device, which was not overwritten here.
    let trouble = saved.restore(&mut Device(Rc::clone(world)), |_| ());
    assert!(trouble.first.is_none() && world.borrow().device.now() == *ORIGINAL, "{context}");
}

#[test]
fn every_damaged_byte_is_refused_or_reported() {
    let (world, whole) = saved_file();
    let headers = [0..80, 1580..1640, 4096..4140, 8192..8240, 12288..12330, 13824..13870, 14848..14890];
    let contents = (HEADER..whole.len()).step_by(101);
    for at in headers.into_iter().flatten().chain(contents) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        assert_accounted(&world, &bytes, &format!("byte {at}"));
    }
    for length in (0..whole.len()).step_by(61) {
        assert_accounted(&world, &whole[..length], &format!("cut to {length} B"));
    }
    for sector in 0..whole.len() / SECTOR {
        let mut bytes = whole.clone();
        bytes[sector * SECTOR..][..SECTOR].fill(0);
        assert_accounted(&world, &bytes, &format!("sector {sector}"));
    }
}

#[test]
fn a_damaged_range_does_not_keep_others_from_being_restored() {
    let (world, whole) = saved_file();
    let damage = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let saved = opened(&world, &bytes).unwrap();
        let words: Vec<String> = saved.damage().iter().map(ToString::to_string).collect();
        (saved.pieces.iter().map(|piece| piece.position).collect::<Vec<_>>(), words.join("; "))
    };
    let contents = "1 KiB from byte 512 of the device: the saved contents at byte 12800 of the file are damaged or cut off";
    assert_eq!(damage(12_800), (vec![8192, 65_536], contents.to_owned()));
    let header =
        "1 saved range of unknown position: headers from byte 12288 of the file on are damaged or cut off";
    assert_eq!(damage(12_289), (vec![8192, 65_536], header.to_owned()));
    // A range that no mark includes was not overwritten.
    assert_eq!(damage(14_848), (vec![512, 8192], String::new()));
    assert_eq!(damage(15_360), (vec![512, 8192], String::new()));
    let words = opened(&world, &whole[..13_824]).unwrap().damage()[0].to_string();
    assert!(words.starts_with("1 saved range of unknown position: headers from byte 13824"), "{words}");
}

#[test]
fn other_files_and_versions_are_refused() {
    let (world, whole) = saved_file();
    let refused = |bytes: &[u8]| opened(&world, bytes).map(|_| ()).unwrap_err().to_string();
    assert_eq!(refused(b""), "this is no file with contents that a probe has saved");
    let old = [b"floatgate kept 1".as_slice(), &4096_u64.to_le_bytes()].concat();
    assert!(
        refused(&old).starts_with("this saved file has version 1 of the format, and version 2 is needed")
    );
    assert!(refused(&whole[..4000]).starts_with("at byte 4000: the file ends inside its header"));
    let mut bytes = whole;
    bytes[100] ^= 1;
    assert!(refused(&bytes).starts_with("at byte 16: the CRC of the header is wrong"));
}

#[test]
fn another_device_is_refused_with_the_reason() {
    let (world, whole) = saved_file();
    let mut device = Device(Rc::clone(&world));
    let saved = opened(&world, &whole).unwrap();
    assert_eq!(saved.check_device(&mut device, CAPACITY, &facts()), Ok(()));
    let mut check =
        |capacity, facts: &[Fact]| saved.check_device(&mut device, capacity, facts).unwrap_err().to_string();
    assert_eq!(
        check(2 << 20, &facts()),
        "the contents were saved from a device of 1 MiB, this one has 2 MiB"
    );
    let other = [Fact::new("CID", "1b534d454231515430")];
    assert!(
        check(CAPACITY, &other)
            .ends_with("CID 035344535344323036851b0c00a9, this one has 1b534d454231515430")
    );
    assert!(check(CAPACITY, &[]).ends_with("this one has none"));
    // The same card, changed by another program where the probe has not written.
    let at = saved.header.identity.samples[70].position as usize;
    world.borrow_mut().device.durable[at] ^= 1;
    let changed = saved.check_device(&mut device, CAPACITY, &facts()).unwrap_err();
    // Samples 0, 1 and 8 overlap saved ranges.
    assert!(
        matches!(changed, OtherDevice::Contents { differ: 1, compared: 120..=127, first } if first == at as u64),
        "{changed}"
    );
}

#[test]
fn samples_that_were_overwritten_are_not_compared() {
    let (world, whole) = saved_file();
    let mut device = Device(Rc::clone(&world));
    device.write_back(512, &[0xEE; 1024]).unwrap();
    assert_eq!(opened(&world, &whole).unwrap().check_device(&mut device, CAPACITY, &facts()), Ok(()));
    // The mark contains the samples even if the header of the range is lost.
    let mut bytes = whole;
    bytes[12_289] ^= 1;
    assert_eq!(opened(&world, &bytes).unwrap().check_device(&mut device, CAPACITY, &facts()), Ok(()));
}

#[test]
fn a_file_that_failed_once_is_not_trusted_again() {
    let world = world(None, false);
    let mut saved = created(&world).unwrap();
    let mut device = Device(Rc::clone(&world));
    world.borrow_mut().left = Some(1);
    assert!(saved.prepare(&mut device, 0, 512).is_err());
    world.borrow_mut().left = None;
    assert!(saved.prepare(&mut device, 0, 512).is_err() && saved.make_durable().is_err());
    assert!(saved.is_unused());
}

#[test]
fn every_byte_is_saved_once() {
    let world = world(None, false);
    let mut saved = created(&world).unwrap();
    let mut device = Device(Rc::clone(&world));
    for (start, end) in [(1024, 1536), (0, 4096), (8192, 9216), (2048, 10_240), (0, 10_240)] {
        saved.prepare(&mut device, start, end).unwrap();
    }
    assert_eq!(saved.bytes(), 10_240);
    assert!(saved.gaps(0, 10_240).is_empty());
    assert_eq!(saved.gaps(512, 11_264), [(10_240, 11_264)]);
}

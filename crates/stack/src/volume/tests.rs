//! Tests that compare both volumes.

use super::*;
use proptest::prelude::*;

const LEB: u32 = 256;

fn geometry() -> VolumeGeometry {
    VolumeGeometry {
        lebs: 6,
        leb_bytes: LEB,
        min_io_bytes: 16,
        max_write_bytes: 64,
        leb_start: 0,
        read_only: false,
    }
}

fn ram() -> RamVolume {
    RamVolume::new(geometry())
}

fn bare() -> BareVolume<Vec<u8>> {
    BareVolume::new(Vec::new(), geometry())
}

fn both() -> [Box<dyn Volume>; 2] {
    [Box::new(ram()), Box::new(bare())]
}

fn fault<T: std::fmt::Debug>(result: Result<T, VolumeError>) -> VolumeFault {
    result.unwrap_err().fault
}

fn read(volume: &mut dyn Volume, lnum: u32, offset: u32, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    volume.read(lnum, offset, &mut out).unwrap();
    out
}

#[test]
fn lebs_are_mapped_by_their_first_write() {
    for mut v in both() {
        assert!(!v.is_mapped(2).unwrap());
        assert_eq!(read(&mut *v, 2, 240, 16), [0xFF; 16]);
        v.write(2, 32, &[1; 16]).unwrap();
        assert!(v.is_mapped(2).unwrap() && !v.is_mapped(1).unwrap());
        assert_eq!(read(&mut *v, 2, 24, 32), [[0xFF; 8], [1; 8], [1; 8], [0xFF; 8]].concat());
        assert_eq!(fault(v.write(2, 32, &[1; 16])), VolumeFault::NotErased);
        assert_eq!(fault(v.map(2)), VolumeFault::NotErased);
        v.map(1).unwrap();
        assert!(v.is_mapped(1).unwrap());
        assert_eq!(fault(v.map(1)), VolumeFault::NotErased);
        v.write(1, 0, &[2; 16]).unwrap();
        v.unmap(1).unwrap();
        v.erase(2).unwrap();
        assert!(!v.is_mapped(1).unwrap() && !v.is_mapped(2).unwrap());
        assert_eq!(read(&mut *v, 2, 0, 256), [0xFF; 256]);
        v.flush().unwrap();
    }
}

#[test]
fn a_change_replaces_the_whole_leb() {
    for mut v in both() {
        v.write(0, 0, &[1; 256]).unwrap();
        let mut data = [5; 64];
        data[40..].fill(0xFF);
        v.change(0, &data).unwrap();
        assert_eq!(read(&mut *v, 0, 32, 24), [[5; 8], [0xFF; 8], [0xFF; 8]].concat());
        v.write(0, 48, &[6; 16]).unwrap();
        assert_eq!(read(&mut *v, 0, 48, 32), [[6; 16], [0xFF; 16]].concat());
        v.change(0, &[]).unwrap();
        assert!(v.is_mapped(0).unwrap());
        assert_eq!(read(&mut *v, 0, 0, 256), [0xFF; 256]);
    }
}

#[test]
fn what_is_outside_or_misaligned_is_refused() {
    for mut v in both() {
        assert_eq!(fault(v.read(6, 0, &mut [0])), VolumeFault::OutOfRange { len: 1 });
        assert_eq!(fault(v.read(0, 250, &mut [0; 7])), VolumeFault::OutOfRange { len: 7 });
        assert_eq!(fault(v.write(0, u32::MAX, &[0; 16])), VolumeFault::OutOfRange { len: 16 });
        assert_eq!(fault(v.write(0, 8, &[0; 16])), VolumeFault::Misaligned { unit: 16 });
        assert_eq!(fault(v.write(0, 0, &[0; 8])), VolumeFault::Misaligned { unit: 16 });
        assert_eq!(fault(v.change(0, &[0; 272])), VolumeFault::OutOfRange { len: 272 });
        for result in [v.map(6), v.unmap(6), v.erase(6), v.is_mapped(6).map(|_| ())] {
            assert_eq!(fault(result), VolumeFault::OutOfRange { len: 0 });
        }
        v.write(5, 256, &[]).unwrap();
        assert!(!v.is_mapped(5).unwrap());
    }
}

#[test]
fn volumes_without_size_hold_nothing() {
    let none = VolumeGeometry { leb_bytes: 0, min_io_bytes: 0, ..geometry() };
    let mut pieces = 0;
    RamVolume::from_bytes(none, &[1; 100])
        .copy_to(|leb| {
            pieces += leb.len();
            Ok::<(), ()>(())
        })
        .unwrap();
    assert_eq!(pieces, 0);
    let mut v = BareVolume::new(vec![1; 100], none);
    assert_eq!(fault(v.read(0, 0, &mut [0])), VolumeFault::OutOfRange { len: 1 });
    v.flush().unwrap();
    assert!(!v.is_mapped(5).unwrap());
}

#[test]
fn read_only_volumes_only_read() {
    let read_only = VolumeGeometry { read_only: true, ..geometry() };
    let image = vec![3; 300];
    let volumes: [Box<dyn Volume>; 2] = [
        Box::new(RamVolume::from_bytes(read_only, &image)),
        Box::new(BareVolume::new(image.clone(), read_only)),
    ];
    for mut v in volumes {
        assert_eq!(read(&mut *v, 1, 40, 8), [3, 3, 3, 3, 0xFF, 0xFF, 0xFF, 0xFF]);
        for result in [v.write(0, 0, &[0; 16]), v.change(0, &[0; 16]), v.map(4), v.unmap(0), v.erase(0)] {
            assert_eq!(fault(result), VolumeFault::ReadOnly);
        }
        v.flush().unwrap();
    }
}

#[test]
fn memory_is_written_upwards_and_forks() {
    let mut v = ram();
    v.write(0, 64, &[0xFF; 16]).unwrap();
    assert_eq!(fault(v.write(0, 0, &[1; 16])), VolumeFault::NotErased);
    assert_eq!(fault(v.write(0, 64, &[1; 16])), VolumeFault::NotErased);
    let fork = v.clone();
    v.write(0, 80, &[1; 16]).unwrap();
    assert_eq!((fork.leb(0).unwrap().len(), v.leb(0).unwrap().len(), v.leb(1)), (80, 96, None));
    assert_eq!(v.now().as_ns(), 4 * OPERATION_NS);
    v.wait_until(Instant::from_ns(50_000));
    v.wait_until(Instant::from_ns(5));
    assert_eq!(v.now(), Instant::from_ns(50_000));
}

const OPERATION_NS: u64 = floatgate_mtd::ram::OPERATION.as_ns();

#[test]
fn a_bare_image_ends_with_a_whole_leb() {
    let mut v = bare();
    v.write(2, 16, &[1; 16]).unwrap();
    assert_eq!(v.store().len(), 512 + 32);
    v.flush().unwrap();
    assert_eq!(v.now().as_ns(), OPERATION_NS);
    let image = v.into_store();
    assert_eq!(image.len(), 768);
    assert!(image[..528].iter().chain(&image[544..]).all(|byte| *byte == 0xFF));
}

#[test]
fn the_hosts_failures_come_through() {
    let window = crate::store::Window::new(vec![0; 100], 0, 300);
    let mut v = BareVolume::new(window, geometry());
    let error = v.write(1, 32, &[1; 16]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "LEB 1, offset 0x20: writing byte 0x120: the window in the file ends at byte 0x12c"
    );
}

#[derive(Clone, Debug)]
enum Step {
    Write(u32, u32, u8),
    Change(u32, u32, u8),
    Map(u32),
    Unmap(u32),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let (leb, units) = (0u32..6, 1u32..5);
    prop_oneof![
        6 => (leb.clone(), units.clone(), 0u8..255).prop_map(|(l, n, b)| Step::Write(l, n, b)),
        2 => (leb.clone(), units, 0u8..255).prop_map(|(l, n, b)| Step::Change(l, n, b)),
        1 => leb.clone().prop_map(Step::Map),
        1 => leb.prop_map(Step::Unmap),
        1 => Just(Step::Reopen),
    ]
}

fn apply(v: &mut dyn Volume, step: &Step, ends: &[u32; 6]) -> Result<(), VolumeError> {
    match *step {
        Step::Write(l, n, b) => v.write(l, ends[l as usize], &vec![b; n as usize * 16]),
        Step::Change(l, n, b) => v.change(l, &vec![b; n as usize * 16]),
        Step::Map(l) => v.map(l),
        Step::Unmap(l) => v.unmap(l),
        Step::Reopen => v.flush(),
    }
}

proptest! {
    /// The same operations of a filesystem give the same result in memory, in a bare image, and in either of them read
    /// back from its bytes.
    #[test]
    fn volumes_agree(steps in prop::collection::vec(step(), 1..60)) {
        let (mut a, mut b) = (ram(), bare());
        let mut ends = [0; 6];
        for step in &steps {
            let got = apply(&mut a, step, &ends);
            prop_assert_eq!(&got, &apply(&mut b, step, &ends), "{:?}", step);
            match *step {
                Step::Write(l, n, _) if got.is_ok() => ends[l as usize] += n * 16,
                Step::Change(l, n, _) => ends[l as usize] = n * 16,
                Step::Unmap(l) => ends[l as usize] = 0,
                _ => {}
            }
            for lnum in 0..6 {
                prop_assert_eq!(read(&mut a, lnum, 0, 256), read(&mut b, lnum, 0, 256), "{:?}", step);
                prop_assert_eq!(a.is_mapped(lnum), b.is_mapped(lnum));
            }
            if matches!(step, Step::Reopen) {
                // A mapped LEB without data is unmapped after it is read back.
                let mut image = Vec::new();
                a.copy_to(|leb| { image.extend_from_slice(leb); Ok::<(), ()>(()) }).unwrap();
                let mut bytes = b.into_store();
                bytes.resize(6 * LEB as usize, 0xFF);
                prop_assert_eq!(&image, &bytes);
                (a, b) = (RamVolume::from_bytes(geometry(), &image), BareVolume::new(bytes, geometry()));
            }
        }
    }
}

//! Tests that compare each store with a plain array.

use super::*;
use proptest::prelude::*;
use std::fs::File;

fn file() -> FileStore {
    // The file is deleted at once and exists until its handle is closed.
    let path = std::env::temp_dir().join(format!(
        "floatgate-store-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    FileStore::new(file).unwrap()
}

fn bytes<S: Store>(store: &mut S, offset: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    store.read_at(offset, &mut out).unwrap();
    out
}

#[test]
fn stores_grow_with_ones() {
    let mut stores: [Box<dyn Store>; 4] = [
        Box::new(Vec::new()),
        Box::new(file()),
        Box::new(Window::new(vec![7; 5], 5, 1 << 20)),
        Box::new(CachedStore::new(Vec::new())),
    ];
    for store in &mut stores {
        assert_eq!(store.size_bytes(), 0);
        store.write_at(40_000, &[1, 2, 3]).unwrap();
        assert_eq!(store.size_bytes(), 40_003);
        assert!(is_erased(store, 0, 40_000).unwrap());
        assert!(!is_erased(store, 0, 40_001).unwrap());
        assert_eq!(bytes(store, 39_999, 6), [0xFF, 1, 2, 3, 0xFF, 0xFF]);
        assert_eq!(bytes(store, u64::MAX, 2), [0xFF; 2]);
        erase(store, 40_001, 50_000).unwrap();
        assert_eq!((store.size_bytes(), bytes(store, 40_000, 3)), (40_003, vec![1, 0xFF, 0xFF]));
        assert_eq!(store.write_at(u64::MAX - 1, &[0; 4]).unwrap_err().action, "writing");
    }
}

#[test]
fn a_window_shows_its_part_and_keeps_writes_inside() {
    let mut whole: Vec<u8> = (0..20).collect();
    let mut window = Window::new(&mut whole, 5, 10);
    assert_eq!(bytes(&mut window, 8, 4), [13, 14, 0xFF, 0xFF]);
    window.write_at(9, &[99]).unwrap();
    let error = window.write_at(9, &[1, 1]).unwrap_err();
    assert_eq!(error.to_string(), "writing byte 0x9: the window in the file ends at byte 0xa");
    window.write_at(11, &[]).unwrap_err();
    assert_eq!((window.size_bytes(), window.start()), (10, 5));
    assert_eq!((whole[14], whole[15]), (99, 15));
    let mut behind = Window::new(vec![1; 3], 10, u64::MAX);
    assert_eq!((behind.size_bytes(), bytes(&mut behind, 0, 1)), (0, vec![0xFF]));
    assert_eq!(behind.write_at(u64::MAX - 10, &[1]).unwrap_err().action, "writing");
}

#[test]
fn the_hosts_failures_are_told() {
    let path = std::env::current_exe().unwrap();
    let mut store = FileStore::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(store.size_bytes(), path.metadata().unwrap().len());
    let error = store.write_at(3, &[1]).unwrap_err();
    assert_eq!((error.action, error.offset), ("writing", 3));
    // Later reads still work.
    let first = bytes(&mut store, 0, 64);
    let mut again = [0; 64];
    std::io::Read::read_exact(&mut File::open(&path).unwrap(), &mut again).unwrap();
    assert_eq!(first, again);
}

proptest! {
    /// After any sequence of writes, files and windows read the same bytes as memory.
    #[test]
    fn stores_agree(steps in prop::collection::vec((0u64..300, 0usize..40, any::<u8>()), 1..30)) {
        let (mut memory, mut file, mut window) = (Vec::new(), file(), Window::new(Vec::new(), 17, 400));
        for (offset, len, byte) in steps {
            let data = vec![byte; len];
            memory.write_at(offset, &data).unwrap();
            file.write_at(offset, &data).unwrap();
            window.write_at(offset, &data).unwrap();
            prop_assert_eq!(bytes(&mut file, offset / 2, 100), bytes(&mut memory, offset / 2, 100));
            prop_assert_eq!(bytes(&mut window, 0, 400), bytes(&mut memory, 0, 400));
            prop_assert_eq!((file.size_bytes(), window.size_bytes()), (memory.len() as u64, memory.len() as u64));
        }
    }
}

#[test]
fn a_cache_is_what_is_below_it() {
    let mut plain: Vec<u8> = (0..200_000_u32).map(|at| (at / 7) as u8).collect();
    let mut cached = CachedStore::new(plain.clone());
    let mut seed = 1_u64;
    let mut below = |end: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % end
    };
    for _ in 0..2000 {
        let (at, len) = (below(4_000_000), below(40_000) as usize);
        let at = if below(4) == 0 { at } else { at % 210_000 };
        assert_eq!(bytes(&mut cached, at, len), bytes(&mut plain, at, len));
        if below(20) == 0 {
            let data = vec![below(256) as u8; below(300) as usize];
            cached.write_at(at % 220_000, &data).unwrap();
            plain.write_at(at % 220_000, &data).unwrap();
        }
    }
    assert_eq!(cached.into_inner(), plain);
}

/// Uses far more chunks than the cache holds. Each chunk is read again after the others and after a
/// write to it.
#[test]
fn a_cache_smaller_than_its_store_gives_what_the_store_has() {
    let content = |chunk: usize| (chunk * 7 + 1) as u8;
    let chunks = 300;
    let whole: Vec<u8> = (0..chunks).flat_map(|chunk| vec![content(chunk); CHUNK]).collect();
    let mut store = CachedStore::new(whole);
    for round in 0..3 {
        for chunk in (0..chunks).chain((0..chunks).rev()) {
            let at = (chunk * CHUNK + round) as u64;
            let expected = if round > 1 && chunk % 64 == 0 { 0xAA } else { content(chunk) };
            assert_eq!(bytes(&mut store, at, 1), [expected], "chunk {chunk}, round {round}");
        }
        for chunk in (0..chunks).step_by(64) {
            store.write_at((chunk * CHUNK + 2) as u64, &[0xAA]).unwrap();
        }
    }
}

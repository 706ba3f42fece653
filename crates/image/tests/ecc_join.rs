//! Dumps of two chips as one: the order is found.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panic")]

use floatgate_image::build::{BuildOptions, Container, FlashShape, Overrides, Source, build};
use floatgate_image::dump_kind::DumpKind;
use floatgate_image::ecc::join::{ChipDump, JoinFound, StripeUnit, Striping, find, halves, join};
use floatgate_image::ecc::{EccError, Form, Layout, PageGeometry, Scheme, encode};
use floatgate_mtd::random::Random;
use floatgate_stack::ubifs::FormatOptions;
use std::fs::File;
use std::io::{Read, Seek, Write};

const BLOCK: usize = 64 * 2048;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).take(len).collect()
}

/// A UBI with a UBIFS, in a whole number of blocks of both chips.
fn image() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("root")).unwrap();
    std::fs::write(folder.path().join("root/file"), noise(1, 500_000)).unwrap();
    let options = BuildOptions {
        shape: FlashShape::of_nand(2048, 64, 64),
        container: Container::Ubi { name: "rootfs".to_owned(), autoresize: false, image_seq: None },
        format: FormatOptions::default(),
        uuid: None,
        volume_bytes: None,
        overrides: Overrides::default(),
        device_table: None,
    };
    let mut out = tempfile::tempfile().unwrap();
    build(&Source::Directory(folder.path().join("root")), out.try_clone().unwrap(), &options).unwrap();
    let mut bytes = Vec::new();
    out.rewind().unwrap();
    out.read_to_end(&mut bytes).unwrap();
    bytes.resize(bytes.len().next_multiple_of(2 * BLOCK), 0xFF);
    bytes
}

/// Parts of a dump for two chips, alternately.
fn split(bytes: &[u8], unit: usize) -> [Vec<u8>; 2] {
    [0, 1].map(|chip| bytes.chunks(unit).skip(chip).step_by(2).flatten().copied().collect())
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn found(dumps: &[Vec<u8>; 2], geometry: Option<&PageGeometry>) -> Result<(JoinFound, Vec<u8>), EccError> {
    let files = dumps.each_ref().map(|dump| file(dump));
    let both = [0, 1].map(|at| ChipDump::new(&files[at], 0, dumps[at].len() as u64));
    let found = find(both, geometry)?;
    let mut out = Vec::new();
    join(both, found.striping, &mut out, &mut |_| ())?;
    Ok((found, out))
}

fn encoded(page: u32, oob: u32, layout: &str, data: &[u8]) -> Vec<u8> {
    let geometry = PageGeometry::new(page, oob, None).unwrap();
    let scheme = Scheme::new(geometry, "bch8/512".parse().unwrap(), Layout::named(layout).unwrap()).unwrap();
    let mut out = Vec::new();
    encode(&scheme, Form::WithOob, &mut &data[..], &mut out, &mut |_| ()).unwrap();
    out
}

#[test]
fn the_order_of_data_is_found_by_its_structures() {
    let image = image();
    for (stripe, unit) in [
        (StripeUnit::Byte, 1),
        (StripeUnit::Word, 2),
        (StripeUnit::Page, 2048),
        (StripeUnit::Block, BLOCK),
        (StripeUnit::Chip, image.len() / 2),
    ] {
        for first in [1, 2] {
            let [one, other] = split(&image, unit);
            let dumps = if first == 1 { [one, other] } else { [other, one] };
            let (found, joined) = found(&dumps, None).unwrap();
            // Either chip may be the first where one follows the other.
            let first = if stripe == StripeUnit::Chip { 1 } else { first };
            assert_eq!(found.striping, Striping::of_chips(stripe, unit as u64, first), "{found:?}");
            assert!(found.confidence > 0.99, "{found:?}");
            assert!(joined == image || stripe == StripeUnit::Chip, "{stripe:?}");
        }
    }
}

#[test]
fn the_order_of_pages_with_oob_is_found() {
    let image = image();
    let geometry = PageGeometry::new(2048, 64, Some(64)).unwrap();
    let raw = encoded(2048, 64, "omap-bch8", &image);
    let (order, joined) = found(&split(&raw, 2112), Some(&geometry)).unwrap();
    assert_eq!(order.striping, Striping::of_chips(StripeUnit::Page, 2112, 1), "{order:?}");
    assert!(joined == raw);
    // Without structures the ECC of pages in both chips tells that bytes alternate.
    let raw = encoded(4096, 128, "gpmi", &noise(5, 4096 * 40));
    let [one, other] = split(&raw, 1);
    let (order, joined) = found(&[other, one], Some(&geometry)).unwrap();
    assert_eq!(order.striping, Striping::of_chips(StripeUnit::Byte, 1, 2), "{order:?}");
    assert!(joined == raw && order.confidence > 0.99);
}

#[test]
fn dumps_that_tell_no_order_are_refused() {
    let dumps = [1, 2].map(|seed| noise(seed, 300_000));
    assert!(matches!(found(&dumps, None), Err(EccError::NoOrder { tried: 10.. })));
    assert!(matches!(found(&[Vec::new(), Vec::new()], None), Err(EccError::NoOrder { .. })));
    // A block of one chip alone, twice: any order of blocks leaves what is in it whole.
    let image = image();
    let one = image[2 * BLOCK..3 * BLOCK].to_vec();
    let again = found(&[one.clone(), one], None);
    assert!(
        matches!(again, Err(EccError::Repeats { structures: 2, twice: 2 })),
        "{:?}",
        again.map(|(order, _)| order)
    );
    // Two dumps of one chip, and halves of which one is whole alone and the other is not.
    for unit in [1, 2048, BLOCK] {
        let [one, _] = split(&image, unit);
        let again = found(&[one.clone(), one], None);
        assert!(
            matches!(again, Err(EccError::SameChip { .. })),
            "{unit}: {:?}",
            again.map(|(order, _)| order)
        );
    }
    // A chip that is nearly empty: too few pages to compare, and the headers of its LEBs tell.
    let sparse = [image[..2 * BLOCK].to_vec(), vec![0xFF; 6 * BLOCK]].concat();
    let again = found(&[sparse.clone(), sparse], None);
    assert!(
        matches!(again, Err(EccError::Repeats { structures: 2, twice: 2 })),
        "{:?}",
        again.map(|(order, _)| order)
    );
    let [[whole, _], [_, halved]] = [BLOCK, 2048].map(|unit| split(&image, unit));
    let mixed = found(&[whole, halved], None);
    assert!(matches!(mixed, Err(EccError::NoOrder { .. })), "{:?}", mixed.map(|(order, _)| order));
}

/// A dump of a chip whose pages alternate between two planes has the blocks of the planes in turn.
#[test]
fn planes_of_one_chip_are_found() {
    let image = image();
    for (unit, block) in [(2048, BLOCK), (4096, 64 * 4096)] {
        let image =
            [image.clone(), vec![0xFF; image.len().next_multiple_of(2 * block) - image.len()]].concat();
        let [one, other] = split(&image, unit);
        let dump: Vec<u8> = one
            .chunks(block)
            .zip(other.chunks(block))
            .flat_map(|(one, other)| [one, other].concat())
            .collect();
        let dump_file = file(&dump);
        let halves = halves(&dump_file).unwrap();
        let found = find(halves, None).unwrap();
        let wanted = Striping {
            stripe: StripeUnit::Plane,
            block_bytes: Some(block as u64),
            ..Striping::of_chips(StripeUnit::Page, unit as u64, 1)
        };
        assert_eq!(found.striping, wanted, "{found:?}");
        let mut joined = Vec::new();
        join(halves, found.striping, &mut joined, &mut |_| ()).unwrap();
        assert!(joined == image, "{unit}");
    }
}

/// Blocks that no window holds twice are told by the numbers at their beginnings.
#[test]
fn blocks_above_two_mebibytes_alternate() {
    use floatgate_image::ubinize::{Headers, parse, ubinize};
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("image")).unwrap().set_len(28 << 20).unwrap();
    let block = 4 << 20;
    let shape = FlashShape::of_nand(16384, 256, 40);
    let ini = "[a]\nmode=ubi\nimage=image\nvol_id=0\nvol_type=static\nvol_name=data\n";
    let volumes = parse(ini, &folder.path().join("ini")).unwrap();
    let headers = Headers { geometry: shape.ubi().unwrap(), image_seq: 1, erase_count: 0 };
    let mut image = Vec::new();
    ubinize(&shape, &headers, &volumes, &mut image).unwrap();
    image.resize(image.len().next_multiple_of(2 * block), 0xFF);
    let [one, other] = split(&image, block);
    let (found, joined) = found(&[other, one], None).unwrap();
    assert_eq!(found.striping, Striping::of_chips(StripeUnit::Block, block as u64, 2), "{found:?}");
    assert!(joined == image);
}

#[test]
fn data_and_oob_that_alternate_are_not_smaller_pages() {
    for (layout, code) in [("mtk-snfi", "bch4/512"), ("gpmi", "bch8/512")] {
        let geometry = PageGeometry::new(2048, 64, None).unwrap();
        let layout_of = Layout::named(layout).unwrap();
        let scheme = Scheme::new(geometry, code.parse().unwrap(), layout_of).unwrap();
        let mut dump = tempfile::NamedTempFile::new().unwrap();
        encode(&scheme, Form::WithOob, &mut &image()[..], dump.as_file_mut(), &mut |_| ()).unwrap();
        let kind = DumpKind::of(dump.path()).unwrap();
        assert_eq!((kind.page_bytes, kind.oob_bytes), (Some(2048), Some(64)), "{layout}: {kind:?}");
    }
}

/// The chip with the odd pages begins with no structure: pages with OOB are found although nothing told them.
#[test]
fn pages_with_oob_are_found_without_their_sizes() {
    let raw = encoded(2048, 64, "omap-bch8", &image());
    let [even, odd] = split(&raw, 2112);
    let (order, joined) = found(&[odd, even], None).unwrap();
    let wanted = Striping::of_chips(StripeUnit::Page, 2112, 2);
    assert_eq!((order.striping, order.broken), (wanted, 0), "{order:?}");
    assert_eq!(order.geometry.map(|geometry| geometry.oob_bytes), Some(64));
    assert!(joined == raw);
}

//! Page sizes of dumps with OOB: detected from their contents, or stated.

use floatgate_mtd::random::Random;
use floatgate_stack::fs::{NewFile, NewKind};

use super::*;
use crate::detect::{Content, ImageLocation, PageShape, detect};
use crate::ecc::{self, Code, PageGeometry, Scheme};
use crate::info::info;
use crate::{FlashSizes, ImageError, PageSizes};

/// Sizes of page and OOB, and number of pages in a block.
type Sizes = (u32, u32, u32);

/// Sizes in Linux's table of NAND IDs (drivers/mtd/nand/raw/nand_ids.c): small pages; IDs with the sizes in the
/// table; IDs whose extra bytes contain them, as the decoders of their makers read these; and sizes of SPI NAND
/// (drivers/mtd/nand/spi).
const SIZES: [Sizes; 34] = [
    (512, 16, 16),
    (512, 16, 32),
    (1024, 32, 64),
    (1024, 32, 128),
    (2048, 64, 32),
    (2048, 64, 64),
    (2048, 64, 128),
    (2048, 64, 256),
    (2048, 96, 64),
    (2048, 112, 64),
    (2048, 128, 64),
    (2048, 128, 128),
    (4096, 64, 64),
    (4096, 128, 64),
    (4096, 128, 128),
    (4096, 208, 64),
    (4096, 218, 128),
    (4096, 224, 64),
    (4096, 224, 128),
    (4096, 232, 64),
    (4096, 256, 64),
    (4096, 256, 128),
    (4096, 256, 256),
    (8192, 256, 64),
    (8192, 400, 128),
    (8192, 436, 128),
    (8192, 448, 64),
    (8192, 448, 256),
    (8192, 512, 128),
    (8192, 640, 128),
    (8192, 640, 256),
    (8192, 744, 256),
    (16384, 1280, 256),
    (16384, 1664, 256),
];

/// Size of the largest block of dumps with a UBIFS here, bytes.
const LARGE: u32 = 128 << 10;

fn flash_of((page, oob, pages): Sizes, sub_page: u32, blocks: u32) -> Geometry {
    let erase_bytes = page * pages;
    Geometry {
        size_bytes: u64::from(blocks) * u64::from(erase_bytes),
        erase_bytes,
        write_bytes: page,
        buffer_bytes: page,
        sub_page_bytes: sub_page,
        oob_bytes: oob,
        ..Geometry::nand_4096(blocks)
    }
}

/// Strongest usual code that fits the OOB.
fn scheme((page, oob, pages): Sizes) -> Scheme {
    let geometry = PageGeometry::new(page, oob, Some(pages)).unwrap();
    let codes = ["bch40/1024", "bch24/1024", "bch8/512", "bch4/512", "hamming/256"];
    let scheme = |code: &&str| Scheme::linux(geometry.clone(), code.parse::<Code>().unwrap()).ok();
    codes.iter().find_map(scheme).unwrap()
}

fn encoded(scheme: &Scheme, image: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ecc::encode(scheme, ecc::Form::WithOob, &mut &image[..], &mut out, &mut |_| {}).unwrap();
    out
}

/// Pages of an image with erased OOB.
fn without_ecc(image: &[u8], (page, oob, _): Sizes) -> Vec<u8> {
    let oob = vec![0xFF; oob as usize];
    image.chunks(page as usize).flat_map(|page| [page, &oob]).flatten().copied().collect()
}

/// Device with a volume, up to the first free PEB: with a UBIFS, or with other data if a UBIFS would be large.
fn image(sizes: Sizes, sub_page: u32) -> Vec<u8> {
    let peb = sizes.0 * sizes.2;
    let is_large = !(16 << 10..=LARGE).contains(&peb);
    let geometry = flash_of(sizes, sub_page, if is_large { 10 } else { 64 });
    let mut random = Random::new(peb.into());
    let bytes = device(&geometry, 7, |ubi| {
        let id = ubi.create_volume(&NewVolume::dynamic("root", if is_large { 2 } else { 40 })).unwrap();
        let data: Vec<u8> = (0..4000).map(|_| random.bits() as u8).collect();
        let whole = data.len() / sizes.0 as usize * sizes.0 as usize;
        if is_large && whole > 0 {
            ubi.write_leb(id, 1, 0, &data[..whole]).unwrap();
        }
    });
    let bytes = match is_large {
        true => bytes,
        false => format(bytes, &geometry, 0, true, |fs| {
            let file = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
            let file = fs.create(fs.root(), b"file", &file).unwrap();
            fs.write(file, 0, &vec![0x5A; 9000]).unwrap();
        }),
    };
    let bytes = in_order(&bytes, &geometry);
    let used = bytes.chunks(peb as usize).take_while(|peb| vid_header(peb).is_some()).count();
    bytes[..(used + 1) * peb as usize].to_vec()
}

fn shape_of(image: &Image) -> PageShape {
    image.corrected.as_ref().expect("the dump has OOB").pages
}

const fn shape((page_bytes, oob_bytes, pages_per_block): Sizes) -> PageShape {
    PageShape { page_bytes, oob_bytes, pages_per_block }
}

#[test]
fn dumps_of_all_geometries_that_linux_knows_are_recognised() {
    for sizes in SIZES {
        let plain = image(sizes, sizes.0);
        let scheme = scheme(sizes);
        let mut dump = encoded(&scheme, &plain);
        // One bitflip in every third page with data.
        let full = (sizes.0 + sizes.1) as usize;
        for page in dump.chunks_exact_mut(full).step_by(3).filter(|page| page[..full] != vec![0xFF; full]) {
            page[100] ^= 4;
        }
        for dump in [&dump, &without_ecc(&plain, sizes)] {
            let found = detect(&mut dump.clone()).unwrap();
            let [ImageLocation { content: Content::Ubi(_), pages: Some(pages), .. }] = &found[..] else {
                panic!("{sizes:?}: {found:#?}")
            };
            assert_eq!(*pages, shape(sizes));
        }
        // The ECC works in the same way for all sizes, and large blocks take long.
        if sizes.0 * sizes.2 > 4 * LARGE {
            continue;
        }
        let opened = open(&dump);
        assert_eq!(shape_of(&opened), shape(sizes), "{sizes:?}");
        let codes: Vec<_> =
            opened.corrected.as_ref().unwrap().reports().map(|r| r.scheme.code.clone()).collect();
        assert_eq!(codes, [scheme.code().to_string()], "{sizes:?}");
        let described = info(&opened).unwrap();
        let ubi = described.images[0].ubi.as_ref().unwrap();
        assert_eq!((described.images.len(), ubi.volumes.len(), ubi.corrupted_pebs), (1, 1, 0), "{sizes:?}");
        let mut corrected = vec![0; plain.len()];
        opened.store().unwrap().read_at(0, &mut corrected).unwrap();
        assert!(corrected == plain, "{sizes:?}");
        let (page, oob, pages) = sizes;
        let command = format!("--page-size {page} --oob-size {oob} --block-pages {pages} --code none");
        assert!(described.to_string().contains(&command), "{described}");
    }
}

/// With sub-pages, the VID header is in the first page of any size.
#[test]
fn pages_are_recognised_where_headers_are_in_sub_pages() {
    for (sizes, sub_page) in
        [((2048, 64, 64), 512), ((2048, 64, 128), 512), ((4096, 128, 64), 1024), ((512, 16, 32), 256)]
    {
        let plain = image(sizes, sub_page);
        for dump in [encoded(&scheme(sizes), &plain), without_ecc(&plain, sizes)] {
            let opened = open(&dump);
            assert_eq!(shape_of(&opened), shape(sizes));
            assert_eq!(info(&opened).unwrap().images[0].damage, None);
        }
    }
}

/// A dump with one PEB, in which nothing shows the page size.
#[test]
fn stated_pages_are_taken() {
    let sizes = (4096, 224, 64);
    let plain = image(sizes, 4096);
    let dump = encoded(&scheme(sizes), &plain);
    let path = tempfile::NamedTempFile::new().unwrap();
    let opened = |bytes: &[u8], (page, oob, pages): (u32, u32, Option<u32>)| {
        std::fs::write(path.path(), bytes).unwrap();
        let pages = PageSizes { page_bytes: Some(page), oob_bytes: Some(oob), pages_per_block: pages };
        Image::open_sized(path.path(), Access::Read, FlashSizes { peb_bytes: None, pages })
    };
    for pages in [None, Some(64)] {
        assert_eq!(shape_of(&opened(&dump, (4096, 224, pages)).unwrap()), shape(sizes));
    }
    let block = 64 * 4320;
    let one = opened(&dump[..block], (4096, 224, None)).unwrap();
    assert_eq!(shape_of(&one), shape(sizes));
    // A file without OOB is read unchanged.
    assert!(opened(&plain, (4096, 224, None)).unwrap().corrected.is_none());
    let mut random = Random::new(1);
    let noise: Vec<u8> = (0..block).map(|_| random.bits() as u8).collect();
    let error = opened(&noise, (2048, 64, Some(64))).map(|_| ()).unwrap_err();
    assert!(matches!(error, ImageError::NothingInPages(PageShape { page_bytes: 2048, .. })), "{error}");
    let impossible = opened(&dump, (4096, u32::MAX, None)).map(|_| ()).unwrap_err();
    assert!(matches!(impossible, ImageError::Ecc(_)), "{impossible}");
}

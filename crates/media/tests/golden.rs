//! Broken inputs and the error that each has to produce.
//!
//! `golden/<parser>/<case>.hex` contains the bytes, `<case>.txt` the error. With `GOLDEN=write` in
//! the environment, the test writes the errors.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::hex;
use floatgate_media::cfi::{self, BusView};
use floatgate_media::onfi::OnfiExtendedPage;
use floatgate_media::ubi::{self, EcHeader, Fastmap, Flash, ReadFlips, VidHeader, VolumeTable};
use floatgate_media::ubifs::lpt::{Ltab, Nnode, Pnode};
use floatgate_media::ubifs::{Frame, Limits, Node};
use floatgate_media::{MediaError, jedec, nand_id, onfi, sfdp};

/// Superblock of the image from which the broken nodes were made, see `samples/README.md`.
const SUPERBLOCK: &[u8] = include_bytes!("samples/ubifs_node/superblock.bin");

/// Bit errors of a reader whose ECC leaves up to four flips in an erased page.
const FLIPS: ReadFlips = ReadFlips { corrected: 0, tolerated: 4 };

/// NOR flash with PEBs of `peb_bytes`.
fn nor(peb_bytes: u32) -> ubi::Geometry {
    ubi::Geometry::new(Flash::without_sub_pages(peb_bytes, 1)).unwrap()
}

fn limits() -> Limits {
    let Ok(Node::Superblock(superblock)) = Frame::parse(SUPERBLOCK).unwrap().node() else {
        panic!("no superblock")
    };
    Limits::new(&superblock.grown(60)).unwrap()
}

/// Result of the parser that belongs to a folder.
fn run(parser: &str, bytes: &[u8]) -> Result<(), MediaError> {
    match parser {
        "onfi" => onfi::parse(bytes).map(drop_value),
        "onfi_copies" => onfi::parse_copies(bytes).map(drop_value),
        "onfi_extended" => OnfiExtendedPage::parse(bytes).map(drop_value),
        "jedec" => jedec::parse(bytes).map(drop_value),
        "sfdp" => sfdp::parse(bytes).map(drop_value),
        "cfi" => cfi::parse(bytes, BusView::X8).map(drop_value),
        "cfi_x16" => cfi::parse(bytes, BusView::X16).map(drop_value),
        "nand_id" => nand_id::parse(bytes).map(drop_value),
        "ubi_ec" => EcHeader::parse(bytes, FLIPS)?.check(&nor(2048)),
        "ubi_vid" => VidHeader::parse(bytes, FLIPS)?.check(&nor(2048)),
        "ubi_volume_table" => VolumeTable::parse(bytes, &nor(512), 10).map(drop_value),
        "ubi_fastmap" => Fastmap::parse(bytes).map(drop_value),
        "ubifs_node" => Frame::parse(bytes)?.node()?.check(&limits()),
        "lpt_pnode" => Pnode::parse(bytes, &limits().lpt_geometry)?.check(&limits().lpt_geometry, 0),
        "lpt_nnode" => Nnode::parse(bytes, &limits().lpt_geometry)?.check(&limits().lpt_geometry, 1, 1),
        "lpt_ltab" => Ltab::parse(bytes, &limits().lpt_geometry).map(drop_value),
        other => panic!("no parser {other}"),
    }
}

fn drop_value<T>(_: T) {}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn broken_inputs_give_their_errors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let write = std::env::var_os("GOLDEN").is_some_and(|value| value == "write");
    let mut cases = 0;
    for folder in sorted(&root) {
        let parser = folder.file_name().unwrap().to_str().unwrap().to_owned();
        for path in sorted(&folder) {
            if path.extension().is_none_or(|extension| extension != "hex") {
                continue;
            }
            let bytes = hex(&fs::read_to_string(&path).unwrap());
            let error = run(&parser, &bytes).expect_err(path.to_str().unwrap()).to_string();
            let expected = path.with_extension("txt");
            if write {
                fs::write(&expected, format!("{error}\n")).unwrap();
            }
            assert_eq!(error, fs::read_to_string(&expected).unwrap().trim_end(), "{path:?}");
            cases += 1;
        }
    }
    assert!(cases >= 150, "{cases} cases");
}

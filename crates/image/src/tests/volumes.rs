//! Volumes without a filesystem.

use super::*;
use crate::extract::Extractions;

fn extracted(bytes: &[u8], selection: &Selection) -> (Memory, Extracted) {
    let extractions = Extractions::open(&open(bytes), selection).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::default();
    let extracted = extractions.run(&mut memory, &ExtractLimits::default(), &|_| {}).unwrap();
    (memory, extracted)
}

#[test]
fn a_volume_alone_without_a_filesystem_is_extracted_as_a_file() {
    let geometry = Geometry::nand_512(220);
    let kernel: Vec<u8> = (0..70_000).map(|at| (at % 251) as u8).collect();
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::fixed("kernel", 10)).unwrap();
        let mut update = ubi.update_volume(0, kernel.len() as u64).unwrap();
        update.write(&kernel).unwrap();
        update.finish().unwrap();
    });
    let named = Selection { volume: Some("kernel".to_owned()), ..Selection::default() };
    for selection in [Selection::default(), named] {
        let (memory, extracted) = extracted(&bytes, &selection);
        assert_eq!(extracted.losses, []);
        assert!(memory.files["/kernel.img"].data == kernel);
    }
}

#[test]
fn a_damaged_filesystem_alone_is_extracted_as_files() {
    let geometry = Geometry::nand_512(220);
    let mut bytes = usual(&geometry);
    // The superblock is in the third PEB.
    bytes[2 * geometry.erase_bytes as usize + 512..][..4096].fill(0);
    let (memory, extracted) = extracted(&bytes, &Selection::default());
    assert!(!extracted.losses.is_empty() && memory.files.contains_key("/dir-1/file-9000"));
}

//! Partition tables and boot sectors; a first bit of 1 mends the signatures and checksums.

#![no_main]

use floatgate_media::disk::exfat::ExfatBoot;
use floatgate_media::disk::fat::FatBoot;
use floatgate_media::disk::gpt::GptHeader;
use floatgate_media::disk::mbr::Mbr;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if mode & 1 == 1 && bytes.len() >= 512 {
        bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
    }
    if let Ok(mbr) = Mbr::parse(&bytes) {
        assert_eq!(Mbr::parse(&mbr.emit()), Ok(mbr));
    }
    if let Ok(boot) = FatBoot::parse(&bytes) {
        let layout = boot.layout();
        assert!(layout.fat_start < layout.fat_end && layout.fat_end <= layout.data_start);
        assert_eq!(FatBoot::parse(&boot.emit()), Ok(boot));
    }
    if let Ok(boot) = ExfatBoot::parse(&bytes) {
        let layout = boot.layout();
        assert!(layout.fat_start < layout.fat_end && layout.fat_end <= layout.data_start);
        assert_eq!(ExfatBoot::parse(&boot.emit_region()), Ok(boot));
    }
    let (head, array) = bytes.split_at(bytes.len().min(512));
    let header = if mode & 1 == 1 && head.len() == 512 {
        let header = GptHeader { entries: 4, entry_bytes: 128, ..GptHeader::default() };
        GptHeader::parse(&header.emit(array))
    } else {
        GptHeader::parse(head)
    };
    if let Ok(header) = header
        && let Ok(used) = header.used(array)
    {
        for (_, entry) in used {
            let _ = entry.sectors();
        }
    }
});

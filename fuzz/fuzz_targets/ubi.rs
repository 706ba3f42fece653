//! UBI structures; what is read writes and reads the same again. As it is, and with CRCs mended.

#![no_main]

use floatgate_media::crc;
use floatgate_media::ubi::{EcHeader, Fastmap, Flash, Geometry, PebList, ReadFlips, VidHeader, VolumeTable};
use libfuzzer_sys::fuzz_target;

const RECORD_BYTES: usize = 172;
const LISTS: [PebList; 4] = [PebList::Free, PebList::Used, PebList::Scrub, PebList::Erase];

/// Places of NOR flash with PEBs of 2 KiB, which the larger seed is an image of.
const PLACES: [usize; 3] = [0, 64, 128];

fuzz_target!(|data: &[u8]| {
    let Ok(geometry) = Geometry::new(Flash::without_sub_pages(2048, 1)) else { return };
    for place in PLACES {
        let bytes = data.get(place..).unwrap_or(&[]);
        for mend in [false, true] {
            headers(bytes, mend, &geometry);
            table(bytes, mend, &geometry);
            fastmap(bytes, mend);
        }
    }
});

fn headers(bytes: &[u8], mend: bool, geometry: &Geometry) {
    let flips = ReadFlips { corrected: 0, tolerated: 4 };
    let mut bytes = bytes.to_vec();
    if let Some(header) = bytes.get_mut(..64).filter(|_| mend) {
        seal(header);
    }
    if let Ok(header) = EcHeader::parse(&bytes, flips) {
        let _ = header.check(geometry);
        assert_eq!(EcHeader::parse(&header.emit(), flips), Ok(header));
    }
    if let Ok(header) = VidHeader::parse(&bytes, flips) {
        let _ = header.check(geometry);
        assert_eq!(VidHeader::parse(&header.emit(), flips), Ok(header));
    }
}

/// Ends a structure in the CRC of what stands before.
fn seal(bytes: &mut [u8]) {
    let (body, end) = bytes.split_at_mut(bytes.len() - 4);
    end.copy_from_slice(&crc::ubi(body).to_be_bytes());
}

fn table(bytes: &[u8], mend: bool, geometry: &Geometry) {
    let mut bytes = bytes.to_vec();
    if mend {
        bytes.resize(geometry.volume_table_bytes(), 0);
        bytes.chunks_exact_mut(RECORD_BYTES).for_each(seal);
    }
    if let Ok(table) = VolumeTable::parse(&bytes, geometry, 1000) {
        let mut out = vec![0; geometry.volume_table_bytes()];
        VolumeTable::emit(table.volumes(), geometry, &mut out).unwrap();
        let again = VolumeTable::parse(&out, geometry, 1000).unwrap();
        assert!(again.volumes().eq(table.volumes()));
    }
}

fn fastmap(bytes: &[u8], mend: bool) {
    let mut bytes = bytes.to_vec();
    if mend && bytes.len() > 12 {
        bytes[8..12].fill(0);
        let sum = crc::ubi(&bytes);
        bytes[8..12].copy_from_slice(&sum.to_be_bytes());
    }
    let Ok(map) = Fastmap::parse(&bytes) else { return };
    assert!(map.pool.pebs().len() <= 256 && map.wl_pool.pebs().len() <= 256);
    let listed: usize = LISTS.iter().map(|list| map.pebs(*list).len()).sum();
    let mapped: usize = map.volumes().map(|map| map.pnums().count()).sum();
    assert!(8 * listed + 4 * mapped < bytes.len());
}

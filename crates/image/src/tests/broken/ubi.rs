//! Damage of the whole file, and of UBI.

use super::sample::{PEB, put_big};
use super::*;
use floatgate_mtd::random::Random;

/// Offset after the first PEBs: the volume table has two.
const FIRST_PEB: usize = 2 * PEB;

pub(super) const DAMAGES: &[Damage] = &[
    clean("file-empty", "a file without a byte", |image| image.bytes.clear()),
    clean("file-of-zeros", "64 KiB of zeros", |image| image.bytes = vec![0; 1 << 16]),
    clean("file-of-ones", "64 KiB of 0xFF", |image| image.bytes = vec![0xFF; 1 << 16]),
    clean("file-of-noise", "64 KiB of random bytes", |image| image.bytes = noise(1 << 16)),
    clean("file-of-one-header", "the first 64 bytes, an EC header", |image| image.bytes.truncate(64)),
    clean("cut-in-first-ec-header", "the first 30 bytes", |image| image.bytes.truncate(30)),
    clean("cut-in-first-peb", "the first 5000 bytes", |image| image.bytes.truncate(5000)),
    clean("cut-in-ec-header", "cut off 30 bytes into the PEB with the data of files", |image| {
        let peb = image.data_peb();
        image.bytes.truncate(peb + 30);
    }),
    clean("cut-in-peb", "cut off in the middle of the PEB with the data of files", |image| {
        let peb = image.data_peb();
        image.bytes.truncate(peb + PEB / 2);
    }),
    clean("begins-late", "the first 1000 bytes are missing", |image| drop(image.bytes.drain(..1000))),
    clean("image-inside-an-image", "an image as the contents of a static volume of another one", |image| {
        image.bytes = around(&image.bytes);
    }),
    clean("image-twice", "the image twice, with 777 bytes of noise between", |image| {
        let second = image.bytes.clone();
        image.bytes.extend(noise(777));
        image.bytes.extend(second);
    }),
    clean("ec-crc", "a wrong bit in an EC header", |image| image.hit(image.data_peb() + 9)),
    clean("ec-magic", "an EC header with another magic", |image| image.hit(image.data_peb())),
    clean("ec-zeros", "zeros instead of an EC header", |image| {
        let peb = image.data_peb();
        image.bytes[peb..peb + 64].fill(0);
    }),
    clean("ec-erased", "an EC header was never written, but what follows it", |image| {
        let peb = image.data_peb();
        image.bytes[peb..peb + 64].fill(0xFF);
    }),
    clean("ec-all-crc", "a wrong bit in every EC header", |image| {
        (0..image.bytes.len()).step_by(PEB).for_each(|peb| image.hit(peb + 9));
    }),
    clean("ec-version", "an EC header of version 2", |image| image.ec(image.data_peb(), |ec| ec[4] = 2)),
    clean("ec-counter", "an erase counter of 2^63", |image| image.ec(image.data_peb(), |ec| ec[8] = 0x80)),
    clean("ec-image-seq", "an EC header of another image", |image| {
        image.ec(image.data_peb(), |ec| put_big(ec, 24, 99));
    }),
    clean("ec-vid-offset", "an EC header says that the VID header is at byte 300", |image| {
        image.ec(image.data_peb(), |ec| put_big(ec, 16, 300));
    }),
    clean("ec-all-vid-offset", "every EC header says that the VID header is at byte 2^31", |image| {
        for peb in (0..image.bytes.len()).step_by(PEB).collect::<Vec<_>>() {
            if vid_header(&image.bytes[peb..]).is_some() {
                image.ec(peb, |ec| put_big(ec, 16, 1 << 31));
            }
        }
    }),
    clean("vid-crc", "a wrong bit in a VID header", |image| image.hit(image.data_peb() + 256 + 20)),
    clean("vid-magic", "a VID header with another magic", |image| image.hit(image.data_peb() + 256)),
    clean("vid-zeros", "zeros instead of a VID header", |image| {
        let at = image.data_peb() + 256;
        image.bytes[at..at + 64].fill(0);
    }),
    clean("vid-leb", "a LEB with a number behind the end of its volume", |image| {
        image.vid(image.data_peb(), |vid| put_big(vid, 12, 1000));
    }),
    clean("vid-leb-huge", "a LEB with the number 2^31 - 1", |image| {
        image.vid(image.data_peb(), |vid| put_big(vid, 12, i32::MAX as u32));
    }),
    clean("vid-volume", "a LEB of a volume that the table does not have", |image| {
        image.vid(image.data_peb(), |vid| put_big(vid, 8, 77));
    }),
    clean("vid-internal", "a LEB of an unknown internal volume that must not be ignored", |image| {
        image.vid(image.data_peb(), |vid| {
            put_big(vid, 8, 0x7FFF_F0FF);
            vid[7] = 5;
        });
    }),
    clean("vid-static", "a LEB of a dynamic volume says that the volume is static", |image| {
        image.vid(image.data_peb(), |vid| {
            vid[5] = 2;
            put_big(vid, 24, 40);
            put_big(vid, 20, 512);
        });
    }),
    clean("vid-twin", "two PEBs with the same LEB and sequence number", |image| {
        let (from, to) = (image.data_peb(), image.bytes.len() - PEB);
        image.bytes.copy_within(from..from + PEB, to);
        image.hit(to + 600);
    }),
    clean("vid-copy-crc", "a copy of a LEB that was cut off, and its original", |image| {
        let (from, to) = (image.data_peb(), image.bytes.len() - PEB);
        image.bytes.copy_within(from..from + PEB, to);
        image.vid(to, |vid| {
            vid[6] = 1;
            put_big(vid, 20, 4096);
            put_big(vid, 44, 9999);
        });
    }),
    clean("table-first-crc", "a wrong bit in the first copy of the volume table", |image| {
        image.hit(image.table(0) + 512 + 20);
    }),
    clean("table-both-crc", "a wrong bit in both copies of the volume table", |image| {
        (0..2).for_each(|copy| image.hit(image.table(copy) + 512 + 20));
    }),
    clean("table-both-zeros", "zeros instead of both copies of the volume table", |image| {
        for table in [image.table(0), image.table(1)] {
            image.bytes[table + 512..table + 4096].fill(0);
        }
    }),
    clean("table-first-missing", "the PEB of the first copy of the volume table is erased", |image| {
        image.erase(image.table(0));
    }),
    clean("table-both-missing", "the PEBs of both copies of the volume table are erased", |image| {
        (0..2).for_each(|copy| image.erase(image.table(copy)));
    }),
    clean("table-differs", "the copies of the volume table are of different states", |image| {
        let whole = image.clone();
        image.record(0, |record| record[16] = b'R');
        let (from, second) = (whole.table(1) + 512, image.table(1) + 512);
        image.bytes[second..second + 172].copy_from_slice(&whole.bytes[from..from + 172]);
    }),
    clean("table-huge", "a volume of 2^30 LEBs", |image| {
        image.record(0, |record| put_big(record, 0, 1 << 30))
    }),
    clean("table-alignment", "a volume with alignment 0", |image| {
        image.record(0, |record| put_big(record, 4, 0));
    }),
    clean("table-name-length", "a volume whose name is said to have 200 bytes", |image| {
        image.record(0, |record| record[14..16].copy_from_slice(&200u16.to_be_bytes()));
    }),
    clean("table-name", "a volume whose name has a zero, a newline and an escape in it", |image| {
        image.record(0, |record| record[16..20].copy_from_slice(b"r\0\n\x1b"));
    }),
    clean("table-same-names", "two volumes of the same name", |image| {
        for copy in 0..2 {
            let at = image.table(copy) + 512;
            image.bytes.copy_within(at..at + 172, at + 172);
        }
        image.record(1, |record| put_big(record, 0, 3));
    }),
    clean("table-update", "an update of the volume was cut off", |image| {
        image.record(0, |record| record[13] = 1);
    }),
    clean("table-type", "a volume of an unknown type", |image| image.record(0, |record| record[12] = 9)),
    clean("peb-zeros", "zeros in a whole PEB", |image| {
        let peb = image.data_peb();
        image.bytes[peb..peb + PEB].fill(0);
    }),
    clean("peb-missing-first", "the first PEB behind the volume table is cut out", |image| {
        drop(image.bytes.drain(FIRST_PEB..FIRST_PEB + PEB));
    }),
];

fn noise(len: usize) -> Vec<u8> {
    let mut random = Random::new(5);
    (0..len).map(|_| random.bits() as u8).collect()
}

/// Device with a static volume that contains these bytes.
fn around(bytes: &[u8]) -> Vec<u8> {
    let geometry = Geometry::nand_2048(24);
    device(&geometry, 3, |ubi| {
        let id = ubi.create_volume(&NewVolume::fixed("outer", 10)).unwrap();
        let mut update = ubi.update_volume(id, bytes.len() as u64).unwrap();
        update.write(bytes).unwrap();
        update.finish().unwrap();
    })
}

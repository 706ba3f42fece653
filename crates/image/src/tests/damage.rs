//! Tests of damage: undamaged data is restored, and lost data is listed.

use floatgate_media::ubifs::Frame;
use floatgate_mtd::random::Random;

use super::tree::ExtractedFile;
use super::*;

/// Checks that each difference is listed, either itself or with a directory above it.
pub(super) fn assert_lists_all(whole: &Memory, found: &Memory, extracted: &Extracted) {
    // Data of the journal, and files below a lost name of the root, may be at any position.
    let at_root = extracted.losses.iter().filter(|loss| loss.path == "/");
    let anywhere = at_root.clone().any(|loss| loss.what.contains("journal") || loss.what.contains("entry"));
    let listed = |path: &str| {
        if anywhere {
            return true;
        }
        let mut at = path;
        loop {
            if extracted.losses.iter().any(|loss| loss.path == at) {
                return true;
            }
            match at.rfind('/') {
                Some(cut) if cut > 0 => at = &at[..cut],
                _ => return false,
            }
        }
    };
    for (path, kept) in &whole.files {
        let is_whole = found.files.get(path) == Some(kept);
        let first: Vec<_> = extracted.losses.iter().take(8).collect();
        let (found, kept) = (found.files.get(path), kept);
        let short = |kept: &ExtractedFile| ExtractedFile { data: Vec::new(), ..kept.clone() };
        assert!(
            is_whole || listed(path),
            "{path} is not restored, and not listed: {:?} for {:?}, {first:?}",
            found.map(short),
            short(kept)
        );
    }
}

fn small() -> Geometry {
    Geometry::nand_512(220)
}

/// Kind of a node of the image, with its offset in the file.
struct Node {
    at: usize,
    len: usize,
    node_type: u8,
    lnum: u32,
}

/// All nodes of the volume, in the order of their positions.
fn nodes(image: &[u8], geometry: &Geometry) -> Vec<Node> {
    let peb = geometry.erase_bytes as usize;
    let mut nodes = Vec::new();
    for (number, bytes) in image.chunks(peb).enumerate() {
        let Some(vid) = vid_header(bytes).filter(|vid| !vid.is_internal()) else { continue };
        let mut at = 512;
        while at + 24 <= peb {
            if let Ok(frame) = Frame::parse(&bytes[at..]) {
                let len = frame.as_bytes().len();
                let at_image = number * peb + at;
                nodes.push(Node { at: at_image, len, node_type: bytes[at + 20], lnum: vid.lnum });
                at += len.next_multiple_of(8);
            } else {
                at += 8;
            }
        }
    }
    nodes
}

/// Flips a bit of one node after the other, and reads the image. Data that is not restored must be listed. The test
/// fails if more is lost than one bit can explain.
fn each_node(node_type: u8, every: usize, most_lost: usize) {
    let (geometry, whole) = (small(), expected(1));
    let image = usual(&geometry);
    let all: Vec<Node> =
        nodes(&image, &geometry).into_iter().filter(|node| node.node_type == node_type).collect();
    assert!(!all.is_empty());
    let mut random = Random::new(3);
    for node in all.iter().step_by(every) {
        let mut bytes = image.clone();
        let bit = random.below(node.len as u64 * 8) as usize;
        bytes[node.at + bit / 8] ^= 1 << (bit % 8);
        let (memory, extracted) = read(&bytes, &Selection::default());
        assert_lists_all(&whole, &memory, &extracted);
        let missing = whole.files.iter().filter(|(path, kept)| memory.files.get(*path) != Some(kept)).count();
        assert!(
            missing <= most_lost,
            "LEB {}, byte {bit}: {missing} lost: {:#?}",
            node.lnum,
            extracted.losses
        );
    }
}

#[test]
fn a_damaged_inode_costs_one_file() {
    // A second name of the file also counts.
    each_node(0, 7, 2);
}

#[test]
fn damaged_data_cost_one_file() {
    each_node(1, 11, 2);
}

#[test]
fn a_damaged_entry_costs_a_name() {
    // For a directory, all files below it are found at another position.
    each_node(2, 7, 16);
}

#[test]
fn a_damaged_attribute_costs_the_attribute() {
    each_node(3, 9, 1);
}

#[test]
fn a_damaged_index_node_costs_nothing() {
    each_node(9, 1, 0);
}

#[test]
fn a_damaged_superblock_or_master_node_costs_nothing() {
    each_node(6, 1, 0);
    each_node(7, 1, 0);
}

#[test]
fn both_master_nodes_gone_cost_nothing() {
    let (geometry, whole) = (small(), expected(1));
    let mut image = usual(&geometry);
    for node in nodes(&image, &geometry).iter().filter(|node| node.node_type == 7) {
        image[node.at..node.at + node.len].fill(0x5A);
    }
    let (memory, extracted) = read(&image, &Selection::default());
    assert_lists_all(&whole, &memory, &extracted);
    assert_eq!(memory.files.get("/dir-3/below/file-9000"), whole.files.get("/dir-3/below/file-9000"));
}

#[test]
fn headers_with_a_wrong_bit_cost_nothing() {
    let geometry = small();
    let image = usual(&geometry);
    let peb = geometry.erase_bytes as usize;
    let mut random = Random::new(4);
    let mut bytes = image.clone();
    for start in (0..bytes.len()).step_by(peb) {
        if vid_header(&image[start..start + peb]).is_none() {
            continue;
        }
        // The EC header of some PEBs, the VID header of others.
        let header = if (start / peb).is_multiple_of(3) { 0 } else { 256 };
        bytes[start + header + random.below(64) as usize] ^= 1 << random.below(8);
    }
    assert_whole(&bytes, &Selection::default());
}

#[test]
fn a_lost_volume_table_costs_nothing_but_names() {
    let geometry = small();
    let mut image = usual(&geometry);
    let peb = geometry.erase_bytes as usize;
    for copy in 0..2 {
        image[copy * peb + 512..copy * peb + 700].fill(0);
    }
    assert_whole(&image, &Selection::default());
    image[..2 * peb].fill(0xFF);
    assert_whole(&image, &Selection::default());
}

#[test]
fn a_peb_that_held_nothing_of_the_filesystem_is_no_loss() {
    let geometry = small();
    let image = usual(&geometry);
    let peb = geometry.erase_bytes as usize;
    let free = image.chunks(peb).position(|peb| vid_header(peb).is_none()).unwrap() * peb;
    let zeroed = |at: usize| {
        let mut bytes = image.clone();
        bytes[at..at + peb].fill(0);
        read(&bytes, &Selection::default()).1
    };
    let extracted = zeroed(free);
    assert_eq!((extracted.losses, extracted.notes.len()), (Vec::new(), 1));
    let held = nodes(&image, &geometry).iter().find(|node| node.node_type == 1).unwrap().at / peb * peb;
    let extracted = zeroed(held);
    assert!(extracted.losses.iter().any(|loss| loss.what.contains("cannot be told")), "{extracted:#?}");
}

#[test]
fn shuffled_and_older_pebs_cost_nothing() {
    let geometry = small();
    let image = usual(&geometry);
    let peb = geometry.erase_bytes as usize;
    let mut pebs: Vec<Vec<u8>> = image.chunks(peb).map(<[u8]>::to_vec).collect();
    let used = pebs.iter().filter(|peb| vid_header(peb).is_some()).count();
    // Older and damaged versions of LEBs in unused PEBs.
    for number in 2..6 {
        let mut old = pebs[number].clone();
        let header = vid_header(&old).unwrap();
        let older = VidHeader { sqnum: header.sqnum.saturating_sub(1), ..header };
        old[256..320].copy_from_slice(&older.emit());
        old[2000..4000].fill(0x11);
        if older.sqnum < header.sqnum {
            pebs[used + number] = old;
        }
    }
    let mut random = Random::new(8);
    for at in (1..pebs.len()).rev() {
        pebs.swap(at, random.below(at as u64 + 1) as usize);
    }
    assert_whole(&pebs.concat(), &Selection::default());
}

#[test]
fn a_missing_peb_costs_what_it_held() {
    let (geometry, whole) = (small(), expected(1));
    let image = usual(&geometry);
    let peb = geometry.erase_bytes as usize;
    let used = image.chunks(peb).take_while(|peb| vid_header(peb).is_some()).count();
    for missing in 2..used {
        let mut bytes = image.clone();
        bytes.drain(missing * peb..(missing + 1) * peb);
        let (memory, extracted) = read(&bytes, &Selection::default());
        assert_lists_all(&whole, &memory, &extracted);
    }
}

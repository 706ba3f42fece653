//! Nodes that damage has marked as obsolete: a bit of their type was cleared.

use floatgate_image::Selection;
use floatgate_image::check::{Outcome, check};
use floatgate_media::jffs2::{Dirent, Endian, Header, NodeType};

use super::edited::{KINDS, image};
use super::repaired::{listing, nodes, repaired};
use super::{IMAGES, mounted, open};

/// A copy in which a node is marked.
fn marked(bytes: &[u8], endian: Endian, (at, header): (usize, Header)) -> Vec<u8> {
    let mut marked = bytes.to_vec();
    Header { obsolete: true, ..header }.emit(endian, &mut marked[at..]);
    marked
}

fn is_content(header: &Header) -> bool {
    use NodeType::{Dirent, Inode, Xattr, Xref};
    matches!(header.node_type, Dirent | Inode | Xattr | Xref)
}

/// Asserts that a marked node is damage, that it counts all the same, and that a repair takes the mark away.
fn assert_counts(name: &str, whole: &[u8], marked: &[u8]) {
    let checked = check(&open(marked).unwrap(), &Selection::default()).unwrap();
    assert_eq!(checked.outcome, Outcome::Damaged, "{name}");
    assert!(checked.findings.iter().any(|finding| finding.structure.name() == "mark"), "{name}");
    assert!(listing(&mut *mounted(marked)) == listing(&mut *mounted(whole)), "{name}");
    let (report, new) = repaired(name, marked).unwrap();
    assert_eq!(report.losses, [], "{name}");
    assert!(new == whole, "{name}");
}

/// Nobody removes a directory with names in it.
#[test]
fn the_name_of_a_directory_with_files_is_not_obsolete() {
    let made = KINDS.into_iter().filter(|kind| !kind.is_nand && !kind.summaries);
    let made = made.map(|kind| ("made", kind.endian, image(kind)));
    let golden = IMAGES[..2].iter().zip([Endian::Little, Endian::Big]);
    let golden = golden.map(|(&(name, bytes), endian)| (name, endian, bytes.to_vec()));
    for (name, endian, whole) in made.chain(golden) {
        let is_directory = |&(at, header): &(usize, Header)| {
            header.node_type == NodeType::Dirent
                && Dirent::parse(&whole[at..], endian).unwrap().dirent_type == 4
        };
        let directories: Vec<_> = nodes(&whole, endian).into_iter().filter(is_directory).collect();
        assert!(!directories.is_empty(), "{name}");
        let mut all = whole.clone();
        for node in directories {
            assert_counts(name, &whole, &marked(&whole, endian, node));
            all = marked(&all, endian, node);
        }
        // One in the other.
        assert_counts(name, &whole, &all);
    }
}

/// On NAND no node is ever marked.
#[test]
fn no_node_of_nand_is_obsolete_by_a_mark() {
    for kind in KINDS.into_iter().filter(|kind| kind.is_nand) {
        let whole = image(kind);
        let content = nodes(&whole, kind.endian).into_iter().filter(|(_, header)| is_content(header));
        for node in content {
            let name = format!("{kind:?} {node:?}");
            assert_counts(&name, &whole, &marked(&whole, kind.endian, node));
        }
    }
}

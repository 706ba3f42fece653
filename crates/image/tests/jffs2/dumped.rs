//! Nodes that are shown.

use floatgate_image::dump::{Area, DumpTarget, Dumped, dump};
use floatgate_image::info::info;
use floatgate_image::{ImageError, Selection};
use floatgate_mtd::advice::Help as _;

use super::edited::{KINDS, image};
use super::{IMAGES, open};

fn dumped(bytes: &[u8], wanted: &DumpTarget) -> Result<Vec<Dumped>, ImageError> {
    dump(&open(bytes).unwrap(), &Selection::default(), wanted)
}

fn field<'d>(dumped: &'d Dumped, name: &str) -> &'d str {
    &dumped.fields.iter().find(|field| field.name == name).unwrap().value
}

#[test]
fn all_nodes_are_listed() {
    for (name, bytes) in IMAGES {
        let all = dumped(bytes, &DumpTarget::Nodes).unwrap();
        let described = info(&open(bytes).unwrap()).unwrap();
        let jffs2 = described.images[0].jffs2.as_ref().unwrap();
        let count = |what: &str| all.iter().filter(|node| node.structure == what).count() as u64;
        assert_eq!(count("inode node"), jffs2.inode_nodes, "{name}");
        assert_eq!(count("dirent node"), jffs2.dirent_nodes, "{name}");
        assert!(all.iter().all(|node| node.damage.is_none() && !node.line.is_empty()), "{name}");
        let states =
            all.iter().filter(|node| node.structure == "inode node").map(|node| field(node, "state"));
        assert!(states.collect::<Vec<_>>().iter().all(|state| *state == "live"), "{name}");
    }
}

#[test]
fn nodes_of_a_file_are_shown_by_path_inode_block_and_place() {
    let bytes = IMAGES[0].1;
    let path = |block, entry| DumpTarget::Path { path: b"/dir/random".to_vec(), block, entry };
    let all = dumped(bytes, &path(None, false)).unwrap();
    assert!(all.len() >= 2, "5000 bytes are in two nodes");
    let second = dumped(bytes, &path(Some(1), false)).unwrap();
    assert_eq!(second.iter().map(|node| field(node, "offset")).collect::<Vec<_>>(), ["4096"]);
    assert!(second[0].line.contains("bytes 4096 to 5000"), "{}", second[0].line);
    let inode = field(&all[0], "inode").parse().unwrap();
    assert_eq!(dumped(bytes, &DumpTarget::Inode { inode, block: None }).unwrap(), all);
    let entry = dumped(bytes, &path(None, true)).unwrap();
    assert_eq!((entry.len(), field(&entry[0], "name")), (1, "random"));
    let at = dumped(bytes, &DumpTarget::At(entry[0].at.unwrap())).unwrap();
    assert_eq!((&at[0].structure[..], field(&at[0], "name")), ("dirent node", "random"));
    let missing = DumpTarget::Path { path: b"/none".to_vec(), block: None, entry: false };
    assert!(matches!(dumped(bytes, &missing), Err(ImageError::NoNode(_))));
    assert!(matches!(dumped(bytes, &DumpTarget::Area(Area::Master)), Err(ImageError::NotForJffs2(_))));
}

/// An inode, an eraseblock or a byte that the image does not have is an error, which advises to list the nodes that there are.
#[test]
fn nodes_that_are_not_there_are_told() {
    let bytes = IMAGES[0].1;
    let end = bytes.len() as u64;
    let refused = |wanted: &DumpTarget| {
        let error = dumped(bytes, wanted).unwrap_err();
        (error.to_string(), error.help().to_string())
    };
    for (wanted, told) in [
        (DumpTarget::At(end), format!("there is no byte {end}: the file has {end} bytes")),
        (DumpTarget::Peb(1000), "there is no eraseblock 1000: the image has 1 eraseblock".to_owned()),
        (DumpTarget::Inode { inode: 999, block: None }, "there is no node of inode 999".to_owned()),
    ] {
        let (message, help) = refused(&wanted);
        assert_eq!(message, told);
        assert!(help.contains("dump --nodes"), "{help}");
    }
    let (_, help) = refused(&DumpTarget::Leb { lnum: 3, offset: 0 });
    assert!(help.contains("--peb") && help.contains("--nodes"), "{help}");
}

#[test]
fn damage_is_shown_in_its_place() {
    for kind in KINDS {
        let mut bytes = image(kind);
        bytes[20_000..20_008].fill(0x5A);
        let damaged: Vec<Dumped> = dumped(&bytes, &DumpTarget::Nodes)
            .unwrap()
            .into_iter()
            .filter(|node| node.damage.is_some())
            .collect();
        let covers = |node: &Dumped| node.at.is_some_and(|at| at <= 20_000 && at + node.len as u64 >= 20_008);
        assert!(damaged.iter().any(covers), "{kind:?}: {damaged:?}");
        assert!(damaged.iter().all(|node| node.line.contains("damaged: ")), "{kind:?}");
    }
}

//! A change without the key is detected, even if every CRC is corrected.

use super::authentication::{sample, with_key};
use super::common::{LEB, Tree, mount, walk};
use super::signer::{node_len, reseal};
use floatgate_media::crc;
use floatgate_media::ubifs::lpt::Pnode;
use floatgate_media::ubifs::{Frame, Limits, Node};
use floatgate_stack::ubifs::{Authenticate, Error, Result};

/// Offset and type of each node of an image.
fn nodes(image: &[u8]) -> Vec<(usize, u8)> {
    let magic = 0x0610_1831_u32.to_le_bytes();
    (0..image.len())
        .step_by(8)
        .filter(|&at| image[at..].starts_with(&magic))
        .map(|at| (at, image[at + 20]))
        .collect()
}

/// Contents that a reader with the key sees.
fn read(image: &[u8], authenticate: &Authenticate) -> Result<Tree> {
    walk(&mut mount(image, authenticate)?)
}

/// True if all nodes of this type are in use: inodes, data, entries, attribute names, index, superblock, log.
fn is_in_use(node_type: u8) -> bool {
    matches!(node_type, 0..=3 | 6 | 9)
}

/// Changes the byte selected by `at` in each node, and reads the image.
fn change_each(at: impl Fn(usize, usize) -> usize) {
    let (image, key) = (sample(), with_key());
    let whole = read(&image, &key).unwrap();
    let mut noticed = 0;
    for (index, (start, node_type)) in nodes(&image).into_iter().enumerate() {
        let mut forged = image.clone();
        let node = &mut forged[start..];
        let len = node_len(node);
        node[at(index, len)] ^= 0x10;
        reseal(node);
        match read(&forged, &key) {
            Ok(tree) => {
                assert_eq!(tree, whole, "a change of node {start:#x} is believed");
                assert!(
                    !is_in_use(node_type),
                    "a change of node {start:#x}, type {node_type}, is not noticed"
                );
            }
            Err(Error::Unauthentic { .. }) => noticed += 1,
            // An impossible value is refused before authentication is checked.
            Err(error) => assert!(!matches!(node_type, 0..=3 | 9), "{error} at {start:#x}"),
        }
    }
    assert!(noticed > 150, "{noticed}");
}

#[test]
fn in_the_sequence_number() {
    change_each(|_, _| 9);
}

#[test]
fn in_the_middle() {
    change_each(|index, len| 24 + (index * 7919) % (len - 24));
}

#[test]
fn without_a_key_nobody_notices() {
    let mut image = sample();
    let (start, _) = nodes(&image).into_iter().find(|&(_, node_type)| node_type == 0).unwrap();
    // This changes the owner.
    image[start + 96] ^= 1;
    reseal(&mut image[start..]);
    assert!(read(&image, &Authenticate::No).is_ok());
    assert!(matches!(read(&image, &Authenticate::Hashes), Err(Error::Unauthentic { .. })));
}

#[test]
fn in_the_lpt() {
    let mut image = sample();
    let Ok(Node::Superblock(superblock)) = Frame::parse(&image).unwrap().node() else {
        panic!("no superblock")
    };
    let geometry = Limits::new(&superblock.grown(40)).unwrap().lpt_geometry;
    // `mkfs.ubifs` writes the pnodes first.
    let start = geometry.parameters().first_lnum as usize * LEB;
    let mut pnode = Pnode::parse(&image[start..], &geometry).unwrap();
    pnode.lebs[0].dirty += 8;
    pnode.emit(&geometry, &mut image[start..]).unwrap();
    assert_eq!(
        crc::lpt(&image[start + 2..start + geometry.pnode_bytes() as usize]).to_le_bytes(),
        image[start..start + 2]
    );
    assert!(read(&image, &Authenticate::No).is_ok());
    let what = "the LPT has another hash than the master node says";
    match read(&image, &with_key()) {
        Err(Error::Unauthentic { what: found, .. }) => assert_eq!(found, what),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_left_is_read_when_asked_to_forgive() {
    use super::common::volume;
    use floatgate_stack::ubifs::{Behaviour, MountOptions, Survey, Ubifs};
    let mut image = sample();
    let (start, _) = nodes(&image).into_iter().find(|&(_, node_type)| node_type == 1).unwrap();
    image[start + 50] ^= 1;
    reseal(&mut image[start..]);
    let options = MountOptions {
        read_only: true,
        recover: true,
        forgiving: true,
        authenticate: with_key(),
        ..MountOptions::default()
    };
    let mut fs =
        Ubifs::mount(volume(&image), &options, Behaviour::default()).map_err(|(error, _)| error).unwrap();
    let found = fs.check().unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(matches!(walk(&mut fs), Err(Error::Unauthentic { .. })));
    let survey = Survey::authenticated(volume(&image), &with_key()).unwrap();
    let problems: Vec<&str> = survey.problems().iter().map(|problem| problem.what.as_str()).collect();
    assert!(problems.iter().any(|what| what.contains("not authentic")), "{problems:?}");
}

//! Images with authentication and an empty journal: signed, and with HMACs.

use super::common::{Shown, mount, path, unpack, volume, walk};
use super::signer::{KEY, authenticated, reseal};
use floatgate_media::ubifs::HashAlgorithm;
use floatgate_stack::ubifs::{AuthKey, Authenticate, Behaviour, Checked, Error, MountOptions, Survey, Ubifs};

const SHA1: &[u8] = include_bytes!("../samples/signed-sha1.ubifs.zst");
const SHA256: &[u8] = include_bytes!("../samples/signed-sha256.ubifs.zst");
const SHA512: &[u8] = include_bytes!("../samples/signed-sha512.ubifs.zst");
const AUTHENTICATED: &[u8] = include_bytes!("../samples/authenticated.ubifs.zst");
const ENCRYPTED: &[u8] = include_bytes!("../samples/encrypted.ubifs.zst");

pub(crate) fn sample() -> Vec<u8> {
    authenticated(&unpack(SHA256))
}

pub(crate) fn with_key() -> Authenticate {
    Authenticate::Key(AuthKey::new(KEY).unwrap())
}

fn contents(shown: Option<&Shown>) -> &[u8] {
    shown.unwrap().contents.as_deref().unwrap()
}

#[test]
fn hashes_of_signed_images_hold() {
    let algorithms = [HashAlgorithm::Sha1, HashAlgorithm::Sha256, HashAlgorithm::Sha512];
    for (sample, algorithm) in [SHA1, SHA256, SHA512].into_iter().zip(algorithms) {
        let image = unpack(sample);
        let mut plain = mount(&image, &Authenticate::No).unwrap();
        let found = plain.authentication().unwrap();
        assert_eq!((found.algorithm, found.is_signed, found.checked), (algorithm, true, Checked::Nothing));
        let mut hashed = mount(&image, &Authenticate::Hashes).unwrap();
        assert_eq!(hashed.authentication().unwrap().checked, Checked::Hashes);
        let tree = walk(&mut hashed).unwrap();
        assert_eq!(walk(&mut plain).unwrap(), tree);
        assert_eq!(contents(tree.get(&path(&["hello"]))), b"hello, world\n");
        assert_eq!(contents(tree.get(&path(&["link"]))), b"hello");
        assert_eq!(contents(tree.get(&path(&["sub", "zs"]))), [b'z'; 20000]);
        assert_eq!(tree.len(), 1 + 7 + 40 + 3);
        assert_eq!(hashed.check().unwrap(), []);
    }
}

#[test]
fn no_key_verifies_a_signature() {
    assert_eq!(mount(&unpack(SHA256), &with_key()).err(), Some(Error::SignedSuperblock));
}

#[test]
fn the_right_key_mounts() {
    let image = sample();
    assert!(image == unpack(AUTHENTICATED), "the sample was made so too");
    let mut fs = mount(&image, &with_key()).unwrap();
    let found = fs.authentication().unwrap();
    assert_eq!((found.is_signed, found.checked, found.dropped_nodes), (false, Checked::Key, 0));
    assert_eq!(walk(&mut fs).unwrap(), walk(&mut mount(&image, &Authenticate::No).unwrap()).unwrap());
    assert_eq!(fs.check().unwrap(), []);
    let survey = Survey::authenticated(volume(&image), &with_key()).unwrap();
    assert_eq!(survey.problems(), []);
}

#[test]
fn another_key_does_not() {
    let other = Authenticate::Key(AuthKey::new(b"another key").unwrap());
    assert_eq!(mount(&sample(), &other).err(), Some(Error::WrongAuthKey));
    let surveyed = Survey::authenticated(volume(&sample()), &other);
    assert_eq!(surveyed.map_err(|(error, _)| error).err(), Some(Error::WrongAuthKey));
}

#[test]
fn a_filesystem_without_authentication_is_not_taken_for_one() {
    let plain = unpack(ENCRYPTED);
    for authenticate in [with_key(), Authenticate::Hashes] {
        assert_eq!(mount(&plain, &authenticate).err(), Some(Error::NotAuthenticated));
    }
    assert_eq!(mount(&plain, &Authenticate::No).unwrap().authentication(), None);
    // The mount is also refused if the flag was cleared.
    let mut image = sample();
    image[28] &= !0x20;
    reseal(&mut image);
    assert_eq!(mount(&image, &with_key()).err(), Some(Error::NotAuthenticated));
}

#[test]
fn an_hmac_cannot_be_taken_away() {
    let mut image = sample();
    image[128..192].fill(0);
    reseal(&mut image);
    assert_eq!(mount(&image, &with_key()).err(), Some(Error::SignedSuperblock));
    let mut image = sample();
    for lnum in [1, 2] {
        let master = &mut image[lnum * super::common::LEB..];
        // The state is changed without its HMAC, so the hash in the superblock does not match.
        master[80] ^= 8;
        master[296..360].fill(0);
        reseal(master);
    }
    let what = "the master node has another hash than the superblock says";
    assert_eq!(mount(&image, &with_key()).err(), Some(Error::Unauthentic { lnum: 1, offset: 0, what }));
}

#[test]
fn functions_that_are_missing_have_names() {
    for (number, name) in [(1, "md5"), (17, "sm3"), (99, "an unknown hash function")] {
        let mut image = sample();
        image[256] = number;
        reseal(&mut image);
        match mount(&image, &with_key()).err().unwrap() {
            Error::UnsupportedHash(found) => assert_eq!(found, name),
            // The superblock itself is refused.
            other => assert_eq!((number, other.place()), (99, Some((0, 0)))),
        }
    }
}

#[test]
fn writing_is_refused() {
    let options = MountOptions { authenticate: with_key(), recover: true, ..MountOptions::default() };
    let refused = Ubifs::mount(volume(&sample()), &options, Behaviour::default());
    let refused = refused.map_err(|(error, _)| error).err();
    assert_eq!(refused, Some(Error::Unsupported("writing to an authenticated filesystem")));
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", with_key());
    assert_eq!(shown, "Key(AuthKey(..))");
    assert!(AuthKey::new(&[]).is_err());
}

//! Images with encrypted names, and images with authentication.

use floatgate_stack::ubifs::AuthKey;

use super::*;
use crate::ImageError;
use crate::check::{Outcome, check};
use crate::info::{UbifsInfo, selected_info};

const ENCRYPTED: &[u8] = include_bytes!("../../../stack/tests/samples/encrypted.ubifs.zst");
const SIGNED: &[u8] = include_bytes!("../../../stack/tests/samples/signed-sha256.ubifs.zst");
const AUTHENTICATED: &[u8] = include_bytes!("../../../stack/tests/samples/authenticated.ubifs.zst");

fn unpack(sample: &[u8]) -> Vec<u8> {
    zstd::decode_all(sample).unwrap()
}

fn key(bytes: &[u8]) -> Authenticate {
    Authenticate::Key(AuthKey::new(bytes).unwrap())
}

fn right_key() -> Authenticate {
    key(b"a key of the tests")
}

fn selection(authenticate: Authenticate) -> Selection {
    Selection { authenticate, ..Selection::default() }
}

fn described(bytes: &[u8], authenticate: &Authenticate) -> (UbifsInfo, String) {
    let info = selected_info(&open(bytes), &selection(authenticate.clone())).unwrap();
    let shown = info.to_string();
    (info.images[0].ubifs.clone().unwrap(), shown)
}

/// Image with a wrong byte in the contents of a file, and a good CRC.
fn forged(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let is_data = |at: &usize| bytes[*at..].starts_with(&[0x31, 0x18, 0x10, 0x06]) && bytes[at + 20] == 1;
    let at = (0..bytes.len()).step_by(8).find(is_data).unwrap();
    let len = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().unwrap()) as usize;
    bytes[at + 12] ^= 1;
    let crc = floatgate_media::crc::ubi(&bytes[at + 8..at + len]);
    bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn every_encrypted_entry_is_a_loss() {
    let (memory, extracted) = read(&unpack(ENCRYPTED), &Selection::default());
    // The root has no name that could be encrypted.
    assert_eq!(memory.files.len(), 1, "{:?}", memory.files.keys());
    let encrypted = extracted.losses.iter().filter(|loss| loss.what.starts_with("encrypted"));
    assert_eq!(encrypted.count(), 7 + 40 + 3);
    let others: Vec<_> = extracted.losses.iter().filter(|loss| !loss.what.starts_with("encrypted")).collect();
    assert_eq!(others.len(), 1, "{others:?}");
    assert!(others[0].what.contains("the directory is encrypted"));
    let report = check(&open(&unpack(ENCRYPTED)), &Selection::default()).unwrap();
    assert_eq!(report.outcome, Outcome::Clean, "{:?}", report.findings);
}

#[test]
fn info_says_what_was_verified() {
    let bytes = unpack(AUTHENTICATED);
    let (info, shown) = described(&bytes, &Authenticate::No);
    assert_eq!(info.authentication.unwrap().verified, None);
    assert!(shown.contains("authenticated with sha256, not verified"), "{shown}");
    let (info, shown) = described(&bytes, &right_key());
    assert_eq!(info.authentication.unwrap().verified, Some(true));
    assert!(shown.contains("authenticated with sha256, verified\n"), "{shown}");
    let (info, shown) = described(&bytes, &key(b"another"));
    assert_eq!(info.authentication.unwrap().verified, Some(false));
    assert!(shown.contains("NOT VERIFIED: the key is not the one"), "{shown}");
    let (info, shown) = described(&forged(&bytes), &right_key());
    assert_eq!(info.authentication.unwrap().verified, Some(false));
    assert!(shown.contains("NOT VERIFIED: LEB"), "{shown}");
    let (info, shown) = described(&unpack(SIGNED), &Authenticate::Hashes);
    assert_eq!(info.authentication.unwrap().verified, Some(true));
    assert!(shown.contains("signed, with hashes by sha256, hashes verified, but not by a key"), "{shown}");
}

#[test]
fn what_is_forged_is_not_restored() {
    let bytes = unpack(AUTHENTICATED);
    let (whole, extracted) = read(&bytes, &selection(right_key()));
    assert_eq!(extracted.losses, []);
    let forged = forged(&bytes);
    let (left, extracted) = read(&forged, &selection(right_key()));
    assert_eq!(extracted.losses.len(), 1, "{:?}", extracted.losses);
    assert!(extracted.losses[0].what.contains("not authentic"), "{:?}", extracted.losses);
    assert_eq!(whole.differences(&left).len(), 1);
    // Without the key the change is not detected: only the sequence number of the node differs.
    assert_eq!(read(&forged, &Selection::default()).1.losses, []);
}

#[test]
fn check_verifies_too() {
    let bytes = unpack(AUTHENTICATED);
    let outcome = |bytes: &[u8], authenticate| check(&open(bytes), &selection(authenticate)).unwrap().outcome;
    assert_eq!(outcome(&bytes, right_key()), Outcome::Clean);
    assert_eq!(outcome(&forged(&bytes), Authenticate::No), Outcome::Clean);
    assert_eq!(outcome(&forged(&bytes), Authenticate::Hashes), Outcome::Damaged);
    assert_eq!(outcome(&forged(&bytes), right_key()), Outcome::Damaged);
    let refused = check(&open(&bytes), &selection(key(b"another")));
    assert!(matches!(refused, Err(ImageError::Ubifs(floatgate_stack::ubifs::Error::WrongAuthKey))));
}

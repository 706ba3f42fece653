//! Damage: what is not hit is restored, and the rest is listed.

use super::*;

/// Whatever is not as it should be is listed, itself or a directory above it.
pub(super) fn assert_lists_all(whole: &Memory, found: &Memory, extracted: &Extracted) {
    let listed = |path: &str| {
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
        assert!(is_whole || listed(path), "{path} is not restored, and not listed: {:#?}", extracted.losses);
    }
}

//! Fixed-width text of parameter pages.

use core::fmt;

use crate::wire::{Wire, array, store};

/// `N` bytes of ASCII, padded with spaces (ONFI 4.2 section 5.7.1, bytes 32-63).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// `text` padded with spaces, or `None` if it is longer than `N` bytes or not printable ASCII.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        if !text.bytes().all(printable) {
            return None;
        }
        let mut bytes = [b' '; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self(bytes))
    }

    /// A text of exactly these bytes, printable or not.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// The bytes on the media, padding included.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// The text without its padding. It ends before the first byte that is not printable ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&byte| !printable(byte)).unwrap_or(N);
        let shown = self.0.get(..end).unwrap_or(&[]);
        core::str::from_utf8(shown).unwrap_or("").trim_end_matches(' ')
    }
}

const fn printable(byte: u8) -> bool {
    byte >= b' ' && byte <= b'~'
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([b' '; N])
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> Wire for Text<N> {
    const WIDTH: usize = N;

    fn decode(bytes: &[u8], at: usize) -> Self {
        Self(array(bytes, at))
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        store(bytes, at, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_trims_and_refuses() {
        let text = Text::<8>::new("MICRON").unwrap();
        assert_eq!(text.as_bytes(), b"MICRON  ");
        assert_eq!(text.as_str(), "MICRON");
        assert_eq!(Text::<4>::new("MICRON"), None);
        assert_eq!(Text::<4>::new("\u{7f}"), None);
        assert_eq!(Text::from_bytes(*b"AB\xffC").as_str(), "AB");
    }
}

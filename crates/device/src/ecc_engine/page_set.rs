//! A set of pages.

/// A set of page numbers, one bit for each page.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageSet(Vec<u64>);

impl PageSet {
    pub(crate) fn new(pages: u64) -> Self {
        Self(vec![0; pages.div_ceil(64) as usize])
    }

    #[inline]
    pub(crate) fn contains(&self, page: u64) -> bool {
        self.0.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    #[inline]
    pub(crate) fn insert(&mut self, page: u64) {
        if let Some(word) = self.0.get_mut((page / 64) as usize) {
            *word |= 1 << (page % 64);
        }
    }

    pub(crate) fn remove(&mut self, pages: core::ops::Range<u64>) {
        let end = pages.end.min(64 * self.0.len() as u64);
        for page in pages.start..end {
            if let Some(word) = self.0.get_mut((page / 64) as usize) {
                *word &= !(1 << (page % 64));
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }
}

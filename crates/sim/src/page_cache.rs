//! Linux's page cache and write-back, in one model for all filesystems.
//!
//! - A page (4 KiB of a file) that was read or written stays in memory until its memory is needed: the oldest clean
//!   pages are evicted first.
//! - If a filesystem delays writes (UBIFS), a written page is dirty until write-back. Write-back of a file begins when
//!   its first change is [`expire_s`](PageCacheProfile::expire_s) old, which is checked every
//!   [`flush_interval_s`](PageCacheProfile::flush_interval_s), or with `fsync` and `sync`.
//! - A program that makes more than [`dirty_percent`](PageCacheProfile::dirty_percent) of memory dirty waits until at
//!   most [`background_percent`](PageCacheProfile::background_percent) is dirty.
//! - There is one CPU. The write-back thread runs while the program waits, not in parallel.
//!
//! Not modelled: `mmap`, read-ahead, and the memory that programs use. Linux: `mm/page-writeback.c`,
//! Documentation/admin-guide/sysctl/vm.rst.

use floatgate_device::units;
use floatgate_mtd::{Instant, Nanos};
use floatgate_stack::fs::BLOCK_BYTES;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Memory of the page cache, and parameters of write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageCacheProfile {
    /// Largest memory of the page cache, in bytes.
    #[serde(with = "units::bytes")]
    pub bytes: u64,
    /// Percentage of dirty pages above which a writing program waits (`vm.dirty_ratio`).
    pub dirty_percent: u32,
    /// Percentage of dirty pages above which write-back starts (`vm.dirty_background_ratio`).
    pub background_percent: u32,
    /// Interval at which the write-back thread wakes up, in seconds (`vm.dirty_writeback_centisecs`).
    pub flush_interval_s: u32,
    /// Age at which dirty data is written back, in seconds (`vm.dirty_expire_centisecs`).
    pub expire_s: u32,
}

impl Default for PageCacheProfile {
    /// Defaults of Linux since 2.6.29, with a page cache of 64 MiB.
    fn default() -> Self {
        Self { bytes: 64 << 20, dirty_percent: 20, background_percent: 10, flush_interval_s: 5, expire_s: 30 }
    }
}

/// Size of a page, bytes.
pub const PAGE: u64 = BLOCK_BYTES as u64;

/// A page of a file: inode number, and index in the file.
type PageOf = (u32, u64);

/// Set of the pages in memory. The data itself is in the filesystem.
#[derive(Clone, Debug)]
pub(crate) struct PageCache {
    profile: PageCacheProfile,
    present: BTreeSet<PageOf>,
    /// Pages in the order in which they were added, including pages that were evicted later.
    order: VecDeque<PageOf>,
    dirty: BTreeMap<u32, Dirty>,
    dirty_pages: u64,
}

/// Dirty pages of one file.
#[derive(Clone, Debug)]
struct Dirty {
    since: Instant,
    pages: BTreeSet<u64>,
}

impl PageCache {
    pub(crate) fn new(profile: PageCacheProfile) -> Self {
        Self {
            profile,
            present: BTreeSet::new(),
            order: VecDeque::new(),
            dirty: BTreeMap::new(),
            dirty_pages: 0,
        }
    }

    pub(crate) fn has(&self, inode: u32, page: u64) -> bool {
        self.present.contains(&(inode, page))
    }

    /// Adds a page of a file. If the cache is full, removes the oldest clean pages.
    pub(crate) fn insert(&mut self, inode: u32, page: u64) {
        if !self.present.insert((inode, page)) {
            return;
        }
        self.order.push_back((inode, page));
        let most = (self.profile.bytes / PAGE).max(1) as usize;
        let mut looked_at = self.order.len();
        while self.present.len() > most && looked_at > 0 {
            looked_at -= 1;
            let Some(oldest) = self.order.pop_front() else { break };
            if self.is_dirty(oldest) {
                self.order.push_back(oldest);
            } else {
                self.present.remove(&oldest);
            }
        }
    }

    fn is_dirty(&self, (inode, page): PageOf) -> bool {
        self.dirty.get(&inode).is_some_and(|dirty| dirty.pages.contains(&page))
    }

    /// Marks a page that is in memory as dirty.
    pub(crate) fn make_dirty(&mut self, inode: u32, page: u64, now: Instant) {
        let dirty = self.dirty.entry(inode).or_insert_with(|| Dirty { since: now, pages: BTreeSet::new() });
        if dirty.pages.insert(page) {
            self.dirty_pages += 1;
        }
    }

    /// Marks a file as written back.
    pub(crate) fn clean(&mut self, inode: u32) {
        if let Some(dirty) = self.dirty.remove(&inode) {
            self.dirty_pages -= dirty.pages.len() as u64;
        }
    }

    /// Marks all files as written back.
    pub(crate) fn clean_all(&mut self) {
        self.dirty.clear();
        self.dirty_pages = 0;
    }

    /// Drops pages of a file that was removed or truncated.
    pub(crate) fn forget(&mut self, inode: u32) {
        self.clean(inode);
        self.present.retain(|&(of, _)| of != inode);
        self.order.retain(|&(of, _)| of != inode);
    }

    const fn share(&self, percent: u32) -> u64 {
        self.profile.bytes / 100 * percent as u64 / PAGE
    }

    /// True if a writing program must wait for write-back.
    pub(crate) const fn is_too_dirty(&self) -> bool {
        self.dirty_pages > self.share(self.profile.dirty_percent)
    }

    /// True if write-back continues because more than the background limit is dirty.
    pub(crate) const fn is_dirty_enough(&self) -> bool {
        self.dirty_pages > self.share(self.profile.background_percent)
    }

    /// The file with the oldest first change.
    pub(crate) fn oldest_dirty(&self) -> Option<u32> {
        self.dirty.iter().min_by_key(|(_, dirty)| dirty.since).map(|(&inode, _)| inode)
    }

    /// Files whose first change has expired at `now`.
    pub(crate) fn expired(&self, now: Instant) -> Vec<u32> {
        let most = Nanos::from_ms(u64::from(self.profile.expire_s) * 1000);
        let old = self.dirty.iter().filter(|(_, dirty)| now.since(dirty.since) >= most);
        old.map(|(&inode, _)| inode).collect()
    }

    /// Time of the next check of the write-back thread after `now`.
    pub(crate) fn next_look(&self, now: Instant) -> Instant {
        let interval = u64::from(self.profile.flush_interval_s.max(1)) * 1_000_000_000;
        Instant::from_ns((now.as_ns() / interval + 1) * interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(pages: u64) -> PageCache {
        PageCache::new(PageCacheProfile { bytes: pages * PAGE, ..PageCacheProfile::default() })
    }

    #[test]
    fn the_oldest_clean_page_leaves() {
        let mut cache = cache(2);
        cache.insert(1, 0);
        cache.make_dirty(1, 0, Instant::ZERO);
        cache.insert(1, 1);
        cache.insert(1, 2);
        assert!(cache.has(1, 0) && !cache.has(1, 1) && cache.has(1, 2));
    }

    #[test]
    fn dirty_pages_wait_until_they_are_old_or_many() {
        let mut cache = cache(100);
        for page in 0..20 {
            cache.insert(7, page);
            cache.make_dirty(7, page, Instant::from_ns(1));
        }
        assert!(!cache.is_too_dirty() && cache.is_dirty_enough());
        cache.make_dirty(8, 0, Instant::from_ns(2));
        assert!(cache.is_too_dirty());
        assert_eq!(cache.oldest_dirty(), Some(7));
        let second = 1_000_000_000;
        assert!(cache.expired(Instant::from_ns(29 * second)).is_empty());
        assert_eq!(cache.expired(Instant::from_ns(30 * second + 1)), [7]);
        assert_eq!(cache.next_look(Instant::from_ns(31 * second)), Instant::from_ns(35 * second));
        cache.clean(7);
        assert!(!cache.is_dirty_enough());
        cache.forget(7);
        assert!(!cache.has(7, 3));
    }
}

//! Scanning a flash for nodes.

use super::blocks::{Blocks, Owner, State};
use super::damage::{Damage, Fault, MountError, listed_as};
use super::flash::Flash;
use super::names::{Named, Names};
use super::xattrs::{SupersededNode, Xattrs};
use super::{Cached, Counts, MountOptions, NodeRef};
use floatgate_media::MediaError;
use floatgate_media::jffs2::{
    DirentNode, Endian, Entry, Header, Inode, NODE_ALIGN, NodeType, ROOT_INODE, Summary, SummaryMarker,
    XattrNode, Xref, ZERO_FILL,
};
use floatgate_mtd::{FlashKind, Mtd};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Smallest eraseblock of flash that JFFS2 is used on, bytes.
const SMALLEST_ERASEBLOCK: u64 = 4 << 10;

/// Number of erased bytes at the start of an eraseblock of a chip that show that it is empty (Linux:
/// `DEFAULT_EMPTY_SCAN_SIZE`). In a file the whole eraseblock is checked, because its start may be overwritten.
const EMPTY_SCAN: usize = 256;

/// Usual maximum length of a node, bytes: a page of incompressible data.
const LONGEST_NODE: u32 = 4096 + Inode::SIZE as u32;

/// Maximum number of reported faults, to bound memory on damaged flash.
const DAMAGE_MAX: usize = 10_000;

/// Result of a scan.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) endian: Option<Endian>,
    pub(super) nodes: BTreeMap<u32, Cached>,
    pub(super) names: Names,
    pub(super) xattrs: Xattrs,
    pub(super) counts: Counts,
    pub(super) damage: Vec<Damage>,
    pub(super) blocks: Blocks,
    /// Positions of replaced nodes.
    pub(super) superseded: Vec<u32>,
    /// Highest inode number of any node: names of deleted inodes may still be on flash.
    pub(super) highest_inode: u32,
    /// Eraseblocks in which a power loss may have interrupted the last write or the erase: they may read differently
    /// the next time.
    pub(super) unsettled: BTreeSet<u32>,
    /// Positions of older copies of nodes, by the position of the live one.
    pub(super) copies: BTreeMap<u32, u32>,
    /// Partly written eraseblocks, with the remaining bytes.
    partial: Vec<(u32, u32)>,
    /// Completely written eraseblocks without a good summary.
    full: Vec<u32>,
    /// Eraseblocks with a good summary.
    pub(super) summarized: BTreeSet<u32>,
    /// Number of padding nodes that fill a page and are followed by more nodes; each comes from a sync.
    page_fillers: u32,
    /// Hashes of the eraseblocks with such nodes, so that a copied eraseblock is counted once.
    with_fillers: HashSet<u64>,
    /// True if an eraseblock was erased and marked clean.
    has_marked: bool,
    /// True if nodes follow a clean eraseblock, which must have been used before.
    has_gap: bool,
    /// True if a name or an attribute has more than one node.
    has_replaced: bool,
    /// Flash offset from which nodes have their data checked, because they were written last.
    tail_from: u64,
    /// Stops at the first fault in the data written last, so that the result is a consistent earlier state.
    strict: bool,
    /// Trusts a clean marker followed by erased bytes and does not read the rest of the NOR eraseblock.
    trusts_markers: bool,
    /// Trusts erased bytes at the start and does not read the rest of the eraseblock.
    trusts_heads: bool,
    /// True if nodes are, or may be, marked when they become obsolete.
    has_marks: bool,
    /// True if summaries are read.
    summaries: bool,
    /// True if nodes that are missing in a summary count too.
    reads_all: bool,
    /// True if the last node was invalid or damaged.
    faulty: bool,
    /// Offset and length of the last bytes that are not a node.
    unknown: Option<(u64, u32)>,
    /// True if these bytes follow a node with a damaged header.
    is_rest: bool,
    /// Offset and length of the last gap of erased bytes, until the next node is known.
    gap: Option<(u64, u32)>,
    /// Offset after the last live node, or start of the last eraseblock that is empty except for its clean marker.
    end: u64,
    /// Offset of the eraseblock's summary according to its last bytes.
    summary_at: Option<u64>,
    /// Data of the eraseblock being read.
    block: Vec<u8>,
}

fn hash(block: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    block.hash(&mut hasher);
    hasher.finish()
}

/// Good nodes of an eraseblock with a summary, by offset in it, each with its entry derived from its own fields.
type GoodNodes<'b> = BTreeMap<u32, (Header, &'b [u8], Entry<'b>)>;

fn good_nodes(block: &[u8], endian: Endian) -> GoodNodes<'_> {
    let mut good = BTreeMap::new();
    let mut at = 0;
    while let Some(rest) = block.get(at..).filter(|rest| !rest.is_empty()) {
        let header = Header::parse(rest, endian).ok().map(|header| header.as_scanned(rest));
        let header = header.filter(|header| header.len as usize <= rest.len());
        let Some(header) = header else {
            at += NODE_ALIGN as usize;
            continue;
        };
        let node = &rest[..header.len as usize];
        // An eraseblock has less than 4 GiB, so the offset fits.
        let offset = at as u32;
        if let Some(own) = Entry::of_node(&header, node, offset, endian) {
            good.insert(offset, (header, node, own));
        }
        at += header.padded_len() as usize;
    }
    good
}

impl Scan {
    /// Reads all eraseblocks.
    ///
    /// # Errors
    /// The flash fails or is too large; an incompatible node.
    pub(super) fn read(flash: &mut Flash<dyn Mtd>, options: &MountOptions) -> Result<Self, MountError> {
        let geometry = flash.mtd.geometry().clone();
        if geometry.size_bytes > 1 << 32 {
            return Err(MountError::TooLarge(geometry.size_bytes));
        }
        if matches!(geometry.kind, FlashKind::MlcNand | FlashKind::SlcModeNand) {
            return Err(MountError::Mlc);
        }
        let is_live = !options.read_only;
        let mut scan = Self {
            endian: options.endian,
            nodes: BTreeMap::new(),
            names: Names::default(),
            xattrs: Xattrs::default(),
            counts: Counts::default(),
            damage: Vec::new(),
            blocks: Blocks::new(&geometry, flash.marker_bytes()),
            superseded: Vec::new(),
            highest_inode: ROOT_INODE,
            unsettled: BTreeSet::new(),
            copies: BTreeMap::new(),
            partial: Vec::new(),
            full: Vec::new(),
            summarized: BTreeSet::new(),
            page_fillers: 0,
            with_fillers: HashSet::new(),
            has_marked: false,
            has_gap: false,
            has_replaced: false,
            tail_from: u64::MAX,
            strict: is_live && !options.stable,
            has_marks: flash.clears_bits(),
            summaries: !options.ignores_summaries,
            reads_all: options.stable,
            trusts_markers: is_live && !options.stable,
            trusts_heads: !options.stable,
            faulty: false,
            unknown: None,
            is_rest: false,
            gap: None,
            end: 0,
            summary_at: None,
            block: vec![0; geometry.erase_bytes as usize],
        };
        for number in 0..geometry.blocks() {
            let start = u64::from(number) * u64::from(geometry.erase_bytes);
            if flash.is_bad(start)? {
                scan.counts.bad += 1;
                scan.blocks.bad(number);
                continue;
            }
            let (summaries, nodes) = (scan.counts.summaries, scan.counts.nodes());
            let (state, end) = scan.eraseblock(flash, start)?;
            scan.has_gap |= scan.counts.nodes() > nodes && scan.has_marked;
            scan.has_marked |= state == State::Free && end > 0;
            if end <= scan.blocks.marker_bytes {
                scan.end = scan.end.max(start);
            }
            if scan.counts.summaries > summaries {
                scan.summarized.insert(number);
            } else if state == State::Full {
                // An end that is shorter than a padding node stays unwritten, so the eraseblock counts as full.
                if geometry.erase_bytes - end >= Header::SIZE as u32 {
                    scan.partial.push((geometry.erase_bytes - end, number));
                } else {
                    scan.full.push(number);
                }
            }
            scan.blocks.found(number, state, end);
        }
        scan.block = Vec::new();
        scan.sort_nodes();
        // Bytes after the end of the filesystem do not belong to it.
        let end = scan.end;
        scan.damage.retain(|damage| damage.at < end || !matches!(damage.fault, Fault::NoNode { .. }));
        Ok(scan)
    }

    /// Reads an eraseblock; returns its state and the number of bytes written.
    fn eraseblock(&mut self, flash: &mut Flash<dyn Mtd>, start: u64) -> Result<(State, u32), MountError> {
        let is_nand = flash.page() > 1 && flash.has_markers() && flash.marker_bytes() == 0;
        self.summary_at = None;
        let is_marked = is_nand && flash.is_marked_clean(start, self.endian)?;
        let mut block = std::mem::take(&mut self.block);
        let summary = if self.summaries { self.summary(flash, start, &mut block) } else { Ok(false) };
        let found = match summary {
            Ok(true) => Ok((State::Full, self.blocks.erase_bytes)),
            Ok(false) => self.nodes(flash, start, &mut block, is_marked),
            Err(error) => Err(error),
        };
        self.block = block;
        found
    }

    /// Adds the nodes of an eraseblock from its summary; false without a good summary.
    fn summary(
        &mut self,
        flash: &mut Flash<dyn Mtd>,
        start: u64,
        block: &mut [u8],
    ) -> Result<bool, MountError> {
        let Some(marker_at) = block.len().checked_sub(SummaryMarker::SIZE) else { return Ok(false) };
        let mut end = [0; SummaryMarker::SIZE];
        flash.read(start + marker_at as u64, &mut end)?;
        let orders = self.endian.map_or(Endian::ALL.to_vec(), |endian| vec![endian]);
        let marker = |endian: &Endian| SummaryMarker::parse(&end, *endian).map(|marker| (*endian, marker));
        let Some((endian, marker)) = orders.iter().find_map(marker) else { return Ok(false) };
        self.summary_at = Some(start + u64::from(marker.offset));
        let Some((nodes, list)) = block.split_at_mut_checked(marker.offset as usize) else {
            return Ok(false);
        };
        flash.read(start + u64::from(marker.offset), list)?;
        let entries: Result<Vec<Entry<'_>>, MediaError> =
            Summary::parse(list, endian).and_then(|summary| summary.entries().collect());
        match entries {
            Ok(entries) => {
                self.endian = Some(endian);
                self.counts.summaries += 1;
                if self.reads_all {
                    flash.read(start, nodes)?;
                }
                let good = if self.reads_all { good_nodes(nodes, endian) } else { BTreeMap::new() };
                for entry in &entries {
                    match good.get(&entry.offset()) {
                        Some((_, _, own)) if own != entry => {
                            let listed = listed_as(entry);
                            self.note(Fault::ListedAs { listed }.at(start + u64::from(entry.offset())));
                        }
                        None if self.reads_all && matches!(entry, Entry::Dirent { .. }) => {
                            self.damaged_name(nodes, start, entry)?;
                        }
                        _ => self.listed(flash, start, endian, *entry)?,
                    }
                }
                self.unlisted(start, good, &entries)?;
                Ok(true)
            }
            // The caller then scans the whole eraseblock and records the damage.
            Err(_) => Ok(false),
        }
    }

    /// Handles a name in a summary whose node is damaged: Linux reads the node when the name is opened, and the name is
    /// then missing.
    fn damaged_name(&mut self, nodes: &[u8], start: u64, entry: &Entry<'_>) -> Result<(), MountError> {
        let at = start + u64::from(entry.offset());
        let known = (self.damage.len(), self.counts.obsolete_nodes);
        if let Some(node) = nodes.get(entry.offset() as usize..).filter(|node| !node.is_empty()) {
            self.step(node, at)?;
            self.end_unknown();
        }
        if (self.damage.len(), self.counts.obsolete_nodes) == known {
            self.note(Fault::NoNode { len: Header::SIZE as u32 }.at(at));
        }
        Ok(())
    }

    /// Adds good nodes that a summary does not list, or lists differently. If the summary has no entry at the position
    /// of such a node, it belongs to another eraseblock: bytes are missing in between.
    fn unlisted(&mut self, start: u64, good: GoodNodes<'_>, entries: &[Entry<'_>]) -> Result<(), MountError> {
        let places: HashSet<u32> = entries.iter().map(Entry::offset).collect();
        let listed: HashSet<&Entry<'_>> = entries.iter().collect();
        for (offset, (header, node, own)) in good {
            let at = start + u64::from(offset);
            if !places.contains(&offset) {
                self.note(Fault::NotInSummary.at(at));
            }
            if !listed.contains(&own) {
                self.node(header, node, at)?;
            }
        }
        Ok(())
    }

    /// Adds a node listed in a summary. Inode nodes are read with their file, xattr nodes here.
    fn listed(
        &mut self,
        flash: &mut Flash<dyn Mtd>,
        start: u64,
        endian: Endian,
        entry: Entry<'_>,
    ) -> Result<(), MountError> {
        let (offset, len) = match entry {
            Entry::Inode { offset, len, .. }
            | Entry::Dirent { offset, len, .. }
            | Entry::Xattr { offset, len, .. } => (offset, len),
            Entry::Xref { offset } => (offset, Xref::SIZE as u32),
        };
        if u64::from(offset) + u64::from(len) > u64::from(self.blocks.erase_bytes) {
            self.note(Fault::TooLong { len }.at(start + u64::from(offset)));
            return Ok(());
        }
        match entry {
            Entry::Inode { inode, version, offset, len } => {
                self.inode(inode, version, start + u64::from(offset), len);
            }
            Entry::Dirent { parent, version, inode, dirent_type, offset, len, name } => {
                // A summary does not contain the time of the change.
                let named = Named::new(version, inode, dirent_type, start + u64::from(offset));
                self.dirent(parent, name, (named, None), len);
            }
            Entry::Xattr { offset, .. } | Entry::Xref { offset } => {
                let at = start + u64::from(offset);
                let mut head = [0; Header::SIZE];
                flash.read(at, &mut head)?;
                let Ok(header) = Header::parse(&head, endian) else { return Ok(()) };
                let inside =
                    u64::from(offset) + u64::from(header.len) <= u64::from(flash.mtd.geometry().erase_bytes);
                if inside {
                    let mut node = vec![0; header.len as usize];
                    flash.read(at, &mut node)?;
                    self.node(header, &node, at)?;
                }
            }
        }
        Ok(())
    }

    /// Scans an eraseblock for nodes.
    fn nodes(
        &mut self,
        flash: &mut Flash<dyn Mtd>,
        start: u64,
        block: &mut [u8],
        is_marked: bool,
    ) -> Result<(State, u32), MountError> {
        let head = EMPTY_SCAN.min(block.len());
        let (begin, rest) = block.split_at_mut(head);
        flash.read(start, begin)?;
        let are_erased = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0xFF);
        let is_erased = are_erased(begin)
            && (self.trusts_heads || {
                flash.read(start + head as u64, rest)?;
                are_erased(rest)
            });
        if is_erased {
            self.counts.empty += 1;
            self.counts.free_bytes += (head + rest.len()) as u64;
            // Without the marker, a power loss may have interrupted the erase of this eraseblock.
            let is_free = !flash.has_markers() || is_marked && flash.has_blank_oob(start)?;
            return Ok((if is_free { State::Free } else { State::ToErase }, 0));
        }
        let before = self.counts;
        if self.trusts_markers && self.is_only_a_marker(begin, flash.marker_bytes() as usize, start)? {
            self.counts.empty += 1;
            self.counts.free_bytes += (head + rest.len() - flash.marker_bytes() as usize) as u64;
            return Ok((State::Free, flash.marker_bytes()));
        }
        flash.read(start + head as u64, rest)?;
        let end = block.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
        let end = end.next_multiple_of(NODE_ALIGN as usize).min(block.len());
        self.counts.free_bytes += (block.len() - end) as u64;
        let geometry = flash.mtd.geometry();
        let unit = geometry.write_bytes.max(geometry.buffer_bytes);
        self.tail_from = (start + end as u64).saturating_sub(u64::from(unit));
        let tail = end.saturating_sub(unit as usize)..(end + unit as usize).min(block.len());
        flash.freeze(start + tail.start as u64, &block[tail]);
        let fillers = self.page_fillers;
        let mut at = 0;
        while at < end {
            self.faulty = false;
            at += self.step(&block[at..], start + at as u64)?;
            if self.strict && self.faulty && start + at as u64 > self.tail_from && at < end {
                self.counts.dirty_bytes += (end - at) as u64;
                self.unsettled.insert((start / u64::from(self.blocks.erase_bytes)) as u32);
                break;
            }
        }
        self.end_unknown();
        self.gap = None;
        if self.page_fillers > fillers && !self.with_fillers.insert(hash(block)) {
            self.page_fillers = fillers;
        }
        let has_nodes = before.nodes() != self.counts.nodes();
        if has_nodes || before.dirty_bytes != self.counts.dirty_bytes {
            self.counts.scanned += 1;
        } else {
            self.counts.empty += 1;
        }
        let marker = flash.marker_bytes() as usize;
        let is_clean = end == marker && before.clean_markers < self.counts.clean_markers;
        // The last node may end with bytes that look erased.
        let end = at.max(end).min(block.len()) as u32;
        Ok(if is_clean { (State::Free, end) } else { (State::Full, end) })
    }

    /// True if an eraseblock of NOR starts with a clean marker followed by erased bytes only: Linux then assumes that
    /// the rest is erased too.
    fn is_only_a_marker(&mut self, begin: &[u8], marker: usize, start: u64) -> Result<bool, MountError> {
        let is_possible =
            marker > 0 && begin.len() > marker && begin[marker..].iter().all(|&byte| byte == 0xFF);
        let kind = self.endian.or_else(|| Endian::of_magic(begin)).and_then(|endian| {
            let header = Header::parse(begin.get(..marker)?, endian).ok()?;
            (!header.obsolete).then_some((header.node_type, header.len as usize))
        });
        if !is_possible || kind != Some((NodeType::CleanMarker, marker)) {
            return Ok(false);
        }
        self.step(&begin[..marker], start)?;
        Ok(true)
    }

    /// Adds the node or other data at the start of `bytes`, which extend to the end of an eraseblock. Returns its
    /// length in bytes.
    fn step(&mut self, bytes: &[u8], at: u64) -> Result<usize, MountError> {
        let align = NODE_ALIGN as usize;
        let erased = bytes.iter().take_while(|&&byte| byte == 0xFF).count() / align * align;
        if erased > 0 {
            self.end_unknown();
            self.gap = Some((at, erased as u32));
            self.faulty = true;
            self.counts.dirty_bytes += erased as u64;
            return Ok(erased);
        }
        let unknown = align.min(bytes.len());
        let Some(endian) = Endian::of_magic(bytes) else {
            self.faulty = true;
            self.unknown.get_or_insert((at, 0)).1 += unknown as u32;
            self.counts.dirty_bytes += unknown as u64;
            return Ok(unknown);
        };
        let header = Header::parse(bytes, endian).map_err(Fault::Media).and_then(|header| {
            let header = header.as_scanned(bytes);
            let fits = header.len as usize <= bytes.len();
            if fits { Ok(header) } else { Err(Fault::TooLong { len: header.len }) }
        });
        self.end_unknown();
        match header {
            Ok(header) if *self.endian.get_or_insert(endian) != endian => {
                self.faulty = true;
                self.counts.foreign_nodes += 1;
                self.counts.first_foreign.get_or_insert(at);
                // The contents of the foreign node are skipped: a file may hold an image of another byte order.
                let len = (header.padded_len() as usize).min(bytes.len());
                self.counts.dirty_bytes += len as u64;
                Ok(len)
            }
            Ok(header) => {
                self.end_gap(at, &header);
                self.node(header, &bytes[..header.len as usize], at)?;
                Ok((header.padded_len() as usize).min(bytes.len()))
            }
            Err(fault) => {
                self.note(fault.at(at));
                self.is_rest = true;
                self.counts.dirty_bytes += unknown as u64;
                Ok(unknown)
            }
        }
    }

    /// Records bytes that are not a node, unless they belong to a damaged one or are too few to matter.
    fn end_unknown(&mut self) {
        let is_rest = std::mem::take(&mut self.is_rest);
        let Some((at, len)) = self.unknown.take() else { return };
        if len as usize > ZERO_FILL && !is_rest && !self.strict {
            self.gap = None;
            self.note(Fault::NoNode { len }.at(at));
        }
    }

    /// Records erased bytes before a node. Image makers leave them before a summary, and at the end of an eraseblock of
    /// another size.
    fn end_gap(&mut self, node_at: u64, header: &Header) {
        let Some((at, len)) = self.gap.take() else { return };
        let is_usual = header.node_type == NodeType::Summary || node_at.is_multiple_of(SMALLEST_ERASEBLOCK);
        if len as usize >= Header::SIZE && !is_usual && !self.strict {
            self.note(Fault::Gap { len }.at(at));
        }
    }

    /// Adds a node with a good header.
    fn node(&mut self, header: Header, node: &[u8], at: u64) -> Result<(), MountError> {
        if header.node_type.is_incompatible() {
            return Err(MountError::Incompatible { at, code: header.node_type.code() });
        }
        let endian = self.endian.unwrap_or_default();
        if header.obsolete && self.has_marks {
            self.counts.obsolete_nodes += 1;
            self.counts.dirty_bytes += header.padded_len();
            if let Some(node) =
                DirentNode::parse(node, endian).ok().filter(|_| header.node_type == NodeType::Dirent)
            {
                self.names.add_marked(&node, at);
            }
            return Ok(());
        }
        // Marks on inode nodes are recorded when their file is read.
        if header.obsolete && header.node_type != NodeType::Inode {
            self.note(Fault::Marked.at(at));
        }
        let len = header.len;
        let taken = match header.node_type {
            NodeType::Inode => Inode::parse(node, endian).and_then(|inode| {
                if at + u64::from(len) > self.tail_from {
                    let data = node.get(Inode::SIZE..).and_then(|data| data.get(..inode.data_len as usize));
                    inode.check_data(data.unwrap_or_default())?;
                }
                self.inode(inode.inode, inode.version, at, len);
                Ok(())
            }),
            NodeType::Dirent => DirentNode::parse(node, endian).map(|node| {
                let dirent = &node.dirent;
                let named = Named::new(dirent.version, dirent.inode, dirent.dirent_type, at);
                self.dirent(dirent.parent, node.name, (named, Some(dirent.mctime_s)), len);
            }),
            NodeType::Xattr => XattrNode::parse(node, endian).map(|node| {
                self.counts.xattr_nodes += 1;
                self.place(at, len, Owner::Xattr(node.xattr.xid));
                let superseded = self.xattrs.add(&node, at as u32);
                self.record_superseded(at as u32, superseded);
            }),
            NodeType::Xref => Xref::parse(node, endian).map(|xref| {
                self.highest_inode = self.highest_inode.max(xref.inode);
                self.place(at, len, Owner::Xref(xref.inode));
                let superseded = self.xattrs.refer(&xref, at as u32);
                self.record_superseded(at as u32, superseded);
            }),
            NodeType::CleanMarker => {
                self.counts.clean_markers += 1;
                Ok(())
            }
            NodeType::Padding => {
                let end = at + u64::from(len.next_multiple_of(NODE_ALIGN));
                self.page_fillers += u32::from(!end.is_multiple_of(u64::from(self.blocks.erase_bytes)));
                Ok(())
            }
            NodeType::Summary => {
                if self.summaries && Summary::parse(node, endian).is_err() {
                    self.note(Fault::Summary.at(at));
                }
                Ok(())
            }
            NodeType::Other(_) => {
                self.counts.obsolete_nodes += 1;
                Ok(())
            }
        };
        if let Err(error) = taken {
            self.note(Fault::Media(error).at(at));
            self.counts.dirty_bytes += header.padded_len();
        }
        Ok(())
    }

    /// Adds a node to its eraseblock; no flash has 4 GiB or more.
    fn place(&mut self, at: u64, len: u32, owner: Owner) {
        self.end = self.end.max(at + u64::from(len));
        let rest = self.blocks.erase_bytes - at as u32 % self.blocks.erase_bytes;
        self.blocks.add(at as u32, len.next_multiple_of(NODE_ALIGN).min(rest), owner);
    }

    fn inode(&mut self, inode: u32, version: u32, at: u64, len: u32) {
        if inode == 0 {
            return self.note(Fault::NoNumber.at(at));
        }
        self.counts.inode_nodes += 1;
        self.highest_inode = self.highest_inode.max(inode);
        self.place(at, len, Owner::Inode(inode));
        let cached = self.nodes.entry(inode).or_default();
        cached.highest = cached.highest.max(version);
        cached.refs.push(NodeRef { version, at: at as u32 });
    }

    /// Sorts the nodes of each inode by version and searches for copies.
    fn sort_nodes(&mut self) {
        let mut twins = Vec::new();
        for cached in self.nodes.values_mut() {
            cached.refs.sort_unstable();
            let pairs = cached.refs.iter().zip(cached.refs.iter().skip(1));
            let pairs = pairs.filter(|(one, other)| one.version == other.version);
            twins.extend(pairs.map(|(one, other)| (one.at, other.at)));
        }
        for (one, other) in twins {
            self.twins(one, other);
        }
    }

    fn dirent(&mut self, parent: u32, name: &[u8], (named, time): (Named, Option<u32>), len: u32) {
        if parent == 0 {
            return self.note(Fault::NoNumber.at(u64::from(named.at)));
        }
        self.counts.dirent_nodes += 1;
        self.highest_inode = self.highest_inode.max(parent).max(named.inode);
        self.place(u64::from(named.at), len, Owner::Dirent(parent));
        let twin = self.names.entry(parent, name).filter(|other| other.version == named.version);
        if let Some(twin) = twin {
            self.twins(twin.at, named.at);
        }
        let superseded = self.names.add(parent, name, named, time);
        // A copy does not count as a change: another eraseblock may have been copied over this one.
        self.has_replaced |= superseded.is_some() && twin.is_none();
        self.superseded.extend(superseded);
    }

    /// Records the superseded one of two nodes for the same attribute.
    fn record_superseded(&mut self, at: u32, superseded: Option<SupersededNode>) {
        let Some(SupersededNode { at: lost, other, is_copy }) = superseded else { return };
        if is_copy {
            self.twins(at, other);
        }
        self.has_replaced |= !is_copy;
        self.superseded.push(lost);
    }

    /// Records two nodes of one version as copies: power was lost before or while the eraseblock of the older one was
    /// erased.
    fn twins(&mut self, one: u32, other: u32) {
        for at in [one, other] {
            self.unsettled.insert(at / self.blocks.erase_bytes);
        }
        self.copies.insert(one.max(other), one.min(other));
    }

    /// True if a filesystem has written or erased here since the image was made: image makers never erase, and write in
    /// one go.
    pub(super) const fn was_changed(&self) -> bool {
        self.has_gap || self.page_fillers > 1 || self.has_replaced
    }

    /// Eraseblocks to empty before the first write. If no eraseblock is partly written, the last write filled one of
    /// the full ones; their last pages are returned second.
    pub(super) fn take_unsettled(&mut self, flash: &mut Flash<dyn Mtd>) -> (Vec<u32>, Vec<u32>) {
        // Linux leaves the end of an eraseblock unwritten if it is too short for the next node.
        let open = |&(room, _): &(u32, u32)| room > LONGEST_NODE;
        let most = self.partial.iter().max().copied();
        let written = self.partial.iter().copied().filter(open).chain(most).map(|(_, number)| number);
        let mut unsettled = std::mem::take(&mut self.unsettled);
        unsettled.extend(written);
        // A write to the first page of the next free eraseblock may have begun.
        self.blocks.distrust_free(!self.nodes.is_empty());
        self.full.retain(|number| !unsettled.contains(number));
        if unsettled.is_empty() {
            let has_damage = |number: &u32| {
                let start = u64::from(self.blocks.start(*number));
                let end = start + u64::from(self.blocks.erase_bytes);
                self.damage.iter().any(|damage| (start..end).contains(&damage.at))
            };
            unsettled.extend(self.full.iter().copied().filter(has_damage));
        } else {
            for number in std::mem::take(&mut self.full) {
                let start = u64::from(self.blocks.start(number));
                flash.thaw(start..start + u64::from(self.blocks.erase_bytes));
            }
        }
        (unsettled.into_iter().collect(), std::mem::take(&mut self.full))
    }

    fn note(&mut self, mut damage: Damage) {
        self.faulty = true;
        if self.summary_at == Some(damage.at) {
            damage.fault = Fault::Summary;
        }
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        }
    }
}

//! Reading the log: the list of the LEBs in the journal (Linux: `fs/ubifs/replay.c`).

use floatgate_media::ubifs::{Node, NodeType, Reference};

use super::findings::Findings;
use super::note_sqnum;
use super::recover::recover_leb;
use crate::ubifs::auth::LogChain;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use crate::ubifs::journal::{Bud, Log, LogPosition, next_leb};
use crate::ubifs::layout::Head;
use crate::ubifs::scan::{Scanned, ScannedLeb, ScannedNode, read_to_end, scan, scan_node};

/// State of reading the log.
struct Reader<'l> {
    log: &'l mut Log,
    /// Buds in the order of their references.
    buds: Vec<(u32, Bud)>,
    /// Sequence number of the commit start; older nodes belong to the previous round of the log.
    start_sqnum: Option<u64>,
    /// Number of the commit.
    commit: u64,
    recovering: bool,
    chain: &'l mut LogChain,
    /// Bytes of the last LEB of the log.
    last: Option<Vec<u8>>,
}

/// Reads the log from its tail, where the last commit started. Sets buds and head in `log`, and hashes in `chain`.
/// Returns the buds in the order in which they were added.
///
/// # Errors
/// A missing commit start, damage that is not at the end of the log, invalid references.
pub(super) fn read_log(
    io: &mut DynIo<'_>,
    log: &mut Log,
    commit: u64,
    recovering: bool,
    chain: &mut LogChain,
    findings: &mut Findings,
) -> Result<Vec<(u32, Bud)>> {
    let tail = log.tail();
    let layout = io.layout().clone();
    let mut reader =
        Reader { log, buds: Vec::new(), start_sqnum: None, commit, recovering, chain, last: None };
    let mut lnum = tail;
    while findings.pass(reader.read_leb(io, lnum))? == Some(true) {
        lnum = next_leb(&layout, lnum);
        if lnum == tail {
            break;
        }
    }
    if reader.start_sqnum.is_none() {
        findings.pass(Err::<(), _>(Error::corrupt(tail, 0, "no node where the log begins")))?;
    }
    if recovering && !io.is_read_only() {
        reader.check_end(io)?;
    }
    Ok(reader.buds)
}

impl Reader<'_> {
    /// Reads a LEB of the log; true if the log may continue in the next one.
    fn read_leb(&mut self, io: &mut DynIo<'_>, lnum: u32) -> Result<bool> {
        let leb = match scan(io, lnum, 0) {
            Err(error) if error.is_damage() && self.recovering => match self.recover(io, lnum, error)? {
                Some(leb) => leb,
                None => return Ok(false),
            },
            outcome => outcome?,
        };
        let Some(first) = leb.nodes.first() else { return Ok(false) };
        let start_sqnum = match self.start_sqnum {
            Some(sqnum) => sqnum,
            None => self.check_start(&leb, first)?,
        };
        if first.stamp.sqnum < start_sqnum {
            return Ok(false);
        }
        if first.place.offset != 0 {
            return Err(Error::corrupt(lnum, first.place.offset, "a LEB of the log begins with padding"));
        }
        for node in &leb.nodes {
            self.read_one(io, &leb, node, start_sqnum)?;
        }
        self.log.set_head(LogPosition { lnum, offset: leb.end });
        self.last = leb.bytes.get(..leb.end as usize).map(<[u8]>::to_vec);
        Ok(leb.end > 0)
    }

    /// Makes sure that the log reads the same from now on, which Linux does not do. A log write interrupted by a power
    /// cut may be unstable, and so may LEBs outside the log whose erase was interrupted. So the last LEB is rewritten,
    /// and unused LEBs are unmapped.
    fn check_end(&self, io: &mut DynIo<'_>) -> Result<()> {
        let (layout, tail) = (io.layout().clone(), self.log.tail());
        let head = self.log.head().lnum;
        if let Some(bytes) = &self.last {
            io.change(head, bytes)?;
        }
        let mut lnum = next_leb(&layout, head);
        while lnum != tail {
            io.unmap(lnum)?;
            lnum = next_leb(&layout, lnum);
        }
        Ok(())
    }

    /// Checks that the first node of the log starts the last commit.
    fn check_start(&mut self, leb: &ScannedLeb, first: &ScannedNode) -> Result<u64> {
        let (lnum, offset) = (leb.lnum, first.place.offset);
        let frame = leb.frame(first)?;
        match frame.node().map_err(|source| Error::node(lnum, offset, source))? {
            Node::CommitStart(start) if start.commit == self.commit => {}
            Node::CommitStart(_) => return Err(Error::corrupt(lnum, offset, "the log is of another commit")),
            _ => {
                let expected = NodeType::CommitStart;
                return Err(Error::WrongNode { lnum, offset, expected, found: first.node_type });
            }
        }
        self.chain.start(frame.as_bytes());
        self.start_sqnum = Some(first.stamp.sqnum);
        Ok(first.stamp.sqnum)
    }

    fn read_one(
        &mut self,
        io: &mut DynIo<'_>,
        leb: &ScannedLeb,
        node: &ScannedNode,
        start_sqnum: u64,
    ) -> Result<()> {
        let (lnum, offset) = (leb.lnum, node.place.offset);
        note_sqnum(io, node.place, node.stamp.sqnum)?;
        if node.stamp.sqnum < start_sqnum {
            return Err(Error::corrupt(lnum, offset, "a node of the log is older than its commit"));
        }
        let frame = leb.frame(node)?;
        match frame.node().map_err(|source| Error::node(lnum, offset, source))? {
            Node::Reference(reference) => {
                let damaged = |source| Error::node(lnum, offset, source);
                reference.check(&io.layout().limits).map_err(damaged)?;
                let added = self.add(io, &reference, frame.as_bytes());
                added.ok_or(Error::corrupt(lnum, offset, "a LEB is in the journal twice"))
            }
            Node::CommitStart(_) if offset == 0 => Ok(()),
            _ => Err(Error::corrupt(lnum, offset, "not a node of the log")),
        }
    }

    /// Adds a bud. A failed commit may have referenced open buds again, with a later start; these are not added.
    fn add(&mut self, io: &DynIo<'_>, reference: &Reference, node: &[u8]) -> Option<()> {
        let Reference { lnum, offset: start, head } = *reference;
        let head = Head::from_number(head)?;
        if let Some(known) = self.log.buds().get(&lnum) {
            return (known.head == head && known.start <= start).then_some(());
        }
        let bud = Bud { head, start };
        self.log.add_bud(io.layout(), lnum, bud);
        self.buds.push((lnum, bud));
        self.chain.add_bud(lnum, node);
        Some(())
    }

    /// Scans a damaged LEB of the log. A power cut damages only the end of the log, so the next LEB must be empty or
    /// old. `None` if this LEB is empty or old too: then its first write or its erase was interrupted.
    fn recover(&self, io: &mut DynIo<'_>, lnum: u32, error: Error) -> Result<Option<ScannedLeb>> {
        let start = match self.start_sqnum {
            Some(sqnum) => sqnum,
            None => self.start_of_damaged(io, lnum)?,
        };
        let next = next_leb(io.layout(), lnum);
        if next != self.log.tail() && newest_sqnum(io, next)?.is_some_and(|sqnum| sqnum > start) {
            return Err(error);
        }
        if newest_sqnum(io, lnum)?.is_none_or(|sqnum| sqnum < start) {
            return Ok(None);
        }
        recover_leb(io, lnum, 0, None).map(Some)
    }

    /// Sequence number of the commit start in the first LEB of the log, whose end is damaged.
    fn start_of_damaged(&self, io: &mut DynIo<'_>, lnum: u32) -> Result<u64> {
        let mut leb = ScannedLeb::read(io, lnum, 0)?;
        leb.scan()?;
        let first = leb.nodes.first().filter(|node| node.node_type == NodeType::CommitStart);
        first.map(|node| node.stamp.sqnum).ok_or(Error::corrupt(lnum, 0, "no commit start in the log"))
    }
}

/// Highest sequence number of the good nodes in a LEB of the log.
fn newest_sqnum(io: &mut DynIo<'_>, lnum: u32) -> Result<Option<u64>> {
    let bytes = read_to_end(io, lnum, 0)?;
    let step = io.layout().min_io_bytes().max(8) as usize;
    let nodes = (0..bytes.len()).step_by(step).filter_map(|at| match scan_node(&bytes[at..]) {
        Scanned::Node(frame) => Some(frame.stamp.sqnum),
        _ => None,
    });
    Ok(nodes.max())
}

//! Hashes of the log and the journal, and the HMACs that vouch for them.
//!
//! The hash begins with the commit start and goes on over the references to LEBs of the journal. For each LEB it is continued from
//! its reference on by the nodes in it, as long as they are in their headers. Nodes that are only HMACs are left out of it, and so
//! is padding.

use std::collections::BTreeMap;

use floatgate_media::ubifs::NodeType;

use super::Verifier;
use super::digest::Running;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::scan::{ScannedLeb, ScannedNode};

/// Bytes of a node before the HMAC that it holds.
const HEADER_BYTES: usize = 24;

/// The hash of the log, and where it has got to at each bud. Does nothing without a key.
#[derive(Default)]
pub(crate) struct LogChain {
    now: Option<Running>,
    buds: BTreeMap<u32, Running>,
}

impl LogChain {
    /// Before the log.
    pub(crate) fn new(verifier: Option<&Verifier>) -> Self {
        let keyed = verifier.filter(|verifier| verifier.key.is_some());
        Self { now: keyed.map(|verifier| verifier.hasher.start()), buds: BTreeMap::new() }
    }

    /// True when the journal is verified.
    pub(crate) const fn verifies(&self) -> bool {
        self.now.is_some()
    }

    /// The log begins with this node.
    pub(crate) fn start(&mut self, node: &[u8]) {
        if let Some(now) = &mut self.now {
            now.update(node);
        }
    }

    /// A reference to a LEB of the journal that was not referred to before.
    pub(crate) fn add_bud(&mut self, lnum: u32, reference: &[u8]) {
        if let Some(now) = &mut self.now {
            now.update(reference);
            self.buds.insert(lnum, now.clone());
        }
    }

    /// Leaves only the nodes of a bud that are authentic, and returns how many it dropped.
    ///
    /// # Errors
    /// [`Error::Unauthentic`]: an HMAC that is not the nodes'; nodes without one, unless it is the `last` bud of its head, where
    /// power can have been cut before the HMAC. Authentic nodes are left then, too.
    pub(crate) fn authenticate(&self, verifier: &Verifier, leb: &mut ScannedLeb, last: bool) -> Result<u32> {
        let Some(start) = self.buds.get(&leb.lnum) else { return Ok(0) };
        let (good, outcome) = authentic(verifier, start.clone(), leb);
        let dropped = leb.nodes.split_off(good);
        outcome?;
        match dropped.first() {
            Some(first) if !last => {
                let (lnum, offset) = (leb.lnum, first.place.offset);
                Err(Error::unauthentic(lnum, offset, "nodes of the journal that nothing authenticates"))
            }
            _ => Ok(u32::try_from(dropped.len()).unwrap_or(u32::MAX)),
        }
    }
}

/// The number of nodes of a bud that are authentic, and whether an HMAC is wrong.
fn authentic(verifier: &Verifier, mut hash: Running, leb: &ScannedLeb) -> (usize, Result<()>) {
    let mut good = 0;
    for (index, node) in leb.nodes.iter().enumerate() {
        let bytes = bytes_of(leb, node);
        if node.node_type != NodeType::Auth {
            hash.update(bytes);
            continue;
        }
        let hmac = verifier.hmac(&[&hash.clone().finish()]);
        if hmac.as_deref() != bytes.get(HEADER_BYTES..) {
            let what = "nodes of the journal have another HMAC than the node behind them says";
            return (good, Err(Error::unauthentic(leb.lnum, node.place.offset, what)));
        }
        good = index + 1;
    }
    (good, Ok(()))
}

fn bytes_of<'l>(leb: &'l ScannedLeb, node: &ScannedNode) -> &'l [u8] {
    leb.from(node.place.offset).get(..node.place.len as usize).unwrap_or(&[])
}

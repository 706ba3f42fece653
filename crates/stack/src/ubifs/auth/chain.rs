//! Hashes of the log and the journal, and the HMACs that authenticate them.
//!
//! The hash begins with the commit start node and continues over the reference nodes of the log. For each bud, a copy
//! of it continues from the bud's reference over the nodes in the bud, as they are stored. Authentication nodes and
//! padding are left out.

use std::collections::BTreeMap;

use floatgate_media::ubifs::NodeType;

use super::Verifier;
use super::digest::Running;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::scan::{ScannedLeb, ScannedNode};

/// Size of an authentication node before its HMAC, B.
const HEADER_BYTES: usize = 24;

/// Hash of the log, and its state at each bud. Does nothing without a key.
#[derive(Default)]
pub(crate) struct LogChain {
    now: Option<Running>,
    buds: BTreeMap<u32, Running>,
}

impl LogChain {
    /// Initial state before the log.
    pub(crate) fn new(verifier: Option<&Verifier>) -> Self {
        let keyed = verifier.filter(|verifier| verifier.key.is_some());
        Self { now: keyed.map(|verifier| verifier.hasher.start()), buds: BTreeMap::new() }
    }

    /// True if the journal is verified.
    pub(crate) const fn verifies(&self) -> bool {
        self.now.is_some()
    }

    /// Starts with the first node of the log.
    pub(crate) fn start(&mut self, node: &[u8]) {
        if let Some(now) = &mut self.now {
            now.update(node);
        }
    }

    /// Adds the reference node of a new bud.
    pub(crate) fn add_bud(&mut self, lnum: u32, reference: &[u8]) {
        if let Some(now) = &mut self.now {
            now.update(reference);
            self.buds.insert(lnum, now.clone());
        }
    }

    /// Removes the nodes of a bud that are not authentic, and returns their number.
    ///
    /// # Errors
    /// [`Error::Unauthentic`]: an HMAC does not match the nodes, or nodes have none. In the `last` bud of its head, a
    /// power cut may explain a missing HMAC. Authentic nodes remain in case of an error, too.
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

/// Number of authentic nodes in a bud, and an error for a wrong HMAC.
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

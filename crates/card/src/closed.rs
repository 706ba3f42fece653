//! Index of the closed blocks for cleaning and wear levelling, so that neither must scan all blocks of a large card.
//!
//! Blocks are divided into groups, and each group stores its best block of each kind. If a block loses a valid unit, it may become the
//! best one. If a block is closed or freed, its group becomes stale and is scanned before the next query.

use crate::nand::{Block, Kind, POOLS, State};

/// Number of blocks in a group.
const GROUP: usize = 128;

/// Number of kinds of blocks.
const KINDS: usize = 6;

/// The best closed blocks of one kind in a group, each with its number. If several blocks are equal, the first one
/// counts.
#[derive(Clone, Copy, Debug)]
struct Best {
    /// Block with the fewest valid units.
    emptiest: (u32, u32),
    /// Block whose first page has the lowest sequence number.
    oldest: (u64, u32),
}

const NONE: Best = Best { emptiest: (u32::MAX, u32::MAX), oldest: (u64::MAX, u32::MAX) };

#[derive(Clone, Copy, Debug)]
struct Group {
    is_stale: bool,
    best: [Best; KINDS],
    /// Closed block with the fewest erases in each [`Kind::pool`].
    least_worn: [(u32, u32); POOLS],
}

const STALE: Group = Group { is_stale: true, best: [NONE; KINDS], least_worn: [(u32::MAX, u32::MAX); POOLS] };

/// Index of the closed blocks of a card.
#[derive(Clone, Debug)]
pub(crate) struct ClosedBlocks {
    groups: Vec<Group>,
}

impl ClosedBlocks {
    pub(crate) fn new(blocks: usize) -> Self {
        Self { groups: vec![STALE; blocks.div_ceil(GROUP)] }
    }

    /// Records that a block was closed, or that a closed block was freed.
    #[inline]
    pub(crate) fn changed(&mut self, block: u32) {
        self.groups[block as usize / GROUP].is_stale = true;
    }

    /// Records that any block may have changed.
    pub(crate) fn all_changed(&mut self) {
        self.groups.fill(STALE);
    }

    /// Records that a closed block has lost a valid unit.
    #[inline]
    pub(crate) fn emptied(&mut self, number: u32, block: &Block) {
        let best = &mut self.groups[number as usize / GROUP].best[block.kind as usize];
        best.emptiest = best.emptiest.min((block.valid, number));
    }

    /// Updates all stale groups.
    pub(crate) fn update(&mut self, blocks: &[Block]) {
        for ((group, blocks), number) in self.groups.iter_mut().zip(blocks.chunks(GROUP)).zip(0u32..) {
            if group.is_stale {
                *group = Group::of(number * GROUP as u32, blocks);
            }
        }
    }

    fn best(&self, kind: Kind) -> impl Iterator<Item = &Best> {
        self.groups.iter().map(move |group| &group.best[kind as usize])
    }

    /// The closed block of a kind with the fewest valid units; [`Self::update`] must have been called.
    pub(crate) fn emptiest(&self, kind: Kind) -> Option<u32> {
        let best = self.best(kind).map(|best| best.emptiest).min();
        best.map(|(_, number)| number).filter(|number| *number < u32::MAX)
    }

    /// The closed block of a kind that was opened first.
    pub(crate) fn oldest(&self, kind: Kind) -> Option<u32> {
        let best = self.best(kind).map(|best| best.oldest).min();
        best.map(|(_, number)| number).filter(|number| *number < u32::MAX)
    }

    /// The closed block of a pool with the fewest erases.
    pub(crate) fn least_worn(&self, pool: usize) -> Option<u32> {
        let best = self.groups.iter().map(|group| group.least_worn[pool]).min();
        best.map(|(_, number)| number).filter(|number| *number < u32::MAX)
    }

    /// True if the groups agree with a scan of all these blocks.
    pub(crate) fn holds(&self, blocks: &[Block]) -> bool {
        let (mut own, mut anew) = (self.clone(), Self::new(blocks.len()));
        [&mut own, &mut anew].into_iter().for_each(|index| index.update(blocks));
        let kinds = [Kind::Main, Kind::Log, Kind::Fat, Kind::Slc, Kind::Discards, Kind::Enhanced];
        (0..POOLS).all(|pool| own.least_worn(pool) == anew.least_worn(pool))
            && kinds.into_iter().all(|kind| {
                own.emptiest(kind) == anew.emptiest(kind) && own.oldest(kind) == anew.oldest(kind)
            })
    }

    /// All closed blocks of a kind, in the order of their numbers.
    pub(crate) fn of<'a>(
        &'a self,
        kind: Kind,
        blocks: &'a [Block],
    ) -> impl Iterator<Item = (&'a Block, u32)> + 'a {
        let groups = self.groups.iter().zip(blocks.chunks(GROUP)).zip(0u32..);
        let groups = groups.filter(move |((group, _), _)| group.best[kind as usize].oldest.1 < u32::MAX);
        let each = groups.flat_map(|((_, blocks), number)| blocks.iter().zip(number * GROUP as u32..));
        each.filter(move |(block, _)| block.state == State::Closed && block.kind == kind)
    }
}

impl Group {
    fn of(first: u32, blocks: &[Block]) -> Self {
        let mut group = Self { is_stale: false, ..STALE };
        for (block, number) in blocks.iter().zip(first..).filter(|(block, _)| block.state == State::Closed) {
            let best = &mut group.best[block.kind as usize];
            best.emptiest = best.emptiest.min((block.valid, number));
            best.oldest = best.oldest.min((block.opened, number));
            let least_worn = &mut group.least_worn[block.kind.pool()];
            *least_worn = (*least_worn).min((block.erases, number));
        }
        group
    }
}

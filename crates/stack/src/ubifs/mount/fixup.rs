//! Erasing the free space of an image that was written as a whole (Linux: `fixup_free_space` in `fs/ubifs/sb.c`).
//!
//! A programmer that writes ones to pages leaves them looking erased, but with programmed ECC bytes, so the next write
//! fails. So every LEB with data and free space is rewritten, and completely free LEBs are unmapped.

use floatgate_media::ubifs::{CommitStart, MASTER_LEB};

use crate::ubifs::core::Core;
use crate::ubifs::error::Result;
use crate::ubifs::io::DynIo;
use crate::ubifs::journal::next_leb;
use crate::volume::Volume;

impl Core<dyn Volume> {
    /// Erases all free space. Called before the journal is replayed, because an image has an empty journal.
    pub(super) fn fix_up_space(&mut self) -> Result<()> {
        for lnum in [MASTER_LEB, MASTER_LEB + 1] {
            fix_up(&mut self.io, lnum, self.master_offset)?;
        }
        self.fix_up_log()?;
        let limits = self.io.layout().limits.clone();
        let leb_bytes = limits.leb_bytes;
        for lnum in limits.lpt {
            let free = self.space.lpt_free(lnum);
            fix_up(&mut self.io, lnum, leb_bytes - free.min(leb_bytes))?;
        }
        for lnum in limits.orphans {
            fix_up(&mut self.io, lnum, 0)?;
        }
        for lnum in limits.main {
            let free = self.space.get(lnum)?.free;
            fix_up(&mut self.io, lnum, leb_bytes - free.min(leb_bytes))?;
        }
        Ok(())
    }

    /// Rewrites the log, which contains only a commit start.
    fn fix_up_log(&mut self) -> Result<()> {
        let layout = self.io.layout().clone();
        let head = self.master.log_lnum;
        let mut lnum = next_leb(&layout, head);
        while lnum != head {
            fix_up(&mut self.io, lnum, 0)?;
            lnum = next_leb(&layout, lnum);
        }
        let used = u32::try_from(CommitStart::SIZE).unwrap_or(0).next_multiple_of(layout.min_io_bytes());
        fix_up(&mut self.io, head, used)
    }
}

/// Erases a LEB from the offset `used` on.
fn fix_up(io: &mut DynIo<'_>, lnum: u32, used: u32) -> Result<()> {
    if used == 0 {
        return io.unmap(lnum);
    }
    if used >= io.layout().leb_bytes() {
        return Ok(());
    }
    let mut bytes = vec![0; used as usize];
    io.volume_mut().read(lnum, 0, &mut bytes)?;
    io.change(lnum, &bytes)
}

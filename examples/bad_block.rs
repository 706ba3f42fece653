//! Bad blocks: those from the factory, and one that goes bad later: `cargo run -p floatgate-lab --example bad_block`.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use floatgate_config::Library;
use floatgate_mtd::Mtd;
use floatgate_sim::rig::{self, RigOptions};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let library = Library::built_in();
    let config = library.resolve(&library.setup("am62a-nopm-w35n01jw")?, &[])?;
    // The seed decides which blocks are bad, and all else that differs from chip to chip.
    let options = RigOptions { seed: 42, bad_blocks: 5, ..RigOptions::default() };
    let mut rig = rig::wire(&library, &config, options)?;

    let (block_bytes, blocks) =
        (u64::from(rig.device.geometry().erase_bytes), rig.device.geometry().blocks());
    let mut now = rig.now();
    let mut bad = Vec::new();
    for block in 0..blocks {
        let (is_bad, at) = rig.device.is_bad(now, u64::from(block) * block_bytes)?;
        now = at;
        bad.extend(is_bad.then_some(block));
    }
    println!("bad from the factory: {bad:?}");
    assert_eq!(bad.len(), 5);

    // Linux marks a block when it fails to program or to erase. It stays bad for good.
    let marked = rig.device.mark_bad(now, 7 * block_bytes)?;
    assert!(rig.device.is_bad(marked.at, 7 * block_bytes)?.0);
    match rig.device.erase(marked.at, 7 * block_bytes, block_bytes) {
        Ok(_) => Err("a bad block was erased".into()),
        Err(refused) => {
            println!("block 7: {refused}");
            Ok(())
        }
    }
}

//! READ ID bytes, with and without a JEDEC signature.

#![no_main]

use floatgate_media::nand_id::{self, NandId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(id) = NandId::new(data) else { return };
    let _ = id.with_jedec_signature().geometry();
    let Ok(geometry) = id.geometry() else { return };
    assert!(geometry.page_bytes > 0 && geometry.oob_bytes > 0 && geometry.block_bytes > 0);
    if let Ok(bytes) = nand_id::emit(id.manufacturer(), &geometry) {
        assert_eq!(nand_id::parse(&bytes), Ok(geometry));
    }
});

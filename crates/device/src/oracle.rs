//! What only a simulator can know of a chip.

/// Knowledge of the page whose bytes were read last, which a driver uses to decode no more than it must. On real hardware nobody has
/// it: bytes are then decoded, which finds the same, only slower.
pub trait PageTruth {
    /// The wrong bits of that page (offsets, sorted); `None` where nobody knows.
    fn wrong_bits(&self) -> Option<&[u32]> {
        None
    }

    /// True when that page is known to hold just what one program wrote.
    fn is_as_programmed(&self) -> bool {
        false
    }

    /// True when page bytes are stored at all; `false` in timing-only mode.
    fn keeps_data(&self) -> bool;
}

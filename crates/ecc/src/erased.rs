//! Detection of erased pages with bitflips.

/// Error: an ECC step has too many zero bits for an erased page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more zero bits than an erased page may have")]
pub struct NotErased;

/// Checks that one ECC step is erased: its data, ECC and further OOB bytes have at most `threshold` zero bits together.
/// If so, all bytes are set to 0xFF, and the number of zero bits is returned. Otherwise the bytes stay unchanged.
///
/// Linux uses the same rule (`nand_check_erased_ecc_chunk`, facts 5). The code itself cannot detect an erased page,
/// because the ECC bytes of an erased page need not match its data.
///
/// # Errors
/// `NotErased`.
pub fn check_erased(
    data: &mut [u8],
    ecc: &mut [u8],
    free_oob: &mut [u8],
    threshold: u32,
) -> Result<u32, NotErased> {
    let mut zeros = 0;
    let parts = [data, ecc, free_oob];
    for part in &parts {
        // The check is done in pieces, so that it ends early in a page with data.
        for piece in part.chunks(64) {
            zeros += piece.iter().map(|byte| byte.count_zeros()).sum::<u32>();
            if zeros > threshold {
                return Err(NotErased);
            }
        }
    }
    if zeros > 0 {
        parts.into_iter().for_each(|part| part.fill(0xFF));
    }
    Ok(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_bits_count_wherever_they_are() {
        let (mut data, mut ecc, mut free) = ([0xFF; 512], [0xFF; 13], [0xFF; 3]);
        data[511] = 0xFE;
        ecc[0] = 0x7F;
        free[2] = 0xF3;
        let before = (data, ecc, free);
        assert_eq!(check_erased(&mut data, &mut ecc, &mut free, 3), Err(NotErased));
        assert_eq!((data, ecc, free), before);
        assert_eq!(check_erased(&mut data, &mut ecc, &mut free, 4), Ok(4));
        assert_eq!((data, ecc, free), ([0xFF; 512], [0xFF; 13], [0xFF; 3]));
        assert_eq!(check_erased(&mut data, &mut ecc, &mut free, 0), Ok(0));
        assert_eq!(check_erased(&mut [], &mut [], &mut [], 0), Ok(0));
    }
}

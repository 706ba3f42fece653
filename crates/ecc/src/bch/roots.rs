//! From the error locator polynomial to the wrong bits.

use super::field::Field;
use crate::Uncorrectable;
use crate::code::MAX_STRENGTH;

/// Positions of wrong bits.
pub(crate) type Positions = [u16; MAX_STRENGTH as usize];

/// The positions p below `bits` with `locator(a^-p) = 0`, one after the other (Chien 1964): from one position to the next
/// each term i changes by the factor a^-i.
///
/// # Errors
/// `Uncorrectable` when there are fewer than the locator's degree: some error lies outside the word.
pub(crate) fn chien<'a>(
    field: &Field,
    locator: &[u16],
    bits: usize,
    positions: &'a mut Positions,
) -> Result<&'a [u16], Uncorrectable> {
    let mut terms = [0; MAX_STRENGTH as usize + 1];
    terms[..locator.len()].copy_from_slice(locator);
    let mut found = 0;
    for position in 0..bits {
        if terms.iter().fold(0, |sum, term| sum ^ term) == 0 {
            positions[found] = position as u16;
            found += 1;
            if found == locator.len() - 1 {
                break;
            }
        }
        for (i, term) in terms.iter_mut().enumerate().take(locator.len()).skip(1) {
            *term = field.mul(*term, field.exp(field.order() - i));
        }
    }
    if found == locator.len() - 1 { Ok(&positions[..found]) } else { Err(Uncorrectable) }
}

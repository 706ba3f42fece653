//! Environments of U-Boot: a CRC, a flag in a redundant pair, and variables.
//!
//! An environment does not contain its size. The right size is the one with a right CRC.

use super::{Begins, Probe};
use crate::map::partitions;
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use floatgate_media::crc;

pub(super) const PROBE: Probe = Probe { begins: Begins::Head { step: 512, front: 0, test: begins }, probe };

/// Step of the sizes that are tried, bytes.
const STEP: u64 = 256;

/// Size of the largest environment, bytes.
pub(crate) const SIZE_MAX: u64 = 1 << 20;

/// Length of the longest name of the first variable.
const NAME_MAX: usize = 64;

/// Header before the variables: the CRC, and a flag in a redundant pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Single,
    Redundant,
}

impl Header {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Single => 4,
            Self::Redundant => 5,
        }
    }
}

/// True if a variable begins: a name and `=`.
pub(crate) fn begins_variable(bytes: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-#:".contains(byte);
    let len = bytes.iter().take(NAME_MAX).take_while(|byte| is_name(byte)).count();
    len > 0 && bytes.get(len) == Some(&b'=')
}

/// True if variables may begin after a header.
pub(crate) fn begins(head: &[u8]) -> bool {
    [Header::Single, Header::Redundant]
        .iter()
        .any(|header| head.get(header.bytes()..).is_some_and(begins_variable))
}

/// Size and header of the environment at the start of a range.
pub(crate) fn size(view: &View<'_>) -> Option<(u64, Header)> {
    let stored = view.array::<4>(0).map(u32::from_le_bytes)?;
    let first = view.array::<1>(4)?[0];
    let mut registers = [(Header::Single, crc::ubi(&[first])), (Header::Redundant, crc::ubi(&[]))];
    let mut at = 5;
    while at < SIZE_MAX.min(view.len()) {
        let end = (at + 1).next_multiple_of(STEP).min(view.len());
        let bytes = view.bytes(at, usize::try_from(end - at).ok()?)?;
        for (header, register) in &mut registers {
            *register = crc::ubi_update(*register, &bytes);
            // The CRC is in the byte order of the CPU.
            if [stored, stored.swap_bytes()].contains(&!*register) {
                return Some((end, *header));
            }
        }
        at = end;
    }
    None
}

/// Variables after a header, in their order.
pub(crate) fn variables(bytes: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let entries = bytes.split(|&byte| byte == 0).take_while(|entry| !entry.is_empty());
    entries
        .filter_map(|entry| {
            let at = memchr::memchr(b'=', entry)?;
            Some((text(&entry[..at]), text(&entry[at + 1..])))
        })
        .collect()
}

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let (len, header) = size(view)?;
    let bytes = view.bytes(0, usize::try_from(len).ok()?)?;
    Some(describe(&bytes, header).sum_is(true))
}

/// Match for an environment of known size.
pub(crate) fn describe(bytes: &[u8], header: Header) -> ProbeMatch {
    let variables = variables(bytes.get(header.bytes()..).unwrap_or_default());
    let mut found =
        ProbeMatch::new(Kind::UbootEnv, bytes.len() as u64).number("variables", variables.len() as u64);
    if header == Header::Redundant {
        found = found.number("flag", bytes.get(4).copied().unwrap_or(0));
    }
    if bytes.le32(0) == 0 && variables.is_empty() {
        return found;
    }
    found.partitions = partitions::of_variables(&variables);
    found
}

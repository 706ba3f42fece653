//! Dump of PEB headers, field by field.

use floatgate_media::MediaError;
use floatgate_media::ubi::{EC_MAGIC, EcHeader, ReadFlips, VID_MAGIC, VidHeader};
use floatgate_stack::ubi::HeaderState;

use super::device::Device;
use crate::ImageError;
use crate::image::Origin;
use crate::report::Dumped;

pub(crate) fn of_peb(device: Option<&Device>, pnum: u32, origin: &Origin) -> Result<Vec<Dumped>, ImageError> {
    let none = || ImageError::NoNode(format!("there is no PEB {pnum}"));
    let device =
        device.ok_or_else(|| ImageError::NoNode("there is no UBI around the filesystem".to_owned()))?;
    let peb = device.survey.pebs().get(pnum as usize).ok_or_else(none)?;
    let start = device.peb_start(pnum);
    let (mut ec, mut vid) = (of_ec(&peb.ec), of_vid(&peb.vid));
    ec.at = Some(origin.file_byte(start));
    vid.at = Some(origin.file_byte(start + u64::from(device.survey.geometry().vid_header_offset())));
    Ok(vec![ec, vid])
}

/// EC or VID header that begins with these bytes, according to the magic number.
pub(crate) fn of_header(bytes: &[u8]) -> Option<Dumped> {
    match *bytes.first_chunk()? {
        EC_MAGIC => Some(of_ec(&state(EcHeader::parse(bytes, ReadFlips::default())))),
        VID_MAGIC => Some(of_vid(&state(VidHeader::parse(bytes, ReadFlips::default())))),
        _ => None,
    }
}

/// State of a header that was parsed alone.
fn state<T>(parsed: Result<T, MediaError>) -> HeaderState<T> {
    parsed.map_or_else(HeaderState::Damaged, HeaderState::Good)
}

fn of_ec(header: &HeaderState<EcHeader>) -> Dumped {
    let mut dumped = Dumped::new("EC header", EcHeader::SIZE);
    if let HeaderState::Good(header) = header {
        header.each_field(&mut |offset, name, value| dumped.add(offset, name, value));
    }
    dumped.with_state(header)
}

fn of_vid(header: &HeaderState<VidHeader>) -> Dumped {
    let mut dumped = Dumped::new("VID header", VidHeader::SIZE);
    if let HeaderState::Good(header) = header {
        header.each_field(&mut |offset, name, value| dumped.add(offset, name, value));
    }
    dumped.with_state(header)
}

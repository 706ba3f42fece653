//! Remaining nodes of a UBIFS.

use floatgate_media::ubifs::{BLOCK_BYTES, KeyType, ROOT_INODE};
use floatgate_stack::ubifs::{Change as NodeChange, Event, Survey};

use crate::ImageError;
use crate::format::volume::open_volume;
use crate::report::{Change, LastNames, Revision};
use crate::selection::Chosen;
use crate::words::show_name;

/// Lists the nodes, the oldest first.
///
/// # Errors
/// Several volumes exist and none is selected, no filesystem, or the file cannot be read.
pub(crate) fn list(chosen: Chosen<'_>) -> Result<Vec<Revision>, ImageError> {
    let (volume, _, origin) = open_volume(chosen)?;
    let mut survey = Survey::new(volume).map_err(|(error, _)| error)?;
    let events = survey.history()?;
    let live: Vec<bool> = events.iter().map(|event| survey.is_live(event)).collect();
    let mut names = LastNames::default();
    for (event, &live) in events.iter().zip(&live) {
        if let NodeChange::Entry { name, child: Some(child) } = &event.change
            && event.key.key_type() != KeyType::XattrEntry
        {
            names.add(child.inode, (live, event.sqnum, 0), (event.key.inum(), name));
        }
    }
    let volume = survey.into_volume();
    let revision = |(event, live): (&Event, bool)| {
        let place = volume.place(event.place.lnum);
        let byte = place.map(|place| origin.file_byte(place + u64::from(event.place.offset)));
        Revision { live, byte, ..describe(event, &names) }
    };
    Ok(events.iter().zip(live).map(revision).collect())
}

fn describe(event: &Event, names: &LastNames) -> Revision {
    let inode = event.key.inum();
    let mut path = names.path(inode, ROOT_INODE);
    let mut time = None;
    let (change, what) = match &event.change {
        NodeChange::Deletion => (Change::Deleted, "deleted".to_owned()),
        NodeChange::Inode { mode, size, ctime } => {
            time = Some(ctime.seconds);
            (Change::Inode, format!("mode {mode:o}, {size} bytes"))
        }
        NodeChange::Data { size } => {
            let from = u64::from(event.key.block()) * u64::from(BLOCK_BYTES);
            (Change::Data, format!("bytes {from} to {}", from + u64::from(*size)))
        }
        NodeChange::Entry { name, child } => {
            let is_xattr = event.key.key_type() == KeyType::XattrEntry;
            let (what, attribute) = match child {
                Some(child) => (format!("of inode {}", child.inode), "set"),
                None => ("removed".to_owned(), "removed"),
            };
            let change = if child.is_some() { Change::Name } else { Change::Removed };
            if is_xattr {
                (change, format!("attribute {} {attribute}", show_name(name)))
            } else {
                path = names.path_of(inode, name, ROOT_INODE);
                (change, format!("name {what}"))
            }
        }
        NodeChange::Truncation { new_size } => (Change::Truncated, format!("cut to {new_size} bytes")),
    };
    Revision { at: event.sqnum.to_string(), inode, path, time, change, what, live: false, byte: None }
}

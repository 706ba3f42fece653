//! Items of a build source: files with all their attributes, and their blocks, in batches.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender};

use floatgate_media::ubifs::BLOCK_BYTES;
use floatgate_stack::fs::{DeviceNumber, Error, FileFlags, FileType, Timestamp};

use super::error::{BuildError, image};
use crate::report::Loss;

/// Size of a block in bytes.
pub(super) const BLOCK: usize = BLOCK_BYTES as usize;

/// Size of the data in a full batch, bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Number of steps that fill a batch.
const BATCH_STEPS: usize = 2048;

/// Number of bytes of a file that are read at once.
const READ_BYTES: usize = 64 * BLOCK;

/// Kind of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Directory,
    /// Regular file, with its size in bytes, holes included.
    Regular(u64),
    /// Another name of an earlier file, with the path of that file.
    Link(Vec<Vec<u8>>),
    Symlink(Vec<u8>),
    BlockDevice(DeviceNumber),
    CharacterDevice(DeviceNumber),
    Fifo,
    Socket,
}

impl ItemKind {
    /// File type of the item; a regular file for another name of an earlier file.
    pub(super) const fn file_type(&self) -> FileType {
        match self {
            Self::Directory => FileType::Directory,
            Self::Regular(_) | Self::Link(_) => FileType::Regular,
            Self::Symlink(_) => FileType::Symlink,
            Self::BlockDevice(_) => FileType::BlockDevice,
            Self::CharacterDevice(_) => FileType::CharacterDevice,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
        }
    }
}

/// Extended attributes: names with prefixes and values.
pub(super) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// File with its attributes, as the source delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Names on the path from the root; empty for the root itself.
    pub(super) path: Vec<Vec<u8>>,
    pub(super) kind: ItemKind,
    pub(super) permissions: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) atime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
    /// Inode flags: sync, immutable, append-only, dirsync.
    pub(super) flags: FileFlags,
    /// Extended attributes, sorted by name.
    pub(super) xattrs: Xattrs,
}

/// Step of the build: a file, or a block of one.
#[derive(Debug)]
pub(super) enum Step {
    Item(Box<Item>),
    /// Block of the last item: its number in the file, and its range in the batch's data.
    Block {
        block: u32,
        start: usize,
        len: usize,
    },
    Loss(Loss),
}

/// Steps of the build with their data.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) steps: Vec<Step>,
    pub(super) data: Vec<u8>,
}

impl Batch {
    /// Creates an empty batch with capacity for the data of a full one.
    pub(super) fn new() -> Self {
        Self { steps: Vec::new(), data: Vec::with_capacity(BATCH_BYTES + READ_BYTES) }
    }
}

/// Sending end of the pipeline, which a source feeds with files and data.
pub(super) struct Feeder {
    sender: SyncSender<Batch>,
    /// Written batches, whose memory is reused.
    spent: Receiver<Batch>,
    batch: Batch,
}

impl Feeder {
    pub(super) fn new(sender: SyncSender<Batch>, spent: Receiver<Batch>) -> Self {
        Self { sender, spent, batch: Batch::new() }
    }

    pub(super) fn item(&mut self, item: Item) -> Result<(), BuildError> {
        self.step(Step::Item(Box::new(item)))
    }

    pub(super) fn record_loss(
        &mut self,
        path: &[Vec<u8>],
        what: impl Into<String>,
    ) -> Result<(), BuildError> {
        self.step(Step::Loss(Loss::new(path, what)))
    }

    fn step(&mut self, step: Step) -> Result<(), BuildError> {
        self.batch.steps.push(step);
        let full = self.batch.data.len() >= BATCH_BYTES || self.batch.steps.len() >= BATCH_STEPS;
        if full { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), BuildError> {
        let empty = self.spent.try_recv().unwrap_or_else(|_| Batch::new());
        let batch = std::mem::replace(&mut self.batch, empty);
        // The receiver no longer exists, because the other side has failed. Its own error states the reason.
        self.sender.send(batch).map_err(|_| BuildError::Stopped)
    }

    /// Sends the last batch, after all files were delivered.
    pub(super) fn finish(mut self) -> Result<(), BuildError> {
        self.send()
    }

    /// Feeds the data of the last item from `at`, the start of a block, up to `end`, and returns the number
    /// of bytes read.
    ///
    /// Blocks that contain only zeros become holes.
    pub(super) fn data(
        &mut self,
        reader: &mut dyn Read,
        at: u64,
        end: u64,
    ) -> Result<std::io::Result<u64>, BuildError> {
        let mut done = 0;
        while at + done < end {
            let want = usize::try_from(end - at - done).unwrap_or(READ_BYTES).min(READ_BYTES);
            let start = self.batch.data.len();
            self.batch.data.resize(start + want, 0);
            let read = read_full(reader, &mut self.batch.data[start..]);
            let len = *read.as_ref().unwrap_or(&0);
            self.batch.data.truncate(start + len);
            self.blocks(at + done, start)?;
            done += len as u64;
            match read {
                Err(error) => return Ok(Err(error)),
                Ok(len) if len < want => break,
                Ok(_) => {}
            }
        }
        Ok(Ok(done))
    }

    /// Adds steps for the blocks at the end of the batch's data. The first of them begins at `at` in the
    /// file.
    fn blocks(&mut self, at: u64, start: usize) -> Result<(), BuildError> {
        let first = at / BLOCK as u64;
        let blocks = self.batch.data[start..].chunks(BLOCK).enumerate();
        for (index, bytes) in blocks {
            if bytes.iter().any(|&byte| byte != 0) {
                let number = first + index as u64;
                let too_large = |_| image(Error::TooLarge { what: "file", len: number * BLOCK as u64 });
                let block = u32::try_from(number).map_err(too_large)?;
                self.batch.steps.push(Step::Block { block, start: start + index * BLOCK, len: bytes.len() });
            }
        }
        if self.batch.data.len() >= BATCH_BYTES { self.send() } else { Ok(()) }
    }
}

/// Reads until the buffer is full or the reader ends, and returns the number of bytes.
pub(super) fn read_full(reader: &mut dyn Read, buf: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match reader.read(&mut buf[done..]) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Attributes that replace those of all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Owner and group of all files.
    pub owner: Option<(u32, u32)>,
    /// Latest time of any file (`SOURCE_DATE_EPOCH`), seconds since 1970.
    pub latest: Option<i64>,
}

impl Overrides {
    pub(super) fn apply(&self, item: &mut Item) {
        if let Some((uid, gid)) = self.owner {
            (item.uid, item.gid) = (uid, gid);
        }
        for time in [&mut item.atime, &mut item.mtime, &mut item.ctime] {
            *time = self.time(*time);
        }
    }

    /// Returns the time, limited to `latest`.
    pub(super) fn time(&self, time: Timestamp) -> Timestamp {
        let latest = self.latest.map(|seconds| Timestamp { seconds, nanoseconds: 0 });
        latest.map_or(time, |latest| time.min(latest))
    }
}

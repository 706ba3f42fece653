//! The program's side of the protocol: a filesystem of the user answers floatgate's requests.

use super::messages::{
    Answer, DATA_MAX, Entry, FlashOp, FlashResult, FlashSizes, Message, Request, Room, VERSION, receive, send,
};
use std::io::{self, BufRead, Write};

/// Reason why a filesystem refused a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No space is left.
    #[error("no-space")]
    NoSpace,
    /// The file or directory does not exist.
    #[error("not-found")]
    NotFound,
    /// The name exists already.
    #[error("exists")]
    Exists,
    /// Another reason, in words.
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

/// A flash whose operations floatgate's simulated chip executes.
pub struct RemoteFlash<'a> {
    sizes: FlashSizes,
    from: &'a mut dyn BufRead,
    to: &'a mut dyn Write,
}

impl RemoteFlash<'_> {
    /// Geometry of the flash.
    pub const fn sizes(&self) -> FlashSizes {
        self.sizes
    }

    fn operation(&mut self, op: FlashOp, data: &[u8]) -> Result<(bool, Vec<u8>), Refusal> {
        send(&mut self.to, &Message::Flash(op), data)?;
        match receive(&mut self.from)? {
            Some((FlashResult::Ok { bad }, bytes)) => Ok((bad.unwrap_or(false), bytes)),
            Some((FlashResult::Failed(why), _)) => Err(Refusal::Other(why)),
            None => Err(Refusal::Other("floatgate has gone".to_owned())),
        }
    }

    /// Reads bytes that ECC has corrected.
    ///
    /// # Errors
    /// The range is outside the flash; more bits are wrong than the ECC corrects.
    pub fn read(&mut self, at: u64, buf: &mut [u8]) -> Result<(), Refusal> {
        for (number, piece) in buf.chunks_mut(DATA_MAX).enumerate() {
            let at = at + (number * DATA_MAX) as u64;
            let (_, bytes) = self.operation(FlashOp::Read { at, bytes: piece.len() }, &[])?;
            let short = || Refusal::Other(format!("{} bytes of {} were read", bytes.len(), piece.len()));
            if bytes.len() != piece.len() {
                return Err(short());
            }
            piece.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Programs erased bytes; address and length are multiples of [`FlashSizes::write_bytes`].
    ///
    /// # Errors
    /// The range is outside the flash or not erased; the chip reports a failure.
    pub fn program(&mut self, at: u64, data: &[u8]) -> Result<(), Refusal> {
        self.operation(FlashOp::Program { at }, data).map(drop)
    }

    /// Erases the eraseblock at an address.
    ///
    /// # Errors
    /// The address is not the start of an eraseblock; the chip reports a failure.
    pub fn erase(&mut self, at: u64) -> Result<(), Refusal> {
        self.operation(FlashOp::Erase { at }, &[]).map(drop)
    }

    /// True if the eraseblock at an address is marked bad.
    ///
    /// # Errors
    /// The address is not the start of an eraseblock.
    pub fn is_bad(&mut self, at: u64) -> Result<bool, Refusal> {
        Ok(self.operation(FlashOp::IsBad { at }, &[])?.0)
    }

    /// Marks the eraseblock at an address bad permanently.
    ///
    /// # Errors
    /// This flash has no bad blocks.
    pub fn mark_bad(&mut self, at: u64) -> Result<(), Refusal> {
        self.operation(FlashOp::MarkBad { at }, &[]).map(drop)
    }
}

/// A user's own filesystem for `floatgate fs`. Paths are relative to the root, without a leading slash; the root itself
/// is the empty path.
///
/// All methods receive the flash and may change it. [`serve`] calls them.
pub trait OwnFilesystem: Sized {
    /// Creates an empty filesystem.
    ///
    /// # Errors
    /// The filesystem is impossible on this flash.
    fn format(flash: &mut RemoteFlash<'_>) -> Result<(), Refusal>;

    /// Mounts the filesystem on the flash.
    ///
    /// # Errors
    /// The flash contains no filesystem.
    fn mount(flash: &mut RemoteFlash<'_>) -> Result<Self, Refusal>;

    /// Writes all data to flash and ends the mount.
    ///
    /// # Errors
    /// Failures of the flash, as for all methods below.
    fn unmount(mut self, flash: &mut RemoteFlash<'_>) -> Result<(), Refusal> {
        self.sync(flash)
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// The name exists; the directory does not exist.
    fn create(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal>;

    /// Creates a directory.
    ///
    /// # Errors
    /// The name exists; the parent directory does not exist.
    fn make_dir(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal>;

    /// Writes to an existing file.
    ///
    /// # Errors
    /// The file does not exist; no space.
    fn write(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        path: &str,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Refusal>;

    /// Reads from a file and returns the number of bytes, which is lower at the end of the file.
    ///
    /// # Errors
    /// The file does not exist.
    fn read(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        path: &str,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, Refusal>;

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// The file does not exist; the directory is not empty.
    fn remove(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal>;

    /// Attributes of a file or directory.
    ///
    /// # Errors
    /// The file or directory does not exist.
    fn stat(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<Entry, Refusal>;

    /// At most `max` entries of a directory that follow the given one, or from the first one, in an order chosen by the
    /// filesystem.
    ///
    /// # Errors
    /// The directory does not exist.
    fn list(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        path: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Entry>, Refusal>;

    /// Writes all data of a file to flash before it returns.
    ///
    /// # Errors
    /// The file does not exist; no space.
    fn fsync(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal>;

    /// Writes all data to flash before it returns.
    ///
    /// # Errors
    /// No space.
    fn sync(&mut self, flash: &mut RemoteFlash<'_>) -> Result<(), Refusal>;

    /// Total and free bytes, as in `df`.
    ///
    /// # Errors
    /// Failures of the flash.
    fn space(&mut self, flash: &mut RemoteFlash<'_>) -> Result<Room, Refusal>;
}

/// Answers floatgate's requests on standard input and output until floatgate closes them. This is the complete `main`
/// of a program for `floatgate fs`.
///
/// # Errors
/// A message is not floatgate's; the connection is lost.
#[expect(clippy::disallowed_methods, reason = "each message is flushed, and its failure told")]
pub fn serve<F: OwnFilesystem>() -> io::Result<()> {
    // `StdoutLock` buffers one line, but messages do not end at line ends.
    let to = io::BufWriter::new(io::stdout().lock());
    serve_on::<F>(&mut io::stdin().lock(), &mut { to })
}

/// Answers floatgate's requests on two streams, until floatgate closes them.
///
/// # Errors
/// The errors of [`serve`].
pub fn serve_on<F: OwnFilesystem>(from: &mut dyn BufRead, to: &mut dyn Write) -> io::Result<()> {
    let (mut sizes, mut mounted) = (None, None);
    while let Some((request, data)) = receive(&mut { &mut *from })? {
        let outcome = match (request, sizes) {
            (Request::Start { version, .. }, _) if version != VERSION => {
                Err(Refusal::Other(format!("version {version} of the messages; this program has {VERSION}")))
            }
            (Request::Start { flash, .. }, _) => {
                sizes = Some(flash);
                Ok((Answer::default(), Vec::new()))
            }
            (_, None) => Err(Refusal::Other("the first message must be `start`".to_owned())),
            (request, Some(sizes)) => {
                let mut flash = RemoteFlash { sizes, from: &mut *from, to: &mut *to };
                answer::<F>(&mut mounted, &mut flash, request, &data)
            }
        };
        match outcome {
            Ok((answer, bytes)) => send(&mut { &mut *to }, &Message::Done(answer), &bytes)?,
            Err(refusal) => send(&mut { &mut *to }, &Message::Failed(refusal.to_string()), &[])?,
        }
    }
    Ok(())
}

fn answer<F: OwnFilesystem>(
    mounted: &mut Option<F>,
    flash: &mut RemoteFlash<'_>,
    request: Request,
    data: &[u8],
) -> Result<(Answer, Vec<u8>), Refusal> {
    match request {
        Request::Format => F::format(flash)?,
        Request::Mount => *mounted = Some(F::mount(flash)?),
        Request::Unmount => {
            if let Some(fs) = mounted.take() {
                fs.unmount(flash)?;
            }
        }
        request => {
            let not_mounted = || Refusal::Other("nothing is mounted".to_owned());
            return of_mounted(mounted.as_mut().ok_or_else(not_mounted)?, flash, request, data);
        }
    }
    Ok((Answer::default(), Vec::new()))
}

fn of_mounted<F: OwnFilesystem>(
    fs: &mut F,
    flash: &mut RemoteFlash<'_>,
    request: Request,
    data: &[u8],
) -> Result<(Answer, Vec<u8>), Refusal> {
    let (mut answer, mut bytes) = (Answer::default(), Vec::new());
    match request {
        Request::Create { path } => fs.create(flash, &path)?,
        Request::MakeDir { path } => fs.make_dir(flash, &path)?,
        Request::Write { path, offset } => fs.write(flash, &path, offset, data)?,
        Request::Read { path, offset, bytes: wanted } => {
            bytes = vec![0; wanted.min(DATA_MAX)];
            let read = fs.read(flash, &path, offset, &mut bytes)?;
            bytes.truncate(read);
        }
        Request::Remove { path } => fs.remove(flash, &path)?,
        Request::Stat { path } => answer.entry = Some(fs.stat(flash, &path)?),
        Request::List { path, after, max } => {
            answer.entries = fs.list(flash, &path, after.as_deref(), max)?;
        }
        Request::Fsync { path } => fs.fsync(flash, &path)?,
        Request::Sync => fs.sync(flash)?,
        Request::Space => answer.space = Some(fs.space(flash)?),
        Request::Start { .. } | Request::Format | Request::Mount | Request::Unmount => {}
    }
    Ok((answer, bytes))
}

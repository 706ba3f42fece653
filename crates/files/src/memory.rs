//! Files in memory, on top of blobs of a web page.
//!
//! A file is a sequence of chunks. A chunk that was never written is read from the backing blob, if there is one;
//! otherwise it is a hole of zeros. A file holds a limited number of written chunks in memory and passes the oldest to
//! the page as blobs, which a browser stores on disk. A copy shares all chunks with its original. Therefore a dump of 256
//! MiB can be opened, corrected and repaired with a fraction of its size in memory.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Size of a chunk, bytes.
const CHUNK: usize = 128 << 10;

/// Maximum number of written chunks of a file in memory: 32 MiB.
const RESIDENT_MAX: usize = 256;

/// Storage outside the memory of the program: files that the user has chosen, and chunks that were moved out.
pub trait Blobs: Send + Sync {
    /// Reads `buf` from a blob, starting at byte `offset`.
    ///
    /// # Errors
    /// The page cannot read the blob, for example because the file was changed after it was chosen.
    fn read(&self, blob: u32, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Stores bytes as a new blob and returns its number.
    ///
    /// # Errors
    /// The page has no room.
    fn keep(&self, bytes: &[u8]) -> io::Result<u32>;

    /// Releases a blob that was created by [`keep`](Self::keep).
    fn release(&self, blob: u32);
}

static BLOBS: OnceLock<Box<dyn Blobs>> = OnceLock::new();

/// All files that have a name.
static NAMED: Mutex<BTreeMap<PathBuf, Shared>> = Mutex::new(BTreeMap::new());

type Shared = Arc<Mutex<Contents>>;

/// Sets the blobs of the page. Only the first call has an effect; without blobs all chunks stay in memory.
pub fn set_blobs(blobs: Box<dyn Blobs>) {
    let _ = BLOBS.set(blobs);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

/// Handle of a blob with a chunk that was moved out; the blob is released with the last copy of the handle.
#[derive(Debug)]
struct BlobHandle(u32);

impl Drop for BlobHandle {
    fn drop(&mut self) {
        if let Some(blobs) = BLOBS.get() {
            blobs.release(self.0);
        }
    }
}

/// Storage of a chunk that was written.
#[derive(Clone, Debug)]
enum Chunk {
    /// All bytes of the chunk have this value.
    Uniform(u8),
    /// The chunk is in memory.
    Memory(Arc<Vec<u8>>),
    /// The chunk was moved out to the page.
    Blob(Arc<BlobHandle>),
}

/// Backing file: a blob, of which only the first bytes up to a length are visible.
#[derive(Clone, Copy, Debug)]
struct BackingBlob {
    blob: u32,
    len: u64,
}

/// Contents of a file.
#[derive(Clone, Debug, Default)]
struct Contents {
    len: u64,
    backing: Option<BackingBlob>,
    chunks: BTreeMap<u64, Chunk>,
    /// Numbers of the chunks in memory, the oldest first; some may have been moved out since.
    resident: VecDeque<u64>,
}

/// A piece of a file. The page assembles a download from pieces, without reading the data of its own blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A range of a blob.
    Blob {
        /// Number of the blob.
        blob: u32,
        /// Offset of the range in the blob, bytes.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
    },
    /// Bytes that are in memory and not in a blob.
    Bytes(Vec<u8>),
}

/// Splits a range at chunk boundaries: number of the chunk, offset in the chunk, and range of the buffer.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let skip = (at % CHUNK as u64) as usize;
        let part = (CHUNK - skip).min(len - done);
        let range = done..done + part;
        done += part;
        (part > 0).then_some((at / CHUNK as u64, skip, range))
    })
}

/// The value of all bytes; `None` if they differ.
fn uniform(bytes: &[u8]) -> Option<u8> {
    let first = *bytes.first()?;
    bytes.iter().all(|byte| *byte == first).then_some(first)
}

fn read_blob(blob: u32, offset: u64, buf: &mut [u8]) -> io::Result<()> {
    BLOBS.get().ok_or_else(not_found)?.read(blob, offset, buf)
}

impl Contents {
    fn read_below(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let backing = self.backing.unwrap_or(BackingBlob { blob: 0, len: 0 });
        let held = backing.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (front, rest) = buf.split_at_mut(held);
        rest.fill(0);
        if front.is_empty() { Ok(()) } else { read_blob(backing.blob, offset, front) }
    }

    fn read_chunk(&self, number: u64, skip: usize, buf: &mut [u8]) -> io::Result<()> {
        match self.chunks.get(&number) {
            None => return self.read_below(number * CHUNK as u64 + skip as u64, buf),
            Some(Chunk::Uniform(byte)) => buf.fill(*byte),
            Some(Chunk::Memory(bytes)) => buf.copy_from_slice(&bytes[skip..skip + buf.len()]),
            Some(Chunk::Blob(handle)) => return read_blob(handle.0, skip as u64, buf),
        }
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        for (number, skip, range) in parts(offset, len) {
            self.read_chunk(number, skip, &mut buf[range])?;
        }
        Ok(len)
    }

    /// Loads a chunk into memory so that it can be changed.
    fn load(&mut self, number: u64) -> io::Result<()> {
        if matches!(self.chunks.get(&number), Some(Chunk::Memory(_))) {
            return Ok(());
        }
        let mut bytes = vec![0; CHUNK];
        self.read_chunk(number, 0, &mut bytes)?;
        self.chunks.insert(number, Chunk::Memory(Arc::new(bytes)));
        self.resident.push_back(number);
        Ok(())
    }

    fn write_chunk(&mut self, number: u64, skip: usize, data: &[u8]) -> io::Result<()> {
        if data.len() == CHUNK
            && let Some(byte) = uniform(data)
        {
            self.chunks.insert(number, Chunk::Uniform(byte));
            return Ok(());
        }
        self.load(number)?;
        if let Some(Chunk::Memory(bytes)) = self.chunks.get_mut(&number) {
            Arc::make_mut(bytes)[skip..skip + data.len()].copy_from_slice(data);
        }
        self.move_to_blobs()
    }

    /// Moves the oldest chunks to the page until the number in memory is small enough.
    fn move_to_blobs(&mut self) -> io::Result<()> {
        let Some(blobs) = BLOBS.get() else { return Ok(()) };
        while self.resident.len() > RESIDENT_MAX {
            let Some(number) = self.resident.pop_front() else { break };
            if let Some(chunk @ Chunk::Memory(_)) = self.chunks.get_mut(&number)
                && let Chunk::Memory(bytes) = &*chunk
            {
                *chunk = match uniform(bytes) {
                    Some(byte) => Chunk::Uniform(byte),
                    None => Chunk::Blob(Arc::new(BlobHandle(blobs.keep(bytes)?))),
                };
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(data.len() as u64).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        for (number, skip, range) in parts(offset, data.len()) {
            self.write_chunk(number, skip, &data[range])?;
        }
        self.len = self.len.max(end);
        Ok(())
    }

    /// Truncates the file, or extends it with zeros.
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        if len < self.len {
            let first_gone = len.div_ceil(CHUNK as u64);
            self.chunks.retain(|number, _| *number < first_gone);
            self.resident.retain(|number| *number < first_gone);
            if let Some(backing) = &mut self.backing {
                backing.len = backing.len.min(len);
            }
            let kept = (len % CHUNK as u64) as usize;
            let last = len / CHUNK as u64;
            if kept > 0 && self.chunks.contains_key(&last) {
                self.load(last)?;
                if let Some(Chunk::Memory(bytes)) = self.chunks.get_mut(&last) {
                    Arc::make_mut(bytes)[kept..].fill(0);
                }
            }
        }
        self.len = len;
        Ok(())
    }

    fn piece(&self, number: u64, len: usize) -> Piece {
        let at = number * CHUNK as u64;
        match (self.chunks.get(&number), self.backing) {
            (None, Some(backing)) if at + len as u64 <= backing.len => {
                Piece::Blob { blob: backing.blob, offset: at, len: len as u64 }
            }
            (Some(Chunk::Blob(handle)), _) => Piece::Blob { blob: handle.0, offset: 0, len: len as u64 },
            _ => Piece::Bytes(Vec::new()),
        }
    }

    /// The whole file in pieces; adjacent ranges of one blob are combined.
    fn pieces(&self) -> io::Result<Vec<Piece>> {
        let mut all: Vec<Piece> = Vec::new();
        for number in 0..self.len.div_ceil(CHUNK as u64) {
            let len = (self.len - number * CHUNK as u64).min(CHUNK as u64) as usize;
            let piece = match self.piece(number, len) {
                Piece::Bytes(mut bytes) => {
                    bytes.resize(len, 0);
                    self.read_chunk(number, 0, &mut bytes)?;
                    Piece::Bytes(bytes)
                }
                blob => blob,
            };
            match (all.last_mut(), &piece) {
                (
                    Some(Piece::Blob { blob, offset, len }),
                    Piece::Blob { blob: next, offset: from, len: more },
                ) if blob == next && *offset + *len == *from => *len += more,
                _ => all.push(piece),
            }
        }
        Ok(all)
    }
}

/// An open file with a position. Clones of the handle share the position, like duplicated descriptors.
#[derive(Clone, Debug)]
pub struct File {
    contents: Shared,
    position: Arc<Mutex<u64>>,
}

/// Properties of a file.
#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    len: u64,
}

impl Metadata {
    /// Size of the file, bytes.
    #[expect(clippy::len_without_is_empty, reason = "as std::fs::Metadata")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Always true, because folders and devices do not exist here.
    pub const fn is_file(&self) -> bool {
        true
    }
}

/// Properties of the file with this name.
///
/// # Errors
/// No file has this name.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    File::open(path)?.metadata()
}

/// Reads a file as text.
///
/// # Errors
/// No file has this name, or it is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Creates a file without a name.
///
/// # Errors
/// None.
pub fn tempfile() -> io::Result<File> {
    Ok(File::of(Shared::default()))
}

/// Creates a file without a name. The folder is ignored, because folders do not exist here.
///
/// # Errors
/// None.
pub fn tempfile_in(_folder: &Path) -> io::Result<File> {
    tempfile()
}

/// Assigns a name to a blob of the page. The blob is read when it is used, and changes of the file stay in memory.
pub fn name_blob(path: &Path, blob: u32, len: u64) {
    let contents = Contents { len, backing: Some(BackingBlob { blob, len }), ..Contents::default() };
    lock(&NAMED).insert(path.to_owned(), Arc::new(Mutex::new(contents)));
}

/// Renames a file; a file with the new name is replaced.
///
/// # Errors
/// No file has this name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let mut named = lock(&NAMED);
    let file = named.remove(from).ok_or_else(not_found)?;
    named.insert(to.to_owned(), file);
    Ok(())
}

/// Removes a name. The file itself is released with its last handle.
///
/// # Errors
/// No file has this name.
pub fn remove_file(path: &Path) -> io::Result<()> {
    lock(&NAMED).remove(path).map(drop).ok_or_else(not_found)
}

/// Makes an empty file a copy of another one. Both share chunks until one is changed.
///
/// # Errors
/// None.
pub fn copy(source: &File, target: &File) -> io::Result<()> {
    let contents = lock(&source.contents).clone();
    *lock(&target.contents) = contents;
    Ok(())
}

/// Pieces of the file with this name.
///
/// # Errors
/// No file has this name; a blob cannot be read.
pub fn pieces(path: &Path) -> io::Result<Vec<Piece>> {
    let file = File::open(path)?;
    let contents = lock(&file.contents);
    contents.pieces()
}

/// Options for opening a file, as in `std::fs`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    create: bool,
    create_new: bool,
    truncate: bool,
}

impl OpenOptions {
    /// Allows reading; every file allows it.
    pub fn read(&mut self, _: bool) -> &mut Self {
        self
    }

    /// Allows writing; every file allows it.
    pub fn write(&mut self, _: bool) -> &mut Self {
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Creates a new file; opening fails if the file exists.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// Truncates the file to length 0.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Opens a file with these options.
    ///
    /// # Errors
    /// The file does not exist and is not to be created, or it exists although a new one is required.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        let mut named = lock(&NAMED);
        let contents = match named.get(path) {
            Some(_) if self.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(contents) => Arc::clone(contents),
            None if self.create || self.create_new => Arc::clone(named.entry(path.to_owned()).or_default()),
            None => return Err(not_found()),
        };
        drop(named);
        let file = File::of(contents);
        if self.truncate {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

impl File {
    fn of(contents: Shared) -> Self {
        Self { contents, position: Arc::default() }
    }

    /// Opens the file with this name.
    ///
    /// # Errors
    /// No file has this name.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().open(path)
    }

    /// Creates or truncates the file with this name.
    ///
    /// # Errors
    /// None.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().create(true).truncate(true).open(path)
    }

    /// Options for opening a file.
    pub fn options() -> OpenOptions {
        OpenOptions::default()
    }

    /// Creates another handle of the same file, with the same position.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    /// Properties of the file.
    ///
    /// # Errors
    /// None.
    pub fn metadata(&self) -> io::Result<Metadata> {
        Ok(Metadata { len: lock(&self.contents).len })
    }

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// A chunk cannot be read from the page.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        lock(&self.contents).set_len(len)
    }

    /// Does nothing, because memory needs no sync.
    ///
    /// # Errors
    /// None.
    pub const fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads and writes at offsets, as `FileExt` of `std::os::unix::fs`.
pub trait FileExt {
    /// Reads from byte `offset` on, and returns the number of bytes read.
    ///
    /// # Errors
    /// The page cannot read the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buf` from byte `offset` on.
    ///
    /// # Errors
    /// The file ends before `buf` is full; the page cannot read it.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes, from byte `offset` on.
    ///
    /// # Errors
    /// The page cannot read or store a chunk.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
}

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        lock(&self.contents).read(offset, buf)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_at(buf, offset)? == buf.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        lock(&self.contents).write(offset, buf)
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut position = lock(&self.position);
        let len = self.read_at(buf, *position)?;
        *position += len as u64;
        Ok(len)
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut position = lock(&self.position);
        self.write_all_at(data, *position)?;
        *position += data.len() as u64;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let len = lock(&self.contents).len;
        let mut position = lock(&self.position);
        let place = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => len.checked_add_signed(by),
            SeekFrom::Current(by) => position.checked_add_signed(by),
        };
        *position = place.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(*position)
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of a page, in which blob 0 is a chosen file with counting bytes.
    #[derive(Default)]
    struct Page(Mutex<BTreeMap<u32, Vec<u8>>>);

    fn chosen(at: u64) -> u8 {
        (at % 251) as u8
    }

    impl Blobs for Page {
        fn read(&self, blob: u32, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            if blob == 0 {
                for (at, byte) in (offset..).zip(&mut *buf) {
                    *byte = chosen(at);
                }
                return Ok(());
            }
            let blobs = lock(&self.0);
            let bytes = blobs.get(&blob).ok_or_else(not_found)?;
            buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]);
            Ok(())
        }

        fn keep(&self, bytes: &[u8]) -> io::Result<u32> {
            let mut blobs = lock(&self.0);
            let blob = blobs.last_key_value().map_or(1, |(last, _)| last + 1);
            blobs.insert(blob, bytes.to_vec());
            Ok(blob)
        }

        fn release(&self, blob: u32) {
            lock(&self.0).remove(&blob);
        }
    }

    fn with_page() {
        set_blobs(Box::<Page>::default());
    }

    fn bytes_of(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_copy_shares_the_chosen_file_and_changes_alone() {
        with_page();
        let len = 3 * CHUNK + 1000;
        name_blob(Path::new("chosen"), 0, len as u64);
        let source = File::open("chosen").unwrap();
        let target = File::create("copy").unwrap();
        copy(&source, &target).unwrap();
        target.write_all_at(b"new", CHUNK as u64 - 1).unwrap();
        let old: Vec<u8> = (0..len as u64).map(chosen).collect();
        assert!(bytes_of(&source) == old);
        let mut new = old;
        new[CHUNK - 1..CHUNK + 2].copy_from_slice(b"new");
        assert!(bytes_of(&target) == new);
        let pieces = pieces(Path::new("copy")).unwrap();
        let blob = Piece::Blob { blob: 0, offset: 2 * CHUNK as u64, len: CHUNK as u64 + 1000 };
        assert_eq!(pieces.len(), 3, "two chunks that changed, and the rest as one range");
        assert_eq!(pieces.last(), Some(&blob));
    }

    #[test]
    fn what_leaves_memory_is_read_back() {
        with_page();
        let file = tempfile().unwrap();
        let count = RESIDENT_MAX + 5;
        for number in 0..count {
            let piece: Vec<u8> = (0..CHUNK).map(|at| (at / 7 + number) as u8).collect();
            (&file).write_all(&piece).unwrap();
        }
        assert_eq!(lock(&file.contents).resident.len(), RESIDENT_MAX);
        for number in [0, 4, count - 1] {
            let mut piece = vec![0; CHUNK];
            file.read_exact_at(&mut piece, (number * CHUNK) as u64).unwrap();
            assert!(piece.iter().enumerate().all(|(at, byte)| *byte == (at / 7 + number) as u8));
        }
        file.write_all_at(b"back", 10).unwrap();
        assert_eq!(bytes_of(&file)[9..15], [1, b'b', b'a', b'c', b'k', 2]);
    }

    #[test]
    fn a_file_that_is_cut_and_grows_again_has_zeros() {
        let mut file = tempfile().unwrap();
        file.write_all(&vec![7; CHUNK + 100]).unwrap();
        file.set_len(50).unwrap();
        file.set_len(200).unwrap();
        assert_eq!(bytes_of(&file), [vec![7; 50], vec![0; 150]].concat());
        assert_eq!(file.seek(SeekFrom::End(-10)).unwrap(), 190);
        assert_eq!(file.read(&mut [0; 20]).unwrap(), 10);
    }

    #[test]
    fn names_are_those_of_files() {
        assert_eq!(File::open("none").unwrap_err().kind(), io::ErrorKind::NotFound);
        File::create("one").unwrap().write_all(b"text").unwrap();
        assert!(File::options().create_new(true).open("one").is_err());
        rename(Path::new("one"), Path::new("two")).unwrap();
        assert_eq!(read_to_string(Path::new("two")).unwrap(), "text");
        remove_file(Path::new("two")).unwrap();
        assert!(metadata(Path::new("two")).is_err());
    }
}

//! Opening of files that does not wait for another process.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

/// Number of attempts to open a named pipe whose other end is not open yet, and interval between them.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(50);

/// True for a named or unnamed pipe.
#[must_use]
pub fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Opens a regular file or a block device.
///
/// # Errors
/// The path is neither, or an error of the host.
pub fn open_file(path: &Path, writes: bool) -> io::Result<File> {
    let file = open(path, true, writes)?;
    let file_type = file.metadata()?.file_type();
    if file_type.is_fifo() || file_type.is_char_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a regular file nor a block device"));
    }
    Ok(file)
}

/// Opens a device or pipe for writing. A named pipe must have a reader, or get a reader soon.
///
/// # Errors
/// The pipe has no reader, or an error of the host.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    for _ in 0..TRIES {
        match open(path, false, true) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "nothing reads from this named pipe"))
}

/// Opens a pipe for reading. A named pipe must have a writer, or get a writer soon.
///
/// # Errors
/// The pipe has no writer, or an error of the host.
pub fn read_pipe(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file =
        File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let mut first = vec![0; 1];
    for _ in 0..TRIES {
        match file.read(&mut first) {
            // No writer has opened the pipe yet, or all writers have closed it.
            Ok(0) => std::thread::sleep(PAUSE),
            Ok(_) => {
                may_block(&file)?;
                return Ok(Box::new(io::Cursor::new(first).chain(file)));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                may_block(&file)?;
                return Ok(Box::new(file));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "nothing writes to this named pipe"))
}

/// Opens a file, a device or a pipe to read it once from its start. A named pipe must have a writer, or get a writer soon.
///
/// # Errors
/// Nothing writes to the pipe, or an error of the host.
pub fn open_input(path: &Path) -> io::Result<Box<dyn Read>> {
    if is_pipe(path) { read_pipe(path) } else { Ok(Box::new(File::open(path)?)) }
}

fn open(path: &Path, reads: bool, writes: bool) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(reads).write(writes).custom_flags(flags).open(path)?;
    may_block(&file)?;
    Ok(file)
}

/// Makes further reads and writes block until data or room is available.
fn may_block(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags.difference(OFlags::NONBLOCK))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        path
    }

    #[test]
    fn a_pipe_without_a_writer_ends_a_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let Err(error) = read_pipe(&path) else { panic!("nothing writes to it") };
        assert!(error.to_string().contains("nothing writes to this named pipe"), "{error}");
        assert!(open_input(&path).is_err());
        assert!(open_file(&path, false).is_err());
        assert!(open_file(Path::new("/dev/null"), true).is_err());
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let writer = std::thread::spawn({
            let path = path.clone();
            move || std::fs::write(path, vec![9; 300_000]).unwrap()
        });
        let mut bytes = Vec::new();
        read_pipe(&path).unwrap().read_to_end(&mut bytes).unwrap();
        writer.join().unwrap();
        assert_eq!(bytes, vec![9; 300_000]);
    }
}

//! Power-cut tests of a filesystem program: each boot starts the program again, and the workload of file operations
//! follows from the numbers of its steps.

use super::program::of_program;
use floatgate_host::filesystem_program::{Answer, DATA_MAX, FilesystemProgram, FlashOp, Operated, Request};
use floatgate_mtd::random::Random;
use floatgate_program::{Program as Booted, TestDevice};
use floatgate_stack::fs::Error;

/// Files of the workload, in two directories, the first of which is the root.
const FILES: [&str; 6] = ["f0", "f1", "f2", "d/f0", "d/f1", "d/f2"];
const DIRECTORY: &str = "d";

/// Maximum size of a file, bytes.
const FILE_MAX: u64 = 12_000;

/// Creates one instance of the program at a path for each of `boots` boots.
pub fn load(path: &'static str, boots: usize) -> Vec<Box<dyn Booted>> {
    (0..boots).map(|_| Box::new(Boot { path, program: None }) as Box<dyn Booted>).collect()
}

/// One boot of the program.
struct Boot {
    path: &'static str,
    program: Option<FilesystemProgram>,
}

impl Boot {
    fn start(&mut self, device: TestDevice) -> Result<(), String> {
        let program = FilesystemProgram::start(self.path, &device.geometry()?);
        let program = program.map_err(|error| of_program(self.path)(error).to_string())?;
        self.program = Some(program);
        Ok(())
    }

    fn ask(
        &mut self,
        device: TestDevice,
        request: &Request,
        data: &[u8],
    ) -> Result<(Answer, Vec<u8>), Error> {
        let program = self.program.as_mut().ok_or(Error::NotFound)?;
        program
            .exchange(request, data, &mut |op, data| operate(device, op, data))
            .map_err(of_program(self.path))
    }

    /// Sends a request with [`Boot::ask`]. Returns false if the file does not exist.
    fn finds(&mut self, device: TestDevice, request: &Request) -> Result<bool, String> {
        match self.ask(device, request, &[]) {
            Ok(_) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(in_words(request, &error)),
        }
    }

    fn must(&mut self, device: TestDevice, request: &Request, data: &[u8]) -> Result<(), String> {
        self.ask(device, request, data).map(drop).map_err(|error| in_words(request, &error))
    }

    /// Contents of a file; `None` if it does not exist.
    fn contents(&mut self, device: TestDevice, path: &str) -> Result<Option<Vec<u8>>, String> {
        let stat = Request::Stat { path: path.to_owned() };
        let size = match self.ask(device, &stat, &[]) {
            Ok((Answer { entry: Some(entry), .. }, _)) => entry.size,
            Ok(_) => return Err(format!("{}: no `entry` in its answer to `stat`", self.path)),
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(in_words(&stat, &error)),
        };
        let bytes = usize::try_from(size).ok().filter(|size| *size <= DATA_MAX);
        let bytes = bytes.ok_or_else(|| format!("{path} has {size} bytes"))?;
        let read = Request::Read { path: path.to_owned(), offset: 0, bytes };
        let (_, data) = self.ask(device, &read, &[]).map_err(|error| in_words(&read, &error))?;
        Ok(Some(data))
    }

    /// Removes a file.
    fn remove(&mut self, device: TestDevice, path: &str) -> Result<(), String> {
        device.unsure(path);
        self.finds(device, &Request::Remove { path: path.to_owned() })?;
        self.must(device, &Request::Sync, &[])?;
        device.synced(path, None);
        Ok(())
    }

    /// Creates a file, or writes into an existing one.
    fn write(&mut self, device: TestDevice, path: &str, random: &mut Random) -> Result<(), String> {
        device.unsure(path);
        let before = self.contents(device, path)?;
        let is_new = before.is_none();
        let mut contents = match before {
            Some(contents) => contents,
            None => {
                if path.contains('/') && !self.finds(device, &Request::Stat { path: DIRECTORY.to_owned() })? {
                    self.must(device, &Request::MakeDir { path: DIRECTORY.to_owned() }, &[])?;
                }
                self.must(device, &Request::Create { path: path.to_owned() }, &[])?;
                Vec::new()
            }
        };
        let offset = random.below(contents.len() as u64 + 1) as usize;
        let data: Vec<u8> = (0..1 + random.below(FILE_MAX / 4)).map(|_| random.bits() as u8).collect();
        let end = (offset + data.len()).min(FILE_MAX as usize);
        let data = data.get(..end - offset).unwrap_or_default();
        contents.resize(contents.len().max(end), 0);
        contents.splice(offset..end, data.iter().copied());
        self.must(device, &Request::Write { path: path.to_owned(), offset: offset as u64 }, data)?;
        self.must(device, &Request::Fsync { path: path.to_owned() }, &[])?;
        if !is_new {
            device.synced(path, Some(&contents));
        }
        // For a new name, the directory must be synced, too.
        self.must(device, &Request::Sync, &[])?;
        if is_new {
            device.synced(path, Some(&contents));
        }
        Ok(())
    }
}

impl Booted for Boot {
    fn prepare(&mut self, device: TestDevice) -> Result<(), String> {
        self.start(device)?;
        self.must(device, &Request::Format, &[])
    }

    fn recover(&mut self, device: TestDevice) -> Result<(), String> {
        self.start(device)?;
        self.must(device, &Request::Mount, &[])
    }

    fn step(&mut self, device: TestDevice, number: u32) -> Result<(), String> {
        let mut random = Random::new(number.into());
        let path = FILES[random.index(FILES.len())];
        if random.once_in(4) { self.remove(device, path) } else { self.write(device, path, &mut random) }
    }

    fn check(&mut self, device: TestDevice) -> Result<(), String> {
        for path in FILES {
            let contents = self.contents(device, path)?;
            // A contradiction is recorded in the device, and reported after all files were read.
            let _ = device.found(path, contents.as_deref());
        }
        Ok(())
    }
}

/// Text of a request that failed.
fn in_words(request: &Request, error: &Error) -> String {
    let request = serde_json::to_string(request).unwrap_or_default();
    format!("{request}: {error}")
}

/// Executes a flash operation.
fn operate(device: TestDevice, op: FlashOp, data: &[u8]) -> Operated {
    match op {
        FlashOp::Read { bytes, .. } if bytes > DATA_MAX => {
            Err(format!("{bytes} bytes are too much for one read"))
        }
        FlashOp::Read { at, bytes } => {
            let mut read = vec![0; bytes];
            device.read(at, &mut read)?;
            Ok((None, read))
        }
        FlashOp::Program { at } => device.program(at, data).map(|()| (None, Vec::new())),
        FlashOp::Erase { at } => device.erase(at).map(|()| (None, Vec::new())),
        FlashOp::IsBad { at } => device.is_bad(at).map(|bad| (Some(bad), Vec::new())),
        FlashOp::MarkBad { at } => device.mark_bad(at).map(|()| (None, Vec::new())),
    }
}

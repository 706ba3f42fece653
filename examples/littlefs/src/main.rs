//! littlefs, by its C library, as a program for `floatgate fs`: each operation of the flash is done by floatgate's simulated chip.
//!
//! `cargo build --manifest-path examples/littlefs/Cargo.toml`, then
//! `floatgate fs stm32-n25q128a --fs ./examples/littlefs/target/debug/littlefs,jffs2 --test write,read,mount,space`.

use floatgate_lab::fs_compare::own::{Entry, OwnFilesystem, Refusal, RemoteFlash, Room, serve};
use littlefs2_sys as sys;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;

fn main() -> std::io::Result<()> {
    serve::<Littlefs>()
}

/// Smallest program and read of the cache: littlefs reads and writes that much at once.
const CACHE_MIN: u32 = 256;

/// Erasures after which metadata are moved, as littlefs's documentation suggests.
const BLOCK_CYCLES: i32 = 500;

struct Littlefs {
    lfs: Box<sys::lfs_t>,
    config: Box<sys::lfs_config>,
    /// The file that was used last stays open, as a program that writes it keeps it.
    open: Option<(String, Box<sys::lfs_file_t>)>,
}

/// The flash behind a call of the library.
///
/// # Safety
/// `config` is one whose `context` was set by [`Littlefs::call`], during that call.
unsafe fn flash<'a>(config: *const sys::lfs_config) -> &'a mut RemoteFlash<'a> {
    unsafe { &mut *(*config).context.cast::<RemoteFlash<'a>>() }
}

fn code(outcome: Result<(), Refusal>) -> c_int {
    if outcome.is_ok() { 0 } else { sys::lfs_error_LFS_ERR_CORRUPT }
}

unsafe extern "C" fn read(
    config: *const sys::lfs_config,
    block: sys::lfs_block_t,
    offset: sys::lfs_off_t,
    buffer: *mut c_void,
    size: sys::lfs_size_t,
) -> c_int {
    let buf = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size as usize) };
    let flash = unsafe { flash(config) };
    let at = u64::from(block) * u64::from(flash.sizes().erase_bytes) + u64::from(offset);
    code(flash.read(at, buf))
}

unsafe extern "C" fn program(
    config: *const sys::lfs_config,
    block: sys::lfs_block_t,
    offset: sys::lfs_off_t,
    buffer: *const c_void,
    size: sys::lfs_size_t,
) -> c_int {
    let data = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), size as usize) };
    let flash = unsafe { flash(config) };
    let at = u64::from(block) * u64::from(flash.sizes().erase_bytes) + u64::from(offset);
    code(flash.program(at, data))
}

/// A bad block is a corrupt one: littlefs takes another.
unsafe extern "C" fn erase(config: *const sys::lfs_config, block: sys::lfs_block_t) -> c_int {
    let flash = unsafe { flash(config) };
    let at = u64::from(block) * u64::from(flash.sizes().erase_bytes);
    match flash.is_bad(at) {
        Ok(false) => code(flash.erase(at)),
        Ok(true) | Err(_) => sys::lfs_error_LFS_ERR_CORRUPT,
    }
}

unsafe extern "C" fn sync(_config: *const sys::lfs_config) -> c_int {
    0
}

fn config(flash: &RemoteFlash<'_>) -> Box<sys::lfs_config> {
    let sizes = flash.sizes();
    let unit = sizes.write_bytes.max(1);
    // SAFETY: all members are numbers, pointers or functions that may be missing.
    let mut config: Box<sys::lfs_config> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
    config.read = Some(read);
    config.prog = Some(program);
    config.erase = Some(erase);
    config.sync = Some(sync);
    config.read_size = unit;
    config.prog_size = unit;
    config.block_size = sizes.erase_bytes;
    config.block_count = u32::try_from(sizes.bytes / u64::from(sizes.erase_bytes)).unwrap_or(u32::MAX);
    config.block_cycles = BLOCK_CYCLES;
    config.cache_size = unit.max(CACHE_MIN).next_multiple_of(unit);
    config.lookahead_size = config.block_count.div_ceil(8).next_multiple_of(8);
    config
}

/// The reason of a negative number.
fn checked(code: i32) -> Result<u32, Refusal> {
    u32::try_from(code).map_err(|_| match code {
        sys::lfs_error_LFS_ERR_NOSPC => Refusal::NoSpace,
        sys::lfs_error_LFS_ERR_NOENT => Refusal::NotFound,
        sys::lfs_error_LFS_ERR_EXIST => Refusal::Exists,
        code => Refusal::Other(format!("littlefs: error {code}")),
    })
}

fn c_path(path: &str) -> Result<CString, Refusal> {
    CString::new(format!("/{path}")).map_err(|_| Refusal::Other("a name with a zero byte".to_owned()))
}

fn entry(info: &sys::lfs_info) -> Entry {
    // SAFETY: the library ends names with a zero.
    let name = unsafe { CStr::from_ptr(info.name.as_ptr()) }.to_string_lossy().into_owned();
    let directory = i64::from(info.type_) == i64::from(sys::lfs_type_LFS_TYPE_DIR);
    Entry { name, directory, size: if directory { 0 } else { u64::from(info.size) } }
}

fn no_info() -> sys::lfs_info {
    // SAFETY: all members are numbers.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

impl Littlefs {
    fn new(flash: &RemoteFlash<'_>) -> Self {
        // SAFETY: all members are numbers or pointers; the library fills it.
        let lfs = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
        Self { lfs, config: config(flash), open: None }
    }

    /// Calls the library with a flash.
    fn call(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        work: impl FnOnce(&mut sys::lfs_t, &sys::lfs_config) -> i32,
    ) -> Result<u32, Refusal> {
        self.config.context = std::ptr::from_mut(flash).cast();
        checked(work(&mut self.lfs, &self.config))
    }

    fn close(&mut self, flash: &mut RemoteFlash<'_>) -> Result<(), Refusal> {
        let Some((_, mut file)) = self.open.take() else { return Ok(()) };
        self.call(flash, |lfs, _| unsafe { sys::lfs_file_close(lfs, &mut *file) }).map(drop)
    }

    fn open(&mut self, flash: &mut RemoteFlash<'_>, path: &str, flags: u32) -> Result<(), Refusal> {
        if self.open.as_ref().is_some_and(|(open, _)| open == path) {
            return Ok(());
        }
        self.close(flash)?;
        let name = c_path(path)?;
        // SAFETY: the library fills it.
        let mut file: Box<sys::lfs_file_t> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
        let flags = flags | sys::lfs_open_flags_LFS_O_RDWR as u32;
        self.call(flash, |lfs, _| unsafe {
            sys::lfs_file_open(lfs, &mut *file, name.as_ptr(), flags as c_int)
        })?;
        self.open = Some((path.to_owned(), file));
        Ok(())
    }

    /// Calls the library with the file that is open.
    fn with_file(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        work: impl FnOnce(&mut sys::lfs_t, &mut sys::lfs_file_t) -> i32,
    ) -> Result<u32, Refusal> {
        let Some((path, mut file)) = self.open.take() else {
            return Err(Refusal::Other("no file is open".to_owned()));
        };
        let outcome = self.call(flash, |lfs, _| work(lfs, &mut file));
        self.open = Some((path, file));
        outcome
    }

    fn seek(&mut self, flash: &mut RemoteFlash<'_>, offset: u64) -> Result<(), Refusal> {
        let offset = i32::try_from(offset).map_err(|_| Refusal::Other("beyond 2 GiB".to_owned()))?;
        let set = sys::lfs_whence_flags_LFS_SEEK_SET as c_int;
        self.with_file(flash, |lfs, file| unsafe { sys::lfs_file_seek(lfs, file, offset, set) }).map(drop)
    }
}

impl OwnFilesystem for Littlefs {
    fn format(flash: &mut RemoteFlash<'_>) -> Result<(), Refusal> {
        Self::new(flash).call(flash, |lfs, config| unsafe { sys::lfs_format(lfs, config) }).map(drop)
    }

    fn mount(flash: &mut RemoteFlash<'_>) -> Result<Self, Refusal> {
        let mut fs = Self::new(flash);
        fs.call(flash, |lfs, config| unsafe { sys::lfs_mount(lfs, config) })?;
        Ok(fs)
    }

    fn unmount(mut self, flash: &mut RemoteFlash<'_>) -> Result<(), Refusal> {
        self.close(flash)?;
        self.call(flash, |lfs, _| unsafe { sys::lfs_unmount(lfs) }).map(drop)
    }

    fn create(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal> {
        let flags = sys::lfs_open_flags_LFS_O_CREAT | sys::lfs_open_flags_LFS_O_EXCL;
        self.open(flash, path, flags as u32)
    }

    fn make_dir(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal> {
        self.close(flash)?;
        let path = c_path(path)?;
        self.call(flash, |lfs, _| unsafe { sys::lfs_mkdir(lfs, path.as_ptr()) }).map(drop)
    }

    fn write(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        path: &str,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Refusal> {
        self.open(flash, path, 0)?;
        self.seek(flash, offset)?;
        let len = data.len() as u32;
        let written = self
            .with_file(flash, |lfs, file| unsafe { sys::lfs_file_write(lfs, file, data.as_ptr().cast(), len) });
        if written? == len { Ok(()) } else { Err(Refusal::NoSpace) }
    }

    fn read(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        path: &str,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, Refusal> {
        self.open(flash, path, 0)?;
        self.seek(flash, offset)?;
        let (at, len) = (buf.as_mut_ptr(), buf.len() as u32);
        let read = self.with_file(flash, |lfs, file| unsafe { sys::lfs_file_read(lfs, file, at.cast(), len) })?;
        Ok(read as usize)
    }

    fn remove(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal> {
        self.close(flash)?;
        let path = c_path(path)?;
        self.call(flash, |lfs, _| unsafe { sys::lfs_remove(lfs, path.as_ptr()) }).map(drop)
    }

    fn stat(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<Entry, Refusal> {
        self.close(flash)?;
        let (path, mut info) = (c_path(path)?, no_info());
        self.call(flash, |lfs, _| unsafe { sys::lfs_stat(lfs, path.as_ptr(), &mut info) })?;
        Ok(entry(&info))
    }

    /// In the order of littlefs, which is that of names.
    fn list(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        path: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Entry>, Refusal> {
        self.close(flash)?;
        let name = c_path(path)?;
        // SAFETY: the library fills it.
        let mut dir: Box<sys::lfs_dir_t> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
        self.call(flash, |lfs, _| unsafe { sys::lfs_dir_open(lfs, &mut *dir, name.as_ptr()) })?;
        let mut found = Vec::new();
        while found.len() < max {
            let mut info = no_info();
            if self.call(flash, |lfs, _| unsafe { sys::lfs_dir_read(lfs, &mut *dir, &mut info) })? == 0 {
                break;
            }
            let entry = entry(&info);
            if entry.name != "." && entry.name != ".." && after.is_none_or(|after| entry.name.as_str() > after) {
                found.push(entry);
            }
        }
        self.call(flash, |lfs, _| unsafe { sys::lfs_dir_close(lfs, &mut *dir) })?;
        Ok(found)
    }

    fn fsync(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal> {
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            return Ok(());
        }
        self.with_file(flash, |lfs, file| unsafe { sys::lfs_file_sync(lfs, file) }).map(drop)
    }

    fn sync(&mut self, flash: &mut RemoteFlash<'_>) -> Result<(), Refusal> {
        self.close(flash)
    }

    fn space(&mut self, flash: &mut RemoteFlash<'_>) -> Result<Room, Refusal> {
        let used = self.call(flash, |lfs, _| unsafe { sys::lfs_fs_size(lfs) })?;
        let (all, block) = (self.config.block_count, u64::from(self.config.block_size));
        Ok(Room { bytes: u64::from(all) * block, free_bytes: u64::from(all.saturating_sub(used)) * block })
    }
}

//! Tests of a mounted filesystem.

use super::contents::{DATA, RANDOM, data};
use super::own::Own;
use super::{Bench, PIECES, Row, Subject, Test, Timed, Tree, size};
use floatgate_media::ubifs::MIN_LEB_BYTES;
use floatgate_mtd::advice::Advice;
use floatgate_mtd::{Instant, Mtd as _};
use floatgate_sim::error::Error;
use floatgate_sim::machine::{self, FilesystemKind, Layers};
use floatgate_sim::vfs::{Flash, Moment, Mounted, Vfs};
use floatgate_stack::fs::{Error as FsError, Result as FsResult};

/// A filesystem with its way of mounting.
struct Mounting<'a> {
    bench: &'a Bench<'a>,
    subject: Subject,
    test: Test,
    method: MountMethod,
}

/// Ways to create and mount a filesystem.
#[derive(Clone)]
enum MountMethod {
    /// By floatgate's own layers.
    Layers(Layers),
    /// By a program with this path.
    Program(&'static str),
}

impl MountMethod {
    fn make(&self, flash: Flash, now: Instant) -> Result<Mounted, String> {
        match self {
            Self::Layers(layers) => layers.make(flash, now, u32::MAX),
            Self::Program(path) => Ok(Box::new(Own::make(path, flash, now).map_err(|why| why.to_string())?)),
        }
    }

    fn mount(
        &self,
        flash: Flash,
        now: Instant,
        attached: &mut dyn FnMut(&mut Flash, Instant),
    ) -> Result<Mounted, String> {
        match self {
            Self::Layers(layers) => layers.mount(flash, now, attached).map_err(|(why, _)| why),
            Self::Program(path) => Ok(Box::new(Own::mount(path, flash, now).map_err(|why| why.to_string())?)),
        }
    }

    const fn is_ubifs(&self) -> bool {
        matches!(self, Self::Layers(Layers::Ubifs(_)))
    }

    /// Advice if the filesystem is impossible.
    fn advice(&self) -> Advice {
        match self {
            Self::Layers(Layers::Ubifs(_)) => machine::other_flash(),
            Self::Layers(Layers::Jffs2(_)) => machine::other_chip(),
            Self::Program(_) => {
                "docs/filesystems.md has the messages that such a program gets and sends".into()
            }
        }
    }
}

/// A mount with its times.
struct Remounted {
    vfs: Vfs,
    from: Moment,
    /// Moment at which UBI was attached.
    attached: Option<Moment>,
    mounted: Moment,
}

/// Size of a small file, bytes, and number of small files in a directory.
const SMALL: u64 = 8 << 10;
const IN_DIRECTORY: u64 = 1000;

/// Number of large files.
const LARGE_FILES: u64 = 10;

/// Sizes of the files in the tests of space and of synchronising, bytes.
const ONE_FILE: u64 = 1 << 20;
const SYNC_FILE: u64 = 256 << 10;
const SYNC_PIECE: usize = 4 << 10;

impl Bench<'_> {
    pub(super) fn of_filesystem(&self, subject: Subject, test: Test) -> Result<Vec<Row>, Error> {
        let layers =
            |kind| Ok(MountMethod::Layers(machine::Filesystem { kind, ..self.filesystem }.layers()?));
        let method: Result<MountMethod, Error> = match subject {
            Subject::Mtdblock | Subject::Mtdchar => return Ok(Vec::new()),
            Subject::Jffs2 => layers(FilesystemKind::Jffs2),
            Subject::Ubifs => layers(FilesystemKind::Ubifs),
            Subject::Own(path) => Ok(MountMethod::Program(path)),
        };
        let mounting = Mounting { bench: self, subject, test, method: method? };
        match test {
            Test::Write => mounting.writes(),
            Test::Read => mounting.reads(),
            Test::Mount => mounting.mounts(),
            Test::Space => mounting.space(),
            Test::Sync => mounting.syncs(),
            Test::BadBlocks => mounting.with_bad_blocks(),
            Test::Volumes => mounting.volumes(),
        }
    }
}

impl Mounting<'_> {
    /// Creates a new filesystem.
    fn new_fs(&self) -> Result<Vfs, Error> {
        self.new_fs_on(self.bench.chip()?)
    }

    fn new_fs_on(&self, (flash, now): (Flash, Instant)) -> Result<Vfs, Error> {
        let bytes = flash.geometry().erase_bytes;
        if bytes < MIN_LEB_BYTES && self.method.is_ubifs() {
            let why = format!("eraseblocks of {bytes} B, and UBIFS takes LEBs of {MIN_LEB_BYTES} B and more");
            return Err(Error::request(why, machine::too_small()));
        }
        let made = self.method.make(flash, now);
        let fs = made.map_err(|why| Error::request(why, self.method.advice()))?;
        Vfs::on_new(fs, self.bench.cpu, self.bench.page_cache).map_err(machine::failed("sync"))
    }

    /// Unmounts and mounts again as after a boot, so that all caches are empty.
    fn again(&self, mut vfs: Vfs) -> Result<Remounted, Error> {
        let in_words = |why: String| Error::request(why, self.method.advice());
        vfs.sync().map_err(machine::failed("sync"))?;
        let (mut flash, now) = vfs.into_fs().into_device().map_err(|(why, _)| in_words(why))?;
        flash.inner_mut().forget_bad_blocks();
        let (from, before) = (Moment::of(&flash, now), flash.operations());
        let mut attached = None;
        let mounted =
            self.method.mount(flash, now, &mut |flash, now| attached = Some(Moment::of(flash, now)));
        let fs = mounted.map_err(in_words)?;
        let vfs = Vfs::new(fs, self.bench.cpu, self.bench.page_cache, before);
        let mounted = vfs.moment();
        Ok(Remounted { vfs, from, attached: attached.filter(|_| self.method.is_ubifs()), mounted })
    }

    fn timed<'r>(&self, name: &'r str, bytes: u64, from: Moment, vfs: &'r Vfs) -> Timed<'r> {
        Timed {
            subject: self.subject,
            test: self.test,
            name,
            bytes,
            from,
            to: vfs.moment(),
            returned: None,
            erased: vfs.flash().erased(),
        }
    }

    fn write_row(&self, empty: &Vfs, name: &str, what: &str, piece: u64) -> Result<Row, Error> {
        let (mut vfs, bytes) = (empty.clone(), file_bytes(empty, self.bench.options.bytes));
        let from = vfs.moment();
        let returned = write_file(&mut vfs, b"file", bytes, &data(what), piece);
        let returned = returned.map_err(machine::failed(name))?;
        let timed = Timed { returned: Some(returned), ..self.timed(name, bytes, from, &vfs) };
        Ok(timed.speed())
    }

    fn writes(&self) -> Result<Vec<Row>, Error> {
        let (empty, mut rows) = (self.new_fs()?, Vec::new());
        for what in DATA {
            for (piece, piece_name) in PIECES {
                let name = format!("write {what} {piece_name}");
                if self.bench.options.wants(&name) {
                    rows.push(self.write_row(&empty, &name, what, piece)?);
                }
            }
        }
        Ok(rows)
    }

    fn reads(&self) -> Result<Vec<Row>, Error> {
        let mut vfs = self.new_fs()?;
        let bytes = file_bytes(&vfs, self.bench.options.bytes);
        let piece = 64 << 10;
        write_file(&mut vfs, b"file", bytes, &data(RANDOM), piece)
            .map_err(machine::failed("writing the file to read"))?;
        let mut vfs = self.again(vfs)?.vfs;
        // After this, JFFS2 does not read again what it has already checked.
        vfs.finish_background_work().map_err(machine::failed("checking after the mount"))?;
        let mut rows = Vec::new();
        for name in ["read first", "read again"] {
            let from = vfs.moment();
            read_file(&mut vfs, b"file", piece as usize).map_err(machine::failed(name))?;
            if self.bench.options.wants(name) {
                rows.push(self.timed(name, bytes, from, &vfs).speed());
            }
        }
        Ok(rows)
    }

    /// Measures the attach, the mount, and the time until all files can be used, on a filled filesystem.
    fn mount_rows(&self, vfs: Vfs, what: &str) -> Result<Vec<Row>, Error> {
        let Remounted { mut vfs, from, attached, mounted } = self.again(vfs)?;
        let erased = vfs.flash().erased().to_vec();
        let row = |name: &str, from: Moment, to: Moment| {
            let erased = &erased[..];
            Timed { subject: self.subject, test: self.test, name, bytes: 0, from, to, returned: None, erased }
                .seconds()
        };
        let mut rows = Vec::new();
        if let Some(attached) = attached {
            let scan = self.bench.cpu.headers((attached.operations - from.operations).reads);
            rows.push(row(&format!("mount {what}: attach"), from, attached).and_cpu(scan));
        }
        rows.push(row(&format!("mount {what}"), attached.unwrap_or(from), mounted));
        if let Some(answered) = first_answer(vfs.clone()).map_err(machine::failed("listing a file"))? {
            rows.push(row(&format!("mount {what}: then ls of one file"), mounted, answered));
        }
        vfs.finish_background_work().map_err(machine::failed("checking after the mount"))?;
        rows.push(row(&format!("mount {what}: then until usable"), mounted, vfs.moment()));
        if let Some(bytes) = vfs.kernel_memory() {
            let name = format!("mount {what}: memory");
            rows.push(size(self.subject, self.test, &name, 0, bytes as f64 / 1024.0));
        }
        rows.retain(|row| self.bench.options.wants(&row.name));
        Ok(rows)
    }

    fn mounts(&self) -> Result<Vec<Row>, Error> {
        let empty = self.new_fs()?;
        let fill = empty.space().available_blocks * 4096 / 100 * u64::from(self.bench.options.fill_percent);
        let mut rows = Vec::new();
        let cases = [
            ("empty", 0, RANDOM),
            ("few large files", LARGE_FILES, RANDOM),
            ("many small files", fill / SMALL, RANDOM),
            ("many small text files", fill / SMALL, "text"),
        ];
        for (what, number, content) in cases {
            if !self.bench.options.wants(&format!("mount {what}")) {
                continue;
            }
            let (mut vfs, each) =
                (empty.clone(), if number == LARGE_FILES { fill / LARGE_FILES } else { SMALL });
            let filled = fill_with(&mut vfs, number, each, content);
            filled.map_err(machine::failed("filling the filesystem"))?;
            rows.extend(self.mount_rows(vfs, what)?);
        }
        if let Some(tree) = self.bench.options.tree {
            rows.extend(self.tree(empty, tree)?);
        }
        Ok(rows)
    }

    /// Unpacks a tree (`tar x; sync`), mounts again, and walks through it (`du`).
    fn tree(&self, mut vfs: Vfs, tree: Tree) -> Result<Vec<Row>, Error> {
        let what = tree.name();
        let [unpacked, walked] = ["untar before", "then du"].map(|part| format!("mount {what}: {part}"));
        let from = vfs.moment();
        let filled = fill_with(&mut vfs, tree.files, tree.kib << 10, "text");
        let files = filled.map_err(machine::failed(&unpacked))?;
        if files < tree.files {
            let why = format!("only {files} of the {} files have room", tree.files);
            return Err(Error::request(why, self.method.advice()));
        }
        let mut rows = vec![self.timed(&unpacked, tree.bytes().unwrap_or(0), from, &vfs).seconds()];
        rows.extend(self.mount_rows(vfs.clone(), &what)?);
        let Remounted { mut vfs, mounted, .. } = self.again(vfs)?;
        walk(&mut vfs).map_err(machine::failed(&walked))?;
        rows.push(self.timed(&walked, 0, mounted, &vfs).seconds());
        Ok(rows)
    }

    fn space_row(&self, name: &str, bytes: u64, kib: u64) -> Option<Row> {
        self.bench.options.wants(name).then(|| size(self.subject, self.test, name, bytes, kib as f64))
    }

    /// Measures free space, and the space that a file of random bytes takes according to `df` before and after `sync`.
    fn space(&self) -> Result<Vec<Row>, Error> {
        let empty = self.new_fs()?;
        let free = |vfs: &Vfs| vfs.space().available_blocks * 4;
        let mut rows = Vec::new();
        rows.extend(self.space_row("free after mkfs", 0, free(&empty)));
        rows.extend(self.space_row("free after mkfs: of blocks", 0, empty.space().blocks * 4));
        for (piece, how) in [(16, "in pieces of 16 B"), (ONE_FILE, "in one piece")] {
            let name = format!("file of 1 MiB {how}");
            let (synced, programmed) = (format!("{name}: after sync"), format!("{name}: programmed"));
            let is_wanted =
                [&name, &synced, &programmed].into_iter().any(|name| self.bench.options.wants(name));
            if free(&empty) * 1024 < 2 * ONE_FILE || !is_wanted {
                continue;
            }
            let (mut vfs, content) = (empty.clone(), data(RANDOM));
            let before = vfs.moment().operations;
            write_pieces(&mut vfs, b"file", ONE_FILE, &content, piece).map_err(machine::failed(&name))?;
            rows.extend(self.space_row(&name, ONE_FILE, free(&empty) - free(&vfs).min(free(&empty))));
            vfs.sync().map_err(machine::failed(&name))?;
            rows.extend(self.space_row(&synced, ONE_FILE, free(&empty) - free(&vfs).min(free(&empty))));
            let bytes = (vfs.moment().operations - before).programmed_bytes;
            rows.extend(self.space_row(&programmed, ONE_FILE, bytes / 1024));
        }
        Ok(rows)
    }

    /// Writes a file in pieces of 4 KiB, with the system calls and mount options that make data durable.
    fn syncs(&self) -> Result<Vec<Row>, Error> {
        let empty = self.new_fs()?;
        let content = data(RANDOM);
        let bytes = SYNC_FILE.min(file_bytes(&empty, self.bench.options.bytes));
        let mut rows = Vec::new();
        for name in ["sync: none", "sync: fsync at the end", "sync: fsync after each write"] {
            let (mut vfs, from) = (empty.clone(), empty.moment());
            let each = name.ends_with("each write");
            let written = write_with(&mut vfs, b"file", bytes, &content, each, name.ends_with("the end"));
            written.map_err(machine::failed(name))?;
            rows.push(self.timed(name, bytes, from, &vfs).speed());
        }
        let (mut vfs, name) = (self.mounted_sync()?, "sync: mounted with -o sync");
        let from = vfs.moment();
        // UBIFS syncs by itself. For other filesystems the VFS calls fsync after each write (Linux:
        // `generic_write_sync`).
        let by_vfs = !self.method.is_ubifs();
        write_with(&mut vfs, b"file", bytes, &content, by_vfs, false).map_err(machine::failed(name))?;
        rows.push(self.timed(name, bytes, from, &vfs).speed());
        rows.retain(|row| self.bench.options.wants(&row.name));
        Ok(rows)
    }

    /// Creates a new filesystem and mounts it with `-o sync`.
    fn mounted_sync(&self) -> Result<Vfs, Error> {
        let mut method = self.method.clone();
        if let MountMethod::Layers(Layers::Ubifs(layers)) = &mut method {
            layers.behaviour.sync = true;
        }
        Mounting { method, ..*self }.new_fs()
    }

    fn with_bad_blocks(&self) -> Result<Vec<Row>, Error> {
        let empty = self.new_fs()?;
        let mut rows = Vec::new();
        rows.extend(self.space_row("bad-blocks: free after mkfs", 0, empty.space().available_blocks * 4));
        let name = "bad-blocks: write random 64 KiB";
        rows.push(self.write_row(&empty, name, RANDOM, 64 << 10)?);
        for mut row in self.mount_rows(empty, "empty")? {
            row.name = format!("bad-blocks: {}", row.name);
            rows.push(row);
        }
        rows.retain(|row| self.bench.options.wants(&row.name));
        Ok(rows)
    }
}

impl Mounting<'_> {
    /// Measures two filesystems that share the flash. UBIFS is on two volumes of one UBI, which wears all eraseblocks
    /// equally; other filesystems are in two partitions.
    fn volumes(&self) -> Result<Vec<Row>, Error> {
        let one = self.new_fs()?;
        let two = match self.method.clone() {
            MountMethod::Layers(Layers::Ubifs(mut layers)) => {
                layers.second_volume = true;
                let two = Mounting { method: MountMethod::Layers(Layers::Ubifs(layers)), ..*self };
                vec![two.again(two.new_fs()?)?]
            }
            MountMethod::Layers(Layers::Jffs2(_)) | MountMethod::Program(_) => {
                let half = |second| self.again(self.new_fs_on(self.bench.half_chip(second)?)?);
                vec![half(false)?, half(true)?]
            }
        };
        let free = |vfs: &Vfs| vfs.space().available_blocks * 4;
        let both: u64 = two.iter().map(|part| free(&part.vfs)).sum::<u64>() * (2 / two.len() as u64);
        let mut rows = Vec::new();
        rows.extend(self.space_row("volumes: free with one", 0, free(&one)));
        rows.extend(self.space_row("volumes: free with two", 0, both));
        rows.extend(self.mounted_row("volumes: one mounted", &[self.again(one)?]));
        rows.extend(self.mounted_row("volumes: two mounted", &two));
        rows.retain(|row| self.bench.options.wants(&row.name));
        Ok(rows)
    }

    /// Row with the total time of consecutive mounts, including attaches.
    fn mounted_row(&self, name: &str, mounts: &[Remounted]) -> Option<Row> {
        let row = |mount: &Remounted| {
            let headers = |attached: Moment| (attached.operations - mount.from.operations).reads;
            let scan = self.bench.cpu.headers(mount.attached.map_or(0, headers));
            Timed { to: mount.mounted, ..self.timed(name, 0, mount.from, &mount.vfs) }.seconds().and_cpu(scan)
        };
        mounts.iter().map(row).reduce(Row::and_then)
    }
}

/// Size of the file that is written on an empty filesystem, bytes: `asked`, or half of the free space if that is less.
pub(crate) fn file_bytes(empty: &Vfs, asked: u64) -> u64 {
    let free = empty.space().available_blocks * 4096;
    asked.min((free / 2).max(4096))
}

/// Writes a file in pieces, and returns its inode.
fn write_pieces(vfs: &mut Vfs, name: &[u8], bytes: u64, content: &[u8], piece: u64) -> FsResult<u32> {
    let root = vfs.fs().root();
    let inode = vfs.create(root, name)?;
    write_all(vfs, inode, bytes, content, piece)?;
    Ok(inode)
}

/// Writes a file in pieces, filled repeatedly from `content`.
fn write_all(vfs: &mut Vfs, inode: u32, bytes: u64, content: &[u8], piece: u64) -> FsResult<()> {
    for at in (0..bytes).step_by(piece as usize) {
        let len = piece.min(bytes - at) as usize;
        let from = at as usize % content.len();
        vfs.write(inode, at, &content[from..from + len])?;
    }
    Ok(())
}

/// Writes a file in pieces and syncs it (`dd conv=fsync`). Returns the time before the sync.
pub(crate) fn write_file(
    vfs: &mut Vfs,
    name: &[u8],
    bytes: u64,
    content: &[u8],
    piece: u64,
) -> FsResult<Instant> {
    let inode = write_pieces(vfs, name, bytes, content, piece)?;
    let returned = vfs.moment().now;
    vfs.fsync(inode)?;
    Ok(returned)
}

/// Writes a file in pieces, with `fsync` after each piece or at the end.
fn write_with(vfs: &mut Vfs, name: &[u8], bytes: u64, content: &[u8], each: bool, end: bool) -> FsResult<()> {
    let root = vfs.fs().root();
    let inode = vfs.create(root, name)?;
    for at in (0..bytes).step_by(SYNC_PIECE) {
        let len = SYNC_PIECE.min((bytes - at) as usize);
        vfs.write(inode, at, &content[at as usize..][..len])?;
        if each {
            vfs.fsync(inode)?;
        }
    }
    if end { vfs.fsync(inode) } else { Ok(()) }
}

/// Moment at which a file's attributes are known, if they are requested as soon as the mount is done; `None` without a
/// file. JFFS2 then reads and checks the nodes of that file first (Linux: `jffs2_do_read_inode` of an inode that is not
/// checked).
fn first_answer(mut vfs: Vfs) -> FsResult<Option<Moment>> {
    use floatgate_stack::fs::FileType;
    let mut directory = vfs.fs().root();
    loop {
        let Some(entry) = vfs.call(|fs| fs.read_dir(directory, None, 1))?.pop() else { return Ok(None) };
        vfs.call(|fs| fs.attributes(entry.inode))?;
        if entry.file_type != FileType::Directory {
            return Ok(Some(vfs.moment()));
        }
        directory = entry.inode;
    }
}

/// Reads a file in pieces, and returns the number of reads that returned data.
pub(crate) fn read_file(vfs: &mut Vfs, name: &[u8], piece: usize) -> FsResult<u64> {
    let root = vfs.fs().root();
    let inode = vfs.call(|fs| fs.lookup(root, name))?;
    let (mut buf, mut at, mut calls) = (vec![0; piece], 0, 0);
    loop {
        match vfs.read(inode, at, &mut buf)? {
            0 => return Ok(calls),
            read => (at, calls) = (at + read as u64, calls + 1),
        }
    }
}

/// Reads the attributes of all files in all directories.
fn walk(vfs: &mut Vfs) -> FsResult<()> {
    use floatgate_stack::fs::FileType;
    let mut directories = vec![vfs.fs().root()];
    while let Some(directory) = directories.pop() {
        for entry in vfs.call(|fs| fs.read_dir(directory, None, usize::MAX))? {
            vfs.call(|fs| fs.attributes(entry.inode))?;
            if entry.file_type == FileType::Directory {
                directories.push(entry.inode);
            }
        }
    }
    Ok(())
}

/// Writes files of random bytes or text, a thousand per directory, up to `number` or until the filesystem is full.
/// Returns the number of files.
fn fill_with(vfs: &mut Vfs, number: u64, bytes: u64, content: &str) -> FsResult<u64> {
    use floatgate_stack::fs::{NewFile, NewKind};
    const DIRECTORY: NewFile<'_> = NewFile { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
    let root = vfs.fs().root();
    let content = data(content);
    let (mut directory, mut filled) = (root, 0);
    for at in 0..number {
        if at % IN_DIRECTORY == 0 {
            let name = format!("d{}", at / IN_DIRECTORY);
            directory = vfs.call(|fs| fs.create(root, name.as_bytes(), &DIRECTORY))?;
        }
        let written = vfs
            .create(directory, format!("f{at}").as_bytes())
            .and_then(|inode| write_all(vfs, inode, bytes, &content, 64 << 10));
        match written {
            Ok(()) => filled += 1,
            Err(FsError::NoSpace) => break,
            Err(error) => return Err(error),
        }
    }
    vfs.sync()?;
    Ok(filled)
}

//! An image mounted by the built binary, in the kernel of the host.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A mount that ends with the test.
pub(crate) struct Mount {
    pub(crate) child: Child,
    pub(crate) directory: PathBuf,
}

impl Mount {
    /// Mounts `image` of a folder in its `mnt`; `None` where the host does not let us.
    pub(crate) fn new(folder: &Path, image: &str, options: &[&str]) -> Option<Self> {
        Self::by(folder, &[&["image", "mount", image, "mnt"], options].concat())
    }

    /// Mounts something in `mnt` of a folder by these arguments; `None` where the host does not let us.
    pub(crate) fn by(folder: &Path, args: &[&str]) -> Option<Self> {
        let directory = folder.join("mnt");
        fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
        command.args(args).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let mut mount = Self { child, directory };
        for attempt in 0.. {
            if mount.is_mounted() {
                break;
            }
            if let Some(status) = mount.child.try_wait().unwrap() {
                let told = mount.told();
                assert!(told.contains("ermitted") || told.contains("ermission"), "{status}: {told}");
                eprintln!("skipped: the host does not let us mount: {told}");
                return None;
            }
            assert!(attempt < 6000, "not mounted after a minute");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(mount)
    }

    pub(crate) fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.lines().any(|line| line.split(' ').nth(1) == self.directory.to_str())
    }

    /// What it printed until it ended.
    fn told(&mut self) -> String {
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        told
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Ends it as Ctrl-C does. Returns what it printed.
    pub(crate) fn end(self) -> String {
        self.signal("-INT");
        self.ended()
    }

    /// Waits until the mount has ended well. Returns what it printed.
    pub(crate) fn ended(mut self) -> String {
        let status = self.child.wait().unwrap();
        let told = self.told();
        assert!(status.success(), "{told}");
        assert!(!self.is_mounted());
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        printed
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
        }
    }
}

/// Whether the host has FUSE.
pub(crate) fn has_fuse() -> bool {
    let opened = File::options().read(true).write(true).open("/dev/fuse");
    opened.inspect_err(|error| eprintln!("skipped: /dev/fuse: {error}")).is_ok()
}

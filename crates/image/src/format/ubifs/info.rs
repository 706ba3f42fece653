//! Description of a UBIFS, as text and JSON.

use std::fmt;

use floatgate_media::ubifs::{KeyHash, Superblock};
use floatgate_stack::Volume;
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::{
    Authenticate, Authentication, Behaviour, Inconsistency, MasterState, MountOptions, Ubifs, probe,
};
use serde::Serialize;

use crate::format::ubi::fit;
use crate::report::Finding;
use crate::words::{count, size};

/// Contents of a UBIFS filesystem.
#[derive(Clone, Debug, Serialize)]
pub struct UbifsInfo {
    /// Version of the format.
    pub format: u32,
    /// Smallest write, bytes.
    pub min_io_bytes: u32,
    /// Size of a LEB, bytes.
    pub leb_bytes: u32,
    /// Number of LEBs.
    pub lebs: u32,
    /// Number of whole LEBs in a cut file without UBI; `None` if no LEB in use is missing.
    pub lebs_there: Option<u32>,
    /// Number of LEBs in use that no PEB of the UBI contains; `None` if the filesystem does not show it.
    pub lebs_missing: Option<u32>,
    /// Largest number of LEBs to which the filesystem can grow.
    pub max_lebs: u32,
    /// Size of the journal, bytes.
    pub journal_bytes: u64,
    /// Numbers of LEBs in the log, the LPT and the orphan area.
    pub area_lebs: [u32; 3],
    /// Largest number of children of an index node.
    pub fanout: u32,
    /// Compression of new files.
    pub compression: &'static str,
    /// True if names have a second hash.
    pub double_hash: bool,
    /// True if files are encrypted.
    pub encrypted: bool,
    /// True if the first mount for writing erases the free space again, because a programmer may have written to it
    /// (`mkfs.ubifs -F`).
    pub space_fixup: bool,
    /// Number of bytes that only root may use (`mkfs.ubifs -R`).
    pub reserved_bytes: u64,
    /// True if names use the test hash instead of the usual one (`mkfs.ubifs -k`).
    pub test_hash: bool,
    /// True if nodes are authenticated.
    pub authenticated: bool,
    /// Authentication of the filesystem, if it has one.
    pub authentication: Option<AuthenticationInfo>,
    /// UUID of the filesystem.
    pub uuid: String,
    /// Findings about properties of the volume with this filesystem that Linux does not accept, or cannot use.
    pub misfits: Vec<Finding>,
    /// The superblock as it is stored.
    #[serde(skip)]
    pub(crate) superblock: Superblock,
    /// Number of the last commit.
    pub commit: Option<u64>,
    /// True if the filesystem was not unmounted, so that reading it replays the journal.
    pub needs_recovery: Option<bool>,
    /// First damage that a mount finds.
    pub damage: Option<String>,
}

/// The authentication of a filesystem.
#[derive(Clone, Debug, Serialize)]
pub struct AuthenticationInfo {
    /// The hash function.
    pub algorithm: String,
    /// True if the superblock is signed. Without a signature it has an HMAC, which a key verifies.
    pub signed: bool,
    /// True if all nodes are authentic according to their hashes, which need no key; `None` if this was not checked.
    pub verified: Option<bool>,
    /// True if the key was used for the verification, and not only hashes.
    pub by_key: bool,
    /// Number of nodes at the end of the journal that no node authenticates because of a power cut, and that are
    /// therefore ignored.
    pub dropped_nodes: Option<u32>,
    /// First structure that is not authentic.
    pub problem: Option<String>,
}

/// Description of the filesystem on a volume. Returns the volume as well.
pub(crate) fn ubifs_info<V: Volume + 'static>(
    mut volume: V,
    authenticate: &Authenticate,
) -> (Option<UbifsInfo>, V) {
    let Ok((superblock, master)) = probe(&mut volume) else { return (None, volume) };
    let mut info = UbifsInfo::new(&superblock, master);
    if let Some(authentication) = &mut info.authentication
        && *authenticate != Authenticate::No
    {
        volume = authentication.verify(volume, authenticate);
    }
    (Some(info), volume)
}

/// Number of missing LEBs that are in use, or the damage because of which it is unknown. Returns the volume. LEBs
/// after the last one in use may be missing in a file.
pub(crate) fn missing_lebs<V: Volume + 'static>(volume: V) -> (Result<u32, String>, V) {
    let options = MountOptions { read_only: true, recover: true, forgiving: true, ..MountOptions::default() };
    match Ubifs::mount(volume, &options, Behaviour::default()) {
        Ok(mut fs) => {
            let damage = fs.damage().next().cloned();
            let missing = damage.map_or_else(|| fs.missing_lebs(), Err);
            let count = |lebs: Vec<u32>| u32::try_from(lebs.len()).unwrap_or(u32::MAX);
            (missing.map(count).map_err(|error| error.to_string()), fs.abandon())
        }
        Err((error, volume)) => (Err(error.to_string()), volume),
    }
}

impl AuthenticationInfo {
    fn new(superblock: &Superblock) -> Option<Self> {
        let known = Authentication::unverified(superblock)?;
        Some(Self {
            algorithm: known.algorithm.name().unwrap_or("an unknown hash function").to_owned(),
            signed: known.is_signed,
            verified: None,
            by_key: false,
            dropped_nodes: None,
            problem: None,
        })
    }

    /// Verifies all nodes, and returns the volume.
    fn verify<V: Volume + 'static>(&mut self, volume: V, authenticate: &Authenticate) -> V {
        let options = MountOptions {
            read_only: true,
            recover: true,
            authenticate: authenticate.clone(),
            ..MountOptions::default()
        };
        let (outcome, volume) = match Ubifs::mount(volume, &options, Behaviour::default()) {
            Ok(mut fs) => (read_all(&mut fs), fs.abandon()),
            Err((error, volume)) => (Err(error.to_string()), volume),
        };
        self.by_key = matches!(authenticate, Authenticate::Key(_));
        self.verified = Some(outcome.is_ok());
        match outcome {
            Ok(dropped) => self.dropped_nodes = Some(dropped),
            Err(problem) => self.problem = Some(problem),
        }
        volume
    }
}

/// Reads all nodes of a filesystem. Returns the number of ignored nodes in the journal, or the first error.
pub(crate) fn read_all(fs: &mut Ubifs<dyn Volume>) -> Result<u32, String> {
    let found = fs.check().map_err(|error| error.to_string())?;
    let damaged = found.into_iter().find_map(|found| match found {
        Inconsistency::Node { error, .. } => Some(error.to_string()),
        _ => None,
    });
    match damaged {
        Some(problem) => Err(problem),
        None => Ok(fs.authentication().map_or(0, |found| found.dropped_nodes)),
    }
}

impl fmt::Display for AuthenticationInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.signed { "signed, with hashes by" } else { "authenticated with" };
        write!(f, "{how} {}, ", self.algorithm)?;
        match (self.verified, &self.problem) {
            (Some(true), _) if self.by_key => write!(f, "verified")?,
            (Some(true), _) => {
                write!(f, "hashes verified, but not by a key: damage would show, forgery would not")?
            }
            (_, Some(problem)) => write!(f, "NOT VERIFIED: {problem}")?,
            _ => write!(f, "not verified")?,
        }
        match self.dropped_nodes {
            Some(nodes @ 1..) => {
                write!(
                    f,
                    "; {} left out that a power cut left without authentication",
                    count(nodes.into(), "node")
                )
            }
            _ => Ok(()),
        }
    }
}

impl UbifsInfo {
    fn new(superblock: &Superblock, master: Option<MasterState>) -> Self {
        use floatgate_media::ubifs::SuperblockFlags as Flags;
        Self {
            format: superblock.format_version,
            min_io_bytes: superblock.min_io_bytes,
            leb_bytes: superblock.leb_bytes,
            lebs: superblock.leb_count,
            lebs_there: None,
            lebs_missing: Some(0),
            max_lebs: superblock.max_leb_count,
            journal_bytes: superblock.max_journal_bytes,
            area_lebs: [superblock.log_lebs, superblock.lpt_lebs, superblock.orphan_lebs],
            fanout: superblock.fanout,
            compression: compression_name(superblock.compression),
            double_hash: superblock.has(Flags::DOUBLE_HASH),
            encrypted: superblock.has(Flags::ENCRYPTION),
            space_fixup: superblock.has(Flags::SPACE_FIXUP),
            reserved_bytes: superblock.reserved_bytes,
            test_hash: superblock.key_hash == KeyHash::Test,
            authenticated: superblock.has(Flags::AUTHENTICATION),
            authentication: AuthenticationInfo::new(superblock),
            uuid: uuid(&superblock.uuid),
            misfits: Vec::new(),
            superblock: *superblock,
            commit: master.map(|master| master.commit),
            needs_recovery: master.map(|master| master.dirty),
            damage: master.and_then(|master| master.fault).map(str::to_owned),
        }
    }
}

/// Name of a compression in mkfs.ubifs.
pub fn compression_name(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Lzo => "lzo",
        Compression::Zlib => "zlib",
        Compression::Zstd => "zstd",
        Compression::Other(_) => "unknown",
    }
}

pub(crate) fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

impl UbifsInfo {
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        let state = match self.needs_recovery {
            Some(true) => "was not unmounted: its journal is replayed when it is read",
            Some(false) => "clean",
            None => "its master node cannot be read",
        };
        writeln!(
            f,
            "{indent}UBIFS format {}, {} of {} bytes, at most {}, {}; {state}",
            self.format,
            count(self.lebs.into(), "LEB"),
            self.leb_bytes,
            self.max_lebs,
            self.compression
        )?;
        if let Some(there) = self.lebs_there {
            writeln!(f, "{indent}cut off: {there} of {} there", count(self.lebs.into(), "LEB"))?;
        }
        match self.lebs_missing {
            Some(0) => {}
            Some(lebs) => {
                writeln!(
                    f,
                    "{indent}damaged: {} in use missing: no PEB has them",
                    count(lebs.into(), "LEB")
                )?;
            }
            None => {}
        }
        if let Some(damage) = &self.damage {
            writeln!(f, "{indent}damaged: {damage}")?;
        }
        let [log, lpt, orphans] = self.area_lebs;
        let journal = size(self.journal_bytes);
        write!(
            f,
            "{indent}journal {journal}, log {}, LPT {lpt}, orphans {orphans}, fanout {}",
            count(log.into(), "LEB"),
            self.fanout
        )?;
        let features = [(self.double_hash, "double hash"), (self.encrypted, "encrypted")];
        for (_, feature) in features.into_iter().filter(|(has, _)| *has) {
            write!(f, ", {feature}")?;
        }
        if self.space_fixup {
            write!(f, "\n{indent}the first mount for writing erases the free space (mkfs.ubifs -F)")?;
        }
        if let Some(authentication) = &self.authentication {
            write!(f, "\n{indent}{authentication}")?;
        }
        writeln!(f, "\n{indent}UUID {}", self.uuid)?;
        fit::show(f, indent, &self.misfits)
    }

    /// Prints the command that creates such a filesystem.
    pub(crate) fn show_mkfs(&self, f: &mut fmt::Formatter<'_>, indent: &str, file: &str) -> fmt::Result {
        let (m, e, c, x) = (self.min_io_bytes, self.leb_bytes, self.max_lebs, self.compression);
        let [log, _, orphans] = self.area_lebs;
        let (j, fanout) = (self.journal_bytes, self.fanout);
        let reserved = match self.reserved_bytes {
            0 => String::new(),
            bytes => format!(" -R {bytes}"),
        };
        let hash = if self.test_hash { " -k test" } else { "" };
        let fixup = if self.space_fixup { " -F" } else { "" };
        writeln!(
            f,
            "{indent}mkfs.ubifs -m {m} -e {e} -c {c} -x {x} -j {j} -l {log} -p {orphans} -f {fanout}{reserved}{hash}{fixup} -r DIRECTORY -o {file}"
        )
    }
}

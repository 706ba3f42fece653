//! Readable parts of a damaged filesystem.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use floatgate_media::ubifs::{BLOCK_BYTES, Inode, ROOT_INODE};
use floatgate_stack::Volume;
use floatgate_stack::fs::{self, Attributes, FileFlags, FileType, NodePos};
use floatgate_stack::ubi::AttachFault;
use floatgate_stack::ubifs::{
    Authenticate, Behaviour, Error, File, Moment, MountOptions, Problem, Severity, Structure, Survey, Ubifs,
    entry_bytes,
};

use crate::ImageError;
use crate::extract::source::{Name, Source, Xattrs, names_of, readable_xattrs, without_inode};
use crate::extract::target::{ExtractError, ExtractLimits, Extracted, Extracting, Target};
use crate::extract::walk::extract;
use crate::format::location::Content;
use crate::format::volume::{DamagedVolume, open_volume};
use crate::image::Image;
use crate::report::{At, Loss};
use crate::selection::{Chosen, Selection};
use crate::words::show_name;

/// Inode number 0, which no inode has: the directory of files whose names are lost.
const NAMELESS: u32 = 0;

const DOUBTFUL: &str = "the index does not lead to all of it: a search of the whole image found this, perhaps not all, or not the newest";

/// A filesystem of an image that is extracted, damaged or not.
///
/// If only contents of files are damaged, the filesystem is read in the same way as by a mount. After other damage, all
/// remaining nodes are surveyed, and the filesystem is read from the result.
pub struct Extraction {
    remains: DamagedUbifs<Box<dyn Volume>>,
    /// Damage outside the filesystem.
    damage: Vec<AttachFault>,
    notes: Vec<String>,
    /// Missing LEBs of the journal.
    missing: Vec<u32>,
}

impl Extraction {
    /// Finds the selected filesystem.
    ///
    /// # Errors
    /// Several images or volumes and none selected, no readable part, or an error of the host.
    pub fn open(image: &Image, selection: &Selection) -> Result<Self, ImageError> {
        let found = image.choose(selection)?;
        Self::of(Chosen { image, found: &found, selection })
    }

    /// Finds the selected filesystem in an image that was already found.
    pub(crate) fn of(chosen: Chosen<'_>) -> Result<Self, ImageError> {
        let Chosen { image, found, selection } = chosen;
        let mut notes = image.ecc_notes(found);
        let (leb_bytes, is_ubi) = match &found.content {
            Content::Ubifs(shape) => (u64::from(shape.leb_bytes), false),
            _ => (1, true),
        };
        let DamagedVolume { volume, nameless, damage } = DamagedVolume::open(chosen)?;
        let mut remains = DamagedUbifs::with_nameless(volume, nameless, &selection.authenticate)?;
        // Without UBI, an empty LEB of the journal and an erased LEB cannot be distinguished.
        let is_lost = |&lnum: &u32| is_ubi || (u64::from(lnum) + 1) * leb_bytes > found.len;
        let missing = remains.missing_journal_lebs()?.into_iter().filter(is_lost).collect();
        notes.extend(remains.survey_if_torn()?);
        Ok(Self { remains, damage, notes, missing })
    }

    /// Finds the filesystem in the state at an earlier point in time.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), a point in time of another kind of filesystem, and a request for
    /// authentication.
    pub(crate) fn at(chosen: Chosen<'_>, at: At) -> Result<Self, ImageError> {
        let moment = match at {
            At::Sqnum(sqnum) => Moment::Sqnum(sqnum),
            At::Time(seconds) => Moment::Time(seconds),
            At::Version { .. } => return Err(ImageError::WrongMoment("UBIFS", "a sequence number")),
        };
        if chosen.selection.authenticate != Authenticate::No {
            return Err(ImageError::PastUnauthentic);
        }
        let (volume, ..) = open_volume(chosen)?;
        let remains = DamagedUbifs::at(Box::new(volume) as Box<dyn Volume>, moment)?;
        Ok(Self { remains, damage: Vec::new(), notes: Vec::new(), missing: Vec::new() })
    }

    /// Extracts all files.
    ///
    /// # Errors
    /// The errors of [`extract`].
    pub fn run(
        mut self,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        let mut extracted = extract(&mut self.remains, target, limits, progress)?;
        let is_whole = extracted.losses.is_empty() && self.missing.is_empty() && self.remains.is_clean();
        let mut report = |what| extracted.losses.push(Loss::new(&[], what));
        for fault in self.damage {
            match fault {
                // If all nodes that the index references were read, the PEB contained no data of this volume.
                AttachFault::DamagedHeaders { .. } if !is_whole => report(fault.to_string()),
                fault => self.notes.push(fault.to_string()),
            }
        }
        for lnum in self.missing {
            report(format!("LEB {lnum} of the journal is missing: some of the last changes are lost"));
        }
        for problem in self.remains.problems() {
            match problem.structure {
                Structure::Master if problem.is_older => report(describe(problem)),
                Structure::Superblock
                | Structure::Master
                | Structure::Lpt
                | Structure::Orphans
                | Structure::Space => self.notes.push(describe(problem)),
                _ if self.remains.is_found_elsewhere(problem) => {
                    self.notes.push(format!("{}: found in a PEB whose LEB is not known", describe(problem)));
                }
                _ if problem.inodes.is_none() => report(describe(problem)),
                _ => {}
            }
        }
        let is_journal = |problem: &Problem| matches!(problem.structure, Structure::Journal | Structure::Log);
        if self.remains.problems().any(is_journal) {
            report("the journal is damaged: some of the last changes may be missing".to_owned());
        }
        extracted.losses.extend(self.remains.unreported());
        for note in self.notes {
            if !extracted.notes.contains(&note) {
                extracted.notes.push(note);
            }
        }
        Ok(extracted)
    }
}

impl Extracting for Extraction {
    fn run(
        self: Box<Self>,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        (*self).run(target, limits, progress)
    }
}

/// Text about the remains of a power cut at the end of a LEB of the journal.
fn describe_torn(error: &Error) -> String {
    let (lnum, offset) = error.place().unwrap_or_default();
    let what = error.reason();
    format!(
        "journal at LEB {lnum}, offset {offset:#x}: {what}: a power cut ended the last write, which does not count"
    )
}

fn describe(problem: &Problem) -> String {
    let name = problem.structure.name();
    match problem.place {
        Some((lnum, offset)) => {
            format!("{name} at LEB {lnum}, offset {offset:#x}: {}", problem.description())
        }
        None => format!("{name}: {}", problem.description()),
    }
}

/// A filesystem that is read in the same way as by a mount, until damage is found.
#[derive(Debug)]
pub struct DamagedUbifs<V> {
    state: State<V>,
    /// True if the directory of nameless files was requested.
    nameless: bool,
    /// Counts of names by inode.
    counted: BTreeMap<u32, Counted>,
    /// LEBs after the end of the volume, whose real numbers are unknown.
    nameless_lebs: Range<u32>,
    /// Authentication of the filesystem.
    authenticate: Authenticate,
}

/// Names found for an inode, and in a directory.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Number of names of the inode.
    names: u32,
    /// Size that the names in a directory contribute to its inode, bytes.
    bytes: u64,
}

impl Counted {
    /// True if the counts in an inode imply names that were not found.
    fn has_fewer_than(self, attributes: &Attributes) -> bool {
        match attributes.file_type {
            FileType::Directory => attributes.size > Inode::SIZE as u64 + self.bytes,
            _ => attributes.links > self.names,
        }
    }
}

#[derive(Debug)]
enum State<V> {
    Mounted(Box<Ubifs<V>>),
    Surveyed(Box<Surveyed<V>>),
    /// No more data can be read.
    Lost(Error),
}

#[derive(Debug)]
struct Surveyed<V> {
    survey: Survey<V>,
    /// Problems of inodes, by inode.
    problems: BTreeMap<u32, Vec<String>>,
    /// Number of names of each inode.
    names_of: BTreeMap<u32, u32>,
    /// Inodes whose problems were reported.
    reported: BTreeSet<u32>,
}

impl<V: Volume + 'static> DamagedUbifs<V> {
    /// Filesystem of a volume.
    ///
    /// # Errors
    /// No filesystem, or a failure of the volume.
    pub fn new(volume: V) -> Result<Self, ImageError> {
        Self::authenticated(volume, &Authenticate::No)
    }

    /// Filesystem of a volume whose nodes are authenticated. Nodes that cannot be authenticated are not read.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), and a filesystem that cannot be authenticated in this way.
    pub fn authenticated(volume: V, authenticate: &Authenticate) -> Result<Self, ImageError> {
        let end = volume.geometry().lebs;
        Self::with_nameless(volume, end..end, authenticate)
    }

    /// Filesystem of a volume like [`authenticated`](Self::authenticated). The volume can also read LEBs after its end,
    /// whose real numbers are unknown; a survey includes them.
    fn with_nameless(
        volume: V,
        nameless_lebs: Range<u32>,
        authenticate: &Authenticate,
    ) -> Result<Self, ImageError> {
        let authenticate = authenticate.clone();
        let options = MountOptions {
            read_only: true,
            recover: true,
            forgiving: true,
            authenticate,
            ..MountOptions::default()
        };
        let state = match Ubifs::mount(volume, &options, Behaviour::default()) {
            Ok(fs) if fs.damage().next().is_none() && !fs.has_doubtful_replay() && !fs.may_be_older() => {
                State::Mounted(Box::new(fs))
            }
            Ok(fs) => State::survey(fs.abandon(), &nameless_lebs, &options.authenticate),
            Err((_, volume)) => State::survey(volume, &nameless_lebs, &options.authenticate),
        };
        match state {
            State::Lost(error) => Err(error.into()),
            state => Ok(Self {
                state,
                nameless: false,
                counted: BTreeMap::new(),
                nameless_lebs,
                authenticate: options.authenticate,
            }),
        }
    }

    /// Filesystem of a volume in the state at a point in time.
    ///
    /// # Errors
    /// No filesystem, or a failure of the volume.
    pub fn at(volume: V, moment: Moment) -> Result<Self, ImageError> {
        let survey = Survey::at(volume, moment).map_err(|(error, _)| error)?;
        Ok(Self {
            state: State::surveyed(survey),
            nameless: false,
            counted: BTreeMap::new(),
            nameless_lebs: 0..0,
            authenticate: Authenticate::No,
        })
    }

    fn missing_journal_lebs(&mut self) -> Result<Vec<u32>, ImageError> {
        match &mut self.state {
            State::Mounted(fs) => Ok(fs.missing_journal_lebs()?),
            _ => Ok(Vec::new()),
        }
    }

    /// Surveys a filesystem whose log ends in damage, because a mount does not see LEBs that the log does not name
    /// yet. Returns other remains of power cuts.
    fn survey_if_torn(&mut self) -> Result<Vec<String>, ImageError> {
        let State::Mounted(fs) = &mut self.state else { return Ok(Vec::new()) };
        let (log, journal) = fs.torn_ends()?;
        if !log.is_empty() {
            self.survey();
        }
        Ok(journal.iter().map(describe_torn).collect())
    }

    /// True if the index contains a file without a name, or more data of a file than was read, or if counts in an
    /// inode imply more names than exist.
    fn has_nameless(&mut self) -> Result<bool, Error> {
        let State::Mounted(fs) = &mut self.state else { return Ok(false) };
        let mut next = Some(0);
        while let Some(inode) = next.map(|from| fs.stored_inode(from)).transpose()?.flatten() {
            next = inode.checked_add(1);
            if fs.has_strays(inode).unwrap_or(true) {
                return Ok(true);
            }
            let counted = self.counted.get(&inode).copied().unwrap_or_default();
            if inode == ROOT_INODE || counted.names > 0 {
                match fs.attributes(inode) {
                    Ok(attributes) if counted.has_fewer_than(&attributes) => return Ok(true),
                    _ => continue,
                }
            }
            match fs.attributes(inode) {
                Ok(attributes) => {
                    let is_value = attributes.flags.contains(FileFlags::XATTR);
                    if !is_value && attributes.links > 0 {
                        return Ok(true);
                    }
                }
                Err(error) if error.is_damage() || error == Error::NotFound => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Damage found so far; parts that were not read are not included.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let all = match &self.state {
            State::Surveyed(surveyed) => surveyed.survey.problems(),
            _ => &[],
        };
        all.iter().filter(|problem| problem.severity == Severity::Damaged)
    }

    /// True if the filesystem was unmounted, and no damage was found.
    fn is_clean(&self) -> bool {
        match &self.state {
            State::Mounted(fs) => fs.was_unmounted(),
            State::Surveyed(state) => {
                let was_unmounted = state.survey.master().is_some_and(|master| !master.dirty);
                was_unmounted && self.problems().all(|problem| is_found_elsewhere(&state.survey, problem))
            }
            State::Lost(_) => false,
        }
    }

    fn is_found_elsewhere(&self, problem: &Problem) -> bool {
        matches!(&self.state, State::Surveyed(state) if is_found_elsewhere(&state.survey, problem))
    }

    fn unreported(&self) -> Vec<Loss> {
        match &self.state {
            State::Surveyed(state) => state.unreported(),
            _ => Vec::new(),
        }
    }

    /// Reads in the same way as a mount, or otherwise from the result of a survey.
    fn read<T>(
        &mut self,
        mounted: impl Fn(&mut Ubifs<V>) -> Result<T, Error>,
        surveyed: impl Fn(&mut Surveyed<V>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let State::Mounted(fs) = &mut self.state {
            match mounted(fs) {
                Err(error) if error.is_damage() || error == Error::NotFound => self.survey(),
                outcome => return outcome,
            }
        }
        match &mut self.state {
            State::Surveyed(state) => surveyed(state),
            State::Lost(error) => Err(error.clone()),
            State::Mounted(_) => Err(Error::NotFound),
        }
    }

    fn survey(&mut self) {
        let lost = State::Lost(Error::Invalid("the filesystem is being looked at"));
        self.state = match core::mem::replace(&mut self.state, lost) {
            State::Mounted(fs) => State::survey(fs.abandon(), &self.nameless_lebs, &self.authenticate),
            other => other,
        };
    }
}

impl<V: Volume + 'static> State<V> {
    fn survey(volume: V, nameless: &Range<u32>, authenticate: &Authenticate) -> Self {
        match Survey::with_nameless(volume, nameless.clone(), authenticate) {
            Ok(survey) => Self::surveyed(survey),
            Err((error, _)) => Self::Lost(error),
        }
    }

    fn surveyed(survey: Survey<V>) -> Self {
        let mut problems: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for problem in survey.problems().iter().filter(|problem| problem.severity == Severity::Damaged) {
            if is_found_elsewhere(&survey, problem) {
                continue;
            }
            let single = problem.inodes.as_ref().filter(|inodes| inodes.start() == inodes.end());
            if let Some(inode) = single {
                let of_inode = problems.entry(*inode.start()).or_default();
                let what = describe(problem);
                if !of_inode.contains(&what) {
                    of_inode.push(what);
                }
            }
        }
        let mut names_of: BTreeMap<u32, u32> = BTreeMap::new();
        for child in survey.tree().files.values().flat_map(|file| file.entries.values()) {
            *names_of.entry(child.inode).or_default() += 1;
        }
        Self::Surveyed(Box::new(Surveyed { survey, problems, names_of, reported: BTreeSet::new() }))
    }
}

/// True if data that the index lost was found at another position, and is certainly the newest.
fn is_found_elsewhere(survey: &Survey<dyn Volume>, problem: &Problem) -> bool {
    let Some(inodes) = problem.inodes.as_ref().filter(|_| problem.structure == Structure::Data) else {
        return false;
    };
    let file = survey.tree().files.get(inodes.start()).filter(|_| inodes.start() == inodes.end());
    file.is_some_and(|file| {
        file.inode.is_some() && file.lost_blocks.is_empty() && file.older_blocks.is_empty() && !file.outdated
    })
}

impl<V: Volume + 'static> Surveyed<V> {
    fn names(&self, directory: u32) -> Vec<Name> {
        if directory == NAMELESS {
            return self.nameless();
        }
        let Some(file) = self.survey.tree().files.get(&directory) else { return Vec::new() };
        let repeated = file.repeated.iter().map(|(name, child)| (name, child));
        let entries = file.entries.iter().chain(repeated).map(|(name, child)| Name {
            name: name.clone(),
            inode: child.inode,
            file_type: child.file_type,
            doubt: (child.found_by_scan && !self.survey.is_past()).then_some(DOUBTFUL),
        });
        entries.collect()
    }

    /// Files that are not reachable from the root, and are not in another such directory.
    fn nameless(&self) -> Vec<Name> {
        let tree = self.survey.tree();
        let unreached = |inode: u32| inode != ROOT_INODE && tree.path(inode).is_none();
        let mut named = BTreeSet::new();
        for (&inode, file) in tree.files.iter().filter(|(inode, _)| unreached(**inode)) {
            named.extend(file.entries.values().map(|child| child.inode).filter(|&child| child != inode));
        }
        let values: BTreeSet<u32> =
            tree.files.values().flat_map(|file| file.xattrs.values()).map(|child| child.inode).collect();
        let is_lost =
            |inode: u32, file: &File| unreached(inode) && !values.contains(&inode) && !file.is_xattr();
        let all = tree.files.iter().filter(|(inode, file)| is_lost(**inode, file));
        let mut below = BTreeSet::new();
        let mut names = Vec::new();
        // Directories that contain each other are last: one of them leads to the others.
        for in_circle in [false, true] {
            for (&inode, file) in all.clone().filter(|(inode, _)| named.contains(inode) == in_circle) {
                if !below.contains(&inode) {
                    self.add_below(inode, &mut below);
                    names.extend(nameless_name(inode, file));
                }
            }
        }
        names
    }

    /// Adds an inode and all inodes below it.
    fn add_below(&self, inode: u32, below: &mut BTreeSet<u32>) {
        let mut pending = vec![inode];
        while let Some(inode) = pending.pop() {
            if below.insert(inode) {
                let file = self.survey.tree().files.get(&inode);
                pending
                    .extend(file.into_iter().flat_map(|file| file.entries.values()).map(|child| child.inode));
            }
        }
    }

    fn lost(&mut self, inode: u32) -> Vec<String> {
        if !self.reported.insert(inode) {
            return Vec::new();
        }
        let mut lost = self.problems.get(&inode).cloned().unwrap_or_default();
        if inode != NAMELESS && self.survey.is_doubtful(inode) {
            lost.push(DOUBTFUL.to_owned());
        }
        lost
    }

    /// Damage of inodes without names: values of extended attributes, and inodes that no longer exist.
    fn unreported(&self) -> Vec<Loss> {
        let tree = self.survey.tree();
        let mut losses = Vec::new();
        for (inode, problems) in self.problems.iter().filter(|(inode, _)| !self.reported.contains(inode)) {
            let has_value = |file: &File| file.xattrs.values().any(|child| child.inode == *inode);
            let host = tree.files.iter().find(|(_, file)| has_value(file)).map(|(&host, _)| host);
            let path = tree.path(*inode).or(host.and_then(|host| tree.path(host))).unwrap_or_default();
            losses.extend(problems.iter().map(|what| Loss::new(&path, format!("inode {inode}: {what}"))));
        }
        losses
    }

    fn xattrs(&self, inode: u32) -> (Xattrs, Vec<String>) {
        let tree = self.survey.tree();
        let (mut xattrs, mut lost) = (Vec::new(), Vec::new());
        for (name, child) in tree.files.get(&inode).into_iter().flat_map(|file| &file.xattrs) {
            match tree.files.get(&child.inode).filter(|value| value.is_xattr()) {
                Some(value) => xattrs.push((name.clone(), value.attached.clone())),
                None => lost.push(format!("extended attribute {}", show_name(name))),
            }
        }
        (xattrs, lost)
    }

    /// Valid data node of a block of a file.
    fn place(&self, inode: u32, block: u32) -> Option<NodePos> {
        Some(self.survey.tree().files.get(&inode)?.blocks.get(&block)?.place)
    }

    fn blocks(&self, inode: u32, block: u32, max: usize) -> Vec<(u32, NodePos)> {
        let file = self.survey.tree().files.get(&inode);
        let blocks = file.into_iter().flat_map(|file| file.blocks.range(block..));
        blocks.take(max).map(|(&block, data)| (block, data.place)).collect()
    }
}

/// Name for a file without a name; `None` if the file is lost, too.
fn nameless_name(inode: u32, file: &File) -> Option<Name> {
    let file_type = match file.inode.and_then(|inode| inode.file_type()) {
        Some(file_type) => file_type,
        None if !file.entries.is_empty() => FileType::Directory,
        None if !file.blocks.is_empty() => FileType::Regular,
        None => return None,
    };
    let name = format!("inode-{inode}").into_bytes();
    Some(Name { name, inode, file_type, doubt: Some("its name is lost") })
}

impl<V: Volume + 'static> Source for DamagedUbifs<V> {
    fn root(&self) -> u32 {
        ROOT_INODE
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes, fs::Error> {
        if inode == NAMELESS && self.nameless {
            return Ok(without_inode(inode, FileType::Directory, 0));
        }
        let read = self.read(
            |fs| match fs.attributes(inode)? {
                // No name leads to the value of an extended attribute.
                attributes if attributes.flags.contains(FileFlags::XATTR) => Err(Error::NotFound),
                attributes => Ok(attributes),
            },
            |state| {
                let known = inode == ROOT_INODE || state.survey.tree().files.contains_key(&inode);
                let missing = Error::Invalid("it is damaged");
                let mut attributes =
                    state.survey.attributes(inode).ok_or(if known { missing } else { Error::NotFound })?;
                // An older inode can count fewer names than exist.
                if attributes.file_type != FileType::Directory {
                    let names = state.names_of.get(&inode).copied().unwrap_or(0);
                    attributes.links = attributes.links.max(names);
                }
                Ok(attributes)
            },
        );
        Ok(read?)
    }

    fn names(&mut self, directory: u32) -> (Vec<Name>, Vec<String>) {
        let read = self.read(
            |fs| match fs.readable_entries(directory)? {
                (_, damage) if !damage.is_empty() => Err(damage[0].clone()),
                // Inode 0 never has a name in a valid filesystem.
                (entries, _) if entries.iter().any(|entry| entry.inode == 0) => Err(Error::NotFound),
                (entries, _) => Ok((names_of(entries), Vec::new())),
            },
            |state| Ok((state.names(directory), Vec::new())),
        );
        let read: (Vec<Name>, Vec<String>) =
            read.unwrap_or_else(|error| (Vec::new(), vec![format!("names in the directory: {error}")]));
        for name in &read.0 {
            self.counted.entry(name.inode).or_default().names += 1;
            self.counted.entry(directory).or_default().bytes += entry_bytes(name.name.len());
        }
        read
    }

    fn lost(&mut self, inode: u32) -> Vec<String> {
        match &mut self.state {
            State::Surveyed(state) => state.lost(inode),
            _ => Vec::new(),
        }
    }

    fn nameless(&mut self, taken: &dyn Fn(&[u8]) -> bool) -> Option<Name> {
        if !matches!(self.has_nameless(), Ok(false)) {
            self.survey();
        }
        let State::Surveyed(state) = &self.state else { return None };
        if core::mem::replace(&mut self.nameless, true) || state.nameless().is_empty() {
            return None;
        }
        let names = (0..).map(|number| match number {
            0 => b"lost+found".to_vec(),
            number => format!("lost+found-{number}").into_bytes(),
        });
        let name = names.into_iter().find(|name| !taken(name))?;
        Some(Name { name, inode: NAMELESS, file_type: FileType::Directory, doubt: None })
    }

    fn xattrs(&mut self, inode: u32) -> (Xattrs, Vec<String>) {
        let read = self.read(
            |fs| fs.readable_xattrs(inode).map(|_| readable_xattrs(fs, inode)),
            |state| Ok(state.xattrs(inode)),
        );
        read.unwrap_or_else(|error| (Vec::new(), vec![format!("extended attributes: {error}")]))
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>, fs::Error> {
        let read = self.read(
            |fs| fs.read_link(inode),
            |state| {
                let file = state.survey.tree().files.get(&inode).filter(|file| file.inode.is_some());
                file.map(|file| file.attached.clone()).ok_or(Error::NotFound)
            },
        );
        Ok(read?)
    }

    fn blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>, fs::Error> {
        Ok(self.read(|fs| fs.stored_blocks(inode, block, max), |state| Ok(state.blocks(inode, block, max)))?)
    }

    fn read_block(
        &mut self,
        inode: u32,
        block: u32,
        place: NodePos,
        out: &mut [u8; BLOCK_BYTES as usize],
    ) -> Result<(), fs::Error> {
        if let State::Mounted(fs) = &mut self.state {
            match fs.read_stored(inode, block, place, out) {
                // The inode may be in a PEB whose LEB is unknown.
                Err(error) if error.is_damage() && !self.nameless_lebs.is_empty() => self.survey(),
                read => return Ok(read?),
            }
        }
        let read = match &mut self.state {
            State::Surveyed(state) => {
                let place = state.place(inode, block).unwrap_or(place);
                state.survey.read_data(inode, block, place, out)
            }
            State::Lost(error) => Err(error.clone()),
            State::Mounted(_) => Err(Error::NotFound),
        };
        Ok(read?)
    }
}

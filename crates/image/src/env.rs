//! Environment of U-Boot in a dump: reading it, and changing it like U-Boot's `saveenv`.

use std::path::Path;

use floatgate_host::Lock;
use floatgate_host::output::{Output, copy_sparse};
use floatgate_media::crc;
use floatgate_stack::Store;
use serde::Serialize;

use crate::ImageError;
use crate::image::Image;
use crate::map::probes::uboot_env::{Header, SIZE_MAX, begins_variable, variables};
use crate::map::{Checksum, Kind, Part, Value, map};
use crate::pages::FlashSizes;

/// Environment of U-Boot, with one copy, or with two of which U-Boot uses one.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// Copies of the environment, by offset.
    pub copies: Vec<Copy>,
    /// Variables in the order of the flash.
    pub variables: Vec<Variable>,
}

/// Copy of an environment on the flash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// Offset of the first byte on the flash, bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Result of the CRC check.
    pub checksum: Checksum,
    /// Flag byte of a redundant copy; `None` for an environment with one copy.
    pub flag: Option<u8>,
    /// True for the copy that U-Boot uses.
    pub active: bool,
}

/// Variable of a U-Boot environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Value of the variable.
    pub value: String,
}

/// A change of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetVariable {
    /// Name of the variable.
    pub name: String,
    /// New value; `None` removes the variable.
    pub value: Option<String>,
}

/// Reason why an environment cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum EnvError {
    /// The dump cannot be opened, read or written.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// No environment with a valid CRC was found.
    #[error("no environment of U-Boot with a good CRC was found")]
    None,
    /// Several environments were found, and none was selected; their offsets.
    #[error("the dump has {} environments: {}", .0.len(), .0.iter().map(|at| format!("{at:#x}")).collect::<Vec<_>>().join(", "))]
    Several(Vec<u64>),
    /// Only one copy of a redundant pair was found; its offset.
    #[error(
        "the environment at {0:#x} is one of a redundant pair, and the other copy was not found: a change would overwrite the only good one"
    )]
    Lost(u64),
    /// Invalid name of a variable.
    #[error("{0:?} is no name of a variable: letters, digits and . _ - # : are")]
    Name(String),
    /// The environment contains text that is not a variable or not UTF-8, and would be lost by a change.
    #[error("the environment has entries that are no variables in UTF-8: it is not changed")]
    Odd,
    /// The value of the named variable contains a byte 0.
    #[error("the value of {0} has a byte 0, which ends a variable")]
    Zero(String),
    /// The variables do not fit a copy.
    #[error("the variables need {need} bytes, and the environment has {room}")]
    Full {
        /// Bytes needed for the variables.
        need: usize,
        /// Bytes available in a copy.
        room: usize,
    },
}

/// Reads the environment of a dump: the one at `offset`, or the only one.
///
/// # Errors
/// The dump has no environment or several, or the file cannot be read.
pub fn read(image: &Image, offset: Option<u64>) -> Result<Environment, EnvError> {
    let copies = copies(image, offset)?;
    let active = copies.iter().find(|copy| copy.active).ok_or(EnvError::None)?;
    let bytes = active.bytes(&*image.store()?)?;
    let all = variables(bytes.get(active.header().bytes()..).unwrap_or_default());
    let variables = all.into_iter().map(|(name, value)| Variable { name, value }).collect();
    Ok(Environment { copies, variables })
}

/// Changes variables of an environment, in the file or in a new one. With a redundant pair, the unused copy is
/// written and becomes the one in use, as with `saveenv`. The file is replaced as a whole.
///
/// # Errors
/// Errors of [`read`]; the variables do not fit; the file cannot be written.
pub fn change(
    path: &Path,
    sizes: FlashSizes,
    offset: Option<u64>,
    changes: &[SetVariable],
    output: Option<&Path>,
) -> Result<Environment, EnvError> {
    let lock = Lock::new(path, output.is_none()).map_err(ImageError::from)?;
    let image = Image::open_any(path, sizes)?;
    let mut environment = read(&image, offset)?;
    environment.require_text(&*image.store()?)?;
    for change in changes {
        environment.set(change)?;
    }
    let writes = environment.writes(&*image.store()?)?;
    let out = match output {
        Some(output) => Output::create(output, &[path]),
        None => Output::replace(path),
    };
    let out = out.map_err(ImageError::from)?;
    let input = floatgate_files::File::open(path).map_err(ImageError::File)?;
    copy_sparse(&input, out.file()).map_err(|error| ImageError::from(out.failed(error)))?;
    let mut store = crate::saved::target(&image, out.temporary())?;
    for (at, bytes) in writes {
        store.write_at(at, &bytes).map_err(ImageError::Store)?;
    }
    drop(store);
    out.finish().map_err(ImageError::from)?;
    drop(lock);
    Ok(environment)
}

/// Copies of the selected environment.
fn copies(image: &Image, offset: Option<u64>) -> Result<Vec<Copy>, EnvError> {
    let map = map(image)?;
    let all: Vec<Copy> = map.top().filter(|part| part.kind == Kind::UbootEnv).map(Copy::new).collect();
    let mut groups: Vec<Vec<Copy>> = Vec::new();
    for copy in all {
        // An unused copy of a pair is grouped with the copy before it.
        match groups.last_mut() {
            Some(group) if group.len() == 1 && group.iter().any(|other| other.is_pair(&copy)) => {
                group.push(copy)
            }
            _ => groups.push(vec![copy]),
        }
    }
    if let Some(offset) = offset {
        groups.retain(|group| group.iter().any(|copy| copy.offset == offset));
    }
    let mut group = match groups.as_slice() {
        [] => return Err(EnvError::None),
        [group] => group.clone(),
        groups => return Err(EnvError::Several(groups.iter().flatten().map(|copy| copy.offset).collect())),
    };
    if let [only] = group.as_mut_slice() {
        only.active = only.checksum == Checksum::Good;
    }
    Ok(group)
}

impl Copy {
    fn new(part: &Part) -> Self {
        let fact = |name: &str| part.facts.0.iter().find(|fact| fact.0 == name).map(|fact| &fact.1);
        let flag = match fact("flag") {
            Some(Value::Number(flag)) => u8::try_from(*flag).ok(),
            _ => None,
        };
        let active = fact("copy") == Some(&Value::Text("active".to_owned()));
        Self { offset: part.offset, len: part.len, checksum: part.checksum, flag, active }
    }

    const fn is_pair(&self, other: &Self) -> bool {
        self.len == other.len && self.active != other.active && self.flag.is_some() && other.flag.is_some()
    }

    const fn header(&self) -> Header {
        if self.flag.is_some() { Header::Redundant } else { Header::Single }
    }

    fn bytes(&self, store: &dyn Store) -> Result<Vec<u8>, ImageError> {
        let mut bytes = vec![0; usize::try_from(self.len.min(SIZE_MAX)).unwrap_or(0)];
        store.read_at(self.offset, &mut bytes).map_err(ImageError::Store)?;
        Ok(bytes)
    }
}

impl Environment {
    /// Value of a variable; `None` if the environment has no variable of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|variable| variable.name == name).map(|variable| variable.value.as_str())
    }

    /// Returns an error if a change would alter more of the environment than its variables.
    fn require_text(&self, store: &dyn Store) -> Result<(), EnvError> {
        let active = self.copies.iter().find(|copy| copy.active).ok_or(EnvError::None)?;
        let (bytes, header) = (active.bytes(store)?, active.header().bytes());
        let text = text_of(&self.variables);
        let is_same = bytes.get(header..).is_some_and(|rest| rest.starts_with(&text));
        if is_same { Ok(()) } else { Err(EnvError::Odd) }
    }

    fn set(&mut self, change: &SetVariable) -> Result<(), EnvError> {
        let SetVariable { name, value } = change;
        if !begins_variable(format!("{name}=").as_bytes()) {
            return Err(EnvError::Name(name.clone()));
        }
        let Some(value) = value.clone().filter(|value| !value.is_empty()) else {
            // An empty value removes the variable, as in U-Boot.
            self.variables.retain(|variable| variable.name != *name);
            return Ok(());
        };
        if value.contains('\0') {
            return Err(EnvError::Zero(name.clone()));
        }
        match self.variables.iter_mut().find(|variable| variable.name == *name) {
            Some(variable) => variable.value = value,
            None => self.variables.push(Variable { name: name.clone(), value }),
        }
        Ok(())
    }

    /// Encodes the changed copies and returns their bytes with the offsets to write them to; `copies` gets the state
    /// after the write.
    fn writes(&mut self, store: &dyn Store) -> Result<Vec<(u64, Vec<u8>)>, EnvError> {
        let (used, unused) = match self.copies.as_mut_slice() {
            [one] if one.flag.is_some() => return Err(EnvError::Lost(one.offset)),
            [one] => (one, None),
            [one, two] if one.active => (one, Some(two)),
            [one, two] => (two, Some(one)),
            _ => return Err(EnvError::None),
        };
        let old = used.bytes(store)?;
        let is_big = stored_big(&old, used.header());
        let mut writes = Vec::new();
        let target = match unused {
            None => used,
            Some(unused) => {
                let before = used.flag.unwrap_or(0);
                // On NOR the flag is not a counter: 1 marks the copy in use, 0 the other one. These values are correct
                // on every flash if the other copy's flag is lost.
                let is_nor = before == 1 && (unused.flag == Some(0) || unused.checksum != Checksum::Good);
                if is_nor {
                    used.flag = Some(0);
                    writes.push((used.offset + 4, vec![0]));
                }
                unused.flag = Some(if is_nor { 1 } else { before.wrapping_add(1) });
                (used.active, unused.active) = (false, true);
                unused
            }
        };
        target.checksum = Checksum::Good;
        writes.push((target.offset, encode(&self.variables, target, is_big)?));
        Ok(writes)
    }
}

/// True if the CRC is stored with its most significant byte first.
fn stored_big(bytes: &[u8], header: Header) -> bool {
    let sum = !crc::ubi(bytes.get(header.bytes()..).unwrap_or_default());
    bytes.first_chunk() == Some(&sum.to_be_bytes())
}

/// Text of the variables as a copy stores it, with the final byte 0.
fn text_of(variables: &[Variable]) -> Vec<u8> {
    let text = |variable: &Variable| format!("{}={}\0", variable.name, variable.value);
    let mut text: Vec<u8> = variables.iter().map(text).collect::<String>().into_bytes();
    text.push(0);
    text
}

/// Encodes a copy with these variables: its header with the CRC, and the text.
fn encode(variables: &[Variable], copy: &Copy, is_big: bool) -> Result<Vec<u8>, EnvError> {
    let mut text = text_of(variables);
    let room = usize::try_from(copy.len).unwrap_or(0).saturating_sub(copy.header().bytes());
    if text.len() > room {
        return Err(EnvError::Full { need: text.len(), room });
    }
    text.resize(room, 0);
    let sum = !crc::ubi(&text);
    let sum = if is_big { sum.to_be_bytes() } else { sum.to_le_bytes() };
    Ok(sum.into_iter().chain(copy.flag).chain(text).collect())
}

//! Header of an object: a chunk with its type, parent, name and attributes.

use super::{Order, put};

/// Size of a header, bytes. Extended attributes follow it in the chunk.
const HEADER: usize = 512;

/// Positions of the fields.
const PARENT: usize = 4;
const SUM: usize = 8;
const NAME: usize = 10;
const NAME_BYTES: usize = 256;
const MODE: usize = 268;
const UID: usize = 272;
const GID: usize = 276;
const ATIME: usize = 280;
const MTIME: usize = 284;
const CTIME: usize = 288;
const SIZE: usize = 292;
const EQUIVALENT: usize = 296;
const TARGET: usize = 300;
const TARGET_BYTES: usize = 160;
const DEVICE: usize = 460;
const INBAND_SHADOWS: usize = 488;
const INBAND_SHRINK: usize = 492;
const SIZE_HIGH: usize = 496;
const SHADOWS: usize = 504;
const SHRINK: usize = 508;

/// Upper half of the file size in a header of an older version.
const NO_HIGH: u32 = u32::MAX;

/// Size of the length field before an extended attribute, bytes.
const LENGTH: usize = 4;

/// Type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    File = 1,
    Symlink = 2,
    Directory = 3,
    /// Another name of an object.
    HardLink = 4,
    /// Device, FIFO or socket, according to the mode.
    Special = 5,
}

impl ObjectKind {
    fn of(number: u32) -> Option<Self> {
        let all = [Self::File, Self::Symlink, Self::Directory, Self::HardLink, Self::Special];
        all.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Fields of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: ObjectKind,
    pub(crate) parent: u32,
    pub(crate) name: Vec<u8>,
    /// POSIX type and permissions.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds since 1970.
    pub(crate) atime: u32,
    pub(crate) mtime: u32,
    pub(crate) ctime: u32,
    /// Size of a file, bytes.
    pub(crate) size: u64,
    /// Original object, if this is another name (hard link).
    pub(crate) equivalent: u32,
    /// Target of a symbolic link.
    pub(crate) target: Vec<u8>,
    /// Device in Linux's old encoding of 16 bits.
    pub(crate) device: u32,
    /// Object whose name this header takes over, which removes that object; 0 for none.
    pub(crate) shadows: u32,
    /// True if the file became shorter.
    pub(crate) is_shrink: bool,
}

impl Header {
    /// Length of the longest target of a symbolic link.
    pub(crate) const TARGET_MAX: usize = TARGET_BYTES - 1;
    /// Size of a header in a chunk, bytes; extended attributes follow it.
    pub(crate) const BYTES: usize = HEADER;

    /// Parses the header in a chunk; `None` for other data. `is_inband` is true for chunks with their tags in the
    /// page.
    pub(crate) fn parse(chunk: &[u8], order: Order, is_inband: bool) -> Option<Self> {
        let bytes = chunk.get(..HEADER)?;
        let word = |at| order.u32(bytes, at);
        let text = |at: usize, len: usize| {
            let field = bytes.get(at..at + len).unwrap_or_default();
            field.get(..memchr::memchr(0, field).unwrap_or(len)).unwrap_or_default().to_vec()
        };
        let kind = ObjectKind::of(word(0))?;
        let high = match word(SIZE_HIGH) {
            NO_HIGH => 0,
            high => high,
        };
        let (shadows, shrink) = if is_inband { (INBAND_SHADOWS, INBAND_SHRINK) } else { (SHADOWS, SHRINK) };
        let shadows = word(shadows);
        Some(Self {
            kind,
            parent: word(PARENT),
            name: text(NAME, NAME_BYTES),
            mode: word(MODE),
            uid: word(UID),
            gid: word(GID),
            atime: word(ATIME),
            mtime: word(MTIME),
            ctime: word(CTIME),
            size: if kind == ObjectKind::File { u64::from(high) << 32 | u64::from(word(SIZE)) } else { 0 },
            equivalent: word(EQUIVALENT),
            target: text(TARGET, TARGET_BYTES),
            device: word(DEVICE),
            shadows: if shadows.cast_signed() > 0 { shadows } else { 0 },
            is_shrink: word(shrink) != 0,
        })
    }

    /// Bytes of the header without extended attributes. Values that do not fit are cut off.
    pub(crate) fn emit(&self, order: Order) -> Vec<u8> {
        let mut bytes = vec![0xFF; HEADER];
        let mut set = |at, word| put(order, &mut bytes, at, word);
        set(0, self.kind as u32);
        set(PARENT, self.parent);
        set(MODE, self.mode);
        set(UID, self.uid);
        set(GID, self.gid);
        set(ATIME, self.atime);
        set(MTIME, self.mtime);
        set(CTIME, self.ctime);
        match self.kind {
            ObjectKind::File => {
                set(SIZE, (self.size & u64::from(u32::MAX)) as u32);
                // Older versions do not support files of 4 GiB, and write this value.
                let high = (self.size >> 32) as u32;
                set(SIZE_HIGH, if high == 0 { NO_HIGH } else { high });
            }
            ObjectKind::HardLink => set(EQUIVALENT, self.equivalent),
            ObjectKind::Special => set(DEVICE, self.device),
            ObjectKind::Symlink | ObjectKind::Directory => {}
        }
        for at in [INBAND_SHADOWS, INBAND_SHRINK, SHADOWS, SHRINK] {
            set(at, 0);
        }
        set(SHADOWS, self.shadows);
        set(SHRINK, self.is_shrink.into());
        let mut text = |at: usize, len: usize, text: &[u8]| {
            let text = text.get(..len - 1).unwrap_or(text);
            if let Some(field) = bytes.get_mut(at..at + len) {
                field.fill(0);
                field.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
            }
        };
        text(NAME, NAME_BYTES, &self.name);
        if self.kind == ObjectKind::Symlink {
            text(TARGET, TARGET_BYTES, &self.target);
        }
        bytes
    }
}

/// True if the fields can be those of a header: type, parent, an unused checksum, a name of any bytes, a mode.
pub(super) fn is_header(head: &[u8], order: Order) -> bool {
    let Some(kind) = ObjectKind::of(order.u32(head, 0)) else { return false };
    let name = head.get(NAME..NAME + NAME_BYTES).unwrap_or_default();
    let len = memchr::memchr(0, name).unwrap_or(0);
    let file_type = order.u32(head, MODE) >> 12;
    let is_mode = match kind {
        ObjectKind::File => file_type == 8,
        ObjectKind::Symlink => file_type == 10,
        ObjectKind::Directory => file_type == 4,
        ObjectKind::HardLink => true,
        ObjectKind::Special => matches!(file_type, 1 | 2 | 6 | 12),
    };
    is_mode
        && (1..=super::OBJECT_MAX).contains(&order.u32(head, PARENT))
        && head.get(SUM..NAME) == Some(&[0xFF, 0xFF])
        && (len > 0 || kind == ObjectKind::Directory)
}

/// Extended attribute: name with its prefix, and value.
pub(crate) type Xattr = (Vec<u8>, Vec<u8>);

/// Parses the extended attributes after a header in its chunk. Each has its length including this field, the name, a
/// zero, and the value.
pub(crate) fn parse_xattrs(mut bytes: &[u8], order: Order) -> Vec<Xattr> {
    let mut all = Vec::new();
    loop {
        let len = order.u32(bytes, 0) as usize;
        let Some(record) = bytes.get(..len).filter(|_| len > LENGTH) else { return all };
        let body = record.get(LENGTH..).unwrap_or_default();
        let Some(end) = memchr::memchr(0, body).filter(|end| *end > 0) else { return all };
        let (name, value) = body.split_at(end);
        all.push((name.to_vec(), value.get(1..).unwrap_or_default().to_vec()));
        bytes = bytes.get(len..).unwrap_or_default();
    }
}

/// Bytes of extended attributes after a header.
pub(crate) fn emit_xattrs(xattrs: &[Xattr], order: Order) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in xattrs {
        let len = u32::try_from(LENGTH + name.len() + 1 + value.len()).unwrap_or(u32::MAX);
        bytes.extend(order.bytes(len));
        bytes.extend(name);
        bytes.push(0);
        bytes.extend(value);
    }
    bytes
}

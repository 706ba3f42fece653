//! Guest memory, and the split virtqueue in it (Virtual I/O Device 1.2, 2.7).
//!
//! The guest shares its memory as a file, which is accessed by reads and writes. This is fast enough for a card, needs
//! no mapping, and turns wrong guest addresses into errors.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use super::message::{Message, bad};

/// A region of the guest's memory.
struct Region {
    /// Address of the region in the guest.
    guest: u64,
    /// Address of the region in the front end's process.
    user: u64,
    bytes: u64,
    /// Offset of the region in the file.
    offset: u64,
    file: File,
}

/// An address in the guest, or in the process that runs the guest.
#[derive(Clone, Copy)]
pub(super) enum Address {
    Guest(u64),
    User(u64),
}

impl Address {
    /// Address plus `bytes`.
    pub(super) const fn plus(self, bytes: u64) -> Self {
        match self {
            Self::Guest(at) => Self::Guest(at.wrapping_add(bytes)),
            Self::User(at) => Self::User(at.wrapping_add(bytes)),
        }
    }
}

/// The guest's memory.
#[derive(Default)]
pub(super) struct Memory(Vec<Region>);

impl Memory {
    /// Memory from the region table in a message. User Mode Linux sends a table with room for two regions that contains
    /// only one.
    pub(super) fn from_message(message: &mut Message) -> io::Result<Self> {
        let fds: Vec<OwnedFd> = std::mem::take(&mut message.fds);
        if fds.len() != message.u32(0)? as usize {
            return Err(bad("the table of memory has another number of regions than of descriptors"));
        }
        let region = |(at, fd): (usize, OwnedFd)| {
            let [guest, bytes, user, offset] = [0, 8, 16, 24].map(|field| message.u64(8 + 32 * at + field));
            Ok(Region { guest: guest?, user: user?, bytes: bytes?, offset: offset?, file: File::from(fd) })
        };
        fds.into_iter().enumerate().map(region).collect::<io::Result<_>>().map(Self)
    }

    /// File and file offset of a range of addresses.
    fn find(&self, address: Address, bytes: usize) -> io::Result<(&File, u64)> {
        let found = self.0.iter().find_map(|region| {
            let from = match address {
                Address::Guest(at) => at.checked_sub(region.guest),
                Address::User(at) => at.checked_sub(region.user),
            };
            let from =
                from.filter(|from| from.checked_add(bytes as u64).is_some_and(|end| end <= region.bytes))?;
            Some((&region.file, region.offset.checked_add(from)?))
        });
        let (Address::Guest(at) | Address::User(at)) = address;
        found.ok_or_else(|| bad(format!("the guest has no memory of {bytes} bytes at {at:#x}")))
    }

    pub(super) fn read(&self, address: Address, buf: &mut [u8]) -> io::Result<()> {
        let (file, offset) = self.find(address, buf.len())?;
        file.read_exact_at(buf, offset)
    }

    pub(super) fn write(&self, address: Address, data: &[u8]) -> io::Result<()> {
        let (file, offset) = self.find(address, data.len())?;
        file.write_all_at(data, offset)
    }

    pub(super) fn u16(&self, address: Address) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.read(address, &mut bytes)?;
        Ok(u16::from_le_bytes(bytes))
    }
}

/// A data piece of a request.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) bytes: u32,
    /// True if the device writes it, false if it reads it.
    pub(super) is_writable: bool,
}

/// Descriptor flags `VIRTQ_DESC_F_NEXT` and `VIRTQ_DESC_F_WRITE`.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// Flag `VIRTQ_AVAIL_F_NO_INTERRUPT`: the guest wants no notification.
const NO_INTERRUPT: u16 = 1;
const DESCRIPTOR_BYTES: u64 = 16;
/// Maximum number of descriptors in a queue.
const DESCRIPTORS_MAX: u32 = 32768;

/// The queue at the addresses given by the front end.
pub(super) struct Queue {
    size: u16,
    descriptors: Address,
    available: Address,
    used: Address,
    /// Index of the next request.
    pub(super) next: u16,
    /// Index of the next answer.
    answered: u16,
}

impl Default for Queue {
    fn default() -> Self {
        let nowhere = Address::User(0);
        Self { size: 0, descriptors: nowhere, available: nowhere, used: nowhere, next: 0, answered: 0 }
    }
}

impl Queue {
    pub(super) fn set_size(&mut self, size: u32) -> io::Result<()> {
        if !size.is_power_of_two() || size > DESCRIPTORS_MAX {
            return Err(bad(format!("a queue of {size} descriptors")));
        }
        self.size = size as u16;
        Ok(())
    }

    /// Sets the queue addresses from a message. The device continues at the current end of the used ring.
    pub(super) fn set_addresses(&mut self, message: &Message, memory: &Memory) -> io::Result<()> {
        let [descriptors, used, available] = [8, 16, 24].map(|at| message.u64(at));
        self.descriptors = Address::User(descriptors?);
        self.used = Address::User(used?);
        self.available = Address::User(available?);
        self.answered = memory.u16(self.used.plus(2))?;
        Ok(())
    }

    /// Removes the next request from the queue: the number of its first descriptor, and all its pieces.
    pub(super) fn pop(&mut self, memory: &Memory) -> io::Result<Option<(u16, Vec<Piece>)>> {
        if self.size == 0 || memory.u16(self.available.plus(2))? == self.next {
            return Ok(None);
        }
        let slot = u64::from(self.next % self.size);
        let head = memory.u16(self.available.plus(4 + 2 * slot))?;
        self.next = self.next.wrapping_add(1);
        let mut pieces = Vec::new();
        let mut at = head;
        loop {
            if at >= self.size || pieces.len() >= usize::from(self.size) {
                return Err(bad(format!(
                    "a request has descriptor {at} of {}, or a ring of them",
                    self.size
                )));
            }
            let mut bytes = [0; DESCRIPTOR_BYTES as usize];
            memory.read(self.descriptors.plus(DESCRIPTOR_BYTES * u64::from(at)), &mut bytes)?;
            let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1] = bytes;
            let flags = u16::from_le_bytes([f0, f1]);
            pieces.push(Piece {
                address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
                bytes: u32::from_le_bytes([l0, l1, l2, l3]),
                is_writable: flags & WRITE != 0,
            });
            if flags & NEXT == 0 {
                return Ok(Some((head, pieces)));
            }
            at = u16::from_le_bytes([n0, n1]);
        }
    }

    /// Returns a request, into which `bytes` were written, to the guest. True if the guest wants to be notified.
    pub(super) fn push(&mut self, memory: &Memory, head: u16, bytes: u32) -> io::Result<bool> {
        let slot = u64::from(self.answered % self.size);
        let mut element = [0; 8];
        element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        element[4..].copy_from_slice(&bytes.to_le_bytes());
        memory.write(self.used.plus(4 + 8 * slot), &element)?;
        self.answered = self.answered.wrapping_add(1);
        memory.write(self.used.plus(2), &self.answered.to_le_bytes())?;
        Ok(memory.u16(self.available)? & NO_INTERRUPT == 0)
    }
}

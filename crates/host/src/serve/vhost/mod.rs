//! A block device for QEMU and User Mode Linux, through vhost-user, with one front end and one queue.
//!
//! - `message`: messages of the front end on the socket.
//! - `queue`: the guest's memory, and the queue of requests in it.
//! - [`VhostDevice`]: the device on its socket, from the connection to its end.

mod message;
mod queue;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use floatgate_mtd::{BlockDevice, SECTOR_BYTES};
use rustix::event::{PollFd, PollFlags, poll};

use super::fuse::{Clock, DelayStats, Served};
use crate::mount::FolderError;
use message::{Message, bad, request};
use queue::{Address, Memory, Piece, Queue};

/// Supported features of virtio and its block device: `SEG_MAX`, `BLK_SIZE`, `FLUSH`, `DISCARD`, `VERSION_1`; and the
/// support of protocol features.
const FEATURES: u64 = 1 << 2 | 1 << 6 | 1 << 9 | 1 << 13 | 1 << 32 | HAS_PROTOCOL_FEATURES;
const HAS_PROTOCOL_FEATURES: u64 = 1 << 30;
/// Supported protocol features: `REPLY_ACK`, `BACKEND_REQ` (without which User Mode Linux panics) and `CONFIG`.
const PROTOCOL_FEATURES: u64 = 1 << 3 | 1 << 5 | 1 << 9;

/// Size of `struct virtio_blk_config`, bytes.
const CONFIG_BYTES: usize = 60;
/// Maximum number of data pieces of a request: a queue of 128 descriptors, minus header and status.
const PIECES_MAX: u32 = 126;
/// Maximum number of sectors per discard.
const DISCARD_SECTORS_MAX: u32 = 1 << 21;
/// Maximum size of a request, B.
const REQUEST_BYTES_MAX: usize = 32 << 20;

/// Request types of virtio-blk: `VIRTIO_BLK_T_IN`, `OUT`, `FLUSH`, `GET_ID`, `DISCARD`.
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
/// Size of type, priority and sector fields, B.
const REQUEST_HEADER_BYTES: usize = 16;
/// Size of a discard segment, B: first sector, number of sectors and flags.
const SEGMENT_BYTES: usize = 16;
/// Status values of virtio-blk: `VIRTIO_BLK_S_OK`, `IOERR`, `UNSUPP`.
const OK: u8 = 0;
const IOERR: u8 = 1;
const UNSUPP: u8 = 2;

/// A device that waits for its front end on a socket.
pub struct VhostDevice<D: BlockDevice> {
    served: Served<D>,
    name: String,
    listener: UnixListener,
    path: PathBuf,
    /// Socket whose other end is held by the [`Stopper`].
    stopped: UnixStream,
}

/// Handle that ends a device from another thread.
pub struct Stopper {
    /// Dropping this socket stops the device.
    _stop: UnixStream,
}

impl<D: BlockDevice> VhostDevice<D> {
    /// Creates the socket at `path`, which must not exist. `name` is the serial number that the guest reads, at most 20
    /// bytes.
    ///
    /// # Errors
    /// The host refuses.
    pub fn new(
        device: D,
        clock: Box<dyn Clock>,
        name: &str,
        path: &Path,
    ) -> Result<(Self, Stopper), FolderError> {
        let failed = |error| FolderError::host(path, error);
        let listener = UnixListener::bind(path).map_err(failed)?;
        let (stopped, stop) = UnixStream::pair().map_err(failed)?;
        let served = Served::new(device, clock);
        let device = Self { served, name: name.to_owned(), listener, path: path.to_owned(), stopped };
        Ok((device, Stopper { _stop: stop }))
    }

    /// Serves the first front end that connects, until it closes the connection or the [`Stopper`] is dropped. Removes
    /// the socket and returns the device.
    ///
    /// # Errors
    /// The connection fails, or the messages are not vhost-user.
    pub fn serve(self) -> Result<(D, DelayStats), FolderError> {
        let Self { served, name, listener, path, stopped } = self;
        let failed = |error| FolderError::host(&path, error);
        let connected = ready(&stopped, &[listener.as_fd()]).and_then(|ready| match ready {
            Some(_) => listener.accept().map(|(socket, _)| Some(socket)),
            None => Ok(None),
        });
        // No other front end can connect from now on.
        let _ = std::fs::remove_file(&path);
        let Some(socket) = connected.map_err(failed)? else { return Ok((served.device, served.delays)) };
        let mut session = Session {
            served,
            name,
            memory: Memory::default(),
            queue: Queue::default(),
            kick: None,
            call: None,
            back: None,
            is_enabled: true,
        };
        session.run(socket, &stopped).map_err(failed)?;
        Ok((session.served.device, session.served.delays))
    }
}

/// Waits until one of the descriptors is readable, and returns its index; `None` if `stopped` is closed.
fn ready(stopped: &UnixStream, fds: &[rustix::fd::BorrowedFd<'_>]) -> io::Result<Option<usize>> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().chain([&stopped.as_fd()]).map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        match poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other.map(drop)?,
        }
    }
    let first = polled.iter().position(|fd| !fd.revents().is_empty());
    Ok(first.filter(|number| *number < fds.len()))
}

/// A connected front end.
struct Session<D> {
    served: Served<D>,
    name: String,
    memory: Memory,
    queue: Queue,
    /// Descriptor that becomes readable when the guest adds requests to the queue.
    kick: Option<OwnedFd>,
    /// Descriptor that is written to notify the guest of answers.
    call: Option<OwnedFd>,
    /// Socket that stays open because User Mode Linux watches its other end.
    back: Option<OwnedFd>,
    is_enabled: bool,
}

impl<D: BlockDevice> Session<D> {
    fn run(&mut self, mut socket: UnixStream, stopped: &UnixStream) -> io::Result<()> {
        loop {
            let mut fds = Vec::with_capacity(2);
            fds.extend(self.kick.as_ref().filter(|_| self.is_enabled).map(AsFd::as_fd));
            let has_kick = !fds.is_empty();
            fds.push(socket.as_fd());
            match ready(stopped, &fds)? {
                None => return Ok(()),
                Some(0) if has_kick => self.kicked()?,
                Some(_) => match Message::receive(&mut socket, stopped)? {
                    Some(message) => self.message(message, &mut socket)?,
                    None => return Ok(()),
                },
            }
        }
    }

    fn message(&mut self, mut message: Message, socket: &mut UnixStream) -> io::Result<()> {
        let reply = match message.request {
            request::GET_FEATURES => Some(FEATURES.to_le_bytes().to_vec()),
            request::GET_PROTOCOL_FEATURES => Some(PROTOCOL_FEATURES.to_le_bytes().to_vec()),
            request::GET_QUEUE_NUM => Some(1u64.to_le_bytes().to_vec()),
            request::GET_CONFIG => Some(self.config(&message)?),
            request::GET_VRING_BASE => {
                // The queue stops until the front end sets it up again.
                self.kick = None;
                Some([message.u32(0)?, u32::from(self.queue.next)].map(u32::to_le_bytes).concat())
            }
            _ => None,
        };
        if let Some(reply) = reply {
            return message.reply(socket, &reply);
        }
        self.set(&mut message)?;
        if message.needs_reply() { message.reply(socket, &0u64.to_le_bytes()) } else { Ok(()) }
    }

    /// Applies a setting that the front end sent.
    fn set(&mut self, message: &mut Message) -> io::Result<()> {
        match message.request {
            request::SET_FEATURES => {
                // Without protocol features no message enables the queue, so it is enabled here.
                self.is_enabled = message.u64(0)? & HAS_PROTOCOL_FEATURES == 0;
            }
            request::SET_MEM_TABLE => self.memory = Memory::from_message(message)?,
            request::SET_VRING_NUM => self.queue.set_size(one_queue(message)?)?,
            request::SET_VRING_ADDR => self.queue.set_addresses(message, &self.memory)?,
            request::SET_VRING_BASE => self.queue.next = one_queue(message)? as u16,
            request::SET_VRING_ENABLE => self.is_enabled = one_queue(message)? != 0,
            request::SET_VRING_KICK => self.kick = message.fds.pop(),
            request::SET_VRING_CALL => self.call = message.fds.pop(),
            request::SET_BACKEND_REQ_FD => self.back = message.fds.pop(),
            request::SET_OWNER
            | request::SET_PROTOCOL_FEATURES
            | request::SET_VRING_ERR
            | request::SET_CONFIG => {}
            unknown => return Err(bad(format!("vhost-user's request {unknown} was not offered"))),
        }
        Ok(())
    }

    /// Requested part of `struct virtio_blk_config`, after its offset, size and flags.
    fn config(&self, message: &Message) -> io::Result<Vec<u8>> {
        let mut all = [0; CONFIG_BYTES];
        let mut put = |at: usize, bytes: &[u8]| all[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.served.device.capacity().to_le_bytes());
        put(12, &PIECES_MAX.to_le_bytes());
        put(20, &(SECTOR_BYTES as u32).to_le_bytes());
        put(34, &1u16.to_le_bytes());
        put(36, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(40, &1u32.to_le_bytes());
        put(44, &1u32.to_le_bytes());
        let (offset, size) = (message.u32(0)? as usize, message.u32(4)? as usize);
        let mut reply = message.payload.get(..12).unwrap_or_default().to_vec();
        // The front end may request fields of newer versions; they are returned as 0.
        let asked = message.payload.len().saturating_sub(12).min(size);
        reply.extend((offset..offset.saturating_add(asked)).map(|at| all.get(at).copied().unwrap_or(0)));
        Ok(reply)
    }

    /// Executes all requests in the queue.
    fn kicked(&mut self) -> io::Result<()> {
        if let Some(kick) = &self.kick {
            rustix::io::read(kick, &mut [0; 8])?;
        }
        while let Some((head, pieces)) = self.queue.pop(&self.memory)? {
            let written = self.request(&pieces)?;
            if self.queue.push(&self.memory, head, written)?
                && let Some(call) = &self.call
            {
                rustix::io::write(call, &1u64.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Executes a request: header, data, and one byte for the status. Returns the number of bytes written to the
    /// guest's memory.
    fn request(&mut self, pieces: &[Piece]) -> io::Result<u32> {
        let Some((status, others)) =
            pieces.split_last().filter(|(status, _)| status.is_writable && status.bytes > 0)
        else {
            return Err(bad("a request has no room for its status"));
        };
        let (from, to): (Vec<Piece>, Vec<Piece>) = others.iter().partition(|piece| !piece.is_writable);
        let sent = self.gather(&from)?;
        let (header, data) = sent
            .split_first_chunk::<REQUEST_HEADER_BYTES>()
            .ok_or_else(|| bad(format!("a request has a header of {} bytes", sent.len())))?;
        let [k0, k1, k2, k3, _, _, _, _, s0, s1, s2, s3, s4, s5, s6, s7] = *header;
        let kind = u32::from_le_bytes([k0, k1, k2, k3]);
        let sector = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let room: usize = to.iter().map(|piece| piece.bytes as usize).sum();
        if room > REQUEST_BYTES_MAX {
            return Err(bad(format!("a request of {room} bytes")));
        }
        let mut received = vec![0; room];
        let code = self.perform(kind, sector, data, &mut received);
        let mut rest = received.as_slice();
        for piece in &to {
            let (now, later) = rest.split_at(piece.bytes as usize);
            self.memory.write(Address::Guest(piece.address), now)?;
            rest = later;
        }
        self.memory.write(Address::Guest(status.address), &[code])?;
        Ok(room as u32 + 1)
    }

    fn gather(&self, pieces: &[Piece]) -> io::Result<Vec<u8>> {
        let bytes: usize = pieces.iter().map(|piece| piece.bytes as usize).sum();
        if bytes > REQUEST_BYTES_MAX + REQUEST_HEADER_BYTES {
            return Err(bad(format!("a request of {bytes} bytes")));
        }
        let mut all = vec![0; bytes];
        let mut rest = all.as_mut_slice();
        for piece in pieces {
            let (now, later) = rest.split_at_mut(piece.bytes as usize);
            self.memory.read(Address::Guest(piece.address), now)?;
            rest = later;
        }
        Ok(all)
    }

    /// Executes a request on the device and returns its status.
    fn perform(&mut self, kind: u32, sector: u64, data: &[u8], received: &mut [u8]) -> u8 {
        let bytes = if kind == IN { received.len() } else { data.len() };
        let is_whole = bytes.is_multiple_of(SECTOR_BYTES);
        let outcome = match kind {
            IN if is_whole => self.served.request(|device, _, now| device.read(now, sector, received)),
            OUT if is_whole => self.served.request(|device, _, now| device.write(now, sector, data)),
            IN | OUT => return IOERR,
            FLUSH => self.served.request(|device, _, now| device.flush(now)),
            GET_ID => {
                received.iter_mut().zip(self.name.bytes().take(20)).for_each(|(to, from)| *to = from);
                Ok(())
            }
            DISCARD => return self.discard(data),
            _ => return UNSUPP,
        };
        if outcome.is_ok() { OK } else { IOERR }
    }

    fn discard(&mut self, segments: &[u8]) -> u8 {
        let (whole, rest) = segments.as_chunks::<SEGMENT_BYTES>();
        let is_done = whole.iter().all(|segment| {
            let [s0, s1, s2, s3, s4, s5, s6, s7, c0, c1, c2, c3, ..] = *segment;
            let sector = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
            let count = u64::from(u32::from_le_bytes([c0, c1, c2, c3]));
            self.served.request(|device, _, now| device.discard(now, sector, count)).is_ok()
        });
        if is_done && rest.is_empty() { OK } else { IOERR }
    }
}

/// Number in a message that must refer to the only queue.
fn one_queue(message: &Message) -> io::Result<u32> {
    match message.u32(0)? {
        0 => message.u32(4),
        other => Err(bad(format!("there is one queue, and no number {other}"))),
    }
}

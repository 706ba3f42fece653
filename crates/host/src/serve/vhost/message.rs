//! Messages of vhost-user, limited to a block device with one queue (QEMU, docs/interop/vhost-user.rst).

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::ready;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Version of the protocol in the flags of each message.
const VERSION: u32 = 1;
const IS_REPLY: u32 = 1 << 2;
const NEEDS_REPLY: u32 = 1 << 3;

/// Size of request, flags and size fields, B.
const HEADER_BYTES: usize = 12;
/// Maximum payload, B: 8 memory regions, or the whole configuration space.
const PAYLOAD_BYTES_MAX: usize = 512;
/// Maximum number of file descriptors in a message: one for each of 8 memory regions.
const FDS_MAX: usize = 8;

/// Requests of the front end.
pub(super) mod request {
    pub(in super::super) const GET_FEATURES: u32 = 1;
    pub(in super::super) const SET_FEATURES: u32 = 2;
    pub(in super::super) const SET_OWNER: u32 = 3;
    pub(in super::super) const SET_MEM_TABLE: u32 = 5;
    pub(in super::super) const SET_VRING_NUM: u32 = 8;
    pub(in super::super) const SET_VRING_ADDR: u32 = 9;
    pub(in super::super) const SET_VRING_BASE: u32 = 10;
    pub(in super::super) const GET_VRING_BASE: u32 = 11;
    pub(in super::super) const SET_VRING_KICK: u32 = 12;
    pub(in super::super) const SET_VRING_CALL: u32 = 13;
    pub(in super::super) const SET_VRING_ERR: u32 = 14;
    pub(in super::super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(in super::super) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(in super::super) const GET_QUEUE_NUM: u32 = 17;
    pub(in super::super) const SET_VRING_ENABLE: u32 = 18;
    pub(in super::super) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(in super::super) const GET_CONFIG: u32 = 24;
    pub(in super::super) const SET_CONFIG: u32 = 25;
}

/// A message of the front end.
pub(super) struct Message {
    pub(super) request: u32,
    flags: u32,
    pub(super) payload: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

pub(super) fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Fills a buffer from the socket. The result is false if the front end closes the connection or `stopped` is closed
/// before the buffer is full.
fn fill(socket: &mut UnixStream, stopped: &UnixStream, mut buffer: &mut [u8]) -> io::Result<bool> {
    while !buffer.is_empty() {
        if ready(stopped, &[socket.as_fd()])?.is_none() {
            return Ok(false);
        }
        match io::Read::read(socket, buffer)? {
            0 => return Ok(false),
            bytes => buffer = &mut buffer[bytes..],
        }
    }
    Ok(true)
}

impl Message {
    /// Receives a message whose first byte is available. `None` if the front end closes the connection, or `stopped` is
    /// closed, before it is complete.
    pub(super) fn receive(socket: &mut UnixStream, stopped: &UnixStream) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        // File descriptors arrive with the first byte.
        let received =
            recvmsg(&*socket, &mut [IoSliceMut::new(&mut header)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Ok(None);
        }
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if !fill(socket, stopped, &mut header[received.bytes..])? {
            return Ok(None);
        }
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (request, flags, size) = (word(0), word(4), word(8) as usize);
        if flags & 3 != VERSION || size > PAYLOAD_BYTES_MAX {
            return Err(bad(format!(
                "request {request} has flags {flags:#x} and {size} bytes: no vhost-user"
            )));
        }
        let mut payload = vec![0; size];
        if !fill(socket, stopped, &mut payload)? {
            return Ok(None);
        }
        Ok(Some(Self { request, flags, payload, fds }))
    }

    /// True if the front end waits for the result of a request that has no reply of its own.
    pub(super) const fn needs_reply(&self) -> bool {
        self.flags & NEEDS_REPLY != 0
    }

    pub(super) fn u32(&self, at: usize) -> io::Result<u32> {
        let bytes = self.payload.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(|| self.short())
    }

    pub(super) fn u64(&self, at: usize) -> io::Result<u64> {
        let bytes = self.payload.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(|| self.short())
    }

    fn short(&self) -> io::Error {
        bad(format!("the payload of request {} ends after {} bytes", self.request, self.payload.len()))
    }

    /// Sends a reply to this message.
    pub(super) fn reply(&self, socket: &mut UnixStream, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        for word in [self.request, VERSION | IS_REPLY, payload.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(payload);
        io::Write::write_all(socket, &bytes)
    }
}

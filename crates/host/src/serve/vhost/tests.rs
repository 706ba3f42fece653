//! Tests with a front end that has a queue of eight descriptors in a file of 64 KiB, and with messages
//! of a hostile front end.

use super::message::request;
use super::*;
use floatgate_mtd::{BlockError, BlockErrorKind, Breakdown, Instant, Nanos};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::unix::fs::FileExt;
use std::thread::JoinHandle;

/// A RAM device of 16 sectors; each request takes a microsecond.
struct Ram(Vec<u8>);

const CAPACITY: u64 = 16;

impl Ram {
    fn place(&mut self, now: Instant, lba: u64, count: u64) -> Result<&mut [u8], BlockError> {
        if lba.checked_add(count).is_none_or(|end| end > CAPACITY) {
            return Err(BlockErrorKind::PowerLost.at(lba, now));
        }
        Ok(&mut self.0[lba as usize * SECTOR_BYTES..][..count as usize * SECTOR_BYTES])
    }
}

impl BlockDevice for Ram {
    fn capacity(&self) -> u64 {
        CAPACITY
    }

    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        buf.copy_from_slice(self.place(now, lba, (buf.len() / SECTOR_BYTES) as u64)?);
        Ok(now + Nanos::from_us(1))
    }

    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        self.place(now, lba, (data.len() / SECTOR_BYTES) as u64)?.copy_from_slice(data);
        Ok(now + Nanos::from_us(1))
    }

    fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError> {
        self.place(now, lba, count)?.fill(0);
        Ok(now)
    }

    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
        Ok(now)
    }

    fn breakdown(&self) -> Breakdown {
        Breakdown::default()
    }
}

struct Waits(Instant);

impl Clock for Waits {
    fn now(&mut self) -> Instant {
        self.0
    }

    fn wait_until(&mut self, end: Instant) {
        self.0 = self.0.max(end);
    }
}

/// Address of the file in the front end's process; its address in the guest is 0.
const USER: u64 = 0x7000_0000;
const MEMORY_BYTES: u64 = 64 << 10;
const QUEUE_SIZE: u16 = 8;
/// Addresses of the parts of the queue in the guest's memory.
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const HEADER: u64 = 0x3000;
const STATUS: u64 = 0x3800;
const DATA: u64 = 0x4000;

struct FrontEnd {
    socket: UnixStream,
    memory: File,
    /// Socket written to announce requests; the device polls its other end.
    kick: UnixStream,
    call: UnixStream,
    requests: u16,
    served: JoinHandle<Result<(Ram, DelayStats), FolderError>>,
    stopper: Stopper,
    folder: tempfile::TempDir,
}

impl FrontEnd {
    fn connected() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("card.sock");
        let ram = Ram(vec![0; CAPACITY as usize * SECTOR_BYTES]);
        let (device, stopper) =
            VhostDevice::new(ram, Box::new(Waits(Instant::ZERO)), "serial", &path).unwrap();
        let served = std::thread::spawn(move || device.serve());
        let socket = UnixStream::connect(&path).unwrap();
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(MEMORY_BYTES).unwrap();
        let (kick, kicked) = UnixStream::pair().unwrap();
        let (call, called) = UnixStream::pair().unwrap();
        let mut end = Self { socket, memory, kick, call, requests: 0, served, stopper, folder };
        // A table with room for two regions, as User Mode Linux sends it.
        let mut table = [1u32, 0].map(u32::to_le_bytes).concat();
        for word in [0, MEMORY_BYTES, USER, 0, 0, 0, 0, 0] {
            table.extend(word.to_le_bytes());
        }
        let memory = end.memory.try_clone().unwrap();
        end.send(request::SET_MEM_TABLE, &table, &[memory.as_fd()]);
        end.send(request::SET_VRING_NUM, &[0u32, u32::from(QUEUE_SIZE)].map(u32::to_le_bytes).concat(), &[]);
        let addresses = [0, USER, USER + USED, USER + AVAILABLE, 0u64];
        end.send(request::SET_VRING_ADDR, &addresses.map(u64::to_le_bytes).concat(), &[]);
        end.send(request::SET_VRING_CALL, &0u64.to_le_bytes(), &[called.as_fd()]);
        end.send(request::SET_VRING_KICK, &0u64.to_le_bytes(), &[kicked.as_fd()]);
        end
    }

    fn send(&mut self, request: u32, payload: &[u8], fds: &[rustix::fd::BorrowedFd<'_>]) {
        let mut bytes = [request, 1, payload.len() as u32].map(u32::to_le_bytes).concat();
        bytes.extend(payload);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let sent =
            sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
        assert_eq!(sent, bytes.len());
    }

    fn reply(&mut self) -> Vec<u8> {
        let mut header = [0; 12];
        self.socket.read_exact(&mut header).unwrap();
        let mut payload = vec![0; header[8] as usize];
        self.socket.read_exact(&mut payload).unwrap();
        payload
    }

    fn describe(&self, number: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        let mut descriptor = address.to_le_bytes().to_vec();
        descriptor.extend(bytes.to_le_bytes());
        descriptor.extend([flags, next].map(u16::to_le_bytes).concat());
        self.memory.write_all_at(&descriptor, u64::from(number) * 16).unwrap();
    }

    /// Adds descriptor 0 to the queue and notifies the device.
    fn kick(&mut self) {
        let slot = u64::from(self.requests % QUEUE_SIZE);
        self.memory.write_all_at(&0u16.to_le_bytes(), AVAILABLE + 4 + 2 * slot).unwrap();
        self.requests += 1;
        self.memory.write_all_at(&self.requests.to_le_bytes(), AVAILABLE + 2).unwrap();
        self.kick.write_all(&1u64.to_le_bytes()).unwrap();
    }

    /// Sends a request with its data at [`DATA`], and returns its status.
    fn request(&mut self, kind: u32, sector: u64, bytes: u32, is_writable: bool) -> u8 {
        let mut header = [kind, 0].map(u32::to_le_bytes).concat();
        header.extend(sector.to_le_bytes());
        self.memory.write_all_at(&header, HEADER).unwrap();
        self.memory.write_all_at(&[0xFF], STATUS).unwrap();
        self.describe(0, HEADER, 16, 1, 1);
        self.describe(1, DATA, bytes, if is_writable { 3 } else { 1 }, 2);
        self.describe(2, STATUS, 1, 2, 0);
        self.kick();
        self.call.read_exact(&mut [0; 8]).unwrap();
        let mut status = [0];
        self.memory.read_exact_at(&mut status, STATUS).unwrap();
        status[0]
    }

    fn ended(self) -> Result<(Ram, DelayStats), FolderError> {
        drop(self.socket);
        let ended = self.served.join().unwrap();
        self.folder.close().unwrap();
        ended
    }
}

#[test]
fn requests_reach_the_device() {
    let mut end = FrontEnd::connected();
    end.memory.write_all_at(&[0xA5; 1024], DATA).unwrap();
    assert_eq!(end.request(OUT, 3, 1024, false), OK);
    end.memory.write_all_at(&[0; 1024], DATA).unwrap();
    assert_eq!(end.request(IN, 4, 512, true), OK);
    let mut data = [0; 1024];
    end.memory.read_exact_at(&mut data, DATA).unwrap();
    assert_eq!((data[511], data[512]), (0xA5, 0));
    assert_eq!(end.request(FLUSH, 0, 0, false), OK);
    let segment = [3u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
    end.memory.write_all_at(&segment, DATA).unwrap();
    assert_eq!(end.request(DISCARD, 0, 16, false), OK);
    assert_eq!(end.request(GET_ID, 0, 20, true), OK);
    end.memory.read_exact_at(&mut data[..6], DATA).unwrap();
    assert_eq!(&data[..6], b"serial");
    // Requests beyond the end, with a partial sector, and of an unknown type.
    assert_eq!(end.request(IN, CAPACITY, 512, true), IOERR);
    assert_eq!(end.request(OUT, 0, 100, false), IOERR);
    assert_eq!(end.request(99, 0, 512, true), UNSUPP);
    let (ram, delays) = end.ended().unwrap();
    assert_eq!((ram.0[3 * 512], ram.0[4 * 512]), (0, 0xA5));
    assert_eq!(delays.requests, 5);
}

#[test]
fn the_front_end_is_told_of_size_and_features() {
    let mut end = FrontEnd::connected();
    end.send(request::GET_FEATURES, &[], &[]);
    assert_eq!(end.reply(), FEATURES.to_le_bytes());
    end.send(request::GET_PROTOCOL_FEATURES, &[], &[]);
    assert_eq!(end.reply(), PROTOCOL_FEATURES.to_le_bytes());
    let mut config = [0u32, 100, 0].map(u32::to_le_bytes).concat();
    config.resize(112, 0);
    end.send(request::GET_CONFIG, &config, &[]);
    let reply = end.reply();
    assert_eq!((reply.len(), &reply[12..20]), (112, &CAPACITY.to_le_bytes()[..]));
    end.ended().unwrap();
}

#[test]
fn a_front_end_that_is_wrong_ends_the_session_with_a_reason() {
    let wrong = |what: &str, work: fn(&mut FrontEnd)| {
        let mut end = FrontEnd::connected();
        work(&mut end);
        let error = end.served.join().unwrap().err().unwrap_or_else(|| panic!("{what} is taken"));
        assert!(error.to_string().contains(what), "{what}: {error}");
    };
    wrong("no memory of 16 bytes", |end| {
        end.describe(0, u64::MAX - 4, 16, 1, 1);
        end.describe(1, STATUS, 1, 2, 0);
        end.kick();
    });
    wrong("a ring of them", |end| {
        end.describe(0, HEADER, 16, 1, 0);
        end.kick();
    });
    wrong("no room for its status", |end| {
        end.describe(0, HEADER, 16, 0, 0);
        end.kick();
    });
    wrong("a header of 4 bytes", |end| {
        end.describe(0, HEADER, 4, 1, 1);
        end.describe(1, STATUS, 1, 2, 0);
        end.kick();
    });
    wrong("a request of 4294967295 bytes", |end| {
        end.describe(0, HEADER, 16, 1, 1);
        end.describe(1, DATA, u32::MAX, 3, 2);
        end.describe(2, STATUS, 1, 2, 0);
        end.kick();
    });
    wrong("request 77 was not offered", |end| end.send(77, &[], &[]));
    wrong("ends after 2 bytes", |end| end.send(request::SET_VRING_NUM, &[0, 0], &[]));
    wrong("a queue of 3 descriptors", |end| {
        end.send(request::SET_VRING_NUM, &[0u32, 3].map(u32::to_le_bytes).concat(), &[]);
    });
    wrong("another number of regions", |end| end.send(request::SET_MEM_TABLE, &[2; 72], &[]));
    wrong("no vhost-user", |end| end.socket.write_all(b"GET / HTTP/1.1\r\n").unwrap());
}

#[test]
fn a_device_can_be_stopped_amid_a_message() {
    let mut end = FrontEnd::connected();
    end.socket.write_all(&[1, 0, 0]).unwrap();
    drop(end.stopper);
    assert!(end.served.join().unwrap().is_ok());
}

#[test]
fn a_device_nobody_connects_to_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card.sock");
    let (device, stopper) =
        VhostDevice::new(Ram(Vec::new()), Box::new(Waits(Instant::ZERO)), "", &path).unwrap();
    drop(stopper);
    device.serve().unwrap();
    assert!(!path.exists());
    let end = FrontEnd::connected();
    drop(end.stopper);
    end.served.join().unwrap().unwrap();
}

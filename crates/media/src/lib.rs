//! On-flash structures as bytes and as types: parameter tables and ids of chips, UBI, UBIFS, JFFS2, and the first
//! sectors of cards.
//!
//! Every module turns one on-media format into a plain struct and back:
//!
//! | module | format | document |
//! | --- | --- | --- |
//! | [`onfi`] | ONFI parameter page, extended parameter page | ONFI 4.2 |
//! | [`jedec`] | JEDEC parameter page | JESD230 |
//! | [`sfdp`] | Serial Flash Discoverable Parameters | JESD216F |
//! | [`cfi`] | Common Flash Interface query | JESD68.01, JEP137 |
//! | [`nand_id`] | raw NAND READ ID bytes | vendors' data sheets |
//! | [`disk`] | partition tables, FAT, exFAT, signatures of swap, RAID and LVM | UEFI 2.10, fatgen103, exFAT |
//! | [`sd`] | registers of SD cards and eMMC | SD Physical Layer, JESD84-B51 |
//! | [`ubi`] | UBI headers, volume table, fastmap | `docs/spec/ubi.md` |
//! | [`file`](mod@file) | types, times, device numbers, flags of files | POSIX, Linux |
//! | [`ubifs`] | UBIFS nodes, keys, LEB properties tree | `docs/spec/ubifs.md` |
//! | [`jffs2`] | JFFS2 nodes, eraseblock summaries | `docs/spec/jffs2.md` |
//!
//! No parser panics, allocates or does I/O; a fault is returned as a [`MediaError`] with its offset. Struct fields hold
//! the codes stored on the media; methods turn codes into bytes, microseconds and nanoseconds.
//!
//! # Example
//!
//! ```
//! use floatgate_media::ubi::{EcHeader, ReadFlips};
//!
//! let header = EcHeader { erase_count: 7, ..EcHeader::default() };
//! let mut bytes = header.emit();
//! assert_eq!(EcHeader::parse(&bytes, ReadFlips::default())?, header);
//! bytes[15] ^= 1;
//! let damaged = EcHeader::parse(&bytes, ReadFlips::default()).unwrap_err();
//! assert!(damaged.to_string().contains("CRC"), "{damaged}");
//! # Ok::<(), floatgate_media::MediaError>(())
//! ```
#![no_std]

pub mod acl;
mod bits;
pub mod cfi;
pub mod crc;
pub mod disk;
pub mod error;
pub mod file;
mod flags;
pub mod jedec;
pub mod jffs2;
mod list;
pub mod nand_id;
pub mod onfi;
pub mod sd;
pub mod sfdp;
mod text;
pub mod ubi;
pub mod ubifs;
mod units;
mod wire;

pub use error::{MediaError, Reason};
pub use list::List;
pub use text::Text;
pub use units::{AddressCycles, Endurance};

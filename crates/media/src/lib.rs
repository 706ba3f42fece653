//! On-media bytes to types and back.
#![no_std]

//! Filesystems found in larger files.

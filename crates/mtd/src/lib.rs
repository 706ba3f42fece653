//! mtd

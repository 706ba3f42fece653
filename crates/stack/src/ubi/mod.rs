//! UBI over any [`Mtd`](floatgate_mtd::Mtd).

//! Integration tests of the codes, one binary.

mod common;
mod correction;
mod vectors;

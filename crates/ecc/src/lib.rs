//! ecc

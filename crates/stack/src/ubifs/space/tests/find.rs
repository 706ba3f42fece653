//! The right LEB is found.

//! Helpers that the tests of all crates share. Nothing of the product depends on it.

/// Seeds or cases of a long test: `few` in `./test`, `all` in its campaigns, which set FLOATGATE_TEST_ALL.
#[must_use]
pub fn few_or_all<T>(few: T, all: T) -> T {
    if std::env::var_os("FLOATGATE_TEST_ALL").is_some() { all } else { few }
}

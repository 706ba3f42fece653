//! Store that remembers the host's error, because the filesystem above it reports only a LEB or an eraseblock that
//! cannot be accessed.

use floatgate_stack::{Store, StoreError};
use std::sync::{Arc, OnceLock};

/// Store that remembers the first failure of the underlying store.
pub(super) struct Watched<S> {
    store: S,
    failure: Failure,
}

/// First failure of a store, if any.
pub(super) type Failure = Arc<OnceLock<StoreError>>;

impl<S> Watched<S> {
    pub(super) const fn new(store: S, failure: Failure) -> Self {
        Self { store, failure }
    }

    fn noted<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result {
            self.failure.get_or_init(|| error.clone());
        }
        result
    }
}

impl<S: Store> Store for Watched<S> {
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.noted(self.store.read_at(offset, buf))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let written = self.store.write_at(offset, data);
        self.noted(written)
    }
}

//! Store that keeps the host's error. The filesystem above it reports a failure only as a LEB or an eraseblock that
//! does not answer.

use floatgate_stack::{Store, StoreError};
use std::sync::{Arc, OnceLock};

/// Store that keeps the first failure of the store below.
pub(super) struct Watched<S> {
    store: S,
    failure: Failure,
}

/// First failure of a store, if there was one.
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

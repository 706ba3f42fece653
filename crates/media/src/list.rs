//! A list with a fixed capacity, for formats with a known maximum.

use core::fmt;
use core::ops::Deref;

use crate::error::Reason;

/// A list of at most `N` values, in order, without a heap.
#[derive(Clone, Copy)]
pub struct List<T, const N: usize> {
    items: [T; N],
    len: usize,
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self { items: [T::default(); N], len: 0 }
    }

    /// A list of the values of `slice`, or `None` if it has more than `N`.
    #[must_use]
    pub fn from_slice(slice: &[T]) -> Option<Self> {
        let mut list = Self::new();
        list.items.get_mut(..slice.len())?.copy_from_slice(slice);
        list.len = slice.len();
        Some(list)
    }

    /// Appends a value; `what` names the list in the error.
    ///
    /// # Errors
    ///
    /// [`Reason::TooMany`] if all `N` places are taken.
    pub fn push(&mut self, value: T, what: &'static str) -> Result<(), Reason> {
        let place = self.items.get_mut(self.len).ok_or(Reason::TooMany { what, max: N })?;
        *place = value;
        self.len += 1;
        Ok(())
    }
}

impl<T, const N: usize> List<T, N> {
    /// The values, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.items.get(..self.len).unwrap_or(&[])
    }
}

impl<T, const N: usize> Deref for List<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a List<T, N> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

// Elements past the length are stale, so equality and Debug must ignore them.
impl<T: PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Eq, const N: usize> Eq for List<T, N> {}

impl<T: fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_refuses_one_too_many() {
        let mut list = List::<u8, 2>::new();
        assert_eq!(list.push(3, "digits"), Ok(()));
        assert_eq!(list.push(1, "digits"), Ok(()));
        assert_eq!(list.push(4, "digits"), Err(Reason::TooMany { what: "digits", max: 2 }));
        assert_eq!(list.as_slice(), [3, 1]);
        assert_eq!(Some(list), List::from_slice(&[3, 1]));
        assert_eq!(List::<u8, 2>::from_slice(&[1, 2, 3]), None);
    }
}

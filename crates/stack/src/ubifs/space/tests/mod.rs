//! Tests of LEB properties: sums, finding, the tree on flash, promises.

mod budget;
mod commit;
mod find;
mod hostile;
mod support;
mod totals;

//! Tests of sums and finding; `lpt` has those of the tree.

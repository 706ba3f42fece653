//! Tests of LEB properties: totals, search for LEBs, the LPT on flash, budgets.

mod budget;
mod commit;
mod find;
mod hostile;
mod support;
mod totals;

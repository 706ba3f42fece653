//! Text of the statistics of a card after its work.

use super::time;
use crate::common::{grouped, grouped_count};
use crate::table::Table;
use floatgate_lab::card::account::KindTotals;
use floatgate_lab::card::serve::CardAccount;

pub(super) fn account_text(account: &CardAccount) -> String {
    let CardAccount { card, capacity_bytes, time_us, read, write, discard, flush, failed, .. } = account;
    let mut table = Table::new(["request", "count", "KiB"]).numbers(1..);
    for (name, KindTotals { requests, bytes }) in
        [("read", read), ("write", write), ("discard", discard), ("flush", flush)]
    {
        table.row([name.to_owned(), grouped(*requests), grouped(bytes.div_ceil(1024))]);
    }
    let latency = &account.latency;
    let [median, p99, p999, longest] =
        [latency.p50_us, latency.p99_us, account.p999_us, latency.max_us].map(time);
    // A trace that only reads has no write amplification.
    let amplification = match write.bytes {
        0 => String::new(),
        _ => format!("write amplification {:.2}, ", account.write_amplification),
    };
    let refreshes = match account.refreshes {
        0 => String::new(),
        moved => format!(", {} moved after many reads", grouped_count(moved, "block")),
    };
    let asleep =
        if account.asleep_us > 0.0 { format!("; asleep {}", time(account.asleep_us)) } else { String::new() };
    let failed = if *failed > 0 { format!("failed requests: {failed}\n") } else { String::new() };
    format!(
        "{card}: {} MB\n{table}\n{failed}time {}; latency: median {median}, 99 % {p99}, 99.9 % {p999}, longest {longest}\n\
         {amplification}{} erased{refreshes}; {} read, {} of one block since its erase at most{asleep}\n",
        grouped(capacity_bytes / 1_000_000),
        time(*time_us),
        grouped_count(account.erases, "block"),
        grouped_count(account.page_reads, "page"),
        grouped(account.block_reads_max.into()),
    )
}

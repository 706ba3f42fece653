//! Prompts, other commands, and lines without information.

use super::dd;

/// Text after the prefixes of mails, dmesg, syslog and the names of the tests.
pub(super) fn without_prefix(text: &str) -> &str {
    let mut text = text.trim_start_matches("> ").trim();
    if let Some((stamp, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_stamp = !stamp.is_empty() && stamp.chars().all(|c| c.is_ascii_digit() || " .T".contains(c));
        text = if is_stamp { rest.trim() } else { text };
    }
    for name in ["mtd_speedtest:", "flash_speed:"] {
        if let Some((_, rest)) = text.split_once(name) {
            return rest.trim();
        }
    }
    text
}

/// Command after a shell's prompt, or a comment: `# cmd`, `root@OpenWrt:~# cmd`, `[root@board ~]# cmd`, `/ # cmd`.
fn behind_prompt(text: &str) -> Option<&str> {
    let (prompt, command) = text.split_at(text.find(['#', '$'])?);
    let is_prompt = prompt.is_empty() || prompt.contains('@') || prompt.starts_with(['~', '/']);
    is_prompt.then(|| command[1..].trim_start())
}

/// True for a command other than dd. A comment looks like a root shell's prompt, but is not a command.
pub(super) fn is_other_command(text: &str) -> bool {
    let is_timed = |command: &str| command.starts_with("time ");
    let is_command = match behind_prompt(text) {
        Some(command) => !command.is_empty() && (!text.starts_with('#') || is_timed(command)),
        None => is_timed(text),
    };
    is_command && dd::command(text).is_none()
}

/// True for the CPU times that `time` prints.
fn is_cpu_time(text: &str) -> bool {
    let of = |name| text.strip_prefix(name).is_some_and(|time: &str| time.starts_with(char::is_whitespace));
    of("user") || of("sys") || text.ends_with("pagefaults 0swaps")
}

/// True for blank lines, comments, commands other than dd, horizontal rules, and the progress of the tests.
pub(super) fn says_nothing(text: &str) -> bool {
    let progress = [
        "testing ",
        "scanning ",
        "scanned ",
        "finished",
        "not NAND",
        "erasing",
        "Testing ",
        "Scanning ",
        "device ",
        "NAND read: ",
        "NAND write: ",
        "NAND erase: ",
        "=>",
        // dd reads less than a record and continues; the count of its records shows this.
        "dd: warning: ",
    ];
    text.trim_matches(['=', '-', '*', '>']).is_empty()
        || behind_prompt(text).is_some() && dd::command(text).is_none()
        || is_cpu_time(text)
        || progress.iter().any(|begin| text.starts_with(begin))
        || ["records out", "blocks are bad", "eraseblocks are bad"].iter().any(|end| text.ends_with(end))
}

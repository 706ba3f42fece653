//! Parser of the output of U-Boot's `time sf read`, `time nand read`, `time mtd read` and `sf update`.

use super::numbers::{number, span, span_from};
use super::{Line, Measure, Measurement, Reader};
use crate::speed::Test;

/// Reads a line of U-Boot.
pub(super) fn read(reader: &Reader, text: &str) -> Option<Line> {
    reader.u_boot(text).or_else(|| moved(text)).or_else(|| reader.u_boot_time(text))
}

/// Operation to which a printed time of U-Boot belongs. `None` if it is not a test of the flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moved {
    bytes: f64,
    test: Option<Test>,
}

impl Reader {
    /// Time that U-Boot's `time` prints after a command: `time: 1.680 seconds`, `time: 1 minutes, 2.345 seconds`.
    fn u_boot_time(&self, text: &str) -> Option<Line> {
        let time = text.strip_prefix("time: ")?.strip_suffix(" seconds")?;
        let (minutes, seconds) = time.split_once(" minutes, ").unwrap_or(("0", time));
        if let Some(why) = self.not_raw() {
            return Some(Line::Wrong(why));
        }
        let Ok(minutes) = minutes.parse::<u32>() else { return Some(Line::not_read("time", minutes)) };
        let Some(span) = span_from(60.0 * f64::from(minutes), seconds) else {
            return Some(Line::not_read("time", seconds));
        };
        let Some(Moved { bytes, test }) = self.moved else {
            return Some(Line::wrong(
                "no line above says how many bytes U-Boot has read or written in this time",
            ));
        };
        let Some(test) = test else {
            return Some(Line::wrong("the time of an erase, whose eraseblocks are not known"));
        };
        Some(Line::Figure(Measurement::of_bytes(Measure::Test(test), span, bytes, format!("{time} s"))))
    }

    /// Parses lines with bytes and time: `4194304 bytes read in 350 ms (11.4 MiB/s)`, `16777216 bytes written, 0 bytes
    /// skipped in 59.8s, speed 285975 B/s`.
    fn u_boot(&self, text: &str) -> Option<Line> {
        let (bytes, rest) = text.split_once(" bytes ")?;
        let (measure, span, time, remark) = if let Some(rest) = rest.strip_prefix("read in ") {
            let ms = rest.split_once(" ms")?.0;
            let Some(count) = number(ms) else { return Some(Line::not_read("time", ms)) };
            let remark = "U-Boot prints this of files: the filesystem's time counts as the flash's; `time sf read` and `time nand read` have none";
            (
                Measure::Test(Test::Read(0)),
                (count / 1e3, (count + 1.0) / 1e3),
                format!("{ms} ms"),
                Some(remark),
            )
        } else {
            let rest = rest.strip_prefix("written, ")?;
            let (skipped, rest) = rest.split_once(" bytes skipped in ")?;
            if skipped != "0" {
                return Some(Line::wrong("blocks were skipped: their number is not known"));
            }
            let seconds = rest.split(['s', ' ']).next()?;
            let Some(span) = span(seconds) else { return Some(Line::not_read("time", seconds)) };
            (Measure::Update, span, format!("{seconds} s"), None)
        };
        if let Some(why) = self.not_raw() {
            return Some(Line::Wrong(why));
        }
        let Some(bytes) = number(bytes) else { return Some(Line::not_read("number of bytes", bytes)) };
        Some(Line::Figure(Measurement { remark, ..Measurement::of_bytes(measure, span, bytes, time) }))
    }

    /// Reason why U-Boot's last command measures something else than the raw flash.
    fn not_raw(&self) -> Option<String> {
        let command: String = self.other_command.as_ref()?.chars().take(40).collect();
        Some(format!(
            "`{command}` does not read the raw flash: measure `time nand read`, `time sf read` or `time mtd read`"
        ))
    }
}

/// Commands of U-Boot that move bytes between memory and other places.
const U_BOOT: [&str; 19] = [
    "load",
    "fatload",
    "ext2load",
    "ext4load",
    "fsload",
    "ubifsload",
    "sqfsload",
    "erofsload",
    "zfsload",
    "tftp",
    "tftpboot",
    "nfs",
    "loadb",
    "loady",
    "sf",
    "nand",
    "mtd",
    "mmc",
    "ubi",
];

/// Command after U-Boot's prompt, without `time`: `=> load mmc 0 80000000 x`, `U-Boot> time sf read 42000000 0 400000`.
/// Some boards have their own prompts; after these, only some commands are recognised.
pub(super) fn command(text: &str) -> Option<&str> {
    let usual = text.split_once("=>").filter(|(prompt, _)| !prompt.contains(char::is_whitespace));
    if let Some((_, command)) = usual {
        return Some(without_time(command)).filter(|command| !command.is_empty());
    }
    let behind = ["> ", "# ", "$ "].into_iter().filter_map(|end| text.split_once(end));
    let commands = behind.filter(|(prompt, _)| prompt.len() <= PROMPT_MAX).map(|(_, command)| command);
    let is_known = |command: &&str| {
        let mut words = command.split_whitespace();
        words.next().is_some_and(|word| U_BOOT.contains(&word)) && words.next().is_some()
    };
    commands.chain([text]).map(without_time).find(is_known)
}

/// Maximum length of U-Boot's prompt, bytes.
const PROMPT_MAX: usize = 32;

/// True for commands of U-Boot that only read, write or erase the raw flash: `sf probe; sf read`, `nand read.raw`, `mtd
/// write`.
pub(super) fn is_raw(command: &str) -> bool {
    let parts = || command.split([';', '&']).map(without_time).filter(|part| !part.is_empty());
    let is_of_flash =
        |part: &str| part.split(' ').next().is_some_and(|word| ["sf", "nand", "mtd"].contains(&word));
    let moves = |part: &str| {
        let what = part.split_whitespace().nth(1).and_then(|word| word.split('.').next());
        what.is_some_and(|what| ["read", "write", "update", "erase"].contains(&what))
    };
    parts().all(is_of_flash) && parts().any(moves)
}

/// Command of U-Boot without a preceding `time`.
fn without_time(command: &str) -> &str {
    let command = command.trim();
    command.strip_prefix("time ").map_or(command, str::trim_start)
}

/// Parses lines that precede a time: `SF: 4194304 bytes @ 0x0 Read: OK`, ` 4194304 bytes read: OK`, `Reading 4194304
/// byte(s) (2048 page(s)) at offset 0x0`.
pub(super) fn moved(text: &str) -> Option<Line> {
    for (begin, test) in [("Reading ", Test::Read(0)), ("Writing ", Test::Write(0))] {
        let Some((bytes, _)) = text.strip_prefix(begin).and_then(|rest| rest.split_once(" byte(s)")) else {
            continue;
        };
        return Some(match number(bytes) {
            Some(bytes) => Line::Moved(Moved { bytes, test: Some(test) }),
            None => Line::not_read("number of bytes", bytes),
        });
    }
    if text.contains(" failed with error ")
        && ["Read on ", "Write on "].iter().any(|begin| text.starts_with(begin))
    {
        return Some(Line::wrong("U-Boot says that it has failed"));
    }
    let (bytes, rest) = text.strip_prefix("SF: ").unwrap_or(text).split_once(" bytes ")?;
    let (what, end) = rest.rsplit_once(": ")?;
    let what = what.rsplit(' ').next()?;
    let test = match what.to_ascii_lowercase().as_str() {
        "read" => Some(Test::Read(0)),
        "written" => Some(Test::Write(0)),
        "erased" => None,
        _ => return None,
    };
    Some(match number(bytes) {
        Some(bytes) if end == "OK" => Line::Moved(Moved { bytes, test }),
        Some(_) => Line::wrong("U-Boot says that it has failed"),
        None => Line::not_read("number of bytes", bytes),
    })
}

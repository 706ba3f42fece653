//! `floatgate image ls --history`, and the parser of points in time.

use super::options::{self, ImageArgs};
use super::show::date;
use crate::common::{Failure, Outcome, count};
use crate::output::ReportFormat;
use floatgate_image::Access;
use floatgate_image::extract::show_path;
use floatgate_image::history::{At, Revision, history};
use floatgate_lab::report::ResultKind;
use floatgate_stack::fs::Timestamp;
use std::process::ExitCode;
use std::time::SystemTime;

/// Lists the nodes at or below a path; with `old`, only the obsolete nodes.
pub(super) fn list(image: &ImageArgs, path: &[u8], old: bool, format: &ReportFormat) -> Outcome {
    let opened = image.open(Access::Read)?;
    let all = history(&opened, &image.selection());
    let all = all.map_err(|error| options::failure(&image.image, &error))?;
    let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    let path = show_path(&parts.map(<[u8]>::to_vec).collect::<Vec<_>>());
    let below: Vec<&Revision> = all.iter().filter(|node| is_below(&node.path, &path)).collect();
    let chosen: Vec<&Revision> = below.iter().copied().filter(|node| !(old && node.live)).collect();
    if below.is_empty() && path != "/" {
        return Err(Failure::new(
            format!("{}: no node of {path} is left", image.image.display()),
            "leave the path out to list all nodes",
        ));
    }
    format.print_listing(&image.origin(ResultKind::ImageHistory), &chosen, || text(&chosen))?;
    Ok(ExitCode::SUCCESS)
}

fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    folder == "/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn text(nodes: &[&Revision]) -> String {
    let width = |text: fn(&Revision) -> &str, title: &str| {
        nodes.iter().map(|node| text(node).chars().count()).max().unwrap_or(0).max(title.len())
    };
    let (at, what) = (width(|node| &node.at, "moment"), width(|node| &node.what, "node"));
    let mut text = format!("{:>at$}  {:<19}  state  {:<what$}  path\n", "moment", "time", "node");
    for node in nodes {
        let time = node.time.map_or_else(String::new, |seconds| date(Timestamp { seconds, nanoseconds: 0 }));
        let state = if node.live { "live" } else { "old" };
        let path = if node.path.is_empty() { format!("(inode {})", node.inode) } else { node.path.clone() };
        text += &format!("{:>at$}  {time:<19}  {state:<5}  {:<what$}  {path}\n", node.at, node.what);
    }
    let old = nodes.iter().filter(|node| !node.live).count();
    text + &format!("{}, {old} of them old\n", count(nodes.len(), "node"))
}

/// Parses a point in time.
pub(super) fn moment(text: &str) -> Result<At, String> {
    const HOW: &str = "a sequence number, INODE:VERSION, a time as YYYY-MM-DD HH:MM:SS in UTC, or @SECONDS";
    if let Some(seconds) = text.strip_prefix('@') {
        return seconds.parse().map(At::Time).map_err(|_| HOW.to_owned());
    }
    if let Ok(sqnum) = text.parse() {
        return Ok(At::Sqnum(sqnum));
    }
    let version = text.split_once(':').and_then(|(inode, version)| {
        Some(At::Version { inode: inode.parse().ok()?, version: version.parse().ok()? })
    });
    version.or_else(|| seconds(text).map(At::Time)).ok_or_else(|| HOW.to_owned())
}

/// Seconds since 1970 for a time, or for the end of a day.
fn seconds(text: &str) -> Option<i64> {
    let text = if text.len() == 10 { format!("{text} 23:59:59") } else { text.to_owned() };
    let minutes = if text.len() == 16 { format!("{text}:59") } else { text };
    let since = humantime::parse_rfc3339_weak(&minutes).ok()?.duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_numbers_versions_and_times() {
        assert_eq!(moment("1234"), Ok(At::Sqnum(1234)));
        assert_eq!(moment("65:3"), Ok(At::Version { inode: 65, version: 3 }));
        assert_eq!(moment("@-5"), Ok(At::Time(-5)));
        for text in ["2000-02-29 12:34:59", "2000-02-29T12:34:59Z", "2000-02-29 12:34"] {
            assert_eq!(moment(text), Ok(At::Time(951_782_400 + 45_299)), "{text}");
        }
        assert_eq!(moment("2000-02-29"), Ok(At::Time(951_782_400 + 86_399)));
        for text in ["", "yesterday", "65:", ":3", "2000-13-01", "2000-02-30 00:00", "-1", "@", "1:2:3"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}

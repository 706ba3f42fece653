//! `floatgate probe` of a file or block device: it is opened, measured, and restored.

use super::saved::{self, Saving};
use super::{Args, Measured, question_bar, watch};
use crate::common::{Failure, Outcome, grouped_count};
use crate::devices::{in_use, is_agreed, rounded};
use crate::terminal::{print_note, progress_bar};
use floatgate_host::disk::{Host, holders};
use floatgate_host::signals::Ending;
use floatgate_host::{Target as _, TargetError};
use floatgate_mtd::size::text as size;
use floatgate_probe::partition::Layout;
use floatgate_probe::{Kind, Limits, Probe, ProbeError, ProbeOptions, Samples, WritePlan, conclude, members};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

fn real_bytes(samples: &Samples) -> u64 {
    conclude(samples).capacity.count().unwrap_or(samples.capacity)
}

/// Advice for a device in use, which may be the card from which the system runs.
const IN_USE: &str = "nothing was read or written; for the card from which this system runs, use a reader on another computer, or boot from another medium";

/// Opens a file or block device that is not in use.
fn open(path: &Path, writes: bool) -> Result<Host, Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()), advice(&error));
    let refuse = |users: &[String]| match users.is_empty() {
        true => Ok(()),
        false => Err(in_use(path, users, IN_USE)),
    };
    // For a device in use, the error names its users instead of the error `busy`.
    refuse(&holders(path).map_err(failed)?)?;
    let host = Host::open(path, writes).map_err(failed)?;
    refuse(&host.holders().map_err(failed)?)?;
    Ok(host)
}

/// Probes a file or block device, and restores it at the end.
pub(super) fn probe(args: &Args, path: &Path, ending: &Ending) -> Result<Measured, Failure> {
    let mut host = open(path, args.write)?;
    if args.write && !args.yes && !io::stdin().is_terminal() {
        return Err(Failure::new(
            format!("{}: nobody can be asked, as stdin is no terminal", path.display()),
            "--yes agrees in advance; nothing was read or written",
        ));
    }
    saved::check_restored(args.keep.as_deref(), path, &mut host, args.write)?;
    if host.is_cached() {
        print_note(&format!(
            "{}: this loop device uses the page cache, whose times are others than those of what is below it: `losetup --direct-io=on` leaves the cache out",
            path.display()
        ));
    }
    if host.rest_bytes() > 0 {
        print_note(&format!(
            "{}: its last {} are no whole sector, and are left out",
            path.display(),
            size(host.rest_bytes())
        ));
    }
    let saving = match args.write {
        true => {
            refuse_members(path, &mut host)?;
            Some(saved::begin(args.keep.as_deref(), path, &mut host)?)
        }
        false => None,
    };
    let mut measured = measure_host(args, &mut host, path, ending, saving.as_ref());
    measured.loss = restore(path, &mut host, write_speed(&measured.samples)).err();
    measured.layout = layout(path, &mut host);
    Ok(measured)
}

/// Number of bytes that the probe wrote per second; 0 if it did not write.
fn write_speed(samples: &Samples) -> f64 {
    let writes = samples.all.iter().filter(|sample| sample.kind == Kind::Write);
    let (bytes, ns) = writes.fold((0, 0), |(bytes, ns), sample| (bytes + sample.bytes, ns + sample.ns));
    if ns == 0 { 0.0 } else { bytes as f64 * 1e9 / ns as f64 }
}

/// Duration of a restoration from which it is announced, s.
const LONG_S: f64 = 3.0;

/// Writes saved data back to a device with a write speed of `speed` bytes per second.
fn restore(path: &Path, host: &mut Host, speed: f64) -> Result<(), Failure> {
    let saved = host.kept_bytes();
    let seconds = saved as f64 / speed;
    if seconds.is_finite() && seconds > LONG_S {
        print_note(&format!("restoring {} takes about {seconds:.0} s", rounded(saved)));
    }
    let bar = progress_bar("{spinner} {elapsed} restoring {bytes} of {total_bytes}");
    bar.set_length(saved);
    let restored = host.restore(|done| bar.set_position(done));
    bar.finish_and_clear();
    restored.map_err(|error| saved::not_restored(path, saved, &error))?;
    if saved > 0 {
        print_note(&format!("{} restored", rounded(saved)));
    }
    Ok(())
}

/// Writes back the data that an earlier probe saved.
pub(super) fn write_back(args: &Args, path: &Path, saved: &Path) -> Outcome {
    let ending = Ending::new();
    let file = saved::open(saved)?;
    let mut host = open(path, true)?;
    saved::prepare_restore(path, &mut host, saved, file)?;
    let bytes = host.kept_bytes();
    print_note(&format!(
        "{}: overwrites {} with the contents saved in {}",
        path.display(),
        rounded(bytes),
        saved.display()
    ));
    if !args.yes {
        ask(path, &ending)?;
    }
    restore(path, &mut host, 0.0)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses to write to a member of a RAID or of LVM, or to swap, even if it is not in use yet.
fn refuse_members(path: &Path, host: &mut Host) -> Result<(), Failure> {
    let unreadable = |error: TargetError| {
        Failure::new(
            format!("{}: {error}", path.display()),
            "the kernel's log may say more; nothing was written",
        )
    };
    let table = Layout::read(host).map_err(unreadable)?;
    let found = members(host, table.as_ref()).map_err(unreadable)?;
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        format!("{}: {}", path.display(), found.join("; ")),
        "nothing was written: others may begin to use it any time; if nobody needs it, wipefs removes the signature",
    ))
}

/// Partitions of a device. An unreadable table is reported, and the probe continues without it.
fn layout(path: &Path, host: &mut Host) -> Option<Layout> {
    Layout::read(host).unwrap_or_else(|error| {
        print_note(&format!("{}: no partition table: {error}", path.display()));
        None
    })
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ResourceBusy => {
            "it is mounted, part of a RAID or a volume, or changed by another program: end that first"
        }
        io::ErrorKind::PermissionDenied => "only its owner or root may do that",
        _ => {
            "name a block device, an MTD character device (/dev/mtd0), a file, or a card of `floatgate list parts`"
        }
    }
}

fn measure_host(
    args: &Args,
    host: &mut Host,
    path: &Path,
    ending: &Ending,
    saving: Option<&Saving>,
) -> Measured {
    let limits = Limits::of_minutes(args.minutes.unwrap_or(MINUTES));
    let options = ProbeOptions { seed: args.seed, usable_bytes: 0, limits: Some(limits) };
    let capacity = host.capacity();
    let bar = question_bar();
    let mut probe = Probe::new(host, options).watched(watch(ending, bar.clone()));
    let mut trouble = probe.measure_reads().err();
    if let Some(saving) = saving.filter(|_| trouble.is_none()) {
        let plan = probe.write_plan();
        let most = plan.bytes_max.min(limits.bytes).min(capacity);
        let room = saving.folder.check_room(most).map_err(ProbeError::from);
        let ask = || bar.suspend(|| announce(args, path, &plan, ending, &saving.file));
        let agreed = room.and_then(|()| probe.pause(ask));
        trouble = agreed.and_then(|()| measure_with_writes(args, &mut probe, &plan)).err();
    }
    Measured::new(probe.into_samples(), trouble)
}

fn measure_with_writes(
    args: &Args,
    probe: &mut Probe<'_, Host>,
    announced: &WritePlan,
) -> Result<(), ProbeError> {
    probe.measure_capacity()?;
    probe.limit(real_bytes(probe.samples()));
    let plan = probe.write_plan();
    if plan != *announced {
        let ranges = plan.announcement();
        if !args.yes {
            print_note(&format!(
                "it is smaller than it says: further tests would overwrite {ranges}, which needs --yes"
            ));
            return Ok(());
        }
        print_note(&format!("the device is smaller than it claims: overwrites {ranges}"));
    }
    probe.measure_writes(&plan)
}

/// Longest probe of a real device, minutes.
const MINUTES: u64 = 10;

/// Lists the ranges that will be overwritten, and asks for confirmation.
fn announce(
    args: &Args,
    path: &Path,
    plan: &WritePlan,
    ending: &Ending,
    saved: &Path,
) -> Result<(), ProbeError> {
    print_note(&format!(
        "{}: overwrites {}; all is restored at the end, after about {} at most",
        path.display(),
        plan.announcement(),
        grouped_count(args.minutes.unwrap_or(MINUTES), "minute")
    ));
    print_note(&format!(
        "what it overwrites is saved in {}: if it is killed or power is lost, --restore writes that back",
        saved.display()
    ));
    if args.yes || ask(path, ending).is_ok() { Ok(()) } else { Err(ProbeError::NotAgreed) }
}

/// Asks for confirmation at the terminal.
fn ask(path: &Path, ending: &Ending) -> Result<(), Failure> {
    let refused = |why: &str| {
        Err(Failure::new(
            format!("{}: {why}", path.display()),
            "nothing was written; --yes agrees in advance",
        ))
    };
    if !io::stdin().is_terminal() {
        return refused("nobody can be asked, as stdin is no terminal");
    }
    print_note("overwrite? [y/N]");
    if is_agreed(ending) { Ok(()) } else { refused("not agreed") }
}

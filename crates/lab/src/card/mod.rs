//! SD cards and eMMC of the catalogue, and what is measured on them.
//!
//! - [`load`] reads a card's file with overrides into a [`CardSpec`].
//! - [`compare`]: cards, filesystems and workloads, by the traces that are [`shipped`].
//! - [`info`]: registers and timeouts; [`powercut`]: losses of power at any operation and moment.
//! - [`life`]: wear in the steady state of a workload, and the bytes and years until a card is worn out.
//! - [`speed`] measures it as flashbench and fio would; [`spread`]: intervals of its figures.
//! - [`replay`]: the requests of a trace on a card.
//! - [`run`]: filesystems of Linux and workloads on a card.
//! - [`serve`]: a card with content, as from the factory, on which a host works, and the account of its requests ([`account`]).
//! - [`state`]: empty, used and full cards.
//! - [`trace`]: requests to a block device, as several programs record them.

pub mod account;
pub mod compare;
mod factory;
pub mod info;
mod latencies;
pub mod life;
pub mod powercut;
pub mod replay;
pub mod run;
pub mod serve;
pub mod shipped;
pub mod speed;
pub mod spread;
pub mod trace;

pub use floatgate_card::CardOptions;
pub use floatgate_sim::card::{LoadedCard, load, load_on_host};
pub use floatgate_sim::card_state as state;

use floatgate_card::CardSpec;
use floatgate_config::{Kind, Library};
use floatgate_probe::Promise;
use floatgate_probe::registers::Status;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// True for the name of a card of the library, and for the file of a card, even a wrong one.
pub fn is_card(library: &Library, target: &Path) -> bool {
    target.to_str().is_some_and(|name| library.has(Kind::Card, name)) || is_card_file(library, target)
}

/// True for a file with a table `[card]`, or one within it, or one that is based on a card.
fn is_card_file(library: &Library, target: &Path) -> bool {
    let mut text = Vec::new();
    target.is_file()
        && File::open(target).is_ok_and(|file| file.take(FILE_MAX).read_to_end(&mut text).is_ok())
        && String::from_utf8_lossy(&text).lines().any(|line| is_of_card(library, line.trim_start()))
}

/// True for a line that only the file of a card has.
fn is_of_card(library: &Library, line: &str) -> bool {
    let base = line.strip_prefix("base").and_then(|rest| rest.trim_start().strip_prefix('='));
    let base = base.map(|name| name.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']));
    line.starts_with("[card")
        || line.starts_with("card.")
        || base.is_some_and(|name| library.has(Kind::Card, name))
}

/// Bytes of a file in which its kind is looked for.
const FILE_MAX: u64 = 1 << 20;

/// Classes that a simulated card has in its registers.
pub fn stated_classes(spec: &CardSpec) -> Vec<Promise> {
    let classes = spec.classes;
    let stated = |number: u8| Some(u64::from(number)).filter(|number| *number > 0);
    Promise::of_status(&Status {
        speed_class: stated(classes.speed),
        uhs_grade: stated(classes.uhs),
        video_class: stated(classes.video),
        app_class: stated(classes.app),
        ..Status::default()
    })
}

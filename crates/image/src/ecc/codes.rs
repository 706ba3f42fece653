//! The codes in their layouts that are tried on a dump.

use super::layout::Layout;
use super::scheme::linux_layouts;
use super::{PageGeometry, Scheme};
use floatgate_ecc::Code;
use rayon::prelude::*;
use std::sync::OnceLock;

/// The other polynomial in use for steps of 1024 bytes, x^14 + x^10 + x^6 + x + 1 (Lin and Costello, Error Control Coding,
/// table of primitive polynomials; Atmel's PMECC has it too). For 512 bytes PMECC takes Linux's.
const OTHER_POLYNOMIAL: u32 = 0x4443;

/// Codes that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Those in the layouts of files, but none if none fits the first places that are tried: the sizes of the pages are a guess.
    FirstPlaces,
    /// Those in the layouts of files.
    Files,
    /// Also parameters that the sources of these leave open, and undescribed layouts.
    All,
}

/// The codes in their layouts that are tried on dumps with pages of one geometry. Their tables are made once.
pub(super) struct Codes {
    pub(super) geometry: PageGeometry,
    layout: Option<Layout>,
    schemes: OnceLock<Vec<Scheme>>,
    alternatives: OnceLock<Vec<Scheme>>,
}

impl Codes {
    /// The usual codes in the usual layouts, or in `layout` alone.
    pub(super) fn new(geometry: &PageGeometry, layout: Option<&Layout>) -> Self {
        Self {
            geometry: geometry.clone(),
            layout: layout.cloned(),
            schemes: OnceLock::new(),
            alternatives: OnceLock::new(),
        }
    }

    /// These codes instead, and no alternatives.
    pub(super) fn replaced(&self, schemes: Vec<Scheme>) -> Self {
        Self {
            geometry: self.geometry.clone(),
            layout: self.layout.clone(),
            schemes: OnceLock::from(schemes),
            alternatives: OnceLock::from(Vec::new()),
        }
    }

    /// Codes in the layouts of files.
    pub(super) fn schemes(&self) -> &[Scheme] {
        self.schemes.get_or_init(|| schemes(&self.geometry, self.layout.as_ref()))
    }

    /// The same layouts with what their sources leave open.
    pub(super) fn alternatives(&self) -> &[Scheme] {
        self.alternatives.get_or_init(|| alternatives(&self.geometry, self.layout.as_ref()))
    }

    /// True when layouts that no file describes are looked for.
    pub(super) const fn searches(&self) -> bool {
        self.layout.is_none()
    }

    pub(super) fn tried(&self) -> usize {
        self.schemes().len() + self.alternatives.get().map_or(0, Vec::len)
    }

    /// All codes that were tried so far.
    pub(super) fn all(&self) -> impl Iterator<Item = &Scheme> {
        let alternatives = self.alternatives.get().map_or(&[][..], Vec::as_slice);
        self.schemes().iter().chain(alternatives)
    }
}

/// The codes that fit, each in every layout that is another place for it.
fn schemes(geometry: &PageGeometry, layout: Option<&Layout>) -> Vec<Scheme> {
    let hamming =
        [256, 512].map(|step_bytes| [Code::Hamming { step_bytes }, Code::HammingSmartMedia { step_bytes }]);
    let bch = |strength| {
        [
            Code::Bch { strength, step_bytes: 512 },
            Code::Bch { strength, step_bytes: 1024 },
            Code::BchOver { strength, step_bytes: 1024, polynomial: OTHER_POLYNOMIAL },
        ]
    };
    let codes = hamming.into_iter().flatten().chain((1..=floatgate_ecc::code::MAX_STRENGTH).flat_map(bch));
    let codes: Vec<Code> = codes.collect();
    let general = codes.into_par_iter().flat_map_iter(|code| different(geometry, code, layout));
    // A controller has its own codes.
    let controllers = layout.map_or_else(|| Layout::all().iter().collect(), |layout| vec![layout]);
    let scheme = |layout: &Layout, code: &Code| Scheme::new(geometry.clone(), *code, layout).ok();
    let of_controllers = controllers.into_par_iter().flat_map_iter(|layout: &Layout| {
        layout.codes().iter().filter_map(|code| scheme(layout, code)).collect::<Vec<_>>()
    });
    general.chain(of_controllers).collect()
}

/// Layouts with what their sources leave open.
fn alternatives(geometry: &PageGeometry, layout: Option<&Layout>) -> Vec<Scheme> {
    let layouts: Vec<&Layout> = layout.map_or_else(|| Layout::all().iter().collect(), |layout| vec![layout]);
    let of_layout = |layout: &Layout| {
        let scheme = |(layout, code): (Layout, Code)| Scheme::new(geometry.clone(), code, &layout).ok();
        layout.alternatives().into_iter().filter_map(scheme).collect::<Vec<_>>()
    };
    layouts.into_par_iter().flat_map_iter(of_layout).collect()
}

/// A code in every layout that goes with any, each place once.
fn different(geometry: &PageGeometry, code: Code, only: Option<&Layout>) -> Vec<Scheme> {
    let mut schemes: Vec<Scheme> = Vec::new();
    let usual = linux_layouts(code).into_iter().filter_map(|name| Layout::named(name).ok());
    let layouts = only.into_iter().chain(usual.chain(Layout::all()).filter(|_| only.is_none()));
    for layout in layouts.filter(|layout| layout.codes().is_empty()) {
        let scheme = match schemes.first() {
            Some(first) => first.moved(layout),
            None => Scheme::new(geometry.clone(), code, layout),
        };
        let Ok(scheme) = scheme else { continue };
        if schemes.iter().all(|other| !other.is_same(&scheme)) {
            schemes.push(scheme);
        }
    }
    schemes
}

//! Families: times that the kernel's tables do not contain are taken from the most similar chips of the
//! catalogue.

use floatgate_device::spec::ChipSpec;
use floatgate_device::spi_nand::SpiNandSpec;
use floatgate_device::spi_nor::SpiNorSpec;
use floatgate_device::units::TypMaxUs;
use floatgate_mtd::Nanos;
use std::cmp::Reverse;
use std::fmt::{self, Display};

/// A part of the catalogue with its maker.
#[derive(Debug)]
pub(super) struct Relative<T> {
    pub(super) name: String,
    pub(super) maker: String,
    pub(super) spec: T,
}

/// Chips of one kind that have part files in the catalogue.
#[derive(Debug)]
pub(in crate::kernel) struct Members<T>(Vec<Relative<T>>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Families of all kinds of chips.
#[derive(Debug, Default)]
pub(crate) struct Families {
    pub(in crate::kernel) spi_nand: Members<SpiNandSpec>,
    pub(in crate::kernel) spi_nor: Members<SpiNorSpec>,
}

impl Families {
    /// Adds a part of the catalogue. Parts of kinds without families are ignored.
    pub(crate) fn add(&mut self, name: &str, maker: &str, chip: ChipSpec) {
        let (name, maker) = (name.to_owned(), maker.to_owned());
        match chip {
            ChipSpec::SpiNand(spec) => self.spi_nand.0.push(Relative { name, maker, spec: *spec }),
            ChipSpec::SpiNor(spec) => self.spi_nor.0.push(Relative { name, maker, spec: *spec }),
            _ => {}
        }
    }
}

/// Members that are most similar to a chip.
pub(super) struct Family<'a, T>(pub(super) Vec<&'a Relative<T>>);

impl<T> Members<T> {
    /// The members that are most similar to a chip; only members of the same maker if there are any.
    pub(super) fn of<K: Ord>(&self, maker: &str, likeness: impl Fn(&T) -> K) -> Family<'_, T> {
        let key = |part: &Relative<T>| (part.maker.eq_ignore_ascii_case(maker), likeness(&part.spec));
        let best = self.0.iter().map(key).max();
        Family(self.0.iter().filter(|part| Some(key(part)) == best).collect())
    }
}

impl<T> Members<T> {
    /// A family of all members.
    pub(super) fn all(&self) -> Family<'_, T> {
        Family(self.0.iter().collect())
    }
}

impl<'a, T> Family<'a, T> {
    /// First member of the family.
    pub(super) fn first(&self) -> Option<&'a T> {
        self.0.first().map(|part| &part.spec)
    }

    /// The family of the members for which `has` is true.
    pub(super) fn having(&self, has: impl Fn(&T) -> bool) -> Self {
        Family(self.0.iter().copied().filter(|part| has(&part.spec)).collect())
    }

    /// True if the family has no members.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Description of the family for users.
    pub(super) fn described(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|part| part.name.as_str()).collect();
        format!("times of the family, not of this part: median of {}", names.join(", "))
    }

    /// True if the family has members of this maker.
    pub(super) fn is_of(&self, maker: &str) -> bool {
        self.0.iter().any(|part| part.maker.eq_ignore_ascii_case(maker))
    }

    /// Median of a value over the family; of an even number of values, the lower median.
    pub(super) fn median<V: Ord + Default>(&self, value: impl Fn(&T) -> V) -> V {
        let mut all: Vec<V> = self.0.iter().map(|part| value(&part.spec)).collect();
        all.sort_unstable();
        let middle = all.len().saturating_sub(1) / 2;
        all.into_iter().nth(middle).unwrap_or_default()
    }

    /// Median of a time over the family, us.
    pub(super) fn us(&self, value: impl Fn(&T) -> Nanos) -> f64 {
        us(self.median(|spec| value(spec).as_ns()))
    }

    /// Medians of typical and maximum time over the family, us.
    pub(super) fn typ_max(&self, value: impl Fn(&T) -> TypMaxUs) -> TypMax {
        let typ = self.median(|spec| value(spec).typ.as_ns());
        let max = self.median(|spec| Reverse(value(spec).max.as_ns())).0.max(typ);
        TypMax { typ: us(typ), max: us(max) }
    }
}

/// A typical and a maximum time, us. It is formatted as an inline table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TypMax {
    pub(super) typ: f64,
    pub(super) max: f64,
}

impl Display for TypMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ typ = {}, max = {} }}", self.typ, self.max)
    }
}

/// Converts nanoseconds to microseconds.
#[expect(clippy::cast_precision_loss, reason = "times of chips are below 2^52 ns")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

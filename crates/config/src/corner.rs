//! Slowest corner of a chip: overrides that replace typical array times by guaranteed maximum times.

use crate::{Config, ConfigError, Library, Node, Override, Setup, Value};
use floatgate_device::raw_nand::MlcSpec;

/// Choice between typical and maximum array times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Corner {
    /// Typical times of the data sheet.
    #[default]
    Typical,
    /// Maximum times guaranteed by the data sheet.
    Slowest,
}

impl Corner {
    /// Puts the overrides of the corner in front of `sets`, so that user overrides have priority. Also returns the
    /// chip in that corner.
    ///
    /// # Errors
    /// An invalid setup, override or maximum.
    pub fn over(
        self,
        library: &Library,
        setup: &Setup,
        sets: &[Override],
    ) -> Result<(Vec<Override>, Option<Slowest>), ConfigError> {
        if self == Self::Typical {
            return Ok((sets.to_vec(), None));
        }
        let config = library.resolve(setup, sets)?;
        let mut slowest = Slowest::of(&config)?;
        let mean = mean_of_pages(&config, slowest.sets.len() + 1)?;
        let all: Vec<Override> = slowest.sets.iter().chain(&mean).chain(sets).cloned().collect();
        slowest.keep_those_in_force(&library.resolve(setup, &all)?);
        Ok((all, Some(slowest)))
    }
}

/// The slowest chip that the data sheet allows.
#[derive(Clone, Debug, Default)]
pub struct Slowest {
    /// Overrides that replace each typical time by its maximum.
    pub sets: Vec<Override>,
    /// Dotted paths of times without a maximum, which stay unchanged.
    pub without: Vec<String>,
}

impl Slowest {
    fn of(config: &Config) -> Result<Self, ConfigError> {
        let mut slowest = Self::default();
        for table in ["chip.timing", "chip.erase", "chip.mlc"] {
            if let Some(node) = config.tree().get(table) {
                slowest.collect(table, node)?;
            }
        }
        if config.tree().get("chip.mlc").is_some() {
            // The pages of this chip have separate times, of which this value is the mean.
            slowest.sets.retain(|set| set.path() != MEAN);
        }
        Ok(slowest)
    }

    fn collect(&mut self, path: &str, node: &Node) -> Result<(), ConfigError> {
        match (&node.value, node.child("typ"), node.child("max")) {
            (_, Some(_), Some(max)) => {
                self.sets.push(Override::parse(&format!("{path}.typ={}", text(max)), self.sets.len() + 1)?);
            }
            (Value::Table(table), ..) => {
                table.iter().try_for_each(|(key, node)| self.collect(&format!("{path}.{key}"), node))?;
            }
            _ if path.ends_with("_us") => self.without.push(path.to_owned()),
            _ => {}
        }
        Ok(())
    }

    /// Drops overrides of this corner that user overrides replace.
    fn keep_those_in_force(&mut self, config: &Config) {
        self.sets
            .retain(|set| config.tree().get(&set.path()).is_some_and(|node| text(node) == set.value_text()));
    }
}

/// Path of the mean program time (tPROG) of all pages.
const MEAN: &str = "chip.timing.t_prog_us.typ";

/// Override for a chip whose pages have separate program times: the mean of their maxima, which the typical time must
/// equal.
fn mean_of_pages(config: &Config, number: usize) -> Result<Option<Override>, ConfigError> {
    let mlc = config.extract_or_default::<Option<MlcSpec>>("chip.mlc")?;
    let mean = mlc.map(|mlc| (mlc.t_prog_lsb_us.max.as_ns() + mlc.t_prog_msb_us.max.as_ns()) / 2);
    mean.map(|ns| Override::parse(&format!("{MEAN}=\"{ns} ns\""), number)).transpose()
}

/// The value as written in the text of the file.
fn text(node: &Node) -> &str {
    node.origin.source.content().get(node.origin.value.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn slowest_with(chip: &str, sets: &[&str]) -> Slowest {
        let library = Library::built_in();
        let setup = library.setup_of_chip(chip).unwrap();
        let sets = Override::parse_all(sets).unwrap();
        Corner::Slowest.over(&library, &setup, &sets).unwrap().1.unwrap()
    }

    fn slowest(chip: &str) -> Slowest {
        slowest_with(chip, &[])
    }

    fn sets(slowest: &Slowest) -> Vec<String> {
        slowest.sets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn typical_times_become_the_maxima_of_the_data_sheet() {
        let chip = slowest("mx30lf2g18ac");
        assert_eq!(
            sets(&chip),
            ["chip.timing.t_bers_us.typ=3500", "chip.timing.t_prog_us.typ=600", "chip.timing.t_r_us.typ=25"]
        );
        assert_eq!(chip.without, ["chip.timing.t_rcbsy_us"]);
        let replaced = ["chip.timing.t_prog_us.typ=300", "chip.timing.t_r_us={typ=20,max=30}"];
        assert_eq!(sets(&slowest_with("mx30lf2g18ac", &replaced)), ["chip.timing.t_bers_us.typ=3500"]);
        let nor = sets(&slowest("n25q128a"));
        assert!(nor.contains(&"chip.erase.sector.t_us.typ=\"3000 ms\"".to_owned()), "{nor:?}");
    }
}

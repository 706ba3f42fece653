//! The corner of a chip at its guaranteed maxima: overrides that replace typical array times.

use crate::config::{Config, ConfigError, Node, Override, Value};

/// A chip as slow as its data sheet allows.
#[derive(Clone, Debug, Default)]
pub struct Slowest {
    /// Overrides that replace each typical time by its maximum.
    pub sets: Vec<Override>,
    /// Dotted paths of the times that have no maximum; they stay as they are.
    pub without: Vec<String>,
}

impl Slowest {
    /// The slowest chip of a setup.
    ///
    /// # Errors
    /// A maximum that cannot be read.
    pub fn of(config: &Config) -> Result<Self, ConfigError> {
        let mut slowest = Self::default();
        for table in ["chip.timing", "chip.erase"] {
            if let Some(node) = config.tree().get(table) {
                slowest.collect(table, node)?;
            }
        }
        Ok(slowest)
    }

    fn collect(&mut self, path: &str, node: &Node) -> Result<(), ConfigError> {
        match (&node.value, node.child("typ"), node.child("max")) {
            (_, Some(_), Some(max)) => {
                let text = max.origin.source.content().get(max.origin.value.clone()).unwrap_or_default();
                self.sets.push(Override::parse(&format!("{path}.typ={text}"), self.sets.len() + 1)?);
            }
            (Value::Table(table), ..) => {
                table.iter().try_for_each(|(key, node)| self.collect(&format!("{path}.{key}"), node))?;
            }
            _ if path.ends_with("_us") => self.without.push(path.to_owned()),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Library, Source};

    use super::*;

    fn slowest(chip: &str) -> Slowest {
        let library = Library::built_in();
        let setup = library.setup_from(&Source::text("x", &format!("chip = {chip:?}"))).unwrap();
        Slowest::of(&library.resolve(&setup, &[]).unwrap()).unwrap()
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
        let nor = sets(&slowest("n25q128a"));
        assert!(nor.contains(&"chip.erase.sector.t_us.typ=\"3000 ms\"".to_owned()), "{nor:?}");
    }
}

//! Report of `floatgate trace`.

use super::corrections;
use crate::envelope::{Concluded as _, Reported};
use crate::show::report::{Report, Section, Waterfall};
use crate::trace::Traced;
use floatgate_mtd::Nanos;
use floatgate_mtd::words::grouped;
use serde_json::Value;

impl Reported for Traced {
    fn report(&self) -> Report {
        let bytes = match self.bytes {
            0 => String::new(),
            bytes => format!(" of {} bytes", grouped(bytes)),
        };
        let link = format!("{}: {}", self.chip, self.link.read);
        let takes = format!("{}{bytes} takes {}", self.operation, Nanos::from_ns(self.ns));
        let corrections = corrections(&self.corrected, 1).map(|text| format!("  {text}"));
        let notes = self.link.not_given.iter().cloned();
        let waterfall = Waterfall {
            operation: self.operation.to_owned(),
            duration: format!("takes {}", Nanos::from_ns(self.ns)),
            title: (format!("{} on {}", self.operation, self.title), link.clone()),
            spans: self.spans.clone(),
            breakdown: self.breakdown_ns,
        };
        Report {
            title: self.title.clone(),
            head: std::iter::once(link).chain(notes).chain([takes]).chain(corrections).collect(),
            conclusion: self.conclusion(),
            sections: vec![Section::Waterfall(waterfall)],
        }
    }

    /// The activities of every resource.
    fn rows(&self) -> serde_json::Result<Value> {
        let mut all = serde_json::to_value(self)?;
        Ok(all.get_mut("spans").map(Value::take).unwrap_or_default())
    }
}

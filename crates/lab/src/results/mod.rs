//! Reports of results that are not studies: their commands have outputs or options that a study lacks.
//!
//! The command computes the result and prints its report. `floatgate report` reads the result back from its JSON, and
//! shows the same report.

mod fs;
mod speed;
mod speed_sweep;
mod trace;

pub use speed_sweep::{SpeedSweep, SweepRow, SweepView, columns, test_names};

use crate::advise::Advice;
use crate::capture_check::CheckedCapture;
use crate::card::powercut::CutReport;
use crate::card::replay::Replay;
use crate::card::serve::ServedCard;
use crate::envelope::{Reported, ResultKind};
use crate::fit::FitReport;
use crate::fs_compare::{BySize, FsComparison};
use crate::otp::{OtpBytes, OtpInfo, OtpStep};
use crate::show::report::{Report, Section};
use crate::speed::Corrections;
use crate::speed_run::SpeedRun;
use crate::study::setup::Grounded;
use crate::trace::Traced;
use floatgate_mtd::words::count;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The report of the answer, followed by its basis.
impl<T: Reported> Reported for Grounded<T> {
    fn report(&self) -> Report {
        let mut report = self.answer.report();
        report.sections.push(Section::Text(self.basis.lines()));
        report
    }

    fn rows(&self) -> serde_json::Result<Value> {
        self.answer.rows()
    }
}

/// Report and rows of a result.
pub(crate) type ReportAndRows = serde_json::Result<(Report, Value)>;

/// Report and rows of a stored result; `None` for a kind whose results have no report.
pub(crate) fn report_of(kind: ResultKind, result: &Value) -> Option<ReportAndRows> {
    Some(match kind {
        ResultKind::Speed => stored::<Grounded<SpeedRun>>(result),
        ResultKind::SpeedSweep => stored::<SpeedSweep>(result),
        ResultKind::Trace => stored::<Grounded<Traced>>(result),
        ResultKind::Fs => stored::<FsComparison>(result),
        ResultKind::FsPartition => stored::<BySize>(result),
        ResultKind::Advise => stored::<Advice<String>>(result),
        ResultKind::CardPowercut => stored::<CutReport>(result),
        ResultKind::CardReplay => stored::<Replay>(result),
        ResultKind::CardServe => stored::<ServedCard>(result),
        ResultKind::CheckCapture => stored::<CheckedCapture>(result),
        ResultKind::Fit => stored::<FitReport>(result),
        ResultKind::OtpInfo => stored::<OtpInfo>(result),
        ResultKind::OtpRead => stored::<OtpBytes>(result),
        ResultKind::OtpWrite => stored::<OtpStep>(result),
        _ => return None,
    })
}

fn stored<T: Reported + DeserializeOwned>(result: &Value) -> ReportAndRows {
    let result = T::deserialize(result)?;
    Ok((result.report(), result.rows()?))
}

/// Text of the ECC corrections in a test or trace; `None` if no bit was wrong.
fn corrections(found: &Corrections, calls: u64) -> Option<String> {
    let retries = match found.retries {
        1 => "1 read retry".to_owned(),
        n => format!("{n} read retries"),
    };
    (*found != Corrections::default()).then(|| {
        format!(
            "{} corrected, {retries}, {} of {}",
            count(found.bitflips, "bit"),
            count(found.scrub_requests, "scrub request"),
            count(calls, "call")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs_compare::{Options, Subject, Test, compare};
    use crate::speed::SpeedOptions;
    use crate::speed_run;
    use crate::trace::{Operation, trace};
    use floatgate_config::Library;
    use floatgate_sim::rig::RigOptions;

    fn assert_comes_back<T: Reported + DeserializeOwned>(result: &T) {
        let json = serde_json::to_value(result).unwrap();
        assert_eq!(stored::<T>(&json).unwrap(), (result.report(), result.rows().unwrap()));
        assert!(!result.rows().unwrap().as_array().unwrap().is_empty());
    }

    /// The page shows the same report as the terminal, because it reads the same result.
    #[test]
    fn a_stored_result_has_the_report_of_its_command() {
        let library = Library::built_in();
        let setup = library.setup("memory-bus-s29gl128p").unwrap();
        let config = library.resolve(&setup, &[]).unwrap();
        let rig = RigOptions::default();
        let tests = SpeedOptions { blocks: Some(1), ..SpeedOptions::default() };
        assert_comes_back(&speed_run::measure_with_advice(&library, &setup, &[], rig, &tests).unwrap());
        assert_comes_back(&trace(&library, &config, rig, Operation::ReadPage).unwrap());
        let options = Options {
            subjects: vec![Subject::Mtdchar, Subject::Mtdblock],
            tests: vec![Test::Read],
            bytes: 64 << 10,
            ..Options::default()
        };
        assert_comes_back(&compare(&library, &config, rig, &options, &|_| ()).unwrap());
    }
}

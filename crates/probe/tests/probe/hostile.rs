//! Files of samples with values that no probe measures.

use crate::generator::Unknown;
use floatgate_probe::{Probe, ProbeOptions, Samples, conclude};

/// Every `step`th line of a probe's samples.
fn thinned(csv: &str, step: usize) -> String {
    let keeps = |(at, _): &(usize, &str)| *at < 2 || at % step == 0;
    csv.lines().enumerate().filter(keeps).map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn any_sample_that_is_read_can_be_concluded_from() {
    // One whose borders reads show, and one of which only closing an allocation unit does.
    for seed in [7, 759_685_653_146] {
        conclude_from_extremes(&Unknown::new(seed));
    }
}

fn conclude_from_extremes(card: &Unknown) {
    let mut target = card.target();
    let mut probe = Probe::new(&mut target, ProbeOptions::default());
    probe.measure_reads().unwrap();
    let plan = probe.write_plan();
    probe.measure_writes(&plan).unwrap();
    let good = thinned(&probe.samples().to_csv(), 40);
    let extremes = ["0", "1", "513", "1073741824", "1152921504606846976", "18446744073709551615"];
    let mut read = 0;
    for column in [2, 4, 5, 6, 7] {
        for value in extremes {
            // Every other sample is wrong in one column.
            let changed = good.lines().enumerate().map(|(at, line)| {
                let mut cells: Vec<&str> = line.split(',').collect();
                if at >= 2 && at % 2 == 0 {
                    cells[column] = value;
                }
                cells.join(",") + "\n"
            });
            let Ok(samples) = Samples::from_csv(&changed.collect::<String>()) else { continue };
            read += 1;
            let answers = conclude(&samples);
            assert!(answers.all().iter().all(|(_, answer)| (0.0..1.0).contains(&answer.confidence)));
        }
    }
    assert!(read > 20, "{read}");
    for capacity in ["0", "1", "1152921504606846976"] {
        let head = format!("capacity_bytes={capacity}\n");
        let samples = good.replacen(&format!("capacity_bytes={}\n", probe.samples().capacity), &head, 1);
        conclude(&Samples::from_csv(&samples).unwrap());
    }
}

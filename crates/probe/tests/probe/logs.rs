//! Logs of real cards (wirenboard/sdcard_benchmark, MIT licence, tests/logs/LICENSE): what is concluded from repeated logs of a card agrees.

use floatgate_probe::{Answers, flashbench};

fn concluded(log: &str) -> Answers {
    flashbench::Log::parse(log).unwrap().conclude().unwrap()
}

#[test]
fn repeated_logs_of_a_card_agree() {
    // The erase block that is stated, the page, and an erase block that must be a value or an alternative.
    let cards = [
        ("16", [include_str!("../logs/result_16.txt"), include_str!("../logs/result_16_2.txt")], 4 << 20),
        ("20", [include_str!("../logs/result_20.txt"), include_str!("../logs/result_20_2.txt")], 3 << 20),
        ("30", [include_str!("../logs/result_30_1.txt"), include_str!("../logs/result_30_2.txt")], 4 << 20),
    ];
    for (name, logs, possible) in cards {
        let answers = logs.map(concluded);
        for (question, value) in [
            ("erase block", answers.each_ref().map(|all| all.erase_block.clone())),
            ("page", answers.each_ref().map(|all| all.page.clone())),
            ("open allocation units", answers.each_ref().map(|all| all.open_aus_linear.clone())),
        ] {
            let [first, second] = value.each_ref().map(|answer| answer.count());
            assert!(first == second || first.is_none() || second.is_none(), "{name} {question}: {value:?}");
        }
        for Answers { erase_block, .. } in &answers {
            let others = erase_block.alternatives.iter().filter_map(|other| other.value.count());
            assert!(
                erase_block.count().into_iter().chain(others).any(|block| block == possible),
                "{name}: {erase_block:?}"
            );
        }
    }
}

#[test]
fn the_end_of_a_log_may_be_missing() {
    let log = include_str!("../logs/result_30_1.txt");
    let whole = concluded(log).erase_block.count();
    let ends = log.match_indices('\n').map(|(end, _)| end);
    let mut stated = 0;
    for end in ends.step_by(7) {
        let Some(answers) = flashbench::Log::parse(&log[..end]).map(|log| log.conclude().unwrap()) else {
            continue;
        };
        // A table that ends before its small alignments shows no step.
        assert!(
            answers.erase_block.count().is_none_or(|block| Some(block) == whole),
            "{:?}",
            answers.erase_block
        );
        stated += u64::from(answers.erase_block.value.is_some());
    }
    assert!(stated > 10);
}

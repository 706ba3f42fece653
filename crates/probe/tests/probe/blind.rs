//! Blind recovery: random cards are probed, and what is concluded is compared with what they are.

use crate::calibration::{Level, svg};
use crate::generator::{Family, Unknown};
use floatgate_card::{FatKind, Mapping, SlcSpec};
use floatgate_mtd::Nanos;
use floatgate_probe::{Answer, Answers, Probe, ProbeOptions, Samples, conclude};
use floatgate_testing::few_or_all;
use std::collections::BTreeMap;

/// Confidence above which a wrong value is not forgiven.
const SURE: f64 = 0.9;

/// An answer beside the truth.
struct Verdict {
    question: &'static str,
    confidence: f64,
    is_answered: bool,
    is_right: bool,
}

impl Verdict {
    fn of(question: &'static str, answer: &Answer, truth: u64) -> Self {
        let value = answer.count();
        let (is_answered, is_right) = (value.is_some(), value == Some(truth));
        Self { question, confidence: answer.confidence, is_answered, is_right }
    }
}

/// File with the samples of a card.
fn sample_file(folder: &str, card: &Unknown) -> String {
    format!("{folder}/{:?}-{}.csv", card.family, card.seed)
}

fn probe(card: &Unknown) -> Answers {
    // Samples that were kept are analysed again, which takes a second for all.
    if let Ok(folder) = std::env::var("FLOATGATE_PROBE_FROM") {
        let csv = std::fs::read_to_string(sample_file(&folder, card)).unwrap();
        return conclude(&Samples::from_csv(&csv).unwrap());
    }
    let mut target = card.target();
    let mut probe = Probe::new(&mut target, ProbeOptions { seed: card.seed, usable_bytes: 0, limits: None });
    probe.measure_reads().unwrap();
    let plan = probe.write_plan();
    probe.measure_writes(&plan).unwrap();
    // To look at a card that is not right: `floatgate probe --from` reads its samples.
    if let Ok(folder) = std::env::var("FLOATGATE_PROBE_RAW") {
        std::fs::write(sample_file(&folder, card), probe.samples().to_csv()).unwrap();
    }
    conclude(probe.samples())
}

fn verdicts(card: &Unknown, answers: &Answers) -> [Verdict; 4] {
    let (linear, random) = card.open_aus();
    [
        Verdict::of("erase_block", &answers.erase_block, card.spec.au_bytes),
        Verdict::of("open_aus_linear", &answers.open_aus_linear, linear),
        Verdict::of("open_aus_random", &answers.open_aus_random, random),
        Verdict::of("page", &answers.page, card.spec.page_bytes),
    ]
}

/// As [`verdicts`], with buffer and planes, and without what a card of the family does not have.
fn all_verdicts(card: &Unknown, answers: &Answers) -> Vec<Verdict> {
    let is_hybrid = card.spec.mapping == Mapping::Hybrid;
    let mut all = Vec::from(verdicts(card, answers));
    all.retain(|verdict| !is_hybrid || verdict.question != "open_aus_random");
    all.push(Verdict::of("buffer", &answers.buffer, card.spec.buffer_bytes));
    if card.spec.dies == 1 {
        all.push(Verdict::of("planes", &answers.planes, card.spec.planes.into()));
    }
    let au = card.spec.au_bytes;
    all.push(Verdict::of("phase", &answers.phase, (au - card.hidden_sectors * 512 % au) % au));
    all
}

/// Counts for one question.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    right: u64,
    answered: u64,
    /// Wrong with a confidence above [`SURE`].
    sure_but_wrong: u64,
    all: u64,
}

/// Result of a campaign.
#[derive(Default)]
struct Campaign {
    cards: u64,
    questions: BTreeMap<&'static str, Tally>,
    /// Right and all answers of each question by hundredths of confidence.
    levels: BTreeMap<(&'static str, u64), (u64, u64)>,
}

impl Campaign {
    fn add(&mut self, verdict: &Verdict) {
        let Verdict { question, confidence, is_answered, is_right } = *verdict;
        let tally = self.questions.entry(question).or_default();
        tally.all += 1;
        tally.right += u64::from(is_right);
        tally.answered += u64::from(is_answered);
        tally.sure_but_wrong += u64::from(is_answered && !is_right && confidence > SURE);
        if is_answered {
            let level = self.levels.entry((question, (confidence * 100.0).round() as u64)).or_default();
            *level = (level.0 + u64::from(is_right), level.1 + 1);
        }
    }

    /// Right and all answers by tenths of confidence, of all questions.
    fn tenths(&self) -> BTreeMap<u64, (u64, u64)> {
        let mut tenths: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for ((_, hundredths), (right, all)) in &self.levels {
            let tenth = tenths.entry(hundredths / 10).or_default();
            *tenth = (tenth.0 + right, tenth.1 + all);
        }
        tenths
    }

    /// Answers by tenths of confidence, for a picture.
    fn picture(&self, first: u64) -> String {
        let level = |(tenth, (right, all)): (u64, (u64, u64))| {
            let inside = self.levels.iter().filter(|((_, hundredths), _)| hundredths / 10 == tenth);
            let sum: u64 = inside.map(|((_, hundredths), (_, all))| hundredths * all).sum();
            Level { stated: sum as f64 / 100.0 / all as f64, right, all }
        };
        let levels: Vec<Level> = self.tenths().into_iter().map(level).collect();
        svg(&format!("Confidence of a probe, {} cards, seed {first}", self.cards), &levels)
    }

    /// Prints a row for each question: right, wrong, of these with a confidence above [`SURE`], and unknown.
    fn print_rows(&self, family: Family) {
        for (question, Tally { right, answered, sure_but_wrong, all }) in &self.questions {
            let (wrong, unknown) = (answered - right, all - answered);
            println!("| {family:?} | {question} | {right} | {wrong} | {sure_but_wrong} | {unknown} |");
        }
    }

    fn print(&self, first: u64) {
        println!("{} cards from seed {first}", self.cards);
        for (question, Tally { right, answered, sure_but_wrong, .. }) in &self.questions {
            let percent = 100.0 * *right as f64 / self.cards as f64;
            println!(
                "{question:16} right {right} ({percent:.1} %), answered {answered}, wrong above {SURE}: {sure_but_wrong}"
            );
        }
        for ((question, hundredths), (right, all)) in &self.levels {
            println!("{question:16} stated 0.{hundredths:02}: {right} of {all} right");
        }
        for (tenth, (right, all)) in self.tenths() {
            println!("stated 0.{tenth}: {right} of {all} right, {:.2}", right as f64 / all as f64);
        }
    }
}

/// One line of what is not right, with what the card is.
fn tell(card: &Unknown, answers: &Answers, verdict: &Verdict) {
    if verdict.is_right {
        return;
    }
    let (_, answer) = answers.all().into_iter().find(|(name, _)| *name == verdict.question).unwrap();
    println!(
        "card {} {}: {:?} ({:.2}, {:?}) {}\n    is {}",
        card.seed,
        verdict.question,
        answer.value,
        answer.confidence,
        answer.alternatives.iter().map(|other| other.value).collect::<Vec<_>>(),
        answer.reason,
        card.summary()
    );
}

/// Probes cards on two threads; the results are in the order of the seeds.
fn campaign(seeds: std::ops::Range<u64>) -> Campaign {
    let campaign = campaign_of(Family::Usual, seeds.clone(), all_verdicts);
    campaign.print(seeds.start);
    campaign.print_rows(Family::Usual);
    campaign
}

fn campaign_of(
    family: Family,
    seeds: std::ops::Range<u64>,
    verdicts: impl Fn(&Unknown, &Answers) -> Vec<Verdict>,
) -> Campaign {
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let results = std::sync::Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let card = Unknown::of(family, seed);
            let answers = probe(&card);
            results.lock().unwrap().insert(seed, (card, answers));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let mut campaign = Campaign { cards: seeds.end - seeds.start, ..Campaign::default() };
    for (card, answers) in results.into_inner().unwrap().values() {
        for verdict in verdicts(card, answers) {
            tell(card, answers, &verdict);
            campaign.add(&verdict);
        }
    }
    campaign
}

/// Probes cards of each family, and prints a line for each question.
fn families(seeds: std::ops::Range<u64>) {
    let campaigns = Family::ALL.map(|family| (family, campaign_of(family, seeds.clone(), all_verdicts)));
    for (family, campaign) in &campaigns {
        campaign.print_rows(*family);
    }
    campaigns.iter().for_each(|(_, campaign)| assert_honest(campaign));
}

/// Each family has one card here; the campaign over many is slow.
#[test]
fn what_is_stated_about_each_family_is_true() {
    families(0..few_or_all(1, 2) as u64);
}

#[test]
#[ignore = "24 cards of each family"]
fn slow_what_is_stated_about_many_cards_of_each_family_is_true() {
    let first = fresh_seed();
    families(first..first + cards(24));
}

/// Seed of a campaign that nobody has seen; `FLOATGATE_PROBE_SEED` repeats one.
fn fresh_seed() -> u64 {
    let named = std::env::var("FLOATGATE_PROBE_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = named.unwrap_or_else(|| u64::from(std::process::id()) << 20);
    println!("FLOATGATE_PROBE_SEED={seed}");
    seed
}

fn cards(default: u64) -> u64 {
    std::env::var("FLOATGATE_PROBE_CARDS").ok().map_or(default, |cards| cards.parse().unwrap())
}

fn assert_honest(campaign: &Campaign) {
    for (question, tally) in &campaign.questions {
        assert_eq!(tally.sure_but_wrong, 0, "{question}");
    }
}

/// Answers were right on 98, 94, 96 and 97 % of 300 cards.
#[test]
fn what_is_stated_about_random_cards_is_true() {
    let cards = few_or_all(6, 24) as u64;
    let sums = campaign(0..cards);
    assert_honest(&sums);
    for (question, least) in
        [("erase_block", 23), ("open_aus_linear", 21), ("open_aus_random", 21), ("page", 20)]
    {
        let least = least * cards / 24;
        assert!(sums.questions[question].right >= least, "{question}: {:?}", sums.questions[question]);
    }
}

/// Reads do not show the borders of this card, which are behind a shift that is no usual one: what closing costs shows them to the sector. When that was
/// not asked, 22 open allocation units were stated where 6 are.
#[test]
fn closing_shows_borders_that_reads_do_not() {
    let card = Unknown::new(759_685_653_146);
    let Answers { erase_block, phase, open_aus_linear, open_aus_random, .. } = probe(&card);
    let (au, (linear, random)) = (card.spec.au_bytes, card.open_aus());
    assert!(erase_block.reason.contains("close"), "{erase_block:?}");
    assert_eq!(erase_block.count(), Some(au));
    assert_eq!(phase.count(), Some((au - card.hidden_sectors * 512 % au) % au));
    assert_eq!((open_aus_linear.count(), open_aus_random.count()), (Some(linear), Some(random)));
}

/// The cache of this card pauses for two lengths, and its blocks are taken to be twice as long as they are: seven open units were stated with 0.95 where
/// three are.
#[test]
fn a_cache_that_is_not_understood_leaves_doubt() {
    let Answers { slc_cache, open_aus_linear, open_aus_random, .. } = probe(&Unknown::new(1_795_703_000_268));
    assert!(slc_cache.value.is_some());
    for open in [open_aus_linear, open_aus_random] {
        assert!(open.confidence < 0.8, "{open:?}");
    }
}

/// Behind its cache this card shows no border, and the cache's blocks tell the allocation unit but not where it begins.
#[test]
fn open_units_are_no_surer_than_the_allocation_unit() {
    let Answers { erase_block, open_aus_linear, open_aus_random, .. } =
        probe(&Unknown::new(1_795_703_000_086));
    assert!(erase_block.value.is_some() && erase_block.confidence < 0.6, "{erase_block:?}");
    for open in [open_aus_linear, open_aus_random] {
        assert!(open.confidence <= erase_block.confidence, "{open:?}");
    }
}

/// Reads show no border of this card behind a cache, whose pauses for pairs of sectors do, to the sector.
#[test]
fn pairs_of_sectors_show_borders_behind_a_cache() {
    let card = Unknown::new(1_795_703_000_164);
    let Answers { erase_block, phase, open_aus_linear, open_aus_random, .. } = probe(&card);
    let (au, (linear, random)) = (card.spec.au_bytes, card.open_aus());
    assert!(erase_block.reason.contains("two sectors"), "{erase_block:?}");
    assert_eq!(erase_block.count(), Some(au));
    assert_eq!(phase.count(), Some((au - card.hidden_sectors * 512 % au) % au));
    assert_eq!((open_aus_linear.count(), open_aus_random.count()), (Some(linear), Some(random)));
}

/// Closing a small allocation unit costs little beside the writes that make a card close it: what counts is the one of them at which it does.
#[test]
fn closing_shows_borders_of_small_units() {
    for seed in [1_795_800_000_024, 1_795_800_000_164] {
        let card = Unknown::new(seed);
        let Answers { erase_block, open_aus_linear, open_aus_random, .. } = probe(&card);
        let (linear, random) = card.open_aus();
        assert!(erase_block.reason.contains("close"), "card {seed}: {erase_block:?}");
        assert_eq!(erase_block.count(), Some(card.spec.au_bytes));
        assert_eq!((open_aus_linear.count(), open_aus_random.count()), (Some(linear), Some(random)));
    }
}

/// Pages of these cards are no power of two, and are not seen: a write that ends inside of one is not gone on with in order.
#[test]
fn writes_in_turn_are_whole_pages() {
    for seed in [1_795_800_000_116, 1_795_800_000_301] {
        let card = Unknown::new(seed);
        let Answers { open_aus_linear, .. } = probe(&card);
        assert_eq!(open_aus_linear.count(), Some(card.open_aus().0), "card {seed}");
    }
}

/// Where the second test of the FAT area is not clear, the first one counts; where it is, a unit that seemed to be kept is not.
#[test]
fn units_kept_for_fat_are_tested_twice() {
    for seed in [1_795_800_000_336, 1_795_800_000_495, 1_795_703_000_247] {
        let card = Unknown::new(seed);
        let Answers { open_aus_linear, .. } = probe(&card);
        assert_eq!(open_aus_linear.count(), Some(card.open_aus().0), "card {seed}");
    }
}

/// A cache of two blocks is taken for a buffer: numbers that it makes up were stated with 0.95.
#[test]
fn a_cache_that_is_too_small_to_be_seen_leaves_doubt() {
    for (seed, au_mib, blocks) in [(1, 1, 2), (2, 1, 1), (3, 2, 1), (4, 4, 1)] {
        let mut card = Unknown::new(seed);
        card.spec.capacity_bytes = 4 << 30;
        (card.spec.au_bytes, card.spec.page_bytes) = (au_mib << 20, 16 << 10);
        (card.spec.open_aus, card.spec.open_aus_random, card.hidden_sectors) = (4, 0, 0);
        (card.spec.fat.kind, card.spec.spare_blocks) = (FatKind::None, 300);
        card.spec.slc =
            SlcSpec { blocks, log: false, t_r_us: Nanos::from_us(40), t_prog_us: Nanos::from_us(200) };
        let answers = probe(&card);
        for verdict in verdicts(&card, &answers) {
            assert!(
                verdict.is_right || verdict.confidence <= 0.8,
                "{}: {}",
                verdict.question,
                card.summary()
            );
        }
    }
}

/// Of two or three units that can be open in order, one less can be so in any order: where nothing else is open, turns tell. And the first unit of one of
/// these cards seemed to be kept for FAT.
#[test]
fn turns_tell_what_a_unit_that_is_open_meanwhile_hides() {
    for seed in [1_795_703_000_138, 1_795_703_000_162, 1_795_703_000_247] {
        let card = Unknown::new(seed);
        let Answers { open_aus_linear, open_aus_random, .. } = probe(&card);
        let (linear, random) = card.open_aus();
        assert_eq!(
            (open_aus_linear.count(), open_aus_random.count()),
            (Some(linear), Some(random)),
            "{seed}"
        );
    }
}

/// If an answer is right on nine of ten cards, it is right on fewer than five of twelve once in 300,000 runs.
#[test]
fn cards_that_nobody_has_seen_are_recovered() {
    let first = fresh_seed();
    let cards = few_or_all(4, 12) as u64;
    let sums = campaign(first..first + cards);
    assert_honest(&sums);
    let is_often_unknown = |question: &str| ["page", "planes", "buffer", "phase"].contains(&question);
    for (question, tally) in sums.questions.iter().filter(|(question, _)| !is_often_unknown(question)) {
        assert!(tally.right * 12 >= cards * 5, "{question}: {tally:?}, FLOATGATE_PROBE_SEED={first}");
    }
}

#[test]
#[ignore = "500 cards"]
fn slow_what_is_stated_about_many_random_cards_is_true() {
    let first = fresh_seed();
    let sums = campaign(first..first + cards(500));
    if let Ok(path) = std::env::var("FLOATGATE_PROBE_PICTURE") {
        std::fs::write(path, sums.picture(first)).unwrap();
    }
    assert_honest(&sums);
    for (question, least) in
        [("erase_block", 98), ("open_aus_linear", 95), ("open_aus_random", 95), ("page", 95)]
    {
        let percent = sums.questions[question].right * 100 / sums.cards;
        assert!(percent >= least, "{question}: {percent} %");
    }
}

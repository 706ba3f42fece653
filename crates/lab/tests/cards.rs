//! Tests of all cards of the catalogue: every file describes a possible card, states the source of its numbers, and
//! behaves as its keys state.
//!
//! New files are tested automatically.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_card::{BusMode, FatKind, Mapping};
use floatgate_config::{About, Kind, Library, Override, Part};
use floatgate_lab::card::compare::{NamedCard, compare};
use floatgate_lab::card::powercut::{self, CutOptions};
use floatgate_lab::card::shipped::traces;
use floatgate_lab::card::speed::{CardSpeed, CardSpeedOptions, CardState, measure};
use floatgate_lab::card::{LoadedCard, load, load_on_host};
use std::path::Path;

fn names(library: &Library) -> Vec<String> {
    library.names(Kind::Card).map(str::to_owned).collect()
}

fn card(name: &str, sets: &[&str]) -> LoadedCard {
    let sets = Override::parse_all(sets).unwrap();
    load(&Library::built_in(), name, &sets).unwrap_or_else(|e| panic!("{name}: {}", e.one_line()))
}

fn speed(card: &LoadedCard, requests: u32) -> CardSpeed {
    let options = CardSpeedOptions { requests, sizes: vec![4096, 1 << 20], seed: 0 };
    measure(card, &options, &|_| ()).unwrap_or_else(|e| panic!("{}: {e}", card.part.name))
}

/// Requests per second of a test with 4 KiB, or MB/s with 1 MiB.
fn figure(report: &CardSpeed, state: CardState, operation: &str, access: &str, bytes: u64) -> f64 {
    let is_it = |test: &&floatgate_lab::card::speed::CardTest| {
        (test.state, &*test.operation, &*test.access, test.request_bytes) == (state, operation, access, bytes)
    };
    let test = report.tests.iter().find(is_it).unwrap();
    if bytes == 4096 { test.iops } else { test.mb_s }
}

#[test]
fn every_value_has_a_source_and_every_source_a_value() {
    let library = Library::built_in();
    assert!(names(&library).len() >= 12);
    for name in names(&library) {
        card(&name, &[]);
        let loaded = library.load(Kind::Card, &name).unwrap();
        let part: Part = loaded.head.extract("").unwrap();
        let leaves = loaded.table.leaves("card");
        for leaf in &leaves {
            assert!(part.source_of(leaf).is_some(), "{name}: {leaf} has no source");
        }
        for of in part.sources.iter().flat_map(|source| &source.of) {
            let below = |leaf: &String| leaf == of || leaf.starts_with(&format!("{of}."));
            assert!(leaves.iter().any(below), "{name}: a source for {of}, which is not in the file");
        }
        for key in ["capacity_bytes", "au_bytes", "open_aus", "open_aus_random", "page_bytes"] {
            assert!(loaded.table.get(key).is_some(), "{name} has no {key}");
        }
    }
}

#[test]
fn every_block_mapped_card_collapses_beyond_its_open_allocation_units() {
    let library = Library::built_in();
    for name in names(&library) {
        let card = card(&name, &[]);
        let is_dying = card.spec.wear.endurance_cycles < 100;
        if card.spec.mapping != Mapping::Block || card.spec.au_bytes > 64 << 20 || is_dying {
            continue;
        }
        let report = speed(&card, 20);
        let linear: Vec<f64> =
            report.open_au_rows.iter().filter(|row| row.order == "linear").map(|row| row.mb_s).collect();
        // A pinned FAT area is one of the open allocation units.
        let open = card.spec.open_aus as usize - usize::from(card.spec.fat.kind == FatKind::Pinned);
        assert!(linear[open - 1] > 5.0 * linear[open], "{name}: {linear:?}");
        assert!(linear[open - 1] > linear[0] / 2.0, "{name}: {linear:?}");
    }
}

/// If a cache holds all written data, it is fast only until it is full. Windows below the size of an allocation unit do
/// not include the cost of closing it.
#[test]
fn speeds_in_a_cache_are_not_steady() {
    let in_order = |name: &str, sets: &[&str]| {
        let is_it = |test: &floatgate_lab::card::speed::CardTest| {
            (test.state, &*test.operation, &*test.access) == (CardState::Full, "write", "sequential")
        };
        speed(&card(name, sets), 500).tests.into_iter().filter(is_it).collect::<Vec<_>>()
    };
    let [cached, bare] = [&[][..], &["card.slc.blocks=0"]].map(|sets| in_order("emmc-16g", sets));
    for (cached, bare) in cached.iter().zip(&bare) {
        assert!(!cached.is_steady || cached.mb_s < 2.0 * bare.mb_s, "{cached:?} {bare:?}");
    }
    let [small, large] = in_order("kingston-class-10", &[]).try_into().unwrap();
    assert!(small.mb_s < 1.2 * large.mb_s, "{small:?} {large:?}");
}

/// The first pass over the sectors finds blocks that earlier tests emptied, so two equal windows in it are not a steady
/// state.
#[test]
fn writes_of_the_first_pass_are_not_steady() {
    let card = card("emmc-16g", &["card.capacity_bytes='2 GiB'"]);
    let options = CardSpeedOptions { requests: 500, sizes: vec![4096, 32768, 1 << 20], seed: 0 };
    let tests = measure(&card, &options, &|_| ()).unwrap().tests;
    let in_order = |bytes: u64| {
        let is_it = |test: &&floatgate_lab::card::speed::CardTest| {
            (test.state, &*test.operation, &*test.access, test.request_bytes)
                == (CardState::Full, "write", "sequential", bytes)
        };
        tests.iter().find(is_it).unwrap()
    };
    let (small, large) = (in_order(32768), in_order(1 << 20));
    assert!(!small.is_steady || small.mb_s < 2.0 * large.mb_s, "{small:?} {large:?}");
}

/// Random writes to a full card with a cache continue until the cache and the free blocks are used up. They are then
/// not faster than sequential writes. An empty card cannot reach that state in a test, and the report says so.
#[test]
fn random_writes_of_a_full_card_are_steady() {
    let small = ["card.capacity_bytes='512 MiB'", "card.spare_blocks=24", "card.slc.blocks=4"];
    let report = speed(&card("a1-32g", &small), 200);
    let test = |state, operation, access| {
        let is_it = |test: &&floatgate_lab::card::speed::CardTest| {
            (test.state, &*test.operation, &*test.access, test.request_bytes)
                == (state, operation, access, 4096)
        };
        report.tests.iter().find(is_it).unwrap()
    };
    let full = |access| test(CardState::Full, "write", access);
    let (random, in_order) = (full("random"), full("sequential"));
    assert!(random.is_steady && in_order.is_steady, "{random:?} {in_order:?}");
    assert!(random.mb_s <= 1.1 * in_order.mb_s, "{} {}", random.mb_s, in_order.mb_s);
    assert!(random.requests > 200, "the first window alone is no steady state");
    assert!(!test(CardState::Empty, "write", "random").is_steady);
    assert!(test(CardState::Full, "read", "random").is_steady);
}

/// NILFS2 without its cleaner does less work than in real use, so it is measured but not ranked. Chubb (2015): no
/// filesystem works well on full flash. The free space of an aged filesystem consists of holes in many allocation
/// units.
#[test]
fn an_aged_full_filesystem_is_slower_than_a_fresh_one() {
    use floatgate_lab::card::shipped::full_traces;
    let named = [NamedCard { name: "card".to_owned(), card: card("sandisk-extreme", &[]) }];
    let mut fresh = traces();
    fresh.retain(|trace| trace.workload == "postmark" && trace.filesystem != "nilfs2");
    let full = compare(&named, &full_traces(), CardState::Full, 0, &|_| ()).unwrap();
    let fresh = compare(&named, &fresh, CardState::Empty, 0, &|_| ()).unwrap();
    assert_eq!(full.cells.len(), 2);
    for cell in full.cells {
        let other = fresh.cells.iter().find(|other| other.filesystem == cell.filesystem).unwrap();
        let ratio = cell.time_us / other.time_us;
        assert!(ratio > 1.2, "{}: {ratio} times", cell.filesystem);
    }
}

/// Runs all of `speed` on cards of 1 TiB with 2^28 map units.
#[test]
#[ignore = "takes seconds"]
fn slow_a_card_of_a_tebibyte_is_measured_in_seconds() {
    for name in ["samsung-evo-16g", "a2-128g"] {
        let card = card(name, &["card.capacity_bytes='1 TiB'"]);
        let options = CardSpeedOptions { requests: 1000, sizes: vec![4096, 1 << 20], seed: 0 };
        let speed = measure(&card, &options, &|_| ()).unwrap();
        assert_eq!(speed.capacity_bytes, 1 << 40);
    }
}

#[test]
fn nilfs2_without_its_cleaner_is_not_ranked() {
    use floatgate_lab::card::compare::{NamedCard, compare};
    use floatgate_lab::card::shipped::traces;
    let loaded = card("samsung-evo-16g", &[]);
    let named = [NamedCard { name: "card".to_owned(), card: loaded }];
    let of = |filesystems: &[&str]| {
        let mut chosen = traces();
        chosen.retain(|t| t.workload == "create" && filesystems.contains(&t.filesystem));
        compare(&named, &chosen, CardState::Empty, 0, &|_| ()).unwrap()
    };
    let both = of(&["ext4", "nilfs2"]);
    let nilfs2 = both.cells.iter().find(|cell| cell.filesystem == "nilfs2").unwrap();
    assert!(!nilfs2.is_ranked && nilfs2.time_us > 0.0, "{nilfs2:?}");
    assert_eq!(both.cards[0].filesystems.len(), 1, "{:?}", both.cards);
    assert!(both.remarks.iter().any(|remark| remark.contains("NILFS2 is not ranked")), "{:?}", both.remarks);
    assert_eq!(of(&["nilfs2"]).cards[0].filesystems[0].filesystem, "nilfs2", "nothing else was asked for");
}

#[test]
fn overrides_reach_the_card_and_wrong_ones_are_refused_where_they_stand() {
    let set = card("sandisk-extreme", &["card.open_aus=4", "card.capacity_bytes='1 GiB'", "card.bus=spi"]);
    assert_eq!((set.spec.open_aus, set.spec.capacity_bytes, set.spec.bus), (4, 1 << 30, BusMode::Spi));
    let refused = |set: &str| {
        let sets = Override::parse_all(&[set]).unwrap();
        load(&Library::built_in(), "sandisk-extreme", &sets).unwrap_err().one_line()
    };
    for (set, reason) in [
        ("card.open_aus=0", "open_aus"),
        ("card.page_bytes=1000", "`card.page_bytes`"),
        ("card.page_bytes=0", "`card.page_bytes`"),
        ("card.map_unit_bytes=1000", "`card.map_unit_bytes`"),
        ("card.spare_blocks=4000000000", "`card.spare_blocks`"),
        ("card.power.hold_up_us=20000000", "`card.power.hold_up_us`"),
        ("card.power.wake_us=20000000", "`card.power.wake_us`"),
        ("card.dies=0", "from 1 to 64"),
        ("card.au_bytes=0", "au_bytes"),
        ("card.capacity_bytes='1 GB'", "multiple of the map unit"),
        ("card.capacity_bytes='4194304 GiB'", "too many map units"),
        ("card.open_au=4", "open_au"),
        ("chip.page_bytes=1", "chip"),
        ("card.spare_blocks=3", "too few"),
        ("card.bits_per_cell=0", "from 1 to 4"),
        ("card.wear.ecc_step_bytes=0", "from 64"),
        ("card.timing.t_prog_us=0", "above 0"),
    ] {
        assert!(refused(set).contains(reason), "{set}: {}", refused(set));
    }
}

#[test]
fn a_host_caps_the_bus_and_takes_time_for_requests() {
    let library = Library::built_in();
    let at = |host: &str, sets: &[&str]| {
        let sets = Override::parse_all(sets).unwrap();
        load_on_host(&library, "sandisk-extreme-pro", Some(Path::new(host)), &sets).unwrap()
    };
    let sequential =
        |card: &LoadedCard| figure(&speed(card, 20), CardState::Empty, "read", "sequential", 1 << 20);
    // Chubb (2015): the slots of the SabreLite reach at most 25 MB/s.
    assert!((15.0..25.0).contains(&sequential(&at("sabrelite", &[]))));
    assert!(sequential(&at("odroid-xu3", &[])) > 35.0);
    assert!(sequential(&at("sabrelite", &["card.host.bus=sdr104"])) > 35.0, "overrides come last");
    let host = at("sabrelite", &["card.host.request_us=100", "card.host.copy_ns_per_kb=2000"]).spec.host;
    assert_eq!(host.cpu_time(10, 1_000_000).as_us_f64(), 1000.0 + 2000.0);
    for name in library.names(Kind::CardHost) {
        let loaded = library.load(Kind::CardHost, name).unwrap();
        let about: About = loaded.head.extract("").unwrap();
        for leaf in loaded.table.leaves("host") {
            assert!(about.source_of(&leaf).is_some(), "{name}: {leaf} has no source");
        }
        at(name, &[]);
    }
    let unknown = load_on_host(&library, "a1-32g", Some(Path::new("sabre")), &[]).unwrap_err().one_line();
    assert!(unknown.contains("sabre") && unknown.contains("card host"), "{unknown}");
}

#[test]
fn class_a1_is_met_and_an_old_card_is_far_from_it() {
    // The 4000 reads and 2000 writes of class A2 need a command queue and a cache. These tests make one request at a
    // time and use neither.
    for (name, reads, writes) in [("a1-32g", 1500.0, 500.0), ("a2-128g", 1500.0, 500.0)] {
        // The specification measures in an area of 256 MiB.
        let report = speed(&card(name, &["card.capacity_bytes='2 GiB'"]), 2000);
        let iops = |operation| figure(&report, CardState::Used, operation, "random", 4096);
        assert!(
            iops("read") >= reads && iops("write") >= writes,
            "{name}: {} {}",
            iops("read"),
            iops("write")
        );
        assert!(figure(&report, CardState::Full, "write", "sequential", 1 << 20) >= 10.0);
    }
    let old = speed(&card("kingston-class-10", &[]), 200);
    assert!(figure(&old, CardState::Full, "write", "random", 4096) < 20.0);
    // Cards of this name reached 9.0 MB/s with dd on a Raspberry Pi 2, less than their class.
    assert!(figure(&old, CardState::Full, "write", "sequential", 1 << 20) >= 8.5);
}

#[test]
fn reads_across_allocation_units_take_longer_as_flashbench_shows() {
    let report = speed(&card("unnamed-flashbench", &[]), 20);
    let diff = |align: u64| {
        report.alignment_rows.iter().find(|row| row.align_bytes == align).map(|row| row.diff_us).unwrap()
    };
    // Chubb (2015) measured 381 us below 4 MiB and 840 us from 4 MiB on, without naming the card.
    assert!((300.0..500.0).contains(&diff(2 << 20)), "{}", diff(2 << 20));
    assert!((700.0..1000.0).contains(&diff(4 << 20)), "{}", diff(4 << 20));
    assert!((300.0..500.0).contains(&diff(32 << 10)), "a page of 16 KiB: {}", diff(32 << 10));
}

#[test]
fn a_weak_supply_makes_a_host_drop_writes_after_half_a_minute() {
    // Chubb (2015): latencies of a Samsung EVO above 30 s, caused by the current limit of its 1.8 V regulator; the
    // kernel drops such requests.
    let weak = "card.power.limit_ua=70100";
    let small = "card.capacity_bytes='256 MiB'";
    let longest = |sets: &[&str]| {
        let report = speed(&card("samsung-evo-16g", sets), 50);
        let writes = report.tests.iter().filter(|test| test.operation == "write");
        let most = writes.map(|test| (test.latency.max_us, test.dropped, test.late));
        most.fold((0.0, 0, 0), |sum: (f64, u64, u64), test| {
            (sum.0.max(test.0), sum.1 + test.1, sum.2 + test.2)
        })
    };
    let (free, none, _) = longest(&[small]);
    let (stalled, still_none, late) = longest(&[small, weak]);
    assert!(free < 1e6 && none == 0, "{free} us");
    assert!(stalled > 30e6 && still_none == 0 && late > 10, "{stalled} us, {late} late");
    let (given_up, dropped, _) = longest(&[small, weak, "card.host.write_timeout_us='10 s'"]);
    assert!(given_up <= 10e6 && dropped > 10, "{given_up} us, {dropped} dropped");
}

#[test]
fn every_card_states_registers_that_the_probe_reads() {
    let library = Library::built_in();
    for name in names(&library) {
        let card = card(&name, &[]);
        let info = floatgate_lab::card::info::info(&card).unwrap();
        let stated = card.spec.fake.map_or(card.spec.capacity_bytes, |fake| fake.claimed_bytes);
        assert_eq!(info.capacity_bytes, stated, "{name}");
        assert_eq!(info.sd.is_some(), card.part.kind == "sd-card", "{name}");
        assert_eq!(info.mmc.is_some(), card.part.kind == "emmc", "{name}");
        assert_eq!(info.identity.month, card.spec.identity.month, "{name}");
        assert!((2000..2030).contains(&info.identity.year), "{name}");
    }
}

#[test]
fn power_cuts_of_every_card_lose_nothing() {
    use floatgate_lab::card::powercut::{CutId, cut, replay};
    let library = Library::built_in();
    let options = CutOptions {
        cuts: 20,
        is_exhaustive: false,
        seed: 1,
        recovery_cuts: 3,
        has_faults: false,
        is_whole: false,
    };
    for name in names(&library) {
        let mut card = card(&name, &[]);
        // The test otherwise refuses the card: changes by its firmware, and data after its end, are not part of these
        // tests.
        (card.spec.evil, card.spec.fake) = (None, None);
        // Cards that lose data have their own test.
        card.spec.loss = floatgate_card::LossSpec::default();
        let report = cut(&card, &options, &|_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(report.failures, [], "{name}");
        // The weakest blocks of a dying card are used up soon.
        assert!(report.cuts >= 20 || report.worn_out > 0, "{name}: {report:?}");
        let again = replay(&card, &options, CutId { seed: 1, number: 2 }).unwrap();
        assert!(again.runs == 1 && again.requests > 0, "{name}");
    }
}

/// Cards that break their promises at a power loss, with the messages of the power-cut test.
#[test]
fn power_cuts_show_which_cards_lose_data() {
    use floatgate_lab::card::powercut::cut;
    let options = CutOptions {
        cuts: 200,
        is_exhaustive: false,
        seed: 1,
        recovery_cuts: 1,
        has_faults: false,
        is_whole: false,
    };
    for (name, problem) in [
        ("loses-flushed-8g", "neither old nor new"),
        ("tears-neighbours-8g", "neither old nor new"),
        ("dies-at-cut-8g", "does not answer any more"),
    ] {
        let card = card(name, &[]);
        assert!(!card.is_sound(), "{name}");
        let report = cut(&card, &options, &|_| {}).unwrap();
        let problems: Vec<&str> = report.failures.iter().map(|failure| failure.problem.as_str()).collect();
        assert!(problems.iter().any(|found| found.contains(problem)), "{name}: {problems:?}");
        assert!(problems.iter().all(|found| found.contains(problem)), "{name}: {problems:?}");
    }
}

/// A cache without times would be infinitely fast.
#[test]
fn a_cache_has_times_of_its_own() {
    let sets = Override::parse_all(&["card.slc.blocks=10"]).unwrap();
    let refused = load(&Library::built_in(), "kingston-class-10", &sets).unwrap_err();
    assert!(refused.one_line().contains("slc.t_prog_us"), "{}", refused.one_line());
    card("kingston-class-10", &["card.slc.blocks=10", "card.slc.t_r_us=25", "card.slc.t_prog_us=200"]);
}

/// A power-cut test of a card whose firmware changes contents would find no loss, because the test has no such
/// firmware. It is therefore refused.
#[test]
fn cuts_of_a_card_that_changes_contents_are_refused() {
    let options = CutOptions {
        cuts: 4,
        is_exhaustive: false,
        seed: 0,
        recovery_cuts: 0,
        has_faults: false,
        is_whole: false,
    };
    let cut = |name: &str| powercut::cut(&card(name, &[]), &options, &|_| ());
    let refused = cut("evil-8g").unwrap_err();
    assert!(refused.to_string().contains("changes contents"), "{refused}");
    let refused = cut("fake-limbo-32g").unwrap_err();
    assert!(refused.to_string().contains("behind its end"), "{refused}");
    assert!(cut("class-4-8g").unwrap().failures.is_empty());
}

/// A comparison states the limits of the traces, and the cards that must not be used.
#[test]
fn a_comparison_says_on_what_it_rests() {
    let named = |name: &str| NamedCard { name: name.to_owned(), card: card(name, &[]) };
    let of = |name: &str, filesystem: &str| {
        let traces: Vec<_> = traces()
            .into_iter()
            .filter(|trace| trace.name() == format!("{filesystem}-kernel-build"))
            .collect();
        compare(&[named(name)], &traces, CardState::Empty, 0, &|_| ()).unwrap()
    };
    let fake = of("fake-limbo-32g", "ext4");
    assert!(fake.cards[0].advice.contains("do not use this card"), "{}", fake.cards[0].advice);
    assert!(!fake.remarks.iter().any(|remark| remark.contains("cleaner")));
    let sound = of("kingston-class-10", "nilfs2");
    assert!(!sound.cards[0].advice.contains("do not use"), "{}", sound.cards[0].advice);
    for word in ["3 GiB", "cleaner"] {
        assert!(sound.remarks.iter().any(|remark| remark.contains(word)), "{word}");
    }
}

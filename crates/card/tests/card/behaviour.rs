//! Directions that hold for real cards.
use crate::support::spec;
use floatgate_card::{Card, CardOptions, CardSpec, Fake, FakeKind};
use floatgate_mtd::random::Random;
use floatgate_mtd::{BlockDevice, BlockErrorKind, Instant, Nanos};

fn timing_only(spec: &CardSpec) -> Card {
    Card::new(spec, CardOptions { seed: 1, stores: false }).unwrap()
}

/// A block-mapped card of 64 MiB.
fn cheap(changes: &str, tables: &str) -> Card {
    let sizes =
        "capacity_bytes = '64 MiB'\nau_bytes = '1 MiB'\npage_bytes = '16 KiB'\nbuffer_bytes = '64 KiB'\n";
    timing_only(&spec(&(sizes.to_owned() + changes), tables))
}

/// A page-mapped card of 64 MiB.
fn good(changes: &str, tables: &str) -> Card {
    cheap(&format!("mapping = 'page'\nmap_unit_bytes = 4096\n{changes}"), tables)
}

/// Specification of such a card with firmware.
fn card_spec(tables: &str) -> CardSpec {
    let changes = "capacity_bytes = '64 MiB'\nau_bytes = '1 MiB'\npage_bytes = '16 KiB'\nbuffer_bytes = '64 KiB'\n\
        mapping = 'page'\nmap_unit_bytes = 4096\nfirmware_blocks = 1\nspare_blocks = 12";
    spec(changes, tables)
}

/// Writes all sectors in order.
fn fill(card: &mut Card) {
    let data = vec![0; 1 << 20];
    let step = (data.len() / 512) as u64;
    for lba in (0..card.capacity()).step_by(step as usize) {
        card.write(card.now(), lba, &data).unwrap();
    }
    card.flush(card.now()).unwrap();
}

/// Time for writes of 16 KiB, a block of each of these allocation units in turn, in order or mirrored.
fn write_in_turn(card: &mut Card, aus: &[u64], is_linear: bool) -> Nanos {
    let (data, blocks, start) = (vec![0; 16 << 10], 64, card.now());
    for block in 0..blocks {
        // 37 is prime to the number of blocks.
        let block = if is_linear { block } else { (block * 37 + 11) % blocks };
        for au in aus {
            card.write(card.now(), au * 2048 + block * 32, &data).unwrap();
        }
    }
    card.now().since(start)
}

fn per_write(card: &mut Card, aus: &[u64], is_linear: bool) -> f64 {
    write_in_turn(card, aus, is_linear).as_us_f64() / (aus.len() as f64 * 64.0)
}

/// Kinds of cards that are filled at once, each with its sizes and tables.
const FILLED: [(&str, &str); 5] = [
    ("mapping = 'page'\nmap_unit_bytes = 4096\nspare_blocks = 9", ""),
    ("open_aus = 3\nopen_aus_random = 1\nspare_blocks = 9", ""),
    ("mapping = 'hybrid'\nlog_blocks = 2\nlog_request_bytes = 8192\nopen_aus = 2\nspare_blocks = 12", ""),
    ("open_aus = 3\nspare_blocks = 9", "[fat]\nkind = 'pinned'\nfirst_au = 1\naus = 2"),
    (
        "mapping = 'page'\nmap_unit_bytes = 4096\nspare_blocks = 15",
        "[slc]\nblocks = 3\nt_r_us = 25\nt_prog_us = 200",
    ),
];

/// A card that is filled at once answers all later requests as one that was filled by requests, also after a loss of power.
#[test]
fn a_card_filled_at_once_is_as_one_that_was_written_in_order() {
    for (changes, tables) in FILLED {
        let mut written = cheap(changes, tables);
        let mut filled = written.clone();
        fill(&mut written);
        let at_once = filled.fill_in_order(filled.capacity()).unwrap();
        assert!(at_once > filled.capacity() / 4, "{changes}: {at_once} sectors");
        let data = vec![0; 1 << 20];
        for lba in (at_once..filled.capacity()).step_by(2048) {
            let count = (filled.capacity() - lba).min(2048) as usize;
            filled.write(filled.now(), lba, &data[..count * 512]).unwrap();
        }
        filled.flush(filled.now()).unwrap();
        filled.check().unwrap();
        let has_cache = tables.contains("slc");
        for round in 0..2 {
            let [own, others] = [&mut filled, &mut written].map(|card| {
                let (mut chance, start) = (Random::new(7), card.now());
                for _ in 0..300 {
                    let lba = chance.bits() % (card.capacity() / 8) * 8;
                    card.write(card.now(), lba, &[0; 4096]).unwrap();
                    card.read(card.now(), lba / 2, &mut [0; 4096]).unwrap();
                }
                card.flush(card.now()).unwrap();
                card.now().since(start).as_us_f64()
            });
            // What the dies still do after the flush differs, and how many blocks the cache has used before, which are erased when they are opened.
            let most = if has_cache { 0.25 } else { 0.005 };
            assert!((own / others - 1.0).abs() <= most, "{changes}, round {round}: {own} and {others} us");
            filled.check().unwrap();
            for card in [&mut filled, &mut written] {
                card.cut_power();
                card.power_on(card.now(), 0).unwrap();
                card.check().unwrap();
            }
        }
    }
}

/// A card of 1 TiB takes memory for its blocks and for what is written, not for each unit, and its recovery goes by blocks.
#[test]
fn a_large_card_is_filled_and_aged_in_little_memory() {
    let sizes = "capacity_bytes = '1 TiB'\nau_bytes = '16 MiB'\npage_bytes = '16 KiB'\nbuffer_bytes = '64 KiB'\nspare_blocks = 70\n";
    let mut card = timing_only(&spec(&(sizes.to_owned() + "mapping = 'page'\nmap_unit_bytes = 4096"), ""));
    assert_eq!(card.fill_in_order(card.capacity()).unwrap(), card.capacity());
    let mut chance = Random::new(3);
    for _ in 0..20_000 {
        let lba = chance.bits() % (card.capacity() / 8) * 8;
        card.write(card.now(), lba, &[0; 4096]).unwrap();
    }
    let held = card.held_bytes();
    assert!(held < 16 << 20, "{held} bytes");
    card.cut_power();
    card.power_on(card.now(), 0).unwrap();
    card.read(card.now(), card.capacity() - 8, &mut [0; 4096]).unwrap();
}

#[test]
fn more_allocation_units_than_can_be_open_collapse() {
    for (open, random) in [(1, 0), (2, 2), (5, 1)] {
        let mut card =
            cheap(&format!("open_aus = {open}\nopen_aus_random = {random}\nspare_blocks = 16"), "");
        fill(&mut card);
        let aus: Vec<u64> = (10..16).collect();
        let within = per_write(&mut card, &aus[..open], true);
        let beyond = per_write(&mut card, &aus[..=open], true);
        assert!(beyond > 8.0 * within, "{open} open: {within} us, one more: {beyond} us");
    }
}

#[test]
fn any_order_needs_allocation_units_that_take_it() {
    let linear = |random: u32| {
        let mut card = cheap(&format!("open_aus_random = {random}"), "");
        fill(&mut card);
        (per_write(&mut card, &[10], true), per_write(&mut card, &[10], false))
    };
    let (in_order, any_order) = linear(0);
    assert!(any_order > 10.0 * in_order, "{in_order} {any_order}");
    let (in_order, any_order) = linear(2);
    assert!(any_order < 4.0 * in_order, "{in_order} {any_order}");
}

#[test]
fn a_read_across_planes_takes_another_transfer_and_one_across_pages_another_read() {
    // Pages of 16 KiB, 3 ns a byte; time of a read of 1 KiB around a position, and of a whole page.
    let times = |changes: &str| {
        let mut card = cheap(changes, "");
        fill(&mut card);
        let mut read = |byte: u64, bytes: usize| {
            // Another page is read in between.
            card.read(card.now(), 4096, &mut [0; 512]).unwrap();
            let start = card.now();
            card.read(start, byte / 512, &mut vec![0; bytes]).unwrap().since(start).as_ns()
        };
        [
            read(1024, 1024),
            read(4096 - 512, 1024),
            read(8192 - 512, 1024),
            read(16384 - 512, 1024),
            read(0, 16384),
        ]
    };
    let transfer = 16 * 3072;
    for unit in ["dies = 1\n", "dies = 1\nmapping = 'page'\nmap_unit_bytes = 4096\n"] {
        let [inside, quarter, half, page, whole] = times(unit);
        assert_eq!([quarter, half], [inside; 2], "one plane has no borders within the page");
        assert!(page >= inside + transfer, "{inside} {page}");
        let of_two = times(&format!("{unit}planes = 2"));
        assert_eq!(of_two[0], inside - transfer / 2, "half of the page is moved");
        assert_eq!(of_two[1..3], [of_two[0], of_two[0] + transfer / 2]);
        assert!(of_two[3] > of_two[2], "{of_two:?}");
        assert_eq!(of_two[4], whole, "whole pages take what they took");
        let of_four = times(&format!("{unit}planes = 4"));
        assert_eq!(of_four[1..3], [of_four[0] + transfer / 4; 2]);
    }
    for planes in [0, 3, 17] {
        let wrong = spec(&format!("planes = {planes}"), "");
        assert_eq!(wrong.check().unwrap_err().key, "planes", "{planes}");
    }
}

#[test]
fn a_log_helps_a_few_scattered_writes() {
    let time = |changes: &str| {
        let mut card = cheap(changes, "");
        fill(&mut card);
        let (data, start) = (vec![0; 16 << 10], card.now());
        for write in 0..60u64 {
            card.write(card.now(), (write * 23 % 60) * 2048 + 32, &data).unwrap();
        }
        card.now().since(start)
    };
    let block = time("open_aus_random = 0");
    let hybrid = time("mapping = 'hybrid'\nlog_blocks = 4\nopen_aus_random = 0\nspare_blocks = 12");
    assert!(block.as_ns() > 10 * hybrid.as_ns(), "{block} {hybrid}");
}

#[test]
fn random_writes_are_fast_where_the_log_holds_their_range() {
    let hybrid = "mapping = 'hybrid'\nlog_blocks = 8\nlog_request_bytes = 4096\nspare_blocks = 16";
    let slc = "slc = { log = true, t_r_us = 25, t_prog_us = 200 }";
    let time = |changes: &str, tables: &str, share: f64| {
        let mut card = cheap(changes, tables);
        fill(&mut card);
        let time = random_writes(&mut card, share, 3000);
        card.check().unwrap();
        time
    };
    // The log holds every unit of 3 allocation units; of all 64 it holds an eighth.
    let (near, far) = (time(hybrid, "", 0.05), time(hybrid, "", 1.0));
    assert!(far > 5.0 * near, "{near} {far}");
    let block = time("", "", 0.05);
    assert!(block > 5.0 * near, "{near} {block}");
    // As many slots in SLC blocks.
    let of_slc = "mapping = 'hybrid'\nlog_blocks = 16\nlog_request_bytes = 4096\nspare_blocks = 24";
    let near_slc = time(of_slc, slc, 0.05);
    assert!(near > 1.5 * near_slc, "{near} {near_slc}");
}

#[test]
fn long_requests_open_allocation_units_and_pass_the_log() {
    let hybrid = "open_aus = 3\nopen_aus_random = 0\nmapping = 'hybrid'\nlog_blocks = 8\nspare_blocks = 16";
    let in_turn = |changes: &str, aus: &[u64]| {
        let mut card = cheap(changes, "");
        fill(&mut card);
        per_write(&mut card, aus, true)
    };
    // Writes of 16 KiB.
    let passes = format!("{hybrid}\nlog_request_bytes = 4096");
    let (few, many) = (in_turn(&passes, &[10, 20, 30]), in_turn(&passes, &[10, 20, 30, 40]));
    assert!(many > 5.0 * few, "{few} {many}");
    let (few, many) = (in_turn(hybrid, &[10, 20, 30]), in_turn(hybrid, &[10, 20, 30, 40]));
    assert!(many < 3.0 * few, "the log takes them: {few} {many}");
}

/// Mean time of random writes of 4 KiB to the first `share` of the card.
fn random_writes(card: &mut Card, share: f64, count: u32) -> f64 {
    let places = (card.capacity() as f64 * share) as u64 / 8;
    let (data, start, mut chance) = ([0; 4096], card.now(), Random::new(5));
    for _ in 0..count {
        card.write(card.now(), chance.bits() % places * 8, &data).unwrap();
    }
    card.now().since(start).as_us_f64() / f64::from(count)
}

#[test]
fn a_full_page_mapped_card_is_slower_than_an_empty_one() {
    let empty = random_writes(&mut good("", ""), 1.0, 3000);
    let mut card = good("", "");
    fill(&mut card);
    random_writes(&mut card, 1.0, 30_000);
    let full = random_writes(&mut card, 1.0, 3000);
    assert!(full > 2.0 * empty, "{empty} {full}");
    card.check().unwrap();
}

#[test]
fn idle_time_prepares_blocks() {
    let burst_after = |pause: Nanos| {
        let mut card = good("idle_blocks = 6\nspare_blocks = 40", "");
        fill(&mut card);
        random_writes(&mut card, 1.0, 50_000);
        let start = card.now() + pause;
        card.write(start, 0, &[0; 512]).unwrap();
        random_writes(&mut card, 1.0, 800)
    };
    let (busy, rested) = (burst_after(Nanos::ZERO), burst_after(Nanos::from_ms(20_000)));
    assert!(rested < 0.8 * busy, "{busy} {rested}");
}

#[test]
fn the_fat_area_of_a_cheap_card_stays_fast() {
    for (open, kind) in [(2, "kind = 'pinned'"), (1, "kind = 'page', spare_blocks = 2")] {
        let tables = format!("fat = {{ first_au = 1, aus = 1, {kind} }}");
        let mut card = cheap(&format!("open_aus = {open}\nopen_aus_random = 0"), &tables);
        fill(&mut card);
        let (mut fat, mut other) = (Nanos::ZERO, Nanos::ZERO);
        let data = [0; 4096];
        for write in 0..200u64 {
            for (au, time) in [(1, &mut fat), (9, &mut other)] {
                let start = card.now();
                card.write(start, au * 2048 + write * 37 % 64 * 32, &data).unwrap();
                let end = card.flush(card.now()).unwrap();
                *time += end.since(start);
            }
        }
        assert!(other.as_ns() > 5 * fat.as_ns(), "{kind}: FAT {fat}, elsewhere {other}");
    }
}

#[test]
fn beyond_the_slc_cache_writes_are_slower_until_the_card_had_a_rest() {
    let tables = "slc = { blocks = 6, t_r_us = 25, t_prog_us = 200 }";
    let mut card = good("spare_blocks = 20\nbus = 'sdr104'", tables);
    fill(&mut card);
    let rest = card.now() + Nanos::from_ms(60_000);
    card.write(rest, 0, &[0; 512]).unwrap();
    // The cache takes 6 blocks of 512 KiB.
    let burst = |card: &mut Card, first: u64| {
        let (data, start) = (vec![0; 1 << 20], card.now());
        for mib in first..first + 2 {
            card.write(card.now(), mib * 2048, &data).unwrap();
        }
        card.now().since(start).as_ms_f64()
    };
    let (cached, _, beyond) = (burst(&mut card, 0), burst(&mut card, 2), burst(&mut card, 4));
    let rest = card.now() + Nanos::from_ms(60_000);
    card.write(rest, 0, &[0; 512]).unwrap();
    let rested = burst(&mut card, 6);
    assert!(beyond > 2.0 * cached, "{cached} {beyond}");
    assert!(rested < 1.5 * cached, "{cached} {rested}");
}

#[test]
fn a_worn_card_errs_and_then_can_only_be_read() {
    let mut card = cheap("", "[wear]\nendurance_cycles = 30\nlife_factor = 40\nstatic_difference = 4");
    let errors = |card: &mut Card| {
        let mut buf = vec![0; 16 << 10];
        let reads = (0..card.capacity()).step_by(32);
        reads.filter(|lba| card.read(card.now(), *lba, &mut buf).is_err()).count()
    };
    fill(&mut card);
    assert_eq!(errors(&mut card), 0);
    for _ in 0..500 {
        fill(&mut card);
    }
    let worn = errors(&mut card);
    assert!(worn > 100, "{worn} errors");
    let data = vec![0; 1 << 20];
    let failed = (0..1_000_000u64).find_map(|write| card.write(card.now(), write % 64 * 2048, &data).err());
    assert_eq!(failed.unwrap().kind, BlockErrorKind::WornOut);
    assert_eq!(card.write(card.now(), 0, &data).unwrap_err().kind, BlockErrorKind::WornOut);
    card.check().unwrap();
}

#[test]
fn static_wear_levelling_moves_what_does_not_change() {
    let spread = |difference: u32| {
        let mut card = good("", &format!("[wear]\nstatic_difference = {difference}"));
        fill(&mut card);
        random_writes(&mut card, 0.05, 1_000_000);
        card.check().unwrap();
        card.erase_counts().max().unwrap() - card.erase_counts().min().unwrap()
    };
    let (without, with) = (spread(0), spread(10));
    assert!(with <= 30 && without > 3 * with, "{without} {with}");
}

/// Merging an allocation unit takes less time when pages stay inside the chip, and its contents are the same.
#[test]
fn copy_back_saves_the_way_through_the_controller() {
    let merged = |changes: &str| {
        let changes = format!("open_aus = 1\nopen_aus_random = 0\nspare_blocks = 16\ndies = 1\n{changes}");
        let mut card = cheap(&changes, "");
        fill(&mut card);
        let time = write_in_turn(&mut card, &[10, 11], false);
        card.check().unwrap();
        (time.as_us_f64(), card.stats().page_programs)
    };
    let [(through, programs), (inside, same)] = ["copy_back = false", "copy_back = true"].map(merged);
    assert!(inside < 0.95 * through && programs == same, "{inside} us, {through} us through the controller");
}

/// Blocks of the firmware are never written, and fewer are left to spare.
#[test]
fn firmware_takes_spare_blocks() {
    let of = |blocks: u32| {
        let changes =
            format!("mapping = 'page'\nmap_unit_bytes = 4096\nspare_blocks = 12\nfirmware_blocks = {blocks}");
        let mut card = cheap(&changes, "");
        fill(&mut card);
        let time = random_writes(&mut card, 1.0, 4000);
        card.check().unwrap();
        (time, card.erase_counts().filter(|erases| *erases == 0).count())
    };
    let ((without, _), (with, never_erased)) = (of(0), of(4));
    assert!(with > without && never_erased >= 4, "{with} us, {without} us; {never_erased} blocks");
}

/// Blocks that are heated survive more erases, and an erase with annealing takes longer.
#[test]
fn annealing_multiplies_the_life_of_blocks() {
    let writes_until_the_end = |heaters: &str| {
        let changes = "spare_blocks = 6";
        let wear = format!("[wear]\nendurance_cycles = 4\nlife_factor = 1\nlife_spread = 0\n{heaters}");
        let mut card = good(changes, &wear);
        let data = vec![0; 1 << 20];
        let fails = |write: &u64| card.write(card.now(), write % 16 * 2048, &data).is_err();
        let writes = (0..20_000).find(fails).unwrap();
        (writes, card.now())
    };
    let (plain, _) = writes_until_the_end("");
    let heaters = "anneal_cycles = 2\nanneal_share = 0.9";
    let (annealed, ended) = writes_until_the_end(heaters);
    assert!(annealed > 4 * plain, "{annealed} and {plain} writes");
    let (slow, slow_end) = writes_until_the_end(&format!("{heaters}\nanneal_us = 50000"));
    assert!(
        slow == annealed && slow_end > ended,
        "{slow} writes until {slow_end:?}, {annealed} until {ended:?}"
    );
}

/// Erases until the damage of some cycles, and the damage after as many erases, agree.
#[test]
fn damage_and_erases_are_inverse() {
    let wear = spec("", "[wear]\nendurance_cycles = 1000\nanneal_cycles = 100\nanneal_share = 0.99").wear;
    for cycles in [1.0, 99.5, 100.5, 101.5, 640.5, 1000.5] {
        let erases = wear.erases_until(cycles);
        assert!((wear.damage(erases) - cycles).abs() < 1e-6, "{cycles}: {erases}");
    }
    // Some 900 cycles of permanent damage, 1 for each annealing, and up to 100 since the last one.
    assert!((90_099.0..=90_200.0).contains(&wear.rated_erases()), "{}", wear.rated_erases());
    assert_eq!(spec("", "").wear.rated_erases(), 3000.0);
    assert!(spec("", "[wear]\nanneal_share = 0.5").check().is_err());
}

/// A slow processor delays each command, a slow ECC engine each read; firmware that is not in the ROM delays the start.
#[test]
fn a_controller_takes_its_time() {
    let times = |controller: &str| {
        let mut card = good("firmware_blocks = 1\nspare_blocks = 12", controller);
        fill(&mut card);
        let (start, mut sector) = (card.now(), [0; 512]);
        let read = card.read(start, 4096, &mut sector).unwrap();
        let written = card.write(read, 0, &[0; 4096]).unwrap();
        card.cut_power();
        let off = card.now();
        let ready = card.power_on(off, 0).unwrap();
        assert!(ready.since(off) <= card_spec(controller).power_on_bound(), "{controller}");
        [read.since(start), written.since(read), ready.since(off)].map(Nanos::as_us_f64)
    };
    let plain = times("");
    // 1200 cycles at 12 MHz are 100 us.
    let slow = times("[controller]\nclock_hz = 12000000\nread_cycles = 1200\nwrite_cycles = 2400");
    assert!((slow[0] - plain[0] - 100.0).abs() < 0.1 && (slow[1] - plain[1] - 200.0).abs() < 0.1, "{slow:?}");
    let engine = times("[controller]\necc_ns_per_kib = 10000");
    assert!((engine[0] - plain[0] - 160.0).abs() < 0.1, "a page of 16 KiB: {engine:?} {plain:?}");
    let loaded = times("[controller]\nfirmware_bytes = 1048576\nrom_bytes = 0");
    let in_rom = times("[controller]\nfirmware_bytes = 1048576\nrom_bytes = 1048576");
    assert!(loaded[2] > plain[2] && in_rom == plain, "{loaded:?} {in_rom:?} {plain:?}");
    let has_error = |table: &str| spec("", table).check().is_err();
    assert!(has_error("[controller]\nread_cycles = 1") && has_error("[controller]\nfirmware_bytes = 1"));
}

#[test]
fn reads_of_one_place_move_its_block() {
    let mut card = good("", "[wear]\nrefresh_reads = 1000");
    fill(&mut card);
    let before = card.stats();
    let mut buf = [0; 512];
    for read in 0..5000u64 {
        card.read(card.now(), read % 2 * 64, &mut buf).unwrap();
    }
    let moved = card.stats().written_units - before.written_units;
    assert!((256..=2000).contains(&moved), "{moved} units moved");
    card.check().unwrap();
}

#[test]
fn the_largest_card_holds_what_is_written_at_both_ends() {
    let sizes = "capacity_bytes = '2048 GiB'\nau_bytes = '8 MiB'\npage_bytes = '16 KiB'\nspare_blocks = 8000";
    let mut card = Card::new(&spec(sizes, ""), CardOptions::default()).unwrap();
    for lba in [0, card.capacity() - 8] {
        let written = card.write(card.now(), lba, &[7; 4096]).unwrap();
        let mut sector = [0; 512];
        card.read(written, lba + 7, &mut sector).unwrap();
        assert_eq!(sector, [7; 512]);
    }
}

#[test]
fn an_evil_card_answers_otherwise_the_second_time() {
    let spec = spec("", "evil = { one_in_sectors = 8 }");
    let mut card = Fake::of_spec(&spec, CardOptions::default()).unwrap();
    let mut now = card.write(Instant::ZERO, 0, &[0xA5; 512 * 512]).unwrap();
    let mut read = |card: &mut Fake<Card>| {
        let mut buf = [0; 512 * 512];
        now = card.read(now, 0, &mut buf).unwrap();
        buf.chunks_exact(512).filter(|sector| **sector != [0xA5; 512]).count()
    };
    let found = [read(&mut card), read(&mut card), read(&mut card)];
    assert_eq!(found[0], 0, "the first answer is true");
    assert!((32..96).contains(&found[1]) && found[1] == found[2], "{found:?}");
    card.write(Instant::ZERO, 0, &[0xA5; 256 * 512]).unwrap();
    let again = read(&mut card);
    assert!(again > 0 && again < found[1], "what was written anew is true once: {again}");
}

#[test]
fn a_fake_shows_what_it_is() {
    let fake = |kind| {
        let card = Card::new(&spec("", ""), CardOptions::default()).unwrap();
        Fake::new(card, kind, 8192)
    };
    let at = |device: &mut Fake<Card>, lba: u64| {
        let mut sector = [0xEE; 512];
        device.read(Instant::ZERO, lba, &mut sector).unwrap();
        sector[0]
    };
    for kind in FakeKind::ALL {
        let mut device = fake(kind);
        assert_eq!(device.capacity(), 8192);
        device.write(Instant::ZERO, 100, &[1; 512]).unwrap();
        device.write(Instant::ZERO, 2048 + 100, &[2; 512]).unwrap();
        // Across the real end.
        device.write(Instant::ZERO, 2047, &[3; 1024]).unwrap();
        let expected = match kind {
            FakeKind::Wraps => [2, 2, 3, 3],
            FakeKind::Limbo | FakeKind::Chain => [1, 0, 3, 0],
            FakeKind::LastSector => [1, 3, 3, 3],
            FakeKind::Cached => [1, 2, 3, 3],
        };
        let found = [100, 2148, 2047, 2048].map(|lba| at(&mut device, lba));
        assert_eq!(found, expected, "{kind:?}");
        // A chain of 2048 sectors has addresses for 4096.
        let again = [4096 + 100, 4096 + 2148].map(|lba| at(&mut device, lba));
        let expected = match kind {
            FakeKind::Wraps => [2, 2],
            FakeKind::Limbo | FakeKind::Cached => [0, 0],
            FakeKind::LastSector => [3, 3],
            FakeKind::Chain => [1, 0],
        };
        assert_eq!(again, expected, "{kind:?}");
        assert!(device.write(Instant::ZERO, 8192, &[0; 512]).is_err());
        device.discard(Instant::ZERO, 0, 8192).unwrap();
        device.flush(Instant::ZERO).unwrap();
    }
}

/// A write that is answered from RAM ends before its page is programmed; one that is written through ends after it, and survives a cut without a flush.
#[test]
fn a_card_that_writes_through_is_busy_until_the_page_is_programmed() {
    let paged = "mapping = 'page'\nmap_unit_bytes = 1024\nidle_blocks = 2\n";
    let after_a_cut = |through: bool| {
        let spec = spec(&format!("{paged}write_through = {through}"), "");
        let mut card = Card::new(&spec, CardOptions::default()).unwrap();
        let written = card.write(card.now(), 0, &[0x5A; 1024]).unwrap();
        let taken = written.since(Instant::ZERO);
        card.cut_power();
        let ready = card.power_on(card.now(), 0).unwrap();
        let mut back = [0; 1024];
        card.read(ready, 0, &mut back).unwrap();
        (taken >= spec.timing.t_prog_us, back == [0x5A; 1024])
    };
    assert_eq!(after_a_cut(true), (true, true));
    assert_eq!(after_a_cut(false), (false, false));
}

/// A cut in the middle of a program destroys the pages before it in the same cells, though they were flushed.
#[test]
fn a_torn_page_takes_its_neighbours_with_it() {
    let kept = |torn: u32| {
        let spec = spec("open_aus_random = 0", &format!("loss = {{ torn_pages = {torn} }}"));
        let mut card = Card::new(&spec, CardOptions::default()).unwrap();
        let page = [0x5A; 4096];
        let written = card.write(card.now(), 0, &page).unwrap();
        let flushed = card.flush(written).unwrap();
        card.order_cut(1);
        let cut = card.write(flushed, 8, &page).and_then(|at| card.flush(at));
        assert!(cut.is_err());
        let ready = card.power_on(card.now(), 0).unwrap();
        let mut back = [0; 4096];
        card.read(ready, 0, &mut back).unwrap();
        card.check().unwrap();
        back == page
    };
    assert!(kept(0) && !kept(1));
}

/// A card that may die at a cut answers nothing afterwards.
#[test]
fn a_dead_card_does_not_start() {
    let spec = spec("", "loss = { dies_per_million = 1000000 }");
    let mut card = Card::new(&spec, CardOptions::default()).unwrap();
    card.order_cut(1);
    let cut = card.write(card.now(), 0, &[1; 4096]).and_then(|at| card.flush(at));
    assert!(cut.is_err());
    assert_eq!(card.power_on(card.now(), 0).unwrap_err().kind, BlockErrorKind::Dead);
}

/// The blocks of an enhanced area hold less, are programmed faster, endure more, and share no wear with the others; the host sees a smaller card.
#[test]
fn an_enhanced_area_has_blocks_of_its_own() {
    let sizes = "capacity_bytes = '64 MiB'\nau_bytes = '1 MiB'\npage_bytes = '16 KiB'\nbuffer_bytes = '64 KiB'\n\
                 mapping = 'page'\nmap_unit_bytes = 4096\nspare_blocks = 20\nbits_per_cell = 2";
    let slc = "slc = { blocks = 0, t_r_us = 25, t_prog_us = 200 }\ntiming = { t_prog_us = 3000 }";
    let whole = spec(sizes, slc);
    let split = spec(sizes, &format!("{slc}\nenhanced = {{ bytes = '8 MiB', endurance_cycles = 5000 }}"));
    let split = split.partitioned();
    assert_eq!(split.capacity_bytes, whole.capacity_bytes - (8 << 20));
    assert_eq!(split.blocks(), whole.blocks());
    // Eight allocation units take sixteen blocks, four to work with, and one to spare.
    assert_eq!((split.enhanced_blocks(), split.enhanced_first_block()), (21, whole.blocks() - 21));
    let mut card = timing_only(&split);
    let data = vec![0; 1 << 20];
    let mut seconds = |lba: u64| {
        let start = card.now();
        for turn in 0..40 {
            card.write(card.now(), lba + turn % 8 * 2048, &data).unwrap();
        }
        card.flush(card.now()).unwrap();
        card.now().since(start).as_secs_f64()
    };
    let (area, rest) = (seconds(0), seconds(16 * 2048));
    assert!(area < rest, "{area} s, {rest} s");
    card.check().unwrap();
    let first = split.enhanced_first_block() as usize;
    let counts: Vec<u32> = card.erase_counts().collect();
    // 40 MiB in blocks of 512 KiB, of which 21 were erased before the first write.
    assert!(counts[first..].iter().sum::<u32>() > 50, "{counts:?}");
    assert!(counts[..first].iter().sum::<u32>() < 10, "{counts:?}");
    let health = card.health();
    assert!(health.enhanced_used.is_some_and(|used| used > 0.0), "{health:?}");
    assert!(health.enhanced_tenth() == 1 && health.life_tenth() == 1);
    // An area that is too large, equal to the whole card, or no multiple of the allocation unit.
    for bytes in ["40 MiB", "63 MiB", "64 MiB", "1 GiB", "1", "3 KiB"] {
        let wrong = spec(sizes, &format!("{slc}\nenhanced = {{ bytes = '{bytes}' }}")).partitioned();
        assert_eq!(wrong.check().unwrap_err().key, "enhanced.bytes", "{bytes}");
    }
    // What the kind of card forbids is said before the times that the area would need.
    let of_blocks = spec("", "enhanced = { bytes = '512 KiB' }").partitioned();
    let wrong = of_blocks.check().unwrap_err();
    assert!(wrong.key == "enhanced.bytes" && wrong.problem.contains("page-mapped"), "{wrong}");
}

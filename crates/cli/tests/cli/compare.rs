//! `floatgate compare`: technologies side by side.

use crate::support::{fresh, run, run_in, stdout};
use serde_json::Value;

/// A NAND, a NOR and an SD card in one table, each with the figures that it can have.
#[test]
fn technologies_are_compared() {
    let line = "compare w25n01gv stm32-n25q128a samsung-evo-16g --partition 17MiB";
    let json: Value = serde_json::from_str(&stdout(&format!("{line} --json"))).unwrap();
    let of = |at: usize, key: &str| json["candidates"][at][key].clone();
    let number = |at: usize, key: &str| of(at, key).as_f64().unwrap_or_else(|| panic!("{at} {key}: {json}"));
    for at in 0..3 {
        for key in ["read_mib_s", "write_mib_s", "synced_write_ms", "space_bytes", "life_years"] {
            assert!(number(at, key) > 0.0, "{at} {key}: {json}");
        }
    }
    assert!(number(0, "mount_s") <= number(0, "ready_s") && number(0, "space_bytes") < 17.0 * 1048576.0);
    assert!((number(2, "usd") / number(2, "usd_per_gb") - 16.01).abs() < 0.01, "{json}");
    // A card is ready when it has power and its filesystem is mounted.
    assert!((number(2, "ready_s") - number(2, "attach_s") - number(2, "mount_s")).abs() < 1e-9, "{json}");
    // What cannot be had is empty, and has a reason.
    assert!(of(0, "usd").is_null() && number(0, "write_mj_per_mib") > 1.0, "{json}");
    let missing = of(0, "missing");
    assert!(missing.as_array().unwrap().iter().any(|one| one["quantity"] == "price"), "{json}");
    assert!(of(2, "intervals")[0]["interval_max"].as_f64().unwrap() > number(2, "write_mib_s"), "{json}");
    assert!(of(0, "intervals")[0]["interval_min"].as_f64().unwrap() < number(0, "mount_s"), "{json}");
    assert_eq!(of(1, "unfit")[0]["problem"], "too-small");

    let text = stdout(line);
    for part in ["w25n01gv         spi-nand", "stm32-n25q128a   spi-nor", "samsung-evo-16g  sd-card"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let end = text.trim_end().lines().last().unwrap();
    let unfit = "stm32-n25q128a would not do: it has 16 MiB, and 17 MiB are needed; ";
    assert!(end.contains("Choose samsung-evo-16g: it ") && end.contains(unfit), "{end}");
    assert_eq!(stdout(&format!("{line} --csv")).lines().count(), 4);
}

/// A card has the life that `life` states for the workload, and a fake has none. The life is concluded from the same number as the table has.
#[test]
fn a_card_has_the_same_life_in_a_comparison_and_alone() {
    let of = |line: &str| serde_json::from_str::<Value>(&stdout(line)).unwrap();
    let all = of("compare a1-32g dying-8g fake-wraps-32g --write-per-day 1GiB --years 60 --json");
    for (at, card) in ["a1-32g", "dying-8g"].into_iter().enumerate() {
        let candidate = &all["candidates"][at];
        let filesystem = candidate["filesystem"].as_str().unwrap();
        let alone = of(&format!("life {card} --trace {filesystem}-postmark --json"));
        let years = [&candidate["life_years"], &alone["rated_years"]].map(|years| years.as_f64().unwrap());
        assert!((years[0] / years[1] - 1.0).abs() < 1e-9, "{card}: {years:?}");
        let cost = format!("erases {:.2} of flash", alone["erased_per_written"].as_f64().unwrap());
        for part in [cost.as_str(), "% sure, and leaves retention out."] {
            assert!(alone["conclusion"].as_str().unwrap().contains(part), "{alone}");
        }
    }
    let fake = &all["candidates"][2];
    let missing = fake["missing"].as_array().unwrap();
    assert!(fake["life_years"].is_null() && missing.iter().any(|one| one["quantity"] == "life"), "{fake}");
    let conclusion = all["conclusion"].as_str().unwrap();
    assert!(
        conclusion.contains("a1-32g would not do: it is worn out after 20.8 of 60 years"),
        "{conclusion}"
    );
    assert!(stdout("speed fake-wraps-32g").contains("But do not use it: it is a fake, which claims "));
}

/// Storage that does not hold the files of the workload, or no swap file, is a row that says so.
#[test]
fn storage_that_cannot_hold_the_workload_is_refused() {
    let of = |line: &str| serde_json::from_str::<Value>(&stdout(line)).unwrap();
    let small = of("compare a1-32g samsung-evo-16g --set card.capacity_bytes=1MiB --json");
    for one in small["candidates"].as_array().unwrap() {
        let reason = one["unfit"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("too small for the files of postmark: it has "), "{one}");
        assert!(one["life_years"].is_null() && one["read_mib_s"].is_null(), "{one}");
    }
    let swap = of("compare stm32-n25q128a samsung-evo-16g --workload swap --partition 4MiB --json");
    let nor = &swap["candidates"][0];
    assert!(nor["life_years"].is_null() && nor["unfit"].to_string().contains("has no swap files"), "{nor}");
    assert!(swap["candidates"][1]["life_years"].as_f64().unwrap() > 0.0, "{swap}");
}

#[test]
fn what_is_no_comparison_is_refused() {
    for (line, part) in [
        ("compare emmc-16g", "2 values required"),
        ("compare emmc-16g nothing", "no setup and no part is called `nothing`"),
        ("compare emmc-16g a1-32g --write-per-day 0", "write_per_day is 0 bytes"),
        ("compare emmc-16g a1-32g --partition 0", "partition is 0 bytes"),
        ("compare emmc-16g a1-32g --years 0", "a number of years"),
    ] {
        let refused = run(line);
        assert!(refused.code == Some(2) && refused.err.contains(part), "{line}: {}", refused.err);
    }
}

/// A chip that its board refuses ended the whole comparison; now it is a row that says why. Overrides reach those that have the key.
#[test]
fn a_board_that_refuses_its_chip_is_a_row() {
    let folder = fresh("compare-refused");
    std::fs::write(folder.join("wrong.toml"), "base = \"stm32-n25q128a\"\nchip = \"mx30lf1g18ac\"\n")
        .unwrap();
    let line = "compare stm32-n25q128a wrong.toml samsung-evo-16g --partition 1MiB --set bus.clock_hz=5e6 --set card.capacity_bytes=8GiB";
    let json: Value =
        serde_json::from_str(&run_in(&folder, format!("{line} --json").split(' ')).out).unwrap();
    let refused = &json["candidates"][1];
    assert_eq!(refused["unfit"][0]["problem"], "unusable", "{refused}");
    assert!(refused["read_mib_s"].is_null(), "{refused}");
    assert!(json["candidates"][2]["space_bytes"].as_f64().unwrap() < 9e9, "{json}");
    let slower = json["candidates"][0]["read_mib_s"].as_f64().unwrap();
    let usual: Value =
        serde_json::from_str(&stdout("compare stm32-n25q128a samsung-evo-16g --partition 1MiB --json"))
            .unwrap();
    assert!(slower < usual["candidates"][0]["read_mib_s"].as_f64().unwrap(), "{json}");
}

/// A typing error in a file was once a verdict about the board, with exit status 0.
#[test]
fn a_wrong_value_in_a_file_is_no_verdict() {
    let folder = fresh("compare-typing-error");
    for (name, text, place) in [
        ("clock.toml", "base = \"stm32-n25q128a\"\nbus.clock_hz = \"fast\"\n", "clock.toml:2:16"),
        ("card.toml", "base = \"samsung-evo-16g\"\ncard.open_aus = -1\n", "card.toml:2:17"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        let refused = run_in(&folder, ["compare", "stm32-n25q128a", name]);
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{}", refused.err);
        assert!(refused.err.contains(place), "{}", refused.err);
    }
}

/// An override that no target has, or that all refuse, is an error before anything is measured.
#[test]
fn a_wrong_override_is_no_verdict() {
    for (targets, set, part) in [
        ("stm32-n25q128a sama5d2-mx25l25635e", "card.open_aus=2", "unknown key `card`"),
        ("stm32-n25q128a samsung-evo-16g", "bus.clok_hz=5e6", "did you mean `clock_hz`?"),
        ("stm32-n25q128a samsung-evo-16g", "bus.clock_hz=soon", "bus.clock_hz"),
        ("stm32-n25q128a samsung-evo-16g", "page_cache.byte=1", "did you mean `bytes`?"),
    ] {
        let refused = run(&format!("compare {targets} --set {set}"));
        assert!(refused.code == Some(2) && refused.out.is_empty(), "{set}: {}", refused.out);
        assert!(refused.err.contains(part), "{set}: {}", refused.err);
    }
    let folder = fresh("report-set");
    let line = "report stm32-n25q128a samsung-evo-16g --set card.capacity_bytes=8GiB --set bus.clock_hz=5e6 -o page.html";
    assert_eq!(run_in(&folder, line.split(' ')).code, Some(0));
}

/// The verdict on several boards is the first thing on the page, and the command that made it the last.
#[test]
fn a_report_of_several_targets_opens_with_their_comparison() {
    let folder = fresh("compare-report");
    let run = run_in(&folder, ["report", "sama5d2-mx25l25635e", "stm32-n25q128a", "-o", "-"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let place = |part: &str| run.out.find(part).unwrap_or_else(|| panic!("{part} is not in the page"));
    let order =
        ["<h1>", "id=\"summary\">Choose ", "4 KiB synced, ms", "id=\"s1\"", "floatgate report sama5d2"];
    assert!(order.map(place).is_sorted());
    assert!(!run.out.contains("max-height"), "a box with a scroll bar of its own");
}

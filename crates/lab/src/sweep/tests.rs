use super::*;
use floatgate_config::Library;
use std::path::Path;
use std::sync::Arc;

const SPEC: &str = r#"
setup = "am62a-w35n01jw"
test = "page read"
constraints = ["page read KiB/s > 1500"]
[space]
"bus.mode" = ["1-1-1", "1-1-8", "1-8-8"]
"bus.clock_hz" = { from = 10e6, to = 50e6, step = 10e6 }
[objectives]
maximise = ["page read KiB/s"]
minimise = ["bus.clock_hz"]
"#;

fn begun(spec: &str, checkpoint: Option<&Path>) -> Result<(Evaluator, Results), Error> {
    let spec = Spec::parse("s.toml", spec)?;
    let evaluator = Evaluator::new(Arc::new(Library::built_in()), &spec)?;
    let results = Results::new(&evaluator, &spec, checkpoint)?;
    Ok((evaluator, results))
}

fn swept(spec: &str) -> Results {
    let (evaluator, mut results) = begun(spec, None).unwrap();
    run(&evaluator, &mut results, |_| ()).unwrap();
    results
}

fn written(results: &Results, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    results.write(format, &mut bytes).unwrap();
    bytes
}

fn column(results: &Results, name: &str) -> Vec<f64> {
    let mut values = Vec::new();
    results
        .each_page(|page| {
            let (_, cells) = page.into_iter().find(|(known, _)| known == name).unwrap();
            values.extend(match cells {
                Cells::Bool(all) => all.iter().map(|cell| f64::from(u8::from(*cell == Some(true)))).collect(),
                Cells::Integer(all) => all.iter().map(|cell| cell.unwrap() as f64).collect(),
                Cells::Number(all) => all.iter().map(|cell| cell.unwrap_or(f64::NAN)).collect(),
                Cells::Text(all) => {
                    all.iter().map(|text| text.is_some().into()).map(|b: u8| b.into()).collect::<Vec<f64>>()
                }
            });
            Ok::<(), Error>(())
        })
        .unwrap();
    values
}

/// Compares the front with a test of each pair of rows.
#[test]
fn the_front_has_the_rows_that_no_other_dominates() {
    let results = swept(SPEC);
    let (speed, clock) = (column(&results, "page read KiB/s"), column(&results, "bus.clock_hz"));
    let front = column(&results, "pareto");
    assert_eq!(front.len(), 15);
    for i in 0..15 {
        let dominated = (0..15).any(|j| {
            speed[j] >= speed[i] && clock[j] <= clock[i] && (speed[j] > speed[i] || clock[j] < clock[i])
        });
        assert_eq!(front[i] == 1.0, !dominated && speed[i] > 1500.0, "row {i}");
    }
    assert!(front.iter().sum::<f64>() > 1.0);
}

/// At the lowest clock several modes are equally good, but only the fastest is on the front.
#[test]
fn the_best_designs_are_on_the_front_and_have_units() {
    let said = swept(SPEC).conclusion();
    assert!(said[1].starts_with("The best page read is ") && said[1].contains(" KiB/s, with "), "{said:?}");
    assert_eq!(said[2], "The best `bus.clock_hz` is 10000000 Hz, with bus.mode=1-8-8.");
}

#[test]
fn shares_of_the_variance_add_up_to_all_of_it() {
    let all = swept(SPEC).sensitivity();
    let of_speed: Vec<&Sensitivity> = all.iter().filter(|one| one.objective.starts_with("page")).collect();
    assert_eq!(of_speed.len(), 3);
    assert_eq!(of_speed[2].key, "interactions and rest");
    assert!(of_speed[2].share > 0.0 && of_speed[2].share < 0.2, "{of_speed:?}");
    let clock = all.iter().find(|one| one.objective == "bus.clock_hz" && one.key == "bus.clock_hz");
    assert!((clock.unwrap().share - 1.0).abs() < 1e-9);
    // A sample with few designs, and with keys that vary together.
    let few = SPEC.replace("[objectives]", "[sample]\nrandom = 12\n[objectives]");
    let together = SPEC.split("[space]").next().unwrap().to_owned()
        + "objectives.maximise = ['page read KiB/s']\n\
           [[designs]]\nbus.mode = '1-1-1'\nbus.clock_hz = 10e6\n\
           [[designs]]\nbus.mode = '1-1-8'\nbus.clock_hz = 25e6\n\
           [[designs]]\nbus.mode = '1-8-8'\nbus.clock_hz = 50e6\n";
    for spec in [SPEC, &few, &together] {
        let all = swept(spec).sensitivity();
        for objective in all.chunk_by(|a, b| a.objective == b.objective) {
            let sum: f64 = objective.iter().map(|one| one.share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{objective:?}");
        }
    }
}

/// In a sample, chance differences between the values of a key are not its share: the clock has no effect here,
/// whatever the number of designs.
#[test]
fn a_key_without_effect_has_no_share_of_a_sample() {
    let sampled = |designs: usize| {
        let sample = format!("[sample]\nrandom = {designs}\n[objectives]");
        let modes = "\"driver.continuous\" = [true, false]\n\"bus.clock_hz\"";
        swept(&SPEC.replace("[objectives]", &sample).replace("\"bus.clock_hz\" =", &format!("{modes} =")))
            .sensitivity()
    };
    for designs in [24, 200] {
        let all = sampled(designs);
        let others = all.iter().filter(|one| one.objective == "bus.clock_hz" && one.key != "bus.clock_hz");
        let sum: f64 = others.map(|one| one.share).sum();
        assert!(sum < 0.1, "{designs}: {all:?}");
    }
}

#[test]
fn a_latin_hypercube_has_one_design_in_each_stratum() {
    let text = "setup='am62a-w35n01jw'\n[space]\n'bus.clock_hz' = { from = 0.0, to = 100.0 }\n'x' = { from = 0.0, to = 1.0 }\n[sample]\nlatin_hypercube = 100\nseed = 3\n";
    let space = Spec::parse("s.toml", text).unwrap().space().unwrap();
    let stratum = |i| space.values(i)[0].as_ref().unwrap().parse::<f64>().unwrap() as usize;
    let mut strata: Vec<usize> = (0..100).map(stratum).collect();
    assert!(strata.windows(2).any(|pair| pair[0] > pair[1]), "shuffled");
    strata.sort_unstable();
    assert_eq!(strata, (0..100).collect::<Vec<_>>());
}

/// After an interruption at any byte, a sweep continues and gives the same files, for any chunk size.
#[test]
fn an_interrupted_sweep_goes_on() {
    let path = std::env::temp_dir().join(format!("floatgate-sweep-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let sweep = |chunk| {
        let (evaluator, mut results) = begun(SPEC, Some(&path)).unwrap();
        while let Some(work) = results.work(results.done(), chunk) {
            results.add(&evaluator.measure(&work, false, &Waves::default(), &|| ()).unwrap()).unwrap();
        }
        let formats = [Format::Csv, Format::Json, Format::Parquet];
        let possible = &formats[..if cfg!(feature = "parquet") { 3 } else { 2 }];
        possible.iter().map(|&format| written(&results, format)).collect::<Vec<_>>()
    };
    let whole = sweep(4);
    let checkpoint = std::fs::read(&path).unwrap();
    assert_eq!(checkpoint.iter().filter(|&&byte| byte == b'\n').count(), 5);
    for (number, cut) in (0..checkpoint.len()).step_by(197).enumerate() {
        std::fs::write(&path, &checkpoint[..cut]).unwrap();
        assert!(sweep(1 + number % 20) == whole, "cut at {cut}");
    }
    // A complete checkpoint is not written to.
    let both = [begun(SPEC, Some(&path)).unwrap(), begun(SPEC, Some(&path)).unwrap()];
    assert!(both.iter().all(|(_, results)| written(results, Format::Csv) == whole[0]));
    drop(both);
    std::fs::write(&path, &checkpoint[..checkpoint.len() - 1]).unwrap();
    let open = begun(SPEC, Some(&path)).unwrap();
    let error = begun(SPEC, Some(&path)).err().unwrap();
    assert!(error.to_string().contains("another sweep is writing"), "{error}");
    drop(open);
    for other in [SPEC.replace("1500", "1600"), SPEC.replace("10e6, to", "5e6, to")] {
        let error = begun(&other, Some(&path)).err().unwrap();
        assert!(error.to_string().contains("another sweep"), "{error}");
    }
    let second_line = checkpoint.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    // Changes the digest, and a digit of a figure.
    let is_fraction = |two: &[u8]| two[0] == b'.' && two[1].is_ascii_digit();
    let digit = second_line + checkpoint[second_line..].windows(2).position(is_fraction).unwrap() + 1;
    for place in [second_line, digit] {
        let mut damaged = checkpoint.clone();
        damaged[place] = if damaged[place] == b'8' { b'7' } else { b'8' };
        std::fs::write(&path, &damaged).unwrap();
        let error = begun(SPEC, Some(&path)).err().unwrap();
        assert!(error.to_string().contains("line 2 is damaged"), "{error}");
    }
    std::fs::write(&path, "a text of the user").unwrap();
    assert!(begun(SPEC, Some(&path)).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a text of the user");
    std::fs::remove_file(&path).unwrap();
}

/// After an interruption in its only design, a sweep continues with the next wave of members.
#[test]
fn members_of_a_design_that_is_not_done_are_not_measured_again() {
    const SPEC: &str = "setup = 'imx6-mx30lf2g18ac'\nmeasure = 'age'\noptions = { years = 0.1 }\n\
        set = { 'partition.size' = '8MiB' }\nspace = { 'options.fill_percent' = [10, 20] }\npopulation = { members = 5, least = 2 }";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part");
    let sweep = || {
        let (evaluator, mut results) = begun(SPEC, Some(&path)).unwrap();
        run(&evaluator, &mut results, |_| ()).unwrap();
        written(&results, Format::Csv)
    };
    let whole = sweep();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let of_first = |line: &&&str| line.contains("{\"design\":0");
    assert_eq!(lines.iter().filter(of_first).count(), 3, "waves of two, two and one");
    // A forged wave shows whether waves are read.
    let first = lines.iter().find(of_first).unwrap();
    let (_, wave) = first.split_once(' ').unwrap();
    for (hits, same) in [(1, true), (0, false)] {
        let wave = wave.replace("\"hits\":1", &format!("\"hits\":{hits}"));
        let line = super::checkpoint::with_digest(&wave);
        std::fs::write(&path, format!("{}\n{line}torn", lines[0])).unwrap();
        assert_eq!(sweep() == whole, same, "{hits} survived");
        let now = std::fs::read_to_string(&path).unwrap();
        assert_eq!(now.lines().filter(|line| line.contains("{\"design\":0")).count(), 3);
    }
}

/// A worker sends the members of each wave. Members of a later design are stored before the first design is finished.
/// After an interruption, the same sweep continues from them.
#[test]
fn members_that_workers_send_are_kept_and_sent_with_the_next_work() {
    const SPEC: &str = "setup = 'imx6-mx30lf2g18ac'\nmeasure = 'age'\noptions = { years = 0.1 }\n\
        set = { 'partition.size' = '8MiB' }\nspace = { 'options.fill_percent' = [10, 20] }\npopulation = { members = 3, least = 2 }";
    let whole = written(&swept(SPEC), Format::Csv);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part");
    let sent = |piece: Piece| Piece::from_line(&piece.to_line()).unwrap();
    {
        let (evaluator, results) = begun(SPEC, Some(&path)).unwrap();
        let piece = sent(evaluator.measure_piece(&results.work(1, 1).unwrap()).unwrap());
        assert!(piece.batch().is_none(), "two members of three");
        assert_eq!(results.keep(1, &piece).unwrap().members.len(), 2);
        // A task with several designs is one piece.
        assert_eq!(evaluator.measure_piece(&results.work(0, 2).unwrap()).unwrap().batch().unwrap().len(), 2);
    }
    let (evaluator, mut results) = begun(SPEC, Some(&path)).unwrap();
    let mut tasks = 0;
    for design in 0..2 {
        let mut work = results.work(design, 1);
        assert_eq!(work.as_ref().unwrap().members.len(), 2 * design);
        while let Some(next) = work {
            let piece = sent(evaluator.measure_piece(&next).unwrap());
            tasks += 1;
            work = results.keep(design, &piece);
            piece.batch().into_iter().for_each(|batch| results.add(batch).unwrap());
        }
    }
    assert_eq!(tasks, 3, "two waves of the first design, and the second of the other");
    assert!(written(&results, Format::Csv) == whole);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_the_rows_of_the_csv() {
    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    use ::parquet::record::Field;
    use serde_json::{Value, json};
    let results = swept(&SPEC.replace("\"1-1-8\"", "\"8x\""));
    let mut file = tempfile::tempfile().unwrap();
    results.write(Format::Parquet, &mut file).unwrap();
    let value = |field: &Field| match field {
        Field::Bool(value) => json!(value),
        Field::Long(value) => json!(value),
        Field::Double(value) => json!(value),
        Field::Str(text) => json!(text),
        Field::Null => Value::Null,
        other => panic!("{other:?}"),
    };
    let rows: Vec<Value> = SerializedFileReader::new(file)
        .unwrap()
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect())
        .collect();
    let json: Value = serde_json::from_slice(&written(&results, Format::Json)).unwrap();
    assert_eq!(Value::from(rows), json["rows"]);
    assert_eq!(results.refused().0, 5);
}

/// An invalid value, a missing file, a chip that this board cannot drive, and a screen: each gives a row with its
/// reason.
#[test]
fn a_design_that_cannot_be_had_is_a_row() {
    let results = swept(
        "setup='am62a-w35n01jw'\ntest='page read'\nscreen=['page read KiB/s > 10000']\n[space]\n\
         chip=['w35n01jw', 'nosuch', 'mx30lf2g18ac', '[broken', 'w25n01jw']\n'bus.clock_hz'=[25e6, 'fast', 1, 1e300]\n",
    );
    assert_eq!(column(&results, "feasible").iter().sum::<f64>(), 1.0);
    assert_eq!((results.refused().0, results.screened().0), (18, 1));
    let json: serde_json::Value = serde_json::from_slice(&written(&results, Format::Json)).unwrap();
    assert_eq!((&json["refused"], &json["screened"]), (&18.into(), &1.into()));
    let why = |chip: &str, hz: &str| {
        let is = |row: &&serde_json::Value| row["chip"] == chip && row["bus.clock_hz"] == hz;
        json["rows"].as_array().unwrap().iter().find(is).unwrap()["refused"].as_str().unwrap_or("").to_owned()
    };
    assert_eq!(why("w35n01jw", "25000000"), "");
    assert!(why("w35n01jw", "fast").starts_with("`bus.clock_hz`: "), "{}", why("w35n01jw", "fast"));
    assert!(why("w35n01jw", "1e300").starts_with("`bus.clock_hz`: "), "{}", why("w35n01jw", "1e300"));
    assert!(why("nosuch", "25000000").contains("no part is called `nosuch`"));
    assert!(why("mx30lf2g18ac", "25000000").contains("drives SPI chips"));
    assert!(why("[broken", "25000000").starts_with("chip=[broken: "));
    assert!(why("w25n01jw", "25000000").starts_with("screened out: "));
}

/// Designs that miss the screen have rows and reasons like refused ones. Only one possible design is required.
#[test]
fn designs_that_all_miss_the_screen_are_rows() {
    let results = swept(&SPEC.replace("[space]", "screen = ['page read KiB/s > 1e9']\n[space]"));
    assert_eq!((results.screened().0, results.refused().0, results.done()), (15, 0, 15));
    results.check_measured().unwrap();
    let csv = String::from_utf8(written(&results, Format::Csv)).unwrap();
    assert_eq!(csv.matches("screened out: page read KiB/s is ").count(), 15, "{csv}");
    let refused = swept(&SPEC.replace("\"1-1-1\", \"1-1-8\", \"1-8-8\"", "\"8x\""));
    let said = |results: &Results| results.check_measured().unwrap_err().to_string();
    assert!(
        said(&refused).starts_with("5 of 5 designs cannot be had, the first because: "),
        "{}",
        said(&refused)
    );
    let one = swept("setup = 'am62a-w35n01jw'\n[space]\nbus.mode = ['8x']\n");
    assert!(said(&one).starts_with("1 of 1 design cannot be had, the first because: "), "{}", said(&one));
}

/// Otherwise a row would show the value of the design, while its members had another one.
#[test]
fn a_key_is_of_designs_or_of_members() {
    let spec = "setup = 'mt29f2g08aad'\nmeasure = 'endurance'\n[space]\noptions.temperature_c = [5, 25]\n\
                [population]\nmembers = 3\nvary.options.temperature_c = { from = 20, to = 70 }\n";
    let error = Spec::parse("s.toml", spec).unwrap().space().err().unwrap().to_string();
    assert!(error.contains("`options.temperature_c` is a key of the designs, and varies"), "{error}");
}

/// A column that no design has ends a sweep after the first design. It is not a reason of each design.
#[test]
fn columns_that_are_none_are_wrong_for_all_designs() {
    for (rule, said, help) in [
        (
            "screen = ['page read ms > 3']\n[space]",
            "`screen`: there is no column `page read ms`",
            "page read KiB/s",
        ),
        (
            "population = { members = 3, stop = { column = 'speed', width = 1 } }\n[space]",
            "`population.stop.column`: there is no column `speed`",
            "there are page read KiB/s",
        ),
        (
            "objectives.maximise = ['cost']\n[space]",
            "`objectives`: there is no column `cost`",
            "bus.clock_hz",
        ),
        (
            "objectives.maximise = ['bus.mode']\n[space]",
            "the column `bus.mode` has texts",
            "a key with numbers",
        ),
        ("objectives.maximise = ['reads']\n[space]", "the column `reads` has texts", "a key with numbers"),
    ] {
        let spec = SPEC.split("[objectives]").next().unwrap().replace("[space]", rule);
        let (evaluator, mut results) = begun(&spec, None).unwrap();
        let error = run(&evaluator, &mut results, |_| ()).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.help().unwrap().to_string().contains(help), "{:?}", error.help());
    }
}

/// Each figure of `speed` has two columns with the ends of its interval, after the figures.
#[test]
fn figures_of_a_design_have_intervals() {
    let results = swept(SPEC);
    let (figures, low, high) = (
        column(&results, "page read KiB/s"),
        column(&results, "page read KiB/s interval_min"),
        column(&results, "page read KiB/s interval_max"),
    );
    let holds = |((figure, low), high): ((&f64, &f64), &f64)| low < figure && figure < high;
    assert!(!figures.is_empty() && figures.iter().zip(&low).zip(&high).all(holds), "{low:?} {high:?}");
}

/// A wrong rule is reported before any measurement, with the names of the possible figures.
#[test]
fn figures_are_known_before_they_are_measured() {
    for (spec, key) in [
        ("setup = 'am62a-w35n01jw'\ntests = 'all'\noptions.pages = [4]", "options.blocks = [1]"),
        ("setup = 'am62a-w35n01jw'\nmeasure = 'fs'", "options.blocks = [1]"),
        ("setup = 'imx6-mx30lf2g18ac'\nmeasure = 'age'", "options.years = [0.1]"),
        ("setup = 'mt29f2g08aad'\nmeasure = 'endurance'", "options.blocks = [2]"),
        ("setup = 'imx6-mx30lf2g18ac'\nmeasure = 'powercut'\noptions.steps = 10", "options.cuts = [1]"),
        ("setup = 'kingston-class-10'\nmeasure = 'card'\noptions.sizes = [4096]", "options.requests = [1]"),
    ] {
        let population = "population = { members = 1, stop = { column = 'luck', width = 1 } }";
        let (evaluator, mut results) =
            begun(&format!("{spec}\n{population}\n[space]\n{key}\n"), None).unwrap();
        let told = run(&evaluator, &mut results, |_| ()).unwrap_err().help().unwrap().to_string();
        let mut columns = swept(&format!("{spec}\n[space]\n{key}\n")).columns();
        columns.remove(0);
        let is_figure = |name: &str| !super::measure::is_interval_end(name);
        columns.retain(|(name, cells)| matches!(cells, Cells::Number(_)) && is_figure(name));
        let names: Vec<String> = columns.into_iter().map(|(name, _)| name).collect();
        assert_eq!(told, format!("there are {}", names.join(", ")));
    }
}

/// Numbers with which nothing would be measured are refused. The message names the key and the possible values. It
/// concerns all designs, or is in their rows.
#[test]
fn numbers_that_make_no_sense_name_their_key() {
    for (spec, key, value, possible) in [
        ("setup = 'kingston-class-10'\nmeasure = 'card'", "options.requests", "0", "give 1 to 10000000"),
        (
            "setup = 'kingston-class-10'\nmeasure = 'card'",
            "options.requests",
            "4000000000",
            "give 1 to 10000000",
        ),
        ("setup = 'am62a-w35n01jw'", "options.blocks", "0", "give 1 or more"),
        ("setup = 'am62a-w35n01jw'\nmeasure = 'fs'", "options.blocks", "0", "give 1 or more"),
        ("setup = 'mt29f2g08aad'\nmeasure = 'endurance'", "options.blocks", "0", "give 1 to 1000000"),
        ("setup = 'mt29f2g08aad'\nmeasure = 'endurance'", "options.temperature_c", "126", "give -55 to 125"),
        ("setup = 'imx6-mx30lf2g18ac'\nmeasure = 'age'", "options.years", "0.05", "give 0.1 to 100"),
        ("setup = 'imx6-mx30lf2g18ac'\nmeasure = 'age'", "options.fill_percent", "0", "give 1 to 80"),
        ("setup = 'imx6-mx30lf2g18ac'\nmeasure = 'powercut'", "options.cuts", "0", "give 1 to 1000000000"),
        ("setup = 'imx6-mx30lf2g18ac'\nmeasure = 'powercut'", "options.steps", "100001", "give 1 to 100000"),
        ("setup = 'imx6-mx30lf2g18ac'\nmeasure = 'powercut'", "options.recovery_cuts", "2", "give 0 to 1"),
        ("setup = 'am62a-w35n01jw'\npopulation.least = 3", "population.members", "0", "give 1 to 100000"),
        ("setup = 'am62a-w35n01jw'\npopulation.members = 3", "population.least", "0", "give 1 or more"),
    ] {
        let said = format!("`{key}` is {value}");
        let of_all = format!("{spec}\n{key} = {value}\n[space]\nx = [1]\n");
        let error = begun(&of_all, None).err().unwrap();
        assert_eq!(
            (error.to_string(), error.help().unwrap().to_string()),
            (said.clone(), possible.to_owned())
        );
        if key.starts_with("options") {
            let one = swept(&format!("{spec}\n[space]\n{key} = [{value}]\n"));
            assert_eq!(one.refused(), (1, Some(&*said)));
        }
    }
    let pages = "setup = 'am62a-w35n01jw'\noptions.pages = [4, 0]\n[space]\nx = [1]\n";
    assert_eq!(begun(pages, None).err().unwrap().to_string(), "`options.pages` is 0");
}

/// `options.cuts` counts first cuts, as `powercut --cuts`; the column counts all of them.
#[test]
fn first_cuts_and_all_cuts_are_told_apart() {
    let all = |recovery_cuts: u32| {
        let options = format!("options.steps = 10\noptions.recovery_cuts = {recovery_cuts}");
        let spec = format!("setup = 'imx6-mx30lf2g18ac'\nmeasure = 'powercut'\n{options}");
        let results = swept(&format!("{spec}\n[space]\noptions.cuts = [1]\n"));
        let csv = String::from_utf8(written(&results, Format::Csv)).unwrap();
        let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        let column = rows[0].iter().position(|name| *name == "cuts").unwrap();
        rows[1][column].parse::<f64>().unwrap()
    };
    assert_eq!([0, 1].map(all), [1.0, 3.0]);
}

/// TOML parses keys with dots as tables.
#[test]
fn keys_need_no_quotes() {
    let quoted = swept(SPEC);
    let bare = SPEC.replace("\"bus.mode\"", "bus.mode").replace("\"bus.clock_hz\" =", "bus.clock_hz =");
    assert!(bare.contains("\nbus.clock_hz = {"));
    assert_eq!(written(&swept(&bare), Format::Csv), written(&quoted, Format::Csv));
    let table = SPEC
        .replace("[space]", "[space.bus]")
        .replace("\"bus.", "\"")
        .replace("[\"clock_hz\"]", "[\"bus.clock_hz\"]");
    assert_eq!(written(&swept(&table), Format::Csv), written(&quoted, Format::Csv));
    let listed = |design: &str| {
        swept(&format!("setup = 'am62a-w35n01jw'\ntest = 'page read'\n[[designs]]\n{design}\n"))
    };
    let quoted = listed("'bus.mode' = '1-8-8'\n'bus.clock_hz' = 10e6");
    assert_eq!(quoted.refused().0, 0);
    for bare in ["bus.mode = '1-8-8'\nbus.clock_hz = 10e6", "bus = { mode = '1-8-8', clock_hz = 10e6 }"] {
        assert_eq!(written(&listed(bare), Format::Csv), written(&quoted, Format::Csv), "{bare}");
    }
    let twice = SPEC.replace("[space]", "[space]\nbus.mode = ['1-1-1']");
    assert!(begun(&twice, None).err().unwrap().to_string().contains("`bus.mode` is given twice"));
}

/// Messages use the key names of the writer, in TOML and in JSON.
#[test]
fn messages_name_what_was_written() {
    for (toml, json, said) in [
        ("seed = 'x'", r#""seed": "x""#, "`seed`: expected a whole number, 0 or more, found the text \"x\""),
        ("measure = 'luck'", r#""measure": "luck""#, "`measure`: unknown value \"luck\""),
        ("sample = 3", r#""sample": 3"#, "`sample`: expected a table, found the number 3"),
        ("sample = { random = 'x' }", r#""sample": {"random": "x"}"#, "`sample.random`: expected"),
        (
            "population = { member = 3 }",
            r#""population": {"member": 3}"#,
            "unknown key `member` in [population]",
        ),
        ("population = {}", r#""population": {}"#, "missing key `members`"),
        ("tests = 3", r#""tests": 3"#, "`tests`: expected a text or a list of texts"),
        ("constraints = ['a']", r#""constraints": ["a"]"#, "no constraint: `a`"),
        (
            "options = { blocks = 'x' }",
            r#""options": {"blocks": "x"}"#,
            "`options.blocks`: expected a whole number",
        ),
        ("options = { blokcs = 3 }", r#""options": {"blokcs": 3}"#, "unknown key `blokcs` in [options]"),
        (
            "space = { x = 3 }",
            r#""space": {"x": 3}"#,
            "`space.x`: 3 is neither a list nor a range: write [3]",
        ),
        ("space = { x = { from = 3 } }", r#""space": {"x": {"from": 3}}"#, "`space.x`: a range needs `to`"),
        (
            "space = { x = { from = 'a', to = 3 } }",
            r#""space": {"x": {"from": "a", "to": 3}}"#,
            "`space.x`: `from` is \"a\", and no number",
        ),
        ("spaces = 3", r#""spaces": 3"#, "unknown key `spaces`"),
        ("set = 3", r#""set": 3"#, "`set`: expected a list of texts `key=value`, or a table"),
        ("sample = { random = 0 }", r#""sample": {"random": 0}"#, "`sample.random` is 0"),
    ] {
        let space = if toml.starts_with("space ") { "" } else { "space = { x = [1] }" };
        let json_space = if space.is_empty() { "" } else { r#", "space": {"x": [1]}"# };
        let both = [
            Spec::parse("s.toml", &format!("setup = 'am62a-w35n01jw'\n{toml}\n{space}\n")),
            Spec::from_json(&format!(r#"{{"setup": "am62a-w35n01jw", {json}{json_space}}}"#)),
        ];
        for read in both {
            let evaluated = |spec: Spec| {
                let evaluator = Evaluator::new(Arc::new(Library::built_in()), &spec)?;
                Results::new(&evaluator, &spec, None).map(drop)
            };
            let error = read.and_then(evaluated).unwrap_err();
            assert!(error.to_string().contains(said), "{toml}: {error}");
            let help = error.help().unwrap_or_default().to_string();
            assert!(!help.is_empty() && !help.contains("specification:"), "{toml}: {help}");
        }
    }
}

/// An error in a table has its position and specific advice, not the list of all keys of a specification.
#[test]
fn errors_in_tables_have_their_place() {
    for (text, place, help) in [
        ("[options]\nblocks = 'x'", "s.toml:4:10", "options of each measurement"),
        ("[options]\nblocks = 0", "s.toml:4:10", "give 1 or more"),
        ("[options]\nblokcs = 1", "s.toml:4:1", "did you mean `blocks`?"),
        ("[population]\nmembers = 'x'", "s.toml:4:11", "`population` has `members`"),
        ("[population]\nleast = 1", "s.toml:3:1", "`population` has `members`"),
        ("[population]\nmembers = 0", "s.toml:4:11", "give 1 to 100000"),
        ("[population]\nmembers = 9\nstop = { column = 'x', width = 0 }", "s.toml:5:32", "width above 0"),
        ("[sample]\nrandom = 0", "s.toml:4:10", "give 1 to"),
        ("[sample]\nrandom = true", "s.toml:4:10", "`sample` has"),
    ] {
        let text = format!("setup = 'am62a-w35n01jw'\nspace.x = [1]\n{text}\n");
        let error = Spec::parse("s.toml", &text).unwrap_err();
        let found = error.config().and_then(|error| error.place()).map(ToString::to_string);
        assert_eq!(found.as_deref(), Some(place), "{text}: {error}");
        let told = error.help().unwrap().to_string();
        assert!(told.contains(help) && told.len() < 120, "{text}: {told}");
    }
}

/// Messages name the key of the specification that contains the wrong override, not `--set`, which was not typed.
#[test]
fn wrong_overrides_stand_where_the_specification_has_them() {
    let [setup, space] = ["setup='am62a-w35n01jw'", "space={ bus.clock_hz=[25e6] }"];
    for (text, place) in [
        (format!("{setup}\nset=['chip.x=[']\n{space}"), "set #1"),
        (format!("{setup}\nset=['bus.mode=1-1-1', 'bus.mod=1-1-1']\n{space}"), "set #2"),
        (format!("{setup}\nspace={{ bus.clok_hz=[25e6, 50e6] }}"), "space"),
    ] {
        let error = begun(&text, None)
            .and_then(|(evaluator, mut results)| run(&evaluator, &mut results, |_| ()))
            .unwrap_err();
        let Some(found) = error.config().and_then(|error| error.place()) else { panic!("{text}: {error}") };
        assert_eq!(found.source.name(), place, "{text}: {error}");
    }
}

/// Of several impossible members, the first one is reported, regardless of the number of threads.
#[test]
fn the_first_member_that_cannot_be_had_is_told() {
    let spec = "setup='imx6-mx30lf2g18ac'\n[space]\nbus.clock_hz=[10e6]\n[population]\nmembers=40\nleast=40\n\
                vary.cells.cycles={ from=0, to=100000 }\n";
    let refused = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| swept(spec).refused().1.unwrap_or_default().to_owned())
    };
    let alone = refused(1);
    assert!(alone.contains("expected a whole number"), "{alone}");
    assert!((2..5).all(|threads| refused(threads) == alone), "{alone}");
}

#[test]
fn overrides_are_a_list_or_a_table() {
    let with = |set: &str| {
        let text = format!("setup='am62a-w35n01jw'\nset={set}\nspace={{ bus.clock_hz=[10e6, 25e6] }}");
        column(&swept(&text), "page read KiB/s")
    };
    assert_eq!(
        with("['bus.mode=1-1-1', 'chip.timing.t_rd_us=99']"),
        with("{ bus.mode='1-1-1', chip.timing.t_rd_us=99 }")
    );
    assert_ne!(with("[]"), with("{ bus.mode='1-1-1' }"));
}

/// If a setup is given in place of a specification, or the reverse, the message says so.
#[test]
fn a_setup_is_no_specification() {
    let error = Spec::parse("my.toml", "title='x'\nchip='w25n01gv'").unwrap_err();
    assert_eq!(error.to_string(), "my.toml is a setup, and no specification of a sweep");
    assert!(error.help().unwrap_or_default().to_string().contains("setup = \"my.toml\""));
}

#[test]
fn a_population_has_intervals_and_stops_when_they_are_narrow() {
    let population = |rule: &str| {
        swept(&format!(
            "setup='mt29f2g08aad'\nmeasure='endurance'\ntests=['mean cycles']\n[options]\nblocks=2\n[space]\n'options.temperature_c'=[25, 85]\n[population]\nmembers=64\nleast=8\n{rule}"
        ))
    };
    let all = population("");
    assert_eq!(column(&all, "members"), [64.0, 64.0]);
    let [mean, low, high] = ["", " low", " high"].map(|end| column(&all, &format!("mean cycles{end}")));
    assert!(low[0] < mean[0] && mean[0] < high[0], "{low:?} {mean:?} {high:?}");
    let wide = 2.0 * (high[0] - low[0]);
    let stopped = population(&format!("stop={{ column='mean cycles', width={wide} }}\n"));
    let members = column(&stopped, "members");
    assert!(members[0] < 64.0 && members[0] >= 8.0, "{members:?}");
    let width = column(&stopped, "mean cycles high")[0] - column(&stopped, "mean cycles low")[0];
    assert!(width <= wide, "{width} {wide}");
}

/// Each table has the same columns. For a single member, nothing is known about the mean of all.
#[test]
fn the_columns_of_a_population_are_the_same_for_one_member() {
    let of = |members: u32| {
        swept(&format!(
            "setup='mt29f2g08aad'\nmeasure='endurance'\ntests=['mean cycles']\n[space]\noptions.blocks=[2]\n[population]\nmembers={members}\n"
        ))
    };
    let (one, two) = (of(1), of(2));
    assert_eq!(one.columns(), two.columns());
    assert!(column(&one, "mean cycles low")[0].is_nan() && column(&one, "mean cycles high")[0].is_nan());
    assert!(column(&two, "mean cycles low")[0] < column(&two, "mean cycles high")[0]);
}

/// Example of docs/scale.md, with fewer chips. Chips at 70 C lose files if they are scrubbed once a year, and more than
/// with a scrub once a month. Chips at 20 C lose none.
#[test]
fn the_population_of_the_documentation_shows_what_heat_does() {
    // The page is read at run time, so that a change of it does not cause a build.
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md")).unwrap();
    let example = docs
        .split("```toml\n")
        .find_map(|block| Some(block.split_once("\n```")?.0).filter(|text| text.contains("[population]")));
    let at = |temperature: &str| {
        let spec = example
            .unwrap()
            .replace("members = 40", "members = 3")
            .replace("from = 20, to = 70", temperature);
        let results = swept(&spec.replace("[30, 91, 365]", "[30, 365]"));
        (column(&results, "survived"), column(&results, "moved LEBs"))
    };
    let ((cool, few), (hot, many)) = (at("from = 20, to = 20"), at("from = 70, to = 70"));
    assert_eq!(cool, [1.0, 1.0]);
    assert!(hot[1] < cool[1] && hot[1] <= hot[0], "{hot:?}");
    assert!(many[0] > few[0], "{few:?} {many:?}");
}

/// Example of the tour: at low temperature, chips endure half as many cycles.
#[test]
fn chips_wear_faster_in_the_cold() {
    let results = swept(
        "setup='mt29f2g08aad'\nmeasure='endurance'\n[space]\noptions.temperature_c=[5, 25]\n[population]\nmembers=24\n",
    );
    let cycles = column(&results, "mean cycles");
    assert!((1.6..2.5).contains(&(cycles[1] / cycles[0])), "{cycles:?}");
}

#[test]
fn all_tests_are_those_of_speed() {
    let with = |tests: &str| swept(&SPEC.replace("test = \"page read\"", tests));
    let (all, usual) = (with("tests = \"all\""), with(""));
    assert!(all.columns().len() > usual.columns().len());
    assert_eq!(column(&all, "64x erase KiB/s").len(), 15);
    for name in ["page read KiB/s", "eraseblock write KiB/s", "erase KiB/s"] {
        assert_eq!(column(&all, name), column(&usual, name), "{name}");
    }
}

#[test]
fn wrong_specifications_are_refused() {
    for (from, to) in [
        ("[space]", "[spaces]"),
        ("\"1-1-1\", \"1-1-8\", \"1-8-8\"", ""),
        ("step = 10e6", "step = 0"),
        ("to = 50e6", "to = 5e6"),
        ("to = 50e6, step = 10e6", "to = 50e6"),
        ("from = 10e6", "from = nan"),
        ("test = \"page read\"", "test = \"page\""),
        ("[objectives]", "[sample]\nseed = 1\n[objectives]"),
        ("> 1500", "= 1500"),
        ("[space]", "[options]\nblock = 3\n[space]"),
        ("[space]", "[space]\n'options.block' = [3]"),
        ("[space]", "[population]\nmembers = 0\n[space]"),
        ("test = \"page read\"", "test = \"page read\"\nscreen = ['speed > 3']"),
        ("test = \"page read\"", "test = \"page read\"\nmeasure = 'weight'"),
    ] {
        assert!(SPEC.contains(from) && begun(&SPEC.replacen(from, to, 1), None).is_err(), "{to}");
    }
    for (from, to) in [("minimise = [\"bus.clock_hz\"]", "minimise = [\"cost\"]"), ("bus.mode", "bus.mod")] {
        let (evaluator, mut results) = begun(&SPEC.replace(from, to), None).unwrap();
        assert!(run(&evaluator, &mut results, |_| ()).is_err(), "{to}");
    }
}

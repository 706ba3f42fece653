use super::*;

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

fn swept(spec: &str) -> Table {
    run(&Library::built_in(), &Spec::parse("s.toml", spec).unwrap(), &mut Checkpoint::in_memory(), |_| ())
        .unwrap()
}

fn column(table: &Table, name: &str) -> Vec<f64> {
    let at = table.columns.iter().position(|column| column == name).unwrap();
    table
        .rows
        .iter()
        .map(|row| row[at].as_f64().unwrap_or_else(|| f64::from(u8::from(row[at] == true))))
        .collect()
}

/// Compared with each pair of rows.
#[test]
fn the_front_has_the_rows_that_no_other_dominates() {
    let table = swept(SPEC);
    assert_eq!(table.rows.len(), 15);
    let (speed, clock) = (column(&table, "page read KiB/s"), column(&table, "bus.clock_hz"));
    let front = column(&table, "pareto");
    for i in 0..15 {
        let dominated = (0..15).any(|j| {
            speed[j] >= speed[i] && clock[j] <= clock[i] && (speed[j] > speed[i] || clock[j] < clock[i])
        });
        assert_eq!(front[i] == 1.0, !dominated && speed[i] > 1500.0, "row {i}");
    }
    assert!(front.iter().sum::<f64>() > 1.0);
}

#[test]
fn shares_of_the_variance_add_up_to_no_more_than_all_of_it() {
    let table = swept(SPEC);
    let of_speed: Vec<&table::Sensitivity> =
        table.sensitivity.iter().filter(|one| one.objective.starts_with("page")).collect();
    assert_eq!(of_speed.len(), 2);
    let sum: f64 = of_speed.iter().map(|one| one.share).sum();
    assert!(sum > 0.8 && sum <= 1.0 + 1e-9, "{of_speed:?}");
    let clock =
        table.sensitivity.iter().find(|one| one.objective == "bus.clock_hz" && one.key == "bus.clock_hz");
    assert!((clock.unwrap().share - 1.0).abs() < 1e-9);
}

#[test]
fn a_latin_hypercube_has_one_design_in_each_stratum() {
    let text = "setup='am62a-w35n01jw'\n[space]\n'bus.clock_hz' = { from = 0.0, to = 100.0 }\n'x' = { from = 0.0, to = 1.0 }\n[sample]\nlatin_hypercube = 100\nseed = 3\n";
    let space = Spec::parse("s.toml", text).unwrap().space().unwrap();
    let mut strata: Vec<usize> =
        (0..100).map(|i| space.values(i)[0].parse::<f64>().unwrap() as usize).collect();
    assert!(strata.windows(2).any(|pair| pair[0] > pair[1]), "shuffled");
    strata.sort_unstable();
    assert_eq!(strata, (0..100).collect::<Vec<_>>());
}

/// Cut at any byte, a sweep goes on to the same table.
#[test]
fn an_interrupted_sweep_goes_on() {
    let library = Library::built_in();
    let spec = Spec::parse("s.toml", SPEC).unwrap();
    let path = std::env::temp_dir().join(format!("floatgate-sweep-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let sweep = || {
        let mut checkpoint = Checkpoint::open(&path, SPEC).unwrap();
        let table = run(&library, &spec, &mut checkpoint, |_| ()).unwrap();
        (table.rows, std::fs::read(&path).unwrap())
    };
    let whole = sweep();
    for cut in (0..whole.1.len()).step_by(97) {
        std::fs::write(&path, &whole.1[..cut]).unwrap();
        assert!(sweep() == whole, "cut at {cut}");
    }
    let other = Checkpoint::open(&path, "another").unwrap_err();
    assert!(other.to_string().contains("another sweep"), "{other}");
    std::fs::write(&path, "a text of the user").unwrap();
    assert!(Checkpoint::open(&path, SPEC).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a text of the user");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn wrong_specifications_are_refused() {
    for (from, to) in [
        ("[space]", "[spaces]"),
        ("\"1-1-1\", \"1-1-8\", \"1-8-8\"", ""),
        ("step = 10e6", "step = 0"),
        ("to = 50e6", "to = 5e6"),
        ("to = 50e6, step = 10e6", "to = 50e6"),
        ("test = \"page read\"", "test = \"page\""),
        ("[objectives]", "[sample]\nseed = 1\n[objectives]"),
    ] {
        assert!(Spec::parse("s.toml", &SPEC.replace(from, to)).is_err(), "{to}");
    }
    for (from, to) in [
        ("> 1500", "= 1500"),
        ("minimise = [\"bus.clock_hz\"]", "minimise = [\"cost\"]"),
        ("bus.mode", "bus.mod"),
    ] {
        let spec = Spec::parse("s.toml", &SPEC.replace(from, to)).unwrap();
        assert!(run(&Library::built_in(), &spec, &mut Checkpoint::in_memory(), |_| ()).is_err(), "{to}");
    }
}

//! Tests that a study is defined once and appears in all lists.

mod toy;

use super::*;
use clap::Subcommand as _;
use floatgate_lab::csv;
use floatgate_lab::study::{Finished, STUDIES};
use serde_json::json;
use toy::Toy;

/// Studies of the tests.
const WITH_TOY: &[&dyn Registered] = &[&Toy];

fn context(library: &Library) -> Context<'_> {
    Context { library, progress: &|_| (), table: None, plot: None }
}

fn of_line(line: &str) -> Finished {
    let command = with_studies(crate::Command::augment_subcommands(Command::new("floatgate")), WITH_TOY);
    let toy = command.find_subcommand("card").and_then(|card| card.find_subcommand("toy")).unwrap();
    assert_eq!(toy.get_about().unwrap().to_string(), "Throw a die");
    let matches = command.try_get_matches_from(line.split(' ')).unwrap();
    let (study, arguments) = named(&matches, WITH_TOY).unwrap();
    study.run_arguments(arguments, &context(&Library::built_in())).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_study_is_a_command_with_every_output() {
    let finished = of_line("floatgate card toy --sides 20 --json");
    let text = "A die\nmade of wood\n\nthrown with 20 sides\nhand   pips\nleft      4\nright    18\ntwo throws\n\nsides\n   high       3  ████████████████████████████████████████\n  lower       1  ██████████████\n\n- see `floatgate list parts` <for more>\n\n4 and 18";
    assert_eq!(output::with_conclusion(&crate::drawn::text(&finished.report), &finished), text);
    assert_eq!(csv::table(&finished.rows), "hand,pips\nleft,4\nright,18\n");
    let throws = [json!({ "hand": "left", "pips": 4 }), json!({ "hand": "right", "pips": 18 })];
    let whole = json!({
        "floatgate": env!("CARGO_PKG_VERSION"), "kind": "card-toy", "target": "die", "overrides": [], "seed": 3,
        "conclusion": "4 and 18",
        "sides": 20, "throws": throws,
    });
    let result = serde_json::to_value(finished.origin.around(&finished)).unwrap();
    assert_eq!(result, whole);
    assert!(!finished.found_problem);

    let mut page = floatgate_lab::report::Report::new("", "");
    page.add_study("toy.json", &Toy, &result).unwrap();
    let page = page.html().unwrap();
    for part in [
        "<h2 id=\"s0-h\">A die</h2>",
        "made of wood",
        "thrown with 20 sides",
        r#"<p class="verdict" id="summary">4"#,
        "&lt;for more&gt;",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains(r#"<th scope="row">right</th><td class="n" data-v="18">18</td>"#), "{page}");
}

#[test]
fn options_are_the_same_as_json() {
    let library = Library::built_in();
    let run = |options| Registered::run(&Toy, options, &context(&library));
    let same = [run(json!({})).unwrap(), of_line("floatgate card toy")].map(|run| run.output);
    assert_eq!(same[0], same[1]);
    for (options, part) in [
        (json!({ "sides": 1 }), "2 sides"),
        (json!({ "side": 4 }), "unknown field `side`"),
        (json!(7), "options of card toy"),
    ] {
        let error = run(options).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(run(json!({ "sides": 2 })).is_ok_and(|run| !run.found_problem));
}

/// Each study refuses JSON of another structure, and names its kind.
#[test]
fn a_result_of_another_shape_is_refused() {
    for study in WITH_TOY.iter().chain(STUDIES) {
        for wrong in [json!({}), json!({ "throws": 7 }), json!([])] {
            let mut page = floatgate_lab::report::Report::new("", "");
            let error = page.add_study("x.json", *study, &wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("a result of the kind `{}`, but ", study.kind(""))), "{error}");
        }
    }
}

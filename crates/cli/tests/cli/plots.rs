//! `--plot` writes a whole picture or nothing.

use crate::support::{assert_refused, fresh, run_in};
use std::path::Path;

const PLOTS: [&[&str]; 6] = [
    &["speed", "am62a-w35n01jw", "--plot"],
    &["speed", "am62a-w35n01jw", "--sweep", "bus.mode=1-1-1,1-8-8", "--plot"],
    &["trace", "am62a-w35n01jw", "read-page", "--plot"],
    &["endurance", "mt29f8g08maawc", "--plot"],
    &["ecc", "advise", "mt29f8g08maawc", "--plot"],
    &["papers", "octal", "--plot"],
];

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn plot(folder: &Path, args: &[&str], file: &str) -> crate::support::Run {
    run_in(folder, args.iter().copied().chain([file]))
}

#[test]
fn a_picture_is_whole_and_alone() {
    for args in PLOTS {
        let folder = fresh("plot-whole");
        assert_eq!(plot(&folder, args, "x.svg").code, Some(0));
        assert_eq!(entries(&folder), ["x.svg"]);
        let first = std::fs::read_to_string(folder.join("x.svg")).unwrap();
        assert!(first.starts_with("<svg") && first.trim_end().ends_with("</svg>"), "{args:?}");
        assert!(first.matches('<').count() == first.matches('>').count(), "{args:?}: a tag is open");
        assert_eq!(plot(&folder, args, "x.svg").code, Some(0), "a file that is there is replaced");
        assert_eq!(std::fs::read_to_string(folder.join("x.svg")).unwrap(), first);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_refused_and_nothing_is_left() {
    for args in PLOTS {
        let folder = fresh("plot-refused");
        std::fs::create_dir(folder.join("taken.svg")).unwrap();
        std::fs::write(folder.join("file"), "x").unwrap();
        for target in ["no/such/folder/x.svg", "file/x.svg", "taken.svg", "."] {
            assert_refused(&format!("{args:?} {target}"), &plot(&folder, args, target));
            assert_eq!(entries(&folder), ["file", "taken.svg"], "{target} left something behind");
            assert_eq!(entries(&folder.join("taken.svg")), [""; 0]);
        }
    }
}

#[test]
fn what_fails_before_leaves_an_old_picture_alone() {
    let folder = fresh("plot-old");
    std::fs::write(folder.join("x.svg"), "old").unwrap();
    let args = ["speed", "am62a-w35n01jw", "-b", "100000", "--plot"];
    assert_refused("blocks that do not exist", &plot(&folder, &args, "x.svg"));
    assert_eq!(std::fs::read_to_string(folder.join("x.svg")).unwrap(), "old");
    assert_eq!(entries(&folder), ["x.svg"]);
}

#[test]
fn a_prefix_begins_the_names_of_the_three_figures_of_the_paper() {
    let folder = fresh("plot-prefix");
    assert_eq!(plot(&folder, &["endurance", "--all", "--plot"], "chips").code, Some(0));
    assert_eq!(entries(&folder), ["chips-endurance.svg", "chips-latency.svg", "chips-wear.svg"]);
    assert_eq!(plot(&folder, &["endurance", "--all", "--plot"], "all.svg").code, Some(0));
    let all = std::fs::read_to_string(folder.join("all.svg")).unwrap();
    for title in ["Endurance by device", "Wear-related latency", "Read, write and erase latency by device"] {
        assert!(all.contains(title), "{title}");
    }
}

#[test]
fn a_picture_that_is_no_svg_is_refused_with_the_way_to_make_it() {
    for args in PLOTS {
        let folder = fresh("plot-png");
        for name in ["x.png", "x.pdf", "x.SVGZ"] {
            let run = plot(&folder, args, name);
            assert_refused(&format!("{args:?} {name}"), &run);
            assert!(run.err.contains("rsvg-convert x.svg -o"), "{}", run.err);
        }
        assert_eq!(entries(&folder), [""; 0]);
    }
}

/// The report is on stdout: a picture there would be mixed with it.
#[test]
fn a_picture_on_stdout_is_refused() {
    for args in PLOTS {
        for format in ["--json", "--csv"] {
            let folder = fresh("plot-stdout");
            let run = run_in(&folder, args.iter().copied().chain(["-", format]));
            assert_refused(&format!("{args:?} - {format}"), &run);
            assert!(run.err.contains("stdout") && run.out.is_empty(), "{}", run.err);
        }
    }
}

/// The picture of a sweep is about all its rows, refused ones too.
#[test]
fn a_picture_of_a_sweep_has_every_row() {
    let folder = fresh("plot-sweep");
    let sweep =
        ["--sweep", "chip=w35n01jw,w25n01jw", "--set", "bus.mode=8D-8D-8D", "--keep-going", "-c1", "--plot"];
    let args: Vec<&str> = ["speed", "am62a-w35n01jw"].into_iter().chain(sweep).collect();
    assert_eq!(plot(&folder, &args, "x.svg").code, Some(1));
    let svg = std::fs::read_to_string(folder.join("x.svg")).unwrap();
    assert!(svg.contains("\nchip=w25n01jw\n") && svg.contains("refused: "), "{svg}");
    let chips = ["speed", "imx6-mx30lf2g18ac", "--sweep", "chip=mx30lf2g18ac,k9f1g08u0d", "-c1", "--plot"];
    assert_eq!(plot(&folder, &chips, "chips.svg").code, Some(0));
    let svg = std::fs::read_to_string(folder.join("chips.svg")).unwrap();
    assert!(svg.contains("\nsweeping chip=mx30lf2g18ac,k9f1g08u0d\n"), "{svg}");
}

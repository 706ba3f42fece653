//! t
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use floatgate_lab::powercut::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a[1] == "replay" {
        println!("{:?}", replay(&a[2].parse().unwrap()));
        return;
    }
    let steps: usize = a[1].parse().unwrap();
    let seed: u64 = a[2].parse().unwrap();
    let mode = match &a[3][..1] {
        "x" => Mode::Exhaustive,
        "g" => Mode::Log,
        "u" => Mode::Unmount,
        "r" => Mode::Random(a[3][1..].parse().unwrap()),
        _ => Mode::Linear(a[3].parse().unwrap()),
    };
    let second = match a[4].as_str() {
        "n" => SecondCut::Never,
        "s" => SecondCut::Sampled,
        _ => SecondCut::Exhaustive,
    };
    let geometry = match a[5].as_str() {
        "512" => floatgate_mtd::Geometry::nand_512(1024),
        "512s" => floatgate_mtd::Geometry::nand_512(80),
        "nor" => floatgate_mtd::Geometry::nor(128, 65536),
        "4k" => floatgate_mtd::Geometry::nand_4096(64),
        _ => floatgate_mtd::Geometry::nand_2048(128),
    };
    let t = std::time::Instant::now();
    let o = Options {
        geometry,
        seed,
        steps,
        mode,
        second,
        faults: a.get(6).is_some(),
        kinds: CutKind::ALL.to_vec(),
    };
    let r = match explore(&o, &|_| {}) {
        Ok(r) => r,
        Err(e) => {
            println!("ERROR {e}");
            return;
        }
    };
    println!(
        "ops {} runs {} cuts {} bad {} failures {} in {:?} = {:.0}/s",
        r.operations,
        r.runs,
        r.cuts,
        r.bad_pebs_max,
        r.failure_count,
        t.elapsed(),
        r.cuts as f64 / t.elapsed().as_secs_f64()
    );
    for (s, c) in &r.steps {
        println!("{s:18} {c:?}");
    }
    for f in r.failures.iter().take(8) {
        println!("{} {}\n     {}", f.id, f.step, f.what.chars().take(500).collect::<String>());
    }
}

//! t
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use floatgate_lab::powercut::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let steps: usize = a[1].parse().unwrap();
    let seed: u64 = a[2].parse().unwrap();
    let mode = match a[3].as_str() { "x" => Mode::Exhaustive, "log" => Mode::Log, n => Mode::Linear(n.parse().unwrap()) };
    let second = match a[4].as_str() { "n" => SecondCut::Never, "s" => SecondCut::Sampled, _ => SecondCut::Exhaustive };
    let geometry = match a[5].as_str() { "512" => floatgate_mtd::Geometry::nand_512(1024), "nor" => floatgate_mtd::Geometry::nor(128, 65536), "4k" => floatgate_mtd::Geometry::nand_4096(64), _ => floatgate_mtd::Geometry::nand_2048(128) };
    let t = std::time::Instant::now();
    let o = Options { geometry, seed, steps, mode, second };
    if let Some(id) = a.get(6) { println!("{:?}", replay(&o, id.parse().unwrap())); return; }
    let r = explore(&o, &|_| {}).unwrap();
    println!("ops {} cuts {} failures {} in {:?} = {:.0}/s", r.operations, r.cuts, r.failure_count, t.elapsed(), r.cuts as f64 / t.elapsed().as_secs_f64());
    for f in r.failures.iter().take(12) { println!("{} {}\n     {}", f.id, f.step, f.what.chars().take(300).collect::<String>()); }
}

#![allow(clippy::all, clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use floatgate_lab::config::*;
use floatgate_lab::*;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let lib = Library::built_in();
    let setup = match lib.setup(&args[0]) {
        Ok(s) => s,
        Err(e) => {
            println!("{}", e.one_line());
            return;
        }
    };
    let mut o = speed::SpeedOptions::default();
    let mut sets = vec![];
    for a in &args[1..] {
        if let Some(c) = a.strip_prefix("-c") {
            o.blocks = c.parse().unwrap()
        } else if let Some(t) = a.strip_prefix("-k") {
            o.secondary_block = Some(t.parse().unwrap())
        } else if let Some(t) = a.strip_prefix("-p") {
            o.pages = t.split(',').map(|x| x.parse().unwrap()).collect()
        } else {
            sets.push(a.clone())
        }
    }
    let sets = Override::parse_all(&sets).unwrap();
    match run::measure_with_advice(&lib, &setup, &sets, rig::RigOptions::default(), &o) {
        Ok(r) => {
            println!("{} | {} | {:?}", r.chip, r.link.read, r.link.notes);
            for (t, a) in r.report.tests.iter().zip(&r.advice) {
                print!(
                    "{:18} {:8} {:10.1} us {:9.2} ",
                    t.name,
                    t.printed_kib_s,
                    t.exact_kib_s,
                    t.us_per_call()
                );
                for (p, n) in t.breakdown_ns.iter() {
                    if n.as_ns() > 0 {
                        print!(" {}={:.1}", p, n.as_us_f64() / t.calls as f64);
                    }
                }
                println!("  next {:?}", a.next.as_ref().map(|n| (n.set.clone(), n.kib_s)));
            }
            if let Some(l) = &r.report.latency {
                println!("{l:?}");
            }
        }
        Err(e) => println!("{:?}", e.into_report()),
    }
}

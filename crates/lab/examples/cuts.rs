//! t
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use floatgate_lab::powercut::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a[1] == "log" {
        let id: RunId = a[2].parse().unwrap();
        let g = id.geometry.clone();
        let f = id.faults;
        println!(
            "{:?}",
            replay_on(&id, &|seed| {
                let _ = (f, seed);
                Ok(Box::new(L(floatgate_mtd::RamFlash::new(g.clone()))))
            })
        );
        return;
    }
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

#[derive(Debug, Clone)]
struct L(floatgate_mtd::RamFlash);
use floatgate_mtd::*;
fn show(g: &Geometry, what: &str, addr: u64, d: &[u8]) {
    let (p, o) = (addr / g.erase_bytes as u64, addr % g.erase_bytes as u64);
    let be = |a: usize| d.get(a..a + 4).map_or(0, |b| u32::from_be_bytes(b.try_into().unwrap()));
    let le = |a: usize| d.get(a..a + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()));
    let t = if d.starts_with(b"UBI#") {
        format!("EC {}", be(12))
    } else if d.starts_with(b"UBI!") {
        format!("VID vol {:x} leb {} sq {} copy {}", be(8), be(12), be(44), d[6])
    } else if le(0) == 0x06101831 {
        format!("node {} sq {} len {}", d[20], le(8), le(16))
    } else {
        format!("{:02x?}", &d[..d.len().min(8)])
    };
    println!("{what} peb {p} +{o:#x} len {} {t}", d.len());
}
impl Mtd for L {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        let r = self.0.read(now, addr, buf);
        let g = self.0.geometry();
        match &r {
            Ok(d) if d.bitflips > 0 => println!(
                "read peb {} +{:#x} len {} flips {}",
                addr / g.erase_bytes as u64,
                addr % g.erase_bytes as u64,
                buf.len(),
                d.bitflips_max
            ),
            Ok(_) => {}
            Err(e) => println!(
                "read peb {} +{:#x} len {} {:?}",
                addr / g.erase_bytes as u64,
                addr % g.erase_bytes as u64,
                buf.len(),
                e.kind
            ),
        }
        r
    }
    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        show(self.0.geometry(), "write", addr, data);
        self.0.write(now, addr, data)
    }
    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        println!("erase peb {}", addr / self.0.geometry().erase_bytes as u64);
        self.0.erase(now, addr, len)
    }
    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.0.read_oob(now, addr, data, oob, mode)
    }
    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.0.write_oob(now, addr, data, oob, mode)
    }
    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        self.0.is_bad(now, addr)
    }
    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        self.0.mark_bad(now, addr)
    }
    fn breakdown(&self) -> Breakdown {
        self.0.breakdown()
    }
}
impl Tear for L {
    fn tear_program(&mut self, addr: u64, data: &[u8], stage: Stage, seed: u64) {
        println!("CUT {stage:?}");
        show(self.0.geometry(), "TORN", addr, data);
        self.0.tear_program(addr, data, stage, seed)
    }
    fn tear_erase(&mut self, addr: u64, stage: Stage, seed: u64) {
        println!("CUT {stage:?} erase peb {}", addr / self.0.geometry().erase_bytes as u64);
        self.0.tear_erase(addr, stage, seed)
    }
}
impl Flash for L {
    fn duplicate(&self) -> Box<dyn Flash> {
        Box::new(self.clone())
    }
}

//! Random cycles in any order: accepted or rejected, they cause no panic, and RESET always works.

use super::Bench;
use crate::raw_nand::testing::{mx30lf2g18ac, nand128w3a2bn, nv_ddr};
use floatgate_mtd::Nanos;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Cycle {
    Cmd(u8),
    Addr(Vec<u8>),
    At(u32, u32),
    Row(u32),
    Get(usize),
    Put(usize),
    Wait,
    Later(u64),
}

fn cycle() -> impl Strategy<Value = Cycle> {
    let known = [
        0x00, 0x01, 0x05, 0x06, 0x10, 0x11, 0x15, 0x30, 0x31, 0x32, 0x35, 0x3F, 0x50, 0x60, 0x70, 0x78, 0x80,
        0x81, 0x85, 0x90, 0xD0, 0xD1, 0xD4, 0xD5, 0xE0, 0xEC, 0xED, 0xEE, 0xEF, 0xFF,
    ];
    prop_oneof![
        8 => prop::sample::select(known.to_vec()).prop_map(Cycle::Cmd),
        1 => any::<u8>().prop_map(Cycle::Cmd),
        1 => vec(any::<u8>(), 0..7).prop_map(Cycle::Addr),
        4 => (0..3000u32, 0..300u32).prop_map(|(column, row)| Cycle::At(column, row)),
        2 => (0..300u32).prop_map(Cycle::Row),
        2 => (0..20_000usize).prop_map(Cycle::Get),
        2 => (0..3000usize).prop_map(Cycle::Put),
        3 => Just(Cycle::Wait),
        1 => (0..400_000u64).prop_map(Cycle::Later),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_reset_helps(cycles in vec(cycle(), 0..80), chip in 0..3usize) {
        let spec = [mx30lf2g18ac(), nand128w3a2bn(), nv_ddr()][chip].clone();
        let mut bench = Bench::new(&spec);
        for cycle in cycles {
            // The result of the cycle is not tested here.
            let _ = match cycle {
                Cycle::Cmd(opcode) => bench.cmd(opcode),
                Cycle::Addr(bytes) => bench.addr(&bytes),
                Cycle::At(column, row) => bench.at(column, row),
                Cycle::Row(row) => bench.row(row),
                Cycle::Get(len) => bench.get(len).map(drop),
                Cycle::Put(len) => bench.put(&vec![0x0F; len]),
                Cycle::Wait => { bench.wait(); Ok(()) }
                Cycle::Later(ns) => { bench.now += Nanos::from_ns(ns); Ok(()) }
            };
        }
        bench.cmd(0xFF).unwrap();
        bench.wait();
        bench.interface = bench.chip.interface();
        prop_assert_eq!(bench.read(0, 5, 1).unwrap().len(), 1);
        prop_assert_eq!(bench.status() & 0x60, 0x60);
    }
}

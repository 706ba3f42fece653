use super::*;
use crate::spi::{SpiController, SpiProfile};
use crate::spi_nor::chip::SpiNor;
use crate::spi_nor::spec::SpiNorSpec;
use crate::spi_nor::test_parts::{self, MX25UW12845G, MX25UW51245G, N25Q128A, W25Q128JV};
use crate::timeline::Span;
use floatgate_mtd::{ErrorKind, Nanos, Phase};

mod features;
mod model;
mod modes;
mod threads;

type Rig = SpiNorDriver<SpiController<SpiNor>>;

/// A controller that supports everything, without costs besides the bus time.
const CONTROLLER: &str =
    "reference_hz = '200 MHz'\nmax_hz = '200 MHz'\nlanes = 8\ndtr = true\nswap16 = true\n";

fn bus(chip: SpiNor, controller: &str, board: &str) -> SpiController<SpiNor> {
    let profile: SpiProfile = toml::from_str(controller).unwrap();
    SpiController::new(profile, toml::from_str(board).unwrap(), chip)
}

struct Setup {
    spec: SpiNorSpec,
    controller: String,
    board: String,
    options: Options,
    known: bool,
    stores: bool,
}

impl Setup {
    fn new(part: &str) -> Self {
        Self {
            spec: test_parts::spec(part),
            controller: CONTROLLER.to_owned(),
            board: "clock_hz = '20 MHz'\n".to_owned(),
            options: Options::default(),
            known: true,
            stores: true,
        }
    }

    /// Adds a line to the `[bus]` table.
    fn board(mut self, line: &str) -> Self {
        self.board = format!("{}{line}\n", self.board);
        self
    }

    fn clock(mut self, clock: &str) -> Self {
        self.board = self.board.replace("20 MHz", clock);
        self
    }

    fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    fn spec(mut self, change: impl FnOnce(&mut SpiNorSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Removes the catalogue of the driver.
    fn unknown(mut self) -> Self {
        self.known = false;
        self
    }

    fn probe(self) -> Result<Rig, ProbeError> {
        let database: Vec<SpiNorSpec> = match self.known {
            true => test_parts::ALL
                .into_iter()
                .map(test_parts::spec)
                .filter(|s| s.id != self.spec.id)
                .chain([self.spec.clone()])
                .collect(),
            false => Vec::new(),
        };
        let chip = SpiNor::new(self.spec, 7, self.stores).unwrap();
        let bus = bus(chip, &self.controller, &self.board);
        SpiNorDriver::probe(bus, &database, HostProfile::default(), self.options)
    }

    fn ready(self) -> Rig {
        self.probe().unwrap()
    }
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn every_part_is_found_written_and_read() {
    for part in test_parts::ALL {
        let mut rig = Setup::new(part).ready();
        let data = bytes(1000, 3);
        let at = rig.ready_at();
        let at = rig.write(at, 200, &data).unwrap().at;
        let mut got = vec![0; 1000];
        let at = rig.read(at, 200, &mut got).unwrap().at;
        assert_eq!(got, data);
        let at = rig.erase(at, 0, 4096).unwrap().at;
        rig.read(at, 0, &mut got).unwrap();
        assert!(got.iter().all(|&b| b == 0xFF));
    }
}

//! A bus that answers with invalid data: the driver rejects it or uses it, but never panics.

use crate::oracle::PageTruth;
use crate::raw_nand::bus::{Instr, NandBus, NandError};
use crate::raw_nand::testing::rig;
use crate::raw_nand::timing::DataInterface;
use crate::timeline::Host;
use floatgate_media::{crc, onfi};
use floatgate_mtd::{ErrorKind, Mtd};
use proptest::collection::vec;
use proptest::prelude::*;

/// A bus that answers id reads with `id` or a signature, and parameter reads with `page`.
struct Liar {
    id: Vec<u8>,
    page: Vec<u8>,
}

impl NandBus for Liar {
    fn targets(&self) -> u8 {
        2
    }
    fn select(&mut self, _target: u8) {}
    fn supports(&self, _interface: DataInterface) -> bool {
        true
    }
    fn cached_reads(&self) -> bool {
        true
    }
    fn sub_page_writes(&self) -> bool {
        true
    }
    fn interface(&self) -> DataInterface {
        DataInterface::POWER_ON
    }
    fn set_interface(&mut self, _host: &mut Host, _interface: DataInterface) -> Result<(), NandError> {
        Ok(())
    }
    fn exec(&mut self, _host: &mut Host, instrs: &mut [Instr<'_>]) -> Result<(), NandError> {
        let answer = match instrs {
            [Instr::Cmd(0x90), Instr::Addr(address), ..] if address.bytes() == [0x20] => b"ONFI",
            [Instr::Cmd(0x90), ..] => self.id.as_slice(),
            [Instr::Cmd(0xEC), ..] => self.page.as_slice(),
            _ => &[0xE0],
        };
        if let Some(Instr::RegIn(out)) = instrs.last_mut() {
            out.iter_mut().zip(answer.iter().cycle()).for_each(|(place, byte)| *place = *byte);
        }
        Ok(())
    }
}

impl PageTruth for Liar {
    fn keeps_data(&self) -> bool {
        true
    }
}

/// A parameter page with a correct checksum over any contents.
fn sealed(mut page: Vec<u8>) -> Vec<u8> {
    page[..4].copy_from_slice(b"ONFI");
    let sum = crc::onfi(&page[..254]);
    page[254..].copy_from_slice(&sum.to_le_bytes());
    page
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parameter_pages_are_untrusted(
        id in vec(1..=254u8, 8),
        noise in vec(any::<u8>(), onfi::PAGE_BYTES),
        plausible in any::<bool>(),
    ) {
        let mut page = noise;
        if plausible {
            // The sizes are plausible; the other bytes stay random.
            page[80..84].copy_from_slice(&2048u32.to_le_bytes());
            page[84..86].copy_from_slice(&64u16.to_le_bytes());
            page[92..96].copy_from_slice(&64u32.to_le_bytes());
            page[96..100].copy_from_slice(&32u32.to_le_bytes());
            page[100] = 1;
        }
        match crate::raw_nand::testing::probe(Liar { id, page: sealed(page) }, rig(), &[]) {
            Ok(mut device) => {
                let size = device.geometry().size_bytes;
                prop_assert!(size > 0);
                let now = device.ready_at();
                let _ = device.read(now, size - 1, &mut [0]);
                let _ = device.erase(now, 0, u64::from(device.geometry().erase_bytes));
            }
            Err(error) => prop_assert!(matches!(error.kind, ErrorKind::Unsupported(_)), "{error}"),
        }
    }
}

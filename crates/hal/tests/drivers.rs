//! Tests of external driver crates on simulated chips.

use embedded_hal::digital::{ErrorType, OutputPin};
use embedded_storage::nor_flash::{NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};
use floatgate_hal::{Flash, SpiFlash};
use sequential_storage::cache::{Cache, Uncached};
use sequential_storage::map::{MapConfig, MapStorage};
use std::convert::Infallible;
use w25q32jv::W25q32jv;

/// A pin that is not connected.
#[derive(Debug)]
struct NoPin;

impl ErrorType for NoPin {
    type Error = Infallible;
}

impl OutputPin for NoPin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[test]
fn w25q32jv_drives_a_chip_and_breaks_no_rule() {
    let mut chip = SpiFlash::new("w25q64jv").unwrap();
    chip.set_clock(25_000_000);
    let mut driver = W25q32jv::new(chip.clone(), NoPin, NoPin).unwrap();
    assert_ne!(driver.device_id().unwrap(), [0xFF; 8]);
    let data: Vec<u8> = (0..1000).map(|at| (at % 251) as u8).collect();
    NorFlash::erase(&mut driver, 0x1000, 0x3000).unwrap();
    NorFlash::write(&mut driver, 0x10F0, &data).unwrap();
    let mut back = vec![0; data.len()];
    ReadNorFlash::read(&mut driver, 0x10F0, &mut back).unwrap();
    assert_eq!(back, data);
    driver.erase_sector(1).unwrap();
    ReadNorFlash::read(&mut driver, 0x10F0, &mut back[..2]).unwrap();
    assert_eq!(back[..2], [0xFF; 2]);
    assert_eq!(chip.violations(), []);
    assert!(chip.now_ns() > 90_000_000, "two erases take their time");
}

type Store = MapStorage<u8, Flash<4096>, Cache<Uncached, Uncached, Uncached, u8>>;

fn store(flash: Flash<4096>) -> Store {
    MapStorage::new(flash, const { MapConfig::new(0..0x3000) }, Cache::new_uncached())
}

/// Writes values from `from` to `to` under one key until power is lost; returns the last value that was stored.
fn write_values(store: &mut Store, from: u32, to: u32) -> u32 {
    let mut buffer = [0; 256];
    for value in from..to {
        if pollster::block_on(store.store_item(&mut buffer, &1, &value)).is_err() {
            return value - 1;
        }
    }
    to - 1
}

#[test]
fn sequential_storage_keeps_what_it_stored_when_power_fails_in_any_operation() {
    let mut before = store(Flash::new("w25q64jv").unwrap());
    assert_eq!(write_values(&mut before, 1, 900), 899);
    let (flash, _) = before.destroy();
    for operation in 1..60 {
        let mut cut = flash.clone();
        cut.cut_power(operation, 0.5);
        let mut before = store(cut);
        let last = write_values(&mut before, 900, 1000);
        let (mut flash, _) = before.destroy();
        assert!(flash.is_dead(), "{operation}");
        flash.restore_power().unwrap();
        let mut after = store(flash);
        let mut buffer = [0; 256];
        let found: Option<u32> = pollster::block_on(after.fetch_item(&mut buffer, &1)).unwrap();
        assert!(found == Some(last) || found == Some(last + 1), "{operation}: {found:?} after {last}");
    }
}

#[test]
fn a_flash_refuses_what_a_chip_refuses() {
    let mut flash = Flash::<4096>::new("w25q64jv").unwrap();
    let kind = |error: floatgate_hal::FlashError| error.kind();
    let end = ReadNorFlash::capacity(&flash) as u32;
    assert_eq!(end, 8 << 20);
    NorFlash::write(&mut flash, 0, &[0xF0]).unwrap();
    NorFlash::write(&mut flash, 0, &[0x00]).unwrap();
    assert_eq!(NorFlash::write(&mut flash, 0, &[0x0F]).map_err(kind), Err(NorFlashErrorKind::Other));
    assert_eq!(NorFlash::erase(&mut flash, 1, 4097).map_err(kind), Err(NorFlashErrorKind::NotAligned));
    assert_eq!(NorFlash::erase(&mut flash, 4096, 0).map_err(kind), Err(NorFlashErrorKind::OutOfBounds));
    assert_eq!(NorFlash::write(&mut flash, end, &[0]).map_err(kind), Err(NorFlashErrorKind::OutOfBounds));
    assert!(Flash::<65536>::new("w25q64jv").unwrap_err().to_string().contains("4096 bytes"));
    assert!(Flash::<4096>::new("w25n01gv").is_err() && SpiFlash::new("s29gl128p").is_err());
    assert!(SpiFlash::new("nothing").unwrap_err().to_string().contains("nothing"));
}

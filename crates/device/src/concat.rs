//! Several chips behind their drivers as one device (Linux: `mtdconcat`). They share the CPU and the power supply.
//!
//! Only one driver works at a time. [`Host`] and [`Power`] move to the driver that works, so that there is one clock, one account of time,
//! one record, and one count of operations for power cuts.

use crate::array::Array;
use crate::capability::Otp;
use crate::cells::Cells;
use crate::oracle::{Faults, Oracle};
use crate::power::{Power, PowerCut};
use crate::timeline::Host;
use crate::wire::{Device, Link};
use floatgate_mtd::{Concat, ConcatError, Instant, Mtd};

/// Joins devices, whose drivers have already probed their chips one after the other. The clock continues at the sum of their times.
///
/// # Errors
/// As [`Concat::new`].
pub fn concat(mut devices: Vec<Box<dyn Device>>) -> Result<Box<dyn Device>, ConcatError> {
    let probed = devices
        .iter_mut()
        .map(|device| device.host().now().since(Instant::ZERO))
        .fold(Instant::ZERO, |at, time| at + time);
    if let Some(first) = devices.first_mut() {
        first.host().resume(probed);
    }
    Ok(Box::new(Concat::with_hand_over(devices, hand_over)?))
}

/// Moves the CPU and the state of the supply.
fn hand_over(from: &mut Box<dyn Device>, to: &mut Box<dyn Device>) {
    std::mem::swap(from.host(), to.host());
    std::mem::swap(from.power_mut(), to.power_mut());
}

/// Removes the power of a chip, whose state is then that after a power loss.
fn cut(device: &mut dyn Device, now: Instant) {
    // The time of this access does not count.
    let host = std::mem::take(device.host());
    device.power_mut().restore();
    device.power_mut().order(Some(PowerCut::At(now)));
    let mut page = vec![0; device.geometry().write_bytes as usize];
    // The access fails with a power loss, which is the purpose.
    let _ = device.read(now, 0, &mut page);
    *device.host() = host;
}

impl Device for Concat<Box<dyn Device>> {
    fn host(&mut self) -> &mut Host {
        self.current_mut().host()
    }

    fn link(&self) -> Link {
        let Some((first, others)) = self.devices().split_first() else { return Link::default() };
        let mut link = first.link();
        for (number, other) in others.iter().map(|other| other.link()).enumerate() {
            if (&other.read, &other.write) != (&link.read, &link.write) {
                link.notes.push(format!("chip {}: {}; {}", number + 2, other.read, other.write));
            }
            let new: Vec<String> =
                other.not_given.into_iter().filter(|why| !link.not_given.contains(why)).collect();
            link.not_given.extend(new);
        }
        link.notes.push(format!("{} chips as one MTD", self.devices().len()));
        link
    }

    fn power(&self) -> &Power {
        self.current().power()
    }

    fn power_mut(&mut self) -> &mut Power {
        self.current_mut().power_mut()
    }

    fn oracle(&mut self) -> &mut dyn Oracle {
        self
    }

    fn oracle_ref(&self) -> &dyn Oracle {
        self
    }

    /// Linux's `mtdconcat` has no access to OTP areas.
    fn otp(&mut self) -> Option<&mut dyn Otp> {
        None
    }

    fn restart(&mut self) -> Result<(), String> {
        let now = self.host().now();
        for index in 0..self.devices().len() {
            let Some(device) = self.select(index) else { break };
            cut(device.as_mut(), now);
            device.restart()?;
        }
        Ok(())
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

/// Number of parts of a chip or package.
fn parts(oracle: &dyn Oracle) -> usize {
    (0..).take_while(|part| oracle.array(*part).is_some()).count()
}

/// Number of pages of a chip or package.
fn pages(oracle: &dyn Oracle) -> usize {
    (0..).map_while(|part| oracle.array(part)).map(Array::rows).sum()
}

/// Index of the chip with a part, and the number of the part on the chip.
fn chip_of(chips: &[Box<dyn Device>], part: usize) -> Option<(usize, usize)> {
    let mut rest = part;
    for (index, chip) in chips.iter().enumerate() {
        let own = parts(chip.oracle_ref());
        if rest < own {
            return Some((index, rest));
        }
        rest -= own;
    }
    None
}

impl Oracle for Concat<Box<dyn Device>> {
    fn array(&self, part: usize) -> Option<&Array> {
        let (index, part) = chip_of(self.devices(), part)?;
        self.devices()[index].oracle_ref().array(part)
    }

    fn array_mut(&mut self, part: usize) -> Option<&mut Array> {
        let (index, part) = chip_of(self.devices(), part)?;
        self.devices_mut()[index].oracle().array_mut(part)
    }

    fn cells(&self, part: usize) -> Option<&Cells> {
        let (index, part) = chip_of(self.devices(), part)?;
        self.devices()[index].oracle_ref().cells(part)
    }

    fn cells_mut(&mut self, part: usize) -> Option<&mut Cells> {
        let (index, part) = chip_of(self.devices(), part)?;
        self.devices_mut()[index].oracle().cells_mut(part)
    }

    fn factory_bad(&self) -> Vec<u32> {
        let mut first = 0;
        let mut all = Vec::new();
        for device in self.devices() {
            all.extend(device.oracle_ref().factory_bad().into_iter().map(|block| first + block));
            first += device.geometry().blocks();
        }
        all
    }

    fn set_faults(&mut self, addr: u64, faults: Faults) {
        let mut start = 0;
        for device in self.devices_mut() {
            let end = start + device.geometry().size_bytes;
            if (start..end).contains(&addr) {
                device.oracle().set_faults(addr - start, faults);
            }
            start = end;
        }
    }

    fn inject(&mut self, page: u32, bit: u32) {
        let mut rest = page as usize;
        for device in self.devices_mut() {
            let own = pages(device.oracle_ref());
            if rest < own {
                return device.oracle().inject(rest as u32, bit);
            }
            rest -= own;
        }
    }
}

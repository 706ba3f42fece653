//! An SD card in SPI mode at its pins.

use crate::wires::{Port, Wires, spi_device};
use crate::{Bus, ChipSelect, Delay, LIBRARY, OpenError, Recorded};
use floatgate_card::CardOptions;
use floatgate_card::spi::SpiCard;
use floatgate_mtd::{BlockError, Nanos};
use floatgate_sim::card::load;
use std::sync::MutexGuard;

/// Time between power-on and the first clock cycle.
const POWER_UP: Nanos = Nanos::from_ms(1);

/// An SD card in SPI mode at its pins, in the state after power-on. A clone is another handle of the same card; [`SdCard::fork`] creates an
/// independent card.
///
/// A card needs clock cycles with CS# high once after power-on, which a driver of a `SpiDevice` cannot send: [`SdCard::clock_idle`] does
/// so. The initial clock is 400 kHz.
///
/// ```
/// use embedded_hal::spi::SpiDevice;
/// use floatgate_hal::SdCard;
///
/// let mut card = SdCard::new("kingston-microsd-8g")?;
/// card.clock_idle(80);
/// let mut go_idle = [0x40, 0, 0, 0, 0, 0x95, 0xFF, 0xFF];
/// card.transfer_in_place(&mut go_idle)?;
/// assert_eq!(go_idle[7], 0x01);
/// assert_eq!(card.violations(), []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SdCard {
    port: Port<CardWires>,
}

/// The wires to an SD card in SPI mode.
#[derive(Clone, Debug)]
pub struct CardWires(SpiCard);

impl SdCard {
    /// Creates a card by its name.
    ///
    /// # Errors
    /// The card is unknown, or it is an eMMC.
    pub fn new(name: &str) -> Result<Self, OpenError> {
        let spec = load(&LIBRARY, name, &[]).map_err(OpenError::new)?.spec;
        let mut card = SpiCard::new(&spec, CardOptions::default()).map_err(OpenError::new)?;
        card.advance(POWER_UP);
        Ok(Self { port: Port::new(CardWires(card)) })
    }

    fn wires(&self) -> MutexGuard<'_, CardWires> {
        self.port.lock()
    }

    /// Clocks the card with CS# and the data line high. After power-on, 74 or more cycles are required.
    pub fn clock_idle(&mut self, cycles: u32) {
        let wires = &mut self.wires().0;
        wires.deselect();
        (0..cycles.div_ceil(8)).for_each(|_| wires.write(&[0xFF]));
    }

    /// Sets the SPI clock, Hz.
    pub fn set_clock(&mut self, hz: u32) {
        self.wires().0.set_clock(hz);
    }

    /// Virtual time in ns since power-on.
    pub fn now_ns(&self) -> u64 {
        self.wires().0.now().as_ns()
    }

    /// The first recorded violations of the specification's rules, each with the command that caused it.
    pub fn violations(&self) -> Vec<Recorded> {
        self.wires().0.violations().recorded().to_vec()
    }

    /// Cuts power in a program or erase inside the card; `operation` is counted from 1 from now on. Without power the card reads as FFh.
    pub fn cut_power(&mut self, operation: u64) {
        self.wires().0.cut_power(operation);
    }

    /// True when power is lost.
    pub fn is_dead(&self) -> bool {
        self.wires().0.is_dead()
    }

    /// Cycles the power, or restores it after a cut. The card is then in its power-on state.
    ///
    /// # Errors
    /// The card is worn out.
    pub fn restore_power(&mut self) -> Result<(), ContentsError> {
        let card = &mut self.wires().0;
        let outcome = card.power_on();
        card.advance(POWER_UP);
        outcome.map_err(ContentsError)
    }

    /// Inverts a bit of the next data block that the card sends, so that its CRC16 is wrong.
    pub fn disturb_next_block(&mut self, bit: usize) {
        self.wires().0.disturb_next_block(bit);
    }

    /// Capacity of the card, sectors.
    pub fn sectors(&self) -> u64 {
        self.wires().0.capacity()
    }

    /// Writes sectors without using the wires, for example a filesystem image.
    ///
    /// # Errors
    /// The card does not have these sectors, or has no power.
    pub fn write_contents(&mut self, sector: u64, bytes: &[u8]) -> Result<(), ContentsError> {
        self.wires().0.write_contents(sector, bytes).map_err(ContentsError)
    }

    /// Reads sectors without using the wires.
    ///
    /// # Errors
    /// The errors of [`SdCard::write_contents`].
    pub fn read_contents(&mut self, sector: u64, bytes: &mut [u8]) -> Result<(), ContentsError> {
        self.wires().0.read_contents(sector, bytes).map_err(ContentsError)
    }

    /// Creates an independent copy of contents and clock. Both share unchanged blocks.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { port: Port::new(self.wires().clone()) }
    }
}

spi_device!(SdCard, CardWires);

impl Wires for CardWires {
    fn select(&mut self) {
        self.0.select();
    }

    fn deselect(&mut self) {
        self.0.deselect();
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn read(&mut self, bytes: &mut [u8]) {
        self.0.read(bytes);
    }

    fn exchange(&mut self, bytes: &mut [u8]) {
        self.0.exchange(bytes);
    }

    fn wait(&mut self, time: Nanos) {
        self.0.advance(time);
    }
}

/// Failure of an access to the contents that does not use the wires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentsError(BlockError);

impl std::fmt::Display for ContentsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ContentsError {}

//! Two threads on one chip: one writes or erases, the other reads.
//!
//! The locks are those of Linux 6.12. A write holds its bank for the whole call. It holds the bus only while it sends
//! WRITE ENABLE and a page, or for one status read. A read holds the bus and its bank for the whole call. It can start
//! between two such exchanges if its bank is free; the writer's status reads wait meanwhile. Without read-while-write,
//! or in the same bank, one call waits for the other.
//!
//! Each release of the bus wakes the reader, but the bus is not handed over. The writer's loop acquires it again
//! immediately, and the reader finds it free only if it checks at the right moment. [`Race`] computes the number of
//! checks until then.

use super::SpiNorDriver;
use super::engine::{Engine, Job};
use crate::spi::{Data, PollPlan, SpiError, SpiMem};
use crate::timeline::Host;
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Done, Error, Instant, Nanos, Phase};

const ERASE_TIMEOUT: Nanos = Nanos::from_ms(40_000);

/// The reader's race for the bus against a writer that polls the status without pauses.
#[derive(Clone, Copy, Debug)]
struct Race {
    /// Time between two checks of the reader.
    look: Nanos,
    /// Number of remaining checks.
    looks: u64,
}

impl Race {
    /// A race for a bus that is held for `hold` and free for `free` in each polling round. The reader is awake `wakeup`
    /// after a release. The times of its checks are independent of the writer, so a check succeeds with the probability
    /// that the bus is free. The number of checks until the success is random; this model takes its median.
    fn new(hold: Nanos, free: Nanos, wakeup: Nanos) -> Self {
        if wakeup <= free {
            return Self { look: Nanos::ZERO, looks: 0 };
        }
        let round = hold + free;
        let chance = free.as_ns() as f64 / round.as_ns() as f64;
        let looks = (0.5f64.ln() / (1.0 - chance).ln()).ceil();
        // A reader that finds the bus busy sleeps until the next release.
        let look = round * wakeup.as_ns().div_ceil(round.as_ns());
        Self { look, looks: if looks.is_finite() { looks as u64 } else { u64::MAX } }
    }

    /// Time at which the reader gets the lock, if the writer polls from `now` until then.
    fn won_at(&self, now: Instant) -> Instant {
        now + Nanos::from_ns(self.look.as_ns().saturating_mul(self.looks).min(ERASE_TIMEOUT.as_ns()))
    }

    /// Records that the writer polled for `time` without a success of the reader.
    fn go_on(&mut self, time: Nanos) {
        let looks = time.as_ns() / self.look.as_ns().max(1);
        self.looks = self.looks.saturating_sub(looks.max(1));
    }
}

/// The reading thread, until its read is done.
struct Reader<'b> {
    host: Host,
    addr: u64,
    /// Buffer of the read; `None` after the read.
    buf: Option<&'b mut [u8]>,
}

impl Reader<'_> {
    /// Executes the read; the thread holds the bus from `from` until the read is done.
    fn run<S: SpiMem>(&mut self, engine: &mut Engine<S>, from: Instant) -> Result<(), Error> {
        let Some(buf) = self.buf.take() else { return Ok(()) };
        self.host.pass_until(from, Phase::Waiting);
        engine.read(&mut self.host, self.addr, buf)
    }

    fn len(&self) -> u64 {
        self.buf.as_ref().map_or(0, |b| b.len() as u64)
    }
}

impl<S: SpiMem> SpiNorDriver<S> {
    /// A thread that starts an MTD call at `at`, on another CPU than the first thread.
    fn reader<'b>(&self, at: Instant, addr: u64, buf: &'b mut [u8]) -> Reader<'b> {
        let mut host = self.host.fork();
        host.resume(at);
        let inside = host.now() + self.profile.call_us;
        host.pass_until(inside, Phase::Cpu);
        Reader { host, addr, buf: Some(buf) }
    }

    /// Executes a write and a read of two threads that start at the same time.
    pub(super) fn write_and_read(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        let (mut at, data) = write;
        check_range(now, at, data.len() as u64, self.geometry.size_bytes)?;
        check_range(now, read.0, read.1.len() as u64, self.geometry.size_bytes)?;
        self.host.resume(now);
        let mut reader = self.reader(now, read.0, read.1);
        self.profile.call(&mut self.host);
        let beside = self.engine.banks_differ((at, data.len() as u64), (reader.addr, reader.len()));
        let hold = self.engine.bus.plain_time(&self.engine.ops.status);
        let mut race = Race::new(hold, self.profile.relock_us, self.profile.wakeup_us);
        for chunk in self.engine.pages(at, data) {
            self.profile.page(&mut self.host);
            self.engine.start_program(&mut self.host, at, chunk)?;
            if beside && reader.buf.is_some() {
                self.engine.race(&mut self.host, at, &mut race, &mut reader)?;
            } else {
                self.engine.wait(&mut self.host, at, Job::Program, ERASE_TIMEOUT)?;
            }
            at += chunk.len() as u64;
        }
        self.finish(reader)
    }

    /// Executes an erase, and a read of another thread that is requested at `ask`. With
    /// [`super::Options::suspend_for_read`] a running erase is suspended for the read. In another bank of a chip with
    /// read-while-write, this is not necessary.
    ///
    /// # Errors
    /// The errors of [`floatgate_mtd::Mtd::erase`] and [`floatgate_mtd::Mtd::read`]; the first failure is returned.
    pub fn read_while_erase(
        &mut self,
        now: Instant,
        erase: (u64, u64),
        ask: Instant,
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        let (addr, len) = erase;
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, self.geometry.erase_bytes)?;
        check_range(now, read.0, read.1.len() as u64, self.geometry.size_bytes)?;
        self.host.resume(now);
        let mut reader = self.reader(ask, read.0, read.1);
        self.profile.call(&mut self.host);
        for block in (addr..addr + len).step_by(self.geometry.erase_bytes as usize) {
            self.engine.start_erase(&mut self.host, Some(block))?;
            self.engine.erase_beside(&mut self.host, block, &mut reader)?;
        }
        self.finish(reader)
    }

    /// Ends the writer's call. If the reader has not read yet, it reads now, and its read determines the remaining
    /// time.
    fn finish(&mut self, mut reader: Reader<'_>) -> Result<(Done, Done), Error> {
        let written = self.done();
        let mut read = Done::clean(reader.host.now());
        if let Some(buf) = reader.buf.take() {
            self.host.pass_until(reader.host.now(), Phase::Cpu);
            self.engine.read(&mut self.host, reader.addr, buf)?;
            read = self.done();
        }
        self.host.join(reader.host);
        Ok((written, read))
    }
}

impl<S: SpiMem> Engine<S> {
    /// True if a read can run concurrently with a write or erase.
    fn banks_differ(&self, write: (u64, u64), read: (u64, u64)) -> bool {
        let bank_bytes = self.spec.bank_bytes();
        let banks = |(addr, len): (u64, u64)| (addr / bank_bytes, (addr + len.max(1) - 1) / bank_bytes);
        let (written, wanted) = (banks(write), banks(read));
        let rww = self.spec.geometry.read_while_write && self.spec.geometry.banks > 1;
        rww && (wanted.1 < written.0 || written.1 < wanted.0)
    }

    /// Waits for the program at `addr` while the reader tries to get the bus.
    fn race(
        &mut self,
        host: &mut Host,
        addr: u64,
        race: &mut Race,
        reader: &mut Reader<'_>,
    ) -> Result<(), Error> {
        let start = host.now();
        if self.busy_until(host, race.won_at(start))? {
            reader.run(self, host.now())?;
            host.pass_until(reader.host.now(), Phase::Waiting);
            return self.wait(host, addr, Job::Program, ERASE_TIMEOUT);
        }
        race.go_on(host.now().since(start));
        self.check_failed(host, addr, Job::Program)
    }

    /// Waits for the erase of `block`, and executes the read when it is requested.
    fn erase_beside(&mut self, host: &mut Host, block: u64, reader: &mut Reader<'_>) -> Result<(), Error> {
        let erased = u64::from(self.erase_bytes);
        let beside = self.banks_differ((block, erased), (reader.addr, reader.len()));
        let elsewhere = reader.addr + reader.len() <= block || block + erased <= reader.addr;
        let suspend = self.spec.suspend.filter(|_| self.options.suspend_for_read && elsewhere);
        let wanted = reader.buf.is_some() && (beside || suspend.is_some());
        if wanted && self.busy_until(host, reader.host.now())? {
            if let (false, Some(suspend)) = (beside, suspend) {
                self.suspended(host, block, [suspend.suspend, suspend.resume], reader)?;
            } else {
                reader.run(self, host.now())?;
                host.pass_until(reader.host.now(), Phase::Waiting);
            }
        }
        self.wait(host, block, Job::Erase, ERASE_TIMEOUT)
    }

    /// Polls until the chip is ready or the time `ask` is reached; true in the second case.
    fn busy_until(&mut self, host: &mut Host, ask: Instant) -> Result<bool, Error> {
        let plan = PollPlan {
            initial: Nanos::ZERO,
            interval: self.options.poll_interval_us,
            timeout: ask.since(host.now()),
        };
        let status = self.ops.status;
        match self.bus.poll(host, &status, 1, 0, plan) {
            Ok(_) => Ok(false),
            Err(SpiError::Timeout) => Ok(true),
            Err(other) => Err(self.error(other, host, 0)),
        }
    }

    fn suspended(
        &mut self,
        host: &mut Host,
        block: u64,
        [suspend, resume]: [u8; 2],
        reader: &mut Reader<'_>,
    ) -> Result<(), Error> {
        let command =
            |engine: &Self, opcode| super::engine::Ops::command(&engine.spec, opcode, engine.ops.octal);
        let op = command(self, suspend);
        self.exec(host, &op, Data::None, block)?;
        self.wait_ready(host, block, ERASE_TIMEOUT)?;
        let outcome = reader.run(self, host.now());
        host.pass_until(reader.host.now(), Phase::Waiting);
        let op = command(self, resume);
        self.exec(host, &op, Data::None, block)?;
        outcome
    }
}

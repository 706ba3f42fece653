//! `floatgate serve --serprog`, with a client of our own; scripts/test-serprog has flashrom.

use crate::support::{Run, finish, floatgate, fresh};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

/// A served chip.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    fn new(folder: &Path, args: &[&str]) -> Self {
        Self::of("w25q64jv", folder, args)
    }

    fn of(part: &str, folder: &Path, args: &[&str]) -> Self {
        let mut command = floatgate();
        command.args(["serve", part, "--serprog", "0", "--json"]).args(args).current_dir(folder);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        while !said.contains("(serprog)") {
            assert!(errors.read_line(&mut said).unwrap() > 0, "{said}");
        }
        // The rest is not read; a closed stderr would end nothing.
        let port = said.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        Self { process, port }
    }

    fn client(&self) -> Client {
        Client(TcpStream::connect(("127.0.0.1", self.port)).unwrap())
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for the end, and returns the report.
    fn report(mut self) -> String {
        let mut text = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.process.wait().unwrap().success(), "{text}");
        text
    }
}

/// O_SPIOP of the protocol.
const SPI_OPERATION: u8 = 0x13;

struct Client(TcpStream);

impl Client {
    /// One window of CS#; `None` when the server is gone.
    fn try_spi(&mut self, sent: &[u8], received: usize) -> Option<Vec<u8>> {
        let lengths = [sent.len(), received].map(|n| (n as u32).to_le_bytes());
        let request = [&[SPI_OPERATION][..], &lengths[0][..3], &lengths[1][..3], sent].concat();
        self.0.write_all(&request).ok()?;
        let mut answer = vec![0; 1 + received];
        self.0.read_exact(&mut answer).ok()?;
        assert_eq!(answer[0], 6);
        Some(answer.split_off(1))
    }

    fn spi(&mut self, sent: &[u8], received: usize) -> Vec<u8> {
        self.try_spi(sent, received).unwrap()
    }

    /// Programs bytes at an address, after an erase.
    fn write(&mut self, address: [u8; 3], bytes: &[u8]) {
        let [a, b, c] = address;
        self.spi(&[0x06], 0);
        self.spi(&[0x20, a, b, c], 0);
        self.wait();
        self.spi(&[0x06], 0);
        self.spi(&[&[0x02, a, b, c], bytes].concat(), 0);
        self.wait();
    }

    /// Reads 16 KiB of status at a time: the chip becomes ready meanwhile.
    fn wait(&mut self) {
        while self.spi(&[0x05], 16 << 10).last().unwrap() & 1 == 1 {}
    }
}

/// Commands for a parallel flash: a byte into the operation buffer, its execution, and a read.
const WRITE_BYTE: u8 = 0x0C;
const EXECUTE: u8 = 0x0F;
const READ_BYTES: u8 = 0x0A;

impl Client {
    /// Write cycles of a parallel flash. Addresses are those below 4 GiB, of which 24 bits are sent.
    fn cycles(&mut self, cycles: &[(u32, u8)]) {
        for (address, byte) in cycles {
            let [low, mid, high, _] = address.to_le_bytes();
            self.0.write_all(&[WRITE_BYTE, low, mid, high, *byte]).unwrap();
        }
        self.0.write_all(&[EXECUTE]).unwrap();
        let mut answers = vec![0; cycles.len() + 1];
        self.0.read_exact(&mut answers).unwrap();
        assert!(answers.iter().all(|answer| *answer == 6), "{answers:?}");
    }

    fn read<const N: usize>(&mut self, address: u32) -> [u8; N] {
        let ([a, b, c, _], [d, e, f, _]) = (address.to_le_bytes(), (N as u32).to_le_bytes());
        self.0.write_all(&[READ_BYTES, a, b, c, d, e, f]).unwrap();
        let mut answer = vec![0; 1 + N];
        self.0.read_exact(&mut answer).unwrap();
        assert_eq!(answer[0], 6);
        answer[1..].try_into().unwrap()
    }
}

#[test]
fn a_parallel_flash_is_served_on_eight_data_lines() {
    let folder = fresh("serprog-parallel");
    let served = Served::of("s29gl128p", &folder, &["--once", "--state", "chip"]);
    let mut client = served.client();
    let unlock = [(0xAAA, 0xAA), (0x555, 0x55)];
    client.cycles(&[unlock[0], unlock[1], (0xAAA, 0x90)]);
    assert_eq!(
        [client.read(0), client.read(2), client.read(0x1C), client.read(0x1E)],
        [[0x01], [0x7E], [0x21], [0x01]]
    );
    client.cycles(&[(0, 0xF0)]);
    client.cycles(&[unlock[0], unlock[1], (0xAAA, 0xA0), (0xFF_0000, 0x5A)]);
    // DQ6 toggles until the byte is programmed.
    while client.read::<1>(0xFF_0000) != client.read::<1>(0xFF_0000) {}
    assert_eq!(client.read(0xFF_0000), [0x5A, 0xFF]);
    drop(client);
    let report: Value = serde_json::from_str(&served.report()).unwrap();
    assert_eq!((&report["operations"], &report["violations"]), (&Value::from(1), &serde_json::json!([])));
    assert_eq!(std::fs::read(folder.join("chip")).unwrap()[0xFF_0000], 0x5A);
}

/// A report with a violation, in JSON.
pub(crate) fn report() -> String {
    let served = Served::new(&fresh("serprog-report"), &["--once"]);
    let mut client = served.client();
    assert_eq!(client.spi(&[0xD5, 1], 2), [0xFF, 0xFF]);
    drop(client);
    served.report()
}

#[test]
fn a_client_finds_the_chip_and_its_contents_are_kept() {
    let folder = fresh("serprog");
    let served = Served::new(&folder, &["--state", "chip", "--once"]);
    let mut client = served.client();
    assert_eq!(client.spi(&[0x9F], 3), [0xEF, 0x40, 0x17]);
    client.write([0, 0x10, 0], b"kept");
    // Protects the upper half.
    client.spi(&[0x06], 0);
    client.spi(&[0x01, 0x1C], 0);
    client.wait();
    drop(client);
    let report: Value = serde_json::from_str(&served.report()).unwrap();
    assert_eq!((&report["operations"], &report["violation_count"]), (&Value::from(3), &Value::from(0)));
    assert!(report["time_us"].as_f64() > report["wire_us"].as_f64());
    assert_eq!(std::fs::read(folder.join("chip")).unwrap()[0x1000..0x1004], *b"kept");
    // A killed server leaves what the last client left.
    let served = Served::new(&folder, &["--state", "chip"]);
    let mut client = served.client();
    assert_eq!(
        (client.spi(&[0x03, 0, 0x10, 0], 5), client.spi(&[0x05], 1)),
        (b"kept\xFF".to_vec(), vec![0x1C])
    );
    client.spi(&[0x06], 0);
    client.spi(&[0x20, 0, 0x10, 0], 0);
    served.kill();
    assert_eq!(std::fs::read(folder.join("chip")).unwrap()[0x1000..0x1004], *b"kept");
    // A second server cannot use the file, and a file of another size is refused.
    let served = Served::new(&folder, &["--state", "chip"]);
    let second = refused(&folder, &["w25q64jv", "--serprog", "0", "--state", "chip"]);
    assert!(second.err.contains("another floatgate uses the file"), "{}", second.err);
    served.kill();
    std::fs::write(folder.join("short"), "short").unwrap();
    let short = refused(&folder, &["w25q64jv", "--serprog", "0", "--state", "short"]);
    assert!(short.err.contains("short: 5 bytes, and this chip has 8388608 bytes"), "{}", short.err);
    assert_eq!(std::fs::read(folder.join("short")).unwrap(), b"short");
}

fn refused(folder: &Path, args: &[&str]) -> Run {
    let run = finish(floatgate().arg("serve").args(args).current_dir(folder));
    assert_eq!(run.code, Some(2), "{args:?}: {}{}", run.out, run.err);
    run
}

#[test]
fn a_power_failure_disconnects_the_client_and_the_next_one_goes_on() {
    let served = Served::new(&fresh("serprog-cut"), &["--cut-power", "2", "--stuck", "0.0=0"]);
    let mut client = served.client();
    client.spi(&[0x06], 0);
    client.spi(&[0x20, 0, 0x10, 0], 0);
    client.wait();
    client.spi(&[0x06], 0);
    client.spi(b"\x02\0\x10\0half", 0);
    while client.try_spi(&[0x05], 16 << 10).is_some() {}
    let mut client = served.client();
    assert_ne!(client.spi(&[0x03, 0, 0x10, 0], 4), b"half");
    client.write([0, 0x10, 0], b"half");
    assert_eq!(client.spi(&[0x03, 0, 0x10, 0], 4), b"half");
    assert_eq!(client.spi(&[0x03, 0, 0, 0], 1), [0xFE], "a stuck bit");
    served.kill();
}

#[test]
fn stdin_and_stdout_carry_the_protocol() {
    // The interface's version, then a request that ends in the middle.
    let requests = [0x01, 0x13, 9, 0, 0, 9, 0, 0, 1, 2];
    let mut command = floatgate();
    command.args(["serve", "w25q64jv", "--serprog", "-"]);
    let mut process =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(&requests).unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &[6, 1, 0][..]));
    assert!(String::from_utf8(output.stderr).unwrap().contains("0 violations"));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let folder = fresh("serprog-refused");
    for (args, why) in [
        (&["w25n01gv", "--serprog", "0"][..], "name a SPI NOR or a parallel NOR"),
        (&["s29gl128p", "--serprog", "0", "--wp-low"], "only a SPI NOR has status registers"),
        (&["w25q64jv", "--serprog", "-", "--json"], "stdout carries the protocol"),
        (&["w25q64jv", "--serprog", "0", "--bad", "0x800000"], "beyond the end of the chip"),
        (&["w25q64jv", "--serprog", "0", "--stuck", "1.9=0"], "ADDRESS.BIT=VALUE"),
        (&["w25q64jv", "--serprog", "nowhere"], "write PORT, HOST:PORT or -"),
        (&["w25q64jv", "--serprog", "0", "--state", "."], "directory"),
        (&["w25q64jv", "--serprog", "0", "--state", "no/folder"], "no"),
        (&["w25q64jv"], "--serprog"),
    ] {
        let run = refused(&folder, args);
        assert!(run.err.contains(why), "{args:?}: {}", run.err);
    }
}

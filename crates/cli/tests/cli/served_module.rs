//! `floatgate serve --module` with this test in the kernel's place; tests/kernel/module has a kernel.

use crate::support::{finish, floatgate, fresh};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};

/// A served chip, and the kernel's side of its bus.
struct Served {
    process: Child,
    kernel: File,
    /// The chip's configuration, which comes first.
    config: Vec<u8>,
    id: u32,
}

const EXEC: u32 = 2;
const NAND: u32 = 5;
const READY: u32 = 7;

impl Served {
    fn new(folder: &Path, args: &[&str]) -> Self {
        let address = SocketAddrUnix::new(folder.join("kernel")).unwrap();
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let mut command = floatgate();
        command.args(["serve", "--module=kernel", "--json"]).args(args).current_dir(folder);
        let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut kernel = File::from(rustix::net::accept(&listener).unwrap());
        let mut config = vec![0; 100];
        let length = kernel.read(&mut config).unwrap();
        config.truncate(length);
        Self { process, kernel, config, id: 0 }
    }

    /// The result and the data of a request. `number` is that of the instructions, or of the MTD device.
    fn ask(&mut self, kind: u32, number: u32, in_len: u32, body: &[u8]) -> (i32, Vec<u8>) {
        self.id += 1;
        let [count, target] = if kind == NAND { [number, 0] } else { [0, number] };
        let head = [self.id, kind, count, target, 0, in_len].map(u32::to_le_bytes).concat();
        self.kernel.write_all(&[&head, body].concat()).unwrap();
        let mut answer = vec![0; 1 << 17];
        let length = self.kernel.read(&mut answer).unwrap();
        let word = |at: usize| answer[at..at + 4].try_into().unwrap();
        assert_eq!(u32::from_le_bytes(word(0)), self.id);
        (i32::from_le_bytes(word(4)), answer[8..length].to_vec())
    }

    /// A command on one lane that reads.
    fn read(&mut self, opcode: u16, in_len: u32) -> Vec<u8> {
        let head = [&[0; 12], &opcode.to_le_bytes()[..], &[1, 1, 0, 0, 0, 0, 1, 1, 0, 0]].concat();
        let (result, data) = self.ask(EXEC, 0, in_len, &head);
        assert_eq!(result, 0);
        data
    }

    /// The kernel leaves; what is printed then.
    fn end(self) -> (Option<i32>, String, String) {
        drop(self.kernel);
        let output = self.process.wait_with_output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, err)
    }
}

/// A report with a violation, in JSON.
pub(crate) fn report() -> String {
    let mut served = Served::new(&fresh("module-report"), &["w25q64jv"]);
    assert_eq!(served.ask(READY, 5, 0, &[]), (0, vec![]));
    assert_eq!(served.read(0x9F, 3), [0xEF, 0x40, 0x17]);
    assert_eq!(served.read(0xD5, 2), [0xFF, 0xFF]);
    let (code, out, err) = served.end();
    assert!(code == Some(0) && err.contains("W25Q64JV is /dev/mtd5"), "{err}");
    out
}

#[test]
fn a_kernel_reads_the_id_and_the_contents_are_kept() {
    let folder = fresh("module");
    let mut served = Served::new(&folder, &["nand128w3a2bn", "--state", "dump"]);
    // Version, raw NAND.
    assert_eq!(served.config[..8], [0x0100_6766_u32, 3].map(u32::to_le_bytes).concat());
    let instr =
        |kind: u8, value: u8, len: u32| [&[kind, value, 0, 0], &len.to_le_bytes()[..], &[0; 8]].concat();
    // A chip wants a reset after power-on.
    let reset = [instr(0, 0xFF, 0), instr(4, 0, 1000)];
    assert_eq!(served.ask(NAND, 2, 0, &reset.concat()), (0, vec![]));
    let steps = [instr(0, 0x90, 0), instr(1, 1, 0), instr(2, 1, 2)];
    assert_eq!(served.ask(NAND, 3, 2, &steps.concat()), (0, vec![0x20, 0x73]));
    let (code, out, err) = served.end();
    assert_eq!(code, Some(0), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["chosen"][1]["command"], &report["mtd"]), (&Value::from("90"), &Value::Null));
    // Pages of 512 bytes with 16 bytes of OOB.
    assert_eq!(std::fs::metadata(folder.join("dump")).unwrap().len(), (16 << 20) / 512 * 528);
}

#[test]
fn another_protocol_ends_with_a_message() {
    let folder = fresh("module-version");
    let mut served = Served::new(&folder, &["w25q64jv"]);
    served.kernel.write_all(b"hello").unwrap();
    let (code, out, err) = served.end();
    assert!((code, &*out) == (Some(2), "") && err.contains("a request of 5 bytes"), "{err}");
}

#[test]
fn what_is_no_module_is_refused() {
    let folder = fresh("module-refused");
    std::fs::write(folder.join("file"), "precious").unwrap();
    for (args, why) in [
        (&["w25q64jv", "--module=file"][..], "not a device of the kernel module"),
        (&["w25q64jv", "--module=nothing"], "insmod floatgate.ko"),
        (&["w25q64jv", "--module=/dev/zero"], "not a device of the kernel module"),
        (&["w25q64jv", "--module", "/dev/zero"], "`--module=/dev/zero`"),
        (&["s29gl128p", "--module=file"], "parallel NOR"),
        (&["w25n01gv", "--module=/dev/null", "--stuck", "0.0=1"], "--flip ADDRESS.BIT"),
        (&["w25q64jv", "--module=/dev/null", "--once"], "cannot be used with"),
        (&["w25q64jv", "--module=file", "--serprog", "0"], "cannot be used with"),
    ] {
        let run = finish(floatgate().arg("serve").args(args).current_dir(&folder));
        assert!(run.code == Some(2) && run.err.contains(why), "{args:?}: {:?} {}", run.code, run.err);
    }
    assert_eq!(std::fs::read(folder.join("file")).unwrap(), b"precious");
}

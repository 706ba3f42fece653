//! `--json` is what docs/json.md says, key by key and type by type, in both directions.

use crate::support::{PAPERS_JSON, dump_files, names, run, scratch, stdout};
use floatgate_lab::report::kind_of;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A key as documented.
#[derive(Clone, Debug)]
struct Key {
    kind: String,
    optional: bool,
}

/// The kind of a section, and its documented keys by path.
#[derive(Default)]
struct Section {
    kind: Option<String>,
    keys: BTreeMap<String, Key>,
}

/// The tables of docs/json.md by the title above them.
fn documented() -> BTreeMap<String, Section> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let text = std::fs::read_to_string(file).unwrap();
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    let mut title = String::new();
    for line in text.lines() {
        if let Some(found) = line.strip_prefix("## ") {
            title = found.to_owned();
        } else if let Some(kind) = line.strip_prefix("Kind: `") {
            let kind = kind.strip_suffix("`.").unwrap().to_owned();
            sections.entry(title.clone()).or_default().kind = Some(kind);
        } else if let Some(row) = line.strip_prefix("| `") {
            let (path, rest) = row.split_once("` | ").unwrap();
            let kind = rest.split(" |").next().unwrap();
            let key = Key {
                kind: kind.trim_end_matches(", optional").to_owned(),
                optional: kind.ends_with(", optional"),
            };
            let before = sections.entry(title.clone()).or_default().keys.insert(path.to_owned(), key);
            assert!(before.is_none(), "docs/json.md has {path} twice under {title}");
        }
    }
    sections
}

struct Checker<'a> {
    docs: &'a BTreeMap<String, Section>,
    section: &'a Section,
    /// Documented paths that occurred.
    seen: BTreeSet<String>,
    line: String,
}

impl<'a> Checker<'a> {
    fn new(docs: &'a BTreeMap<String, Section>, section: &str, line: &str) -> Self {
        let section = docs.get(section).unwrap_or_else(|| panic!("docs/json.md has no section {section}"));
        Self { docs, section, seen: BTreeSet::new(), line: line.to_owned() }
    }

    fn value(&mut self, path: &str, value: &Value) {
        let Some(key) = self.section.keys.get(path).cloned() else { return self.inside(path, value) };
        self.seen.insert(path.to_owned());
        let kind = match (key.kind.strip_suffix(" or null"), value) {
            (Some(_), Value::Null) => return,
            (Some(kind), _) => kind,
            (None, _) => &key.kind,
        };
        match kind {
            "object" => self.inside(path, value),
            "columns" => self.columns(path, value),
            "breakdown" => self.nested("Breakdown", path, value),
            "speed" | "life of a chip" => self.nested(kind, path, value),
            "decode" => self.nested("ecc decode", path, value),
            "answer" => self.nested("probe answer", path, value),
            "check" => self.nested("image check", path, value),
            "ubifs" => self.nested("ubifs", path, value),
            kind => assert!(is(kind, value), "{}: {path} is no {kind}: {value}", self.line),
        }
    }

    /// A table or list without a documented type of its own.
    fn inside(&mut self, path: &str, value: &Value) {
        match value {
            Value::Object(table) => {
                for (key, value) in table {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.value(&path, value);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.value(&format!("{path}[]"), value)),
            _ => panic!("{}: {path} is not in docs/json.md", self.line),
        }
    }

    /// An object with documented members beside columns that follow from the input, which are scalars.
    fn columns(&mut self, path: &str, value: &Value) {
        for (key, value) in value.as_object().unwrap() {
            let path = format!("{path}.{key}");
            let is_scalar = !value.is_object() && !value.is_array();
            match self.section.keys.contains_key(&path) {
                true => self.value(&path, value),
                false => assert!(is_scalar, "{}: {path} is no scalar: {value}", self.line),
            }
        }
    }

    fn nested(&self, section: &str, path: &str, value: &Value) {
        Checker::new(self.docs, section, &format!("{} at {path}", self.line)).whole(value);
    }

    /// Compares an object with the section. Returns the documented paths that occurred.
    fn whole(mut self, value: &Value) -> BTreeSet<String> {
        self.inside("", value);
        self.required(value);
        self.seen
    }

    /// Asserts that every key that is not optional occurred, where the table that it stands in did.
    fn required(&self, value: &Value) {
        for (path, key) in &self.section.keys {
            let (above, _) = path.rsplit_once('.').unwrap_or(("", path));
            let reached = occurs(value, above);
            assert!(
                key.optional || !reached || self.seen.contains(path),
                "{}: docs/json.md promises {path}",
                self.line
            );
        }
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "any" => true,
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_u64().is_some_and(|n| n < 1 << 53),
        "number" => value.as_f64().is_some_and(f64::is_finite),
        "string[]" => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        _ => panic!("docs/json.md has an unknown type {kind}"),
    }
}

/// Whether anything stands at a path.
fn occurs(value: &Value, path: &str) -> bool {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match (first.strip_suffix("[]"), value) {
        (_, Value::Null) => false,
        (None, _) if first.is_empty() => true,
        (None, Value::Object(table)) => table.get(first).is_some_and(|value| occurs(value, rest)),
        (Some(""), Value::Array(list)) => list.iter().any(|value| occurs(value, rest)),
        (Some(name), Value::Object(table)) => {
            let list = table.get(name).and_then(Value::as_array);
            list.is_some_and(|list| list.iter().any(|value| occurs(value, rest)))
        }
        _ => false,
    }
}

/// Writes measured times, with and without cycles, and puts their files' names in place of TRACE and TIMES.
fn with_traces(line: &str) -> String {
    let folder = scratch("json-traces");
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).to_str().unwrap().to_owned()
    };
    let trace = file("trace.csv", "cycle,program_us,erase_us\n1000,650,2000\n200000,490,4250\n");
    let line = line.replace("FIGURES", &file("flash_speed.txt", crate::support::FIGURES));
    let parts = folder.join("parts");
    // Of an earlier run.
    let _ = std::fs::remove_dir_all(&parts);
    let line = line.replace("PARTS", parts.to_str().unwrap());
    let line = line.replace("REQUESTS", &file("requests.csv", crate::support::REQUESTS));
    line.replace("TRACE", &trace).replace("TIMES", &file("times.csv", "erase_us\n3000\n"))
}

fn check(docs: &BTreeMap<String, Section>, section: &str, line: &str) -> BTreeSet<String> {
    let line = &with_traces(line);
    let run = run(line);
    // 1: a check found a problem, and prints it.
    assert!(matches!(run.code, Some(0 | 1)), "{line}\n{}", run.err);
    check_text(docs, section, line, &run.out)
}

/// JSON in which no object has a key twice.
struct OnceEach;

impl<'de> Deserialize<'de> for OnceEach {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OnceEach)
    }
}

impl<'de> Visitor<'de> for OnceEach {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, _)) = object.next_entry::<String, Self>()? {
            if let Some(twice) = keys.replace(key) {
                return Err(A::Error::custom(format!("an object has the key `{twice}` twice")));
            }
        }
        Ok(self)
    }
}

/// The section of the keys that every result has.
const ENVELOPE: &str = "Envelope";

/// Compares JSON that a command line gave with the envelope and a section.
fn check_text(docs: &BTreeMap<String, Section>, section: &str, line: &str, text: &str) -> BTreeSet<String> {
    serde_json::from_str::<OnceEach>(text).unwrap_or_else(|error| panic!("{line}: {error}"));
    let mut result: Map<String, Value> = serde_json::from_str(text).unwrap();
    assert_eq!(result["kind"].as_str(), docs[section].kind.as_deref(), "{line}");
    let keys = &docs[ENVELOPE].keys;
    let head = result.keys().take_while(|key| keys.contains_key(*key)).cloned().collect::<Vec<_>>();
    let envelope = head.into_iter().map(|key| (key.clone(), result.shift_remove(&key).unwrap()));
    let envelope: Value = envelope.collect::<Map<_, _>>().into();
    Checker::new(docs, ENVELOPE, line).whole(&envelope);
    let mut keys = Checker::new(docs, section, line).whole(&result.into());
    keys.extend(envelope["conclusion"].as_str().map(|_| CONCLUSION.to_owned()));
    keys
}

/// Mark of a result that has a conclusion, among the keys of its section.
const CONCLUSION: &str = "envelope: conclusion";

/// Sections of `docs/json.md` whose results have no conclusion: catalogues, listings, data, and reports of one line.
const WITHOUT_CONCLUSION: &[&str] = &[
    "conformance --list",
    "ecc layouts",
    "examples",
    "image dump",
    "image env",
    "image ls",
    "image ls --history",
    "image stat",
    "image ubinize",
    "life --example-trace",
    "list",
    "list NAME --registers",
    "list PART",
    "list PART --confidence",
    "list SETUP",
    "list controllers",
    "list hosts",
    "list keys",
    "list parts",
    "list parts --confidence",
    "list schemas",
    "list setups",
    "list traces",
    "otp read",
    "otp write",
    "papers --refit",
    "powercut --lib --replay",
    "powercut --replay",
    "probe --kept",
];

/// The section of the file that `sweep` writes, which it has in place of `--json`.
const SWEEP: &str = "File of a sweep";

/// The sections of `serve`, which prints its report when a client has left.
const SERVE: [&str; 2] = ["serve --serprog", "serve --module"];

/// Sweeps over a mode that the chip has and one that it lacks, and compares the file with its section.
fn check_sweep(docs: &BTreeMap<String, Section>) -> BTreeSet<String> {
    let folder = scratch("json-sweep");
    let [spec, out] = ["designs.toml", "designs.json"].map(|name| folder.join(name).display().to_string());
    let text = "setup = \"nor-serialised\"\nconstraints = [\"page read KiB/s > 1\"]\n\
        [space]\n\"bus.mode\" = [\"1-1-1\", \"1-4-4\"]\n\"bus.clock_hz\" = [10e6, 25e6]\n\
        [objectives]\nmaximise = [\"page read KiB/s\"]\nminimise = [\"bus.clock_hz\"]\n";
    std::fs::write(&spec, text).unwrap();
    let line = format!("sweep {spec} -o {out}");
    assert_eq!(run(&line).code, Some(1), "{}", run(&line).err);
    check_text(docs, SWEEP, &line, &std::fs::read_to_string(&out).unwrap())
}

/// Sections and command lines that together show every key.
const LINES: &[(&str, &str)] = &[
    ("speed", "speed am62a-w35n01jw -C --json"),
    ("speed", "speed rww-mx25uw51245g -k 4096 --json"),
    ("speed", "speed w25n01gv -c1 --json"),
    ("speed --sweep", "speed nor-serialised --sweep bus.mode=1-1-1,1-4-4 --keep-going --json"),
    ("trace", "trace imx6-mx30lf2g18ac write-2-pages --json"),
    ("trace", "trace rww-mx25uw51245g read-while-write --json"),
    ("trace", "trace imx6-mx30lf2g18ac erase --corner max --json"),
    ("papers keystore", "papers keystore --json"),
    ("speed of a card", "speed kingston-class-10 --set card.capacity_bytes=256MiB --requests 20 --json"),
    ("speed of a card", "speed fake-wraps-32g --set card.capacity_bytes=256MiB --requests 20 --json"),
    (
        "speed of a card",
        "speed emmc-16g --set card.capacity_bytes=256MiB --set card.power.limit_ua=200000 --requests 20 --json",
    ),
    ("list NAME --registers", "list evil-8g --registers --json"),
    ("list NAME --registers", "list emmc-16g --registers --set card.power.limit_ua=200000 --json"),
    ("list NAME --registers", "list fake-wraps-32g --registers --json"),
    ("powercut of a card", "powercut kingston-class-10 --cuts 40 --faults --json"),
    (
        "papers amplification",
        "papers amplification --blocks 64 --units-per-block 32 --over-provisioning 28 --json",
    ),
    ("run --trace", "run kingston-class-10 --trace REQUESTS --json"),
    ("fs of cards", "fs kingston-class-10 a1-32g --workload create --json"),
    ("advise", "advise kingston-class-10 --workload create --json"),
    ("advise", "advise arm926-nand01gw3b --partition 8MiB --years 1 --json"),
    ("probe", "probe sandisk-extreme --write --json"),
    ("probe", "probe sandisk-extreme --noise 0 --json"),
    ("probe --kept", "probe --kept --keep images --json"),
    ("otp info", "otp info stm32-n25q128a --json"),
    ("otp read", "otp read stm32-n25q128a --length 4 --json"),
    ("otp write", "otp write stm32-n25q128a 00112233 --json"),
    ("otp write", "otp lock stm32-n25q128a --json"),
    ("record", "record stm32-n25q128a --fs jffs2 --partition 2MiB --ring 512KiB --json"),
    ("compare", "compare stm32-n25q128a samsung-evo-16g dying-8g --partition 1GiB --json"),
    ("life of a card", "life a1-32g --set card.capacity_bytes=3GiB --trace ext4-create --json"),
    ("life of a card", "life emmc-16g --set card.capacity_bytes=3GiB --trace ext4-create --json"),
    ("life of a chip", "life mt29f8g08maawc --json"),
    ("life of a chip", "life mx30lf2g18ac --erase-only --blocks 1 --json"),
    ("life of a NOR", "life w25q128jv --json"),
    ("life --all", "life --all --chips 2 --json"),
    ("life --predict", "life mt29f8g08maawc --predict TRACE --json"),
    ("life --example-trace", "life mt29f8g08maawc --example-trace 0.4 --json"),
    ("life --predict", "life w25n01jw --predict TIMES --json"),
    ("fit", "fit imx6-mx30lf2g18ac FIGURES --json"),
    ("papers", "papers P0 --json"),
    ("papers", "papers P1/space --json"),
    ("papers", "papers P3 --json"),
    ("papers --refit", "papers boards --refit --json"),
    ("papers --from-two", "papers samd21 --from-two --json"),
    ("powercut", "powercut imx6-mx30lf2g18ac --cuts 20 --json"),
    ("speed", "speed imx6-mx30lf2g18ac --fs ubifs --json"),
    ("fs", "fs arm926-nand01gw3b --test read,space --bytes 64KiB --json"),
    ("fs", "fs stm32-n25q128a --test sync --json"),
    ("fs --partition", "fs arm926-nand01gw3b --fs jffs2,ubifs --partition 256KiB,4MiB --json"),
    (
        "life",
        "life arm926-nand01gw3b --set partition.size=8MiB --years 1 --chips 2 --scrub-days 30,never --json",
    ),
    ("life", "life sama5d2-mx25l25635e --set partition.size=1MiB --fs jffs2 --json"),
    ("trace", "trace imx6-mx30lf2g18ac write-file --json"),
    (
        "powercut --replay",
        "powercut --replay nand64x131072_2048.2048.2048_64.34_4.512.3:1.5:unmount.3 --json",
    ),
    ("list parts", "list parts --json"),
    ("list parts", "list parts --kind spi-nand --json"),
    ("list PART", "list w35n01jw --json"),
    ("list PART", "list gd5f4gq6uexxg --json"),
    ("list PART", "list w25n01gv --json"),
    ("list PART", "list sandisk-extreme --json"),
    ("list parts --confidence", "list parts --confidence --json"),
    ("list PART --confidence", "list w35n01jw --confidence --json"),
    ("list setups", "list setups --json"),
    ("list keys", "list keys --json"),
    ("list SETUP", "list am62a-w35n01jw --json"),
    ("list SETUP", "list stm32-n25q128a --resolved --json"),
    ("list SETUP", "list zynqmp-arasan-16k --resolved --json"),
    ("list", "list --json"),
    ("list traces", "list traces --json"),
    ("list schemas", "list schemas --json"),
    ("examples", "examples examples --json"),
    ("list controllers", "list controllers --json"),
    ("list hosts", "list hosts --json"),
    ("ecc encode", "ecc encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o json.nand --json"),
    ("ecc decode", "ecc decode bad.nand --part mt29f2g08aad --code bch4/512 -o json.ubi --json"),
    ("ecc check", "ecc check dump.nand --part mt29f2g08aad --json"),
    ("ecc merge", "ecc merge bad.nand bad.nand --part mt29f2g08aad --code bch4/512 -o merged.nand --json"),
    ("ecc join", "ecc join images/chip0.bin images/chip1.bin -o joined.ubi --json"),
    ("ecc advise", "ecc advise mt29f8g08maawc --json"),
    ("ecc layouts", "ecc layouts --json"),
    ("ecc layouts", "ecc layouts omap-bch8 --json"),
    ("ecc advise", "ecc advise study-mlc-2y-nm --json"),
    ("image put", "image put images/rootfs.ubi images/hostname /etc --json"),
    ("image put", "image mkdir images/rootfs.ubi /opt --output images/other.ubi --json"),
    ("ecc check", "ecc check images/rootfs.ubi --json"),
    ("ecc check", "ecc check images/dump.nand --json"),
    ("ecc check", "ecc check bad.nand --page-size 2048 --oob-size 64 --code bch4/512 --json"),
    ("image build", "image build cut-off.tar -o json.ubi --part mt29f2g08aad --json"),
    ("image ubinize", "image ubinize ubinize.ini -o json.ubi --part mt29f2g08aad --json"),
    ("image check", "image check images/dump.bin --json"),
    ("image check --repair", "image check images/dump.bin --repair images/repaired.bin --json"),
    ("image diff", "image diff images/rootfs.ubi images/dump.bin --raw --json"),
    ("image diff", "image diff images/rootfs.ubi images/rootfs.ubi --no-times --json"),
    ("image dump", "image dump images/rootfs.ubi --path /etc/fstab --json"),
    ("image dump", "image dump images/rootfs.ubi --path /etc/fstab --block 0 --hex --json"),
    ("image info", "image info images/two-volumes.ubi --json"),
    ("image info", "image info images/dump.bin --json"),
    ("identify", "identify images/boot.log --json"),
    ("image extract --all", "image extract --all images/router.bin PARTS --json"),
    ("image env", "image env images/router.bin --json"),
    ("image map", "image map images/router.bin --json"),
    ("image ls", "image ls images/rootfs.ubi --recursive --json"),
    ("image ls --history", "image ls images/dump.bin --history --json"),
    ("check-capture", "check-capture capture.csv --part w25q128jv --json"),
    ("conformance", "conformance w25q128jv --driver ./driver.so --json"),
    ("conformance --list", "conformance --list --json"),
    ("powercut --lib", "powercut w25q128jv --lib ./bad.so --steps 9 --mode exhaustive --json"),
    (
        "powercut --lib --replay",
        "powercut w25q128jv --lib ./bad.so --replay lib:chip4096_be91cfc8:0:0-4:3.before --json",
    ),
    ("image stat", "image stat images/rootfs.ubi /bin/busybox --json"),
    ("image stat", "image stat images/rootfs.ubi /dev/console --json"),
    ("image extract", "image extract images/dump.bin images/extracted.tar --json"),
    ("image patch", "image patch images/dump.bin images/rootfs.ubi --json"),
];

#[test]
fn output_and_documentation_have_the_same_keys() {
    let docs = documented();
    let folder = scratch("empty");
    dump_files(&folder);
    crate::c_program::key_value_stores(&folder);
    crate::c_program::driver(&folder, "driver", &[]);
    let capture = "Time [s],Packet ID,MOSI,MISO\n0.1,0,0x9F,0xFF\n0.2,1,0x20,0xFF\n";
    std::fs::write(folder.join("capture.csv"), capture).unwrap();
    crate::images::write(&scratch("empty/images"));
    // A step with too many wrong bits, and a bad block.
    let mut dump = std::fs::read(folder.join("dump.nand")).unwrap();
    dump.resize(128 * 2112, 0);
    dump[30..40].fill(0x55);
    std::fs::write(folder.join("bad.nand"), dump).unwrap();
    let volumes = "[v]\nmode=ubi\nvol_id=0\nvol_type=dynamic\nvol_name=v\nvol_size=1MiB\n";
    std::fs::write(folder.join("ubinize.ini"), volumes).unwrap();
    std::fs::write(folder.join("cut-off.tar"), crate::image_build::tar(&[("file", b"contents")])).unwrap();
    let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (section, line) in LINES {
        seen.entry(section).or_default().extend(check(&docs, section, line));
    }
    seen.entry(SWEEP).or_default().extend(check_sweep(&docs));
    for (section, report) in SERVE.into_iter().zip([crate::serprog::report(), crate::served_module::report()])
    {
        seen.entry(section).or_default().extend(check_text(&docs, section, section, &report));
    }
    let concluded = seen.iter().filter(|(_, keys)| keys.contains(CONCLUSION)).map(|(section, _)| *section);
    let concluded: BTreeSet<&str> = concluded.collect();
    for section in seen.keys() {
        let is_expected = !WITHOUT_CONCLUSION.contains(section);
        assert_eq!(concluded.contains(section), is_expected, "conclusion of {section}");
    }
    for (section, Section { keys, .. }) in &docs {
        let Some(seen) = seen.get(section.as_str()) else {
            // `run` boots a guest, and there may be no MTD.
            let is_part = ["Breakdown", ENVELOPE, "run", "probe answer", "probe of an MTD", "ubifs"]
                .contains(&section.as_str());
            assert!(is_part, "no command line shows {section}");
            continue;
        };
        let never = keys.iter().filter(|(path, key)| !key.optional && !seen.contains(*path));
        assert_eq!(never.map(|(path, _)| path).collect::<Vec<_>>(), [""; 0], "never seen in {section}");
    }
}

/// Those that no command line above shows, too.
#[test]
fn documented_kinds_exist() {
    for (section, kind) in
        documented().into_iter().filter_map(|(title, section)| Some((title, section.kind?)))
    {
        let result = serde_json::json!({ "floatgate": env!("CARGO_PKG_VERSION"), "kind": kind });
        let known = kind_of(&result).map(|known| known.to_string());
        assert_eq!(known, Ok(kind), "{section}");
    }
}

#[test]
fn a_result_names_its_input() {
    let line = "speed imx6-mx30lf2g18ac -c1 --set bus.clock_hz=40000000 --seed 7 --json";
    let result: Map<String, Value> = serde_json::from_str(&stdout(line)).unwrap();
    let head: Vec<(&str, &Value)> = result.iter().take(5).map(|(key, value)| (key.as_str(), value)).collect();
    let envelope = serde_json::json!({
        "floatgate": env!("CARGO_PKG_VERSION"), "kind": "speed", "target": "imx6-mx30lf2g18ac",
        "overrides": ["bus.clock_hz=40000000"], "seed": 7,
    });
    let expected: Vec<(&str, &Value)> =
        envelope.as_object().unwrap().iter().map(|(key, value)| (key.as_str(), value)).collect();
    assert_eq!(head, expected);
}

#[test]
fn every_board_and_chip_prints_what_is_documented() {
    let docs = documented();
    for setup in names("setups", "name") {
        check(&docs, "speed", &format!("speed {setup} -c 2 --json"));
        check(&docs, "list SETUP", &format!("list {setup} --json"));
        for operation in ["read-page", "erase"] {
            check(&docs, "trace", &format!("trace {setup} {operation} --json"));
        }
    }
    for part in names("parts", "part") {
        check(&docs, "list PART", &format!("list {part} --json"));
    }
}

#[test]
fn a_refused_combination_says_why() {
    let line = "speed nor-serialised --sweep bus.mode=1-1-1,1-4-4 --keep-going --json";
    let swept: Value = serde_json::from_str(&run(line).out).unwrap();
    let rows = &swept["rows"];
    assert!(rows[0]["run"].is_object() && rows[0]["refused"].is_null(), "{rows}");
    assert!(rows[1]["run"].is_null() && rows[1]["refused"].as_str().unwrap().contains("1S-4S-4S"), "{rows}");
}

#[test]
fn the_summary_counts_the_kinds_of_rows() {
    let report: Value = serde_json::from_str(&PAPERS_JSON).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let has_end = |row: &&Value| ["published_min", "published_max"].iter().any(|end| row[end].is_number());
    let counted = |row: &&Value| row["kind"] != "direction" && row["kind"] != "by-construction";
    let (ranges, figures): (Vec<&Value>, Vec<&Value>) = rows.iter().filter(counted).partition(has_end);
    let of = |kind: &str| figures.iter().filter(|row| row["kind"] == kind).count() as u64;
    let summary = |key: &str| report["summary"][key].as_u64().unwrap();
    assert_eq!(summary("figures"), figures.len() as u64);
    assert_eq!(summary("ranges"), ranges.len() as u64);
    assert_eq!(summary("fitted"), of("fitted"));
    assert_eq!(summary("predicted"), of("predicted"));
    assert_eq!(summary("exceptions"), of("exception"));
    assert_eq!(of("fitted") + of("predicted") + of("exception"), figures.len() as u64);
    for row in rows {
        let (published, simulated) = (row["published"].as_f64().unwrap(), row["simulated"].as_f64().unwrap());
        let [min, residual] = ["interval_min", "residual"].map(|key| row[key].as_f64().unwrap());
        let max = row["interval_max"].as_f64().unwrap_or(f64::INFINITY);
        let unit = if row["unit"] == "KiB/s" { 1.0 } else { 0.0 };
        assert!(has_end(&row) || (min - unit..=max).contains(&published), "{row}");
        // `simulated` is rounded as the tool does, in steps of the interval or, of a rate, of a unit. Those of a rate out of whole
        // milliseconds grow with its square.
        let step = (max - min).max(unit) / published;
        let step = step * (simulated / published).max(1.0).powi(2) + 1e-9;
        // A rate from whole milliseconds is a percent off at most, and three digits are 2 per mille off.
        let step = if has_end(&row) { 2e-3 + unit / 100.0 } else { step };
        match residual {
            0.0 => assert!((min * (1.0 - step)..=max * (1.0 + step)).contains(&simulated), "{row}"),
            above if above > 0.0 => assert!((simulated / max - 1.0 - above).abs() <= step, "{row}"),
            below => assert!((simulated / min - 1.0 - below).abs() <= step, "{row}"),
        }
        assert!(
            row["kind"] != "exception" || row["reason"].is_string(),
            "an exception without a reason: {row}"
        );
    }
}

#[test]
fn every_documented_command_is_the_whole_command_list() {
    let docs = documented();
    for command in crate::support::subcommands() {
        let has_json = stdout(&format!("{command} --help")).contains("--json");
        let documented = docs.keys().any(|section| section.split(' ').next() == Some(&command));
        assert_eq!(has_json, documented, "docs/json.md and `{command} --help` differ on --json");
    }
}

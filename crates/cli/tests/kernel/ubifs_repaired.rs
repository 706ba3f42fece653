//! The kernel mounts what `floatgate image check --repair` made of images that were cut off or damaged, with OOB and
//! without, and goes on with it.

use crate::flips::Random;
use crate::judge::fresh;
use crate::judged::{Judged, Ours};
use crate::live::{Live, abandon, close, format, manifest, mount};
use crate::manifest::{Manifest, assert_no_differences};
use crate::ubifs::{CHIPS, Case, Chip, floatgate};
use crate::ubifs_edited::{assert_mounted, build, sources};
use crate::workload::Workload;
use floatgate_media::ubi::{EcHeader, ReadFlips, VidHeader};
use floatgate_mtd::{Cut, CutKind};
use floatgate_stack::fs::FileType;
use floatgate_stack::ubifs::{FormatOptions, MountOptions};
use floatgate_testing::few_or_all;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// 512 + 16, 2048 + 64 and 4096 + 128, by their places among the chips.
const REPAIRED: [usize; 3] = [0, 2, 5];

/// Operations on each, before it is unmounted or power goes away.
const OPERATIONS: usize = 700;

/// Type of an index node, and where it stands in a node.
const INDEX_NODE: u8 = 9;
const TYPE_AT: usize = 20;

/// How an image came to be in need of repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Power went away when every file was synchronised.
    Synced,
    /// Power went away in the middle of an operation.
    Cut,
    /// One of the LEBs with master nodes is gone.
    Master,
    /// The newest LEB of the index is gone.
    Index,
    /// VID headers are gone.
    VidHeaders,
    /// As `Synced`, in a dump with OOB with wrong bits.
    WornSynced,
    /// As `Index`, in a dump with OOB with wrong bits.
    WornIndex,
}

impl Trouble {
    const ALL: [Self; 7] = [
        Self::Synced,
        Self::Cut,
        Self::Master,
        Self::Index,
        Self::VidHeaders,
        Self::WornSynced,
        Self::WornIndex,
    ];

    const fn is_cut(self) -> bool {
        matches!(self, Self::Synced | Self::Cut | Self::WornSynced)
    }

    const fn is_worn(self) -> bool {
        matches!(self, Self::WornSynced | Self::WornIndex)
    }
}

/// What was in an image before, unless power went away while it was changed.
type Before = Option<Manifest>;

/// Writes all that is only in memory, file by file: there is no commit.
fn synchronise(live: &mut Live, directory: u32) {
    for entry in live.read_dir(directory, None, usize::MAX).unwrap() {
        if live.attributes(entry.inode).unwrap().file_type == FileType::Directory {
            synchronise(live, entry.inode);
        }
        live.fsync(entry.inode).unwrap();
    }
    live.fsync(directory).unwrap();
}

/// A chip before it is damaged, and what is in it.
fn make(chip: &Chip, trouble: Trouble, seed: u64) -> (Vec<u8>, Option<Manifest>) {
    let mut workload = Workload::new(format(chip, &FormatOptions::default()), seed);
    if trouble == Trouble::Cut {
        let kind = CutKind::ALL[seed as usize % CutKind::ALL.len()];
        let cut = Cut { operation: 400 + 97 * seed, kind, seed };
        workload.live.volume_mut().ubi_mut().mtd_mut().order(Some(cut));
        workload.run(OPERATIONS);
        return (abandon(workload.live), None);
    }
    assert!(workload.run(OPERATIONS));
    if trouble.is_cut() {
        let root = workload.live.root();
        synchronise(&mut workload.live, root);
        let before = manifest(&mut workload.live).unwrap();
        return (abandon(workload.live), Some(before));
    }
    workload.close_all();
    let before = manifest(&mut workload.live).unwrap();
    (close(workload.live), Some(before))
}

/// The LEBs of the volume: LEB and sequence number, where the VID header and data stand in the chip.
fn lebs(chip: &Chip, bytes: &[u8]) -> Vec<(VidHeader, usize, Range<usize>)> {
    let peb = chip.peb as usize;
    let leb = |(pnum, bytes): (usize, &[u8])| {
        let ec = EcHeader::parse(&bytes[..64], ReadFlips::default()).ok()?;
        let at = ec.vid_header_offset as usize;
        let vid = VidHeader::parse(&bytes[at..at + 64], ReadFlips::default()).ok()?;
        let data = pnum * peb + ec.data_offset as usize..(pnum + 1) * peb;
        (!vid.is_internal()).then_some((vid, pnum * peb + at, data))
    };
    bytes.chunks(peb).enumerate().filter_map(leb).collect()
}

/// The bytes of a chip that are to be damaged.
fn victims(chip: &Chip, bytes: &[u8], trouble: Trouble) -> Vec<Range<usize>> {
    let lebs = lebs(chip, bytes);
    match trouble {
        Trouble::Master => lebs.iter().filter(|(vid, ..)| vid.lnum == 1).map(|leb| leb.2.clone()).collect(),
        Trouble::Index | Trouble::WornIndex => {
            let index = lebs.iter().filter(|leb| bytes[leb.2.start + TYPE_AT] == INDEX_NODE);
            index.max_by_key(|(vid, ..)| vid.sqnum).map(|leb| leb.2.clone()).into_iter().collect()
        }
        Trouble::VidHeaders => lebs.iter().step_by(5).map(|leb| leb.1..leb.1 + 64).collect(),
        _ => Vec::new(),
    }
}

fn damage(chip: &Chip, bytes: &mut [u8], trouble: Trouble, random: &mut Random) {
    let victims = victims(chip, bytes, trouble);
    assert_eq!(victims.is_empty(), trouble.is_cut());
    victims.into_iter().for_each(|victim| bytes[victim].fill_with(|| random.next() as u8));
}

/// Adds OOB in a file, as Linux does, and makes a bit wrong in every third page.
fn wear(chip: &Chip, image: &Path, random: &mut Random) {
    let (plain, worn) = (image.with_extension("plain"), image.to_str().unwrap());
    std::fs::rename(image, &plain).unwrap();
    let [page, oob] = [chip.page, oob_bytes(chip)].map(|bytes| bytes.to_string());
    let sizes = ["--page-size", &page, "--oob-size", &oob, "--code", "hamming/256", "-o", worn];
    let arguments: Vec<_> = ["ecc", "encode", plain.to_str().unwrap()].into_iter().chain(sizes).collect();
    let encoded = floatgate(&arguments);
    assert!(encoded.status.success(), "{}", String::from_utf8_lossy(&encoded.stderr));
    let mut bytes = std::fs::read(image).unwrap();
    for page in bytes.chunks_mut(full_page(chip)).step_by(3) {
        page[random.below(chip.page as usize)] ^= 1 << random.below(8);
    }
    std::fs::write(image, bytes).unwrap();
}

const fn oob_bytes(chip: &Chip) -> u32 {
    chip.page / 32
}

const fn full_page(chip: &Chip) -> usize {
    (chip.page + oob_bytes(chip)) as usize
}

/// What floatgate finds in a repaired image, which needs no recovery.
fn found(name: &str, chip: &Chip, image: &[u8]) -> Manifest {
    let mut bytes = image.to_vec();
    if image.len() > chip.pebs as usize * chip.peb as usize {
        bytes = image.chunks(full_page(chip)).flat_map(|page| &page[..chip.page as usize]).copied().collect();
    }
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let mut live = mount(chip, &bytes, &options).unwrap_or_else(|why| panic!("{name}: {why}"));
    manifest(&mut live).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn repair(name: &str, image: &Path, out: &Path, trouble: Trouble) {
    let done =
        floatgate(&["image", "check", image.to_str().unwrap(), "--repair", out.to_str().unwrap(), "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|_| panic!("{name}: {}", String::from_utf8_lossy(&done.stderr)));
    let method = if trouble.is_cut() { "recovered" } else { "rebuilt" };
    assert_eq!(report["method"], method, "{name}");
    let code = if report["outcome"] == "wholly" { 0 } else { 1 };
    assert_eq!(done.status.code(), Some(code), "{name}: {}", report["outcome"]);
    assert_eq!(report["corrected_pages"].as_u64() > Some(0), trouble.is_worn(), "{name}");
}

fn repaired(index: usize, folder: &Path) -> (Ours, Before) {
    let troubles = Trouble::ALL.len();
    let (chip, trouble) = (&CHIPS[REPAIRED[(index + index / troubles) % 3]], Trouble::ALL[index % troubles]);
    let name = format!("{index:02}-{}-{trouble:?}", chip.name);
    let (mut bytes, before) = make(chip, trouble, index as u64);
    let mut random = Random(index as u64);
    damage(chip, &mut bytes, trouble, &mut random);
    let (broken, image) = (folder.join(format!("{name}.broken")), folder.join(format!("{name}.bin")));
    std::fs::write(&broken, &bytes).unwrap();
    if trouble.is_worn() {
        wear(chip, &broken, &mut random);
    }
    repair(&name, &broken, &image, trouble);
    let manifest = found(&name, chip, &std::fs::read(&image).unwrap());
    (Ours { name, chip, image, manifest }, before)
}

/// What is judged, and what was in each before.
fn judged() -> &'static (Judged, Vec<Before>) {
    static JUDGED: OnceLock<Result<(Judged, Vec<Before>), String>> = OnceLock::new();
    let judged = JUDGED.get_or_init(|| {
        let folder = fresh("ubifs-repaired");
        let all = 0..few_or_all(1, REPAIRED.len()) * Trouble::ALL.len();
        let (images, before) = all.map(|index| repaired(index, &folder)).unzip();
        Judged::by_kernel("repaired", images).map(|judged| (judged, before))
    });
    judged.as_ref().unwrap_or_else(|why| panic!("{why}"))
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_finds_what_was_saved() {
    judged().0.assert_found();
}

/// With all of its checks on: not even that recovery is needed, nor that a bit was wrong.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_does_not_complain_about_what_was_repaired() {
    judged().0.assert_silent(|_, _| false);
}

/// What was synchronised is there as it was. Of what was damaged all files are there: no node of theirs was hit, or it was found in
/// a LEB that had lost its number.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn all_files_are_saved() {
    let (judged, before) = judged();
    assert_no_differences(judged.images.iter().zip(before).filter_map(|(ours, before)| {
        let before = before.as_ref()?;
        if ours.name.ends_with("Synced") {
            return Some((ours.name.clone(), before.differences(&ours.manifest)));
        }
        let comparable = |manifest: &Manifest| manifest.clone().without(&["ino"], |_| true);
        let differences = comparable(before).differences(&comparable(&ours.manifest));
        Some((ours.name.clone(), differences))
    }));
}

/// The kernel went on with what it found.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn floatgate_reads_what_the_kernel_made_of_what_was_repaired() {
    judged().0.assert_read_after(found);
}

/// Types of nodes that are damaged in a dense image: inode, data, entry, superblock, master, index.
const NODES: [u8; 6] = [0, 1, 2, 6, 7, INDEX_NODE];

/// Makes the last node of a type unreadable.
fn damage_node(image: &Path, node_type: u8) {
    let mut bytes = std::fs::read(image).unwrap();
    let magic = 0x0610_1831_u32.to_le_bytes();
    let is_node = |at: &usize| bytes[*at..].starts_with(&magic) && bytes[at + TYPE_AT] == node_type;
    let node = (0..bytes.len() - 64).step_by(8).rfind(is_node).unwrap();
    bytes[node + 24..node + 64].fill(0x5A);
    std::fs::write(image, bytes).unwrap();
}

/// A repaired image is no larger than the damaged one, also where the filesystem ends behind its data: the kernel attaches and mounts it
/// on the smallest flash that the damaged one fits.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_mounts_what_was_repaired_of_dense_images() {
    let folder = fresh("ubifs-repaired-dense");
    let tree = sources(&folder);
    let cases: Vec<Case> = NODES
        .iter()
        .map(|&node_type| {
            let name = format!("dense-{node_type}");
            let [broken, image] = ["broken", "bin"].map(|end| folder.join(format!("{name}.{end}")));
            let pebs = build(&tree, &broken, true, false);
            damage_node(&broken, node_type);
            let arguments = ["image", "check", broken.to_str().unwrap(), "--repair", image.to_str().unwrap()];
            let repaired = floatgate(&arguments);
            let said = String::from_utf8_lossy(&repaired.stdout);
            assert!(matches!(repaired.status.code(), Some(0 | 1)), "{name}: {said}");
            assert!(!said.contains("LEBs instead of"), "{name}: {said}");
            assert!(std::fs::metadata(&image).unwrap().len() <= u64::from(pebs) << 16, "{name}");
            Case { line: format!("{name} nor-{pebs}"), image: Some(image) }
        })
        .collect();
    assert_mounted("repaired-dense", &cases);
}

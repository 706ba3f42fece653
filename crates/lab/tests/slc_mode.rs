//! Tests of MLC chips of the catalogue, in normal mode and in slc-mode.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use crate::common::{TIMING_ONLY, bytes, config, library, rig_of};
use floatgate_config::{Kind, Override, Source};
use floatgate_lab::part_sizes;
use floatgate_media::ubi;
use floatgate_mtd::{FlashKind, Mtd};
use floatgate_sim::partition;
use floatgate_sim::rig::{Rig, RigOptions, wire};

const BOARD: &str = "chip-h27ucg8t2etr-bc";
const SLC: &str = "partition.slc=true";

/// An MLC chip on the board's controller, with its required ECC.
fn board(chip: &str, sets: &[&str], options: RigOptions) -> Rig {
    let text = format!("chip = '{chip}'\ncontroller = 'sunxi-nand'\necc.engine = 'pipelined'");
    let setup = library().setup_from(&Source::text("board", &text)).unwrap();
    let config = library().resolve(&setup, &Override::parse_all(sets).unwrap()).unwrap();
    rig_of(&config, options)
}

/// All parts with paired pages.
fn paired() -> Vec<String> {
    let mlc = |name: &&str| library().load(Kind::Part, name).unwrap().table.get("mlc").is_some();
    library().names(Kind::Part).filter(mlc).map(str::to_owned).collect()
}

#[test]
fn every_chip_with_two_bits_a_cell_says_which_pages_are_paired() {
    for name in library().names(Kind::Part) {
        let table = library().load(Kind::Part, name).unwrap().table;
        let bits: u32 = table.extract_or_default("geometry.bits_per_cell").unwrap();
        assert_eq!(bits == 2, table.get("mlc").is_some(), "{name}");
    }
    assert!(paired().len() >= 4);
}

#[test]
fn the_boards_root_file_system_has_the_size_that_linux_shows() {
    // Source: "the rootfs partition starts at physical 0x1000000 ... exposes 4,286,578,688 logical bytes". 4 blocks are
    // reserved for booting.
    let g = rig_of(&config(BOARD, &[]), TIMING_ONLY).device.geometry().clone();
    assert_eq!(g.size_bytes - 4 * u64::from(g.erase_bytes), 4_286_578_688);
    assert_eq!((g.kind, g.erase_bytes, g.write_bytes), (FlashKind::SlcModeNand, 2 << 20, 16 << 10));
}

/// The size of a partition counts the bytes that programs see, as everywhere else.
#[test]
fn a_partition_in_slc_mode_has_the_size_that_was_asked_for() {
    let base = config(BOARD, &[]);
    let wanted = 64 << 20;
    let sets = [partition::of_size(&base, wanted).unwrap()];
    let sized = library().resolve(&library().setup(BOARD).unwrap(), &sets).unwrap();
    assert_eq!(rig_of(&sized, TIMING_ONLY).device.geometry().size_bytes, wanted);
}

#[test]
fn data_comes_back_in_slc_mode_on_every_paired_chip() {
    for chip in paired() {
        let mut rig = board(&chip, &[SLC], RigOptions { bad_blocks: 3, ..RigOptions::default() });
        let block = u64::from(rig.device.geometry().erase_bytes);
        let data = bytes(7, block as usize);
        let mut now = rig.now();
        let good: Vec<u64> = (1..rig.device.geometry().blocks().into())
            .map(|number| number * block)
            .filter(|&addr| !rig.device.is_bad(now, addr).unwrap().0)
            .take(2)
            .collect();
        for &addr in &good {
            now = rig.device.erase(now, addr, block).unwrap().at;
            now = rig.device.write(now, addr, &data).unwrap().at;
        }
        for &addr in &good {
            let mut back = vec![0; data.len()];
            now = rig.device.read(now, addr, &mut back).unwrap().at;
            assert!(back == data, "{chip} {addr:#x}");
        }
    }
}

/// Writing a whole block takes the same time with separate LSB and MSB page times as with one mean time, within 10 %,
/// the error of a part. The half that slc-mode uses takes less than half of that time.
#[test]
fn a_block_takes_the_mean_and_slc_mode_less_than_half() {
    for chip in paired() {
        let block = |rig: &mut Rig| {
            let (len, now) = (rig.device.geometry().erase_bytes as usize, rig.now());
            rig.device.write(now, 0, &vec![0; len]).unwrap().at.since(now).as_ns()
        };
        let apart = block(&mut board(&chip, &[], TIMING_ONLY));
        let half = block(&mut board(&chip, &[SLC], TIMING_ONLY));
        let part = library().load(Kind::Part, &chip).unwrap();
        let typ: f64 = part.table.extract("timing.t_prog_us.typ").unwrap();
        let even = format!("chip.mlc.t_prog_lsb_us.typ={typ}");
        let odd = format!("chip.mlc.t_prog_msb_us.typ={typ}");
        let mean = block(&mut board(&chip, &[&even, &odd], TIMING_ONLY));
        assert!(apart.abs_diff(mean) * 10 <= mean, "{chip}: {apart} and {mean} ns");
        assert!(half * 2 < apart, "{chip}: {half} and {apart} ns");
    }
}

/// `ubinize --slc` makes an image for the geometry of a slc-mode partition, including sub-pages: the VID header is at
/// the offset that UBI expects.
#[test]
fn images_for_slc_mode_have_the_sizes_of_the_device() {
    for chip in paired() {
        let shape = part_sizes::shape_of_part(library(), &chip).unwrap();
        let shape = part_sizes::in_slc_mode(shape, library(), &chip).unwrap();
        let g = board(&chip, &[SLC], TIMING_ONLY).device.geometry().clone();
        let image = (shape.page_bytes, shape.sub_page_bytes, shape.peb_bytes);
        assert_eq!(image, (g.write_bytes, g.sub_page_bytes, g.erase_bytes), "{chip}");
        let live = ubi::Flash {
            peb_bytes: g.erase_bytes,
            min_io_bytes: g.write_bytes,
            sub_page_bytes: g.sub_page_bytes,
        };
        assert_eq!(shape.ubi().unwrap(), ubi::Geometry::new(live).unwrap(), "{chip}");
    }
}

#[test]
fn chips_with_one_bit_a_cell_have_no_slc_mode() {
    for setup in ["nand-mt29f2g08abaea", "am62a-w35n01jw", "memory-bus-s29gl128p"] {
        let error = wire(library(), &config(setup, &["partition.slc=true"]), TIMING_ONLY).err().unwrap();
        assert!(error.to_string().contains("no page shares its cells"), "{setup}: {error}");
        // A request for the existing mode changes nothing.
        assert!(wire(library(), &config(setup, &["partition.slc=false"]), TIMING_ONLY).is_ok());
    }
}

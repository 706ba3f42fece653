use super::*;
use crate::spi::Variant;
use crate::spi_nor::spec::{EraseType, Octal, OctalSwitch, SpiNorSpec};
use crate::spi_nor::test_parts;

fn round_trip(spec: &SpiNorSpec) -> SpiNorSpec {
    learn(&emit(spec).unwrap(), &spec.id).unwrap()
}

/// Forms of commands without clock limits, which the tables do not contain.
fn forms(list: &[Variant]) -> Vec<(Mode, u8, u8)> {
    let mut forms: Vec<_> = list.iter().map(|v| (v.mode, v.opcode, v.dummy)).collect();
    forms.sort_unstable();
    forms
}

fn opcodes(spec: &SpiNorSpec) -> Vec<(u32, u8, Option<u8>)> {
    spec.erase_types().iter().map(|e: &EraseType| (e.bytes, e.opcode, e.opcode_4b)).collect()
}

#[test]
fn the_tables_of_every_part_tell_what_it_is() {
    for part in test_parts::ALL.into_iter().chain([test_parts::EVERY_MODE]) {
        let spec = test_parts::spec(part);
        let learned = round_trip(&spec);
        assert_eq!(learned.geometry.size_bytes, spec.geometry.size_bytes);
        assert_eq!(learned.geometry.page_bytes, spec.geometry.page_bytes);
        assert_eq!(opcodes(&learned), opcodes(&spec));
        assert_eq!(forms(&learned.reads), forms(&spec.reads));
        assert_eq!(learned.addressing, spec.addressing);
        assert_eq!(learned.quad_enable, spec.quad_enable);
        assert_eq!(learned.soft_reset, spec.soft_reset);
        let suspend = |s: &SpiNorSpec| s.suspend.map(|s| (s.suspend, s.resume));
        assert_eq!(suspend(&learned), suspend(&spec));
        let stateless = |list: &[Variant]| {
            forms(&list.iter().filter(|v| !v.mode.is_stateful()).copied().collect::<Vec<_>>())
        };
        assert_eq!(stateless(&learned.reads_4b), stateless(&spec.reads_4b));
        assert_eq!(stateless(&learned.programs_4b), stateless(&spec.programs_4b));
    }
}

#[test]
fn times_come_back_rounded_up() {
    for part in test_parts::ALL {
        let spec = test_parts::spec(part);
        let learned = round_trip(&spec);
        for (learned, real) in learned.erase_types().iter().zip(spec.erase_types()) {
            let (got, want) = (learned.t_us.typ.as_ns(), real.t_us.typ.as_ns());
            assert!(got >= want && got <= want * 13 / 10, "{got} {want}");
            assert!(learned.t_us.max >= real.t_us.max);
        }
        let (got, want) = (learned.timing.t_pp_us.typ.as_ns(), spec.timing.t_pp_us.typ.as_ns());
        assert!(got >= want && got <= want * 12 / 10, "{got} {want}");
    }
}

#[test]
fn octal_parts_tell_how_to_switch() {
    let spec = test_parts::spec(test_parts::MX25UW12845G);
    let learned = round_trip(&spec);
    let Octal { switch, ext, status_addr_bytes, status_dummy, swap16, .. } = learned.octal.unwrap();
    let real = spec.octal.unwrap();
    assert_eq!((ext, status_addr_bytes, status_dummy), (real.ext, real.status_addr_bytes, real.status_dummy));
    assert!(swap16 && real.swap16);
    let OctalSwitch::Sequence(sequence) = switch else { panic!("not learnt") };
    assert_eq!(sequence.steps[1].sent(), [0x72, 0, 0, 0, 0, 0x02]);
    let read = learned.reads_4b.iter().find(|v| v.mode == Mode::OCTAL_DTR).unwrap();
    assert_eq!((read.opcode, read.dummy, read.max_hz), (0xEE, 20, 200_000_000));
}

#[test]
fn the_catalogue_keeps_its_limits_and_the_chip_its_sizes() {
    let mut spec = test_parts::spec(test_parts::W25Q128JV);
    let learned = round_trip(&spec);
    assert_eq!(merge(spec.clone(), &learned), spec);
    // The entry has a wrong size and lacks a read command.
    let right = spec.clone();
    spec.geometry.size_bytes /= 2;
    spec.reads.retain(|v| v.opcode != 0xEB);
    let merged = merge(spec, &learned);
    assert_eq!(merged.geometry, right.geometry);
    assert_eq!(forms(&merged.reads), forms(&right.reads));
}

#[test]
fn broken_tables_are_refused() {
    let spec = test_parts::spec(test_parts::N25Q128A);
    let area = emit(&spec).unwrap();
    assert!(matches!(learn(&area[..40], &spec.id), Err(NotEnough::Broken(_))));
    assert!(matches!(learn(&[0xFF; 64], &spec.id), Err(NotEnough::Broken(_))));
    let mut no_sfdp = spec;
    no_sfdp.sfdp = false;
    assert!(emit(&no_sfdp).unwrap().is_empty());
}

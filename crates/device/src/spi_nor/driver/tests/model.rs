//! Random operations compared with a model in memory.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Read { addr: u32, len: u16 },
    Write { addr: u32, len: u16, seed: u8 },
    Erase { block: u32, blocks: u8 },
}

const SPAN: u32 = 48 * 1024;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..SPAN, 0u16..5000).prop_map(|(addr, len)| Step::Read { addr, len }),
        (0..SPAN, 0u16..1200, any::<u8>()).prop_map(|(addr, len, seed)| Step::Write { addr, len, seed }),
        (0..SPAN / 4096, 1u8..4).prop_map(|(block, blocks)| Step::Erase { block, blocks }),
    ]
}

/// Executes a write on the model: bits are cleared. A bit that would have to be set makes the program of its
/// page fail.
fn write(model: &mut [u8], addr: usize, data: &[u8]) -> bool {
    let mut at = addr;
    while at < addr + data.len() {
        let end = ((at / 256 + 1) * 256).min(addr + data.len());
        let chunk = &data[at - addr..end - addr];
        if chunk.iter().zip(&model[at..end]).any(|(new, old)| *new != 0xFF && new & !old != 0) {
            return false;
        }
        model[at..end].iter_mut().zip(chunk).for_each(|(old, new)| *old &= new);
        at = end;
    }
    true
}

fn play(rig: &mut Rig, steps: Vec<Step>) {
    let mut model = vec![0xFF; (SPAN + 64 * 1024) as usize];
    let mut at = rig.ready_at();
    let before = rig.breakdown();
    let start = at;
    for step in steps {
        match step {
            Step::Read { addr, len } => {
                let mut got = vec![0x5A; usize::from(len)];
                at = rig.read(at, u64::from(addr), &mut got).unwrap().at;
                assert_eq!(got, model[addr as usize..][..usize::from(len)]);
            }
            Step::Write { addr, len, seed } => {
                let data = bytes(usize::from(len), seed);
                let possible = write(&mut model, addr as usize, &data);
                match rig.write(at, u64::from(addr), &data) {
                    Ok(done) => {
                        assert!(possible);
                        at = done.at;
                    }
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::NotErased);
                        assert!(!possible);
                        at = error.at;
                    }
                }
            }
            Step::Erase { block, blocks } => {
                let (addr, len) = (u64::from(block) * 4096, u64::from(blocks) * 4096);
                at = rig.erase(at, addr, len).unwrap().at;
                model[addr as usize..(addr + len) as usize].fill(0xFF);
            }
        }
    }
    let spent = rig.breakdown() - before;
    assert_eq!(spent.total(), at.since(start));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_chip_behind_its_driver_is_an_array_of_bytes(
        steps in prop::collection::vec(step(), 1..40),
        part in 0usize..4,
        octal in any::<bool>(),
    ) {
        let setup = Setup::new(test_parts::ALL[part]);
        let setup = if octal { setup.board("reset_pin = true") } else { setup };
        play(&mut setup.ready(), steps);
    }
}

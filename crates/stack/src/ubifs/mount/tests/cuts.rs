//! Power cuts at every operation of a format, a mount, a recovery and an unmount.
#![expect(clippy::result_large_err, reason = "the volume comes back with the error")]

use super::*;

/// Cuts power at each operation of `run`, one after the other, until `run` completes. Passes the volume after each
/// cut to `check`, which returns the faults that it finds.
fn at_every_operation(
    volume: &TestVolume,
    run: impl Fn(TestVolume) -> core::result::Result<TestVolume, (Error, TestVolume)>,
    check: impl Fn(TestVolume, bool) -> Result<()>,
) -> u64 {
    for point in 0.. {
        let mut through = 0;
        for seed in 0..4 {
            let mut volume = volume.clone();
            volume.cut_after(point, seed);
            let (done, mut volume) = match run(volume) {
                Ok(volume) => (true, volume),
                Err((error, volume)) => {
                    assert!(error.is_power_loss(), "point {point}, seed {seed}: {error}");
                    (false, volume)
                }
            };
            through += u32::from(done);
            volume.power_on();
            if let Err(error) = check(volume, done) {
                panic!("point {point}, seed {seed}: {error}");
            }
        }
        if through == 4 {
            return point;
        }
    }
    0
}

/// Mounts with recovery, and checks that the file exists.
fn is_sound(volume: TestVolume) -> Result<()> {
    let mut core = Core::mount(volume, &RECOVER).map_err(|(error, _)| error)?;
    assert!(find(&mut core, b"kept").is_some());
    assert_eq!(core.check()?, []);
    create(&mut core, b"new");
    core.commit()?;
    assert_eq!(core.check()?, []);
    Ok(())
}

/// Mounts with recovery and unmounts.
fn cycle(volume: TestVolume) -> core::result::Result<TestVolume, (Error, TestVolume)> {
    Core::mount(volume, &RECOVER)?.unmount()
}

#[test]
fn of_a_format() {
    let points = at_every_operation(
        &volume(),
        |volume| Core::format(volume, &FormatOptions::default())?.unmount(),
        |volume, done| match Core::mount(volume, &RECOVER) {
            Ok(mut core) => {
                assert_eq!(core.check()?, []);
                Ok(())
            }
            Err((error, _)) if done => Err(error),
            // The superblock is written last, so an incomplete format leaves no filesystem.
            Err((Error::Node { lnum: 0, offset: 0, .. }, _)) => Ok(()),
            Err((error, _)) => Err(error),
        },
    );
    assert!(points > 8, "{points}");
}

#[test]
fn of_a_clean_mount() {
    let mut core = fresh();
    create(&mut core, b"kept");
    let volume = unmount(core);
    assert!(at_every_operation(&volume, cycle, |volume, _| is_sound(volume)) >= 4);
}

#[test]
fn of_a_recovery() {
    let mut core = fresh();
    create(&mut core, b"kept");
    let late = create(&mut core, b"late");
    write_block(&mut core, late, 0, &[1; 4096]);
    let (open, _) = core.new_inode().unwrap();
    write_inode(&mut core, inode(open, 0, 0));
    core.commit().unwrap();
    write_block(&mut core, late, 1, &[1; 4096]);
    core.sync_heads().unwrap();
    let volume = cut(&core);
    let points = at_every_operation(&volume, cycle, |volume, _| {
        let mut core = mount(volume.clone(), &RECOVER);
        assert_eq!(core.read_inode(late)?.map(|inode| inode.size), Some(8192));
        assert_eq!(core.read_inode(open)?, None);
        is_sound(volume)
    });
    assert!(points >= 10, "{points}");
}

#[test]
fn of_fixing_up_space() {
    let options = FormatOptions { space_fixup: true, deferred: true, ..FormatOptions::default() };
    let mut core = Core::format(volume(), &options).unwrap_or_else(|(error, _)| panic!("{error}"));
    create(&mut core, b"kept");
    let image = unmount(core);
    assert!(at_every_operation(&image, cycle, |volume, _| is_sound(volume)) >= 6);
}

#[test]
fn of_growing() {
    let options = FormatOptions { max_lebs: Some(80), ..FormatOptions::default() };
    let mut core = Core::format(volume(), &options).unwrap_or_else(|(error, _)| panic!("{error}"));
    create(&mut core, b"kept");
    let large = enlarged(&unmount(core), 100);
    at_every_operation(&large, cycle, |volume, _| is_sound(volume));
}

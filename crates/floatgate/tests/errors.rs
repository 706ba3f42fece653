//! Tests that errors are typed, contain the position, and give advice.

use crate::small;
use floatgate::config::Problem;
use floatgate::mtd::ErrorKind;
use floatgate::{Access, Error, Image, Result, Setup};
use std::path::Path;

fn problem<T>(outcome: Result<T>) -> (Problem, Error) {
    let error = outcome.err().unwrap();
    let Error::Setup(inner) = &error else { panic!("{error}") };
    (inner.config().unwrap().problem(), error)
}

#[test]
fn an_unknown_setup_names_the_nearest() {
    let (problem, error) = problem(Setup::named("imx6-mx30lf2g18a"));
    assert_eq!(problem, Problem::UnknownName);
    assert_eq!(error.to_string(), "no setup and no part is called `imx6-mx30lf2g18a`");
    assert!(error.help().unwrap().contains("imx6-mx30lf2g18ac"), "{error:?}");
    // Output of `main` for this error.
    let printed = format!("{error:?}");
    assert!(printed.starts_with(&format!("{error}\nhelp: nearest: ")), "{printed}");
    assert!(Setup::names().any(|name| name == "imx6-mx30lf2g18ac"));
}

#[test]
fn wrong_changes_are_refused() {
    let with = |change: &str| small().with(change).and_then(|setup| setup.flash());
    assert_eq!(problem(small().with("chip")).0, Problem::Override);
    let (unknown, error) = problem(with("chip=w35n01j"));
    assert_eq!(unknown, Problem::UnknownName);
    assert!(error.help().unwrap().contains("w35n01jw"), "{error:?}");
    assert_eq!(problem(with("bus.clock_hz=fast")).0, Problem::WrongValue);
    assert_eq!(problem(with("buses.clock_hz=1")).0, Problem::UnknownKey);
    assert_eq!(problem(small().bad_blocks(100_000).flash()).0, Problem::WrongValue);
    let (wrong, error) = problem(
        small().with("filesystem.compression=zstd").unwrap().with("filesystem.sinc=1").unwrap().ubifs(),
    );
    assert_eq!(wrong, Problem::UnknownKey, "{error}");
    let zstd = small().with("filesystem.compression=zstd").unwrap();
    assert!(zstd.ubifs().is_ok());
    assert_eq!(
        zstd.jffs2().err().unwrap().help().unwrap(),
        "set filesystem.compression to zlib, lzo or none"
    );
}

#[test]
fn a_wrong_text_is_pointed_into() {
    let base = "base = 'am62a-nopm-w35n01jw'\n";
    assert!(Setup::from_toml(base).unwrap().flash().is_ok());
    let wrong = Setup::from_toml(&format!("{base}bus.clock_hz = 'fast'\n")).unwrap().flash();
    let (_, error) = problem(wrong);
    assert!(error.to_string().starts_with("the setup's text:2:16: "), "{error}");
    assert_eq!(problem(Setup::from_toml("chip = ")).0, Problem::Syntax);
    assert_eq!(problem(Setup::named("./no-such-board.toml")).0, Problem::MissingFile);
    // A setup from a text without a chip is complete as soon as a chip is set.
    let bare = Setup::from_toml("title = 'mine'").unwrap();
    assert_eq!(problem(bare.config()).0, Problem::MissingKey);
    assert!(bare.with("chip=w25q128jv").unwrap().config().is_ok());
}

#[test]
fn wrong_addresses_are_refused() {
    let mut flash = small().flash().unwrap();
    let kind = |outcome: Result<floatgate::OperationTime>| match outcome {
        Err(Error::Flash(error)) => error.kind,
        other => panic!("{other:?}"),
    };
    let (page, size) = (flash.geometry().write_bytes, flash.geometry().size_bytes);
    assert!(matches!(kind(flash.read(size, &mut [0])), ErrorKind::OutOfRange { .. }));
    assert!(matches!(kind(flash.erase_block(u32::MAX)), ErrorKind::OutOfRange { .. }));
    assert!(matches!(kind(flash.write(1, &[0])), ErrorKind::Misaligned { .. }));
    flash.erase_block(0).unwrap();
    flash.write(0, &vec![0; page as usize]).unwrap();
    let again = flash.write(0, &vec![0; page as usize]).unwrap_err();
    assert!(again.help().is_some(), "{again:?}");
}

#[test]
fn flash_without_a_filesystem_does_not_mount() {
    let refused = small().ubifs().unwrap().mount(small().flash().unwrap()).unwrap_err();
    assert!(matches!(&refused, Error::Mount(why) if why.contains("volume")), "{refused}");
    assert!(refused.help().unwrap().contains("format"));
    let tiny = Setup::named("am62a-nopm-w35n01jw").unwrap().with("partition.size=256KiB").unwrap();
    let refused = tiny.ubifs().unwrap().format(tiny.flash().unwrap()).unwrap_err();
    assert!(matches!(refused, Error::Setup(_)) && refused.help().is_some(), "{refused:?}");
}

#[test]
fn errors_of_images_are_errors_of_this_crate() {
    let open = || -> Result<Image> { Ok(Image::open(Path::new("no-such-image"), Access::Read)?) };
    let error = open().err().unwrap();
    assert!(matches!(error, Error::Image(_)) && error.help().is_some(), "{error:?}");
}

//! The kernel reads images that it wrote itself and floatgate changed.

use crate::judge::fresh;
use crate::manifest::assert_no_differences;
use crate::ubifs::{Case, Chip, Pair, floatgate, pair, rounds, run};
use crate::ubifs_reads::{compare, trees};
use std::path::{Path, PathBuf};

/// Files to put into the images.
pub(crate) fn sources(folder: &Path) -> PathBuf {
    let tree = folder.join("put");
    std::fs::create_dir_all(tree.join("deep/er")).unwrap();
    for n in 0..40 {
        std::fs::write(tree.join(format!("deep/file-{n}")), format!("{n} ").repeat(n * 50)).unwrap();
    }
    std::fs::hard_link(tree.join("deep/file-9"), tree.join("again")).unwrap();
    std::os::unix::fs::symlink("deep/file-9", tree.join("soft")).unwrap();
    let mut sparse = vec![0; 90_000];
    sparse[50_000..50_010].fill(7);
    std::fs::write(tree.join("sparse"), sparse).unwrap();
    tree
}

/// Changes a copy of an image in many small steps, each a mount of its own.
fn edited(tree: &Pair, put: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join(tree.image.file_name().unwrap());
    std::fs::copy(&tree.image, &copy).unwrap();
    let (image, put) = (copy.to_str().unwrap(), put.to_str().unwrap());
    let steps: [&[&str]; 9] = [
        &["put", image, put, "/"],
        &["mkdir", image, "-p", "/edited/some/where", "--mode", "1777"],
        &["mv", image, "/put/deep/file-39", "/edited/some"],
        &["ln", image, "/put/again", "/edited/hard"],
        &["ln", image, "-s", "over/there", "/edited/soft"],
        &["chmod", image, "-R", "u+s,o-r", "/edited"],
        &["chown", image, "-R", "70000:8", "/put"],
        &["setxattr", image, "/put/sparse", "user.some", "thing"],
        &["rm", image, "-r", "/put/deep/er", "/put/deep/file-1"],
    ];
    for step in steps {
        let output = floatgate(&[&["image"][..], step].concat());
        assert!(
            output.status.success(),
            "{}: {step:?}: {}",
            tree.name,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    copy
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_reads_what_was_changed() {
    let folder = fresh("ubifs-edited");
    let put = sources(&folder);
    let trees = trees(rounds().div_ceil(2));
    let case = |(index, (tree, chip, _)): (usize, &(Pair, &Chip, &str))| Case {
        line: format!("{} {} {index}", tree.name, chip.name),
        image: Some(edited(tree, &put, &folder)),
    };
    let cases: Vec<_> = trees.iter().enumerate().map(case).collect();
    let outputs = run("reads", "edited", &cases).unwrap_or_else(|why| panic!("{why}"));
    assert_no_differences(trees.iter().map(|(tree, ..)| {
        let found = outputs.iter().map(|folder| pair(&folder.join(format!("{}.bin", tree.name))));
        let Some((complaints, manifest)) =
            found.filter_map(|pair| Some((pair.complaints, pair.manifest?))).next()
        else {
            return (tree.name.clone(), vec!["the kernel does not mount it".to_owned()]);
        };
        let differences = compare(&folder.join(format!("{}.bin", tree.name)), &manifest);
        (tree.name.clone(), differences.into_iter().chain(complaints).collect())
    }));
}

/// Builds an image for NOR, of as few LEBs as hold the files or of as many as `image build` chooses. Returns the number of PEBs of
/// the smallest flash that its volume fits.
pub(crate) fn build(tree: &Path, image: &Path, dense: bool, autoresize: bool) -> u32 {
    let mut arguments = ["image", "build", tree.to_str().unwrap(), "-o", image.to_str().unwrap()].to_vec();
    arguments.extend(["--page-size", "1", "--peb-size", "64KiB", "--volume", "fixture", "--json"]);
    arguments.extend(autoresize.then_some("--autoresize"));
    let built = if dense {
        (17..200)
            .map(|lebs| floatgate(&[&arguments[..], &["--max-lebs", &lebs.to_string()]].concat()))
            .find(|output| output.status.success())
            .unwrap()
    } else {
        floatgate(&arguments)
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let report: serde_json::Value = serde_json::from_slice(&built.stdout).unwrap();
    // Beside the LEBs: two of the volume table, one for wear levelling, one for changing LEBs.
    u32::try_from(report["lebs"].as_u64().unwrap()).unwrap() + 4
}

/// A change keeps the sizes of volume and image: the kernel attaches and mounts the changed image on the smallest flash that the old
/// one fits, whether or not its volume asks for all space.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_mounts_what_was_changed_on_flash_of_its_size() {
    let folder = fresh("ubifs-exact");
    let tree = sources(&folder);
    std::fs::write(tree.join("small"), "12345678").unwrap();
    let new = folder.join("small");
    std::fs::write(&new, "abcdefgh").unwrap();
    let mut cases = Vec::new();
    for (dense, autoresize) in [(true, false), (true, true), (false, false), (false, true)] {
        let name = format!("exact-{}", cases.len());
        let image = folder.join(format!("{name}.bin"));
        let pebs = build(&tree, &image, dense, autoresize);
        let path = image.to_str().unwrap();
        let steps: [&[&str]; 3] = [
            &["put", path, new.to_str().unwrap(), "/"],
            &["chmod", path, "0600", "/small"],
            &["mkdir", path, "/made"],
        ];
        for step in steps {
            let output = floatgate(&[&["image"][..], step].concat());
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
        assert!(std::fs::metadata(&image).unwrap().len() <= u64::from(pebs) << 16, "{name}");
        cases.push(Case { line: format!("{name} nor-{pebs}"), image: Some(image) });
    }
    assert_mounted("exact", &cases);
}

/// The kernel mounts images on their flash, finds what floatgate finds, and does not complain.
pub(crate) fn assert_mounted(batch: &str, cases: &[Case]) {
    let outputs = run("reads", batch, cases).unwrap_or_else(|why| panic!("{why}"));
    assert_no_differences(cases.iter().map(|case| {
        let image = case.image.as_ref().unwrap();
        let name = image.file_name().unwrap();
        let found: Vec<_> = outputs.iter().map(|folder| pair(&folder.join(name))).collect();
        let complaints = found.iter().flat_map(|pair| pair.complaints.clone());
        let differences = match found.iter().find_map(|pair| pair.manifest.as_ref()) {
            Some(manifest) => compare(image, manifest),
            None => vec!["the kernel does not mount it".to_owned()],
        };
        (case.line.clone(), differences.into_iter().chain(complaints).collect())
    }));
}

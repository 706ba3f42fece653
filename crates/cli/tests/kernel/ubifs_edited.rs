//! The kernel reads images that it wrote itself and floatgate changed.

use crate::judge::fresh;
use crate::manifest::assert_no_differences;
use crate::ubifs::{Case, Chip, Pair, floatgate, pair, run};
use crate::ubifs_reads::{compare, trees};
use std::path::{Path, PathBuf};

/// Trees of each chip.
const TREES: usize = 2;

/// Files to put into the images.
fn sources(folder: &Path) -> PathBuf {
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
    let trees = trees(TREES);
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

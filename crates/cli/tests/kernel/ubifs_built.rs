//! The kernel reads what `floatgate image build` made: of trees that the kernel wrote, by way of a tar.

use crate::judge::fresh;
use crate::manifest::assert_no_differences;
use crate::ubifs::{Case, Chip, Pair, floatgate, run};
use crate::ubifs_reads::{expected, trees};
use std::path::{Path, PathBuf};

/// Trees of each chip.
const TREES: usize = 1;

/// `image build` for a chip, from a tar.
fn build(tree: &Pair, chip: &Chip, compressor: &str, folder: &Path) -> PathBuf {
    let path = |end: &str| folder.join(format!("{}{end}", tree.name)).to_str().unwrap().to_owned();
    let (tar, image) = (path(".tar"), path(".bin"));
    // Sockets are losses of a tar.
    let extracted = floatgate(&["image", "extract", tree.image.to_str().unwrap(), &tar]);
    assert!(matches!(extracted.status.code(), Some(0 | 1)), "{}: {extracted:?}", tree.name);
    let [page, sub_page, peb] = [chip.page, chip.sub_page, chip.peb].map(|bytes| bytes.to_string());
    let sizes = ["--page-size", &page, "--sub-page-size", &sub_page, "--peb-size", &peb];
    let rest =
        ["--compress", compressor, "--volume", "fixture", "--autoresize", "--max-lebs", "300", "-o", &image];
    let arguments: Vec<_> = ["image", "build", &tar].into_iter().chain(sizes).chain(rest).collect();
    let built = floatgate(&arguments);
    assert!(built.status.success(), "{}: {}", tree.name, String::from_utf8_lossy(&built.stderr));
    image.into()
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_finds_what_was_built() {
    let folder = fresh("ubifs-built");
    let trees = trees(TREES);
    let images: Vec<_> =
        trees.iter().map(|(tree, chip, compressor)| build(tree, chip, compressor, &folder)).collect();
    let line = |(index, (tree, chip, _)): (usize, &(Pair, &Chip, &str))| Case {
        line: format!("{} {} {index}", tree.name, chip.name),
        image: Some(images[index].clone()),
    };
    let cases: Vec<_> = trees.iter().enumerate().map(line).collect();
    let outputs = run("reads", "built", &cases).unwrap_or_else(|why| panic!("{why}"));
    assert_no_differences(trees.iter().map(|(tree, ..)| {
        let found = outputs.iter().map(|folder| folder.join(format!("{}.bin", tree.name)));
        let found = found.map(|image| crate::ubifs::pair(&image)).find(|pair| pair.manifest.is_some());
        let Some(found) = found else {
            return (tree.name.clone(), vec!["the kernel does not mount it".to_owned()]);
        };
        let before = expected(tree.manifest.as_ref().unwrap());
        let differences = before.differences(&expected(&found.manifest.unwrap()));
        (tree.name.clone(), differences.into_iter().chain(found.complaints).collect())
    }));
}

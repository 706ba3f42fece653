//! Filesystems that floatgate wrote, and what the kernel made of them.

use crate::manifest::{Manifest, assert_no_differences};
use crate::ubifs::{Case, Chip, pair, run};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An image, and what floatgate finds in it.
pub(crate) struct Ours {
    pub(crate) name: String,
    pub(crate) chip: &'static Chip,
    pub(crate) image: PathBuf,
    pub(crate) manifest: Manifest,
}

pub(crate) struct Judged {
    pub(crate) images: Vec<Ours>,
    outputs: Vec<PathBuf>,
}

impl Judged {
    /// Has the kernel mount all images for writing, and go on with them.
    pub(crate) fn by_kernel(batch: &str, images: Vec<Ours>) -> Result<Self, String> {
        let line = |(index, ours): (usize, &Ours)| Case {
            line: format!("{} {} {index}", ours.name, ours.chip.name),
            image: Some(ours.image.clone()),
        };
        let cases: Vec<_> = images.iter().enumerate().map(line).collect();
        run("reads", batch, &cases).map(|outputs| Self { images, outputs })
    }

    /// The kernel's files of an image that have this ending, by the image's name.
    fn theirs(&self, end: &str) -> BTreeMap<String, PathBuf> {
        let all = self.images.iter().flat_map(|ours| {
            let file = format!("{}{end}", ours.name);
            self.outputs.iter().map(move |folder| (ours.name.clone(), folder.join(&file)))
        });
        all.filter(|(_, path)| path.exists()).collect()
    }

    /// The kernel finds what floatgate finds.
    pub(crate) fn assert_found(&self) {
        let manifests = self.theirs(".manifest");
        assert_no_differences(self.images.iter().map(|ours| {
            let Some(theirs) = manifests.get(&ours.name) else {
                return (ours.name.clone(), vec!["the kernel does not mount it".to_owned()]);
            };
            let theirs = Manifest::parse(&std::fs::read_to_string(theirs).unwrap());
            (ours.name.clone(), theirs.differences(&ours.manifest))
        }));
    }

    /// What the kernel's `statfs` says of each image: bytes of a block, blocks, free and available ones.
    pub(crate) fn statfs(&self) -> BTreeMap<String, Vec<u64>> {
        let numbers = |path: &PathBuf| -> Vec<u64> {
            let text = std::fs::read_to_string(path).unwrap();
            text.split_whitespace().map(|number| number.parse().unwrap()).collect()
        };
        self.theirs(".statfs").iter().map(|(name, path)| (name.clone(), numbers(path))).collect()
    }

    /// The kernel's log has no line but those that are `usual` of an image of this name.
    pub(crate) fn assert_silent(&self, usual: impl Fn(&str, &str) -> bool) {
        let logs = self.theirs(".log");
        assert_no_differences(self.images.iter().map(|ours| {
            let log = std::fs::read_to_string(&logs[&ours.name]).unwrap();
            let lines = log.lines().filter(|line| !usual(&ours.name, line)).map(str::to_owned);
            (ours.name.clone(), lines.collect())
        }));
    }

    /// Floatgate reads what the kernel made of every image; `found` does so.
    pub(crate) fn assert_read_after(&self, found: impl Fn(&str, &Chip, &[u8]) -> Manifest) {
        let images = self.theirs("-after.bin");
        assert_eq!(images.len(), self.images.len());
        assert_no_differences(self.images.iter().map(|ours| {
            let after = pair(&images[&ours.name]);
            let found = found(&after.name, ours.chip, &std::fs::read(&after.image).unwrap());
            (after.name, after.manifest.map_or_else(|| after.complaints, |theirs| theirs.differences(&found)))
        }));
    }
}

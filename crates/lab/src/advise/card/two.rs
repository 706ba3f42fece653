//! A card with two partitions: FAT, from which a boot ROM loads, and the root of a system.

use super::super::mkfs::{BlockFs, Need, PartitionShape, recipe};
use super::super::{Point, size};
use super::facts::{DeviceFacts, FIRST_MIN};
use super::points::{device, label, node, sectors_of};
use crate::Error;

/// Size of the boot partition in bytes, as Raspberry Pi OS has it.
const BOOT_BYTES: u64 = 512 << 20;

/// Places of the two partitions.
pub(super) struct TwoPartitions {
    boot_start: u64,
    boot: PartitionShape,
    pub(super) root_start: u64,
    pub(super) root: PartitionShape,
}

impl TwoPartitions {
    /// The places, if a boot ROM needs FAT, and FAT does not meet the other needs.
    ///
    /// # Errors
    /// The card has no room for both.
    pub(super) fn of(known: &DeviceFacts, needs: &[Need]) -> Result<Option<Self>, Error> {
        let is_beyond_fat = needs.iter().any(|need| need.unmet_by(BlockFs::Vfat).is_some());
        if !needs.contains(&Need::Boot) || !is_beyond_fat {
            return Ok(None);
        }
        let (boot_start, whole) = known.place();
        let boot_bytes = BOOT_BYTES.next_multiple_of(whole.au_bytes);
        let root_bytes = whole.bytes.saturating_sub(boot_bytes);
        if root_bytes < FIRST_MIN.max(whole.au_bytes) {
            return Err(Error::request(
                format!(
                    "{}: it has {}, and no room for a root behind a boot partition of {}",
                    known.target,
                    size(known.capacity_bytes),
                    size(boot_bytes)
                ),
                "take a larger card",
            ));
        }
        Ok(Some(Self {
            boot_start,
            boot: PartitionShape { bytes: boot_bytes, ..whole },
            root_start: boot_start + boot_bytes,
            root: PartitionShape { bytes: root_bytes, ..whole },
        }))
    }

    /// Needs that the root has to meet: what only FAT meets is met by the boot partition.
    pub(super) fn needs_of_root(needs: &[Need]) -> Vec<Need> {
        needs.iter().copied().filter(|need| !matches!(need, Need::Boot | Need::Windows)).collect()
    }

    /// Changes the points of a card with the partition of the root alone into those of both partitions.
    pub(super) fn lay_out(&self, points: &mut [Point], known: &DeviceFacts, fs: BlockFs) {
        let device = device(known);
        let (boot_node, root_node) = (node(device, 1), node(device, 2));
        for point in points {
            match &*point.topic {
                "partition start" => {
                    point.advice = format!(
                        "make two partitions at borders of allocation units: FAT of {}, from which the board boots, at sector {}, and the root at sector {} ({})",
                        size(self.boot.bytes),
                        sectors_of(self.boot_start),
                        sectors_of(self.root_start),
                        size(self.root_start)
                    );
                    point.commands = vec![self.table(device, fs).into()];
                }
                // A card that loses data has none.
                "filesystem" if !point.advice.starts_with("none") => {
                    point.advice = format!("for the root: {}", point.advice);
                    point.would_change.retain(|finding| !finding.to_string().contains("a boot ROM"));
                }
                "mkfs and mount" => {
                    let (boot, root) = (recipe(BlockFs::Vfat, &self.boot), recipe(fs, &self.root));
                    let mount = |fs: BlockFs, options: &str, node: &str, place: &str| {
                        format!("mount -t {} -o {options} {node} {place}", fs.name())
                    };
                    point.commands = vec![
                        format!("{} {boot_node}", boot.mkfs).into(),
                        format!("{} {root_node}", root.mkfs).into(),
                        mount(fs, &root.mount, &root_node, "/mnt").into(),
                        format!(
                            "mkdir /mnt/boot && {}",
                            mount(BlockFs::Vfat, &boot.mount, &boot_node, "/mnt/boot")
                        )
                        .into(),
                        format!("root={root_node} rootfstype={} rootwait", fs.name()).into(),
                    ];
                    point.rests_on.push(
                        "the last line belongs to the parameters of the kernel, with the name that the device has on the board"
                            .to_owned(),
                    );
                    point.rests_on.extend(boot.why.iter().map(|why| format!("boot partition: {why}")));
                    point.rests_on.push(
                        "FAT has no journal: mount the boot partition read-only but for updates".to_owned(),
                    );
                }
                _ => {}
            }
        }
    }

    /// The command that writes the partition table.
    fn table(&self, device: &str, fs: BlockFs) -> String {
        let label = label(self.root_start + self.root.bytes);
        let line = |start: u64, bytes: u64, fs: BlockFs| {
            let kind = if label == "dos" { format!(", type={}", fs.partition_type()) } else { String::new() };
            format!("start={}, size={}{kind}\\n", sectors_of(start), sectors_of(bytes))
        };
        let boot = line(self.boot_start, self.boot.bytes, BlockFs::Vfat);
        let root = line(self.root_start, self.root.bytes, fs);
        format!("printf 'label: {label}\\n{boot}{root}' | sfdisk {device}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::load;
    use floatgate_config::Library;

    #[test]
    fn boot_and_root_share_a_card() {
        let card = load(&Library::built_in(), "samsung-evo-16g", &[]).unwrap();
        let known = DeviceFacts::of_card("samsung-evo-16g", &card);
        let of = |needs: &[Need]| TwoPartitions::of(&known, needs).unwrap();
        assert!(of(&[Need::Boot]).is_none() && of(&[Need::Root, Need::Fsck]).is_none());
        let needs = [Need::Boot, Need::Root, Need::Fsck, Need::PowerCuts];
        let two = of(&needs).unwrap();
        assert_eq!(TwoPartitions::needs_of_root(&needs), [Need::Root, Need::Fsck, Need::PowerCuts]);
        let (start, whole) = known.place();
        assert_eq!(two.root_start, start + (512 << 20));
        assert_eq!(two.boot.bytes + two.root.bytes, whole.bytes);
        let mut points =
            ["partition start", "filesystem", "mkfs and mount"].map(|topic| Point::new(topic, ""));
        two.lay_out(&mut points, &known, BlockFs::F2fs);
        let commands: Vec<String> =
            points.iter().flat_map(|point| &point.commands).map(ToString::to_string).collect();
        let root = two.root.bytes / 512;
        assert_eq!(
            commands[0],
            format!(
                "printf 'label: dos\\nstart=8192, size=1048576, type=c\\nstart=1056768, size={root}, type=83\\n' | sfdisk /dev/mmcblk0"
            )
        );
        assert!(commands[1].starts_with("mkfs.fat ") && commands[1].ends_with(" /dev/mmcblk0p1"));
        assert!(commands[2].starts_with("mkfs.f2fs ") && commands[2].ends_with(" /dev/mmcblk0p2"));
        assert_eq!(commands[5], "root=/dev/mmcblk0p2 rootfstype=f2fs rootwait");
    }
}

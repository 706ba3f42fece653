//! Properties of a device, from the catalogue; `probed` reads those from a probe.

use super::super::existing::Existing;
use super::super::figures::Figures;
use super::super::mkfs::PartitionShape;
use super::super::size;
use crate::card::LoadedCard;
use floatgate_card::{CardSpec, LossSpec};
use serde::Deserialize;

/// A number with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The number itself, in the unit of its field.
    pub value: u64,
    /// Probability that it is right.
    pub confidence: f64,
    /// Other values and their probabilities.
    pub alternatives: Vec<(u64, f64)>,
    /// Text about the origin of the value.
    pub reason: String,
}

/// Properties of a device on which advice depends.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFacts {
    /// Name or path of the device.
    pub target: String,
    /// Description in one line.
    pub title: String,
    /// Real size in bytes.
    pub capacity_bytes: u64,
    /// Size that the device reports in bytes, if it differs from the real size.
    pub claimed_bytes: Option<u64>,
    /// Size of an allocation unit in bytes.
    pub au_bytes: Evidence,
    /// Position of the first border in bytes.
    pub phase_bytes: u64,
    /// Size of a page in bytes.
    pub page_bytes: Evidence,
    /// Number of allocation units that can be open; 0 for a card without such a limit.
    pub open_aus: Evidence,
    /// True if measured properties identify the kind of card: allocation unit, open units, or plausible read speeds.
    pub is_card_visible: bool,
    /// Speeds of sequential reads and writes, MB/s.
    pub mb_s: [Option<f64>; 2],
    /// Partitions with their first bytes, and findings about them.
    pub partitions: Vec<Partition>,
    /// Findings about the partition table and the FATs, one sentence each.
    pub findings: Vec<String>,
    /// Reason why nothing should be stored on the device: its contents change, or its life is over.
    pub unsafe_because: Option<String>,
    /// True if contents change; `unsafe_because` describes how.
    pub is_untrue: bool,
    /// Upper limit of the used life that the card reports, %.
    pub life_used_percent: Option<Evidence>,
    /// True if the size is known only from the device's own report, because reads cannot detect a fake.
    pub is_size_unproven: bool,
    /// True for an eMMC, false for an SD card; none where no register tells.
    pub(crate) is_emmc: Option<bool>,
    /// Figures of a probe, by which a similar card is found.
    pub(crate) figures: Figures,
}

/// A partition of the device.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Partition {
    /// Number of the partition in Linux; 0 for the whole device.
    pub number: u64,
    /// Position in bytes.
    pub start_bytes: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Existing filesystem, except FAT.
    #[serde(skip)]
    pub existing: Option<Existing>,
}

impl Partition {
    /// Name of the partition in messages.
    pub(super) fn name(&self) -> String {
        match self.number {
            0 => "the device".to_owned(),
            number => format!("partition {number}"),
        }
    }
}

/// Confidence of a size that is known only from the device's own report.
pub(super) const UNPROVEN: f64 = 0.5;
/// Confidence of a usual number that was not measured.
pub(super) const ASSUMED: f64 = 0.3;
impl DeviceFacts {
    /// Properties of a card in the catalogue.
    pub fn of_card(name: &str, card: &LoadedCard) -> Self {
        let spec = &card.spec;
        let sourced = |value: u64, key: &str| {
            let source = card.part.source_of(key);
            Evidence {
                value,
                confidence: source.map_or(ASSUMED, |source| source.confidence),
                alternatives: Vec::new(),
                reason: source.map_or("no source".to_owned(), |source| source.from.clone()),
            }
        };
        Self {
            target: name.to_owned(),
            title: format!("{}, {}", card.name(), card.part.title),
            capacity_bytes: spec.capacity_bytes,
            claimed_bytes: spec.fake.map(|fake| fake.claimed_bytes),
            au_bytes: sourced(spec.au_bytes, "card.au_bytes"),
            phase_bytes: 0,
            page_bytes: sourced(spec.page_bytes, "card.page_bytes"),
            open_aus: sourced(u64::from(spec.open_aus), "card.open_aus"),
            is_card_visible: true,
            mb_s: [None; 2],
            partitions: Vec::new(),
            findings: Vec::new(),
            unsafe_because: unsound(card),
            is_untrue: spec.evil.is_some(),
            life_used_percent: None,
            is_size_unproven: false,
            is_emmc: None,
            figures: Figures::default(),
        }
    }

    /// Reason not to trust the device with data.
    pub(crate) fn untrusted_reason(&self) -> Option<String> {
        let fake = self.claimed_bytes.filter(|claimed| *claimed > self.capacity_bytes);
        let fake =
            fake.map(|claimed| format!("it has {} and says {}", size(self.capacity_bytes), size(claimed)));
        fake.or_else(|| self.unsafe_because.clone())
    }

    /// Reason why written data is lost: the device is smaller than reported, or changes its contents. A device that is only worn loses no
    /// data.
    pub(crate) fn loses_data(&self) -> Option<String> {
        let is_smaller = self.claimed_bytes.is_some_and(|claimed| claimed > self.capacity_bytes);
        if is_smaller || self.is_untrue { self.untrusted_reason() } else { None }
    }

    /// Size of the largest partition that begins and ends at borders, in bytes.
    pub(crate) fn partition_bytes(&self) -> u64 {
        self.place().1.bytes
    }

    /// Figures that the most similar card has to meet: those of the probe. Where nothing of a card is visible, they are what is usual.
    pub(crate) fn figures_to_meet(&self) -> Figures {
        let capacity = Some(self.capacity_bytes as f64);
        if self.is_card_visible {
            return Figures { capacity, ..self.figures };
        }
        let [erase_block, page, open_aus_linear] =
            [&self.au_bytes, &self.page_bytes, &self.open_aus].map(|usual| Some(usual.value as f64));
        Figures { erase_block, page, open_aus_linear, capacity, ..Figures::default() }
    }

    /// The facts with the open allocation units of the card on which the advice rests, if it has no limit of them and a probe that wrote found none.
    pub(super) fn with_open_aus_of(&self, spec: &CardSpec) -> Self {
        let mut known = self.clone();
        let is_unlimited = spec.open_aus == 0 && self.figures.small_writes.is_some();
        if is_unlimited && self.figures.open_aus_linear.is_none() && self.open_aus.value > 0 {
            let reason = "not measured: the most similar card has no limit".to_owned();
            known.open_aus = Evidence { value: 0, confidence: ASSUMED, alternatives: Vec::new(), reason };
        }
        known
    }

    /// Start and shape of a partition: from the first border at or after 1 MiB to the last border.
    pub(super) fn place(&self) -> (u64, PartitionShape) {
        let au = self.au_bytes.value;
        let first =
            FIRST_MIN.saturating_sub(self.phase_bytes).div_ceil(au).max(u64::from(self.phase_bytes == 0));
        let start = self.phase_bytes + first * au;
        let bytes = self.capacity_bytes.saturating_sub(start) / au * au;
        let open_aus = Some(self.open_aus.value).filter(|open| *open > 0);
        (start, PartitionShape { bytes, au_bytes: au, page_bytes: self.page_bytes.value, open_aus })
    }
}

/// First byte that is available for partitions: 1 MiB, as in fdisk.
pub(super) const FIRST_MIN: u64 = 1 << 20;

/// Reason not to trust a card of the catalogue.
fn unsound(card: &LoadedCard) -> Option<String> {
    let spec = &card.spec;
    match spec.evil {
        Some(evil) => Some(format!(
            "its firmware answers one in {} sectors with other contents the second time",
            evil.one_in_sectors
        )),
        None if spec.loss != LossSpec::default() => Some(loss_words(&spec.loss)),
        None if spec.fake.is_none() && !card.is_sound() => {
            Some(format!("its blocks last for {} cycles", spec.wear.endurance_cycles))
        }
        None => None,
    }
}

/// Text about the damage by a power loss.
fn loss_words(loss: &LossSpec) -> String {
    let damage = [
        (loss.ignores_flush, "loses data that it has confirmed as flushed"),
        (loss.torn_pages > 0, "loses data beside what was being written"),
        (loss.dies_per_million > 0, "may not start any more"),
    ];
    let words: Vec<&str> = damage.iter().filter(|(is_so, _)| *is_so).map(|(_, words)| *words).collect();
    format!("at a loss of power it {}", words.join(", and "))
}

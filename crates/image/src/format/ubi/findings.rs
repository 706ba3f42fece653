//! Findings of a check about a UBI device: headers of PEBs, the volume table, static volumes.

use floatgate_media::ubi::{ReadFlips, VidHeader, VolumeRecord, VolumeType};
use floatgate_media::{MediaError, Reason, crc};
use floatgate_stack::StoreError;
use floatgate_stack::store::{Store, Window};
use floatgate_stack::ubi::{Claim, HeaderState, LebId, Mapping, PebVerdict};
use floatgate_stack::ubifs::Severity;

use super::device::Device;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::format::magic::{HEAD_BYTES, begins_ubifs, is_node};
use crate::image::{Image, Origin};
use crate::part::Part;
use crate::report::{CheckReport, Finding, Layer, PebCounts, Structure};
use crate::words::{count, show_name};

/// Size of a header, bytes.
const HEADER: usize = 64;

/// Size of a record in the volume table, bytes.
const RECORD: usize = 172;

impl Device {
    /// Number of PEBs by state.
    pub(crate) fn counts(&self) -> PebCounts {
        let mut counts = PebCounts { total: self.survey.peb_count(), ..PebCounts::default() };
        for peb in self.survey.pebs() {
            let count = match (peb.ec, peb.vid, peb.claim) {
                (HeaderState::BadBlock, ..) => &mut counts.bad,
                (HeaderState::Damaged(_), ..) | (_, HeaderState::Damaged(_), _) => &mut counts.damaged,
                (_, _, Claim::Current) => &mut counts.mapped,
                (HeaderState::Erased, HeaderState::Erased, _) => &mut counts.erased,
                (_, HeaderState::Erased, _) => &mut counts.free,
                _ => &mut counts.outdated,
            };
            *count += 1;
        }
        counts
    }

    /// Reports the findings.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn report(
        &self,
        store: &mut impl Store,
        origin: &Origin,
        report: &mut CheckReport,
    ) -> Result<(), ImageError> {
        for (pnum, peb) in (0..).zip(self.survey.pebs()) {
            for mut finding in self.judge(peb) {
                let at = u64::from(finding.leb_offset.take().unwrap_or(0));
                finding.offset = Some(origin.file_byte(self.peb_start(pnum) + at));
                finding.peb = Some(pnum);
                report.add(finding);
            }
        }
        self.report_image_seq(origin, report);
        self.report_marked(store, origin, report).map_err(ImageError::Store)?;
        self.report_end(store, origin, report).map_err(ImageError::Store)?;
        self.report_table(origin, report);
        self.report_static(store, origin, report).map_err(ImageError::Store)?;
        for (_, record) in self.survey.volumes().filter(|(_, record)| record.update_marker != 0) {
            let what = "an update of the volume was not finished";
            let consequence = "Linux does not read the volume until it is written anew";
            let mut finding = ubi(Severity::Damaged, Structure::VolumeTable, what, consequence);
            finding.volume = Some(show_name(record.name()));
            report.add(finding);
        }
        Ok(())
    }

    /// PEBs with data and lost headers, whose LEBs Linux does not find and no other PEB contains. Each has its LEB if
    /// it is known. A PEB with an unknown LEB that begins with a node belongs to a filesystem, which reports it as
    /// missing.
    pub(crate) fn lost_pebs(&self, store: &mut impl Store) -> Result<Vec<(u32, Option<LebId>)>, StoreError> {
        let mut lost = Vec::new();
        for (pnum, peb) in (0..).zip(self.survey.pebs()) {
            let vid = match (peb.ec, peb.vid) {
                (_, HeaderState::Damaged(_)) if peb.has_data => peb.guess.map(|guess| guess.header),
                (HeaderState::Erased, HeaderState::Good(vid)) => Some(vid),
                _ => continue,
            };
            let is_lost = match vid {
                Some(vid) => !self.is_mapped(&vid),
                None => {
                    let mut head = vec![0; HEAD_BYTES.min(self.survey.geometry().leb_bytes() as usize)];
                    store.read_at(self.data_start(pnum), &mut head)?;
                    !is_node(&head)
                }
            };
            if is_lost {
                lost.push((pnum, vid.map(|vid| LebId { volume: vid.volume_id, lnum: vid.lnum })));
            }
        }
        Ok(lost)
    }

    /// LEBs of dynamic volumes that contain the pages at these offsets of the image, each with its offset. Only the
    /// ECC protects these pages.
    pub(crate) fn unchecked_pages(&self, pages: &[u64]) -> Vec<(u64, LebId)> {
        let pebs = self.survey.pebs();
        let peb_bytes = u64::from(self.survey.geometry().flash().peb_bytes);
        let leb = |&at: &u64| {
            let pnum = u32::try_from(at / peb_bytes).ok()?;
            let peb = pebs.get(pnum as usize)?;
            let HeaderState::Good(vid) = peb.vid else { return None };
            let is_data = peb.claim == Claim::Current && at >= self.data_start(pnum);
            let is_dynamic = self.survey.volume(vid.volume_id)?.volume_type == VolumeType::Dynamic;
            (is_data && is_dynamic).then_some((at, LebId { volume: vid.volume_id, lnum: vid.lnum }))
        };
        pages.iter().filter_map(leb).collect()
    }

    /// Finding about a page that the ECC cannot correct, in a volume without a filesystem.
    pub(crate) fn judge_page(&self, at: u64, leb: LebId, origin: &Origin) -> Finding {
        let what = "a page has more wrong bits than its ECC corrects";
        let consequence = "the data of this volume are not whole";
        let mut finding = ubi(Severity::Damaged, Structure::Page, what, consequence);
        (finding.leb, finding.volume) = (Some(leb.lnum), self.volume_name(leb.volume));
        finding.offset = Some(origin.file_byte(at));
        finding
    }

    /// Findings about a PEB. `leb_offset` is the offset in the PEB.
    fn judge(&self, peb: &PebVerdict) -> Vec<Finding> {
        let mut findings = Vec::new();
        match peb.ec {
            HeaderState::Damaged(error) => findings.push(judge_ec(&error)),
            HeaderState::Erased => findings.extend(self.judge_without_ec(peb)),
            HeaderState::Good(_) | HeaderState::BadBlock => {}
        }
        let vid_at = self.survey.geometry().vid_header_offset();
        if let HeaderState::Damaged(error) = peb.vid {
            let mut finding = self.judge_vid(peb, &error);
            finding.leb_offset = Some(vid_at);
            findings.push(finding);
        }
        if let Some(mut finding) = self.judge_claim(peb).filter(|_| !self.is_of_other_image(peb)) {
            finding.leb_offset = Some(vid_at);
            findings.push(finding);
        }
        findings
    }

    /// Finding about a PEB without EC header: Linux erases it, even if it contains other data.
    fn judge_without_ec(&self, peb: &PebVerdict) -> Option<Finding> {
        let HeaderState::Good(vid) = peb.vid else { return None };
        let kept = self.is_mapped(&vid);
        let (severity, consequence) = if kept {
            (Severity::Recoverable, "Linux erases the PEB; another one has the LEB".to_owned())
        } else {
            (Severity::Damaged, format!("Linux erases the PEB: {} is lost", self.leb_name(&vid)))
        };
        Some(ubi(severity, Structure::EcHeader, "it is erased, and a VID header follows", consequence))
    }

    fn judge_vid(&self, peb: &PebVerdict, error: &MediaError) -> Finding {
        let (severity, consequence) = match (peb.has_data, peb.ec) {
            (false, _) => {
                (Severity::Recoverable, "nothing was written behind it: Linux erases the PEB".to_owned())
            }
            (true, ec) => {
                let does = match ec {
                    HeaderState::Good(_) => "sets the PEB aside",
                    _ => "erases the PEB",
                };
                match peb.guess.map(|guess| guess.header) {
                    Some(vid) if self.is_mapped(&vid) => {
                        (Severity::Recoverable, format!("Linux {does}; another one has the LEB"))
                    }
                    Some(vid) => {
                        (Severity::Damaged, format!("Linux {does}: {} is lost", self.leb_name(&vid)))
                    }
                    None => (Severity::Damaged, format!("Linux {does}: the LEB it has is lost")),
                }
            }
        };
        let mut finding = ubi(severity, Structure::VidHeader, error.to_string(), consequence);
        if let Some(vid) = peb.guess.map(|guess| guess.header) {
            (finding.leb, finding.volume) = (Some(vid.lnum), self.volume_name(vid.volume_id));
        }
        finding
    }

    fn judge_claim(&self, peb: &PebVerdict) -> Option<Finding> {
        let HeaderState::Good(vid) = peb.vid else { return None };
        let (severity, what, consequence) = match peb.claim {
            Claim::CutOff => (
                Severity::Recoverable,
                "the copy of a LEB was cut off".to_owned(),
                "the PEB it was copied from counts",
            ),
            Claim::Misfit => (Severity::Damaged, self.misfit(&vid), "Linux does not attach the device"),
            Claim::Removed => (
                Severity::Recoverable,
                format!("LEB {} of volume {}, which the volume table does not have", vid.lnum, vid.volume_id),
                "Linux erases the PEB, as it does when the removal of a volume was cut off",
            ),
            Claim::Twin => (
                Severity::Damaged,
                "another PEB has the same LEB with the same sequence number".to_owned(),
                "Linux does not attach the device",
            ),
            _ => return None,
        };
        Some(ubi(severity, Structure::VidHeader, what, consequence))
    }

    /// Text about a contradiction between a VID header and the volume table.
    fn misfit(&self, vid: &VidHeader) -> String {
        let record = self.survey.volume(vid.volume_id).copied().unwrap_or_default();
        if vid.lnum >= record.reserved_pebs {
            return format!("{}, which has {} LEBs", self.leb_name(vid), record.reserved_pebs);
        }
        let field = if vid.data_pad == record.data_pad { "type" } else { "alignment" };
        format!("{} says that its volume is of another {field}", self.leb_name(vid))
    }

    fn volume_name(&self, id: u32) -> Option<String> {
        self.survey.volume(id).map(|record| show_name(record.name()))
    }

    /// True if Linux finds the LEB of a VID header in this PEB or another one.
    fn is_mapped(&self, vid: &VidHeader) -> bool {
        let leb = LebId { volume: vid.volume_id, lnum: vid.lnum };
        self.survey.peb_of(leb, Mapping::Linux).is_some()
    }

    fn leb_name(&self, vid: &VidHeader) -> String {
        let name = self.volume_name(vid.volume_id).unwrap_or_else(|| vid.volume_id.to_string());
        format!("LEB {} of volume {name}", vid.lnum)
    }

    /// True if a PEB has another image sequence number than the first PEB. The number 0 matches every image.
    fn is_of_other_image(&self, peb: &PebVerdict) -> bool {
        let own = self.survey.image_seq();
        matches!(peb.ec, HeaderState::Good(ec) if own != 0 && ec.image_seq != 0 && ec.image_seq != own)
    }

    /// Reports all PEBs of another image in one finding.
    fn report_image_seq(&self, origin: &Origin, report: &mut CheckReport) {
        let others = (0..).zip(self.survey.pebs()).filter(|(_, peb)| self.is_of_other_image(peb));
        let others: Vec<(u32, &PebVerdict)> = others.collect();
        let Some(&(pnum, PebVerdict { ec: HeaderState::Good(ec), .. })) = others.first() else { return };
        let what = format!(
            "{} of another image: image sequence number {}, the first has {}",
            count(others.len() as u64, "PEB"),
            ec.image_seq,
            self.survey.image_seq()
        );
        let consequence = "Linux does not attach the device (-EINVAL): flash the image with ubiformat, or erase the flash first";
        let mut finding = ubi(Severity::Damaged, Structure::EcHeader, what, consequence);
        (finding.peb, finding.offset) = (Some(pnum), Some(origin.file_byte(self.peb_start(pnum))));
        report.add(finding);
    }

    /// LEBs in blocks that are marked bad, and in no other PEB. Linux does not read such a block. The headers of a
    /// LEB that was moved or removed later may remain in it, or the mark is a bitflip.
    pub(crate) fn marked_lebs(&self, store: &mut impl Store) -> Result<Vec<(u32, LebId)>, StoreError> {
        let mut lebs = Vec::new();
        for (pnum, peb) in (0..).zip(self.survey.pebs()) {
            if !matches!(peb.ec, HeaderState::BadBlock) {
                continue;
            }
            let mut header = [0; HEADER];
            let at = self.peb_start(pnum) + u64::from(self.survey.geometry().vid_header_offset());
            store.read_at(at, &mut header)?;
            let Ok(vid) = VidHeader::parse(&header, ReadFlips::default()) else { continue };
            if self.survey.volume(vid.volume_id).is_some() && !self.is_mapped(&vid) {
                lebs.push((pnum, LebId { volume: vid.volume_id, lnum: vid.lnum }));
            }
        }
        Ok(lebs)
    }

    fn report_marked(
        &self,
        store: &mut impl Store,
        origin: &Origin,
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        for (pnum, leb) in self.marked_lebs(store)? {
            let what = "the block is marked bad and holds a LEB that no other PEB has";
            let consequence = "Linux does not read it: the LEB is lost if the mark is a mistake, and was removed if it is not";
            let mut finding = ubi(Severity::Note, Structure::BadBlock, what, consequence);
            finding.offset = Some(origin.file_byte(self.peb_start(pnum)));
            (finding.peb, finding.leb) = (Some(pnum), Some(leb.lnum));
            finding.volume = self.volume_name(leb.volume);
            report.add(finding);
            let mut head = vec![0; HEAD_BYTES.min(self.survey.geometry().leb_bytes() as usize)];
            store.read_at(self.data_start(pnum), &mut head)?;
            // A filesystem identifies its own LEBs.
            if !is_node(&head) {
                let offset = origin.file_byte(self.peb_start(pnum));
                report.may_be_lost.push(Part { offset, len: 0 });
            }
        }
        Ok(())
    }

    /// Reports a file that is cut. The number of missing bytes is unknown. No used data is lost if each volume states
    /// its own extent and is complete.
    fn report_end(
        &self,
        store: &mut impl Store,
        origin: &Origin,
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        let Some(cut) = self.cut() else {
            if self.is_without_lebs() && !self.survey.table().lost {
                let consequence = "the volumes were made empty, or the file is cut";
                report.add(ubi(Severity::Note, Structure::Device, "no volume has any LEB", consequence));
                let offset = origin.file_byte(self.peb_start(self.survey.peb_count()));
                report.may_be_lost.push(Part { offset, len: 0 });
            }
            return Ok(());
        };
        let mut open = Vec::new();
        for (id, record) in self.survey.volumes() {
            if !self.tells_its_end(store, id, record)? {
                open.push(format!("volume {}", show_name(record.name())));
            }
        }
        let (severity, consequence) = if open.is_empty() {
            let what = "no LEB in use is behind the end; what is missing reads as erased";
            (Severity::Recoverable, what.to_owned())
        } else {
            let which = open.join(", ");
            (Severity::Damaged, format!("LEBs of {which} that were behind the end are lost"))
        };
        let mut finding = ubi(severity, Structure::Device, cut.to_string(), consequence);
        (finding.peb, finding.offset) =
            (Some(cut.pnum), Some(origin.file_byte(self.peb_start(cut.pnum) + cut.bytes)));
        report.add(finding);
        Ok(())
    }

    /// Adds notes about data after the last PEB, where a volume without a filesystem may have continued: other data,
    /// or PEBs that were completely overwritten.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn report_behind(
        &self,
        image: &Image,
        found: &ImageLocation,
        report: &mut CheckReport,
    ) -> Result<(), ImageError> {
        let end = found.offset + found.len;
        let store = image.store()?;
        let len = store.size_bytes().saturating_sub(end).min(self.peb_start(1));
        if len == 0 || self.cut().is_some() || image.next_image(found) == Some(end) {
            return Ok(());
        }
        let mut behind = vec![0; usize::try_from(len).unwrap_or(0)];
        store.read_at(end, &mut behind).map_err(ImageError::Store)?;
        if behind.iter().all(|&byte| byte == 0xFF) {
            return Ok(());
        }
        let mut own = Window::new(store, found.offset, found.len);
        let mut open = Vec::new();
        for (id, record) in self.survey.volumes() {
            let last = self.survey.mapped_lebs(id).last();
            let may_go_on = last.is_some_and(|leb| leb.lnum + 1 < record.reserved_pebs);
            if may_go_on && !self.tells_its_end(&mut own, id, record).map_err(ImageError::Store)? {
                open.push(format!("volume {}", show_name(record.name())));
            }
        }
        if !open.is_empty() {
            let part = image.part(end..end + len);
            let what = format!("what stands from byte {} on is neither a PEB nor erased", part.offset);
            let consequence = format!("other data, or overwritten PEBs of {}", open.join(", "));
            report.add(ubi(Severity::Note, Structure::Device, what, consequence));
            report.may_be_lost.push(part);
        }
        Ok(())
    }

    /// True if a volume states which LEBs it has. A static volume does so in its VID headers; a filesystem does so in
    /// its superblock, master node and LEB properties, which are checked elsewhere.
    fn tells_its_end(
        &self,
        store: &mut impl Store,
        id: u32,
        record: &VolumeRecord,
    ) -> Result<bool, StoreError> {
        if record.volume_type == VolumeType::Static {
            let last = self.survey.mapped_lebs(id).last();
            return Ok(last.is_some_and(|leb| {
                self.survey.header_of(leb).is_some_and(|vid| vid.used_lebs == leb.lnum + 1)
            }));
        }
        let mut head = vec![0; HEAD_BYTES];
        let Some(pnum) = self.survey.peb_of(LebId { volume: id, lnum: 0 }, Mapping::Linux) else {
            return Ok(false);
        };
        store.read_at(self.data_start(pnum), &mut head)?;
        Ok(begins_ubifs(0, &head))
    }

    fn report_table(&self, origin: &Origin, report: &mut CheckReport) {
        let table = self.survey.table();
        let (severity, consequence) = if table.lost {
            (Severity::Damaged, "Linux does not attach the device: no volume can be used")
        } else {
            (Severity::Recoverable, "the other copy is good: Linux writes this one anew")
        };
        for (lnum, (error, pnum)) in (0u32..).zip(table.damage.iter().zip(table.pebs)) {
            let what = match (error, pnum) {
                (_, None) => "there is no such copy".to_owned(),
                (Some(error), _) => error.to_string(),
                (None, _) => continue,
            };
            let what = format!("copy {}: {what}", lnum + 1);
            let mut finding = ubi(severity, Structure::VolumeTable, what, consequence);
            let record = error.as_ref().map_or(0, |error| error.offset / RECORD * RECORD);
            finding.peb = pnum;
            finding.offset = pnum.map(|pnum| origin.file_byte(self.data_start(pnum) + record as u64));
            report.add(finding);
        }
        if table.differ {
            let consequence = "a change was cut off: Linux takes the first copy and writes the second anew";
            let what = "the two copies differ";
            report.add(ubi(Severity::Recoverable, Structure::VolumeTable, what, consequence));
        }
    }

    /// Checks the CRCs of static volumes.
    fn report_static(
        &self,
        store: &mut impl Store,
        origin: &Origin,
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        let fixed = self.survey.volumes().filter(|(_, record)| record.volume_type == VolumeType::Static);
        for (volume, record) in fixed {
            if self.survey.mapped_lebs(volume).next().is_none() && record.update_marker == 0 {
                let what = format!("none of its {} LEBs is there", record.reserved_pebs);
                let consequence = "the volume was made empty, as Linux takes it, or its data are lost";
                let mut finding = ubi(Severity::Note, Structure::StaticVolume, what, consequence);
                finding.volume = self.volume_name(volume);
                report.add(finding);
                report.may_be_lost.push(Part { offset: origin.file_byte(0), len: 0 });
            }
            let mapped = self.survey.mapped_lebs(volume);
            let used = mapped.filter_map(|leb| self.survey.header_of(leb).map(|vid| vid.used_lebs)).max();
            for lnum in 0..used.unwrap_or(0).min(self.survey.last_lnum(volume).saturating_add(2)) {
                let leb = LebId { volume, lnum };
                let pnum = self.survey.peb_of(leb, Mapping::Linux);
                let what = match pnum.zip(self.survey.header_of(leb)) {
                    Some((pnum, vid)) if self.is_whole(store, pnum, &vid)? => continue,
                    Some(_) => "the data fail their CRC",
                    None => "the LEB is missing",
                };
                let consequence = "the data of this volume are not whole";
                let mut finding = ubi(Severity::Damaged, Structure::StaticVolume, what, consequence);
                (finding.peb, finding.leb) = (pnum, Some(lnum));
                finding.volume = self.volume_name(volume);
                finding.offset = pnum.map(|pnum| origin.file_byte(self.data_start(pnum)));
                report.add(finding);
            }
        }
        Ok(())
    }

    /// True if the CRC of a PEB's data is right.
    fn is_whole(&self, store: &mut impl Store, pnum: u32, vid: &VidHeader) -> Result<bool, StoreError> {
        let mut data = vec![0; vid.data_size as usize];
        store.read_at(self.data_start(pnum), &mut data)?;
        Ok(crc::ubi(&data) == vid.data_crc)
    }
}

fn ubi(
    severity: Severity,
    structure: Structure,
    what: impl Into<String>,
    consequence: impl Into<String>,
) -> Finding {
    Finding::new(Layer::Ubi, severity, structure, what, consequence)
}

fn judge_ec(error: &MediaError) -> Finding {
    let misfit = matches!(error.reason, Reason::OutOfRange { .. } | Reason::WrongVersion { .. });
    if misfit {
        return ubi(
            Severity::Damaged,
            Structure::EcHeader,
            error.to_string(),
            "Linux does not attach the device",
        );
    }
    let consequence = "the erase counter is lost: Linux takes the mean of the others and writes the PEB anew";
    ubi(Severity::Recoverable, Structure::EcHeader, error.to_string(), consequence)
}

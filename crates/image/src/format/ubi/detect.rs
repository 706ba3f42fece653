//! Search for the starts and the ends of UBI devices in a file.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use floatgate_media::crc;
use floatgate_media::ubi::{EC_MAGIC, EcHeader, LAYOUT_VOLUME, ReadFlips, VidHeader, VolumeRecord};
use floatgate_media::ubifs::Frame;
use floatgate_stack::store::Store;

use super::pages::{min_io_bytes, page_shapes, read_in_pages};
use crate::ImageError;
use crate::format::location::{Content, ImageLocation, UbiShape};
use crate::format::ubi::search::Hits;
use crate::pages::{FlashSizes, PageShape, SHAPES};

/// Smallest and largest accepted size of an eraseblock, bytes of pages.
const PEB_BYTES: std::ops::RangeInclusive<u64> = 512..=64 << 20;

/// Size of an EC or VID header, bytes.
const HEADER_BYTES: usize = 64;

/// Offset of the fields of an EC header with the offsets of the VID header and of the data, and the image sequence
/// number after them.
const EC_FIELDS_AT: u64 = 16;

/// Largest number of wrong bits in these 12 bytes of an EC header. In other data about half of the bits are wrong.
const LIKE_BITS: u32 = 24;

/// LEBs, by volume and number.
type Lebs = BTreeSet<(u32, u32)>;

/// Largest number of headers that are examined for the size of a PEB, and largest number of distances between headers
/// of a device.
const HEADERS: usize = 1 << 16;
const DISTANCES: usize = 4096;

/// Number of headers that must be at multiples of a distance, for each missing header.
const DENSE: u64 = 2;

/// Number of equal distances between adjacent headers that are no coincidence.
const OFTEN: u64 = 4;

/// Largest number of consecutive PEBs without a header while the distance between PEBs is searched.
const GAP: u64 = 64;

/// Largest number of positions that are examined for the distance between PEBs, as a limit for hostile files.
const STEPS: u32 = 1 << 22;

/// Limits of the data from which the page size is derived: PEBs whose VID headers are read, PEBs whose data is read,
/// and bytes of this data. The volume table is always read.
const SHAPE_PEBS: usize = 1 << 12;
const SHAPE_LEBS: u32 = 32;
const SHAPE_BYTES: usize = 64 << 10;

/// Largest number of records in a volume table (Linux: `UBI_MAX_VOLUMES`).
const MAX_VOLUMES: usize = 128;

/// Alignment of UBIFS nodes, bytes.
const NODE_ALIGN: usize = 8;

/// Largest number of devices that are searched in a file.
const REGIONS: usize = 256;

/// PEBs at equal distances, with the same offsets in their headers.
#[derive(Clone, Debug)]
struct Region {
    offset: u64,
    end: u64,
    /// Distance from one PEB to the next, including OOB, bytes.
    stride: u64,
    header: EcHeader,
    /// True if nothing implies the size of a PEB, because there is only one header.
    single: bool,
    /// Possible pages with OOB, the most common first; none without OOB.
    shapes: Shapes,
}

/// Possible layouts of the pages of a PEB.
type Shapes = Rc<[PageShape]>;

/// UBI devices of a file, in order. A device inside the LEBs of another is data of a file or a volume.
pub(crate) fn find(
    store: &mut dyn Store,
    hits: &Hits,
    pages: Option<PageShape>,
    sizes: &FlashSizes,
) -> Result<Vec<ImageLocation>, ImageError> {
    let size = store.size_bytes();
    let mut regions = regions(&hits.ec, size, sizes);
    regions.retain(|region| shape(region, None, None).is_some() && !region.is_cut_off());
    drop_outliers(&mut regions);
    let regions = grow(store, regions, &hits.ec)?;
    let regions = with_leftovers(store, regions)?;
    let mut found = Vec::new();
    for region in regions {
        for part in split(store, region)? {
            let range = part.offset..part.end;
            // A device within the data of a LEB belongs to another image.
            let begins = |at: u64| (at - part.offset) % part.stride == u64::from(part.header.data_offset);
            let own = |at: &u64| range.contains(at) && begins(*at);
            let inside = hits.superblocks.iter().find(|(at, _)| own(at));
            let stated = pages.map(|pages| pages.page_bytes).or(sizes.pages.page_bytes);
            let unit = stated.or(inside.map(|(_, superblock)| superblock.min_io_bytes));
            let (offset, len) = (part.offset, part.end - part.offset);
            let with_oob = part.pages(&*store)?;
            found.extend(shape(&part, with_oob, unit).map(|(shape, pages)| ImageLocation {
                pages,
                ..ImageLocation::new(offset, len, Content::Ubi(shape))
            }));
        }
    }
    Ok(found)
}

/// True if two headers belong to PEBs of the same device.
fn is_same(one: &EcHeader, other: &EcHeader) -> bool {
    let key = |header: &EcHeader| (header.vid_header_offset, header.data_offset);
    // As in Linux, 0 matches every image.
    let of_image = one.image_seq == other.image_seq || one.image_seq == 0 || other.image_seq == 0;
    key(one) == key(other) && of_image
}

/// Regions of headers at equal distances.
///
/// A device begins with the first header that no other device contains. Headers between the headers of its PEBs are
/// data: they belong to an image in a file or a volume, which may have the same geometry and the same image sequence
/// number.
fn regions(hits: &[(u64, EcHeader)], size: u64, sizes: &FlashSizes) -> Vec<Region> {
    let mut regions = Vec::new();
    let mut rest = hits;
    while let Some(&(offset, header)) = rest.first().filter(|_| regions.len() < REGIONS) {
        let same = |other: &EcHeader| is_same(&header, other);
        let distance = distance(rest, &same, sizes);
        let next = rest.get(1).map_or(size, |next| next.0);
        let stride = distance.unwrap_or(next - offset).max(1);
        let even: Vec<&(u64, EcHeader)> =
            rest.iter().filter(|(at, _)| (at - offset).is_multiple_of(stride)).collect();
        // A single other header at the position of a PEB's header is damage.
        let belongs = |&(index, (_, other)): &(usize, &&(u64, EcHeader))| {
            same(other) || even.get(index + 1).is_some_and(|(_, next)| same(next))
        };
        let run = even.iter().enumerate().take_while(belongs).map(|(_, hit)| hit);
        let last = run.filter(|(_, other)| same(other)).map(|&&(at, _)| at).last().unwrap_or(offset);
        let end = last.saturating_add(stride).min(size);
        let shapes = shapes(stride, header.data_offset, sizes).into();
        regions.push(Region { offset, end, stride, header, single: distance.is_none(), shapes });
        rest = rest.iter().position(|&(at, _)| at >= end).map_or(&[], |next| &rest[next..]);
    }
    regions
}

/// Distance between the PEBs of the device that begins with the first header: the distance that explains most
/// headers, or otherwise the most frequent one.
fn distance(hits: &[(u64, EcHeader)], same: &impl Fn(&EcHeader) -> bool, sizes: &FlashSizes) -> Option<u64> {
    let near = hits.iter().take(HEADERS).filter(|(_, header)| same(header));
    let offsets: Vec<u64> = near.map(|hit| hit.0).take(DISTANCES).collect();
    let (first, data_offset) = hits.first().map(|(at, header)| (*at, header.data_offset))?;
    let between = || offsets.windows(2).map(|pair| pair[1] - pair[0]);
    let is_block = |distance: &u64| {
        let is_larger = *distance > u64::from(data_offset);
        is_larger && (distance.is_power_of_two() || !shapes(*distance, data_offset, sizes).is_empty())
    };
    let distances: BTreeSet<u64> =
        offsets.iter().map(|at| at - first).chain(between()).filter(is_block).collect();
    let mut steps = STEPS;
    let is_usual =
        |distance: u64| distance.is_power_of_two() || has_usual_pages(distance, data_offset, sizes);
    let mut counts = BTreeMap::new();
    between().for_each(|distance| *counts.entry(distance).or_insert(0u64) += 1);
    let explained =
        |distance| Some((explained(&offsets, distance, &mut steps)?, is_usual(distance), distance));
    // Among equally good distances one of usual pages is used, then the largest, because half of it explains the same headers.
    if let Some((count, is_usual_one, distance)) = distances.into_iter().filter_map(explained).max() {
        // Where bytes are missing between the first PEBs, a distance of unusual pages explains a few headers, and the true one nearly all others.
        let others = counts.into_iter().filter(|(other, _)| !is_usual_one && is_usual(*other));
        let other =
            others.filter(|(_, often)| *often >= OFTEN.max(2 * count)).max_by_key(|(_, often)| *often);
        return Some(other.map_or(distance, |(other, _)| other));
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|&(_, count)| count == most).map(|(distance, _)| distance)
}

/// True if PEBs at this distance have pages and OOB as chips have them, or as the user states them.
fn has_usual_pages(distance: u64, data_offset: u32, sizes: &FlashSizes) -> bool {
    let is_usual = |shape: &PageShape| {
        SHAPES.contains(&(shape.page_bytes, shape.oob_bytes))
            || sizes.pages.oob_bytes == Some(shape.oob_bytes)
    };
    shapes(distance, data_offset, sizes).iter().any(is_usual)
}

/// Number of headers at multiples of a distance from the first header; `None` if too many are missing before the last
/// one.
fn explained(offsets: &[u64], distance: u64, steps: &mut u32) -> Option<u64> {
    let (&first, &last) = (offsets.first()?, offsets.last()?);
    let (mut count, mut missing, mut missing_before_last) = (0, 0, 0);
    for at in (first..=last).step_by(usize::try_from(distance).ok()?) {
        *steps = steps.checked_sub(1)?;
        if offsets.binary_search(&at).is_ok() {
            count += 1;
            missing_before_last = missing;
        } else {
            missing += 1;
        }
        // Headers after a long gap belong to another device.
        if missing - missing_before_last > GAP {
            break;
        }
    }
    (count > 1 && count >= DENSE * missing_before_last).then_some(count)
}

/// Possible pages of a PEB with OOB. Without OOB, the size of a PEB is a power of two; with OOB it never is.
fn shapes(stride: u64, data_offset: u32, sizes: &FlashSizes) -> Vec<PageShape> {
    if stride.is_power_of_two() { Vec::new() } else { page_shapes(stride, data_offset, sizes) }
}

/// Shape of the device in a region, and its pages with OOB.
fn shape(
    region: &Region,
    pages: Option<PageShape>,
    min_io: Option<u32>,
) -> Option<(UbiShape, Option<PageShape>)> {
    let header = &region.header;
    let (vid_header_offset, data_offset) = (header.vid_header_offset, header.data_offset);
    let shape =
        |peb_bytes, min_io_bytes| UbiShape { peb_bytes, vid_header_offset, data_offset, min_io_bytes };
    match pages.or(region.shapes.first().copied()) {
        Some(pages) => {
            let peb_bytes = pages.page_bytes.checked_mul(pages.pages_per_block)?;
            let min_io_bytes = min_io_bytes(header, Some(pages.page_bytes));
            Some((shape(peb_bytes, min_io_bytes), Some(pages)))
        }
        None if PEB_BYTES.contains(&region.stride) || region.single => {
            let has_headers = |&bytes: &u32| bytes > data_offset.max(vid_header_offset);
            let peb_bytes = u32::try_from(region.stride).ok().filter(has_headers)?;
            Some((shape(peb_bytes, min_io_bytes(header, min_io)), None))
        }
        None => None,
    }
}

/// Removes PEBs with other headers directly before or after a device, at positions of the device's own PEBs. The
/// device then includes them.
fn drop_outliers(regions: &mut Vec<Region>) {
    let all = regions.clone();
    let is_part = |single: &Region, device: Option<&Region>| {
        device.is_some_and(|device| {
            !device.single && device.offset.abs_diff(single.offset).is_multiple_of(device.stride)
        })
    };
    let mut index = 0usize;
    regions.retain(|region| {
        let at = index;
        index += 1;
        let before = at.checked_sub(1).and_then(|before| all.get(before));
        !(region.single && (is_part(region, before) || is_part(region, all.get(at + 1))))
    });
}

/// Includes adjacent PEBs whose EC headers are damaged or missing, and erased PEBs after the device. Regions inside
/// such PEBs are removed.
///
/// A PEB with data between two devices belongs to the device that [`Region::continues_in`] selects. All devices grow
/// downward over such PEBs before any device grows upward. Erased PEBs belong to the device before them.
fn grow(
    store: &mut dyn Store,
    regions: Vec<Region>,
    hits: &[(u64, EcHeader)],
) -> Result<Vec<Region>, ImageError> {
    let size = store.size_bytes();
    let mut lowered: Vec<Region> = Vec::new();
    for mut region in regions {
        if !region.single {
            region.grow_down(store, lowered.last(), hits)?;
        }
        lowered.retain(|before| before.offset < region.offset);
        lowered.push(region);
    }
    let mut grown: Vec<Region> = Vec::new();
    for (at, mut region) in lowered.iter().cloned().enumerate() {
        if grown.last().is_some_and(|outer| (outer.offset..outer.end).contains(&region.offset)) {
            continue;
        }
        if !region.single {
            let end = lowered.get(at + 1).map_or(size, |next| next.offset);
            region.grow_up(store, end, hits)?;
        }
        grown.push(region);
    }
    Ok(grown)
}

/// Adds PEBs with another image sequence number to the device before them, unless they contain a volume table: they
/// are remains of an older image. With a volume table they are a device in another partition.
fn with_leftovers(store: &mut dyn Store, regions: Vec<Region>) -> Result<Vec<Region>, ImageError> {
    let mut merged: Vec<Region> = Vec::new();
    for region in regions {
        match merged.last_mut() {
            Some(front) if front.is_followed_by(&region) && !region.has_table(store)? => {
                front.end = region.end
            }
            _ => merged.push(region),
        }
    }
    Ok(merged)
}

/// Number of records of a volume table with a good CRC.
fn whole_records(data: &[u8]) -> u64 {
    let is_whole = |record: &&[u8]| {
        let (body, sum) = record.split_at(VolumeRecord::SIZE - 4);
        sum == crc::ubi(body).to_be_bytes()
    };
    data.chunks_exact(VolumeRecord::SIZE).take(MAX_VOLUMES).filter(is_whole).count() as u64
}

/// Number of consecutive UBIFS nodes from the start of a LEB.
fn whole_nodes(data: &[u8]) -> u64 {
    let (mut at, mut whole) = (0, 0);
    while let Some(Ok(node)) = data.get(at..).map(Frame::parse) {
        whole += 1;
        at += node.as_bytes().len().next_multiple_of(NODE_ALIGN);
    }
    whole
}

impl Region {
    /// True if another region continues the PEBs of this one, apart from the image sequence number.
    fn is_followed_by(&self, next: &Self) -> bool {
        let places = |region: &Self| (region.header.vid_header_offset, region.header.data_offset);
        let is_in_step = next.stride.is_multiple_of(self.stride)
            && (next.offset - self.offset).is_multiple_of(self.stride);
        !self.single && self.end == next.offset && is_in_step && places(self) == places(next)
    }

    /// True if a PEB of the region contains a copy of a volume table.
    fn has_table(&self, store: &mut dyn Store) -> Result<bool, ImageError> {
        Ok(self.lebs(store)?.iter().any(|&(volume, _)| volume == LAYOUT_VOLUME))
    }

    /// True if the region is one PEB of an impossible size, because the file ends within the PEB.
    fn is_cut_off(&self) -> bool {
        let has_pages = self.stride.is_power_of_two() || !self.shapes.is_empty();
        let possible = PEB_BYTES.contains(&self.stride) && has_pages;
        self.single && !possible
    }

    /// Pages of a dump with OOB: the layout in which most headers, records of the volume table and nodes of UBIFS are
    /// complete. If several layouts are equal, the most common is used.
    fn pages(&self, store: &dyn Store) -> Result<Option<PageShape>, ImageError> {
        let mut best: Option<(u64, PageShape)> = None;
        for shape in self.shapes.iter().filter(|_| self.shapes.len() > 1) {
            let mut whole = 0;
            let mut looked_into = 0;
            let pebs = (self.offset..self.end).step_by(usize::try_from(self.stride).unwrap_or(usize::MAX));
            for peb in pebs.take(SHAPE_PEBS) {
                let mut bytes = [0; HEADER_BYTES];
                read_in_pages(store, peb, shape, self.header.vid_header_offset.into(), &mut bytes)?;
                let Ok(vid) = VidHeader::parse(&bytes, ReadFlips::default()) else { continue };
                whole += 1;
                let is_table = vid.volume_id == LAYOUT_VOLUME;
                if is_table || looked_into < SHAPE_LEBS {
                    let data = self.data_in(store, peb, shape)?;
                    whole += if is_table { whole_records(&data) } else { whole_nodes(&data) };
                    looked_into += u32::from(!is_table);
                }
            }
            if best.is_none_or(|(most, _)| whole > most) {
                best = Some((whole, *shape));
            }
        }
        Ok(best.map(|(_, shape)| shape).or(self.shapes.first().copied()))
    }

    /// First data of a PEB with these pages.
    fn data_in(&self, store: &dyn Store, peb: u64, shape: &PageShape) -> Result<Vec<u8>, ImageError> {
        let room = shape.block_bytes().saturating_sub(self.header.data_offset) as usize;
        let mut data = vec![0; room.min(SHAPE_BYTES)];
        read_in_pages(store, peb, shape, self.header.data_offset.into(), &mut data)?;
        Ok(data)
    }

    fn vid(&self, store: &mut dyn Store, peb: u64) -> Result<Option<VidHeader>, ImageError> {
        let mut bytes = [0; HEADER_BYTES];
        let at = peb.saturating_add(u64::from(self.header.vid_header_offset));
        store.read_at(at, &mut bytes).map_err(ImageError::Store)?;
        Ok(VidHeader::parse(&bytes, ReadFlips::default()).ok())
    }

    /// True if most of an EC header exists: its magic number, or its offsets.
    fn is_like_ec(&self, store: &mut dyn Store, peb: u64) -> Result<bool, ImageError> {
        let mut bytes = [0; HEADER_BYTES];
        store.read_at(peb, &mut bytes).map_err(ImageError::Store)?;
        let EcHeader { vid_header_offset, data_offset, .. } = self.header;
        let offsets =
            bytes[16..20] == vid_header_offset.to_be_bytes() && bytes[20..24] == data_offset.to_be_bytes();
        Ok(offsets || bytes.starts_with(&EC_MAGIC))
    }

    /// True if a header, even a damaged one, shows that a PEB belongs to the device.
    fn is_held(&self, store: &mut dyn Store, peb: u64) -> Result<bool, ImageError> {
        Ok(self.vid(store, peb)?.is_some() || self.is_like_ec(store, peb)?)
    }

    /// Number of bits in which the offsets and the image sequence number in a PEB's EC header differ from those of
    /// this device.
    fn wrong_bits(&self, store: &mut dyn Store, peb: u64) -> Result<u32, ImageError> {
        let EcHeader { vid_header_offset, data_offset, image_seq, .. } = self.header;
        let mut wrong = 0;
        for (at, own) in (EC_FIELDS_AT..).step_by(4).zip([vid_header_offset, data_offset, image_seq]) {
            let mut bytes = [0; 4];
            store.read_at(peb + at, &mut bytes).map_err(ImageError::Store)?;
            wrong += (own ^ u32::from_be_bytes(bytes)).count_ones();
        }
        Ok(wrong)
    }

    fn is_erased(&self, store: &mut dyn Store, peb: u64) -> Result<bool, ImageError> {
        for at in [peb, peb.saturating_add(u64::from(self.header.vid_header_offset))] {
            let mut bytes = [0; HEADER_BYTES];
            store.read_at(at, &mut bytes).map_err(ImageError::Store)?;
            if bytes != [0xFF; HEADER_BYTES] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Includes PEBs before the first good EC header. PEBs within an earlier region are included if they are
    /// consecutive up to the first PEB of that region, and none of its PEBs begins at one of them. That region is
    /// then data of these PEBs. PEBs that reach less far into the region remain part of it, because bytes of the dump
    /// are missing there.
    fn grow_down(
        &mut self,
        store: &mut dyn Store,
        before: Option<&Self>,
        hits: &[(u64, EcHeader)],
    ) -> Result<(), ImageError> {
        let mut peb = self.offset;
        let mut outside = self.offset;
        let mut known = None;
        while let Some(at) = peb.checked_sub(self.stride) {
            peb = at;
            let is_held = self.is_held(store, peb)?;
            if let Some(other) = before.filter(|other| peb < other.end) {
                let is_its = other.offset.abs_diff(peb).is_multiple_of(other.stride);
                if !is_held || is_its || header_at(hits, peb).is_some_and(|hit| !is_same(&self.header, hit)) {
                    break;
                }
            } else if let Some(front) = before
                && is_held
                && front.continues_in(store, peb, self, &mut known)?
            {
                break;
            }
            if is_held {
                self.offset = peb;
                if before.is_none_or(|other| peb >= other.end) {
                    outside = peb;
                }
                if let (Some((_, own)), Some(vid)) = (&mut known, self.vid(store, peb)?) {
                    own.insert((vid.volume_id, vid.lnum));
                }
            }
        }
        if before.is_some_and(|other| self.offset > other.offset) {
            self.offset = outside;
        }
        Ok(())
    }

    /// True if a PEB with a damaged EC header after the last good one of this device belongs to this device, and not
    /// to the next device. The first difference decides: the device with the more similar EC header, the device at
    /// whose offset a VID header is, or the device that does not contain the same LEB. The LEBs of both devices are
    /// read only when needed.
    fn continues_in(
        &self,
        store: &mut dyn Store,
        peb: u64,
        behind: &Self,
        known: &mut Option<(Lebs, Lebs)>,
    ) -> Result<bool, ImageError> {
        if self.single || !(peb - self.offset).is_multiple_of(self.stride) {
            return Ok(false);
        }
        let (own, other) = (self.wrong_bits(store, peb)?, behind.wrong_bits(store, peb)?);
        if own != other && own.min(other) <= LIKE_BITS {
            return Ok(own < other);
        }
        let vid = match (self.vid(store, peb)?, behind.vid(store, peb)?) {
            (Some(vid), Some(_)) => vid,
            (own, other) => return Ok(own.is_some() || other.is_none()),
        };
        let (own, other) = match known {
            Some(known) => known,
            None => known.insert((self.lebs(store)?, behind.lebs(store)?)),
        };
        let leb = (vid.volume_id, vid.lnum);
        Ok(!own.contains(&leb) || other.contains(&leb))
    }

    /// LEBs that the PEBs of the region claim to contain.
    fn lebs(&self, store: &mut dyn Store) -> Result<Lebs, ImageError> {
        let mut lebs = Lebs::new();
        for peb in (self.offset..self.end).step_by(usize::try_from(self.stride).unwrap_or(usize::MAX)) {
            lebs.extend(self.vid(store, peb)?.map(|vid| (vid.volume_id, vid.lnum)));
        }
        Ok(lebs)
    }

    /// Includes whole PEBs after the last good EC header: PEBs with a VID header or most of an EC header, and erased
    /// PEBs before `end`, where the next region begins. The next region is data if it begins within a PEB with such a
    /// header.
    fn grow_up(
        &mut self,
        store: &mut dyn Store,
        mut end: u64,
        hits: &[(u64, EcHeader)],
    ) -> Result<(), ImageError> {
        let size = store.size_bytes();
        let mut erased = true;
        let mut peb = self.end;
        while peb.saturating_add(self.stride) <= size {
            let next = peb + self.stride;
            let is_held = self.is_held(store, peb)?;
            if next > end {
                if !is_held || peb == end || header_at(hits, peb).is_some() {
                    break;
                }
                let behind = hits.partition_point(|&(at, _)| at < next);
                end = hits.get(behind).map_or(size, |&(at, _)| at);
            }
            erased = is_held || erased && self.is_erased(store, peb)?;
            peb = next;
            if erased {
                self.end = peb;
            }
        }
        // The file ends within a PEB.
        if self.end < end && end - self.end < self.stride && self.is_like_ec(store, self.end)? {
            self.end = end;
        }
        Ok(())
    }
}

/// Good EC header that begins at an offset.
fn header_at(hits: &[(u64, EcHeader)], at: u64) -> Option<&EcHeader> {
    hits.binary_search_by_key(&at, |hit| hit.0).ok().and_then(|index| hits.get(index)).map(|hit| &hit.1)
}

/// Splits consecutive devices of one image, such as an image that was flashed twice. Nearly all LEBs exist twice in
/// them, including the volume table. In one device only few LEBs do.
fn split(store: &mut dyn Store, region: Region) -> Result<Vec<Region>, ImageError> {
    if region.single || !region.stride.is_power_of_two() {
        return Ok(vec![region]);
    }
    let mut pebs = Vec::new();
    for peb in (region.offset..region.end).step_by(usize::try_from(region.stride).unwrap_or(usize::MAX)) {
        let header = region.vid(store, peb)?;
        pebs.push((peb, header.map(|header| ((header.volume_id, header.lnum), header.sqnum))));
    }
    let mut parts = Vec::new();
    let mut whole = region;
    while let Some(second) = second_begin(&pebs) {
        parts.push(Region { end: pebs[second].0, ..whole.clone() });
        whole.offset = pebs[second].0;
        pebs.drain(..second);
    }
    parts.push(whole);
    Ok(parts)
}

/// A PEB, with the LEB and the sequence number in its VID header.
type Claim = (u64, Option<((u32, u32), u64)>);

/// Smallest number of LEBs on both sides of the start of a second device: with the same sequence number, which no
/// device contains twice, and with any sequence number. LEBs that were changed before a power cut exist twice in one
/// device.
const COMMON_AND_EQUAL: usize = 2;
const COMMON: usize = 8;

/// First PEB of a second device: the position with the largest number of LEBs on both sides. Each side has a volume
/// table. At least half of the LEBs of the smaller side are also on the other side. If erased PEBs allow several
/// positions, the position at which devices of equal size meet is used, or otherwise the position of a volume table.
fn second_begin(pebs: &[Claim]) -> Option<usize> {
    let is_table = |claim: &Claim| claim.1.is_some_and(|((volume, _), _)| volume == LAYOUT_VOLUME);
    let mut right: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut claims = BTreeSet::new();
    let mut least = COMMON;
    for claim in pebs.iter().filter_map(|claim| claim.1) {
        *right.entry(claim.0).or_default() += 1;
        if !claims.insert(claim) {
            least = COMMON_AND_EQUAL;
        }
    }
    let mut left = Lebs::new();
    let mut tables = (false, pebs.iter().filter(|claim| is_table(claim)).count());
    // Of equal positions, the last is used, because erased PEBs belong to the device before them.
    let mut best: Option<((usize, bool, bool), usize)> = None;
    let mut common = 0;
    for (at, claim) in pebs.iter().enumerate() {
        let enough = 2 * common >= left.len().min(right.len()).max(1) && tables.0 && tables.1 > 0;
        let begins = is_table(claim) && at.checked_sub(1).is_none_or(|before| !is_table(&pebs[before]));
        let rank = (common, at > 0 && pebs.len().is_multiple_of(at), begins);
        if enough && best.is_none_or(|(most, _)| rank >= most) {
            best = Some((rank, at));
        }
        let Some((leb, _)) = claim.1 else { continue };
        let remaining = right.entry(leb).or_default();
        *remaining -= 1;
        let stays = *remaining > 0;
        if !stays {
            right.remove(&leb);
        }
        common = match (left.insert(leb), stays) {
            (true, true) => common + 1,
            (false, false) => common - 1,
            _ => common,
        };
        if is_table(claim) {
            tables = (true, tables.1 - 1);
        }
    }
    best.filter(|((common, ..), _)| *common >= least).map(|(_, at)| at)
}

//! Model of the expected contents of a device, for random operations, remounts and power cuts.

use super::common::Random;
use floatgate_mtd::Mtd;
use floatgate_stack::VolumeFault;
use floatgate_stack::ubi::{NewVolume, Ubi, UbiError};
use std::collections::BTreeMap;

/// State of a LEB: its contents, and whether an unmapped LEB may reappear with old contents.
#[derive(Clone, Debug, Default, PartialEq)]
struct Leb {
    data: Option<Vec<u8>>,
    ghost: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct ModelVolume {
    name: Vec<u8>,
    lebs: Vec<Leb>,
}

/// A random operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Append { id: u32, lnum: u32, data: Vec<u8> },
    Change { id: u32, lnum: u32, data: Vec<u8> },
    Map { id: u32, lnum: u32 },
    Unmap { id: u32, lnum: u32 },
    Erase { id: u32, lnum: u32 },
    Work(u32),
    Flush,
    Create { name: Vec<u8>, lebs: u32 },
    Remove { id: u32 },
    Resize { id: u32, lebs: u32 },
    Rename { id: u32, name: Vec<u8> },
}

/// The volumes of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    volumes: BTreeMap<u32, ModelVolume>,
    pub(crate) unit: usize,
    pub(crate) leb_bytes: usize,
}

impl Model {
    pub(crate) fn new(ubi: &Ubi<dyn Mtd>) -> Self {
        let geometry = ubi.info().geometry;
        let unit = (geometry.flash().min_io_bytes as usize).max(64);
        Self { volumes: BTreeMap::new(), unit, leb_bytes: geometry.leb_bytes() as usize }
    }

    /// Chooses an operation that is possible now.
    pub(crate) fn choose(&self, random: &mut Random, free: u32) -> Op {
        let pick = random.below(100);
        let ids: Vec<u32> = self.volumes.keys().copied().collect();
        if ids.is_empty() || (pick < 3 && ids.len() < 4 && free > 4) {
            let name = format!("volume {}", random.below(1000)).into_bytes();
            return Op::Create { name, lebs: 1 + random.below(u64::from(free.min(12))) as u32 };
        }
        let id = ids[random.below(ids.len() as u64) as usize];
        let lebs = self.volumes[&id].lebs.len() as u64;
        let lnum = random.below(lebs) as u32;
        match pick {
            3 if ids.len() > 1 => Op::Remove { id },
            4 => {
                let lebs = 1 + random.below(lebs + u64::from(free.min(3))) as u32;
                Op::Resize { id, lebs }
            }
            5 => Op::Rename { id, name: self.new_name(random, id) },
            6..40 => match self.room(id, lnum) {
                0 => Op::Change { id, lnum, data: self.data(random, self.leb_bytes) },
                room => Op::Append { id, lnum, data: self.data(random, room) },
            },
            40..70 => Op::Change { id, lnum, data: self.data(random, self.leb_bytes) },
            70..75 => Op::Map { id, lnum },
            75..85 => Op::Unmap { id, lnum },
            85..90 => Op::Erase { id, lnum },
            90..98 => Op::Work(1 + random.below(4) as u32),
            _ => Op::Flush,
        }
    }

    /// A new name, or the name of another volume.
    fn new_name(&self, random: &mut Random, id: u32) -> Vec<u8> {
        let others: Vec<_> = self.volumes.iter().filter(|(other, _)| **other != id).collect();
        match random.below(3) {
            0 if !others.is_empty() => others[random.below(others.len() as u64) as usize].1.name.clone(),
            _ => format!("renamed {}", random.below(1000)).into_bytes(),
        }
    }

    /// Bytes of a LEB that were not written yet.
    fn room(&self, id: u32, lnum: u32) -> usize {
        let held = self.volumes[&id].lebs[lnum as usize].data.as_ref().map_or(0, Vec::len);
        self.leb_bytes - held
    }

    /// Some units of random data, which never end in erased bytes.
    fn data(&self, random: &mut Random, room: usize) -> Vec<u8> {
        let units = 1 + random.below((room / self.unit).min(6) as u64) as usize;
        let mut data = random.bytes(units * self.unit);
        data.chunks_mut(self.unit).for_each(|unit| unit[0] &= 0x7F);
        data
    }

    /// Runs an operation on a device.
    pub(crate) fn run(&self, ubi: &mut Ubi<dyn Mtd>, op: &Op) -> Result<(), UbiError> {
        match op {
            Op::Append { id, lnum, data } => {
                let offset = self.volumes[id].lebs[*lnum as usize].data.as_ref().map_or(0, Vec::len);
                ubi.write_leb(*id, *lnum, offset as u32, data)
            }
            Op::Change { id, lnum, data } => ubi.change_leb(*id, *lnum, data),
            Op::Map { id, lnum } => match ubi.map_leb(*id, *lnum) {
                Err(UbiError::Access(VolumeFault::NotErased)) => Ok(()),
                result => result,
            },
            Op::Unmap { id, lnum } => ubi.unmap_leb(*id, *lnum),
            Op::Erase { id, lnum } => ubi.erase_leb(*id, *lnum),
            Op::Work(count) => ubi.work(*count).map(drop),
            Op::Flush => ubi.flush(),
            Op::Create { name, lebs } => match ubi.create_volume(&NewVolume::dynamic(name.clone(), *lebs)) {
                Err(UbiError::VolumeExists { .. } | UbiError::NoSpace { .. }) => Ok(()),
                result => result.map(drop),
            },
            Op::Remove { id } => ubi.remove_volume(*id),
            Op::Resize { id, lebs } => match ubi.resize_volume(*id, *lebs) {
                Err(UbiError::NoSpace { .. }) => Ok(()),
                result => result,
            },
            Op::Rename { id, name } => ubi.rename_volumes(&[(*id, name)]),
        }
    }

    /// The model after an operation. The id and size of a volume come from `ubi`.
    pub(crate) fn after(&self, op: &Op, ubi: &Ubi<dyn Mtd>) -> Self {
        let mut next = self.clone();
        match op {
            Op::Append { id, lnum, data } => next.leb(*id, *lnum).data.get_or_insert_default().extend(data),
            Op::Change { id, lnum, data } => {
                next.leb(*id, *lnum).data = Some(data.clone());
                next.leb(*id, *lnum).ghost = true;
            }
            Op::Map { id, lnum } => drop(next.leb(*id, *lnum).data.get_or_insert_default()),
            Op::Unmap { id, lnum } => {
                let leb = next.leb(*id, *lnum);
                leb.ghost |= leb.data.take().is_some();
            }
            Op::Erase { id, lnum } => *next.leb(*id, *lnum) = Leb::default(),
            Op::Work(_) => {}
            Op::Flush => {
                next.volumes.values_mut().flat_map(|v| &mut v.lebs).for_each(|leb| leb.ghost = false)
            }
            Op::Create { name, .. } => {
                if let Some(id) = ubi.id_of(name).filter(|id| !self.volumes.contains_key(id)) {
                    let lebs = ubi.volume(id).unwrap().reserved_lebs as usize;
                    next.volumes
                        .insert(id, ModelVolume { name: name.clone(), lebs: vec![Leb::default(); lebs] });
                }
            }
            Op::Remove { id } => drop(next.volumes.remove(id)),
            Op::Resize { id, .. } => {
                let lebs = ubi.volume(*id).unwrap().reserved_lebs as usize;
                next.volumes.get_mut(id).unwrap().lebs.resize(lebs, Leb::default());
            }
            Op::Rename { id, name } => {
                next.volumes.retain(|other, volume| other == id || volume.name != *name);
                next.volumes.get_mut(id).unwrap().name = name.clone();
            }
        }
        next
    }

    fn leb(&mut self, id: u32, lnum: u32) -> &mut Leb {
        &mut self.volumes.get_mut(&id).unwrap().lebs[lnum as usize]
    }

    /// Updates the volumes from a device after a power cut during `op`: they are either old or new.
    pub(crate) fn note_volumes(&mut self, op: &Op, ubi: &Ubi<dyn Mtd>) {
        let found: BTreeMap<u32, (Vec<u8>, u32)> =
            ubi.volumes().map(|v| (v.id, (v.name, v.reserved_lebs))).collect();
        let names = |model: &Self| -> BTreeMap<u32, (Vec<u8>, u32)> {
            let volumes = model.volumes.iter();
            volumes.map(|(id, v)| (*id, (v.name.clone(), v.lebs.len() as u32))).collect()
        };
        // Removing, renaming and shrinking may have unmapped LEBs already.
        if names(self) != found {
            *self = self.after(op, ubi);
        }
        if let Op::Resize { id, lebs } = op
            && let Some(volume) = self.volumes.get_mut(id)
        {
            volume
                .lebs
                .iter_mut()
                .skip(*lebs as usize)
                .for_each(|leb| *leb = Leb { data: None, ghost: true });
        }
        assert_eq!(names(self), found, "after {op:?}");
    }

    /// Checks all LEBs of a device, and takes over uncertain contents. With `op`, power was cut during that operation.
    pub(crate) fn check(&mut self, ubi: &mut Ubi<dyn Mtd>, op: Option<&Op>, id_of_run: &str) {
        let unit = self.unit;
        for (&id, volume) in &mut self.volumes {
            for (lnum, leb) in (0u32..).zip(&mut volume.lebs) {
                let mut bytes = vec![0; self.leb_bytes];
                let read = ubi.read_leb(id, lnum, 0, &mut bytes);
                let mapped = ubi.is_mapped(id, lnum).unwrap();
                let found = read.is_ok().then(|| {
                    let end = bytes.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
                    bytes[..end.next_multiple_of(unit)].to_vec()
                });
                let found = match (found, mapped) {
                    (Some(data), true) => Found::Data(data),
                    (Some(_), false) => Found::Nothing,
                    (None, _) => Found::Unreadable,
                };
                leb.check(
                    found,
                    op.and_then(|op| op.effect(id, lnum)),
                    &format!("{id_of_run}: volume {id}, LEB {lnum}"),
                );
            }
        }
    }
}

/// Contents found in a LEB.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    Nothing,
    Data(Vec<u8>),
    Unreadable,
}

/// Intended effect of an operation on a LEB.
enum Effect<'a> {
    Append(&'a [u8]),
    Change(&'a [u8]),
    Map,
    Unmap,
}

impl Op {
    fn effect(&self, volume: u32, leb: u32) -> Option<Effect<'_>> {
        let (id, lnum, effect) = match self {
            Self::Append { id, lnum, data } => (id, lnum, Effect::Append(data)),
            Self::Change { id, lnum, data } => (id, lnum, Effect::Change(data)),
            Self::Map { id, lnum } => (id, lnum, Effect::Map),
            Self::Unmap { id, lnum } | Self::Erase { id, lnum } => (id, lnum, Effect::Unmap),
            _ => return None,
        };
        ((*id, *lnum) == (volume, leb)).then_some(effect)
    }
}

impl Leb {
    fn check(&mut self, found: Found, effect: Option<Effect<'_>>, place: &str) {
        let exact = match &self.data {
            Some(data) => found == Found::Data(data.clone()),
            None => found == Found::Nothing || self.ghost,
        };
        let good = exact
            || match &effect {
                None => false,
                Some(Effect::Append(data)) => self.is_prefix(&found, data),
                Some(Effect::Change(data)) => {
                    // The LEB may have been mapped first, without data.
                    let empty = self.data.is_none() && found == Found::Data(Vec::new());
                    empty || found == Found::Data(data.to_vec())
                }
                Some(Effect::Map) => self.data.is_none() && found == Found::Data(Vec::new()),
                Some(Effect::Unmap) => true,
            };
        assert!(
            good,
            "{place}: {} bytes expected, ghost {}, found {found:?}",
            self.data.as_ref().map_or(0, Vec::len),
            self.ghost
        );
        // Contents that reappear after an interrupted erase may read differently next time.
        if matches!(effect, Some(Effect::Unmap)) {
            *self = Self { data: None, ghost: true };
            return;
        }
        let unmapped = self.data.is_none();
        match found {
            // Old contents of unmapped LEBs can appear and disappear with each attach.
            _ if exact && unmapped => self.ghost |= found != Found::Nothing,
            Found::Nothing => self.data = None,
            Found::Data(data) => self.data = Some(data),
            Found::Unreadable => *self = Self { data: None, ghost: true },
        }
    }

    /// True if the LEB contains the old data, followed by a prefix of the new data.
    fn is_prefix(&self, found: &Found, new: &[u8]) -> bool {
        let old = self.data.as_deref().unwrap_or(&[]);
        match found {
            Found::Nothing => self.data.is_none(),
            Found::Data(data) => data.starts_with(old) && data.len() <= old.len() + new.len(),
            Found::Unreadable => true,
        }
    }
}

impl Model {
    /// Erases reappeared and partly written LEBs, as every user of a LEB must do after a power cut.
    pub(crate) fn clean(&mut self, ubi: &mut Ubi<dyn Mtd>, op: Option<&Op>) -> Result<(), UbiError> {
        for (&id, volume) in &mut self.volumes {
            for (lnum, leb) in (0u32..).zip(&mut volume.lebs) {
                if leb.data.is_none() && leb.ghost {
                    ubi.erase_leb(id, lnum)?;
                    leb.ghost = false;
                }
                if let Some(Effect::Append(_)) = op.and_then(|op| op.effect(id, lnum)) {
                    let data = leb.data.clone().unwrap_or_default();
                    ubi.change_leb(id, lnum, &data)?;
                    leb.data = Some(data);
                }
            }
        }
        Ok(())
    }
}

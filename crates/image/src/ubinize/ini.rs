//! The ini file of `ubinize`: a section for each volume.

use std::path::{Path, PathBuf};

use floatgate_media::ubi::{VolumeFlags, VolumeType};
use floatgate_mtd::size;

use super::{UbinizeError, VolumeSource};

/// A section with its keys and their lines.
struct Section {
    name: String,
    line: usize,
    keys: Vec<(String, String, usize)>,
}

/// Parses the text of an ini file; paths of images are relative to the folder of `path`.
///
/// # Errors
/// An error, with its line.
pub fn parse(text: &str, path: &Path) -> Result<Vec<VolumeSource>, UbinizeError> {
    let wrong = |line, what: String| UbinizeError::Ini { path: path.to_owned(), line, what };
    let sections = sections(text).map_err(|(line, what)| wrong(line, what))?;
    if sections.is_empty() {
        return Err(wrong(1, "no volume is described".to_owned()));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let volumes = sections.iter().map(|section| section.volume(folder));
    volumes.map(|volume| volume.map_err(|(line, what)| wrong(line, what))).collect()
}

fn sections(text: &str) -> Result<Vec<Section>, (usize, String)> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.split(']').next().unwrap_or_default().trim().to_owned();
            sections.push(Section { name, line: number, keys: Vec::new() });
            continue;
        }
        let (key, value) = line.split_once('=').ok_or((number, format!("{line:?} is no key=value")))?;
        let section = sections.last_mut().ok_or((number, "a key before the first [section]".to_owned()))?;
        section.keys.push((key.trim().to_lowercase(), unquoted(value.trim()).to_owned(), number));
    }
    Ok(sections)
}

/// Value without quotes, or without a comment after it.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return inner;
        }
    }
    value.split([';', '#']).next().unwrap_or_default().trim()
}

impl Section {
    fn get(&self, key: &str) -> Option<(&str, usize)> {
        let found = self.keys.iter().rev().find(|(name, ..)| name == key);
        found.map(|(_, value, line)| (value.as_str(), *line))
    }

    fn need(&self, key: &str) -> Result<(&str, usize), (usize, String)> {
        self.get(key).ok_or_else(|| (self.line, format!("section [{}] has no {key}", self.name)))
    }

    fn volume(&self, folder: &Path) -> Result<VolumeSource, (usize, String)> {
        const KEYS: [&str; 8] =
            ["mode", "image", "vol_id", "vol_size", "vol_type", "vol_name", "vol_flags", "vol_alignment"];
        if let Some((key, _, line)) = self.keys.iter().find(|(key, ..)| !KEYS.contains(&key.as_str())) {
            return Err((*line, format!("{key:?} is no key; there are {}", KEYS.join(", "))));
        }
        match self.need("mode")? {
            ("ubi", _) => {}
            (other, line) => return Err((line, format!("mode is ubi, not {other:?}"))),
        }
        let size = self
            .get("vol_size")
            .map(|(value, line)| size::parse(value).map_err(|what| (line, what.to_string())));
        let image = self.get("image").map(|(value, _)| -> PathBuf { folder.join(value) });
        let volume = VolumeSource {
            id: self
                .number("vol_id")?
                .ok_or_else(|| (self.line, format!("section [{}] has no vol_id", self.name)))?,
            name: self.need("vol_name")?.0.to_owned(),
            volume_type: self.volume_type()?,
            size: size.transpose()?,
            alignment: self.number("vol_alignment")?.unwrap_or(1),
            flags: self.flags()?,
            image,
        };
        if volume.size.is_none() && volume.image.is_none() {
            return Err((self.line, format!("section [{}] has neither image nor vol_size", self.name)));
        }
        Ok(volume)
    }

    fn number(&self, key: &str) -> Result<Option<u32>, (usize, String)> {
        let Some((value, line)) = self.get(key) else { return Ok(None) };
        let number = value.parse().map_err(|_| (line, format!("{key} is a number, not {value:?}")))?;
        Ok(Some(number))
    }

    fn volume_type(&self) -> Result<VolumeType, (usize, String)> {
        match self.get("vol_type") {
            None | Some(("dynamic", _)) => Ok(VolumeType::Dynamic),
            Some(("static", _)) => Ok(VolumeType::Static),
            Some((other, line)) => Err((line, format!("vol_type is dynamic or static, not {other:?}"))),
        }
    }

    fn flags(&self) -> Result<VolumeFlags, (usize, String)> {
        let Some((value, line)) = self.get("vol_flags") else { return Ok(VolumeFlags::default()) };
        let mut flags = VolumeFlags::default();
        for flag in value.split(',').map(str::trim) {
            flags = match flag {
                "autoresize" => flags.with(VolumeFlags::AUTORESIZE),
                "skip-check" => flags.with(VolumeFlags::SKIP_CRC_CHECK),
                other => {
                    return Err((line, format!("vol_flags are autoresize and skip-check, not {other:?}")));
                }
            };
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_a_volume() {
        let text = "; two volumes\n[root]\nmode=ubi\nimage = a.img # here\nvol_id=1\nVol_Name=\"my root\"\n\
                    vol_flags = autoresize\nvol_size=1MiB\n[boot]\nmode=ubi\nvol_id=0\nvol_type=static\nvol_name=boot\n\
                    vol_size=4096\nvol_alignment=2048\n";
        let volumes = parse(text, Path::new("dir/x.ini")).unwrap();
        assert_eq!(volumes[0].image, Some(PathBuf::from("dir/a.img")));
        assert_eq!((volumes[0].id, volumes[0].name.as_str(), volumes[0].size), (1, "my root", Some(1 << 20)));
        assert!(volumes[0].flags.contains(VolumeFlags::AUTORESIZE));
        assert_eq!((volumes[1].volume_type, volumes[1].alignment), (VolumeType::Static, 2048));
    }

    #[test]
    fn errors_have_their_line() {
        for (text, line, what) in [
            ("vol_id=0\n", 1, "before the first"),
            ("[a]\nnonsense\n", 2, "no key=value"),
            ("[a]\nmode=ubifs\n", 2, "mode is ubi"),
            ("[a]\nmode=ubi\nvol_id=x\nvol_name=a\n", 3, "is a number"),
            ("\n[a]\nmode=ubi\nvol_id=0\n", 2, "no vol_name"),
            ("[a]\nmode=ubi\nvol_id=0\nvol_name=a\nvol_size=1x\n", 5, "is no size"),
            ("[a]\nmode=ubi\nvol_id=0\nvol_name=a\nvol_flags=big\n", 5, "vol_flags are"),
            ("[a]\nmode=ubi\nvol_id=0\nvol_name=a\n", 1, "neither image"),
            ("[a]\nmode=ubi\ncolour=red\n", 3, "is no key"),
            ("# nothing\n", 1, "no volume"),
        ] {
            let error = parse(text, Path::new("x.ini")).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("x.ini:{line}: ")) && error.contains(what),
                "{text:?}: {error}"
            );
        }
    }
}

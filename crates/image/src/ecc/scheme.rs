//! A code in an OOB layout, for pages of one geometry.

use super::{EccError, PageGeometry};
use floatgate_ecc::{Code, Codec, LayoutName, OobLayout};

/// Everything that says how a page is protected.
#[derive(Clone, Debug)]
pub struct Scheme {
    geometry: PageGeometry,
    codec: Codec,
    layout: OobLayout,
    name: LayoutName,
    /// It was found out, not stated.
    is_found: bool,
}

/// Layouts that [`LayoutName::Linux`] may stand for. Two of them may be the same for a page; a Hamming code's own comes
/// first for it.
pub(super) const fn usual_layouts(code: Code) -> [LayoutName; 3] {
    match code {
        Code::Hamming { .. } | Code::HammingSmartMedia { .. } => {
            [LayoutName::LargePageHamming, LayoutName::LargePage, LayoutName::SmallPage]
        }
        Code::Bch { .. } | Code::BchOver { .. } => {
            [LayoutName::LargePage, LayoutName::SmallPage, LayoutName::LargePageHamming]
        }
    }
}

impl Scheme {
    /// # Errors
    /// No such code; pages that are not whole steps; a layout without room for the ECC bytes.
    pub fn new(geometry: PageGeometry, code: Code, name: LayoutName) -> Result<Self, EccError> {
        let (layout, name) = Self::place(&geometry, code, name)?;
        Ok(Self { geometry, codec: Codec::new(code)?, layout, name, is_found: false })
    }

    /// The same code elsewhere in the OOB: the tables of a codec take longer to make than a few pages to read.
    pub(super) fn moved(&self, name: LayoutName) -> Result<Self, EccError> {
        let (layout, name) = Self::place(&self.geometry, self.code(), name)?;
        Ok(Self {
            geometry: self.geometry.clone(),
            codec: self.codec.clone(),
            layout,
            name,
            is_found: self.is_found,
        })
    }

    /// The same scheme, which was found out: a page that speaks against it stays as it was read.
    pub(super) fn into_found(self) -> Self {
        Self { is_found: true, ..self }
    }

    /// True when it was found out, not stated.
    pub(super) const fn is_found(&self) -> bool {
        self.is_found
    }

    /// Where the ECC bytes are, and the name of that.
    fn place(
        geometry: &PageGeometry,
        code: Code,
        name: LayoutName,
    ) -> Result<(OobLayout, LayoutName), EccError> {
        code.check()?;
        let (page_bytes, step_bytes) = (geometry.page_bytes, code.step_bytes());
        if page_bytes % step_bytes != 0 {
            return Err(EccError::Steps { code: code.to_string(), page_bytes, step_bytes });
        }
        let steps = page_bytes / step_bytes;
        let ecc_bytes = steps * code.ecc_bytes();
        let named = |name| OobLayout::named(name, geometry.oob_bytes, ecc_bytes, steps);
        let layout = named(name).map_err(|error| EccError::Layout { code: code.to_string(), error })?;
        if layout.ecc_bytes() != ecc_bytes {
            return Err(EccError::Hidden { code: code.to_string(), layout: name.to_string(), ecc_bytes });
        }
        let concrete = usual_layouts(code).into_iter().find(|other| named(*other) == Ok(layout));
        Ok((layout, if name == LayoutName::Linux { concrete.unwrap_or(name) } else { name }))
    }

    /// Sizes and marker.
    pub const fn geometry(&self) -> &PageGeometry {
        &self.geometry
    }

    /// The code.
    pub const fn code(&self) -> Code {
        self.codec.code()
    }

    /// Name of the layout; that which Linux chose in place of `linux`.
    pub const fn layout_name(&self) -> LayoutName {
        self.name
    }

    /// Layout of the ECC bytes in the OOB.
    pub const fn layout(&self) -> &OobLayout {
        &self.layout
    }

    /// Steps of a page.
    pub fn steps(&self) -> u32 {
        self.geometry.page_bytes / self.code().step_bytes()
    }

    /// ECC bytes of a page.
    pub fn ecc_bytes(&self) -> u32 {
        self.layout.ecc_bytes()
    }

    pub(super) const fn codec(&self) -> &Codec {
        &self.codec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(page: u32, oob: u32, code: &str, layout: LayoutName) -> Result<Scheme, EccError> {
        Scheme::new(PageGeometry::new(page, oob, None)?, code.parse()?, layout)
    }

    #[test]
    fn linux_takes_the_layout_that_fits_page_and_code() {
        let name = |page, oob, code: &str| scheme(page, oob, code, LayoutName::Linux).unwrap().layout_name();
        assert_eq!(name(512, 16, "hamming/256"), LayoutName::SmallPage);
        assert_eq!(name(2048, 64, "hamming/256"), LayoutName::LargePageHamming);
        assert_eq!(name(2048, 64, "bch4/512"), LayoutName::LargePage);
        let bch = scheme(2048, 64, "bch8/512", LayoutName::Linux).unwrap();
        assert_eq!((bch.steps(), bch.ecc_bytes(), bch.layout().ecc()[0].offset), (4, 52, 12));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |page, oob, code: &str, layout| scheme(page, oob, code, layout).unwrap_err();
        assert!(matches!(refused(2048, 64, "bch16/512", LayoutName::Linux), EccError::Layout { .. }));
        assert!(matches!(refused(2048, 64, "bch4/512", LayoutName::Macronix), EccError::Hidden { .. }));
        assert!(matches!(refused(2000, 64, "bch4/512", LayoutName::Linux), EccError::Steps { .. }));
        assert!(matches!(refused(0, 64, "bch4/512", LayoutName::Linux), EccError::Size { value: 0, .. }));
        assert!(matches!(refused(2048, u32::MAX, "bch4/512", LayoutName::Linux), EccError::Size { .. }));
        let block = PageGeometry::new(65536, 65536, Some(16384)).unwrap_err();
        assert!(matches!(block, EccError::Size { what: "a block size", .. }));
    }
}

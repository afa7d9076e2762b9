//! Tiles of processors that have none: no value of these types exists.

use super::super::level::Kernel;
use super::{Factors, LANES, STEP, Sums};

/// No processor of this kind has tiles.
#[derive(Clone, Copy)]
pub(crate) enum Tiles {}

/// Nor registers with shapes.
pub(crate) struct TileSession(Tiles);

impl Tiles {
    pub fn run<K: Kernel>(self, _kernel: K) -> K::Output {
        match self {}
    }

    pub fn session(self) -> TileSession {
        match self {}
    }

    pub fn narrow(self, _values: &[f32; STEP], _out: &mut [u16; STEP]) {
        match self {}
    }

    pub fn widen(
        self,
        _codes: &[u8; 4 * LANES],
        _scale: &[f32; LANES],
        _least: &[f32; LANES],
        _out: &mut [[u16; STEP]; 2],
    ) {
        match self {}
    }
}

impl TileSession {
    /// # Safety
    ///
    /// Cannot be called.
    pub unsafe fn multiply(&self, _factors: Factors, _sums: &mut [Sums; 4]) {
        match self.0 {}
    }
}

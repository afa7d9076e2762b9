//! AMX where kernels are not compiled for it: no value of these types exists.

use super::tile::{SplitColumns, SplitStep, TILE_K, TileC, TileOperands};
use crate::simd::vector::Kernel;
use crate::simd::vector::LANES;

/// Uninhabited: no level has AMX.
#[derive(Clone, Copy)]
pub(crate) enum Amx {}

/// Uninhabited.
pub(crate) struct AmxSession(Amx);

impl Amx {
    pub fn run<K: Kernel>(self, _kernel: K) -> K::Output {
        match self {}
    }

    pub fn session(self) -> AmxSession {
        match self {}
    }

    pub fn to_bf16(self, _values: &[f32; TILE_K], _out: &mut [u16; TILE_K]) {
        match self {}
    }

    pub fn dequantize_to_bf16(
        self,
        _codes: &[u8; 4 * LANES],
        _scale: &[f32; LANES],
        _least: &[f32; LANES],
        _out: &mut [[u16; TILE_K]; 2],
    ) {
        match self {}
    }

    pub fn split<const TERMS: usize>(
        self,
        _values: &[f32; TILE_K],
        _out: [&mut [u16; TILE_K]; TERMS],
    ) -> bool {
        match self {}
    }

    pub fn gather(self, _from: &[f32], _stride: usize) -> [f32; TILE_K] {
        match self {}
    }

    pub fn split_pairs<const TERMS: usize>(
        self,
        _even: &[f32; LANES],
        _odd: &[f32; LANES],
        _out: [&mut [u16; TILE_K]; TERMS],
    ) -> bool {
        match self {}
    }
}

impl AmxSession {
    /// # Safety
    ///
    /// Cannot be called.
    pub unsafe fn multiply(&self, _factors: TileOperands, _sums: &mut [TileC; 4]) {
        match self.0 {}
    }

    pub fn multiply_split<const TERMS: usize>(
        &self,
        _rows: &[SplitStep<TERMS>],
        _columns: SplitColumns,
        _sums: &mut [TileC; 4],
    ) {
        match self.0 {}
    }
}

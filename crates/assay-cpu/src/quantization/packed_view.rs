//! Packed weights borrowed from memory, and their GEMM with quantized activations.

use super::amx_panels::AmxPanels;
use super::block::Block;
use super::format::BlockFormat;
use super::packing::{OPERATION, for_panel, packed_bytes, unpack_row};
use super::panels::{Mxfp4Panel, Panel, Q4KPanel, Q5KPanel, Q6KPanel, Q8Panel, Q40Panel, Q41Panel};
use super::quantized_activations::{Group, QuantizedActivations};
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::{Epilogue, MIN_AMX_ROWS, TileEpilogue, tile_gemm, with_bf16_rows};
use crate::simd::{Kernel, LANES, Vector, prefetch, store_partial};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// A matrix of quantized weights, repacked by [`pack_into`](super::pack_into).
#[derive(Clone, Copy)]
pub struct PackedView<'a> {
    pub(super) format: BlockFormat,
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) panels: &'a [u8],
    /// A scale per row, for int8 weights.
    pub(super) row_scales: Option<&'a [f32]>,
}

impl<'a> PackedView<'a> {
    /// A view of memory that [`pack_into`](super::pack_into) filled.
    pub fn new(
        format: BlockFormat,
        panels: &'a [u8],
        row_scales: Option<&'a [f32]>,
        outputs: usize,
        inputs: usize,
    ) -> Result<Self> {
        let bytes = packed_bytes(format, outputs, inputs)?;
        check_length(OPERATION, "panels", panels.len(), &[bytes])?;
        if let Some(scales) = row_scales {
            check_length(OPERATION, "scales", scales.len(), &[outputs])?;
        }
        Ok(PackedView { format, outputs, inputs, panels, row_scales })
    }

    /// Dequantizes one row to `out`.
    pub fn dequantize_row(&self, row: usize, out: &mut [f32]) -> Result<()> {
        let operation = "dequantize";
        check_value(
            operation,
            "row",
            row < self.outputs,
            format_args!("below {}", self.outputs),
            row,
        )?;
        check_length(operation, "out", out.len(), &[self.inputs])?;
        self.write_row(row, out);
        Ok(())
    }

    /// The same without bounds checks on `row`.
    pub(crate) fn write_row(&self, row: usize, out: &mut [f32]) {
        unpack_row(self.format, self.panels, row, out);
        if let Some(scales) = self.row_scales {
            out.iter_mut().for_each(|value| *value *= scales[row]);
        }
    }

    /// Rows of weights: the output features of a linear layer.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Weights in a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Writes `activations @ weights.T` to `out`, with the epilogue applied.
    pub fn linear(
        &self,
        context: Context,
        activations: &QuantizedActivations,
        epilogue: Epilogue,
        out: &mut [f32],
    ) -> Result<()> {
        let operation = "linear";
        check_value(
            operation,
            "activations",
            activations.depth() == self.inputs,
            format_args!("{} inputs", self.inputs),
            activations.depth(),
        )?;
        let rows = activations.rows();
        check_length(operation, "out", out.len(), &[rows, self.outputs])?;
        epilogue.check(operation, rows, self.outputs)?;
        for_panel!(self.format, P => self.run::<P>(context, activations, epilogue, out));
        Ok(())
    }

    /// The same for rows of `f32`, in bfloat16 on AMX tiles. Returns false and does nothing without AMX
    /// or with too few rows.
    ///
    /// Results are not bitwise equal to those of [`PackedView::linear`].
    pub fn linear_amx(
        &self,
        context: Context,
        x: &[f32],
        rows: usize,
        epilogue: Epilogue,
        out: &mut [f32],
    ) -> Result<bool> {
        let operation = "linear";
        check_length(operation, "x", x.len(), &[rows, self.inputs])?;
        check_length(operation, "out", out.len(), &[rows, self.outputs])?;
        epilogue.check(operation, rows, self.outputs)?;
        let Some(amx) = context.level.amx() else {
            return Ok(false);
        };
        if rows < MIN_AMX_ROWS || self.inputs == 0 {
            return Ok(false);
        }
        let finish = TileEpilogue { transposed: false, scales: self.row_scales, epilogue };
        with_bf16_rows(context, amx, x, self.inputs, |rows| {
            for_panel!(self.format, P => {
                let columns = AmxPanels::<P>::new(self.panels, self.inputs);
                tile_gemm(context, amx, rows, &columns, self.outputs, finish, out);
            });
        });
        Ok(true)
    }

    fn run<P: Panel>(
        &self,
        context: Context,
        activations: &QuantizedActivations,
        epilogue: Epilogue,
        out: &mut [f32],
    ) {
        let out = DisjointSlice::new(out);
        let panel_bytes = P::BYTES * (self.inputs / P::Source::VALUES);
        // Ten thousand bytes amortize waking a thread.
        let minimum = 16_384_usize.div_ceil(panel_bytes.max(1) * activations.rows().max(1));
        let panels = self.outputs.div_ceil(LANES);
        context.threads.parallel_for(panels, minimum, &|panels| {
            context.level.run(PackedGemm::<P> {
                weights: *self,
                panels,
                panel: std::marker::PhantomData,
                activations,
                epilogue,
                out: &out,
            });
        });
    }
}

/// Panels that are read at once for a single row.
const PANELS_AT_ONCE: usize = 4;

/// The software prefetch distance: the hardware prefetcher stops at page boundaries.
const PREFETCH_BYTES: usize = 4_096;

/// A range of panels times all rows of activations.
struct PackedGemm<'a, P> {
    weights: PackedView<'a>,
    panels: Range<usize>,
    panel: std::marker::PhantomData<P>,
    activations: &'a QuantizedActivations,
    epilogue: Epilogue<'a>,
    out: &'a DisjointSlice<'a, f32>,
}

impl<P: Panel> Kernel for PackedGemm<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let rows = self.activations.rows();
        let mut panels = self.panels.clone();
        if rows == 1 {
            // One row is memory-bound, and several streams are read faster than one.
            while panels.len() >= PANELS_AT_ONCE {
                self.tile::<V, 1, PANELS_AT_ONCE>(v, panels.start, 0);
                panels.start += PANELS_AT_ONCE;
            }
        }
        for panel in panels {
            let mut row = 0;
            while row < rows {
                row += match rows - row {
                    8.. if V::HAS_32_REGISTERS => self.tile::<V, 8, 1>(v, panel, row),
                    4.. => self.tile::<V, 4, 1>(v, panel, row),
                    _ => self.tile::<V, 1, 1>(v, panel, row),
                };
            }
        }
    }
}

impl<P: Panel> PackedGemm<'_, P> {
    /// `PANELS` panels times `ROWS` rows; returns `ROWS`.
    #[inline(always)]
    fn tile<V: Vector, const ROWS: usize, const PANELS: usize>(
        &self,
        v: V,
        panel: usize,
        first: usize,
    ) -> usize {
        let weights = &self.weights;
        let blocks = weights.inputs / P::Source::VALUES;
        let length = blocks * P::BYTES;
        let bytes = &weights.panels[panel * length..][..PANELS * length];
        let rows: [&[Group]; ROWS] = std::array::from_fn(|row| self.activations.row(first + row));
        let mut sums = [[v.splat(0.0); ROWS]; PANELS];
        let sub_block_bytes = P::BYTES / P::SUB_BLOCKS;
        for block in 0..blocks {
            for sub_block in 0..P::SUB_BLOCKS {
                let groups =
                    std::array::from_fn(|row| &rows[row][block * P::SUB_BLOCKS + sub_block]);
                for (panel_index, sums) in sums.iter_mut().enumerate() {
                    let bytes = &bytes[panel_index * length + block * P::BYTES..][..P::BYTES];
                    if first == 0 {
                        // The prefetch continues into the next panel, which follows in memory.
                        for line in (0..sub_block_bytes).step_by(64) {
                            let ahead = PREFETCH_BYTES + sub_block * sub_block_bytes + line;
                            prefetch(bytes.as_ptr().wrapping_add(ahead));
                        }
                    }
                    P::multiply(v, bytes, sub_block, &groups, sums);
                }
            }
        }
        for (panel_index, sums) in sums.iter().enumerate() {
            for (row, sum) in sums.iter().enumerate() {
                self.finish(v, panel + panel_index, first + row, *sum);
            }
        }
        ROWS
    }

    /// Stores a panel's outputs of one row and applies the epilogue.
    #[inline(always)]
    fn finish<V: Vector>(&self, v: V, panel: usize, row: usize, sum: V::F) {
        let weights = &self.weights;
        let columns = panel * LANES..weights.outputs.min((panel + 1) * LANES);
        let start = row * weights.outputs;
        let range = start + columns.start..start + columns.end;
        // SAFETY: panels do not share columns.
        let out = unsafe { self.out.slice_mut(range) };
        match out.first_chunk_mut::<LANES>() {
            Some(lanes) => v.store(sum, lanes),
            None => store_partial(v, sum, out),
        }
        if let Some(scales) = &weights.row_scales {
            for (out, scale) in out.iter_mut().zip(&scales[columns.clone()]) {
                *out *= scale;
            }
        }
        self.epilogue.apply(v, start, columns, out);
    }
}

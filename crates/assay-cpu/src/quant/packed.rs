//! Quantised weights repacked for the processor, and their product with activations.

use super::panels::{Q4KPanel, Q6KPanel, Q8Panel, Q40Panel, Q41Panel};
use super::{Activations, Block, Format, Group, Panel};
use crate::aligned::Aligned;
use crate::error::{Result, check_length, check_value};
use crate::ops::{Context, Epilogue};
use crate::simd::{Kernel, LANES, Vector, prefetch};
use crate::threads::Disjoint;
use std::ops::Range;

/// A matrix of quantised weights, one row per output, sixteen rows side by side.
///
/// ```
/// use assay_cpu::ops::{Context, Epilogue};
/// use assay_cpu::quant::{Activations, Format, PackedWeights, quantise};
/// let context = Context::best();
/// let mut blocks = [0; 34];
/// quantise(context, Format::Q8_0, &[0.5; 32], &mut blocks)?;
/// let weights = PackedWeights::new(context, Format::Q8_0, &blocks, 1, 32)?;
/// let mut activations = Activations::new();
/// activations.quantise(context, &[2.0; 32], 1, 32)?;
/// let mut out = [0.0];
/// weights.linear(context, &activations, Epilogue::default(), &mut out)?;
/// assert!((out[0] - 32.0_f32).abs() < 0.1);
/// # Ok::<(), assay_cpu::error::OpError>(())
/// ```
#[derive(Clone)]
pub struct PackedWeights {
    format: Format,
    outputs: usize,
    inputs: usize,
    panels: Aligned,
    /// One more scale per row, for weights that have one.
    row_scales: Option<Vec<f32>>,
}

impl PackedWeights {
    /// Repacks `outputs` rows of `inputs` weights from blocks as they are in a file.
    pub fn new(
        context: Context,
        format: Format,
        blocks: &[u8],
        outputs: usize,
        inputs: usize,
    ) -> Result<Self> {
        let operation = "pack weights";
        let row_bytes = format.bytes(operation, inputs)?;
        check_length(operation, "blocks", blocks.len(), &[outputs, row_bytes])?;
        let panels = match format {
            Format::Q8_0 => pack_all::<Q8Panel>(context, blocks, outputs, row_bytes),
            Format::Q4_0 => pack_all::<Q40Panel>(context, blocks, outputs, row_bytes),
            Format::Q4_1 => pack_all::<Q41Panel>(context, blocks, outputs, row_bytes),
            Format::Q4K => pack_all::<Q4KPanel>(context, blocks, outputs, row_bytes),
            Format::Q6K => pack_all::<Q6KPanel>(context, blocks, outputs, row_bytes),
        };
        Ok(PackedWeights {
            format,
            outputs,
            inputs,
            panels,
            row_scales: None,
        })
    }

    /// Signed bytes with one scale for each row.
    pub fn from_int8(
        context: Context,
        values: &[i8],
        scales: &[f32],
        outputs: usize,
        inputs: usize,
    ) -> Result<Self> {
        let operation = "pack weights";
        check_length(operation, "values", values.len(), &[outputs, inputs])?;
        check_length(operation, "scales", scales.len(), &[outputs])?;
        let bytes = Format::Q8_0.bytes(operation, values.len())?;
        let mut blocks = Vec::with_capacity(bytes);
        for group in values.chunks_exact(Format::Q8_0.block_values()) {
            blocks.extend(crate::number::f32_to_f16(1.0).to_le_bytes());
            blocks.extend(group.iter().map(|value| *value as u8));
        }
        let mut packed = Self::new(context, Format::Q8_0, &blocks, outputs, inputs)?;
        packed.row_scales = Some(scales.to_vec());
        Ok(packed)
    }

    /// The format the weights came in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Rows of weights, which are the outputs of a linear layer.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Weights in a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Bytes a product reads of them.
    pub fn bytes(&self) -> usize {
        self.panels.bytes().len()
    }

    /// Writes `activations` times the transposed weights to `out`: a row per row of activations.
    pub fn linear(
        &self,
        context: Context,
        activations: &Activations,
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
        check_length(
            operation,
            "out",
            out.len(),
            &[activations.rows(), self.outputs],
        )?;
        epilogue.check(operation, self.outputs)?;
        match self.format {
            Format::Q8_0 => self.run::<Q8Panel>(context, activations, epilogue, out),
            Format::Q4_0 => self.run::<Q40Panel>(context, activations, epilogue, out),
            Format::Q4_1 => self.run::<Q41Panel>(context, activations, epilogue, out),
            Format::Q4K => self.run::<Q4KPanel>(context, activations, epilogue, out),
            Format::Q6K => self.run::<Q6KPanel>(context, activations, epilogue, out),
        }
        Ok(())
    }

    fn run<P: Panel>(
        &self,
        context: Context,
        activations: &Activations,
        epilogue: Epilogue,
        out: &mut [f32],
    ) {
        let out = Disjoint::new(out);
        let panel_bytes = P::BYTES * (self.inputs / P::Source::VALUES);
        // A thread is worth waking for some ten thousand bytes.
        let least = 16_384_usize.div_ceil(panel_bytes.max(1) * activations.rows().max(1));
        let panels = self.outputs.div_ceil(LANES);
        context.threads.ranges(panels, least, &|panels| {
            context.level.run(Product::<P> {
                weights: self,
                panels,
                panel: std::marker::PhantomData,
                activations,
                epilogue,
                out: &out,
            });
        });
    }
}

impl std::fmt::Debug for PackedWeights {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "PackedWeights({}, {} x {})",
            self.format, self.outputs, self.inputs
        )
    }
}

fn pack_all<P: Panel>(
    context: Context,
    blocks: &[u8],
    outputs: usize,
    row_bytes: usize,
) -> Aligned {
    let per_row = row_bytes / P::Source::BYTES;
    let panel_bytes = per_row * P::BYTES;
    // Rows that fill up the last panel are zeros with a scale of zero.
    let mut packed = Aligned::zeroed(outputs.div_ceil(LANES) * panel_bytes);
    let out = Disjoint::new(packed.bytes_mut());
    context
        .threads
        .ranges(outputs.div_ceil(LANES), 1, &|panels| {
            // SAFETY: ranges of panels do not overlap.
            let out = unsafe { out.part(panels.start * panel_bytes..panels.end * panel_bytes) };
            for (index, panel) in panels.zip(out.chunks_exact_mut(panel_bytes.max(1))) {
                let rows = index * LANES..outputs.min((index + 1) * LANES);
                for (lane, row) in rows.enumerate() {
                    let source = &blocks[row * row_bytes..(row + 1) * row_bytes];
                    let blocks = source.chunks_exact(P::Source::BYTES);
                    for (source, panel) in blocks.zip(panel.chunks_exact_mut(P::BYTES)) {
                        P::pack(source, lane, panel);
                    }
                }
            }
        });
    packed
}

/// Panels that are read side by side for a single row.
const BESIDE: usize = 4;

/// How far ahead weights are fetched: hardware stops at the end of a page, and these runs are long.
const AHEAD: usize = 4_096;

/// Some panels times all rows of activations.
struct Product<'a, P> {
    weights: &'a PackedWeights,
    panels: Range<usize>,
    panel: std::marker::PhantomData<P>,
    activations: &'a Activations,
    epilogue: Epilogue<'a>,
    out: &'a Disjoint<'a, f32>,
}

impl<P: Panel> Kernel for Product<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let rows = self.activations.rows();
        let mut panels = self.panels.clone();
        if rows == 1 {
            // One row leaves memory the limit, and several runs of it are read faster than one.
            while panels.len() >= BESIDE {
                self.tile::<V, 1, BESIDE>(v, panels.start, 0);
                panels.start += BESIDE;
            }
        }
        for panel in panels {
            let mut row = 0;
            while row < rows {
                row += match rows - row {
                    4.. => self.tile::<V, 4, 1>(v, panel, row),
                    _ => self.tile::<V, 1, 1>(v, panel, row),
                };
            }
        }
    }
}

impl<P: Panel> Product<'_, P> {
    /// `PANELS` panels times `ROWS` rows; gives the count of rows.
    #[inline(always)]
    fn tile<V: Vector, const ROWS: usize, const PANELS: usize>(
        &self,
        v: V,
        panel: usize,
        first: usize,
    ) -> usize {
        let weights = self.weights;
        let blocks = weights.inputs / P::Source::VALUES;
        let length = blocks * P::BYTES;
        let bytes = &weights.panels.bytes()[panel * length..][..PANELS * length];
        let rows: [&[Group]; ROWS] = std::array::from_fn(|row| self.activations.row(first + row));
        let mut sums = [[v.splat(0.0); ROWS]; PANELS];
        for block in 0..blocks {
            for (beside, sums) in sums.iter_mut().enumerate() {
                let bytes = &bytes[beside * length + block * P::BYTES..][..P::BYTES];
                if first == 0 {
                    // The next panel follows this one, so that this runs on into it.
                    for line in (0..P::BYTES).step_by(64) {
                        prefetch(bytes.as_ptr().wrapping_add(AHEAD + line));
                    }
                }
                P::multiply(v, bytes, block, &rows, sums);
            }
        }
        for (beside, sums) in sums.iter().enumerate() {
            for (row, sum) in sums.iter().enumerate() {
                self.finish(v, panel + beside, first + row, *sum);
            }
        }
        ROWS
    }

    /// Writes a panel's outputs of one row.
    #[inline(always)]
    fn finish<V: Vector>(&self, v: V, panel: usize, row: usize, sum: V::F) {
        let weights = self.weights;
        let columns = panel * LANES..weights.outputs.min((panel + 1) * LANES);
        let start = row * weights.outputs;
        let range = start + columns.start..start + columns.end;
        // SAFETY: panels do not share columns.
        let out = unsafe { self.out.part(range) };
        let mut lanes = [0.0; LANES];
        v.store(sum, &mut lanes);
        if let Some(scales) = &weights.row_scales {
            for (lane, scale) in lanes.iter_mut().zip(&scales[columns.clone()]) {
                *lane *= scale;
            }
        }
        out.copy_from_slice(&lanes[..out.len()]);
        self.epilogue.apply(v, columns, out);
    }
}

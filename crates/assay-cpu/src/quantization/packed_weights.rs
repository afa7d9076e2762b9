//! Packed weights that own their memory.

use super::format::BlockFormat;
use super::packed_view::PackedView;
use super::packing::{OPERATION, int8_blocks, pack_into, packed_bytes};
use super::quantized_activations::QuantizedActivations;
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length};
use crate::ops::Epilogue;

/// A matrix of quantized weights in panels of sixteen rows.
///
/// ```
/// use assay_cpu::ops::{Context, Epilogue};
/// use assay_cpu::quantization::{BlockFormat, PackedWeights, QuantizedActivations, quantize};
/// let context = Context::best();
/// let mut blocks = [0; 34];
/// quantize(context, BlockFormat::Q8_0, &[0.5; 32], &mut blocks)?;
/// let weights = PackedWeights::new(context, BlockFormat::Q8_0, &blocks, 1, 32)?;
/// let mut activations = QuantizedActivations::new();
/// activations.quantize(context, &[2.0; 32], 1, 32)?;
/// let mut out = [0.0];
/// weights.linear(context, &activations, Epilogue::default(), &mut out)?;
/// assert!((out[0] - 32.0_f32).abs() < 0.1);
/// # Ok::<(), assay_cpu::error::OpError>(())
/// ```
#[derive(Clone)]
pub struct PackedWeights {
    format: BlockFormat,
    outputs: usize,
    inputs: usize,
    panels: AlignedBuffer,
    /// A scale per row, for int8 weights.
    row_scales: Option<Vec<f32>>,
}

impl PackedWeights {
    /// Packs `outputs` rows of `inputs` weights from blocks in file order.
    pub fn new(
        context: Context,
        format: BlockFormat,
        blocks: &[u8],
        outputs: usize,
        inputs: usize,
    ) -> Result<Self> {
        let mut panels = AlignedBuffer::zeroed(packed_bytes(format, outputs, inputs)?);
        pack_into(context, format, blocks, outputs, inputs, panels.bytes_mut())?;
        Ok(PackedWeights { format, outputs, inputs, panels, row_scales: None })
    }

    /// Packs int8 weights with one scale per row.
    pub fn from_int8(
        context: Context,
        values: &[i8],
        scales: &[f32],
        outputs: usize,
        inputs: usize,
    ) -> Result<Self> {
        check_length(OPERATION, "scales", scales.len(), &[outputs])?;
        let blocks = int8_blocks(values, outputs, inputs)?;
        let mut packed = Self::new(context, BlockFormat::Q8_0, &blocks, outputs, inputs)?;
        packed.row_scales = Some(scales.to_vec());
        Ok(packed)
    }

    /// A borrowed view, as kernels read it.
    pub fn view(&self) -> PackedView<'_> {
        PackedView {
            format: self.format,
            outputs: self.outputs,
            inputs: self.inputs,
            panels: self.panels.bytes(),
            row_scales: self.row_scales.as_deref(),
        }
    }

    /// The block format.
    pub fn format(&self) -> BlockFormat {
        self.format
    }

    /// Rows of weights: the output features of a linear layer.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Weights in a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Bytes of the panels.
    pub fn bytes(&self) -> usize {
        self.panels.bytes().len()
    }

    /// Writes `activations @ weights.T` to `out`, with the epilogue applied.
    pub fn linear(
        &self,
        context: Context,
        activations: &QuantizedActivations,
        epilogue: Epilogue,
        out: &mut [f32],
    ) -> Result<()> {
        self.view().linear(context, activations, epilogue, out)
    }
}

impl std::fmt::Debug for PackedWeights {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PackedWeights({}, {} x {})", self.format, self.outputs, self.inputs)
    }
}

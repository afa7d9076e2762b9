//! Quantized weights in memory, and the kernels that write and dequantize them.
//!
//! All rows of weights come first, then all rows of scales. `kernels/quantization/packed_layout.cuh`
//! documents the layout of a row.

use super::call::{Call, element_bytes, int, pointer};
use super::define::Define;
use super::grid::grid_2d;
use super::packed_layout::{WeightLayout, block_format};
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// The most rows of one launch, which are the grid's y.
const MAX_GRID_Y: u64 = 65_535;
const ROW_THREADS: u64 = 256;
const THREADS: u64 = 64;

impl WeightLayout {
    /// The weights of this name, and the address of their scales.
    pub fn find(
        self,
        call: &Call<'_>,
        name: &'static str,
        outputs: u64,
        inputs: u64,
    ) -> Result<(Operand, DevicePointer)> {
        let found = call.raw(name)?;
        let multiple = found.format.block_values().max(16);
        if !inputs.is_multiple_of(multiple) {
            let expected = format_args!("inputs in multiples of {multiple} for {}", found.format);
            return Err(call.error(expected, inputs));
        }
        let (weights, scales) = self.row_bytes(inputs);
        let expected = outputs * (weights + scales);
        if found.bytes < expected {
            let expected = format_args!("{name} of {expected} bytes, for {}", found.format);
            return Err(call.error(expected, found.bytes));
        }
        let scales = DevicePointer(found.pointer.0 + outputs * weights);
        Ok((found, scales))
    }
}

/// A matrix of quantized weights.
#[derive(Clone, Copy)]
pub(super) struct PackedWeights {
    pub layout: WeightLayout,
    pub weights: DevicePointer,
    pub scales: DevicePointer,
    pub outputs: u64,
    pub inputs: u64,
}

impl PackedWeights {
    /// Launches a kernel over all rows; `other` is the other matrix, and the bytes of its rows.
    fn launch(
        &self,
        call: &Call<'_>,
        kernel: &'static str,
        defines: &[Define],
        [other, other_bytes]: [u64; 2],
        ctas_x: u64,
    ) -> Result<()> {
        let function = call.function(kernel, defines)?;
        let (weight_bytes, scale_bytes) = self.layout.row_bytes(self.inputs);
        let mut done = 0;
        while done < self.outputs {
            let launch_rows = (self.outputs - done).min(MAX_GRID_Y);
            let matrix = |first: u64, bytes: u64| {
                KernelArgument::Pointer(DevicePointer(first + done * bytes))
            };
            let weights = matrix(self.weights.0, weight_bytes);
            let scales = matrix(self.scales.0, scale_bytes);
            let other = matrix(other, other_bytes);
            let arguments = match kernel {
                "dequantize" => [weights, scales, other, int(self.inputs)],
                _ => [other, weights, scales, int(self.inputs)],
            };
            call.queue.launch(&function, grid_2d(ctas_x, launch_rows, THREADS), &arguments)?;
            done += launch_rows;
        }
        Ok(())
    }

    /// Dequantizes to `out`, row-major.
    pub fn dequantize_into(&self, call: &Call<'_>, out: Operand) -> Result<()> {
        let mut defines = self.layout.defines().to_vec();
        defines.push(("OUTPUT", call.float_type("out", out)?.into()));
        let bytes = self.inputs * element_bytes(out.format).unwrap_or(0);
        let ctas_x = self.inputs.div_ceil(8 * THREADS);
        let matrix = [out.pointer.0, bytes];
        self.launch(call, "dequantize", &defines, matrix, ctas_x)
    }

    /// Quantizes floats.
    fn quantize(&self, call: &Call<'_>) -> Result<()> {
        let x = call.operand("x", &[self.outputs, self.inputs])?;
        let defines: [Define; 4] = [
            ("WEIGHT_FORMAT", self.layout.weight_format.macro_value().into()),
            ("GROUP_SIZE", self.layout.group_size.into()),
            ("TYPE", call.float_type("x", x)?.into()),
            ("THREADS", ROW_THREADS.into()),
        ];
        if self.layout.group_size == 0 {
            let function = call.function("quantize", &defines)?;
            let arguments = [
                pointer(x),
                KernelArgument::Pointer(self.weights),
                KernelArgument::Pointer(self.scales),
                int(self.inputs),
            ];
            let config = grid_2d(self.outputs, 1, ROW_THREADS);
            return call.queue.launch(&function, config, &arguments);
        }
        let bytes = self.inputs * element_bytes(x.format).unwrap_or(0);
        let groups = self.layout.padded(self.inputs) / self.layout.group_size;
        let ctas_x = groups.div_ceil(THREADS);
        let matrix = [x.pointer.0, bytes];
        self.launch(call, "quantize", &defines, matrix, ctas_x)
    }

    /// Repacks GGML blocks.
    fn repack_blocks(&self, call: &Call<'_>, blocks: Operand) -> Result<()> {
        let Some(block_format) = block_format(blocks.format) else {
            return Err(call.error("blocks of a GGUF format with kernels", blocks.format));
        };
        let bytes = self.inputs / blocks.format.block_values() * blocks.format.block_bytes();
        if blocks.bytes < self.outputs * bytes {
            let expected = format_args!("x of {} bytes", self.outputs * bytes);
            return Err(call.error(expected, blocks.bytes));
        }
        let mut defines = self.layout.defines().to_vec();
        defines.push(("BLOCK_FORMAT", block_format.into()));
        let ctas_x = self.layout.padded(self.inputs).div_ceil(128 * THREADS);
        let matrix = [blocks.pointer.0, bytes];
        self.launch(call, "pack_blocks", &defines, matrix, ctas_x)
    }
}

fn found(call: &Call<'_>) -> Result<PackedWeights> {
    let (outputs, inputs) = (call.size("outputs")?, call.size("inputs")?);
    let format = call.raw("weights")?.format;
    let Some(layout) = WeightLayout::of(format) else {
        return Err(call.error("weights of a quantized format with kernels", format));
    };
    let (weights, scales) = layout.find(call, "weights", outputs, inputs)?;
    Ok(PackedWeights { layout, weights: weights.pointer, scales, outputs, inputs })
}

pub(super) fn pack(call: &Call<'_>) -> Result<()> {
    let packed = found(call)?;
    if packed.outputs * packed.inputs == 0 {
        return Ok(());
    }
    let (x, format) = (call.raw("x")?, call.raw("weights")?.format);
    match format {
        ElementFormat::Int8 | ElementFormat::Fp8 | ElementFormat::Int4 => packed.quantize(call),
        _ if x.format == format => packed.repack_blocks(call, x),
        _ => Err(call.error(format_args!("x as blocks of {format}"), x.format)),
    }
}

pub(super) fn unpack(call: &Call<'_>) -> Result<()> {
    let packed = found(call)?;
    let out = call.operand("out", &[packed.outputs, packed.inputs])?;
    if packed.outputs * packed.inputs == 0 {
        return Ok(());
    }
    packed.dequantize_into(call, out)
}

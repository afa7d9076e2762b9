//! Quantized weights: their layout in memory, and the kernels that write and dequantize them.
//!
//! All rows of weights come first, then all rows of scales. `kernels/quantization/packed_layout.cuh`
//! documents the layout of a row.

use super::call::{Call, element_bytes, int, pointer};
use super::context::{Define, OperationContext};
use super::grid::grid_2d;
use crate::device::Queue;
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// The most rows of one launch, which are the grid's y.
const MAX_GRID_Y: u64 = 65_535;
const ROW_THREADS: u64 = 256;
const THREADS: u64 = 64;

/// The layout of a format of weights, as the kernels' macros of those names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WeightLayout {
    /// 8: int8, 80: e4m3, 4 to 6: unsigned codes, 40 and 41: indices into a table.
    pub weight_format: u64,
    /// Weights that share a scale; 0 where a row has one scale.
    pub group_size: u64,
    /// How a group stores its scale.
    scale_format: ScaleFormat,
    /// The code that stands for zero.
    zero_point: u64,
}

/// The kernels' SCALE_FORMAT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScaleFormat {
    /// Scale and minimum in half precision.
    Pair = 0,
    /// Bytes of scale and minimum, times two numbers of each block of 256 weights.
    NestedMinimum = 1,
    /// A byte, times a number of each block of 256 weights.
    Nested = 2,
    /// An exponent of two.
    Exponent = 3,
}

/// Weights that share the factor of nested scales.
const NESTED_BLOCK: u64 = 256;

impl WeightLayout {
    /// The layout of a format; none for floats, and for block formats without kernels.
    pub fn of(format: ElementFormat) -> Option<Self> {
        use ScaleFormat::{Exponent, Nested, NestedMinimum, Pair};
        let (weight_format, group_size, scale_format, zero_point) = match format {
            ElementFormat::Int8 => (8, 0, Pair, 0),
            ElementFormat::Fp8 => (80, 0, Pair, 0),
            ElementFormat::Int4 => (4, format.block_values(), Pair, 0),
            ElementFormat::Q8_0 => (8, 32, Pair, 0),
            ElementFormat::Q4_0 => (4, 32, Pair, 8),
            ElementFormat::Q4_1 => (4, 32, Pair, 0),
            ElementFormat::Q5_0 => (5, 32, Pair, 16),
            ElementFormat::Q5_1 => (5, 32, Pair, 0),
            ElementFormat::Iq4Nl => (40, 32, Pair, 0),
            ElementFormat::Mxfp4 => (41, 32, Exponent, 0),
            ElementFormat::Q2K => (4, 16, NestedMinimum, 0),
            ElementFormat::Q3K => (4, 16, Nested, 4),
            ElementFormat::Q4K => (4, 32, NestedMinimum, 0),
            ElementFormat::Q5K => (5, 32, NestedMinimum, 0),
            ElementFormat::Q6K => (6, 16, Nested, 32),
            ElementFormat::Iq4Xs => (40, 32, Nested, 0),
            _ => return None,
        };
        Some(WeightLayout {
            weight_format,
            group_size,
            scale_format,
            zero_point,
        })
    }

    /// The macros of this layout.
    pub fn defines(self) -> [Define; 4] {
        [
            ("WEIGHT_FORMAT", self.weight_format.into()),
            ("GROUP_SIZE", self.group_size.into()),
            ("SCALE_FORMAT", (self.scale_format as u64).into()),
            ("ZERO_POINT", self.zero_point.into()),
        ]
    }

    /// Whether the scales of groups are integers, times a number of each block of 256 weights.
    pub fn has_nested_scales(self) -> bool {
        use ScaleFormat::{Nested, NestedMinimum};
        matches!(self.scale_format, Nested | NestedMinimum)
    }

    /// Bits of a code in the 16-byte chunks of a row; upper bits follow them.
    fn bits(self) -> u64 {
        match self.weight_format {
            8 | 80 => 8,
            _ => 4,
        }
    }

    /// Weights in 16 bytes.
    pub fn chunk(self) -> u64 {
        128 / self.bits()
    }

    /// Weights of a row, padded to whole 128-byte lines.
    pub fn padded(self, inputs: u64) -> u64 {
        match self.group_size {
            0 => inputs,
            _ => inputs.next_multiple_of(1024 / self.bits()),
        }
    }

    /// Bytes of a row of weights, and of its scales.
    pub fn row_bytes(self, inputs: u64) -> (u64, u64) {
        let code_bits = match self.weight_format {
            5 | 6 => self.weight_format,
            _ => self.bits(),
        };
        let weights = self.padded(inputs) * code_bits / 8;
        if self.group_size == 0 {
            return (weights, 4);
        }
        // Scales of whole chunks of 128 weights, in whole 16-byte units.
        let bytes = |of_group: u64| inputs.div_ceil(128) * (128 / self.group_size) * of_group;
        let blocks = inputs.div_ceil(NESTED_BLOCK) * 4;
        let scales = match self.scale_format {
            ScaleFormat::Pair => inputs.div_ceil(self.group_size) * 4,
            ScaleFormat::NestedMinimum => (bytes(2) + blocks).next_multiple_of(16),
            ScaleFormat::Nested => (bytes(1) + blocks).next_multiple_of(16),
            ScaleFormat::Exponent => bytes(1).next_multiple_of(16),
        };
        (weights, scales)
    }

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

/// Bytes of a row of weights of a format, and of its scales; none for formats without kernels.
pub fn packed_row_bytes(format: ElementFormat, inputs: u64) -> Option<(u64, u64)> {
    WeightLayout::of(format).map(|layout| layout.row_bytes(inputs))
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
        context: &OperationContext,
        queue: &Queue<'_>,
        kernel: &'static str,
        defines: &[Define],
        [other, other_bytes]: [u64; 2],
        ctas_x: u64,
    ) -> Result<()> {
        let function = context.function(queue, kernel, defines)?;
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
            queue.launch(&function, grid_2d(ctas_x, launch_rows, THREADS), &arguments)?;
            done += launch_rows;
        }
        Ok(())
    }

    /// Dequantizes to `out`, row-major.
    pub fn dequantize_into(
        &self,
        context: &OperationContext,
        queue: &Queue<'_>,
        call: &Call<'_>,
        out: Operand,
    ) -> Result<()> {
        let mut defines = self.layout.defines().to_vec();
        defines.push(("OUTPUT", call.float_type("out", out)?.into()));
        let bytes = self.inputs * element_bytes(out.format).unwrap_or(0);
        let ctas_x = self.inputs.div_ceil(8 * THREADS);
        let matrix = [out.pointer.0, bytes];
        self.launch(context, queue, "dequantize", &defines, matrix, ctas_x)
    }

    /// Quantizes floats.
    fn quantize(
        &self,
        context: &OperationContext,
        queue: &Queue<'_>,
        call: &Call<'_>,
    ) -> Result<()> {
        let x = call.operand("x", &[self.outputs, self.inputs])?;
        let defines: [Define; 4] = [
            ("WEIGHT_FORMAT", self.layout.weight_format.into()),
            ("GROUP_SIZE", self.layout.group_size.into()),
            ("TYPE", call.float_type("x", x)?.into()),
            ("THREADS", ROW_THREADS.into()),
        ];
        if self.layout.group_size == 0 {
            let function = context.function(queue, "quantize", &defines)?;
            let arguments = [
                pointer(x),
                KernelArgument::Pointer(self.weights),
                KernelArgument::Pointer(self.scales),
                int(self.inputs),
            ];
            let config = grid_2d(self.outputs, 1, ROW_THREADS);
            return queue.launch(&function, config, &arguments);
        }
        let bytes = self.inputs * element_bytes(x.format).unwrap_or(0);
        let groups = self.layout.padded(self.inputs) / self.layout.group_size;
        let ctas_x = groups.div_ceil(THREADS);
        let matrix = [x.pointer.0, bytes];
        self.launch(context, queue, "quantize", &defines, matrix, ctas_x)
    }

    /// Repacks GGML blocks.
    fn repack_blocks(
        &self,
        context: &OperationContext,
        queue: &Queue<'_>,
        call: &Call<'_>,
        blocks: Operand,
    ) -> Result<()> {
        let Some(block_format) = block_format_code(blocks.format) else {
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
        self.launch(context, queue, "pack_blocks", &defines, matrix, ctas_x)
    }
}

/// The value of the kernels' BLOCK_FORMAT for a format of GGUF files.
pub(super) fn block_format_code(format: ElementFormat) -> Option<u64> {
    Some(match format {
        ElementFormat::Q8_0 => 80,
        ElementFormat::Q4_0 => 40,
        ElementFormat::Q4_1 => 41,
        ElementFormat::Q5_0 => 50,
        ElementFormat::Q5_1 => 51,
        ElementFormat::Iq4Nl => 42,
        ElementFormat::Iq4Xs => 43,
        ElementFormat::Mxfp4 => 44,
        ElementFormat::Q2K => 25,
        ElementFormat::Q3K => 35,
        ElementFormat::Q4K => 45,
        ElementFormat::Q5K => 55,
        ElementFormat::Q6K => 65,
        _ => return None,
    })
}

fn found(call: &Call<'_>) -> Result<PackedWeights> {
    let (outputs, inputs) = (call.size("outputs")?, call.size("inputs")?);
    let format = call.raw("weights")?.format;
    let Some(layout) = WeightLayout::of(format) else {
        return Err(call.error("weights of a quantized format with kernels", format));
    };
    let (weights, scales) = layout.find(call, "weights", outputs, inputs)?;
    Ok(PackedWeights {
        layout,
        weights: weights.pointer,
        scales,
        outputs,
        inputs,
    })
}

pub(super) fn pack(context: &OperationContext, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let packed = found(call)?;
    if packed.outputs * packed.inputs == 0 {
        return Ok(());
    }
    let (x, format) = (call.raw("x")?, call.raw("weights")?.format);
    match format {
        ElementFormat::Int8 | ElementFormat::Fp8 | ElementFormat::Int4 => {
            packed.quantize(context, queue, call)
        }
        _ if x.format == format => packed.repack_blocks(context, queue, call, x),
        _ => Err(call.error(format_args!("x as blocks of {format}"), x.format)),
    }
}

pub(super) fn unpack(context: &OperationContext, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let packed = found(call)?;
    let out = call.operand("out", &[packed.outputs, packed.inputs])?;
    if packed.outputs * packed.inputs == 0 {
        return Ok(());
    }
    packed.dequantize_into(context, queue, call, out)
}

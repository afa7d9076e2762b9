//! Weights of fewer bits: how they lie in memory, and the kernels that write and unpack them.
//!
//! All rows of weights come first, then all rows of scales. `kernels/gemm/gemv.cu` says what is
//! in a row.

use super::call::{Call, at, element_bytes, int};
use super::rows::plane;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// The most rows of one launch: a grid's second extent is short.
const MOST_ROWS: u64 = 65_535;
const ROW_THREADS: u64 = 256;
const THREADS: u64 = 64;

/// The options of kernels for a format of weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packing {
    /// 8: signed integers, 80: e4m3, 4: unsigned integers of 4 bits.
    pub weight: u64,
    /// Weights that share a scale and a minimum; 0 where a row has one scale.
    pub group: u64,
}

impl Packing {
    /// How a format lies; none for plain numbers, and for blocks that have no kernels.
    pub fn of(format: ElementFormat) -> Option<Self> {
        let (weight, group) = match format {
            ElementFormat::Int8 => (8, 0),
            ElementFormat::Fp8 => (80, 0),
            ElementFormat::Int4
            | ElementFormat::Q8_0
            | ElementFormat::Q4_0
            | ElementFormat::Q4_1 => (format.bits(), format.block_values()),
            _ => return None,
        };
        Some(Packing { weight, group })
    }

    fn bits(self) -> u64 {
        if self.weight == 4 { 4 } else { 8 }
    }

    /// Weights in 16 bytes.
    pub fn chunk(self) -> u64 {
        128 / self.bits()
    }

    /// Weights of a row with those that fill up its last piece.
    pub fn padded(self, inputs: u64) -> u64 {
        match self.group {
            0 => inputs,
            _ => inputs.next_multiple_of(1024 / self.bits()),
        }
    }

    /// Bytes of a row of weights, and of its scales.
    fn row_bytes(self, inputs: u64) -> (u64, u64) {
        let scales = match self.group {
            0 => 4,
            group => inputs / group * 4,
        };
        (self.padded(inputs) * self.bits() / 8, scales)
    }

    /// The weights of this name, and where their scales are.
    pub fn find(
        self,
        call: &Call<'_>,
        name: &'static str,
        outputs: u64,
        inputs: u64,
    ) -> Result<(Operand, DevicePointer)> {
        let found = call.raw(name)?;
        let unit = self.group.max(16);
        if !inputs.is_multiple_of(unit) {
            let wanted = format_args!("inputs in multiples of {unit} for {}", found.format);
            return Err(call.error(wanted, inputs));
        }
        let (weights, scales) = self.row_bytes(inputs);
        let wanted = outputs * (weights + scales);
        if found.bytes < wanted {
            let wanted = format_args!("{name} of {wanted} bytes, for {}", found.format);
            return Err(call.error(wanted, found.bytes));
        }
        let scales = DevicePointer(found.pointer.0 + outputs * weights);
        Ok((found, scales))
    }
}

/// A matrix of weights as a call gives it.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    pub packing: Packing,
    pub weights: DevicePointer,
    pub scales: DevicePointer,
    pub outputs: u64,
    pub inputs: u64,
}

impl Packed {
    /// Launches a kernel over all rows: `other` is a matrix of as many rows, of so many bytes each.
    fn launch(
        &self,
        tools: &Tools,
        queue: &Queue<'_>,
        kernel: &'static str,
        settings: &[Setting],
        [other, other_bytes]: [u64; 2],
        across: u64,
    ) -> Result<()> {
        let function = tools.function(queue, kernel, settings)?;
        let (weight_bytes, scale_bytes) = self.packing.row_bytes(self.inputs);
        let mut done = 0;
        while done < self.outputs {
            let now = (self.outputs - done).min(MOST_ROWS);
            let place = |first: u64, bytes: u64| {
                KernelArgument::Pointer(DevicePointer(first + done * bytes))
            };
            let weights = place(self.weights.0, weight_bytes);
            let scales = place(self.scales.0, scale_bytes);
            let other = place(other, other_bytes);
            let arguments = match kernel {
                "dequantize" => [weights, scales, other, int(self.inputs)],
                _ => [other, weights, scales, int(self.inputs)],
            };
            queue.launch(&function, plane(across, now, THREADS), &arguments)?;
            done += now;
        }
        Ok(())
    }

    /// Writes the numbers to `out`, row by row.
    pub fn unpack_into(
        &self,
        tools: &Tools,
        queue: &Queue<'_>,
        call: &Call<'_>,
        out: Operand,
    ) -> Result<()> {
        let settings: [Setting; 3] = [
            ("WEIGHT", self.packing.weight.into()),
            ("GROUP", self.packing.group.into()),
            ("OUTPUT", call.numbers("out", out)?.into()),
        ];
        let bytes = self.inputs * element_bytes(out.format).unwrap_or(0);
        let across = self.inputs.div_ceil(8 * THREADS);
        let place = [out.pointer.0, bytes];
        self.launch(tools, queue, "dequantize", &settings, place, across)
    }

    /// Makes weights of numbers.
    fn round(&self, tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
        let x = call.operand("x", &[self.outputs, self.inputs])?;
        let settings: [Setting; 4] = [
            ("WEIGHT", self.packing.weight.into()),
            ("GROUP", self.packing.group.into()),
            ("TYPE", call.numbers("x", x)?.into()),
            ("THREADS", ROW_THREADS.into()),
        ];
        if self.packing.group == 0 {
            let function = tools.function(queue, "quantize", &settings)?;
            let arguments = [
                at(x),
                KernelArgument::Pointer(self.weights),
                KernelArgument::Pointer(self.scales),
                int(self.inputs),
            ];
            let extent = plane(self.outputs, 1, ROW_THREADS);
            return queue.launch(&function, extent, &arguments);
        }
        let bytes = self.inputs * element_bytes(x.format).unwrap_or(0);
        let groups = self.packing.padded(self.inputs) / self.packing.group;
        let across = groups.div_ceil(THREADS);
        let place = [x.pointer.0, bytes];
        self.launch(tools, queue, "quantize", &settings, place, across)
    }

    /// Takes over blocks of 32 as files have them.
    fn arrange(
        &self,
        tools: &Tools,
        queue: &Queue<'_>,
        call: &Call<'_>,
        blocks: Operand,
    ) -> Result<()> {
        let source: u64 = match blocks.format {
            ElementFormat::Q8_0 => 80,
            ElementFormat::Q4_0 => 40,
            ElementFormat::Q4_1 => 41,
            other => return Err(call.error("blocks of q8_0, q4_0 or q4_1", other)),
        };
        let bytes = self.inputs / blocks.format.block_values() * blocks.format.block_bytes();
        if blocks.bytes < self.outputs * bytes {
            let wanted = format_args!("x of {} bytes", self.outputs * bytes);
            return Err(call.error(wanted, blocks.bytes));
        }
        let settings: [Setting; 3] = [
            ("SOURCE", source.into()),
            ("WEIGHT", self.packing.weight.into()),
            ("GROUP", self.packing.group.into()),
        ];
        let across = (self.packing.padded(self.inputs) / 32).div_ceil(THREADS);
        let place = [blocks.pointer.0, bytes];
        self.launch(tools, queue, "pack_blocks", &settings, place, across)
    }
}

fn found(call: &Call<'_>) -> Result<Packed> {
    let (outputs, inputs) = (call.size("outputs")?, call.size("inputs")?);
    let format = call.raw("weights")?.format;
    let Some(packing) = Packing::of(format) else {
        let wanted = "weights of int8, fp8, int4, q8_0, q4_0 or q4_1";
        return Err(call.error(wanted, format));
    };
    let (weights, scales) = packing.find(call, "weights", outputs, inputs)?;
    Ok(Packed {
        packing,
        weights: weights.pointer,
        scales,
        outputs,
        inputs,
    })
}

pub(super) fn pack(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let packed = found(call)?;
    if packed.outputs * packed.inputs == 0 {
        return Ok(());
    }
    let (x, format) = (call.raw("x")?, call.raw("weights")?.format);
    match format {
        ElementFormat::Int8 | ElementFormat::Fp8 | ElementFormat::Int4 => {
            packed.round(tools, queue, call)
        }
        _ if x.format == format => packed.arrange(tools, queue, call, x),
        _ => Err(call.error(format_args!("x as blocks of {format}"), x.format)),
    }
}

pub(super) fn unpack(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let packed = found(call)?;
    let out = call.operand("out", &[packed.outputs, packed.inputs])?;
    if packed.outputs * packed.inputs == 0 {
        return Ok(());
    }
    packed.unpack_into(tools, queue, call, out)
}

//! Grouped GEMM of a mixture of experts: which kernel computes it, and the one of large tiles.

use super::call::{Call, element_bytes, int, pointer, pointer_or_null};
use super::define::Define;
use super::experts::MAX_EXPERTS;
use super::gemv::launch_grouped_gemv;
use super::grid::{grid_1d, grid_2d};
use super::grouped_arguments::GroupedLinear;
use super::grouped_gemm_hopper::try_grouped_gemm_hopper;
use super::grouped_small_m_gemm::try_grouped_small_m_gemm;
use super::grouped_small_m_gemm_hopper::try_grouped_small_m_gemm_hopper;
use super::layers::activation;
use super::linear::weights;
use super::packed_layout::WeightFormat;
use super::packed_weights::PackedWeights;
use crate::device::LaunchConfig;
use assay_operations::ElementFormat::{self, I32};
use assay_operations::{Activation, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Assignments of a tile of the grouped GEMM.
const TILE_ROWS: u64 = 64;
/// Weight rows of a tile.
const TILE_OUTPUTS: u64 = 128;
/// Two stages of x and weights, of 128 bytes a row.
const SHARED_BYTES: u64 = 2 * (TILE_ROWS + TILE_OUTPUTS) * 128;

/// Assignments up to which each reads packed weights by itself. More multiply tiles of MXFP4, or dequantize
/// all experts of another format first, which moves as many bytes as about so many assignments read.
const MAX_PACKED_ASSIGNMENTS: u64 = 256;

impl GroupedLinear {
    fn read(call: &Call<'_>) -> Result<Self> {
        let (assignments, fan_out) = (call.size("assignments")?, call.size("fan_out")?);
        let (inputs, outputs) = (call.size("inputs")?, call.size("outputs")?);
        let experts_count = call.size("experts_count")?;
        let activation = activation(call)?;
        let gated = activation.is_gated();
        if fan_out == 0 || !assignments.is_multiple_of(fan_out) {
            let expected = format_args!("a fan_out that divides {assignments} assignments");
            return Err(call.error(expected, fan_out));
        }
        if gated && !outputs.is_multiple_of(2) {
            return Err(call.error("an even number of outputs", outputs));
        }
        let columns = if gated { outputs / 2 } else { outputs };
        let x = call.operand("x", &[assignments / fan_out, inputs])?;
        let rows = experts_count * outputs;
        let (weights, packed) = weights(call, x.format, rows, inputs)?;
        Ok(GroupedLinear {
            assignments,
            fan_out,
            inputs,
            outputs,
            experts_count,
            x,
            weights,
            packed,
            bias: call.optional_typed("bias", x.format, &[rows])?,
            experts: call.typed("experts", I32, &[assignments])?,
            out: call.typed("out", x.format, &[assignments, columns])?,
            activation: match activation {
                Activation::Swiglu => Activation::None,
                other => other,
            },
            gated,
            experts_ready: false,
        })
    }

    /// Whether each assignment reads the weights of its expert by itself: rarely two share one.
    pub fn prefers_gemv(&self, call: &Call<'_>) -> Result<bool> {
        Ok(self.assignments <= call.size("gemv_assignments")?)
    }

    /// Launches the kernels that suit the layer.
    pub fn launch(&self, call: &Call<'_>) -> Result<()> {
        if self.assignments * self.outputs == 0 {
            return Ok(());
        }
        let inputs = self.inputs;
        let supported = matches!(self.x.format, ElementFormat::F16 | ElementFormat::Bf16);
        let aligned = inputs > 0 && inputs.is_multiple_of(8) && self.x.pointer.0.is_multiple_of(16);
        if !supported || !aligned {
            let got = format_args!("{} of {}", inputs, self.x.format);
            return Err(call.error("x of f16 or bf16 in multiples of 8 inputs", got));
        }
        // A row's bits must not depend on how many rows there are: one kernel then serves any number.
        let batch_invariant = call.integer("batch_invariant")? != 0;
        if let Some(packed) = self.packed {
            if batch_invariant || self.assignments <= MAX_PACKED_ASSIGNMENTS {
                return launch_grouped_gemv(call, self);
            }
            return match packed.layout.weight_format {
                WeightFormat::E2m1 => self.launch_gemm(call),
                _ => self.launch_dequantized(call, &packed),
            };
        }
        if !batch_invariant && self.prefers_gemv(call)? {
            return launch_grouped_gemv(call, self);
        }
        if !batch_invariant
            && (try_grouped_small_m_gemm_hopper(call, self)?
                || try_grouped_small_m_gemm(call, self)?)
        {
            return Ok(());
        }
        if !batch_invariant && try_grouped_gemm_hopper(call, self)? {
            return Ok(());
        }
        self.launch_gemm(call)
    }

    /// Dequantizes the weights of all experts, and multiplies by those.
    fn launch_dequantized(&self, call: &Call<'_>, packed: &PackedWeights) -> Result<()> {
        let bytes = packed.outputs * packed.inputs * element_bytes(self.x.format).unwrap_or(0);
        let weights =
            Operand { pointer: call.scratch("unpacked", bytes)?, bytes, format: self.x.format };
        packed.dequantize_into(call, weights)?;
        let dense = GroupedLinear { weights, packed: None, ..*self };
        dense.launch_gemm(call)
    }

    fn launch_gemm(&self, call: &Call<'_>) -> Result<()> {
        if self.experts_count > MAX_EXPERTS {
            let expected = format_args!("at most {MAX_EXPERTS} experts");
            return Err(call.error(expected, self.experts_count));
        }
        match self.group_assignments(call, TILE_ROWS)? {
            Some((order, tiles, max_tiles)) => self.launch_tiles(call, [order, tiles], max_tiles),
            None => Err(call.error("fewer assignments", self.assignments)),
        }
    }

    /// Launches the kernel that groups assignments by expert, in tiles of so many; returns their
    /// order, the tiles, and how many there are at most. None where those are too many.
    pub fn group_assignments(
        &self,
        call: &Call<'_>,
        tile_rows: u64,
    ) -> Result<Option<(DevicePointer, DevicePointer, u64)>> {
        let max_tiles = self.assignments.div_ceil(tile_rows) + self.experts_count;
        let max_tiles = max_tiles.min(self.assignments);
        if max_tiles > 65_535 || self.experts_count > MAX_EXPERTS {
            return Ok(None);
        }
        let order = call.scratch("grouped order", self.assignments * 4)?;
        let tiles = call.scratch("grouped tiles", max_tiles * 12)?;
        let defines: [Define; 1] = [("TILE_ROWS", tile_rows.into())];
        let group = call.function("group_assignments", &defines)?;
        let config = LaunchConfig {
            shared_bytes: (4 * (2 * self.experts_count + 1)) as u32,
            ..grid_1d(1, 1024)
        };
        let arguments = [
            pointer(self.experts),
            KernelArgument::Pointer(order),
            KernelArgument::Pointer(tiles),
            int(self.assignments),
            int(self.experts_count),
            int(max_tiles),
        ];
        call.queue.launch(&group, config, &arguments)?;
        Ok(Some((order, tiles, max_tiles)))
    }

    fn launch_tiles(
        &self,
        call: &Call<'_>,
        [order, tiles]: [DevicePointer; 2],
        max_tiles: u64,
    ) -> Result<()> {
        let mut defines: Vec<Define> = vec![
            ("ELEMENT", call.float_type("x", self.x)?.into()),
            ("GATED", self.gated.into()),
            ("ACTIVATION", self.activation.into()),
        ];
        let mut scales = KernelArgument::Pointer(DevicePointer(0));
        if let Some(packed) = &self.packed {
            defines.extend(packed.layout.defines());
            scales = KernelArgument::Pointer(packed.scales);
        }
        let function = call.function("grouped_gemm", &defines)?;
        let config = LaunchConfig {
            shared_bytes: SHARED_BYTES as u32,
            ..grid_2d(self.outputs.div_ceil(TILE_OUTPUTS), max_tiles, 128)
        };
        let arguments = [
            pointer(self.weights),
            scales,
            pointer(self.x),
            pointer_or_null(self.bias),
            KernelArgument::Pointer(order),
            KernelArgument::Pointer(tiles),
            pointer(self.out),
            int(self.fan_out),
            int(self.inputs),
            int(self.outputs),
        ];
        call.queue.launch(&function, config, &arguments)
    }
}

pub(super) fn grouped_linear(call: &Call<'_>) -> Result<()> {
    GroupedLinear::read(call)?.launch(call)
}

//! Convolutions and transposed ones.

use super::call::{Call, float_type_name, pointer, pointer_or_null};
use super::define::Define;
use super::layers::elementwise_activation;
use crate::device::LaunchConfig;
use assay_operations::{Activation, ElementFormat, Operand};
use assay_runtime::backend::{KernelArgument, Result};

/// Filters of a group from which a matrix product pays.
const MIN_FILTERS: u64 = 16;
/// Filters of a group from which single precision is three products of TF32: a tile has so many at least.
const MIN_FILTERS_OF_PARTS: u64 = 64;
const TILE_THREADS: u64 = 256;
/// Filters of a group from which floats go through the pipeline of `convolution_tf32.cu`: its smallest tile.
const MIN_FILTERS_OF_PIPELINE: u64 = 32;
/// Taps that a position's mask has bits for.
const MAX_MASKED_TAPS: u64 = 32;
/// Floats of one copy of weights.
const WEIGHTS_OF_COPY: u64 = 4;
const PIPELINE_THREADS: u64 = 128;
const PIPELINE_RESULTS: u64 = 4096;
const PIPELINE_STAGES: u64 = 3;
/// As many as have registers for 96 sums a thread; GPUs with less shared memory than Hopper's hold fewer.
const PIPELINE_CTAS_PER_SM: u64 = 3;
const DIRECT_THREADS: u64 = 128;
const MAX_GRID_YZ: u64 = 65_535;

/// As `ConvolutionShape` of convolution_index.cuh, in its order.
const EXTENTS: [&str; 16] = [
    "batch",
    "channels",
    "height",
    "width",
    "filters",
    "kernel_height",
    "kernel_width",
    "stride_height",
    "stride_width",
    "pad_height",
    "pad_width",
    "dilation_height",
    "dilation_width",
    "groups",
    "out_height",
    "out_width",
];

/// The extents of a convolution.
struct Shape {
    values: [u64; 16],
}

impl Shape {
    fn of(&self, name: &str) -> u64 {
        let index = EXTENTS.iter().position(|extent| *extent == name);
        index.map_or(0, |index| self.values[index])
    }

    /// The structure as words, two numbers each.
    fn words(&self) -> impl Iterator<Item = KernelArgument> + '_ {
        self.values.chunks(2).map(|pair| KernelArgument::U64(pair[0] | pair[1] << 32))
    }

    fn check(&self, call: &Call<'_>) -> Result<()> {
        let (channels, filters, groups) =
            (self.of("channels"), self.of("filters"), self.of("groups"));
        if groups == 0 || !channels.is_multiple_of(groups) || !filters.is_multiple_of(groups) {
            return Err(call.error("groups that divide channels and filters", groups));
        }
        let steps = ["stride_height", "stride_width", "dilation_height", "dilation_width"];
        if steps.iter().any(|name| self.of(name) == 0) {
            return Err(call.error("strides and dilations of 1 or more", 0));
        }
        let x = channels.saturating_mul(self.of("height")).saturating_mul(self.of("width"));
        let out =
            filters.saturating_mul(self.of("out_height")).saturating_mul(self.of("out_width"));
        let kernel = self.of("kernel_height").saturating_mul(self.of("kernel_width"));
        let weights = channels.saturating_mul(filters).saturating_mul(kernel);
        let most = x.max(out).max(weights);
        match most <= i32::MAX as u64 {
            true => Ok(()),
            false => Err(call.error("fewer than 2**31 elements a sample", most)),
        }
    }
}

/// A convolution with its operands.
struct Convolution {
    shape: Shape,
    transposed: bool,
    format: ElementFormat,
    activation: Activation,
    operands: [KernelArgument; 5],
}

pub(super) fn convolution(call: &Call<'_>) -> Result<()> {
    let mut values = [0; 16];
    for (value, name) in values.iter_mut().zip(EXTENTS) {
        *value = call.size(name)?;
    }
    let shape = Shape { values };
    shape.check(call)?;
    let of = |name| shape.of(name);
    let x = call.operand("x", &[of("batch"), of("channels"), of("height"), of("width")])?;
    let depth = of("channels") / of("groups");
    let weights = [of("filters"), depth, of("kernel_height"), of("kernel_width")];
    let weight = call.typed("weight", x.format, &weights)?;
    let bias = call.optional_typed("bias", x.format, &[of("filters")])?;
    let extents = [of("batch"), of("filters"), of("out_height"), of("out_width")];
    let residual = call.optional_typed("residual", x.format, &extents)?;
    let out = call.typed("out", x.format, &extents)?;
    let operands = operands([x, weight, out], bias, residual);
    let activation = elementwise_activation(call)?;
    let format = x.format;
    Convolution { shape, transposed: false, format, activation, operands }.launch(call)
}

pub(super) fn transposed_convolution(call: &Call<'_>) -> Result<()> {
    let values = EXTENTS.map(|name| match name {
        "kernel_width" => "kernel",
        "stride_width" => "stride",
        "pad_width" => "padding",
        "dilation_width" => "dilation",
        "pad_height" => "zero",
        "height" | "kernel_height" | "stride_height" | "dilation_height" | "out_height" => "one",
        other => other,
    });
    let mut shape = Shape { values: [0; 16] };
    for (value, name) in shape.values.iter_mut().zip(values) {
        *value = match name {
            "zero" => 0,
            "one" => 1,
            given => call.size(given)?,
        };
    }
    shape.check(call)?;
    let of = |name| shape.of(name);
    let x = call.operand("x", &[of("batch"), of("channels"), of("width")])?;
    let weights = [of("channels"), of("filters") / of("groups"), of("kernel_width")];
    let weight = call.typed("weight", x.format, &weights)?;
    let bias = call.optional_typed("bias", x.format, &[of("filters")])?;
    let out = call.typed("out", x.format, &[of("batch"), of("filters"), of("out_width")])?;
    let operands = operands([x, weight, out], bias, None);
    let (format, activation) = (x.format, Activation::None);
    Convolution { shape, transposed: true, format, activation, operands }.launch(call)
}

fn operands(
    [x, weight, out]: [Operand; 3],
    bias: Option<Operand>,
    residual: Option<Operand>,
) -> [KernelArgument; 5] {
    [pointer(x), pointer(weight), pointer_or_null(bias), pointer_or_null(residual), pointer(out)]
}

/// The filters of a tile of `convolution_tf32.cu`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct PipelineTile {
    filters: u64,
}

impl PipelineTile {
    /// The tile that multiplies fewer filters that there are not; else the larger one, for which x is
    /// gathered less often.
    fn of(filters: u64) -> Self {
        let is_small = filters.next_multiple_of(32) < filters.next_multiple_of(64);
        PipelineTile { filters: if is_small { 32 } else { 64 } }
    }

    fn positions(&self) -> u64 {
        PIPELINE_RESULTS / self.filters
    }

    /// As the kernel's header says.
    fn shared_bytes(&self) -> u64 {
        PIPELINE_STAGES * (self.filters * 144 + (self.positions() + 8) * 128)
    }
}

fn checked_grid(call: &Call<'_>, grid: [u64; 3]) -> Result<[u32; 3]> {
    match grid[0] > i32::MAX as u64 || grid[1].max(grid[2]) > MAX_GRID_YZ {
        true => {
            Err(call.error("fewer groups, filters and positions", format_args!("{grid:?} tiles")))
        }
        false => Ok(grid.map(|extent| extent as u32)),
    }
}

impl Convolution {
    fn launch(&self, call: &Call<'_>) -> Result<()> {
        let of = |name| self.shape.of(name);
        let results = of("out_height") * of("out_width");
        if of("batch") * of("filters") * results == 0 {
            return Ok(());
        }
        let Some(element) = float_type_name(self.format) else {
            return Err(call.error("x of f32, f16 or bf16", self.format));
        };
        // The tiles of a transposed convolution have one phase each, whose taps are a stride apart.
        let has_tiles = !(self.transposed && of("dilation_width") > 1);
        match of("filters") / of("groups") >= MIN_FILTERS && has_tiles {
            true if self.has_pipeline() => self.launch_pipeline(call),
            true => self.launch_tiles(call, element),
            false => self.launch_direct(call, element),
        }
    }

    /// Whether copies to shared memory can gather the operands: single floats of x, four weights of a filter.
    fn has_pipeline(&self) -> bool {
        let of = |name| self.shape.of(name);
        let taps = of("kernel_height") * of("kernel_width");
        let steps = of("channels") / of("groups") * taps;
        let positions = of("batch") * of("out_height") * of("out_width");
        let bytes_of_sample = 4 * of("channels") * of("height") * of("width");
        let [_, KernelArgument::Pointer(weight), ..] = self.operands else {
            return false;
        };
        self.format == ElementFormat::F32
            && !self.transposed
            && of("filters") / of("groups") >= MIN_FILTERS_OF_PIPELINE
            && (1..=MAX_MASKED_TAPS).contains(&taps)
            && steps.is_multiple_of(WEIGHTS_OF_COPY)
            && weight.0.is_multiple_of(4 * WEIGHTS_OF_COPY)
            && positions <= i32::MAX as u64
            && bytes_of_sample <= u64::from(u32::MAX)
    }

    fn launch_pipeline(&self, call: &Call<'_>) -> Result<()> {
        let of = |name| self.shape.of(name);
        let filters = of("filters") / of("groups");
        let tile = PipelineTile::of(filters);
        let positions = of("batch") * of("out_height") * of("out_width");
        let products = if call.queue.device().allows_tf32() { 1u64 } else { 3 };
        let defines: [Define; 5] = [
            ("PRODUCTS", products.into()),
            ("TILE_FILTERS", tile.filters.into()),
            ("STAGES", PIPELINE_STAGES.into()),
            ("CTAS_PER_SM", PIPELINE_CTAS_PER_SM.into()),
            ("ACTIVATION", self.activation.into()),
        ];
        let function = call.function("convolution_tf32", &defines)?;
        let grid =
            [positions.div_ceil(tile.positions()), filters.div_ceil(tile.filters), of("groups")];
        let config = LaunchConfig {
            grid: checked_grid(call, grid)?,
            block: [PIPELINE_THREADS as u32, 1, 1],
            shared_bytes: tile.shared_bytes() as u32,
            cluster: 1,
            // The split of the kernel before may have room for one CTA, and x is read again from L1 for every tap.
            prefers_l1: true,
        };
        call.queue.launch(&function, config, &self.arguments())
    }

    fn arguments(&self) -> Vec<KernelArgument> {
        self.operands.iter().copied().chain(self.shape.words()).collect()
    }

    fn launch_direct(&self, call: &Call<'_>, element: &'static str) -> Result<()> {
        let of = |name| self.shape.of(name);
        let defines: [Define; 3] = [
            ("ELEMENT", element.into()),
            ("TRANSPOSED", self.transposed.into()),
            ("ACTIVATION", self.activation.into()),
        ];
        let function = call.function("direct_convolution", &defines)?;
        let results = of("out_height") * of("out_width");
        let config = LaunchConfig {
            grid: [
                results.div_ceil(DIRECT_THREADS) as u32,
                of("filters").min(MAX_GRID_YZ) as u32,
                of("batch").min(MAX_GRID_YZ) as u32,
            ],
            block: [DIRECT_THREADS as u32, 1, 1],
            shared_bytes: 0,
            cluster: 1,
            prefers_l1: true,
        };
        call.queue.launch(&function, config, &self.arguments())
    }

    fn launch_tiles(&self, call: &Call<'_>, element: &'static str) -> Result<()> {
        let of = |name| self.shape.of(name);
        let device = call.queue.device();
        let phases = if self.transposed { of("stride_width") } else { 1 };
        let positions = of("batch") * (of("out_height") * of("out_width")).div_ceil(phases);
        let filters = of("filters") / of("groups");
        let layers = of("groups") * phases;
        let grid = |tile_positions: u64, tile_filters: u64| {
            [positions.div_ceil(tile_positions), filters.div_ceil(tile_filters), layers]
        };
        // Large tiles reread less, where there are enough of them; filters that there are not would be multiplied.
        let enough = u64::from(device.facts().multiprocessors);
        let is_large = grid(128, 128).iter().product::<u64>() >= enough;
        let tile_positions = if is_large { 128 } else { 64 };
        let tile_filters = if is_large && filters > 64 { 128 } else { 64 };
        let grid = checked_grid(call, grid(tile_positions, tile_filters))?;
        let is_float = self.format == ElementFormat::F32 && !device.allows_tf32();
        let tensor_cores = match is_float {
            false => 1u64,
            true if filters >= MIN_FILTERS_OF_PARTS => 3,
            true => 0,
        };
        let defines: [Define; 6] = [
            ("ELEMENT", element.into()),
            ("TENSOR_CORES", tensor_cores.into()),
            ("TILE_FILTERS", tile_filters.into()),
            ("TILE_POSITIONS", tile_positions.into()),
            ("TRANSPOSED", self.transposed.into()),
            ("ACTIVATION", self.activation.into()),
        ];
        let function = call.function("convolution", &defines)?;
        let config = LaunchConfig {
            grid,
            block: [TILE_THREADS as u32, 1, 1],
            shared_bytes: 0,
            cluster: 1,
            prefers_l1: false,
        };
        call.queue.launch(&function, config, &self.arguments())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tile_that_pads_fewer_filters_is_chosen() {
        let filters = |filters| PipelineTile::of(filters).filters;
        assert_eq!([32, 64, 72, 96, 128, 250].map(filters), [32, 64, 32, 32, 64, 64]);
    }

    #[test]
    fn three_ctas_fit_an_sm_of_hopper() {
        const SHARED_BYTES_OF_SM: u64 = 228 << 10;
        const RESERVED_AND_STATIC: u64 = 2 << 10;
        for filters in [32, 64] {
            let tile = PipelineTile { filters };
            let bytes = PIPELINE_CTAS_PER_SM * (tile.shared_bytes() + RESERVED_AND_STATIC);
            assert!(bytes <= SHARED_BYTES_OF_SM, "{tile:?}: {bytes}");
        }
    }
}

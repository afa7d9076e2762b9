//! LoRA adapters of few rows, whose indices choose the factors: the first product is a kernel of its own, the second
//! one too, or part of the layer's kernel.

use super::call::{Call, element_bytes, int, pointer, pointer_or_null};
use super::define::Define;
use super::grid::grid_2d;
use super::layers::activation;
use super::linear::{launch_linear, read_linear, try_one_kernel};
use super::linear_arguments::{LinearArguments, LoraArguments};
use assay_operations::ElementFormat::{self, Bf16, F16, I32};
use assay_operations::{Activation, Operand};
use assay_runtime::backend::{BackendError, KernelArgument, Result};

/// Threads of a CTA of the first product: each holds parts of the same inputs of a few rows of A.
const SHRINK_THREADS: u64 = 256;
/// 16-byte chunks of A that a thread holds.
const MAX_SHRINK_CHUNKS: u64 = 32;
/// Threads of a CTA of the second product.
const EXPAND_THREADS: u64 = 128;
/// 16-byte chunks of B that a thread holds.
const MAX_EXPAND_CHUNKS: u64 = 32;
/// Rows of a CTA of the second product: those of one adapter share what a thread holds.
const MAX_EXPAND_ROWS: u64 = 4;
/// The largest rank whose second product is part of the layer's kernel: a thread computes whole outputs.
const MAX_FUSED_RANK: u64 = 128;
/// The most rows of a grid's y.
const MAX_ROWS: u64 = 65_535;

fn unsupported(call: &Call<'_>, x: Operand, rank: u64) -> BackendError {
    let expected = "f16 or bf16 in rows of multiples of 16 bytes, and a rank that registers hold";
    call.error(expected, format_args!("{} and a rank of {rank}", x.format))
}

/// Chunks of a thread and elements of low of a CTA, where the kernel supports the shape.
fn shrink_shape(inputs: u64, rank: u64) -> Option<(u64, u64)> {
    let chunks = inputs.div_ceil(8 * SHRINK_THREADS);
    let fits = |ranks: &u64| rank.is_multiple_of(*ranks) && chunks * ranks <= MAX_SHRINK_CHUNKS;
    let ranks = [4, 2, 1].into_iter().find(fits)?;
    (inputs > 0 && inputs.is_multiple_of(8)).then_some((chunks, ranks))
}

pub(super) fn lora_shrink(call: &Call<'_>) -> Result<()> {
    let (rows, inputs) = (call.size("rows")?, call.size("inputs")?);
    let (rank, count) = (call.size("rank")?, call.size("adapters_count")?);
    let x = call.operand("x", &[rows, inputs])?;
    let gain = call.optional_typed("gain", x.format, &[inputs])?;
    let a = call.typed("a", x.format, &[count, rank, inputs])?;
    let adapters = call.typed("adapters", I32, &[rows])?;
    let low = call.typed("low", x.format, &[rows, rank])?;
    if rows * rank == 0 {
        return Ok(());
    }
    let aligned = [Some(x), gain, Some(a)].into_iter().flatten();
    let is_aligned = aligned.into_iter().all(|one| one.pointer.0.is_multiple_of(16));
    let supported = matches!(x.format, F16 | Bf16) && is_aligned && rows <= MAX_ROWS;
    let Some((chunks, ranks)) = shrink_shape(inputs, rank).filter(|_| supported) else {
        return Err(unsupported(call, x, rank));
    };
    let defines: [Define; 8] = [
        ("ELEMENT", call.float_type("x", x)?.into()),
        ("INPUTS", inputs.into()),
        ("RANK", rank.into()),
        ("RANKS_PER_CTA", ranks.into()),
        ("THREADS", SHRINK_THREADS.into()),
        ("CHUNKS_PER_THREAD", chunks.into()),
        ("NORM", gain.is_some().into()),
        ("ADAPTERS_READY", (call.integer("adapters_ready")? != 0).into()),
    ];
    let function = call.function("lora_shrink", &defines)?;
    let arguments = [
        pointer(x),
        pointer_or_null(gain),
        pointer(a),
        pointer(adapters),
        pointer(low),
        KernelArgument::F32(call.float("epsilon")?),
    ];
    call.queue.launch(&function, grid_2d(rank / ranks, rows, SHRINK_THREADS), &arguments)
}

/// The second product, which is added to that of the layer.
struct Expand {
    rows: u64,
    outputs: u64,
    product: Operand,
    lora: LoraArguments,
    out: Operand,
    activation: Activation,
    gated: bool,
    adapters_ready: bool,
}

impl Expand {
    fn launch(&self, call: &Call<'_>) -> Result<()> {
        let Expand { rows, outputs, product, lora, out, gated, .. } = *self;
        let LoraArguments { rank, low, b, adapters } = lora;
        let columns = if gated { outputs / 2 } else { outputs };
        if rows * columns == 0 {
            return Ok(());
        }
        let is_aligned = [low, b].into_iter().all(|one| one.pointer.0.is_multiple_of(16));
        let chunks = rank.div_ceil(8) * if gated { 2 } else { 1 };
        let supported = matches!(product.format, F16 | Bf16)
            && is_aligned
            && rank.is_multiple_of(8)
            && (1..=MAX_EXPAND_CHUNKS).contains(&chunks);
        let rows_per_cta = rows.next_power_of_two().min(MAX_EXPAND_ROWS);
        let groups = rows.div_ceil(rows_per_cta);
        if !supported || groups > MAX_ROWS {
            return Err(unsupported(call, product, rank));
        }
        let defines: [Define; 7] = [
            ("ELEMENT", call.float_type("product", product)?.into()),
            ("RANK", rank.into()),
            ("ROWS_PER_CTA", rows_per_cta.into()),
            ("THREADS", EXPAND_THREADS.into()),
            ("GATED", gated.into()),
            ("ACTIVATION", self.activation.into()),
            ("ADAPTERS_READY", self.adapters_ready.into()),
        ];
        let function = call.function("lora_expand", &defines)?;
        let arguments = [
            pointer(product),
            pointer(low),
            pointer(b),
            pointer(adapters),
            pointer(out),
            int(rows),
            int(columns),
        ];
        let config = grid_2d(columns.div_ceil(EXPAND_THREADS), groups, EXPAND_THREADS);
        call.queue.launch(&function, config, &arguments)
    }
}

/// The operands of the second product.
fn read_lora(call: &Call<'_>, format: ElementFormat) -> Result<LoraArguments> {
    let (rows, outputs) = (call.size("rows")?, call.size("outputs")?);
    let (rank, count) = (call.size("rank")?, call.size("adapters_count")?);
    Ok(LoraArguments {
        rank,
        low: call.typed("low", format, &[rows, rank])?,
        b: call.typed("b", format, &[count, outputs, rank])?,
        adapters: call.typed("adapters", I32, &[rows])?,
    })
}

pub(super) fn lora_expand(call: &Call<'_>) -> Result<()> {
    let (rows, outputs) = (call.size("rows")?, call.size("outputs")?);
    let activation = activation(call)?;
    let gated = activation.is_gated();
    if gated && !outputs.is_multiple_of(2) {
        return Err(call.error("an even number of outputs", outputs));
    }
    let product = call.operand("product", &[rows, outputs])?;
    let columns = if gated { outputs / 2 } else { outputs };
    let expand = Expand {
        rows,
        outputs,
        product,
        lora: read_lora(call, product.format)?,
        out: call.typed("out", product.format, &[rows, columns])?,
        activation: match activation {
            Activation::Swiglu => Activation::None,
            other => other,
        },
        gated,
        adapters_ready: call.integer("adapters_ready")? != 0,
    };
    expand.launch(call)
}

pub(super) fn lora_linear(call: &Call<'_>) -> Result<()> {
    let linear = read_linear(call)?;
    if linear.rows * linear.outputs == 0 {
        return Ok(());
    }
    let lora = read_lora(call, linear.x.format)?;
    let is_aligned = [lora.low, lora.b].into_iter().all(|one| one.pointer.0.is_multiple_of(16));
    let is_fused = is_aligned && lora.rank.is_multiple_of(8) && lora.rank <= MAX_FUSED_RANK;
    if is_fused && try_one_kernel(call, &LinearArguments { lora: Some(lora), ..linear })? {
        return Ok(());
    }
    let bytes = linear.rows * linear.outputs * element_bytes(linear.x.format).unwrap_or(0);
    let product = Operand { pointer: call.scratch("product", bytes)?, bytes, ..linear.x };
    // The kernel of the second product applies the activation to the sum, a residual included.
    if linear.residual.is_some() && (linear.gated || linear.activation != Activation::None) {
        return Err(call.error("no activation beside a residual", linear.activation));
    }
    let plain =
        LinearArguments { out: product, activation: Activation::None, gated: false, ..linear };
    launch_linear(call, &plain)?;
    let expand = Expand {
        rows: linear.rows,
        outputs: linear.outputs,
        product,
        lora,
        out: linear.out,
        activation: linear.activation,
        gated: linear.gated,
        adapters_ready: true,
    };
    expand.launch(call)
}

#[cfg(test)]
mod tests {
    use super::shrink_shape;

    #[test]
    fn factors_of_published_models_fit_the_registers() {
        // Llama 3 8B: hidden and inner; 70B: inner.
        assert_eq!(shrink_shape(4096, 64), Some((2, 4)));
        assert_eq!(shrink_shape(14_336, 64), Some((7, 4)));
        assert_eq!(shrink_shape(28_672, 64), Some((14, 2)));
        assert_eq!(shrink_shape(100_000, 64), None);
        assert_eq!(shrink_shape(4097, 64), None);
    }
}

//! RoPE, and the write of keys and values to the paged KV cache.

use super::attention_limits::{CacheShape, flag, is_quantized};
use super::call::{Call, int, pointer, pointer_or_null, vector};
use super::define::Define;
use super::grid::grid_2d;
use assay_operations::ElementFormat::{F32, I32};
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Threads of a CTA.
const THREADS: u64 = 128;

/// A launch of rope_write.cu, which rotates queries and writes the cache; `rope` gives it no cache.
struct RopeLaunch {
    rows: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    /// Elements of a vectorized access.
    vector: u64,
}

impl RopeLaunch {
    /// Lanes per head, each with two chunks of it.
    fn lanes(&self) -> u64 {
        let chunk_pairs = self.head_dim.div_ceil(2 * self.vector);
        chunk_pairs.next_power_of_two().min(32)
    }

    fn launch(
        &self,
        call: &Call<'_>,
        [element, cache]: [&'static str; 2],
        [interleaved, metadata_ready]: [bool; 2],
        arguments: &[KernelArgument],
    ) -> Result<()> {
        let defines: [Define; 7] = [
            ("ELEMENT", element.into()),
            ("CACHE_ELEMENT", cache.into()),
            ("INTERLEAVED", interleaved.into()),
            ("VECTOR", self.vector.into()),
            ("LANES_PER_HEAD", self.lanes().into()),
            ("THREADS", THREADS.into()),
            ("METADATA_READY", metadata_ready.into()),
        ];
        let function = call.function("rope_write", &defines)?;
        let heads = self.heads + 2 * self.kv_heads;
        let ctas_y = (heads * self.lanes()).div_ceil(THREADS);
        call.queue.launch(&function, grid_2d(self.rows, ctas_y, THREADS), arguments)
    }
}

/// The elements of a vectorized access: both chunks that are rotated with each other are aligned.
fn rotary_vector(head_dim: u64, rotary_dim: u64, operands: &[Option<Operand>]) -> u64 {
    let Some(first) = operands.iter().flatten().next() else {
        return 1;
    };
    let widest = vector(first.format, head_dim, operands);
    let pair_elements = 2 * widest;
    if head_dim.is_multiple_of(pair_elements) && rotary_dim.is_multiple_of(pair_elements) {
        widest
    } else {
        1
    }
}

pub(super) fn rope_write(call: &Call<'_>) -> Result<()> {
    let (rows, heads) = (call.size("rows")?, call.size("heads")?);
    let (kv_heads, head_dim) = (call.size("kv_heads")?, call.size("head_dim")?);
    let (rotary_dim, positions) = (call.size("rotary_dim")?, call.size("table_positions")?);
    let cache = CacheShape::read(call)?;
    let qkv = call.operand("qkv", &[rows, heads + 2 * kv_heads, head_dim])?;
    let positions_operand = call.typed("positions", I32, &[rows])?;
    let slot_mapping = call.typed("slot_mapping", I32, &[rows])?;
    let table = call.optional_typed("table", F32, &[positions, rotary_dim])?;
    let query_norm = call.optional_typed("query_norm", qkv.format, &[head_dim])?;
    let key_norm = call.optional_typed("key_norm", qkv.format, &[head_dim])?;
    let (keys, values, cache_type) = cache.operands(call, None)?;
    let q_out = call.typed("q_out", qkv.format, &[rows, heads, head_dim])?;
    if rows * head_dim == 0 {
        return Ok(());
    }
    let operands = [Some(qkv), Some(keys), Some(values), Some(q_out), table, query_norm, key_norm];
    // Of a quantized cache, eight elements are stored at once.
    let vector = match rotary_vector(head_dim, rotary_dim, &operands) {
        widest if keys.format == qkv.format => widest,
        8 if is_quantized(keys.format) => 8,
        _ => 1,
    };
    let [block_stride, head_stride, token_stride] = cache.stride_arguments(keys.format);
    let arguments = [
        pointer(qkv),
        pointer(positions_operand),
        pointer(slot_mapping),
        pointer_or_null(table),
        pointer(keys),
        pointer(values),
        pointer(q_out),
        pointer_or_null(query_norm),
        pointer_or_null(key_norm),
        int(heads),
        int(kv_heads),
        int(head_dim),
        int(rotary_dim),
        int(cache.block_tokens),
        block_stride,
        head_stride,
        token_stride,
        KernelArgument::F32(call.float("epsilon")?),
    ];
    let shape = RopeLaunch { rows, heads, kv_heads, head_dim, vector };
    let formats = [call.float_type("qkv", qkv)?, cache_type];
    let flags = [flag(call, "interleaved")?, flag(call, "metadata_ready")?];
    shape.launch(call, formats, flags, &arguments)
}

pub(super) fn rope(call: &Call<'_>) -> Result<()> {
    let (rows, heads) = (call.size("rows")?, call.size("heads")?);
    let head_dim = call.size("head_dim")?;
    let (rotary_dim, positions) = (call.size("rotary_dim")?, call.size("table_positions")?);
    let x = call.operand("x", &[rows, heads, head_dim])?;
    let positions_operand = call.typed("positions", I32, &[rows])?;
    let table = call.typed("table", F32, &[positions, rotary_dim])?;
    let out = call.typed("out", x.format, &[rows, heads, head_dim])?;
    if rows * heads * head_dim == 0 {
        return Ok(());
    }
    let null = KernelArgument::Pointer(DevicePointer(0));
    let arguments = [
        pointer(x),
        pointer(positions_operand),
        // Positions are not negative, so as a slot mapping they mark no row as padding.
        pointer(positions_operand),
        pointer(table),
        null,
        null,
        pointer(out),
        null,
        null,
        int(heads),
        int(0),
        int(head_dim),
        int(rotary_dim),
        int(1),
        KernelArgument::I64(0),
        int(0),
        int(0),
        KernelArgument::F32(0.0),
    ];
    let shape = RopeLaunch {
        rows,
        heads,
        kv_heads: 0,
        head_dim,
        vector: rotary_vector(head_dim, rotary_dim, &[Some(x), Some(out), Some(table)]),
    };
    let formats = [call.float_type("x", x)?; 2];
    let flags = [flag(call, "interleaved")?, false];
    shape.launch(call, formats, flags, &arguments)
}

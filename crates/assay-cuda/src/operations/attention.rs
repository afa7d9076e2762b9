//! Rotation, the cache of keys and values, and attention over it.
//!
//! The cache is blocks of heads of tokens of numbers: a block's tokens of one head lie together,
//! as one block of threads reads them.

use super::attention_decode::Decoded;
use super::call::{Call, at, at_or_null, int, vector};
use super::prefill::{Cache, Paging, Prompt};
use super::rows::plane;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_operations::ElementFormat::{self, F32, I32};
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Numbers in a head that the kernels of attention are written for.
pub const HEADS: [u64; 4] = [64, 128, 192, 256];
/// Tokens in a block of the cache are a multiple of these.
pub const BLOCK_TOKENS: u64 = 16;
/// Threads of a block that turns heads.
const TURNING: u64 = 128;

pub(super) fn flag(call: &Call<'_>, name: &str) -> Result<bool> {
    Ok(call.integer(name)? != 0)
}

/// From block to block, head to head and token to token, in numbers.
fn distances(block_tokens: u64, kv_heads: u64, head_dim: u64) -> [u64; 3] {
    let head = block_tokens * head_dim;
    [kv_heads * head, head, head_dim]
}

/// The same as a kernel's arguments.
pub(super) fn strides(block_tokens: u64, kv_heads: u64, head_dim: u64) -> [KernelArgument; 3] {
    let [block, head, token] = distances(block_tokens, kv_heads, head_dim);
    [
        KernelArgument::I64(block.cast_signed()),
        int(head),
        int(token),
    ]
}

/// Turning and writing share one kernel; without a cache, nothing is written to it.
struct Turned {
    rows: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    /// Numbers that are moved at once.
    vector: u64,
}

impl Turned {
    /// Lanes of a head, each with two pieces of it.
    fn lanes(&self) -> u64 {
        let pieces = self.head_dim.div_ceil(2 * self.vector);
        pieces.next_power_of_two().min(32)
    }

    fn launch(
        &self,
        tools: &Tools,
        queue: &Queue<'_>,
        [number, cache]: [&'static str; 2],
        [neighbors, settled]: [bool; 2],
        arguments: &[KernelArgument],
    ) -> Result<()> {
        let settings: [Setting; 7] = [
            ("NUMBER", number.into()),
            ("CACHE", cache.into()),
            ("NEIGHBORS", neighbors.into()),
            ("VECTOR", self.vector.into()),
            ("LANES", self.lanes().into()),
            ("THREADS", TURNING.into()),
            ("SETTLED", settled.into()),
        ];
        let function = tools.function(queue, "rope_write", &settings)?;
        let heads = self.heads + 2 * self.kv_heads;
        let across = (heads * self.lanes()).div_ceil(TURNING);
        queue.launch(&function, plane(self.rows, across, TURNING), arguments)
    }
}

/// How many numbers of heads are moved at once: both of the two pieces that turn with each other
/// are to be aligned.
fn turned_vector(head_dim: u64, turned: u64, operands: &[Option<Operand>]) -> u64 {
    let Some(first) = operands.iter().flatten().next() else {
        return 1;
    };
    let wide = vector(first.format, head_dim, operands);
    let pairs = 2 * wide;
    if head_dim.is_multiple_of(pairs) && turned.is_multiple_of(pairs) {
        wide
    } else {
        1
    }
}

pub(super) fn rope_write(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, heads) = (call.size("rows")?, call.size("heads")?);
    let (kv_heads, head_dim) = (call.size("kv_heads")?, call.size("head_dim")?);
    let (turned, positions) = (call.size("rotary_dim")?, call.size("table_positions")?);
    let (block_tokens, blocks) = (call.size("block_tokens")?, call.size("blocks")?);
    let cache = [blocks, block_tokens, kv_heads, head_dim];
    let qkv = call.operand("qkv", &[rows, heads + 2 * kv_heads, head_dim])?;
    let at_positions = call.of("positions", I32, &[rows])?;
    let to_slots = call.of("slot_mapping", I32, &[rows])?;
    let table = call.optional_of("table", F32, &[positions, turned])?;
    let query_norm = call.optional_of("query_norm", qkv.format, &[head_dim])?;
    let key_norm = call.optional_of("key_norm", qkv.format, &[head_dim])?;
    let keys = call.operand("keys", &cache)?;
    let values = call.of("values", keys.format, &cache)?;
    let q_out = call.of("q_out", qkv.format, &[rows, heads, head_dim])?;
    if rows * head_dim == 0 {
        return Ok(());
    }
    let operands = [
        Some(qkv),
        Some(keys),
        Some(values),
        Some(q_out),
        table,
        query_norm,
        key_norm,
    ];
    let vector = match keys.format == qkv.format {
        true => turned_vector(head_dim, turned, &operands),
        false => 1,
    };
    let [block_stride, head_stride, token_stride] = strides(block_tokens, kv_heads, head_dim);
    let arguments = [
        at(qkv),
        at(at_positions),
        at(to_slots),
        at_or_null(table),
        at(keys),
        at(values),
        at(q_out),
        at_or_null(query_norm),
        at_or_null(key_norm),
        int(heads),
        int(kv_heads),
        int(head_dim),
        int(turned),
        int(block_tokens),
        block_stride,
        head_stride,
        token_stride,
        KernelArgument::F32(call.float("epsilon")?),
    ];
    let shape = Turned {
        rows,
        heads,
        kv_heads,
        head_dim,
        vector,
    };
    let formats = [call.numbers("qkv", qkv)?, call.numbers("keys", keys)?];
    let ways = [flag(call, "interleaved")?, flag(call, "metadata_ready")?];
    shape.launch(tools, queue, formats, ways, &arguments)
}

pub(super) fn rope(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, heads) = (call.size("rows")?, call.size("heads")?);
    let head_dim = call.size("head_dim")?;
    let (turned, positions) = (call.size("rotary_dim")?, call.size("table_positions")?);
    let x = call.operand("x", &[rows, heads, head_dim])?;
    let at_positions = call.of("positions", I32, &[rows])?;
    let table = call.of("table", F32, &[positions, turned])?;
    let out = call.of("out", x.format, &[rows, heads, head_dim])?;
    if rows * heads * head_dim == 0 {
        return Ok(());
    }
    let nowhere = KernelArgument::Pointer(DevicePointer(0));
    let arguments = [
        at(x),
        at(at_positions),
        // Positions are not negative, so as slots they say that every row is a real one.
        at(at_positions),
        at(table),
        nowhere,
        nowhere,
        at(out),
        nowhere,
        nowhere,
        int(heads),
        int(0),
        int(head_dim),
        int(turned),
        int(1),
        KernelArgument::I64(0),
        int(0),
        int(0),
        KernelArgument::F32(0.0),
    ];
    let shape = Turned {
        rows,
        heads,
        kv_heads: 0,
        head_dim,
        vector: turned_vector(head_dim, turned, &[Some(x), Some(out), Some(table)]),
    };
    let formats = [call.numbers("x", x)?; 2];
    let ways = [flag(call, "interleaved")?, false];
    shape.launch(tools, queue, formats, ways, &arguments)
}

/// Dense attention: keys and values are tokens of heads of numbers.
pub(super) fn attention(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (queries, tokens) = (call.size("queries")?, call.size("tokens")?);
    let (heads, kv_heads) = (call.size("heads")?, call.size("kv_heads")?);
    let head_dim = call.size("head_dim")?;
    let q = call.operand("q", &[queries, heads, head_dim])?;
    let keys = call.of("keys", q.format, &[tokens, kv_heads, head_dim])?;
    let values = call.of("values", q.format, &[tokens, kv_heads, head_dim])?;
    let out = call.of("out", q.format, &[queries, heads, head_dim])?;
    check_heads(call, q, heads, kv_heads, head_dim)?;
    if queries * heads == 0 {
        return Ok(());
    }
    if tokens == 0 {
        return queue.fill(out.pointer, 0, queries * heads * head_dim * 2);
    }
    let token = kv_heads * head_dim;
    let prompt = Prompt {
        q,
        out,
        cache: Cache {
            keys,
            values,
            blocks: 1,
            block_tokens: tokens,
            strides: [tokens * token, head_dim, token],
        },
        paging: None,
        rows: queries,
        queries,
        sequences: 1,
        heads,
        kv_heads,
        head_dim,
        causal: flag(call, "causal")?,
        number: call.numbers("q", q)?,
        scale: call.float("scale")?,
    };
    prompt.launch(tools, queue)
}

/// Refuses blocks of the cache whose tokens are read in groups that go over its end.
pub(super) fn check_block(call: &Call<'_>, block_tokens: u64) -> Result<()> {
    if block_tokens.is_multiple_of(BLOCK_TOKENS) {
        return Ok(());
    }
    let wanted = format_args!("blocks of {BLOCK_TOKENS} tokens, or of a multiple");
    Err(call.error(wanted, block_tokens))
}

/// Refuses what the attention kernels are not written for.
pub(super) fn check_heads(
    call: &Call<'_>,
    q: Operand,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
) -> Result<()> {
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        let got = format_args!("{heads} and {kv_heads}");
        return Err(call.error("heads in groups of kv_heads", got));
    }
    if !HEADS.contains(&head_dim) {
        return Err(call.error(format_args!("heads of one of {HEADS:?}"), head_dim));
    }
    match q.format {
        ElementFormat::F16 | ElementFormat::Bf16 => Ok(()),
        other => Err(call.error("q of f16 or bf16", other)),
    }
}

pub(super) fn paged_attention(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, sequences) = (call.size("rows")?, call.size("sequences")?);
    let (heads, kv_heads) = (call.size("heads")?, call.size("kv_heads")?);
    let (head_dim, block_tokens) = (call.size("head_dim")?, call.size("block_tokens")?);
    let (blocks, columns) = (call.size("blocks")?, call.size("table_columns")?);
    let cache = [blocks, block_tokens, kv_heads, head_dim];
    let q = call.operand("q", &[rows, heads, head_dim])?;
    let keys = call.of("keys", q.format, &cache)?;
    let values = call.of("values", q.format, &cache)?;
    let tables = call.of("block_tables", I32, &[sequences, columns])?;
    let starts = call.of("query_start_loc", I32, &[sequences + 1])?;
    let lengths = call.of("seq_lens", I32, &[sequences])?;
    let out = call.of("out", q.format, &[rows, heads, head_dim])?;
    if rows * heads * head_dim == 0 {
        return Ok(());
    }
    check_heads(call, q, heads, kv_heads, head_dim)?;
    check_block(call, block_tokens)?;
    let most_queries = call.size("max_query_len")?;
    // Not how many rows there are: where all rows have to be added up in one order, whoever is
    // beside them, a row alone is said to be one of several.
    if most_queries > 1 {
        // Rows of no sequence are zeros, and the kernel leaves them alone.
        queue.fill(out.pointer, 0, rows * heads * head_dim * 2)?;
        if sequences * blocks == 0 {
            return Ok(());
        }
        let prompt = Prompt {
            q,
            out,
            cache: Cache {
                keys,
                values,
                blocks,
                block_tokens,
                strides: distances(block_tokens, kv_heads, head_dim),
            },
            paging: Some(Paging {
                tables,
                columns,
                starts,
                lengths,
            }),
            rows,
            queries: most_queries.min(rows),
            sequences,
            heads,
            kv_heads,
            head_dim,
            causal: true,
            number: call.numbers("q", q)?,
            scale: call.float("scale")?,
        };
        return prompt.launch(tools, queue);
    }
    let decoded = Decoded {
        rows,
        sequences,
        heads,
        kv_heads,
        head_dim,
        block_tokens,
        columns,
        q,
        keys,
        values,
        tables,
        starts,
        lengths,
        out,
        turning: None,
    };
    decoded.launch(tools, queue, call)
}

//! Attention of one new token of each sequence over the cache of keys and values.

use super::attention::{check_block, check_heads, flag, strides};
use super::call::{Call, at, at_or_null, int};
use super::tools::{Setting, Tools};
use crate::device::{Extent, Queue};
use assay_operations::ElementFormat::{F32, I32};
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// The most blocks that may be one cluster on any device that has them.
const CLUSTER: u64 = 8;
/// The most parts that one context is cut into where they meet in memory.
const MOST_PARTS: u64 = 64;
/// Tokens that make a part worth its start, where parts meet in memory or share a multiprocessor.
const LEAST_TOKENS: u64 = 256;
/// Tokens beyond which half of the multiprocessors are too few to read.
const SHORT: u64 = 512;
/// Tokens beyond which a context is long: few blocks of many warps read it best.
const LONG: u64 = 2048;

/// How the decode kernel is launched, as measured on an H200.
struct Decode {
    warps: u64,
    /// Blocks on each multiprocessor.
    blocks: u64,
    /// How many each context is cut into, so that the device is full.
    parts: u64,
}

impl Decode {
    /// Lengths are not known here, only the longest that the tables could hold. `wide` heads take
    /// so many registers that fewer warps fit.
    fn new(multiprocessors: u64, pairs: u64, tokens: u64, wide: bool, clusters: bool) -> Self {
        let pairs = pairs.max(1);
        // A fourth block costs registers, and is worth them where it saves a second round.
        let fit_four = pairs > 3 * multiprocessors && pairs <= 4 * multiprocessors;
        let alone = !wide && (pairs <= multiprocessors || tokens > LONG);
        let (warps, blocks, wanted) = match (alone, wide) {
            (true, _) => (8, 1, multiprocessors / pairs),
            (_, true) => (2, 3, (3 * multiprocessors).div_ceil(pairs)),
            _ if fit_four => (4, 4, 1),
            _ => (4, 3, (3 * multiprocessors).div_ceil(pairs)),
        };
        // A cluster lies within a section of the device. Where clusters fill half of it at most,
        // each finds room at once; those with nothing to do cost little.
        let parts = match alone && clusters {
            true if tokens > SHORT => (wanted / 2).max(wanted.min(2)),
            true => wanted / 2,
            false => wanted.min(tokens.div_ceil(LEAST_TOKENS)),
        };
        Decode {
            warps,
            blocks,
            parts: parts.clamp(1, if clusters { CLUSTER } else { MOST_PARTS }),
        }
    }
}

/// What the kernel does to a new token before: its queries and its key turn, and the cache gets it.
pub(super) struct Turning {
    /// Cosines and sines for every position; none turns nothing.
    table: Option<Operand>,
    query_norm: Option<Operand>,
    key_norm: Option<Operand>,
    neighbors: bool,
    epsilon: f32,
}

/// One call, read and checked.
pub(super) struct Decoded {
    pub rows: u64,
    pub sequences: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub block_tokens: u64,
    pub columns: u64,
    /// Queries, or queries, keys and values where they still have to turn.
    pub q: Operand,
    pub keys: Operand,
    pub values: Operand,
    pub tables: Operand,
    pub starts: Operand,
    pub lengths: Operand,
    pub out: Operand,
    pub turning: Option<Turning>,
}

impl Decoded {
    pub fn launch(&self, tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
        let (heads, kv_heads, head_dim) = (self.heads, self.kv_heads, self.head_dim);
        if self.rows > self.sequences {
            // The kernel writes one row for each sequence.
            queue.fill(self.out.pointer, 0, self.rows * heads * head_dim * 2)?;
        }
        if self.sequences == 0 {
            return Ok(());
        }
        let tiles = (heads / kv_heads).div_ceil(8);
        let facts = queue.device().facts();
        let pairs = self.sequences * kv_heads;
        let has_clusters = facts.capability >= 90;
        let Decode {
            warps,
            blocks,
            parts,
        } = Decode::new(
            u64::from(facts.multiprocessors),
            pairs,
            self.columns * self.block_tokens,
            head_dim * tiles > 128,
            has_clusters,
        );
        let cut = match call.size("num_splits")? {
            0 => parts,
            split => split.min(if has_clusters { CLUSTER } else { MOST_PARTS }),
        };
        // Parts of one cluster meet in each other's shared memory, which is quicker.
        let clusters = has_clusters && cut > 1;
        let neighbors = self.turning.as_ref().is_some_and(|one| one.neighbors);
        let settings: [Setting; 9] = [
            ("NUMBER", call.numbers("q", self.q)?.into()),
            ("HEAD", head_dim.into()),
            ("HEAD_TILES", tiles.into()),
            ("WARPS", warps.into()),
            ("BLOCKS", blocks.into()),
            ("CLUSTER", clusters.into()),
            ("SETTLED", flag(call, "metadata_ready")?.into()),
            ("ROTATES", self.turning.is_some().into()),
            ("NEIGHBORS", neighbors.into()),
        ];
        let function = tools.function(queue, "attention_decode", &settings)?;
        let meets_in_memory = cut > 1 && !clusters;
        let scratch = |purpose, bytes| match meets_in_memory {
            true => tools.scratch(queue, purpose, bytes),
            false => Ok(DevicePointer(0)),
        };
        let part_bytes = 8 * tiles * (head_dim + 2) * 4;
        let mut arguments = vec![
            at(self.q),
            at(self.keys),
            at(self.values),
            at(self.tables),
            at(self.lengths),
            at(self.starts),
            at(self.out),
            KernelArgument::Pointer(scratch("parts", pairs * cut * part_bytes)?),
            KernelArgument::Pointer(scratch("counters", pairs * 4)?),
            int(heads),
            int(kv_heads),
            int(self.block_tokens),
            int(self.columns),
        ];
        arguments.extend(strides(self.block_tokens, kv_heads, head_dim));
        arguments.push(KernelArgument::F32(call.float("scale")?));
        if let Some(turning) = &self.turning {
            arguments.extend([
                at_or_null(turning.table),
                at_or_null(turning.query_norm),
                at_or_null(turning.key_norm),
                KernelArgument::F32(turning.epsilon),
            ]);
        }
        let extent = Extent {
            grid: [cut as u32, kv_heads as u32, self.sequences as u32],
            block: [(warps * 32) as u32, 1, 1],
            shared_bytes: 0,
            cluster: if clusters { cut as u32 } else { 1 },
        };
        queue.launch(&function, extent, &arguments)
    }
}

/// Turns the new token of each sequence, writes it to the cache, and attends.
pub(super) fn decode_attention(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, sequences) = (call.size("rows")?, call.size("sequences")?);
    let (heads, kv_heads) = (call.size("heads")?, call.size("kv_heads")?);
    let (head_dim, block_tokens) = (call.size("head_dim")?, call.size("block_tokens")?);
    let (blocks, columns) = (call.size("blocks")?, call.size("table_columns")?);
    let positions = call.size("table_positions")?;
    let cache = [blocks, block_tokens, kv_heads, head_dim];
    let q = call.operand("qkv", &[rows, heads + 2 * kv_heads, head_dim])?;
    let decoded = Decoded {
        rows,
        sequences,
        heads,
        kv_heads,
        head_dim,
        block_tokens,
        columns,
        q,
        keys: call.of("keys", q.format, &cache)?,
        values: call.of("values", q.format, &cache)?,
        tables: call.of("block_tables", I32, &[sequences, columns])?,
        starts: call.of("query_start_loc", I32, &[sequences + 1])?,
        lengths: call.of("seq_lens", I32, &[sequences])?,
        out: call.of("out", q.format, &[rows, heads, head_dim])?,
        turning: Some(Turning {
            table: call.optional_of("table", F32, &[positions, head_dim])?,
            query_norm: call.optional_of("query_norm", q.format, &[head_dim])?,
            key_norm: call.optional_of("key_norm", q.format, &[head_dim])?,
            neighbors: flag(call, "interleaved")?,
            epsilon: call.float("epsilon")?,
        }),
    };
    if rows * heads * head_dim == 0 {
        return Ok(());
    }
    check_heads(call, q, heads, kv_heads, head_dim)?;
    check_block(call, block_tokens)?;
    decoded.launch(tools, queue, call)
}

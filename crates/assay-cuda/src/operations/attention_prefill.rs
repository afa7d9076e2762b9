//! Prefill attention: many queries per sequence.

use super::attention_limits::is_quantized;
use super::attention_scores::ScoreOptions;
use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use crate::device::{LaunchConfig, TiledTensor};
use assay_operations::Operand;
use assay_runtime::backend::{KernelArgument, Result};

/// Keys and values: blocks of heads of tokens, at any strides.
pub(super) struct KvCache {
    pub keys: Operand,
    pub values: Operand,
    pub blocks: u64,
    pub block_tokens: u64,
    /// Of blocks, heads and tokens, in elements.
    pub strides: [u64; 3],
    /// The type of elements in the kernels' sources.
    pub element: &'static str,
}

/// The sequences of a paged cache; without it each block holds all tokens of one sequence.
pub(super) struct PagedMetadata {
    pub block_tables: Operand,
    pub table_columns: u64,
    pub query_start_loc: Operand,
    pub seq_lens: Operand,
}

/// A call of either prefill kernel.
pub(super) struct PrefillAttention {
    pub q: Operand,
    pub out: Operand,
    pub cache: KvCache,
    pub metadata: Option<PagedMetadata>,
    /// Rows of q.
    pub rows: u64,
    /// The maximum query length of a sequence.
    pub queries: u64,
    pub sequences: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub causal: bool,
    pub element: &'static str,
    pub scale: f32,
    pub options: ScoreOptions,
}

/// Rows and tokens of a tile of the Hopper kernel.
const TILE_ROWS: u64 = 128;
/// Elements in the 128 bytes of the swizzle.
const SWIZZLE_ELEMENTS: u32 = 64;

impl PrefillAttention {
    pub fn launch(&self, call: &Call<'_>) -> Result<()> {
        // The FlashAttention-3 kernel needs wgmma, heads that fit its tiles, and a cache that TMA copies
        // as it is; it has no window and no other option of scores.
        let is_converted = is_quantized(self.cache.keys.format);
        let is_plain = self.options.code() == 0 && self.head_dim <= 128 && !is_converted;
        match call.queue.device().facts().capability == 90 && is_plain {
            true => self.launch_hopper(call),
            false => self.launch_generic(call),
        }
    }

    fn metadata_arguments(&self) -> [KernelArgument; 3] {
        let metadata = self.metadata.as_ref();
        [
            pointer_or_null(metadata.map(|metadata| metadata.block_tables)),
            pointer_or_null(metadata.map(|metadata| metadata.query_start_loc)),
            pointer_or_null(metadata.map(|metadata| metadata.seq_lens)),
        ]
    }

    /// Query heads of a tile. Beside a prompt there may be sequences that decode: then all that share
    /// a KV head (PackGQA), so that tiles are not mostly empty and long contexts are read once.
    fn heads_per_tile(&self) -> u64 {
        let group_heads = self.heads / self.kv_heads;
        match self.sequences > 1 && group_heads <= TILE_ROWS {
            true => group_heads,
            false => 1,
        }
    }

    fn table_columns(&self) -> u64 {
        self.metadata.as_ref().map_or(0, |metadata| metadata.table_columns)
    }

    fn launch_hopper(&self, call: &Call<'_>) -> Result<()> {
        let (head, heads_per_tile, cache) = (self.head_dim, self.heads_per_tile(), &self.cache);
        let (queries, head_tiles) = (TILE_ROWS / heads_per_tile, self.heads / heads_per_tile);
        // A TMA box is a whole KV cache block, or the largest part of it that divides a tile.
        let box_tokens = match self.metadata {
            Some(_) => (1 << cache.block_tokens.trailing_zeros()).min(TILE_ROWS),
            None => TILE_ROWS,
        };
        let defines: [Define; 5] = [
            ("ELEMENT", self.element.into()),
            ("HEAD_DIM", head.into()),
            ("HEADS_PER_TILE", heads_per_tile.into()),
            ("CAUSAL", self.causal.into()),
            ("BOX_TOKENS", box_tokens.into()),
        ];
        let function = call.function("attention_prefill_hopper", &defines)?;
        let [block_stride, head_stride, token_stride] = cache.strides;
        let of_cache = |operand: Operand| {
            call.queue.tensor_map(&TiledTensor {
                pointer: operand.pointer,
                sizes: [head, cache.block_tokens, self.kv_heads, cache.blocks],
                strides: [1, token_stride, head_stride, block_stride],
                box_sizes: [SWIZZLE_ELEMENTS, box_tokens as u32, 1, 1],
            })
        };
        let of_q = call.queue.tensor_map(&TiledTensor {
            pointer: self.q.pointer,
            sizes: [head, self.heads, self.rows],
            strides: [1, head, self.heads * head],
            box_sizes: [SWIZZLE_ELEMENTS, heads_per_tile as u32, queries as u32],
        })?;
        let tile_counter = call.scratch("prefill tile counter", 4)?;
        let mut arguments = of_q.to_vec();
        arguments.extend(of_cache(cache.keys)?);
        arguments.extend(of_cache(cache.values)?);
        arguments.extend(self.metadata_arguments());
        arguments.extend([pointer(self.out), KernelArgument::Pointer(tile_counter)]);
        arguments.extend([int(self.rows), int(self.queries), int(cache.block_tokens)]);
        arguments.extend([int(head_tiles), int(head_tiles / self.kv_heads), int(self.sequences)]);
        arguments.extend([int(cache.block_tokens), int(self.table_columns())]);
        arguments.push(KernelArgument::F32(self.scale));
        let work_tiles = self.queries.div_ceil(queries) * head_tiles * self.sequences;
        let ctas = u64::from(call.queue.device().facts().multiprocessors).min(work_tiles);
        let config = LaunchConfig {
            grid: [ctas as u32, 1, 1],
            block: [384, 1, 1],
            shared_bytes: (6 * TILE_ROWS * head * 2 + 1024) as u32,
            cluster: 1,
            prefers_l1: false,
        };
        call.queue.launch(&function, config, &arguments)
    }

    fn launch_generic(&self, call: &Call<'_>) -> Result<()> {
        let (head, cache) = (self.head_dim, &self.cache);
        if self.metadata.is_some() {
            // The kernel does not write rows of no sequence: they are zeros.
            call.queue.fill(self.out.pointer, 0, self.rows * self.heads * head * 2)?;
        }
        let shared = match head {
            ..=128 => 4 * 64 * head * 2,
            _ => (4 * 32 + 64) * head * 2,
        };
        let defines: [Define; 5] = [
            ("ELEMENT", self.element.into()),
            ("CACHE_ELEMENT", cache.element.into()),
            ("HEAD_DIM", head.into()),
            ("CAUSAL", self.causal.into()),
            ("SCORE_OPTIONS", self.options.code().into()),
        ];
        let function = call.function("attention_prefill", &defines)?;
        let [block_stride, head_stride, token_stride] = cache.strides;
        let mut arguments = vec![pointer(self.q), pointer(cache.keys), pointer(cache.values)];
        arguments.extend(self.metadata_arguments());
        arguments.extend([pointer(self.out), int(self.queries), int(cache.block_tokens)]);
        arguments.extend([int(self.heads), int(self.kv_heads), int(cache.block_tokens)]);
        arguments.push(int(self.table_columns()));
        arguments.push(KernelArgument::I64(block_stride.cast_signed()));
        arguments.extend([int(head_stride), int(token_stride)]);
        arguments.push(KernelArgument::F32(self.scale));
        arguments.extend(self.options.arguments());
        let config = LaunchConfig {
            grid: [self.queries.div_ceil(64) as u32, self.heads as u32, self.sequences as u32],
            block: [128, 1, 1],
            shared_bytes: shared as u32,
            cluster: 1,
            prefers_l1: false,
        };
        call.queue.launch(&function, config, &arguments)
    }
}

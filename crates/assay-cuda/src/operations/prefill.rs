//! Attention of many queries for each sequence.

use super::call::{at, at_or_null, int};
use super::tools::{Setting, Tools};
use crate::device::{Boxes, Extent, Queue};
use assay_operations::Operand;
use assay_runtime::backend::{KernelArgument, Result};

/// Where keys and values lie: blocks of heads of tokens of numbers, in whatever order.
pub(super) struct Cache {
    pub keys: Operand,
    pub values: Operand,
    pub blocks: u64,
    pub block_tokens: u64,
    /// From block to block, head to head and token to token, in numbers.
    pub strides: [u64; 3],
}

/// Which tokens are whose; without it each block holds one sequence and all its tokens.
pub(super) struct Paging {
    pub tables: Operand,
    pub columns: u64,
    pub starts: Operand,
    pub lengths: Operand,
}

/// A call of either kernel.
pub(super) struct Prompt {
    pub q: Operand,
    pub out: Operand,
    pub cache: Cache,
    pub paging: Option<Paging>,
    /// Rows of q.
    pub rows: u64,
    /// The most queries of a sequence.
    pub queries: u64,
    pub sequences: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub causal: bool,
    pub number: &'static str,
    pub scale: f32,
}

/// Rows and tokens of a tile of the kernel for Hopper.
const TILE: u64 = 128;
/// Rows for each sequence below which pieces of one head are mostly empty.
const FEW: u64 = TILE / 2;
/// Numbers of 16 bits in a row of 128 bytes.
const ROW: u32 = 64;

impl Prompt {
    pub fn launch(&self, tools: &Tools, queue: &Queue<'_>) -> Result<()> {
        // The quick kernel is for Hopper's matrix unit and for heads that fit its tiles.
        match queue.device().facts().capability == 90 && self.head_dim <= 128 {
            true => self.launch_hopper(tools, queue),
            false => self.launch_anywhere(tools, queue),
        }
    }

    fn tables_starts_lengths(&self) -> [KernelArgument; 3] {
        let told = self.paging.as_ref();
        [
            at_or_null(told.map(|paging| paging.tables)),
            at_or_null(told.map(|paging| paging.starts)),
            at_or_null(told.map(|paging| paging.lengths)),
        ]
    }

    /// Heads that a piece of work takes together. Where most sequences have few queries, all that
    /// share a head of keys: then a piece is not mostly empty, and keys are read once.
    fn bundle(&self) -> u64 {
        let share = self.heads / self.kv_heads;
        match self.rows < FEW * self.sequences && share <= TILE {
            true => share,
            false => 1,
        }
    }

    fn columns(&self) -> u64 {
        self.paging.as_ref().map_or(0, |paging| paging.columns)
    }

    fn launch_hopper(&self, tools: &Tools, queue: &Queue<'_>) -> Result<()> {
        let (head, bundle, cache) = (self.head_dim, self.bundle(), &self.cache);
        let (queries, bundles) = (TILE / bundle, self.heads / bundle);
        // Blocks of the cache are copied whole, or in parts that divide a tile.
        let tokens = match self.paging {
            Some(_) => (1 << cache.block_tokens.trailing_zeros()).min(TILE),
            None => TILE,
        };
        let settings: [Setting; 5] = [
            ("NUMBER", self.number.into()),
            ("HEAD", head.into()),
            ("BUNDLE", bundle.into()),
            ("CAUSAL", self.causal.into()),
            ("BOX", tokens.into()),
        ];
        let function = tools.function(queue, "attention_prefill_hopper", &settings)?;
        let [block_stride, head_stride, token_stride] = cache.strides;
        let of_cache = |operand: Operand| {
            queue.tensor_map(&Boxes {
                pointer: operand.pointer,
                sizes: [head, cache.block_tokens, self.kv_heads, cache.blocks],
                strides: [1, token_stride, head_stride, block_stride],
                of: [ROW, tokens as u32, 1, 1],
            })
        };
        let of_q = queue.tensor_map(&Boxes {
            pointer: self.q.pointer,
            sizes: [head, self.heads, self.rows],
            strides: [1, head, self.heads * head],
            of: [ROW, bundle as u32, queries as u32],
        })?;
        let drawn = tools.scratch(queue, "drawn", 4)?;
        let mut arguments = of_q.to_vec();
        arguments.extend(of_cache(cache.keys)?);
        arguments.extend(of_cache(cache.values)?);
        arguments.extend(self.tables_starts_lengths());
        arguments.extend([at(self.out), KernelArgument::Pointer(drawn)]);
        arguments.extend([int(self.queries), int(cache.block_tokens)]);
        arguments.extend([
            int(bundles),
            int(bundles / self.kv_heads),
            int(self.sequences),
        ]);
        arguments.extend([int(cache.block_tokens), int(self.columns())]);
        arguments.push(KernelArgument::F32(self.scale));
        let pieces = self.queries.div_ceil(queries) * bundles * self.sequences;
        let blocks = u64::from(queue.device().facts().multiprocessors).min(pieces);
        let extent = Extent {
            grid: [blocks as u32, 1, 1],
            block: [384, 1, 1],
            shared_bytes: (6 * TILE * head * 2 + 1024) as u32,
            cluster: 1,
        };
        queue.launch(&function, extent, &arguments)
    }

    fn launch_anywhere(&self, tools: &Tools, queue: &Queue<'_>) -> Result<()> {
        let (head, cache) = (self.head_dim, &self.cache);
        let shared = match head {
            ..=128 => 4 * 64 * head * 2,
            _ => (4 * 32 + 64) * head * 2,
        };
        let settings: [Setting; 3] = [
            ("NUMBER", self.number.into()),
            ("HEAD", head.into()),
            ("CAUSAL", self.causal.into()),
        ];
        let function = tools.function(queue, "attention_prefill", &settings)?;
        let [block_stride, head_stride, token_stride] = cache.strides;
        let mut arguments = vec![at(self.q), at(cache.keys), at(cache.values)];
        arguments.extend(self.tables_starts_lengths());
        arguments.extend([at(self.out), int(self.queries), int(cache.block_tokens)]);
        arguments.extend([int(self.heads), int(self.kv_heads), int(cache.block_tokens)]);
        arguments.push(int(self.columns()));
        arguments.push(KernelArgument::I64(block_stride.cast_signed()));
        arguments.extend([int(head_stride), int(token_stride)]);
        arguments.push(KernelArgument::F32(self.scale));
        let extent = Extent {
            grid: [
                self.queries.div_ceil(64) as u32,
                self.heads as u32,
                self.sequences as u32,
            ],
            block: [128, 1, 1],
            shared_bytes: shared as u32,
            cluster: 1,
        };
        queue.launch(&function, extent, &arguments)
    }
}

//! Decode attention: one new token per sequence over the paged KV cache, with split KV.

use super::attention_limits::{CacheShape, check_block_tokens, check_heads, flag};
use super::attention_scores::ScoreOptions;
use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use crate::device::LaunchConfig;
use assay_operations::ElementFormat::{F32, I32};
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// The portable maximum of CTAs in a cluster.
const MAX_CLUSTER_SIZE: u64 = 8;
/// The most splits of a context where partials are combined in global memory.
const MAX_SPLITS: u64 = 64;
/// The fewest tokens of a split where partials are combined in global memory or CTAs share an SM.
const MIN_SPLIT_TOKENS: u64 = 256;
/// Tokens beyond which half of the SMs do not saturate memory.
const SHORT_CONTEXT: u64 = 1024;
/// Tokens beyond which few CTAs of many warps are best, combined in global memory.
const LONG_CONTEXT: u64 = 2048;
/// KV heads of all sequences, for each SM, from which on several short CTAs an SM are best however long the
/// tables are: one starts while another reads. On an H200, 232 contexts of 1,000 tokens took 236 in place
/// of 245 us, 512 of them 477 in place of 518, and 512 of 300 tokens 155 in place of 216.
const MANY_TASKS: u64 = 14;
/// Nanoseconds of an H200's SM, when all read: a token of a KV head of 128 in 16 bits, the start
/// and end of a CTA, and the combination of splits.
const TOKEN_NS: u64 = 15;
const CTA_NS: u64 = 3_000;
const COMBINE_NS: u64 = 1_000;

/// Tokens of KV heads that an SM reads from which it has two CTAs, for elements of 8 bits: faster for 8
/// contexts of 12,000 on an H200. One context of 8,192 was measured with one CTA.
const PAIR_TOKENS: u64 = 2048;
/// Elements, of all query heads of a KV head together, beyond which an SM has registers for no CTA
/// of eight warps.
const MAX_HEAD_ELEMENTS: u64 = 128;

/// The launch shape of decode attention, tuned on an H200.
#[derive(PartialEq, Eq, Debug)]
struct DecodeShape {
    warps: u64,
    ctas_per_sm: u64,
    /// Splits of each context, to fill the device.
    splits: u64,
    /// Whether the splits of a head are a cluster, which combines them in distributed shared
    /// memory: quicker, but a cluster is scheduled within one GPC.
    cluster: bool,
    /// Whether it needs L1 for loads in flight: where it reads for long.
    prefers_l1: bool,
}

impl DecodeShape {
    /// Sequence lengths are not known on the host, only the longest that the block tables could
    /// hold. Large heads take so many registers that fewer warps fit. `requested` splits, or 0 for
    /// as many as are best.
    fn new(
        sm_count: u64,
        kv_head_tasks: u64,
        tokens: u64,
        large_heads: bool,
        cache: ElementFormat,
        has_clusters: bool,
        requested: u64,
    ) -> Self {
        let kv_head_tasks = kv_head_tasks.max(1);
        let has_many = kv_head_tasks >= MANY_TASKS * sm_count
            && !matches!(cache, ElementFormat::F8E4M3 | ElementFormat::I8);
        let is_long = tokens > LONG_CONTEXT && !large_heads && !has_many;
        let one_cta_per_sm = is_long || !large_heads && kv_head_tasks <= sm_count;
        // A fourth CTA per SM costs registers, and is worth them where it saves a second wave.
        let fits_four = kv_head_tasks > 3 * sm_count && kv_head_tasks <= 4 * sm_count;
        let (warps, ctas_per_sm, max_splits) = match (one_cta_per_sm, large_heads) {
            (true, _) => (8, 1, sm_count / kv_head_tasks),
            (_, true) => (2, 3, (3 * sm_count).div_ceil(kv_head_tasks)),
            _ if fits_four => (4, 4, 1),
            // In many waves, short CTAs leave SMs idle for less.
            _ if kv_head_tasks > 4 * sm_count => (2, 6, 1),
            _ => (4, 3, (3 * sm_count).div_ceil(kv_head_tasks)),
        };
        let reads_much = is_long && kv_head_tasks * tokens / sm_count.max(1) >= PAIR_TOKENS;
        let (warps, ctas_per_sm) = match cache {
            // As many warps as registers for the fused cache write allow.
            ElementFormat::F8E4M3 if reads_much => (6, 2),
            ElementFormat::I8 if reads_much => (8, 2),
            _ => (warps, ctas_per_sm),
        };
        let may_cluster = has_clusters && !is_long;
        // Where clusters fill at most half of the device, all are resident at once; CTAs without
        // work cost little.
        let best = match one_cta_per_sm {
            true if is_long => fastest_splits(sm_count * ctas_per_sm, kv_head_tasks, tokens),
            true if may_cluster && tokens > SHORT_CONTEXT => {
                (max_splits / 2).max(max_splits.min(2))
            }
            true if may_cluster => max_splits / 2,
            _ => max_splits.min(tokens.div_ceil(MIN_SPLIT_TOKENS)),
        };
        let limit = if may_cluster { MAX_CLUSTER_SIZE } else { MAX_SPLITS };
        let splits = if requested == 0 { best } else { requested }.clamp(1, limit);
        DecodeShape {
            warps,
            ctas_per_sm,
            splits,
            cluster: may_cluster && splits > 1,
            prefers_l1: is_long,
        }
    }
}

/// The number of splits with the shortest time where so many CTAs are resident, which together read
/// at full bandwidth: waves of CTAs, each as long as its tokens take and what it costs to begin, end
/// and combine.
fn fastest_splits(resident_ctas: u64, kv_head_tasks: u64, tokens: u64) -> u64 {
    let most = (tokens / MIN_SPLIT_TOKENS).clamp(1, MAX_SPLITS);
    let time_ns = |splits: &u64| {
        let waves = (kv_head_tasks * splits).div_ceil(resident_ctas);
        let combine_ns = if *splits > 1 { COMBINE_NS } else { 0 };
        waves * (tokens.div_ceil(*splits) * TOKEN_NS + CTA_NS + combine_ns)
    };
    (1..=most).min_by_key(time_ns).unwrap_or(1)
}

/// RoPE and cache write of the new token, fused in the decode kernel.
pub(super) struct FusedRope {
    /// Cosines and sines for every position; none: no rotation.
    table: Option<Operand>,
    query_norm: Option<Operand>,
    key_norm: Option<Operand>,
    interleaved: bool,
    epsilon: f32,
}

/// A call, read and checked.
pub(super) struct DecodeAttention {
    pub rows: u64,
    pub sequences: u64,
    pub heads: u64,
    pub cache: CacheShape,
    /// The type of keys and values in the kernel's source.
    pub cache_type: &'static str,
    pub table_columns: u64,
    /// Queries, or the unrotated qkv where RoPE is fused.
    pub q: Operand,
    pub keys: Operand,
    pub values: Operand,
    pub block_tables: Operand,
    pub query_start_loc: Operand,
    pub seq_lens: Operand,
    pub out: Operand,
    pub options: ScoreOptions,
    pub rope: Option<FusedRope>,
}

impl DecodeAttention {
    pub fn launch(&self, call: &Call<'_>) -> Result<()> {
        let (heads, cache) = (self.heads, self.cache);
        let (kv_heads, head_dim) = (cache.kv_heads, cache.head_dim);
        if self.rows > self.sequences {
            // The kernel writes one row per sequence; the others are zeros.
            call.queue.fill(self.out.pointer, 0, self.rows * heads * head_dim * 2)?;
        }
        if self.sequences == 0 {
            return Ok(());
        }
        let tiles = (heads / kv_heads).div_ceil(8);
        let facts = call.queue.device().facts();
        let kv_head_tasks = self.sequences * kv_heads;
        let DecodeShape {
            warps,
            ctas_per_sm,
            splits: num_splits,
            cluster: use_clusters,
            prefers_l1,
        } = DecodeShape::new(
            u64::from(facts.multiprocessors),
            kv_head_tasks,
            self.options.visible_tokens(self.table_columns * cache.block_tokens),
            head_dim * tiles > MAX_HEAD_ELEMENTS,
            self.keys.format,
            facts.capability >= 90,
            call.size("num_splits")?,
        );
        let interleaved = self.rope.as_ref().is_some_and(|one| one.interleaved);
        let defines: [Define; 11] = [
            ("ELEMENT", call.float_type("q", self.q)?.into()),
            ("CACHE_ELEMENT", self.cache_type.into()),
            ("HEAD_DIM", head_dim.into()),
            ("HEAD_TILES", tiles.into()),
            ("WARPS", warps.into()),
            ("CTAS_PER_SM", ctas_per_sm.into()),
            ("CLUSTER", use_clusters.into()),
            ("METADATA_READY", flag(call, "metadata_ready")?.into()),
            ("FUSED_ROPE", self.rope.is_some().into()),
            ("INTERLEAVED", interleaved.into()),
            ("SCORE_OPTIONS", self.options.code().into()),
        ];
        let function = call.function("attention_decode", &defines)?;
        let combines_in_memory = num_splits > 1 && !use_clusters;
        let scratch = |purpose, bytes| match combines_in_memory {
            true => call.scratch(purpose, bytes),
            false => Ok(DevicePointer(0)),
        };
        let partial_bytes = 8 * tiles * (head_dim + 2) * 4;
        let mut arguments = vec![
            pointer(self.q),
            pointer(self.keys),
            pointer(self.values),
            pointer(self.block_tables),
            pointer(self.seq_lens),
            pointer(self.query_start_loc),
            pointer(self.out),
            KernelArgument::Pointer(scratch(
                "decode partials",
                kv_head_tasks * num_splits * partial_bytes,
            )?),
            KernelArgument::Pointer(scratch("decode counters", kv_head_tasks * 4)?),
            int(heads),
            int(kv_heads),
            int(cache.block_tokens),
            int(self.table_columns),
        ];
        arguments.extend(cache.stride_arguments(self.keys.format));
        arguments.push(KernelArgument::F32(call.float("scale")?));
        if let Some(rope) = &self.rope {
            arguments.extend([
                pointer_or_null(rope.table),
                pointer_or_null(rope.query_norm),
                pointer_or_null(rope.key_norm),
                KernelArgument::F32(rope.epsilon),
            ]);
        }
        arguments.extend(self.options.arguments());
        let config = LaunchConfig {
            grid: [num_splits as u32, kv_heads as u32, self.sequences as u32],
            block: [(warps * 32) as u32, 1, 1],
            shared_bytes: 0,
            cluster: if use_clusters { num_splits as u32 } else { 1 },
            prefers_l1,
        };
        call.queue.launch(&function, config, &arguments)
    }
}

/// Rotates the new token of each sequence, writes it to the cache, and attends.
pub(super) fn decode_attention(call: &Call<'_>) -> Result<()> {
    let (rows, sequences) = (call.size("rows")?, call.size("sequences")?);
    let (heads, cache) = (call.size("heads")?, CacheShape::read(call)?);
    let (kv_heads, head_dim) = (cache.kv_heads, cache.head_dim);
    let table_columns = call.size("table_columns")?;
    let positions = call.size("table_positions")?;
    let q = call.operand("qkv", &[rows, heads + 2 * kv_heads, head_dim])?;
    let (keys, values, cache_type) = cache.operands(call, Some(q.format))?;
    if keys.format == ElementFormat::I8 {
        let expected = format_args!("keys of {} or f8_e4m3, for a fused cache write", q.format);
        return Err(call.error(expected, keys.format));
    }
    let decode = DecodeAttention {
        rows,
        sequences,
        heads,
        cache,
        cache_type,
        table_columns,
        q,
        keys,
        values,
        block_tables: call.typed("block_tables", I32, &[sequences, table_columns])?,
        query_start_loc: call.typed("query_start_loc", I32, &[sequences + 1])?,
        seq_lens: call.typed("seq_lens", I32, &[sequences])?,
        out: call.typed("out", q.format, &[rows, heads, head_dim])?,
        options: ScoreOptions::read(call, heads)?,
        rope: Some(FusedRope {
            table: call.optional_typed("table", F32, &[positions, head_dim])?,
            query_norm: call.optional_typed("query_norm", q.format, &[head_dim])?,
            key_norm: call.optional_typed("key_norm", q.format, &[head_dim])?,
            interleaved: flag(call, "interleaved")?,
            epsilon: call.float("epsilon")?,
        }),
    };
    if rows * heads * head_dim == 0 {
        return Ok(());
    }
    check_heads(call, q, heads, kv_heads, head_dim)?;
    check_block_tokens(call, cache.block_tokens)?;
    decode.launch(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_operations::ElementFormat::{Bf16, F8E4M3, I8};

    fn shape(kv_head_tasks: u64, tokens: u64, requested: u64) -> (u64, u64, u64, bool) {
        let shape = DecodeShape::new(132, kv_head_tasks, tokens, false, Bf16, true, requested);
        (shape.warps, shape.ctas_per_sm, shape.splits, shape.cluster)
    }

    #[test]
    fn long_contexts_fill_the_sms_and_short_ones_take_clusters() {
        for (kv_head_tasks, tokens, expected) in [
            (8, 1024, (8, 1, 8, true)),
            (64, 1024, (8, 1, 1, false)),
            (64, 2048, (8, 1, 2, true)),
            (8, 8192, (8, 1, 16, false)),
            (64, 16384, (8, 1, 2, false)),
            // 96 heads are less than a wave, 4 splits of them nearly three.
            (96, 16384, (8, 1, 4, false)),
            (512, 4096, (8, 1, 1, false)),
            (512, 1024, (4, 4, 1, false)),
            (2048, 1024, (2, 6, 1, false)),
            (1856, 16384, (2, 6, 1, false)),
            (1840, 4096, (8, 1, 1, false)),
        ] {
            let got = shape(kv_head_tasks, tokens, 0);
            assert_eq!(got, expected, "{kv_head_tasks} heads of {tokens}");
        }
    }

    #[test]
    fn only_long_contexts_ask_for_l1() {
        for (tokens, large_heads, expected) in
            [(2048, false, false), (2049, false, true), (16384, true, false)]
        {
            let shape = DecodeShape::new(132, 64, tokens, large_heads, Bf16, true, 0);
            assert_eq!(shape.prefers_l1, expected, "{tokens} tokens");
        }
    }

    #[test]
    fn caches_of_8_bits_have_two_ctas_an_sm_where_it_reads_much() {
        for (kv_head_tasks, tokens, cache, expected) in [
            (64, 12_288, F8E4M3, (6, 2, 4)),
            (64, 12_288, I8, (8, 2, 4)),
            (64, 12_288, Bf16, (8, 1, 2)),
            (512, 4096, I8, (8, 2, 1)),
            (8, 8192, F8E4M3, (8, 1, 16)),
            (64, 1024, F8E4M3, (8, 1, 1)),
        ] {
            let shape = DecodeShape::new(132, kv_head_tasks, tokens, false, cache, true, 0);
            let got = (shape.warps, shape.ctas_per_sm, shape.splits);
            assert_eq!(got, expected, "{kv_head_tasks} heads of {tokens}, {cache}");
        }
    }

    #[test]
    fn requested_splits_are_limited_by_how_they_are_combined() {
        assert_eq!(shape(8, 1024, 32), (8, 1, 8, true));
        assert_eq!(shape(8, 8192, 32), (8, 1, 32, false));
        assert_eq!(shape(8, 8192, 100), (8, 1, 64, false));
        assert_eq!(shape(8, 1024, 1), (8, 1, 1, false));
    }

    #[test]
    fn chosen_splits_are_within_their_limits_for_any_size() {
        for kv_head_tasks in (0..3000).step_by(7) {
            for tokens in [0, 1, 255, 300, 1024, 2047, 2049, 5000, 131_072] {
                for (large_heads, cache, clusters) in [
                    (false, Bf16, true),
                    (true, Bf16, true),
                    (false, Bf16, false),
                    (false, F8E4M3, true),
                    (false, I8, true),
                ] {
                    let DecodeShape { splits, cluster, .. } = DecodeShape::new(
                        132,
                        kv_head_tasks,
                        tokens,
                        large_heads,
                        cache,
                        clusters,
                        0,
                    );
                    assert!((1..=MAX_SPLITS).contains(&splits));
                    assert!(!cluster || (clusters && splits <= MAX_CLUSTER_SIZE));
                }
            }
        }
    }
}

//! The operations table: the name, operands and numbers of each operation, in call order.

use super::signature::{
    Signature, changes, float, integer, layout, may_change, may_read, may_write, reads, writes,
};

/// All operations; backends register their kernels in this order.
pub static TABLE: [Signature; 46] = [
    // out = activation(x @ weights.T + bias) + residual. `activation` is the code of an
    // `Activation`; a gated one halves the outputs, as swiglu: silu(first half) * second half. With a gain, the rows
    // of x pass through RMSNorm first. `batch_invariant` makes a row's result independent of the
    // other rows of the batch.
    Signature {
        name: "linear",
        operands: &[
            reads("x"),
            reads("weights"),
            may_read("gain"),
            may_read("bias"),
            may_read("residual"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("inputs"),
            integer("outputs"),
            integer("activation"),
            integer("batch_invariant"),
            float("epsilon"),
        ],
    },
    // Row ids[i] of the table; an id of -1 gives zeros. With `sampled_tokens`, an id of -2 - n
    // means sampled_tokens[n], which an earlier step may still be computing on the device.
    Signature {
        name: "embedding",
        operands: &[
            reads("ids"),
            may_read("sampled_tokens"),
            reads("table"),
            writes("out"),
        ],
        numbers: &[integer("count"), integer("rows"), integer("columns")],
    },
    // With a residual, residual += x first and the sum is normalized (fused add + RMSNorm).
    Signature {
        name: "rms_norm",
        operands: &[
            reads("x"),
            reads("weight"),
            may_change("residual"),
            writes("out"),
        ],
        numbers: &[integer("rows"), integer("columns"), float("epsilon")],
    },
    Signature {
        name: "layer_norm",
        operands: &[
            reads("x"),
            reads("weight"),
            may_read("bias"),
            may_change("residual"),
            writes("out"),
        ],
        numbers: &[integer("rows"), integer("columns"), float("epsilon")],
    },
    // silu(gate) * up; a row holds all gates, then all ups.
    Signature {
        name: "swiglu",
        operands: &[reads("gate_up"), writes("out")],
        numbers: &[integer("rows"), integer("columns")],
    },
    Signature {
        name: "activate",
        operands: &[reads("x"), writes("out")],
        numbers: &[integer("count"), integer("activation")],
    },
    Signature {
        name: "softmax",
        operands: &[reads("x"), writes("out")],
        numbers: &[integer("rows"), integer("columns")],
    },
    // The table is [positions, rotary_dim]: the cosines of all pairs, then their sines.
    // `interleaved` rotates adjacent dimensions (GPT-J style) instead of the two halves of a head
    // (GPT-NeoX style).
    Signature {
        name: "rope",
        operands: &[
            reads("x"),
            reads("positions"),
            reads("table"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("heads"),
            integer("head_dim"),
            integer("rotary_dim"),
            integer("table_positions"),
            integer("interleaved"),
        ],
    },
    // Splits rows of fused QKV, applies the per-head norms and RoPE, writes queries to `q_out` and
    // keys and values to their slots of the paged KV cache. A slot of -1 skips its row.
    // `metadata_ready` promises that the operation queued just before does not write positions and
    // slot mapping, so that a kernel may read them before that operation completes.
    Signature {
        name: "rope_write",
        operands: &[
            reads("qkv"),
            reads("positions"),
            reads("slot_mapping"),
            may_read("table"),
            may_read("query_norm"),
            may_read("key_norm"),
            changes("keys"),
            changes("values"),
            writes("q_out"),
        ],
        numbers: &[
            integer("rows"),
            integer("heads"),
            integer("kv_heads"),
            integer("head_dim"),
            integer("rotary_dim"),
            integer("table_positions"),
            integer("interleaved"),
            integer("block_tokens"),
            integer("blocks"),
            integer("metadata_ready"),
            float("epsilon"),
        ],
    },
    // Sequence s owns rows query_start_loc[s] to query_start_loc[s + 1] of the queries, the last of
    // its seq_lens[s] tokens; token t is in block block_tables[s][t / block_tokens]. Rows of no
    // sequence, or of one of length 0, become zeros. No sequence has more than `max_query_len`
    // rows: the host selects a kernel by it, since it cannot read query_start_loc. Decode rows
    // split their context into `num_splits` (Flash-Decoding); 0 leaves the number to the device.
    // `metadata_ready` is as above, of block_tables, query_start_loc and seq_lens. A query sees the last
    // `window` tokens up to its own; 0: all. Scaled scores are bounded by `softcap` * tanh(score /
    // softcap); 0: not. `alibi_slopes` times the distance of the key are subtracted. `sinks` are logits,
    // one for each head, that take part in the softmax without a value.
    Signature {
        name: "paged_attention",
        operands: &[
            reads("q"),
            reads("keys"),
            reads("values"),
            reads("block_tables"),
            reads("query_start_loc"),
            reads("seq_lens"),
            may_read("sinks"),
            may_read("alibi_slopes"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("sequences"),
            integer("heads"),
            integer("kv_heads"),
            integer("head_dim"),
            integer("block_tokens"),
            integer("blocks"),
            integer("table_columns"),
            integer("max_query_len"),
            integer("num_splits"),
            integer("metadata_ready"),
            integer("window"),
            float("scale"),
            float("softcap"),
        ],
    },
    // `rope_write` fused with `paged_attention` for one new token per sequence, the last of its
    // seq_lens[s] tokens, which gives its position and its slot. RoPE rotates the whole head.
    Signature {
        name: "decode_attention",
        operands: &[
            reads("qkv"),
            may_read("table"),
            may_read("query_norm"),
            may_read("key_norm"),
            changes("keys"),
            changes("values"),
            reads("block_tables"),
            reads("query_start_loc"),
            reads("seq_lens"),
            may_read("sinks"),
            may_read("alibi_slopes"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("sequences"),
            integer("heads"),
            integer("kv_heads"),
            integer("head_dim"),
            integer("table_positions"),
            integer("interleaved"),
            integer("block_tokens"),
            integer("blocks"),
            integer("table_columns"),
            integer("num_splits"),
            integer("metadata_ready"),
            integer("window"),
            float("epsilon"),
            float("scale"),
            float("softcap"),
        ],
    },
    // The queries are the last `queries` of `tokens` tokens; causal masks later tokens.
    Signature {
        name: "attention",
        operands: &[reads("q"), reads("keys"), reads("values"), writes("out")],
        numbers: &[
            integer("queries"),
            integer("tokens"),
            integer("heads"),
            integer("kv_heads"),
            integer("head_dim"),
            integer("causal"),
            float("scale"),
        ],
    },
    // Multi-head latent attention (DeepSeek-V2). A row of `kv` is a latent of `rank` elements, which
    // RMSNorm normalizes, and a key of `rotary_dim` elements that all heads share, which RoPE rotates.
    // Both go to the row's slot of the cache, [blocks, block_tokens, rank + rotary_dim]; a slot of -1
    // skips its row. The rotary part of each query head is rotated in place.
    Signature {
        name: "latent_write",
        operands: &[
            reads("kv"),
            reads("positions"),
            reads("slot_mapping"),
            reads("table"),
            reads("norm"),
            changes("q_rope"),
            changes("cache"),
        ],
        numbers: &[
            integer("rows"),
            integer("heads"),
            integer("rank"),
            integer("rotary_dim"),
            integer("table_positions"),
            integer("interleaved"),
            integer("block_tokens"),
            integer("blocks"),
            float("epsilon"),
        ],
    },
    // Attention of queries in latent space: a key is a row of the cache, and its first `rank` elements
    // are its value. The other arguments are those of `paged_attention`.
    Signature {
        name: "latent_attention",
        operands: &[
            reads("q_latent"),
            reads("q_rope"),
            reads("cache"),
            reads("block_tables"),
            reads("query_start_loc"),
            reads("seq_lens"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("sequences"),
            integer("heads"),
            integer("rank"),
            integer("rotary_dim"),
            integer("block_tokens"),
            integer("blocks"),
            integer("table_columns"),
            integer("max_query_len"),
            integer("num_splits"),
            float("scale"),
        ],
    },
    // Causal depthwise convolution over the rows of each sequence, then SiLU: out[t] = silu(bias + sum
    // over k of weight[k] * x[t - kernel + 1 + k]). x is the `channels` columns from `first` on of rows
    // of `columns`; what precedes a sequence's rows is in its slot of the state, [slots, kernel - 1,
    // channels], and zero before its first token; the state is updated. Slot, rows and length of a
    // sequence are as for `paged_attention`, whose block tables have one column here.
    Signature {
        name: "causal_convolution",
        operands: &[
            reads("x"),
            reads("weight"),
            may_read("bias"),
            reads("slots"),
            reads("query_start_loc"),
            reads("seq_lens"),
            changes("state"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("sequences"),
            integer("columns"),
            integer("first"),
            integer("channels"),
            integer("kernel"),
            integer("states"),
        ],
    },
    // The recurrence of Mamba-2 (Dao and Gu 2024) over the rows of each sequence, for every head:
    // state = exp(-exp(a_log) dt) state + dt x B^T, y = state C + d x, with dt = clamp(softplus(raw +
    // dt_bias), dt_min, dt_max); out = y silu(z). A row of `projected` is z (heads x head_dim), what was
    // convolved, and the raw dt of every head; a row of `convolved` is x, then B and C of every group.
    // The state is [slots, heads, head_dim, state_size]. `batch_invariant` makes a row's result
    // independent of which rows of its sequence come with it.
    Signature {
        name: "selective_scan",
        operands: &[
            reads("projected"),
            reads("convolved"),
            reads("a_log"),
            reads("d"),
            reads("dt_bias"),
            reads("slots"),
            reads("query_start_loc"),
            reads("seq_lens"),
            changes("state"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("sequences"),
            integer("heads"),
            integer("head_dim"),
            integer("groups"),
            integer("state_size"),
            integer("states"),
            integer("batch_invariant"),
            float("dt_min"),
            float("dt_max"),
        ],
    },
    // Row rows[i] of x; a row of -1 gives zeros.
    Signature {
        name: "gather_rows",
        operands: &[reads("x"), reads("rows"), writes("out")],
        numbers: &[integer("count"), integer("source_rows"), integer("columns")],
    },
    // Parameters are per row: temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 disable a
    // filter. The log-probability is that of the sampled token at temperature 1 before filtering.
    Signature {
        name: "sample",
        operands: &[
            reads("logits"),
            reads("temperature"),
            reads("top_k"),
            reads("top_p"),
            reads("min_p"),
            reads("seeds"),
            reads("steps"),
            writes("tokens"),
            may_write("logprobs"),
        ],
        numbers: &[integer("rows"), integer("columns")],
    },
    // For tokens of prompt or output, positive logits are divided by the repetition penalty and
    // others multiplied by it; tokens of the output lose `presence`, and `frequency` per
    // occurrence.
    Signature {
        name: "penalize",
        operands: &[
            changes("logits"),
            reads("counts"),
            may_read("prompt_mask"),
            reads("repetition"),
            reads("presence"),
            reads("frequency"),
        ],
        numbers: &[integer("rows"), integer("columns")],
    },
    // f32 to and from the format of the other operand; blocks run along the last axis.
    Signature {
        name: "quantize",
        operands: &[reads("x"), writes("out")],
        numbers: &[integer("count")],
    },
    Signature {
        name: "dequantize",
        operands: &[reads("x"), writes("out")],
        numbers: &[integer("count")],
    },
    // Strided batched GEMM, m x k by k x n, strides in elements; the result is contiguous.
    Signature {
        name: "matmul",
        operands: &[reads("a"), reads("b"), writes("out")],
        numbers: &[
            integer("batch"),
            integer("m"),
            integer("k"),
            integer("n"),
            integer("a_batch_stride"),
            integer("a_row_stride"),
            integer("a_column_stride"),
            integer("b_batch_stride"),
            integer("b_row_stride"),
            integer("b_column_stride"),
        ],
    },
    // x = factor x; a softcap above 0 then bounds it by softcap * tanh(x / softcap).
    Signature {
        name: "scale",
        operands: &[changes("x")],
        numbers: &[integer("count"), float("factor"), float("softcap")],
    },
    // out = residual + factor * x; with a weight, the rows of x pass through RMSNorm first.
    Signature {
        name: "add_residual",
        operands: &[
            reads("x"),
            may_read("weight"),
            reads("residual"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("columns"),
            float("epsilon"),
            float("factor"),
        ],
    },
    // RMSNorm of `width` columns of each row from column `first` on, in place.
    Signature {
        name: "norm_columns",
        operands: &[changes("x"), reads("weight")],
        numbers: &[
            integer("rows"),
            integer("columns"),
            integer("first"),
            integer("width"),
            float("epsilon"),
        ],
    },
    // The `top_k` experts of each row, best first, by softmax or `sigmoid` of its logits, and their
    // weights: the scores, divided by their sum where `normalize`, times `factor`. The bias is added for
    // the choice only. Of `groups` of experts only the best `top_groups` are considered, ranked by their
    // best expert or by the sum of the best two. A row whose slot is negative is padding: its experts are
    // -1, which is none, and their weights 0.
    Signature {
        name: "route",
        operands: &[
            reads("logits"),
            may_read("bias"),
            may_read("slots"),
            writes("experts"),
            writes("weights"),
        ],
        numbers: &[
            integer("rows"),
            integer("experts_count"),
            integer("top_k"),
            integer("sigmoid"),
            integer("normalize"),
            integer("groups"),
            integer("top_groups"),
            integer("top_two_groups"),
            float("factor"),
        ],
    },
    // RMSNorm, router and `route` of each row: normed is the norm of x, and the logits that are routed are
    // normed @ weights.T + router_bias; `choice_bias` and `slots` are those of `route`. Up to `fused_rows` rows may
    // be one kernel.
    Signature {
        name: "router",
        operands: &[
            reads("x"),
            reads("gain"),
            reads("weights"),
            may_read("router_bias"),
            may_read("choice_bias"),
            may_read("slots"),
            writes("normed"),
            writes("logits"),
            writes("experts"),
            writes("expert_weights"),
        ],
        numbers: &[
            integer("rows"),
            integer("inputs"),
            integer("experts_count"),
            float("epsilon"),
            integer("batch_invariant"),
            integer("fused_rows"),
            integer("top_k"),
            integer("sigmoid"),
            integer("normalize"),
            integer("groups"),
            integer("top_groups"),
            integer("top_two_groups"),
            float("factor"),
        ],
    },
    // Grouped GEMM: out[i] = activation(x[i / fan_out] @ weights[experts[i]].T + bias[experts[i]]); the
    // weights of all experts are one matrix, one expert below the other. Of expert -1, which is none,
    // nothing is read or written. Up to `gemv_assignments` assignments may each read its own weights, and
    // up to `small_m_rows` rows of an expert, on average, may take a kernel of small tiles.
    Signature {
        name: "grouped_linear",
        operands: &[
            reads("x"),
            reads("weights"),
            may_read("bias"),
            reads("experts"),
            writes("out"),
        ],
        numbers: &[
            integer("assignments"),
            integer("fan_out"),
            integer("inputs"),
            integer("outputs"),
            integer("experts_count"),
            integer("activation"),
            integer("batch_invariant"),
            integer("gemv_assignments"),
            integer("small_m_rows"),
        ],
    },
    // out = residual + sum over a row's experts of weight * output + sigmoid(gate) * shared; without
    // gates, the shared output counts fully. Outputs of weight 0 are not added, whatever they are.
    Signature {
        name: "combine_experts",
        operands: &[
            reads("outputs"),
            reads("weights"),
            may_read("residual"),
            may_read("shared"),
            may_read("gates"),
            writes("out"),
        ],
        numbers: &[integer("rows"), integer("columns"), integer("top_k")],
    },
    // `grouped_linear` of the `top_k` experts of each row, without activation, then `combine_experts`.
    // `expert_outputs` may be used in between. `experts_ready` states that the experts were there before the
    // preceding operation began.
    Signature {
        name: "combine_linear",
        operands: &[
            reads("x"),
            reads("weights"),
            may_read("bias"),
            reads("experts"),
            reads("factors"),
            may_read("residual"),
            may_read("shared"),
            may_read("gates"),
            writes("expert_outputs"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("top_k"),
            integer("inputs"),
            integer("outputs"),
            integer("experts_count"),
            integer("batch_invariant"),
            integer("gemv_assignments"),
            integer("small_m_rows"),
            integer("experts_ready"),
        ],
    },
    // The sum of all elements: measures the peak read bandwidth.
    Signature {
        name: "stream_read",
        operands: &[reads("x"), writes("out")],
        numbers: &[integer("count")],
    },
    // A copy of all elements: measures the peak copy bandwidth.
    Signature {
        name: "stream_copy",
        operands: &[reads("x"), writes("out")],
        numbers: &[integer("count")],
    },
    // `steps` fused multiply-adds per element in registers: measures the peak FLOP/s.
    Signature {
        name: "fma_peak",
        operands: &[reads("x"), writes("out")],
        numbers: &[
            integer("count"),
            integer("steps"),
            float("factor"),
            float("addend"),
        ],
    },
    // Weights in the layout of the device's GEMM kernels, from dense rows, which are rounded, or
    // from quantized blocks in a file's layout.
    Signature {
        name: "pack",
        operands: &[reads("x"), writes("weights")],
        numbers: &[integer("outputs"), integer("inputs")],
    },
    // Packed weights back to dense rows.
    Signature {
        name: "unpack",
        operands: &[reads("weights"), writes("out")],
        numbers: &[integer("outputs"), integer("inputs")],
    },
    // Array operations from here on; CPUs run NumPy's loops instead. `expression` is an id from
    // `expressions`. An absent input is a scalar, passed by its bits: those of a double where
    // `compute_type` is floating, else of an integer.
    Signature {
        name: "elementwise",
        operands: &[
            may_read("first"),
            may_read("second"),
            may_read("third"),
            writes("result"),
        ],
        numbers: &[
            integer("expression"),
            integer("compute_type"),
            integer("first_scalar"),
            integer("second_scalar"),
            integer("third_scalar"),
            layout("layout"),
        ],
    },
    // The same for contiguous arrays of the result's shape.
    Signature {
        name: "map",
        operands: &[
            may_read("first"),
            may_read("second"),
            may_read("third"),
            writes("result"),
        ],
        numbers: &[
            integer("expression"),
            integer("compute_type"),
            integer("first_scalar"),
            integer("second_scalar"),
            integer("third_scalar"),
            integer("count"),
        ],
    },
    // Transform-reduce over the middle axis of x, which is [outer, length, inner]. `transform` is
    // an expression of the element a0 and, where `centered`, of the mean a1 of the reduced elements
    // (for sums only). `combine` is the reduction operator. `epilogue` is an expression of the
    // reduced value a0 and of `epilogue_scalar` a1.
    Signature {
        name: "reduce",
        operands: &[reads("x"), writes("out")],
        numbers: &[
            integer("transform"),
            integer("combine"),
            integer("epilogue"),
            float("epilogue_scalar"),
            integer("centered"),
            integer("compute_type"),
            integer("outer"),
            integer("length"),
            integer("inner"),
        ],
    },
    // argmax or argmin along the middle axis: the first index in case of ties; NaN wins.
    Signature {
        name: "argreduce",
        operands: &[reads("x"), writes("out")],
        numbers: &[
            integer("largest"),
            integer("outer"),
            integer("length"),
            integer("inner"),
        ],
    },
    // Inclusive scan along rows.
    Signature {
        name: "scan",
        operands: &[reads("x"), writes("out")],
        numbers: &[
            integer("combine"),
            integer("compute_type"),
            integer("rows"),
            integer("length"),
        ],
    },
    // Stable sort of rows: the sorted values, the argsort indices, or both. NaN sorts last.
    Signature {
        name: "sort",
        operands: &[reads("x"), may_write("values"), may_write("indices")],
        numbers: &[integer("rows"), integer("length"), integer("descending")],
    },
    // out[o][j][i] = x[o][indices[j]][i]. With `along_axis` there is one index for every o and i,
    // as in take_along_axis. A negative index counts from the end; one out of bounds gives zeros.
    Signature {
        name: "gather",
        operands: &[reads("x"), reads("indices"), writes("out")],
        numbers: &[
            integer("outer"),
            integer("axis"),
            integer("count"),
            integer("inner"),
            integer("along_axis"),
        ],
    },
    // out[o][indices[j]][i] = x[o][j][i]; the last of duplicate indices wins. `distinct` promises
    // that there are none. Negative indices are as above; one out of bounds is skipped.
    Signature {
        name: "scatter",
        operands: &[reads("x"), reads("indices"), changes("out")],
        numbers: &[
            integer("outer"),
            integer("axis"),
            integer("count"),
            integer("inner"),
            integer("distinct"),
        ],
    },
    // Inclusive prefix sums of the number of flags set in each block of 4096; for `compact`.
    Signature {
        name: "flag_counts",
        operands: &[reads("flags"), writes("prefix_counts")],
        numbers: &[integer("count")],
    },
    // Stream compaction: the indices of the flags that are set, `selected` in all; `prefix_counts`
    // comes from `flag_counts`.
    Signature {
        name: "compact",
        operands: &[reads("flags"), reads("prefix_counts"), writes("indices")],
        numbers: &[integer("count"), integer("selected")],
    },
    // As numpy.searchsorted: the insertion index of each x, on the right of equal elements with
    // `right`. `sorter` holds argsort indices where the elements are not sorted themselves.
    Signature {
        name: "searchsorted",
        operands: &[
            reads("sorted"),
            may_read("sorter"),
            reads("x"),
            writes("out"),
        ],
        numbers: &[integer("length"), integer("count"), integer("right")],
    },
];

/// The operation of this name, with its index in the table.
pub fn find(name: &str) -> Option<(usize, &'static Signature)> {
    TABLE
        .iter()
        .enumerate()
        .find(|(_, signature)| signature.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_every_operation_writes_something() {
        let names: HashSet<_> = TABLE.iter().map(|signature| signature.name).collect();
        assert_eq!(names.len(), TABLE.len());
        for signature in &TABLE {
            assert!(signature.operands.iter().any(|rule| rule.access.writes()));
            let mut parts: Vec<_> = signature.operands.iter().map(|rule| rule.name).collect();
            parts.extend(signature.numbers.iter().map(|rule| rule.name));
            let unique: HashSet<_> = parts.iter().collect();
            assert!(unique.len() == parts.len(), "{}", signature.name);
        }
        assert_eq!(find("linear").map(|(index, _)| index), Some(0));
        assert!(find("linear ").is_none());
    }
}

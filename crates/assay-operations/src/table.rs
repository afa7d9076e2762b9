//! The operations table: the name, operands and numbers of each operation, in call order.

use super::signature::{
    Signature, changes, float, integer, layout, may_change, may_read, may_write, reads, writes,
};

/// The operations in call order: name, operands by access, numbers by kind.
macro_rules! table {
    ($($name:ident { $($access:ident $($operand:ident),+;)+ } { $($kind:ident $($number:ident),+;)+ })+) => {
        [$(Signature {
            name: stringify!($name),
            operands: &[$($($access(stringify!($operand))),+),+],
            numbers: &[$($($kind(stringify!($number))),+),+],
        }),+]
    };
}

/// All operations; backends register their kernels in this order.
pub static TABLE: [Signature; 68] = table! {
    // out = activation(x @ weights.T + bias) + residual. `activation` is the code of an
    // `Activation`; a gated one halves the outputs, as swiglu: silu(first half) * second half. With a gain, the rows
    // of x pass through RMSNorm first. `batch_invariant` makes a row's result independent of the
    // other rows of the batch: 1 by padding to one number of rows, more by the algorithm of so many rows.
    linear {
        reads x, weights; may_read gain, bias, residual; writes out;
    } {
        integer rows, inputs, outputs, activation, batch_invariant; float epsilon;
    }
    // Row ids[i] of the table; an id of -1 gives zeros. With `sampled_tokens`, an id of -2 - n
    // means sampled_tokens[n], which an earlier step may still be computing on the device.
    embedding {
        reads ids; may_read sampled_tokens; reads table; writes out;
    } {
        integer count, rows, columns;
    }
    // With a residual, residual += x first and the sum is normalized (fused add + RMSNorm).
    rms_norm {
        reads x, weight; may_change residual; writes out;
    } {
        integer rows, columns; float epsilon;
    }
    layer_norm {
        reads x, weight; may_read bias; may_change residual; writes out;
    } {
        integer rows, columns; float epsilon;
    }
    // silu(gate) * up; a row holds all gates, then all ups.
    swiglu { reads gate_up; writes out; } { integer rows, columns; }
    activate { reads x; writes out; } { integer count, activation; }
    softmax { reads x; writes out; } { integer rows, columns; }
    // The table is [positions, rotary_dim]: the cosines of all pairs, then their sines.
    // `interleaved` rotates adjacent dimensions (GPT-J style) instead of the two halves of a head
    // (GPT-NeoX style).
    rope {
        reads x, positions, table; writes out;
    } {
        integer rows, heads, head_dim, rotary_dim, table_positions, interleaved;
    }
    // Splits rows of fused QKV, applies the per-head norms and RoPE, writes queries to `q_out` and
    // keys and values to their slots of the paged KV cache. A slot of -1 skips its row.
    // `metadata_ready` promises that the operation queued just before does not write positions and
    // slot mapping, so that a kernel may read them before that operation completes.
    rope_write {
        reads qkv, positions, slot_mapping; may_read table, query_norm, key_norm; changes keys,
        values; writes q_out;
    } {
        integer rows, heads, kv_heads, head_dim, rotary_dim, table_positions, interleaved,
        block_tokens, blocks, metadata_ready; float epsilon;
    }
    // Sequence s owns rows query_start_loc[s] to query_start_loc[s + 1] of the queries, the last of
    // its seq_lens[s] tokens; token t is in block block_tables[s][t / block_tokens]. Rows of no
    // sequence, or of one of length 0, become zeros. No sequence has more than `max_query_len`
    // rows: the host selects a kernel by it, since it cannot read query_start_loc. Decode rows
    // split their context into `num_splits` (Flash-Decoding); 0 leaves the number to the device.
    // `metadata_ready` is as above, of block_tables, query_start_loc and seq_lens. A query sees the last
    // `window` tokens up to its own; 0: all. Scaled scores are bounded by `softcap` * tanh(score /
    // softcap); 0: not. `alibi_slopes` times the distance of the key are subtracted. `sinks` are logits,
    // one for each head, that take part in the softmax without a value.
    paged_attention {
        reads q, keys, values, block_tables, query_start_loc, seq_lens; may_read sinks,
        alibi_slopes; writes out;
    } {
        integer rows, sequences, heads, kv_heads, head_dim, block_tokens, blocks, table_columns,
        max_query_len, num_splits, metadata_ready, window; float scale, softcap;
    }
    // `rope_write` fused with `paged_attention` for one new token per sequence, the last of its
    // seq_lens[s] tokens, which gives its position and its slot. RoPE rotates the whole head.
    decode_attention {
        reads qkv; may_read table, query_norm, key_norm; changes keys, values; reads block_tables,
        query_start_loc, seq_lens; may_read sinks, alibi_slopes; writes out;
    } {
        integer rows, sequences, heads, kv_heads, head_dim, table_positions, interleaved,
        block_tokens, blocks, table_columns, num_splits, metadata_ready, window; float epsilon,
        scale, softcap;
    }
    // The queries are the last `queries` of `tokens` tokens of each of `batch` sequences, one after the other; causal
    // masks later tokens.
    attention {
        reads q, keys, values; writes out;
    } {
        integer batch, queries, tokens, heads, kv_heads, head_dim, causal; float scale;
    }
    // Multi-head latent attention (DeepSeek-V2). A row of `kv` is a latent of `rank` elements, which
    // RMSNorm normalizes, and a key of `rotary_dim` elements that all heads share, which RoPE rotates.
    // Both go to the row's slot of the cache, [blocks, block_tokens, rank + rotary_dim]; a slot of -1
    // skips its row. The rotary part of each query head is rotated in place.
    latent_write {
        reads kv, positions, slot_mapping, table, norm; changes q_rope, cache;
    } {
        integer rows, heads, rank, rotary_dim, table_positions, interleaved, block_tokens, blocks;
        float epsilon;
    }
    // Attention of queries in latent space: a key is a row of the cache, and its first `rank` elements
    // are its value. The other arguments are those of `paged_attention`.
    latent_attention {
        reads q_latent, q_rope, cache, block_tables, query_start_loc, seq_lens; writes out;
    } {
        integer rows, sequences, heads, rank, rotary_dim, block_tokens, blocks, table_columns,
        max_query_len, num_splits; float scale;
    }
    // Causal depthwise convolution over the rows of each sequence, then SiLU: out[t] = silu(bias + sum
    // over k of weight[k] * x[t - kernel + 1 + k]). x is the `channels` columns from `first` on of rows
    // of `columns`; what precedes a sequence's rows is in its slot of the state, [slots, kernel - 1,
    // channels], and zero before its first token; the state is updated. Slot, rows and length of a
    // sequence are as for `paged_attention`, whose block tables have one column here.
    causal_convolution {
        reads x, weight; may_read bias; reads slots, query_start_loc, seq_lens; changes state;
        writes out;
    } {
        integer rows, sequences, columns, first, channels, kernel, states;
    }
    // The recurrence of Mamba-2 (Dao and Gu 2024) over the rows of each sequence, for every head:
    // state = exp(-exp(a_log) dt) state + dt x B^T, y = state C + d x, with dt = clamp(softplus(raw +
    // dt_bias), dt_min, dt_max); out = y silu(z). A row of `projected` is z (heads x head_dim), what was
    // convolved, and the raw dt of every head; a row of `convolved` is x, then B and C of every group.
    // The state is [slots, heads, head_dim, state_size]. `batch_invariant` makes a row's result
    // independent of which rows of its sequence come with it.
    selective_scan {
        reads projected, convolved, a_log, d, dt_bias, slots, query_start_loc, seq_lens; changes
        state; writes out;
    } {
        integer rows, sequences, heads, head_dim, groups, state_size, states, batch_invariant; float
        dt_min, dt_max;
    }
    // Cross-correlation of x, [batch, channels, height, width], with weight, [filters, channels / groups,
    // kernel_height, kernel_width]; out = activation(sum + bias of the filter) + residual. `pad_height` and
    // `pad_width` are the zeros before the first row and column; those after follow from the output's extents. The
    // sum of so many `terms` of 8 bits, 1 to 3, is enough of each number, where that is faster.
    convolution {
        reads x, weight; may_read bias, residual; writes out;
    } {
        integer batch, channels, height, width, filters, kernel_height, kernel_width, stride_height,
        stride_width, pad_height, pad_width, dilation_height, dilation_width, groups, out_height,
        out_width, activation, terms;
    }
    // Sample t of x, [batch, channels, width], adds weight[k] x[t] to out[t stride + k dilation - padding]; weight
    // is [channels, filters / groups, kernel], and `padding` is cut off before the first output.
    transposed_convolution {
        reads x, weight; may_read bias; writes out;
    } {
        integer batch, channels, width, filters, kernel, stride, padding, dilation, groups,
        out_width, terms;
    }
    // The recurrence of an LSTM over gates, [directions, steps, batch, 4 hidden], the products of the inputs, in
    // the order input, forget, cell, output. With `reverse_weights` a second direction runs from the last step to
    // the first; `reverse` makes a single one do so. h and c are [directions, batch, hidden], out is [steps, batch,
    // directions, hidden].
    lstm {
        reads gates, weights; may_read bias, reverse_weights, reverse_bias; changes h, c; writes
        out;
    } {
        integer steps, batch, hidden, reverse;
    }
    // (x - mean) / sqrt(variance + epsilon) (weight + offset) + bias over the channels of each group of x, [batch,
    // channels, columns]; then leaky ReLU of `slope`, and snake of `alpha`, as in `activate_channels`. Weight and
    // bias are per channel, or per sample and channel where `per_sample`.
    group_norm {
        reads x; may_read weight, bias, alpha; writes out;
    } {
        integer batch, channels, columns, groups, per_sample; float offset, epsilon, slope;
    }
    // Negative elements times `slope`; then, with an alpha for each channel, x + sin^2(alpha x) / alpha (snake).
    activate_channels {
        reads x; may_read alpha; writes out;
    } {
        integer batch, channels, columns; float slope;
    }
    // The discrete Fourier transform of rows of `length` elements, times `scale`. `kind`: 0 complex to complex, 1 the
    // same with positive exponents, 2 real to the first length / 2 + 1 complex numbers, 3 those to real. Complex
    // numbers are pairs of f32.
    fourier { reads x; writes out; } { integer rows, length, kind; float scale; }
    // The frequencies of windowed frames of x, [batch, samples], a hop apart, the first beginning `padding` samples
    // before the signal, which is `reflect`ed beyond its ends, or zero. out is [batch, length / 2 + 1, frames]; `value`:
    // 0 complex numbers, 1 magnitudes, 2 powers.
    stft {
        reads x, window; writes out;
    } {
        integer batch, samples, length, hop, frames, padding, reflect, value;
    }
    // Frames x, [batch, frames, length], times the window, added a hop apart and divided by the sum of squared
    // windows where it is above `floor`; out is [batch, samples] from sample `first` on.
    overlap_add {
        reads x, window; writes out;
    } {
        integer batch, frames, length, hop, first, samples; float floor;
    }
    // Samples `first`, first + down ... of x with up - 1 zeros inserted, convolved with the taps.
    resample {
        reads x, taps; writes out;
    } {
        integer batch, samples, taps_count, up, down, first, outputs;
    }
    // a[0] y[t] = sum of b[k] x[t - k] - sum over k > 0 of a[k] y[t - k]; the state is that of the transposed direct
    // form II.
    recursive_filter {
        reads x, b, a; changes state; writes out;
    } {
        integer batch, samples, order;
    }
    // Row rows[i] of x; a row of -1 gives zeros.
    gather_rows { reads x, rows; writes out; } { integer count, source_rows, columns; }
    // Parameters are per row: temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 disable a
    // filter. The log-probability is that of the sampled token at temperature 1 before filtering.
    sample {
        reads logits, temperature, top_k, top_p, min_p, seeds, steps; writes tokens; may_write
        logprobs;
    } {
        integer rows, columns;
    }
    // For tokens of prompt or output, positive logits are divided by the repetition penalty and
    // others multiplied by it; tokens of the output lose `presence`, and `frequency` per
    // occurrence.
    penalize {
        changes logits; reads counts; may_read prompt_mask; reads repetition, presence, frequency;
    } {
        integer rows, columns;
    }
    // Minus infinity where bit t % 32 of word t / 32 of a row's words is not set, for token t.
    mask_logits { changes logits; reads allowed; } { integer rows, columns; }
    // f32 to and from the format of the other operand; blocks run along the last axis.
    quantize { reads x; writes out; } { integer count; }
    dequantize { reads x; writes out; } { integer count; }
    // Strided batched GEMM, m x k by k x n, strides in elements; the result is contiguous.
    matmul {
        reads a, b; writes out;
    } {
        integer batch, m, k, n, a_batch_stride, a_row_stride, a_column_stride, b_batch_stride,
        b_row_stride, b_column_stride;
    }
    // x = factor x; a softcap above 0 then bounds it by softcap * tanh(x / softcap).
    scale { changes x; } { integer count; float factor, softcap; }
    // out = residual + factor * x; with a weight, the rows of x pass through RMSNorm first.
    add_residual {
        reads x; may_read weight; reads residual; writes out;
    } {
        integer rows, columns; float epsilon, factor;
    }
    // RMSNorm of `width` columns of each row from column `first` on, in place.
    norm_columns {
        changes x; reads weight;
    } {
        integer rows, columns, first, width; float epsilon;
    }
    // The `top_k` experts of each row, best first, by softmax or `sigmoid` of its logits, and their
    // weights: the scores, divided by their sum where `normalize`, times `factor`. The bias is added for
    // the choice only. Of `groups` of experts only the best `top_groups` are considered, ranked by their
    // best expert or by the sum of the best two. A row whose slot is negative is padding: its experts are
    // -1, which is none, and their weights 0.
    route {
        reads logits; may_read bias, slots; writes experts, weights;
    } {
        integer rows, experts_count, top_k, sigmoid, normalize, groups, top_groups, top_two_groups;
        float factor;
    }
    // RMSNorm, router and `route` of each row: normed is the norm of x, and the logits that are routed are
    // normed @ weights.T + router_bias; `choice_bias` and `slots` are those of `route`. Up to `fused_rows` rows may
    // be one kernel.
    router {
        reads x, gain, weights; may_read router_bias, choice_bias, slots; writes normed, logits,
        experts, expert_weights;
    } {
        integer rows, inputs, experts_count; float epsilon; integer batch_invariant, fused_rows,
        top_k, sigmoid, normalize, groups, top_groups, top_two_groups; float factor;
    }
    // Grouped GEMM: out[i] = activation(x[i / fan_out] @ weights[experts[i]].T + bias[experts[i]]); the
    // weights of all experts are one matrix, one expert below the other. Of expert -1, which is none,
    // nothing is read or written. Up to `gemv_assignments` assignments may each read its own weights, and
    // up to `small_m_rows` rows of an expert, on average, may take a kernel of small tiles; from
    // `large_tile_rows` on they may take one of large tiles. A limit of 0 turns its kernels off.
    grouped_linear {
        reads x, weights; may_read bias; reads experts; writes out;
    } {
        integer assignments, fan_out, inputs, outputs, experts_count, activation, batch_invariant,
        gemv_assignments, small_m_rows, large_tile_rows;
    }
    // low[i] = a[adapters[i]] @ x[i], the first product of a LoRA adapter: the rows of x pass through
    // RMSNorm where there is a gain, and low is 0 for adapter 0, none. The factors of all adapters are one
    // matrix, one below the other. `adapters_ready` states that `adapters` was there before the preceding
    // operation began.
    lora_shrink {
        reads x; may_read gain; reads a, adapters; writes low;
    } {
        integer rows, inputs, rank, adapters_count, adapters_ready; float epsilon;
    }
    // out[i] = activation(product[i] + b[adapters[i]] @ low[i]), the second; nothing is added for adapter 0.
    lora_expand {
        reads product, low, b, adapters; writes out;
    } {
        integer rows, outputs, rank, adapters_count, activation, adapters_ready;
    }
    // out = activation(x @ weights.T + bias + b[adapters] @ low) + residual: `linear` with the second product of each
    // row's adapter; `adapters` was there before the preceding operation began. A residual has no activation beside it.
    lora_linear {
        reads x, weights; may_read gain, bias, residual; reads low, b, adapters; writes out;
    } {
        integer rows, inputs, outputs, activation, batch_invariant, rank, adapters_count;
        float epsilon;
    }
    // out = residual + sum over a row's experts of weight * output + sigmoid(gate) * shared; without
    // gates, the shared output counts fully. Outputs of weight 0 are not added, whatever they are.
    combine_experts {
        reads outputs, weights; may_read residual, shared, gates; writes out;
    } {
        integer rows, columns, top_k;
    }
    // `grouped_linear` of the `top_k` experts of each row, without activation, then `combine_experts`.
    // `expert_outputs` may be used in between. `experts_ready` states that the experts were there before the
    // preceding operation began.
    combine_linear {
        reads x, weights; may_read bias; reads experts, factors; may_read residual, shared, gates;
        writes expert_outputs, out;
    } {
        integer rows, top_k, inputs, outputs, experts_count, batch_invariant, gemv_assignments,
        small_m_rows, large_tile_rows, experts_ready;
    }
    // Points, [count, 4], grouped by cell of a grid of `rows` along y by `columns` along x (`z_size` is its height):
    // pillars in the order of their first points, at most `most_points` of each. Pillar p has points starts[p] to
    // starts[p + 1] of `grouped`, and cell cells[p], or -1 where there are fewer pillars.
    pillarize {
        reads points; writes grouped, starts, cells;
    } {
        integer count, rows, columns, most_pillars, most_points;
        float x_least, y_least, z_least, x_size, y_size, z_size;
    }
    // out, [channels, rows, columns]: at the cell of each pillar the maximum over its points of relu(weight x inputs +
    // bias), else zero. The inputs of a point are itself, its offset from the mean of its pillar, and from the pillar's
    // center; a pillar of fewer than `most_points` points has zero inputs besides.
    pillar_features {
        reads grouped, starts, cells, weight, bias; writes out;
    } {
        integer count, rows, columns, most_pillars, most_points, channels;
        float x_least, y_least, z_least, x_size, y_size, z_size;
    }
    // Of boxes, [count, 5] (center, length, width, heading), best first, the indices of those whose intersection over
    // union with every box kept before is at most `threshold`; then -1.
    rotated_nms { reads boxes; writes kept; } { integer count, most; float threshold; }
    // out[b, c, p] = mask[b, p] (weights LayerNorm(x[b, p]))[c] sigmoid((gates LayerNorm(x[b, p]))[c]); x is [batch,
    // rows, columns, inputs], out [batch, outputs, rows, columns], or with rows and columns swapped where `transposed`.
    channel_projection {
        reads x, norm_weight, norm_bias, weights; may_read gates, mask; writes out;
    } {
        integer batch, rows, columns, inputs, outputs, transposed; float epsilon;
    }
    // The end of triangle multiplication (Jumper et al. 2021, algorithm 11): out = weights (LayerNorm(sums)
    // sigmoid(gates LayerNorm(pairs))), plus the pairs where `residual`. Sums are [batch, hidden, places], pairs and
    // out [batch, places, channels].
    triangle_update {
        reads sums, pairs, sum_weight, sum_bias, pair_weight, pair_bias, gates, weights; writes out;
    } {
        integer batch, places, hidden, channels, residual; float epsilon;
    }
    // out = x + second activation(first LayerNorm(x)).
    transition {
        reads x, norm_weight, norm_bias, first, second; writes out;
    } {
        integer rows, width, hidden, activation; float epsilon;
    }
    // out = softmax(scale q k + bias) v sigmoid(gate) among the places of a row, or of a column where `along_columns`;
    // a place of `projected`, [rows, columns, 4, heads, head_dim], has queries, keys, values and gates. The bias is
    // [heads, length, length].
    gated_attention {
        reads projected; may_read bias; writes out;
    } {
        integer rows, columns, heads, head_dim, along_columns; float scale;
    }
    // out[i, j] = pairs[i, j] + weights vec(mean over s of left[s, i] right[s, j]^T); factors are [sequences, residues,
    // inner], weights (channels, inner^2), pairs and out [residues, residues, channels].
    outer_product_mean {
        reads left, right, weights, pairs; writes out;
    } {
        integer sequences, residues, inner, channels;
    }
    // The sum of all elements: measures the peak read bandwidth.
    stream_read { reads x; writes out; } { integer count; }
    // A copy of all elements: measures the peak copy bandwidth.
    stream_copy { reads x; writes out; } { integer count; }
    // `steps` fused multiply-adds per element in registers: measures the peak FLOP/s.
    fma_peak { reads x; writes out; } { integer count, steps; float factor, addend; }
    // Weights in the layout of the device's GEMM kernels, from dense rows, which are rounded, or
    // from quantized blocks in a file's layout.
    pack { reads x; writes weights; } { integer outputs, inputs; }
    // Packed weights back to dense rows.
    unpack { reads weights; writes out; } { integer outputs, inputs; }
    // Array operations from here on; CPUs run NumPy's loops instead. `expression` is an id from
    // `expressions`. An absent input is a scalar, passed by its bits: those of a double where
    // `compute_type` is floating, else of an integer.
    elementwise {
        may_read first, second, third; writes result;
    } {
        integer expression, compute_type, first_scalar, second_scalar, third_scalar; layout layout;
    }
    // The same for contiguous arrays of the result's shape.
    map {
        may_read first, second, third; writes result;
    } {
        integer expression, compute_type, first_scalar, second_scalar, third_scalar, count;
    }
    // Transform-reduce over the middle axis of x, which is [outer, length, inner]. `transform` is
    // an expression of the element a0 and, where `centered`, of the mean a1 of the reduced elements
    // (for sums only). `combine` is the reduction operator. `epilogue` is an expression of the
    // reduced value a0 and of `epilogue_scalar` a1.
    reduce {
        reads x; writes out;
    } {
        integer transform, combine, epilogue; float epilogue_scalar; integer centered, compute_type,
        outer, length, inner;
    }
    // argmax or argmin along the middle axis: the first index in case of ties; NaN wins.
    argreduce { reads x; writes out; } { integer largest, outer, length, inner; }
    // Inclusive scan along rows.
    scan { reads x; writes out; } { integer combine, compute_type, rows, length; }
    // Stable sort of rows: the sorted values, the argsort indices, or both. NaN sorts last.
    sort { reads x; may_write values, indices; } { integer rows, length, descending; }
    // out[o][j][i] = x[o][indices[j]][i]. With `along_axis` there is one index for every o and i,
    // as in take_along_axis. A negative index counts from the end; one out of bounds gives zeros.
    gather { reads x, indices; writes out; } { integer outer, axis, count, inner, along_axis; }
    // out[o][indices[j]][i] = x[o][j][i]; the last of duplicate indices wins. `distinct` promises
    // that there are none. Negative indices are as above; one out of bounds is skipped.
    scatter { reads x, indices; changes out; } { integer outer, axis, count, inner, distinct; }
    // Inclusive prefix sums of the number of flags set in each block of 4096; for `compact`.
    flag_counts { reads flags; writes prefix_counts; } { integer count; }
    // Stream compaction: the indices of the flags that are set, `selected` in all; `prefix_counts`
    // comes from `flag_counts`.
    compact { reads flags, prefix_counts; writes indices; } { integer count, selected; }
    // As numpy.searchsorted: the insertion index of each x, on the right of equal elements with
    // `right`. `sorter` holds argsort indices where the elements are not sorted themselves.
    searchsorted {
        reads sorted; may_read sorter; reads x; writes out;
    } {
        integer length, count, right;
    }
};

/// The operation of this name, with its index in the table.
pub fn find(name: &str) -> Option<(usize, &'static Signature)> {
    TABLE.iter().enumerate().find(|(_, signature)| signature.name == name)
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

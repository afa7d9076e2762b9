//! The table of operations: for each its name, its operands and its numbers, in order.

use super::signature::{
    Signature, changes, float, integer, layout, may_change, may_read, may_write, reads, writes,
};

/// The operations; a backend's kernels are in this order.
pub static TABLE: [Signature; 34] = [
    // out = activation(x times the transposed weights + bias) + residual; activations are counted
    // none, silu, gelu, gelu_tanh, relu, swiglu, whose outputs are half as many: silu of the first
    // half of the products times the second. With a gain, the rows of x are first divided by their
    // root mean square and multiplied by it. `invariant` keeps a row's result the same whatever
    // rows are beside it.
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
            integer("invariant"),
            float("epsilon"),
        ],
    },
    // Row ids[i] of the table; an id of -1 gives zeros. With `chosen`, an id of -2 - n stands for
    // the id chosen[n], which a step on the device may just have made.
    Signature {
        name: "embedding",
        operands: &[
            reads("ids"),
            may_read("chosen"),
            reads("table"),
            writes("out"),
        ],
        numbers: &[integer("count"), integer("rows"), integer("columns")],
    },
    // With a residual, x is added to it first and the sum is what is normalized.
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
    // silu(gate) times up; a row holds all gates and then all ups.
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
    // The table is positions by turned numbers: cosines of all pairs, then sines. `neighbors`
    // pairs each number with the next one instead of with its partner in the second half.
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
            integer("turned"),
            integer("table_positions"),
            integer("neighbors"),
        ],
    },
    // Queries, keys and values of new tokens, out of rows that hold all three: norms per head,
    // turns, queries to their own place and the others to their slots of the cache. A slot of -1
    // leaves a row out. `settled` says that positions and slots are there before the work queued
    // just before begins, so that they may be read while it ends.
    Signature {
        name: "rope_write",
        operands: &[
            reads("qkv"),
            reads("positions"),
            reads("slots"),
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
            integer("turned"),
            integer("table_positions"),
            integer("neighbors"),
            integer("block_tokens"),
            integer("blocks"),
            integer("settled"),
            float("epsilon"),
        ],
    },
    // Sequence s has rows query_starts[s] to query_starts[s + 1] of the queries, which are the last
    // of its lengths[s] tokens; token t is in block block_tables[s][t / block_tokens]. Rows that
    // belong to no sequence, or to one of length 0, become zeros. No sequence has more than
    // `most_queries` rows, which is for choosing a kernel before they can be read. Contexts of
    // sequences with one row are read in `split` parts side by side; 0 leaves it to the device.
    // `settled` is as above, of tables, starts and lengths.
    Signature {
        name: "paged_attention",
        operands: &[
            reads("q"),
            reads("keys"),
            reads("values"),
            reads("block_tables"),
            reads("query_starts"),
            reads("lengths"),
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
            integer("most_queries"),
            integer("split"),
            integer("settled"),
            float("scale"),
        ],
    },
    // `rope_write` and then `paged_attention` of one new token of each sequence, which is the last of
    // its tokens: that says its position and its place in the cache. All numbers of a head turn.
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
            reads("query_starts"),
            reads("lengths"),
            writes("out"),
        ],
        numbers: &[
            integer("rows"),
            integer("sequences"),
            integer("heads"),
            integer("kv_heads"),
            integer("head_dim"),
            integer("table_positions"),
            integer("neighbors"),
            integer("block_tokens"),
            integer("blocks"),
            integer("table_columns"),
            integer("split"),
            integer("settled"),
            float("epsilon"),
            float("scale"),
        ],
    },
    // Query t of the last `queries` of `tokens` tokens sees all before it, and all tokens where it
    // is not causal.
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
    // Row rows[i] of x; a row of -1 gives zeros.
    Signature {
        name: "gather_rows",
        operands: &[reads("x"), reads("rows"), writes("out")],
        numbers: &[integer("count"), integer("source_rows"), integer("columns")],
    },
    // Everything per row: temperature 0 takes the best token, top_k 0 and top_p 1 and min_p 0 keep
    // all. The log-probability is of the token taken, at temperature 1 among all tokens.
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
    // Tokens seen in prompt or output: logits above 0 are divided by the repetition penalty, others
    // multiplied; tokens of the output lose `presence`, and `frequency` for each time.
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
    // f32 to and from the format of the other operand; blocks go along the last axis.
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
    // `batch` products of m by k and k by n, at strides in elements; the result has no gaps.
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
    // The sum of all numbers, read as fast as memory goes: the ceiling of whatever streams.
    Signature {
        name: "read",
        operands: &[reads("x"), writes("out")],
        numbers: &[integer("count")],
    },
    // The same numbers in other memory, as fast as it goes.
    Signature {
        name: "copy",
        operands: &[reads("x"), writes("out")],
        numbers: &[integer("count")],
    },
    // Every number times `factor` plus `addend`, `steps` times over in registers: the ceiling of
    // whatever computes.
    Signature {
        name: "multiply_add",
        operands: &[reads("x"), writes("out")],
        numbers: &[
            integer("count"),
            integer("steps"),
            float("factor"),
            float("addend"),
        ],
    },
    // Weights as the device's products read them, from rows of numbers, which are rounded, or of
    // blocks as files have them.
    Signature {
        name: "pack",
        operands: &[reads("x"), writes("weights")],
        numbers: &[integer("outputs"), integer("inputs")],
    },
    // The numbers of packed weights, row by row.
    Signature {
        name: "unpack",
        operands: &[reads("weights"), writes("out")],
        numbers: &[integer("outputs"), integer("inputs")],
    },
    // Of arrays, which are NumPy's loops on processors. An expression is a number of
    // `expressions`; inputs that are left out are plain numbers, told by their bits: those of a
    // double where the format that is computed in is floating, else of a whole number.
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
            integer("computed"),
            integer("first_number"),
            integer("second_number"),
            integer("third_number"),
            layout("layout"),
        ],
    },
    // The same of arrays that lie in one piece, all in the order of the result.
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
            integer("computed"),
            integer("first_number"),
            integer("second_number"),
            integer("third_number"),
            integer("count"),
        ],
    },
    // x is outer by length by inner; each element goes through an expression of a0 in its own
    // format, and of a1, the mean of all that are joined, where it is `centerd`, which is for sums.
    // Then they are joined, and what comes out goes through a last expression of a0 and the plain
    // number a1.
    Signature {
        name: "reduce",
        operands: &[reads("x"), writes("out")],
        numbers: &[
            integer("first"),
            integer("join"),
            integer("last"),
            float("last_number"),
            integer("centerd"),
            integer("computed"),
            integer("outer"),
            integer("length"),
            integer("inner"),
        ],
    },
    // The place, along an axis, of the first element that is largest, or smallest; NaN is both.
    Signature {
        name: "extreme_place",
        operands: &[reads("x"), writes("out")],
        numbers: &[
            integer("largest"),
            integer("outer"),
            integer("length"),
            integer("inner"),
        ],
    },
    // Running joins along rows.
    Signature {
        name: "scan",
        operands: &[reads("x"), writes("out")],
        numbers: &[
            integer("join"),
            integer("computed"),
            integer("rows"),
            integer("length"),
        ],
    },
    // Rows in order, stably: their elements, or the places they came from, or both. NaN goes last.
    Signature {
        name: "sort",
        operands: &[reads("x"), may_write("values"), may_write("places")],
        numbers: &[integer("rows"), integer("length"), integer("descending")],
    },
    // out[o][j][i] = x[o][indices[j]][i]. With `each` there are indices for every o and i. A negative
    // index counts from the end; one that is out of bounds gives zeros.
    Signature {
        name: "take",
        operands: &[reads("x"), reads("indices"), writes("out")],
        numbers: &[
            integer("outer"),
            integer("axis"),
            integer("count"),
            integer("inner"),
            integer("each"),
        ],
    },
    // out[o][indices[j]][i] = x[o][j][i]: the last, where several go to one place. `distinct` says
    // that none do. An index is as above; one that is out of bounds goes nowhere.
    Signature {
        name: "put",
        operands: &[reads("x"), reads("indices"), changes("out")],
        numbers: &[
            integer("outer"),
            integer("axis"),
            integer("count"),
            integer("inner"),
            integer("distinct"),
        ],
    },
    // How many of the flags are set up to the end of each 4096.
    Signature {
        name: "tally",
        operands: &[reads("flags"), writes("ends")],
        numbers: &[integer("count")],
    },
    // The places of the `chosen` flags that are set; `ends` is their tally.
    Signature {
        name: "compact",
        operands: &[reads("flags"), reads("ends"), writes("places")],
        numbers: &[integer("count"), integer("chosen")],
    },
    // How many of the sorted elements come before each of x; with `right`, equal ones do. `order` has
    // the places of the sorted elements where they are not in order themselves.
    Signature {
        name: "search",
        operands: &[
            reads("sorted"),
            may_read("order"),
            reads("x"),
            writes("out"),
        ],
        numbers: &[integer("length"), integer("count"), integer("right")],
    },
];

/// The operation of this name, with its place in the table.
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

//! Both attentions and the cache against plain loops in double precision, on every level.

mod common;

use assay_cpu::ops::*;
use common::{Numbers, assert_close, everywhere};
use proptest::prelude::*;

/// One query over rows of keys and values.
fn attend(query: &[f32], keys: &[&[f32]], values: &[&[f32]], scale: f32) -> Vec<f64> {
    attend_with(query, keys, values, scale, ScoreOptions::default(), 0)
}

/// The same with a window, a softcap, a sink and ALiBi of one head.
fn attend_with(
    query: &[f32],
    keys: &[&[f32]],
    values: &[&[f32]],
    scale: f32,
    options: ScoreOptions,
    head: usize,
) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let cap = f64::from(options.softcap);
    let slope = options.alibi_slopes.map_or(0.0, |slopes| f64::from(slopes[head]));
    let score = |(token, key): (usize, &&[f32])| {
        let score = dot(query, key) * f64::from(scale);
        let score = if cap > 0.0 { cap * (score / cap).tanh() } else { score };
        let distance = keys.len() - 1 - token;
        match options.window > 0 && distance >= options.window {
            true => f64::NEG_INFINITY,
            false => score - slope * distance as f64,
        }
    };
    let scores: Vec<f64> = keys.iter().enumerate().map(score).collect();
    let sink = options.sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[head]));
    let max = scores.iter().copied().fold(sink, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum = weights.iter().sum::<f64>() + (sink - max).exp();
    let mut out = vec![0.0; query.len()];
    for (weight, value) in weights.iter().zip(values) {
        for (out, value) in out.iter_mut().zip(*value) {
            *out += weight / sum * f64::from(*value);
        }
    }
    out
}

fn head(rows: &[f32], row: usize, heads: usize, head: usize, size: usize) -> &[f32] {
    &rows[(row * heads + head) * size..][..size]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn prefill_attention_matches_reference_with_causal_mask(
        queries in 0_usize..40, before in 0_usize..100, kv_heads in 1_usize..3,
        group in 1_usize..4, head_size in 1_usize..40, seed: u64,
    ) {
        let mut numbers = Numbers(seed);
        let (heads, keys) = (kv_heads * group, before + queries);
        let query = numbers.vector(queries * heads * head_size);
        let key = numbers.vector(keys * kv_heads * head_size);
        let value = numbers.vector(keys * kv_heads * head_size);
        let shape = AttentionShape { heads, kv_heads, head_size, scale: 0.3 };
        let mut expected = Vec::new();
        for token in 0..queries {
            for number in 0..heads {
                let seen = 0..before + token + 1;
                let row = |rows| move |at| head(rows, at, kv_heads, number / group, head_size);
                let (k, v): (Vec<&[f32]>, Vec<&[f32]>) =
                    (seen.clone().map(row(&key)).collect(), seen.map(row(&value)).collect());
                let query = head(&query, token, heads, number, head_size);
                expected.extend(attend(query, &k, &v, 0.3));
            }
        }
        everywhere(|context| {
            let mut out = vec![f32::NAN; query.len()];
            prefill_attention(context, shape, true, &query, &key, &value, &mut out).unwrap();
            assert_close(context.level.name(), &out, &expected, 3e-6);
        });
    }

    #[test]
    fn attention_to_all_keys_matches_reference(
        queries in 30_usize..70, keys in 30_usize..140, kv_heads in 1_usize..3,
        group in 1_usize..3, parts in 1_usize..4, seed: u64,
    ) {
        let mut numbers = Numbers(seed);
        let (heads, head_size) = (kv_heads * group, 32 * parts);
        let query = numbers.vector(queries * heads * head_size);
        let key = numbers.vector(keys * kv_heads * head_size);
        let value = numbers.vector(keys * kv_heads * head_size);
        let shape = AttentionShape { heads, kv_heads, head_size, scale: 0.3 };
        let expected = |key: &[f32], value: &[f32]| {
            let mut expected = Vec::new();
            for token in 0..queries {
                for number in 0..heads {
                    let row = |rows| move |at| head(rows, at, kv_heads, number / group, head_size);
                    let (k, v): (Vec<&[f32]>, Vec<&[f32]>) =
                        ((0..keys).map(row(key)).collect(), (0..keys).map(row(value)).collect());
                    let query = head(&query, token, heads, number, head_size);
                    expected.extend(attend(query, &k, &v, 0.3));
                }
            }
            expected
        };
        let exact = expected(&key, &value);
        everywhere(|context| {
            let mut out = vec![f32::NAN; query.len()];
            prefill_attention(context, shape, false, &query, &key, &value, &mut out).unwrap();
            assert_close(context.level.name(), &out, &exact, 3e-6);
        });
        let rounded = |x: &[f32]| x.iter().map(|x| Bf16::from(*x)).collect::<Vec<Bf16>>();
        let (key, value) = (rounded(&key), rounded(&value));
        let floats = |x: &[Bf16]| x.iter().map(|x| f32::from(*x)).collect::<Vec<f32>>();
        let exact = expected(&floats(&key), &floats(&value));
        everywhere(|context| {
            let mut out = vec![f32::NAN; query.len()];
            prefill_attention(context, shape, false, &query, &key, &value, &mut out).unwrap();
            // Eight bits of queries and weights; scores of these are below ten.
            assert_close(context.level.name(), &out, &exact, 2e-2);
        });
    }

    #[test]
    fn paged_attention_matches_reference(
        // One new token, as in decoding, as often as any other number.
        sequences in prop::collection::vec(
            (0_usize..150, prop_oneof![Just(1_usize), 0_usize..40]), 0..4,
        ),
        kv_heads in 1_usize..3, group in 1_usize..4, head_size in 1_usize..40,
        block_size in prop::sample::select(vec![1_usize, 3, 16, 32]), seed: u64,
        num_splits in 0_usize..5, window in prop_oneof![Just(0_usize), 1_usize..200],
        softcap in prop_oneof![Just(0.0_f32), Just(2.0_f32)], has_sinks: bool, has_alibi: bool,
    ) {
        let mut numbers = Numbers(seed);
        let (count, columns) = (sequences.len(), 190_usize.div_ceil(block_size));
        let blocks = count * columns + 1;
        // Adjacent blocks of a sequence are not adjacent in memory.
        let tables: Vec<i32> = (0..count * columns)
            .map(|at| ((at % columns) * count + at / columns) as i32)
            .collect();
        let cache = CacheShape { blocks, block_size, kv_heads, head_size };
        let (heads, width) = (kv_heads * group, kv_heads * head_size);
        let shape = AttentionShape { heads, kv_heads, head_size, scale: 0.3 };
        let (sinks, slopes) = (numbers.vector(heads), numbers.vector(heads));
        let slopes: Vec<f32> = slopes.iter().map(|slope| slope.abs() * 0.1).collect();
        let options = ScoreOptions {
            window, softcap,
            sinks: has_sinks.then_some(&sinks),
            alibi_slopes: has_alibi.then_some(&slopes),
        };
        let rows: usize = sequences.iter().map(|(_, new)| new).sum();
        // One row more than there are queries: it belongs to no sequence.
        let query = numbers.vector((rows + 1) * heads * head_size);
        let mut keys = vec![Bf16::from(f32::NAN); blocks * block_size * width];
        let mut values = keys.clone();
        let (mut starts, mut seq_lens, mut expected) = (vec![0], Vec::new(), Vec::new());
        for (sequence, (before, new)) in sequences.iter().enumerate() {
            let length = before + new;
            let slots: Vec<i32> = (0..length)
                .map(|token| {
                    let block = tables[sequence * columns + token / block_size];
                    block * block_size as i32 + (token % block_size) as i32
                })
                .collect();
            // What the cache can hold exactly, so that only sums differ.
            let mut exact = |count| -> Vec<f32> {
                numbers.vector(count).iter().map(|x| Bf16::from(*x).into()).collect()
            };
            let (key, value) = (exact(length * width), exact(length * width));
            let mut qkv = Vec::new();
            for token in 0..length {
                qkv.extend(std::iter::repeat_n(0.0, heads * head_size));
                qkv.extend(&key[token * width..(token + 1) * width]);
                qkv.extend(&value[token * width..(token + 1) * width]);
            }
            let mut q_out = vec![0.0; length * heads * head_size];
            let positions = vec![0; length];
            rope_write(
                Context::best(), shape, cache, HeadTransform::default(), &qkv, &positions, &slots,
                &mut keys, &mut values, &mut q_out,
            ).unwrap();
            let first = *starts.last().unwrap() as usize;
            for token in 0..*new {
                for number in 0..heads {
                    let row = |rows| move |at| head(rows, at, kv_heads, number / group, head_size);
                    let seen = 0..before + token + 1;
                    let k: Vec<&[f32]> = seen.clone().map(row(&key)).collect();
                    let v: Vec<&[f32]> = seen.map(row(&value)).collect();
                    let query = head(&query, first + token, heads, number, head_size);
                    expected.extend(attend_with(query, &k, &v, 0.3, options, number));
                }
            }
            starts.push((first + new) as i32);
            seq_lens.push(if *new == 0 { 0 } else { length as i32 });
        }
        expected.extend(vec![0.0; heads * head_size]);
        let batch = PagedBatch {
            query_start_loc: &starts, seq_lens: &seq_lens, block_tables: &tables, columns,
            num_splits,
        };
        everywhere(|context| {
            let mut out = vec![f32::NAN; query.len()];
            paged_attention(context, shape, options, cache, &query, &keys, &values, batch, &mut out)
                .unwrap();
            assert_close(context.level.name(), &out, &expected, 3e-6);
        });
    }
}

#[test]
fn online_softmax_handles_extreme_and_masked_scores() {
    let shape = AttentionShape { heads: 1, kv_heads: 1, head_size: 1, scale: 1.0 };
    // The largest score comes last, and long after the first block.
    let key: Vec<f32> = (0..200).map(|at| if at == 199 { 500.0 } else { -500.0 }).collect();
    let value: Vec<f32> = (0..200).map(|at| at as f32).collect();
    everywhere(|context| {
        let mut out = [0.0];
        prefill_attention(context, shape, true, &[1.0], &key, &value, &mut out).unwrap();
        assert_eq!(out, [199.0]);
        let hidden = [f32::NEG_INFINITY, 1.0];
        prefill_attention(context, shape, true, &[1.0], &hidden, &[5.0, 7.0], &mut out).unwrap();
        assert_eq!(out, [7.0]);
        prefill_attention(context, shape, true, &[1.0], &[f32::NAN, 1.0], &[5.0, 7.0], &mut out)
            .unwrap();
        assert!(out[0].is_nan());
    });
}

#[test]
fn attention_errors_name_the_argument() {
    let context = Context::best();
    let shape = AttentionShape { heads: 3, kv_heads: 2, head_size: 4, scale: 1.0 };
    let error = prefill_attention::<f32>(context, shape, true, &[], &[], &[], &mut []).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid heads in prefill_attention: expected a multiple of the 2 heads of keys, got 3"
    );
    let shape = AttentionShape { heads: 1, kv_heads: 1, head_size: 1, scale: 1.0 };
    let cache_shape = CacheShape { blocks: 2, block_size: 2, kv_heads: 1, head_size: 1 };
    let (mut keys, mut values, mut q_out) = ([0.0_f32; 4], [0.0_f32; 4], [9.0; 2]);
    let mut write = |slots: &[i32], table: Option<&[f32]>| {
        let steps = HeadTransform {
            rotary: table.map(|table| Rotary { table, rotary_dim: 2, layout: RopeLayout::Halves }),
            ..HeadTransform::default()
        };
        let qkv = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        rope_write(
            context,
            shape,
            cache_shape,
            steps,
            &qkv,
            &[0, 0],
            slots,
            &mut keys,
            &mut values,
            &mut q_out,
        )
        .map_err(|error| error.to_string())
    };
    for (slots, table, message) in [
        (
            [0, 4],
            None,
            "index out of range in rope_write: expected slot_mapping from 0 to below 4, got 4",
        ),
        ([1, 1], None, "invalid slot_mapping in rope_write: expected each slot once, got 1 twice"),
        (
            [1, 0],
            Some([1.0, 0.0].as_slice()),
            "invalid rotary_dim in rope_write: expected an even number from 2 to 1, got 2",
        ),
    ] {
        assert_eq!(write(&slots, table), Err(message.to_owned()));
    }
    assert_eq!(write(&[-1, 3], None), Ok(()));
    assert_eq!(keys, [0.0, 0.0, 0.0, 5.0]);
    assert_eq!(values, [0.0, 0.0, 0.0, 6.0]);
    assert_eq!(q_out, [0.0, 4.0]);

    let attend = |blocks: &[i32], seq_lens: &[i32]| {
        let batch = PagedBatch {
            query_start_loc: &[0, 1],
            seq_lens,
            block_tables: blocks,
            columns: blocks.len(),
            num_splits: 0,
        };
        let (mut out, query) = ([0.0], [1.0]);
        paged_attention(
            context,
            shape,
            ScoreOptions::default(),
            cache_shape,
            &query,
            &keys,
            &keys,
            batch,
            &mut out,
        )
        .map_err(|error| error.to_string())
    };
    for (blocks, length, message) in [
        (
            [2],
            1,
            "index out of range in paged_attention: expected block_tables from 0 to below 2, got 2",
        ),
        (
            [0],
            3,
            "index out of range in paged_attention: expected seq_lens from 0 to below 3, got 3",
        ),
    ] {
        assert_eq!(attend(&blocks, &[length]), Err(message.to_owned()));
    }
    // Blocks past the length are not looked at.
    assert_eq!(attend(&[0, -7], &[2]), Ok(()));
}

//! Both attentions and the cache against plain loops in double precision, on every level.

mod common;

use assay_cpu::ops::*;
use common::{Numbers, assert_close, everywhere};
use proptest::prelude::*;

/// One query over rows of keys and values.
fn attend(query: &[f32], keys: &[&[f32]], values: &[&[f32]], scale: f32) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    let scores: Vec<f64> = keys
        .iter()
        .map(|key| dot(query, key) * f64::from(scale))
        .collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
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
    fn prefill_sees_the_past_only(
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
            prefill_attention(context, shape, &query, &key, &value, &mut out).unwrap();
            assert_close(context.level.name(), &out, &expected, 3e-6);
        });
    }

    #[test]
    fn paged_finds_its_blocks(
        lengths in prop::collection::vec(0_usize..200, 0..4), kv_heads in 1_usize..3,
        group in 1_usize..4, head_size in 1_usize..40, seed: u64,
    ) {
        let (mut numbers, block_size, columns) = (Numbers(seed), 16, 13);
        let sequences = lengths.len();
        let blocks = sequences * columns + 1;
        // Blocks are dealt out so that neighbours in a sequence are none in memory.
        let table: Vec<i64> = (0..sequences * columns)
            .map(|at| ((at % columns) * sequences + at / columns) as i64)
            .collect();
        let cache_shape = CacheShape { blocks, block_size, kv_heads, head_size };
        let width = kv_heads * head_size;
        let heads = kv_heads * group;
        let query = numbers.vector(sequences * heads * head_size);
        let mut keys = vec![Bf16::from(f32::NAN); blocks * block_size * width];
        let mut values = keys.clone();
        let mut expected = Vec::new();
        for (sequence, length) in lengths.iter().enumerate() {
            let slots: Vec<i64> = (0..*length)
                .map(|token| {
                    let block = table[sequence * columns + token / block_size];
                    block * block_size as i64 + (token % block_size) as i64
                })
                .collect();
            let mut rows = [numbers.vector(length * width), numbers.vector(length * width)];
            for (rows, cache) in rows.iter_mut().zip([&mut keys, &mut values]) {
                // What the cache can hold exactly, so that only sums differ.
                rows.iter_mut().for_each(|x| *x = Bf16::from(*x).into());
                write_cache(Context::best(), cache_shape, rows, &slots, cache).unwrap();
            }
            for number in 0..heads {
                let row = |rows| move |at| head(rows, at, kv_heads, number / group, head_size);
                let k: Vec<&[f32]> = (0..*length).map(row(&rows[0])).collect();
                let v: Vec<&[f32]> = (0..*length).map(row(&rows[1])).collect();
                let query = head(&query, sequence, heads, number, head_size);
                expected.extend(attend(query, &k, &v, 0.3));
            }
        }
        let lengths: Vec<i64> = lengths.iter().map(|length| *length as i64).collect();
        let tables = BlockTables { blocks: &table, lengths: &lengths };
        let shape = AttentionShape { heads, kv_heads, head_size, scale: 0.3 };
        everywhere(|context| {
            let mut out = vec![f32::NAN; query.len()];
            paged_attention(context, shape, cache_shape, &query, &keys, &values, tables, &mut out)
                .unwrap();
            assert_close(context.level.name(), &out, &expected, 3e-6);
        });
    }
}

#[test]
fn scores_far_apart_and_masked_keys_do_not_break_the_sum() {
    let shape = AttentionShape {
        heads: 1,
        kv_heads: 1,
        head_size: 1,
        scale: 1.0,
    };
    // The largest score comes last, and long after the first block.
    let key: Vec<f32> = (0..200)
        .map(|at| if at == 199 { 500.0 } else { -500.0 })
        .collect();
    let value: Vec<f32> = (0..200).map(|at| at as f32).collect();
    everywhere(|context| {
        let mut out = [0.0];
        prefill_attention(context, shape, &[1.0], &key, &value, &mut out).unwrap();
        assert_eq!(out, [199.0]);
        let hidden = [f32::NEG_INFINITY, 1.0];
        prefill_attention(context, shape, &[1.0], &hidden, &[5.0, 7.0], &mut out).unwrap();
        assert_eq!(out, [7.0]);
        prefill_attention(
            context,
            shape,
            &[1.0],
            &[f32::NAN, 1.0],
            &[5.0, 7.0],
            &mut out,
        )
        .unwrap();
        assert!(out[0].is_nan());
    });
}

#[test]
fn what_does_not_fit_is_named() {
    let context = Context::best();
    let shape = AttentionShape {
        heads: 3,
        kv_heads: 2,
        head_size: 4,
        scale: 1.0,
    };
    let error = prefill_attention::<f32>(context, shape, &[], &[], &[], &mut []).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid heads in prefill_attention: expected a multiple of the 2 heads of keys, got 3"
    );
    let cache_shape = CacheShape {
        blocks: 2,
        block_size: 2,
        kv_heads: 1,
        head_size: 1,
    };
    let mut cache = [0.0_f32; 4];
    for (slots, message) in [
        (
            [0, 4],
            "index out of range in write_cache: expected slots from 0 to below 4, got 4",
        ),
        (
            [1, 1],
            "invalid slots in write_cache: expected each slot once, got 1 twice",
        ),
    ] {
        let error = write_cache(context, cache_shape, &[1.0, 2.0], &slots, &mut cache).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    write_cache(context, cache_shape, &[1.0, 2.0], &[-1, 3], &mut cache).unwrap();
    assert_eq!(cache, [0.0, 0.0, 0.0, 2.0]);

    let shape = AttentionShape {
        heads: 1,
        kv_heads: 1,
        head_size: 1,
        scale: 1.0,
    };
    let attend = |blocks: &[i64], lengths: &[i64]| {
        let tables = BlockTables { blocks, lengths };
        let (mut out, query) = ([0.0], [1.0]);
        paged_attention(
            context,
            shape,
            cache_shape,
            &query,
            &cache,
            &cache,
            tables,
            &mut out,
        )
        .map_err(|error| error.to_string())
    };
    assert_eq!(
        attend(&[2], &[1]),
        Err(
            "index out of range in paged_attention: expected blocks from 0 to below 2, got 2"
                .to_owned()
        )
    );
    assert_eq!(
        attend(&[0], &[3]),
        Err(
            "index out of range in paged_attention: expected lengths from 0 to below 3, got 3"
                .to_owned()
        )
    );
    // Blocks past the length are not looked at.
    assert_eq!(attend(&[0, -7], &[2]), Ok(()));
}

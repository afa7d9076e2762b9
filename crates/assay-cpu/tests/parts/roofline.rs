//! What measures the roofline computes what it says.

use crate::common::everywhere;
use assay_cpu::roofline::*;

#[test]
fn stream_read_sums_integers_exactly() {
    everywhere(|context| {
        for length in [0, 1, 15, 64, 65_537, 1 << 20] {
            let numbers: Vec<f32> = (0..length).map(|at| (at * 7 % 16) as f32).collect();
            let exact: f64 = numbers.iter().copied().map(f64::from).sum();
            assert_eq!(stream_read(context, &numbers), exact, "{length} numbers");
        }
    });
}

#[test]
fn fma_peak_applies_the_chain_to_every_element() {
    everywhere(|context| {
        for length in [0, 1, 191, 192, 193, 4_000] {
            let from: Vec<f32> = (0..length).map(|at| at as f32).collect();
            let mut to = vec![f32::NAN; length];
            let chain = FmaChain { length: 5, factor: -1.0, addend: 1.0 };
            fma_peak(context, &from, chain, &mut to).unwrap();
            let expected: Vec<f32> = from.iter().map(|value| 1.0 - value).collect();
            assert_eq!(to, expected);
        }
    });
}

#[test]
fn stream_copy_copies_and_checks_lengths() {
    everywhere(|context| {
        let from: Vec<f32> = (0..100_001).map(|at| at as f32).collect();
        let mut to = vec![0.0; from.len()];
        stream_copy(context, &from, &mut to).unwrap();
        assert_eq!(from, to);
        assert!(stream_copy(context, &from, &mut to[1..]).is_err());
    });
}

//! What several tests share: numbers, contexts, and comparison.
#![allow(dead_code)]

use assay_cpu::ops::Context;
use assay_cpu::simd::Level;
use assay_cpu::threads::ThreadPool;

/// Reproducible numbers, roughly normal, from a 64-bit linear congruence.
pub struct Numbers(pub u64);

impl Numbers {
    fn unit(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }

    pub fn normal(&mut self) -> f32 {
        (0..6).map(|_| self.unit()).sum::<f32>() * 1.414 - 4.242
    }

    pub fn vector(&mut self, length: usize) -> Vec<f32> {
        (0..length).map(|_| self.normal()).collect()
    }
}

/// Runs a check at every SIMD level of this CPU, on one thread and on three.
pub fn everywhere(check: impl Fn(Context)) {
    for count in [1, 3] {
        let threads = ThreadPool::new(count);
        for level in Level::available() {
            check(Context { threads: &threads, level });
        }
    }
}

/// Demands that two rows agree within `relative` of the largest of the second.
#[track_caller]
pub fn assert_close(what: &str, got: &[f32], expected: &[f64], relative: f64) {
    assert_eq!(got.len(), expected.len(), "{what}: length");
    let scale = expected.iter().fold(1e-30_f64, |most, x| most.max(x.abs()));
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let off = (f64::from(*got) - expected).abs() / scale;
        assert!(off <= relative, "{what}: [{index}] expected {expected}, got {got}");
    }
}

/// Rows of `x` times rows of `weights`, in double precision.
pub fn linear_reference(x: &[f32], weights: &[f32], inputs: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for x in x.chunks(inputs.max(1)) {
        for weights in weights.chunks(inputs.max(1)) {
            let products = x.iter().zip(weights);
            out.push(products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum());
        }
    }
    out
}

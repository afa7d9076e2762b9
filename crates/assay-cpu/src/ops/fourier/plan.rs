//! How a length is factored, and the roots of unity of each stage.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The largest factor that a stage takes; lengths with a larger prime factor go through a convolution.
pub(super) const MOST_RADIX: usize = 31;

/// Plans that are kept; beyond, all are dropped and made again.
const MOST_PLANS: usize = 64;

/// exp(-2 pi i numerator / denominator).
pub(super) fn root(numerator: u64, denominator: u64) -> [f32; 2] {
    let angle = -2.0 * std::f64::consts::PI * (numerator % denominator) as f64 / denominator as f64;
    let (sine, cosine) = angle.sin_cos();
    [cosine as f32, sine as f32]
}

/// One stage of a Stockham transform: `blocks` butterflies at each of `stride` places.
pub(super) struct Stage {
    pub radix: usize,
    pub blocks: usize,
    pub stride: usize,
    /// For each block the factors of its outputs but the first, which is 1.
    pub twiddles: Vec<[f32; 2]>,
    /// The roots of unity of the radix.
    pub roots: Vec<[f32; 2]>,
}

/// The stages of a length.
pub(super) struct Plan {
    pub length: usize,
    pub stages: Vec<Stage>,
}

/// The factors of a length, 4 and 5 first; none where one is too large.
pub(super) fn factors(length: usize) -> Option<Vec<usize>> {
    let (mut rest, mut factors) = (length, Vec::new());
    for radix in [4, 5, 3, 2].into_iter().chain((7..=MOST_RADIX).step_by(2)) {
        while rest > 1 && rest.is_multiple_of(radix) {
            factors.push(radix);
            rest /= radix;
        }
    }
    (rest == 1).then_some(factors)
}

impl Plan {
    /// The plan of a length, made once; none where a prime factor is too large.
    pub fn of(length: usize) -> Option<Arc<Plan>> {
        static PLANS: OnceLock<Mutex<HashMap<usize, Arc<Plan>>>> = OnceLock::new();
        let plans = PLANS.get_or_init(Mutex::default);
        if let Some(plan) = plans.lock().unwrap_or_else(PoisonError::into_inner).get(&length) {
            return Some(Arc::clone(plan));
        }
        let plan = Arc::new(Plan::new(length)?);
        let mut plans = plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        plans.insert(length, Arc::clone(&plan));
        Some(plan)
    }

    fn new(length: usize) -> Option<Plan> {
        let (mut rest, mut stride, mut stages) = (length, 1, Vec::new());
        for radix in factors(length)? {
            let blocks = rest / radix;
            let twiddles = (0..blocks).flat_map(|block| {
                (1..radix).map(move |output| root((block * output) as u64, rest as u64))
            });
            let twiddles = twiddles.collect();
            let roots = (0..radix).map(|index| root(index as u64, radix as u64)).collect();
            stages.push(Stage { radix, blocks, stride, twiddles, roots });
            rest = blocks;
            stride *= radix;
        }
        Some(Plan { length, stages })
    }
}

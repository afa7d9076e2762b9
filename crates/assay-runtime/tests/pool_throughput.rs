//! Throughput of the pool on one core, over the simulated device.

use assay_runtime::backend::{Backend, Space};
use assay_runtime::memory::throughput::{Workload, measure};
use assay_runtime::memory::{Pool, PoolOptions};
use assay_runtime::sim::{Contents, SimBackend, SimOptions};
use std::sync::Arc;

/// The minimum for every workload below.
const PAIRS_PER_SECOND: f64 = 5e6;

#[test]
#[ignore = "timing: wants a quiet core; run with `cargo test -p assay-runtime --test pool_throughput -- --ignored --nocapture`"]
fn five_million_pairs_per_second() {
    let workload =
        |smallest_bytes, largest_bytes, live| Workload { smallest_bytes, largest_bytes, live };
    let table = [
        ("one size, one alive", workload(1024, 1024, 1)),
        ("small, 1000 alive", workload(256, 32 << 10, 1000)),
        ("small, 10000 alive", workload(256, 8 << 10, 10_000)),
        ("mixed, 1000 alive", workload(256, 4 << 20, 1000)),
        ("large, 200 alive", workload(64 << 10, 32 << 20, 200)),
    ];
    for (name, workload) in table {
        let options = SimOptions { contents: Contents::Dropped, ..SimOptions::default() };
        let device = Arc::new(SimBackend::new(options).expect("device"));
        let pool =
            Pool::new(device.clone(), PoolOptions::new(Space::Device, 12 << 30)).expect("pool");
        let stream = device.default_stream();
        // The best of many short rounds: background load can only slow one down.
        let mut rounds: Vec<f64> = (0..300)
            .map(|_| measure(&pool, stream, &workload, 10_000).expect("measured"))
            .map(|round| round.pairs as f64 * 1e9 / round.elapsed_ns.max(1) as f64)
            .collect();
        rounds.sort_by(f64::total_cmp);
        let (median, best) = (rounds[rounds.len() / 2], rounds[rounds.len() - 1]);
        println!("{name}: best {:.1}, median {:.1} M pairs/s", best / 1e6, median / 1e6);
        assert!(best >= PAIRS_PER_SECOND, "{name}: {best:.0} pairs/s");
        pool.verify().expect("consistent");
    }
}

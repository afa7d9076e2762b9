//! LSTM: all steps in one kernel where a cluster holds the weights, or a kernel a step.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use crate::device::LaunchConfig;
use assay_operations::ElementFormat::F32;
use assay_runtime::backend::{KernelArgument, Result};

/// CTAs of a cluster, and the threads of each.
const CLUSTER: u64 = 8;
const THREADS: [u64; 3] = [512, 256, 128];
/// The most weights of a thread, which it has in registers.
const MAX_WEIGHTS: u64 = 64;
/// Sequences of a cluster at most, and of all directions before one has several.
const MAX_TOGETHER: u64 = 8;
const SPREAD_SEQUENCES: u64 = 8;
/// Threads of a CTA of a step: a warp a hidden unit.
const STEP_THREADS: u64 = 256;
/// The first GPU with clusters.
const CLUSTER_CAPABILITY: u32 = 90;
const MAX_GRID_Y: u64 = 65_535;

/// The threads of a CTA whose registers hold its part of the weights; none where they do not.
fn cluster_threads(hidden: u64) -> Option<u64> {
    if hidden == 0 || !hidden.is_multiple_of(CLUSTER) {
        return None;
    }
    let rows = 4 * hidden / CLUSTER;
    THREADS.into_iter().find(|threads| {
        let lanes = threads / rows;
        threads.is_multiple_of(rows)
            && (1..=32).contains(&lanes)
            && lanes.is_power_of_two()
            && hidden.is_multiple_of(4 * lanes)
            && hidden / lanes <= MAX_WEIGHTS
    })
}

/// Sequences that a cluster takes together.
fn together(sequences: u64, directions: u64, hidden: u64, threads: u64) -> u64 {
    let mut together = 1;
    while together < MAX_TOGETHER
        && sequences * directions > SPREAD_SEQUENCES * together
        && 2 * together * hidden / CLUSTER <= threads
    {
        together *= 2;
    }
    together
}

pub(super) fn lstm(call: &Call<'_>) -> Result<()> {
    let (steps, batch) = (call.size("steps")?, call.size("batch")?);
    let (hidden, reverse) = (call.size("hidden")?, call.size("reverse")?);
    let weights = call.typed("weights", F32, &[4, hidden, hidden])?;
    let bias = call.optional_typed("bias", F32, &[4, hidden])?;
    let reverse_weights = call.optional_typed("reverse_weights", F32, &[4, hidden, hidden])?;
    let reverse_bias = call.optional_typed("reverse_bias", F32, &[4, hidden])?;
    let directions = if reverse_weights.is_some() { 2 } else { 1 };
    let gates = call.typed("gates", F32, &[directions, steps, batch, 4 * hidden])?;
    let h = call.typed("h", F32, &[directions, batch, hidden])?;
    let c = call.typed("c", F32, &[directions, batch, hidden])?;
    let out = call.typed("out", F32, &[steps, batch, directions, hidden])?;
    if steps * batch * hidden == 0 {
        return Ok(());
    }
    if batch > MAX_GRID_Y {
        return Err(call.error(format_args!("at most {MAX_GRID_Y} sequences"), batch));
    }
    let mut arguments = vec![pointer(gates), pointer(weights), pointer_or_null(bias)];
    arguments.extend([pointer_or_null(reverse_weights), pointer_or_null(reverse_bias)]);
    arguments.extend([pointer(h), pointer(c), pointer(out)]);
    arguments.extend([int(steps), int(batch), int(reverse)]);
    let aligned = [Some(weights), reverse_weights];
    let is_aligned = aligned.iter().flatten().all(|operand| operand.pointer.0.is_multiple_of(16));
    let has_clusters = call.queue.device().facts().capability >= CLUSTER_CAPABILITY;
    match cluster_threads(hidden).filter(|_| is_aligned && has_clusters) {
        Some(threads) => {
            let together = together(batch, directions, hidden, threads);
            let defines: [Define; 4] = [
                ("HIDDEN", hidden.into()),
                ("CLUSTER_SIZE", CLUSTER.into()),
                ("THREADS", threads.into()),
                ("BATCH", together.into()),
            ];
            let function = call.function("lstm_cluster", &defines)?;
            let config = LaunchConfig {
                grid: [(CLUSTER * directions) as u32, batch.div_ceil(together) as u32, 1],
                block: [threads as u32, 1, 1],
                shared_bytes: 0,
                cluster: CLUSTER as u32,
                prefers_l1: false,
            };
            call.queue.launch(&function, config, &arguments)
        }
        None => launch_steps(call, arguments, [steps, batch, hidden, directions]),
    }
}

fn launch_steps(
    call: &Call<'_>,
    mut arguments: Vec<KernelArgument>,
    [steps, batch, hidden, directions]: [u64; 4],
) -> Result<()> {
    let function = call.function("lstm_step", &[])?;
    let config = LaunchConfig {
        grid: [hidden.div_ceil(STEP_THREADS / 32) as u32, batch as u32, directions as u32],
        block: [STEP_THREADS as u32, 1, 1],
        shared_bytes: 0,
        cluster: 1,
        prefers_l1: false,
    };
    arguments.extend([int(hidden), int(0)]);
    let last = arguments.len() - 1;
    // The last launch copies the states that are left.
    for step in 0..=steps {
        arguments[last] = int(step);
        call.queue.launch(&function, config, &arguments)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_hold_the_weights_of_speech_models() {
        // Kokoro and Silero; 512 units would be 4 MB.
        assert_eq!(cluster_threads(256), Some(512));
        assert_eq!(cluster_threads(128), Some(512));
        assert_eq!(cluster_threads(64), Some(512));
        assert_eq!(cluster_threads(512), None);
        assert_eq!(cluster_threads(100), None);
        assert_eq!(together(1, 2, 256, 512), 1);
        assert_eq!(together(16, 2, 256, 512), 4);
        assert_eq!(together(100, 2, 256, 512), 8);
    }
}

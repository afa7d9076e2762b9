//! State-space layers: causal convolution and selective scan.

use super::attention_limits::flag;
use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use crate::device::LaunchConfig;
use assay_operations::ElementFormat::{Bf16, F32, I32};
use assay_operations::Operand;
use assay_runtime::backend::{KernelArgument, Result};

/// Channels of a CTA of the convolution.
const CONVOLUTION_THREADS: u64 = 128;
/// Rows of a CTA of the convolution.
const CONVOLUTION_ROWS: u64 = 64;
/// The most taps that the convolution keeps in registers.
const MAX_TAPS: u64 = 8;
/// Rows that the scan stages in shared memory at a time.
const SCAN_ROWS: u64 = 16;
/// The most shared memory of the scan, which needs no permission of the driver.
const MAX_SHARED_BYTES: u64 = 48 << 10;

/// Rows, beyond one for each sequence, from which the scan is computed in chunks.
const MIN_CHUNKED_ROWS: u64 = 32;
/// Rows of one sequence from which it is; the state is most of what fewer rows read and write.
const MIN_SEQUENCE_ROWS: u64 = 16;
/// Rows of a chunk, and threads of the CTA that computes one.
const CHUNK_ROWS: u64 = 64;
const CHUNK_THREADS: u64 = 256;
/// The heads that the chunked scan computes.
const CHUNK_HEAD_DIM: u64 = 64;

/// The operands that say which rows are of which sequence, and where its state is.
struct Sequences {
    count: u64,
    slots: Operand,
    query_start_loc: Operand,
    seq_lens: Operand,
}

impl Sequences {
    fn read(call: &Call<'_>) -> Result<Self> {
        let count = call.size("sequences")?;
        if count > 65_535 {
            return Err(call.error("at most 65535 sequences", count));
        }
        Ok(Sequences {
            count,
            slots: call.typed("slots", I32, &[count])?,
            query_start_loc: call.typed("query_start_loc", I32, &[count + 1])?,
            seq_lens: call.typed("seq_lens", I32, &[count])?,
        })
    }

    fn arguments(&self) -> [KernelArgument; 3] {
        [pointer(self.slots), pointer(self.query_start_loc), pointer(self.seq_lens)]
    }
}

pub(super) fn causal_convolution(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let (first, channels) = (call.size("first")?, call.size("channels")?);
    let (taps, states) = (call.size("kernel")?, call.size("states")?);
    if !(2..=MAX_TAPS).contains(&taps) {
        return Err(call.error(format_args!("a kernel of 2 to {MAX_TAPS} rows"), taps));
    }
    if first + channels > columns {
        let expected = format_args!("channels within {columns} columns");
        return Err(call.error(expected, format_args!("{channels} from {first} on")));
    }
    let x = call.operand("x", &[rows, columns])?;
    let weight = call.typed("weight", x.format, &[taps, channels])?;
    let bias = call.optional_typed("bias", x.format, &[channels])?;
    let state = call.typed("state", F32, &[states, taps - 1, channels])?;
    let out = call.typed("out", x.format, &[rows, channels])?;
    let sequences = Sequences::read(call)?;
    if rows * channels * sequences.count == 0 {
        return Ok(());
    }
    let defines: [Define; 4] = [
        ("ELEMENT", call.float_type("x", x)?.into()),
        ("KERNEL_TAPS", taps.into()),
        ("THREADS", CONVOLUTION_THREADS.into()),
        ("CHUNK_ROWS", CONVOLUTION_ROWS.into()),
    ];
    let function = call.function("causal_convolution", &defines)?;
    let mut arguments = vec![pointer(x), pointer(weight), pointer_or_null(bias)];
    arguments.extend(sequences.arguments());
    arguments.extend([pointer(state), pointer(out)]);
    arguments.extend([int(columns), int(first), int(channels)]);
    let config = LaunchConfig {
        grid: [
            channels.div_ceil(CONVOLUTION_THREADS) as u32,
            rows.div_ceil(CONVOLUTION_ROWS) as u32,
            sequences.count as u32,
        ],
        block: [CONVOLUTION_THREADS as u32, 1, 1],
        shared_bytes: 0,
        cluster: 1,
        prefers_l1: false,
    };
    call.queue.launch(&function, config, &arguments)
}

/// How a CTA of the scan is shaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ScanTile {
    /// Elements of a head.
    elements: u64,
    elements_per_lane: u64,
    /// Lanes that share the state of an element, of which each has whole vectors.
    lanes: u64,
}

impl ScanTile {
    /// At most 128 threads, so that several CTAs share an SM.
    fn new(head_dim: u64, state_size: u64) -> Option<Self> {
        let lanes = [8, 4, 2, 1].into_iter().find(|lanes| state_size.is_multiple_of(4 * lanes))?;
        let shapes = [(32, 2), (16, 1), (32, 1), (8, 1), (64, 1), (128, 1)];
        let mut tiles = shapes.into_iter().map(|(elements, elements_per_lane)| ScanTile {
            elements,
            elements_per_lane,
            lanes,
        });
        let fits = |tile: &ScanTile| {
            head_dim.is_multiple_of(tile.elements)
                && tile.threads().is_multiple_of(32)
                && tile.threads() <= 128
        };
        tiles.find(fits)
    }

    fn threads(&self) -> u64 {
        self.elements / self.elements_per_lane * self.lanes
    }
}

/// The shared memory of a CTA of the chunked scan, of two chunks and two states of bf16; none where
/// its tiles do not fit.
fn chunked_shared_bytes(head_dim: u64, state_size: u64) -> Option<u64> {
    let row = |elements| elements * 2 + 16;
    let chunk = CHUNK_ROWS * (2 * row(state_size) + row(head_dim));
    let fits = head_dim == CHUNK_HEAD_DIM && [64, 128].contains(&state_size);
    fits.then(|| 2 * chunk + 2 * head_dim * row(state_size))
}

pub(super) fn selective_scan(call: &Call<'_>) -> Result<()> {
    let (rows, states) = (call.size("rows")?, call.size("states")?);
    let (heads, head_dim) = (call.size("heads")?, call.size("head_dim")?);
    let (groups, state_size) = (call.size("groups")?, call.size("state_size")?);
    if groups == 0 || !heads.is_multiple_of(groups) {
        return Err(call.error("heads in groups", format_args!("{heads} and {groups}")));
    }
    let shared_bytes = |tile: &ScanTile| 4 * SCAN_ROWS * (2 * state_size + 2 * tile.elements + 1);
    let tile = ScanTile::new(head_dim, state_size);
    let Some(tile) = tile.filter(|tile| shared_bytes(tile) <= MAX_SHARED_BYTES) else {
        let got = format_args!("{head_dim} and {state_size}");
        return Err(call.error("heads and states in multiples of 32", got));
    };
    let inner = heads * head_dim;
    let channels = inner + 2 * groups * state_size;
    let projected = call.operand("projected", &[rows, inner + channels + heads])?;
    let convolved = call.typed("convolved", projected.format, &[rows, channels])?;
    let a_log = call.typed("a_log", F32, &[heads])?;
    let d = call.typed("d", F32, &[heads])?;
    let dt_bias = call.typed("dt_bias", F32, &[heads])?;
    let state = call.typed("state", F32, &[states, heads, head_dim, state_size])?;
    let out = call.typed("out", projected.format, &[rows, inner])?;
    let sequences = Sequences::read(call)?;
    if rows * inner * sequences.count == 0 {
        return Ok(());
    }
    let mut arguments = vec![pointer(projected), pointer(convolved)];
    arguments.extend([pointer(a_log), pointer(d), pointer(dt_bias)]);
    arguments.extend(sequences.arguments());
    arguments.extend([pointer(state), pointer(out), int(heads), int(groups)]);
    arguments.push(KernelArgument::F32(call.float("dt_min")?));
    arguments.push(KernelArgument::F32(call.float("dt_max")?));
    let element = call.float_type("projected", projected)?;
    // Chunks round as their rows come, and pairs of bf16 are read from rows that an odd number of
    // heads would not align.
    let may_chunk =
        projected.format == Bf16 && heads.is_multiple_of(2) && !flag(call, "batch_invariant")?;
    let available = u64::from(call.queue.device().facts().shared_bytes);
    let chunked = chunked_shared_bytes(head_dim, state_size).filter(|bytes| *bytes <= available);
    let mut max_rows = i32::MAX as u64;
    if let Some(bytes) = chunked.filter(|_| may_chunk && rows >= sequences.count + MIN_CHUNKED_ROWS)
    {
        let defines: [Define; 3] = [
            ("ELEMENT", element.into()),
            ("STATE_SIZE", state_size.into()),
            ("MIN_ROWS", MIN_SEQUENCE_ROWS.into()),
        ];
        let function = call.function("chunked_scan", &defines)?;
        let config = LaunchConfig {
            grid: [heads as u32, sequences.count as u32, 1],
            block: [CHUNK_THREADS as u32, 1, 1],
            shared_bytes: bytes as u32,
            cluster: 1,
            prefers_l1: false,
        };
        call.queue.launch(&function, config, &arguments)?;
        if sequences.count == 1 {
            return Ok(());
        }
        max_rows = MIN_SEQUENCE_ROWS - 1;
    }
    let defines: [Define; 8] = [
        ("ELEMENT", element.into()),
        ("HEAD_DIM", head_dim.into()),
        ("ELEMENTS", tile.elements.into()),
        ("ELEMENTS_PER_LANE", tile.elements_per_lane.into()),
        ("STATE_SIZE", state_size.into()),
        ("LANES_PER_ELEMENT", tile.lanes.into()),
        ("CHUNK_ROWS", SCAN_ROWS.into()),
        ("MAX_ROWS", max_rows.into()),
    ];
    let function = call.function("selective_scan", &defines)?;
    let config = LaunchConfig {
        grid: [heads as u32, sequences.count as u32, (head_dim / tile.elements) as u32],
        block: [tile.threads() as u32, 1, 1],
        shared_bytes: 0,
        cluster: 1,
        prefers_l1: false,
    };
    call.queue.launch(&function, config, &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_the_scan_divide_heads_and_states() {
        let tile = |head_dim, state_size| {
            ScanTile::new(head_dim, state_size)
                .map(|tile| (tile.elements, tile.elements_per_lane, tile.lanes))
        };
        // Mamba-2 and Codestral Mamba.
        assert_eq!(tile(64, 128), Some((32, 2, 8)));
        assert_eq!(tile(64, 16), Some((32, 2, 4)));
        assert_eq!(tile(16, 16), Some((16, 1, 4)));
        assert_eq!(tile(64, 6), None);
        assert_eq!(tile(7, 128), None);
    }

    #[test]
    fn the_chunked_scan_says_its_shared_memory() {
        assert_eq!(chunked_shared_bytes(64, 128), Some(122_880));
        assert_eq!(chunked_shared_bytes(64, 64), Some(73_728));
        assert_eq!(chunked_shared_bytes(64, 16), None);
        assert_eq!(chunked_shared_bytes(32, 128), None);
    }
}

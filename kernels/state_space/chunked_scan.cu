// The selective scan of Mamba-2 over many rows, in chunks, on tensor cores.
//
// Algorithm: structured state-space duality [Dao & Gu 2024]. Within a chunk, the output is attention without a
//   softmax: y_i = sum over j <= i of (C_i B_j) e^(s_i - s_j) dt_j x_j, with s the running sum of -exp(a_log) dt; what
//   came before adds e^(s_i) (state C_i), and the state becomes e^(s_L) state + sum of e^(s_L - s_j) dt_j x_j B_j^T.
//   Then as selective_scan.cu: d x is added, and y silu(z) stored.
// Tiling: a CTA is one head of one sequence and walks over chunks of CHUNK_ROWS rows, which cp.async loads one chunk
//   ahead. Four warps compute outputs, 16 rows each, of which the products stay in registers as in FlashAttention-2
//   [Dao 2023]; four others hold the state in registers, 16 elements of the head each, and add the chunk to it
//   meanwhile. The state that outputs multiply is a copy in shared memory, rounded to bf16.
// Departures: chunks follow one another in the CTA that holds the state, instead of kernels for all chunks and a scan
//   of their states: heads fill the device. x in the state's sum is split in two bf16 numbers, so that the state keeps
//   16 bits of it: rounding there would add up. Bits depend on where chunks begin, so a batch-invariant step takes
//   selective_scan.cu.
//
// Options: ELEMENT (bf16), STATE_SIZE (64, 128), MIN_ROWS and MAX_ROWS (as selective_scan.cu). HEAD_DIM is 64.
// Launch: grid (heads, sequences), CTA of 256, SHARED_BYTES of dynamic shared memory.
// Arguments: those of selective_scan.cu; heads are even, so that rows of `projected` are aligned to 4 bytes.
#include "step_size.cuh"

constexpr int HEAD_DIM = 64, CHUNK_ROWS = 64, THREADS = 256;
// Rows in shared memory have an odd number of 16-byte chunks, so that ldmatrix reads them without bank conflicts.
constexpr int STATE_ROW_BYTES = STATE_SIZE * 2 + 16, HEAD_ROW_BYTES = HEAD_DIM * 2 + 16;
constexpr int C_BYTES = CHUNK_ROWS * STATE_ROW_BYTES, STAGE_BYTES = 2 * C_BYTES + CHUNK_ROWS * HEAD_ROW_BYTES;
constexpr int STATE_BYTES = HEAD_DIM * STATE_ROW_BYTES;
constexpr int SHARED_BYTES = 2 * STAGE_BYTES + 2 * STATE_BYTES;

KERNEL __launch_bounds__(THREADS)
chunked_scan(const ELEMENT* projected, const ELEMENT* convolved, const float* a_log, const float* d,
             const float* dt_bias, const int* slots, const int* query_start_loc, const int* seq_lens, float* state,
             ELEMENT* out, int heads, int groups, float dt_min, float dt_max TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ uint4 dynamic[];
    // Of the rows of this chunk and the next: dt, and the logarithm (base 2) of the decay from the chunk's begin on.
    __shared__ float shared_dt[2][CHUNK_ROWS], shared_decay[2][CHUNK_ROWS];
    launch_dependents();
    wait_on_dependency();
    const int head = blockIdx.x, sequence = blockIdx.y;
    const int first_row = query_start_loc[sequence], rows = query_start_loc[sequence + 1] - first_row;
    const int seq_len = seq_lens[sequence];
    if (rows < MIN_ROWS || rows > MAX_ROWS || seq_len <= 0)
        return;
    const int inner = heads * HEAD_DIM, channels = inner + 2 * groups * STATE_SIZE, width = inner + channels + heads;
    const int group = head / (heads / groups);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int low = lane / 8 % 2, high = lane / 16, matrix_row = lane % 8;  // what a lane addresses for ldmatrix
    const bool has_state = warp >= 4;
    const int m = warp % 4;  // the warp's rows, or its elements of the head
    const u32 stages = shared_address(dynamic), states = stages + 2 * STAGE_BYTES;
    auto state_at = [](u32 tile, int row, int chunk) { return tile + row * STATE_ROW_BYTES + chunk * 16; };
    auto head_at = [](u32 tile, int row, int chunk) { return tile + row * HEAD_ROW_BYTES + chunk * 16; };

    auto load_chunk = [&](int chunk) {
        const u32 c_tile = stages + chunk % 2 * STAGE_BYTES, b_tile = c_tile + C_BYTES, x_tile = b_tile + C_BYTES;
        auto row_of = [&](int row) {
            return convolved + i64(first_row + min(chunk * CHUNK_ROWS + row, rows - 1)) * channels;
        };
        auto has_row = [&](int row) { return chunk * CHUNK_ROWS + row < rows; };
        for (int i = threadIdx.x; i < CHUNK_ROWS * STATE_SIZE / 8; i += THREADS) {
            const int row = i / (STATE_SIZE / 8), column = i % (STATE_SIZE / 8);
            const ELEMENT* from = row_of(row) + inner + group * STATE_SIZE + column * 8;
            cp_async_16(state_at(b_tile, row, column), from, has_row(row));
            cp_async_16(state_at(c_tile, row, column), from + groups * STATE_SIZE, has_row(row));
        }
        for (int i = threadIdx.x; i < CHUNK_ROWS * HEAD_DIM / 8; i += THREADS) {
            const int row = i / (HEAD_DIM / 8), column = i % (HEAD_DIM / 8);
            cp_async_16(head_at(x_tile, row, column), row_of(row) + head * HEAD_DIM + column * 8, has_row(row));
        }
        cp_async_commit();
    };
    // The first warp has two rows of dt in each lane. Rows past the end have a step of zero, which changes nothing.
    const float rate = -__expf(a_log[head]) * LOG2_E, bias = dt_bias[head], skip = d[head];
    float raw[2];
    auto load_steps = [&](int chunk) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int row = min(chunk * CHUNK_ROWS + lane * 2 + i, rows - 1);
            raw[i] = to_float(projected[i64(first_row + row) * width + inner + channels + head]);
        }
    };
    auto store_steps = [&](int chunk) {
        float dt[2];
#pragma unroll
        for (int i = 0; i < 2; i++)
            dt[i] = chunk * CHUNK_ROWS + lane * 2 + i < rows ? step_size(raw[i], bias, dt_min, dt_max) : 0.0f;
        const float own = (dt[0] + dt[1]) * rate;
        float sum = own;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const float before = __shfl_up_sync(~0u, sum, offset);
            sum += lane >= offset ? before : 0.0f;
        }
        shared_dt[chunk % 2][lane * 2] = dt[0], shared_dt[chunk % 2][lane * 2 + 1] = dt[1];
        shared_decay[chunk % 2][lane * 2] = sum - dt[1] * rate, shared_decay[chunk % 2][lane * 2 + 1] = sum;
    };

    load_chunk(0);
    if (warp == 0) {
        load_steps(0);
        store_steps(0);
    }
    // Row g (and g + 8) of the warp's 16 elements, columns 8 j + 2 t and the next.
    float* own_state = state + (i64(slots[sequence]) * inner + head * HEAD_DIM + m * 16 + g) * STATE_SIZE + t * 2;
    float values[STATE_SIZE / 8][4];
    auto store_rounded_state = [&](u32 tile) {
#pragma unroll
        for (int j = 0; j < STATE_SIZE / 8; j++) {
            store4_shared(state_at(tile, m * 16 + g, j) + t * 4, pack<ELEMENT>(values[j][0], values[j][1]));
            store4_shared(state_at(tile, m * 16 + g + 8, j) + t * 4, pack<ELEMENT>(values[j][2], values[j][3]));
        }
    };
    if (has_state) {
#pragma unroll
        for (int j = 0; j < STATE_SIZE / 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float2 v = seq_len == rows ? make_float2(0.0f, 0.0f)
                                                 : *reinterpret_cast<float2*>(own_state + h * 8 * STATE_SIZE + j * 8);
                values[j][h * 2] = v.x, values[j][h * 2 + 1] = v.y;
            }
        store_rounded_state(states);
    }

    const int chunks = ceil_divide(rows, CHUNK_ROWS);
    for (int chunk = 0; chunk < chunks; chunk++) {
        cp_async_wait<0>();
        __syncthreads();  // the chunk, its steps and the state are there, and all warps are done with the chunk before
        if (chunk + 1 < chunks) {
            load_chunk(chunk + 1);
            if (warp == 0)
                load_steps(chunk + 1);
        }
        const u32 c_tile = stages + chunk % 2 * STAGE_BYTES, b_tile = c_tile + C_BYTES, x_tile = b_tile + C_BYTES;
        const float *dt = shared_dt[chunk % 2], *decay = shared_decay[chunk % 2];
        if (has_state) {
            const float last = decay[CHUNK_ROWS - 1], total = exp2_approx(last);
#pragma unroll
            for (int i = 0; i < STATE_SIZE / 2; i++)
                values[i / 4][i % 4] *= total;
#pragma unroll
            for (int k = 0; k < CHUNK_ROWS / 16; k++) {
                u32 x[4], upper[4], lower[4];
                ldmatrix_x4_trans(x, head_at(x_tile, k * 16 + high * 8 + matrix_row, m * 2 + low));
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    // Of rows 16 k + 8 h + 2 t and the next.
                    const int row = k * 16 + h * 8 + t * 2;
                    const float weights[2] = {dt[row] * exp2_approx(last - decay[row]),
                                              dt[row + 1] * exp2_approx(last - decay[row + 1])};
#pragma unroll
                    for (int i = h * 2; i < h * 2 + 2; i++) {
                        float2 v = unpack<ELEMENT>(x[i]);
                        v.x *= weights[0], v.y *= weights[1];
                        upper[i] = pack<ELEMENT>(v.x, v.y);
                        const float2 rounded = unpack<ELEMENT>(upper[i]);
                        lower[i] = pack<ELEMENT>(v.x - rounded.x, v.y - rounded.y);
                    }
                }
#pragma unroll
                for (int j = 0; j < STATE_SIZE / 16; j++) {
                    u32 b[4];
                    ldmatrix_x4_trans(b, state_at(b_tile, k * 16 + low * 8 + matrix_row, j * 2 + high));
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        float(&sum)[4] = values[j * 2 + half];
                        const u32 b0 = b[half * 2], b1 = b[half * 2 + 1];
                        mma_16x8x16<ELEMENT>(sum, upper[0], upper[1], upper[2], upper[3], b0, b1);
                        mma_16x8x16<ELEMENT>(sum, lower[0], lower[1], lower[2], lower[3], b0, b1);
                    }
                }
            }
            if (chunk + 1 < chunks)
                store_rounded_state(states + (chunk + 1) % 2 * STATE_BYTES);
            continue;
        }

        const u32 state_tile = states + chunk % 2 * STATE_BYTES;
        const int own_rows[2] = {m * 16 + g, m * 16 + g + 8};
        const i64 row_base = first_row + chunk * CHUNK_ROWS;
        u32 gates[HEAD_DIM / 8][2];  // z of this lane's outputs
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 4; i++) {
            const int j = i / 2, h = i % 2;
            const bool valid = chunk * CHUNK_ROWS + own_rows[h] < rows;
            const ELEMENT* z = projected + (row_base + own_rows[h]) * width + head * HEAD_DIM + j * 8 + t * 2;
            gates[j][h] = valid ? *reinterpret_cast<const u32*>(z) : 0;
        }
        u32 c[STATE_SIZE / 16][4];
#pragma unroll
        for (int k = 0; k < STATE_SIZE / 16; k++)
            ldmatrix_x4(c[k], state_at(c_tile, m * 16 + low * 8 + matrix_row, k * 2 + high));
        // What came before the chunk.
        float y[HEAD_DIM / 8][4] = {};
#pragma unroll
        for (int k = 0; k < STATE_SIZE / 32; k++)
#pragma unroll
            for (int j = 0; j < HEAD_DIM / 8; j++) {
                u32 b[4];
                ldmatrix_x4(b, state_at(state_tile, j * 8 + matrix_row, k * 4 + lane / 8));
                const u32(&first)[4] = c[k * 2], (&second)[4] = c[k * 2 + 1];
                mma_16x8x16<ELEMENT>(y[j], first[0], first[1], first[2], first[3], b[0], b[1]);
                mma_16x8x16<ELEMENT>(y[j], second[0], second[1], second[2], second[3], b[2], b[3]);
            }
        const float own_decay[2] = {decay[own_rows[0]], decay[own_rows[1]]};
        const float since_begin[2] = {exp2_approx(own_decay[0]), exp2_approx(own_decay[1])};
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i++)
            y[i / 4][i % 4] *= since_begin[i % 4 / 2];
        // The chunk itself: 16 columns of scores at a time, up to the diagonal.
        for (int k = 0; k <= m; k++) {
            u32 weights[4];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float scores[4] = {};
#pragma unroll
                for (int n = 0; n < STATE_SIZE / 32; n++) {
                    u32 b[4];
                    ldmatrix_x4(b, state_at(b_tile, k * 16 + half * 8 + matrix_row, n * 4 + lane / 8));
                    const u32(&first)[4] = c[n * 2], (&second)[4] = c[n * 2 + 1];
                    mma_16x8x16<ELEMENT>(scores, first[0], first[1], first[2], first[3], b[0], b[1]);
                    mma_16x8x16<ELEMENT>(scores, second[0], second[1], second[2], second[3], b[2], b[3]);
                }
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int column = k * 16 + half * 8 + t * 2 + i % 2;
                    const float factor = dt[column] * exp2_approx(own_decay[i / 2] - decay[column]);
                    scores[i] = column <= own_rows[i / 2] ? scores[i] * factor : 0.0f;
                }
                weights[half * 2] = pack<ELEMENT>(scores[0], scores[1]);
                weights[half * 2 + 1] = pack<ELEMENT>(scores[2], scores[3]);
            }
#pragma unroll
            for (int j = 0; j < HEAD_DIM / 16; j++) {
                u32 b[4];
                ldmatrix_x4_trans(b, head_at(x_tile, k * 16 + low * 8 + matrix_row, j * 2 + high));
                mma_16x8x16<ELEMENT>(y[j * 2], weights[0], weights[1], weights[2], weights[3], b[0], b[1]);
                mma_16x8x16<ELEMENT>(y[j * 2 + 1], weights[0], weights[1], weights[2], weights[3], b[2], b[3]);
            }
        }
#pragma unroll
        for (int j = 0; j < HEAD_DIM / 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float2 x = unpack<ELEMENT>(load4_shared(head_at(x_tile, own_rows[h], j) + t * 4));
                const float2 z = unpack<ELEMENT>(gates[j][h]);
                const u32 v = pack<ELEMENT>(fmaf(skip, x.x, y[j][h * 2]) * silu(z.x),
                                            fmaf(skip, x.y, y[j][h * 2 + 1]) * silu(z.y));
                ELEMENT* to = out + (row_base + own_rows[h]) * inner + head * HEAD_DIM + j * 8 + t * 2;
                if (chunk * CHUNK_ROWS + own_rows[h] < rows)
                    *reinterpret_cast<u32*>(to) = v;
            }
        if (warp == 0 && chunk + 1 < chunks)
            store_steps(chunk + 1);
    }
    if (!has_state)
        return;
#pragma unroll
    for (int j = 0; j < STATE_SIZE / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *reinterpret_cast<float2*>(own_state + h * 8 * STATE_SIZE + j * 8) =
                make_float2(values[j][h * 2], values[j][h * 2 + 1]);
}

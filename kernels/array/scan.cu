// Running joins along rows: out[r][i] joins x[r][0..i], or x[r][0..i-1] where EXCLUSIVE. The last row may be shorter.
//
// Options: TYPE, COMPUTED, OUTPUT, JOIN (as in reduce.cu), EXCLUSIVE (0, 1), TOGETHER (elements that are loaded and stored
//   at once: 1 to 8; x, out and length are aligned to as many), THREADS.
// Launch: grid rows, block THREADS. Arguments: x, carries (one of type COMPUTED per row that is joined first; null:
//   none), out (null: none; may be x), totals (one of type COMPUTED per row; null: none), length, total (of all rows; 64
//   bits each). A long row is taken as many short ones: scan them for totals alone, scan the totals EXCLUSIVE, and scan
//   again with those as carries.
#include "expressions.cuh"

constexpr int EACH = 8;

#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
DEVICE COMPUTED start() { return PASTE(JOIN, _start)<COMPUTED>(); }
DEVICE COMPUTED join(COMPUTED a, COMPUTED b) { return COMPUTED(JOIN(a, b)); }

KERNEL __launch_bounds__(THREADS)
scan(const TYPE* x, const COMPUTED* carries, OUTPUT* out, COMPUTED* totals, i64 each, i64 total) {
    __shared__ COMPUTED warps[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 beginning = blockIdx.x * each, length = total - beginning < each ? total - beginning : each;
    x += beginning;
    out += out ? beginning : 0;
    COMPUTED carry = carries ? carries[blockIdx.x] : start();
    for (i64 base = 0; base < length; base += THREADS * EACH) {
        const i64 first = base + threadIdx.x * EACH;
        COMPUTED v[EACH], own = start();
#pragma unroll
        for (int i = 0; i < EACH; i += TOGETHER) {
            // The length is a multiple of TOGETHER: a piece is there or not.
            typedef Several<TYPE, TOGETHER> Piece;
            const bool there = first + i < length;
            const Piece piece = there ? *reinterpret_cast<const Piece*>(x + first + i) : Piece();
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                v[i + j] = there ? computed<COMPUTED>(piece.v[j]) : start();
                own = join(own, v[i + j]);
            }
        }
        COMPUTED through = own;
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const COMPUTED other = __shfl_up_sync(~0u, through, offset);
            if (lane >= offset)
                through = join(other, through);
        }
        if (lane == 31)
            warps[warp] = through;
        const COMPUTED left = __shfl_up_sync(~0u, through, 1);
        __syncthreads();
        COMPUTED before = carry;
        for (int w = 0; w < THREADS / 32; w++) {
            if (w < warp)
                before = join(before, warps[w]);
            carry = join(carry, warps[w]);
        }
        before = lane ? join(before, left) : before;
#pragma unroll
        for (int i = 0; i < EACH; i += TOGETHER) {
            Several<OUTPUT, TOGETHER> piece;
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                const COMPUTED with = join(before, v[i + j]);
                piece.v[j] = Stored<OUTPUT>::from(EXCLUSIVE ? before : with);
                before = with;
            }
            if (out && first + i < length)
                *reinterpret_cast<Several<OUTPUT, TOGETHER>*>(out + first + i) = piece;
        }
        __syncthreads();
    }
    if (totals && threadIdx.x == 0)
        totals[blockIdx.x] = carry;
}

// Repacks GGML blocks, as GGUF files hold them, to the layout of gemv.cu: the same codes and scales in another order.
//
// Algorithm: a permutation of bits (ggml_blocks.cuh, packed_layout.cuh); none published. Scales of k-quants are widened
//   to bytes. Tiling: 128 weights a thread.
//
// Options: BLOCK_FORMAT (as ggml_blocks.cuh), WEIGHT_FORMAT, GROUP_SIZE, SCALE_FORMAT (as packed_layout.cuh).
// Launch: grid (ceil(padded / 128 / CTA), outputs), CTA of any size; padded is inputs rounded up to lines of 128 bytes.
// Arguments: blocks (outputs x inputs / weights of a block, contiguous), weights, scales (both out), inputs (a multiple
//   of the weights of a block).
#include "ggml_blocks.cuh"

KERNEL pack_blocks(const u8* blocks, u8* weights, u8* scales, int inputs) {
    launch_dependents();
    wait_on_dependency();
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * 128;
    const i64 row = blockIdx.y;
    if (first >= round_up(inputs, LINE_WEIGHTS))
        return;
    u8* lines = weights + row * row_bytes(inputs);
    u8* row_scales = scales + row * scale_row_bytes(inputs);
    auto block_at = [&](int k) { return blocks + (row * (inputs / BLOCK_WEIGHTS) + k / BLOCK_WEIGHTS) * BLOCK_BYTES; };
    u32 upper[4][UPPER_BITS ? UPPER_BITS : 1] = {};  // of the four chunks of this thread
    for (int k = first; k < first + 128; k += 8) {
        u8* packed = lines + weight_offset(k);
        u8 bytes[8] = {};
        for (int i = 0; i < 8; i++) {
            const int input = unit_input(k, i);
            const int code = input < inputs ? block_code(block_at(input), input % BLOCK_WEIGHTS) : 0;
            if constexpr (BITS == 8)
                bytes[i] = u8(code);
            else
                bytes[i / 2] |= u8((code & 15) << i % 2 * 4);
            if constexpr (UPPER_BITS != 0)
                upper[k % 32 / 8][k % 128 / 32 * UPPER_BITS / 4] |= u32(code >> 4) << upper_shift(k % 128 / 32, i);
        }
        for (int i = 0; i < BITS; i++)
            packed[i] = bytes[i];
    }
    if constexpr (UPPER_BITS != 0) {
        u32* words = reinterpret_cast<u32*>(lines + padded_chunks(inputs) * 16);
        for (int t = 0; t < 4; t++)
            for (int i = 0; i < UPPER_BITS; i++)
                words[(first / 32 + t) * UPPER_BITS + i] = upper[t][i];
    }
    for (int k = first; k < min(first + 128, inputs); k += GROUP_SIZE) {
        const u8* block = block_at(k);
        const int group = k / GROUP_SIZE, group_of_block = k % BLOCK_WEIGHTS / GROUP_SIZE;
        if constexpr (SCALE_FORMAT == ScaleFormat::Pair) {
            reinterpret_cast<fp16*>(row_scales)[group * 2] = block_scale(block);
            reinterpret_cast<fp16*>(row_scales)[group * 2 + 1] = block_minimum(block);
        } else if constexpr (SCALE_FORMAT == ScaleFormat::NestedMinimum) {
            row_scales[nested_scale_offset(k)] = u8(group_scale(block, group_of_block));
            row_scales[nested_minimum_offset(k)] = u8(group_minimum(block, group_of_block));
        } else {
            row_scales[group] = u8(group_scale(block, group_of_block));
        }
    }
    if (NESTED_SCALES && first % 256 == 0 && first < inputs) {
        fp16* pair = reinterpret_cast<fp16*>(row_scales + block_scale_offset(inputs)) + first / 256 * 2;
        pair[0] = block_scale(block_at(first));
        pair[1] = block_minimum(block_at(first));
    }
}

//! Sixteen lanes on every instruction set, and kernels, which are written for any of them.

/// Lanes of a vector: one register of AVX-512.
pub(crate) const LANES: usize = 16;

/// A kernel, written once for all levels; `run` and everything it calls must be inlined.
pub(crate) trait Kernel {
    type Output;
    fn run<V: Vector>(self, vector: V) -> Self::Output;
}

/// The instructions of one level. A value is a token that the CPU has them.
///
/// Byte vectors are sixteen groups of four, one group per lane, as in the byte dot-product
/// instructions (VNNI, SDOT).
pub(crate) trait Vector: Copy + Send + Sync + 'static {
    /// Sixteen `f32`.
    type F: Copy;
    /// Sixteen `i32`.
    type I: Copy;
    /// Sixty-four bytes.
    type B: Copy;

    /// Whether there are 32 vector registers, enough for a tile of sixteen accumulators.
    const HAS_32_REGISTERS: bool;

    /// What [`Vector::dot_u8_i8`] needs added per activation for a zero point of 128.
    const U8_BIAS: i32;

    /// Runs a kernel in a function of its own: what many kernels end with is compiled once.
    fn call<K: Kernel>(self, kernel: K) -> K::Output;

    fn splat(self, value: f32) -> Self::F;
    fn load(self, from: &[f32; LANES]) -> Self::F;
    fn store(self, value: Self::F, to: &mut [f32; LANES]);
    fn load_bf16(self, from: &[u16; LANES]) -> Self::F;
    fn load_f16(self, from: &[u16; LANES]) -> Self::F;
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// The maximum; `b` where either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The minimum; `b` where either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// a b + c, fused where the CPU has FMA.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn sum(self, value: Self::F) -> f32;
    /// Rows as columns.
    #[inline(always)]
    fn transpose(self, from: [&[f32; LANES]; LANES], to: &mut [[f32; LANES]; LANES]) {
        for (row, from) in from.iter().enumerate() {
            for (to, value) in to.iter_mut().zip(*from) {
                to[row] = *value;
            }
        }
    }
    fn maximum(self, value: Self::F) -> f32;

    fn splat_i(self, value: i32) -> Self::I;
    fn store_i(self, value: Self::I, to: &mut [i32; LANES]);
    /// The lowest byte of each lane.
    #[inline(always)]
    fn store_i8(self, value: Self::I, to: &mut [i8; LANES]) {
        let mut lanes = [0; LANES];
        self.store_i(value, &mut lanes);
        for (to, lane) in to.iter_mut().zip(lanes) {
            *to = lane as i8;
        }
    }
    /// Sixteen unsigned bytes, zero-extended.
    fn load_u8(self, from: &[u8; LANES]) -> Self::I;
    /// Sixteen signed bytes, sign-extended.
    fn load_i8(self, from: &[u8; LANES]) -> Self::I;
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn mul_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn to_float(self, value: Self::I) -> Self::F;
    /// The nearest integer, ties to even.
    fn round(self, value: Self::F) -> Self::I;
    /// Two to the power; exponents from -126 to 127.
    fn power_of_two(self, exponent: Self::I) -> Self::F;

    fn load_bytes(self, from: &[u8; 64]) -> Self::B;
    /// The low four bits of each byte.
    fn low_nibbles(self, value: Self::B) -> Self::B;
    /// The high four bits of each byte.
    fn high_nibbles(self, value: Self::B) -> Self::B;
    /// The byte of a table at each index, which is below 16.
    fn look_up(self, table: &[u8; 16], indices: Self::B) -> Self::B;
    /// Bits 2n and 2n+1 of each byte of `high`, set as bits 4 and 5 above the nibbles of `low`.
    fn with_two_bits<const N: u32>(self, low: Self::B, high: Self::B) -> Self::B;
    /// Accumulates per lane the dot product of four weights below 128 with four activations.
    fn dot_u7_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I;
    /// The same with weights over the whole range of bytes, with zero point 128.
    ///
    /// Correct once `U8_BIAS` times each activation has been added.
    fn dot_u8_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I;
}

/// Loads a slice of at most sixteen elements; the other lanes are `rest`.
#[inline(always)]
pub(crate) fn load_partial<V: Vector>(v: V, from: &[f32], rest: f32) -> V::F {
    let mut lanes = [rest; LANES];
    lanes[..from.len()].copy_from_slice(from);
    v.load(&lanes)
}

/// Stores the first lanes to a slice of at most sixteen elements.
#[inline(always)]
pub(crate) fn store_partial<V: Vector>(v: V, value: V::F, to: &mut [f32]) {
    let mut lanes = [0.0; LANES];
    v.store(value, &mut lanes);
    to.copy_from_slice(&lanes[..to.len()]);
}

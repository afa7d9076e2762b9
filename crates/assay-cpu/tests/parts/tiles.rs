//! AMX: the tile configuration of a thread is another library's, too.

use crate::common::Numbers;
use assay_cpu::ops::{Bf16, Context, Matrix, matmul};
use assay_cpu::simd::Level;
use assay_cpu::threads::ThreadPool;
use std::arch::asm;

/// The operand of `ldtilecfg`: bytes per row and rows of each tile register.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

fn config() -> TileConfig {
    let mut now = TileConfig::default();
    // SAFETY: callers have seen that AMX is permitted, and `now` holds the 64 bytes that are written.
    unsafe { asm!("sttilecfg [{now}]", now = in(reg) &mut now) };
    now
}

#[test]
fn a_product_restores_the_previous_tile_configuration() {
    let threads = ThreadPool::new(1);
    let levels = Level::available();
    let Some(&level) = levels.iter().find(|level| level.name().contains("amx")) else {
        return;
    };
    let context = Context { threads: &threads, level };
    let halves = |length: usize| -> Vec<Bf16> {
        let values = Numbers(length as u64).vector(length);
        values.into_iter().map(Bf16::from).collect()
    };
    let (a, b) = (halves(64 * 96), halves(96 * 64));
    let multiply = || {
        let mut out = vec![f32::NAN; 64 * 64];
        matmul(context, Matrix::new(&a, 64, 96), Matrix::new(&b, 96, 64), &mut out).unwrap();
        assert!(out.iter().all(|value| value.is_finite()));
    };
    multiply();
    assert_eq!(config().palette, 0, "released");
    let mut others = TileConfig { palette: 1, ..TileConfig::default() };
    (others.rows[3], others.row_bytes[3]) = (1, 64);
    let mut row = [7_u8; 64];
    // SAFETY: AMX is permitted, the configuration is valid for palette 1, and the row is as long as
    // what is read.
    unsafe {
        asm!("ldtilecfg [{others}]", "tileloadd tmm3, [{row} + {line}*1]",
             others = in(reg) &others, row = in(reg) &row, line = in(reg) 64_usize);
    }
    multiply();
    assert_eq!(config(), others);
    // SAFETY: AMX is permitted, and the row is as long as what is written.
    unsafe {
        asm!("tilestored [{row} + {line}*1], tmm3", "tilerelease",
             row = in(reg) &mut row, line = in(reg) 64_usize);
    }
    // To configure tiles is to clear them: the product did.
    assert_eq!(row, [0; 64]);
}

//! GEMM without cuBLASLt: a simple kernel for operands of any strides.

use super::call::{Call, int};
use super::define::Define;
use super::error::launch_error;
use super::grid::grid_2d;
use crate::blas::{Element, Epilogue, GemmPointers, GemmProblem, Matrix};
use crate::device::LaunchConfig;
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

const TILE: u64 = 64;
const THREADS: u64 = 256;
/// The most CTAs along a grid's y and z.
const MAX_GRID_YZ: u64 = 65_535;

fn type_name(element: Element) -> Result<&'static str> {
    match element {
        Element::F32 => Ok("float"),
        Element::F16 => Ok("fp16"),
        Element::Bf16 => Ok("bf16"),
        Element::E4m3 => Err(launch_error(
            "GEMM of 8-bit floats: expected cuBLASLt, got none\nhint: pip install \"assay[gpu]\""
                .to_owned(),
        )),
    }
}

/// The strides of rows, columns and matrices of a batch.
fn strides(matrix: &Matrix) -> [KernelArgument; 3] {
    let (row, column) = match matrix.transposed {
        true => (1, matrix.stride),
        false => (matrix.stride, 1),
    };
    [row, column, matrix.batch_stride].map(|step| KernelArgument::I64(step.cast_signed()))
}

pub(super) fn fallback_gemm(
    call: &Call<'_>,
    problem: &GemmProblem,
    pointers: &GemmPointers,
) -> Result<()> {
    let epilogue = match problem.epilogue {
        Epilogue::None => 0u64,
        Epilogue::Relu => 1,
        Epilogue::GeluTanh => 2,
    };
    let defines: [Define; 3] = [
        ("TYPE", type_name(problem.a.element)?.into()),
        ("OUTPUT", type_name(problem.out.element)?.into()),
        ("EPILOGUE", epilogue.into()),
    ];
    let (tiles_n, tiles_m) = (problem.columns.div_ceil(TILE), problem.rows.div_ceil(TILE));
    if tiles_m > MAX_GRID_YZ || u64::from(problem.batch) > MAX_GRID_YZ {
        return Err(launch_error(format!(
            "GEMM without cuBLASLt: expected at most {} rows and {MAX_GRID_YZ} matrices, got {} and {}",
            MAX_GRID_YZ * TILE,
            problem.rows,
            problem.batch
        )));
    }
    let pointer = KernelArgument::Pointer;
    let or_null = |address: Option<DevicePointer>| pointer(address.unwrap_or(DevicePointer(0)));
    let mut arguments = vec![
        pointer(pointers.a),
        pointer(pointers.b),
        or_null(pointers.c),
        or_null(pointers.bias),
        pointer(pointers.out),
        int(problem.rows),
        int(problem.columns),
        int(problem.inner),
    ];
    arguments.extend(strides(&problem.a));
    arguments.extend(strides(&problem.b));
    let [row, _, batch] = strides(&problem.out);
    arguments.extend([row, batch]);
    let config_2d = grid_2d(tiles_n, tiles_m, THREADS);
    let config =
        LaunchConfig { grid: [config_2d.grid[0], config_2d.grid[1], problem.batch], ..config_2d };
    let function = call.function("matmul", &defines)?;
    call.queue.launch(&function, config, &arguments)
}

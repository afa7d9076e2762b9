//! Products where there is no cuBLASLt: by a kernel of ours for any layout, right rather than quick.

use super::rows::plane;
use super::tools::{Setting, Tools};
use super::{call::int, refused};
use crate::blas::{Element, Epilogue, Matrix, Places, Product};
use crate::device::{Extent, Queue};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

const TILE: u64 = 64;
const THREADS: u64 = 256;
/// The most blocks of a grid's second and third extents.
const MOST: u64 = 65_535;

fn type_name(element: Element) -> Result<&'static str> {
    match element {
        Element::F32 => Ok("float"),
        Element::F16 => Ok("fp16"),
        Element::Bf16 => Ok("bf16"),
        Element::E4m3 => Err(refused(
            "products of 8-bit floats: expected cuBLASLt, got none\nhint: pip install \"assay[gpu]\""
                .to_owned(),
        )),
    }
}

/// Steps from row to row, from column to column and from matrix to matrix.
fn strides(matrix: &Matrix) -> [KernelArgument; 3] {
    let (row, column) = match matrix.transposed {
        true => (1, matrix.stride),
        false => (matrix.stride, 1),
    };
    [row, column, matrix.batch_stride].map(|step| KernelArgument::I64(step.cast_signed()))
}

pub(super) fn multiply(
    tools: &Tools,
    queue: &Queue<'_>,
    product: &Product,
    places: &Places,
) -> Result<()> {
    let epilogue = match product.epilogue {
        Epilogue::Plain => 0u64,
        Epilogue::Relu => 1,
        Epilogue::GeluTanh => 2,
    };
    let settings: [Setting; 3] = [
        ("TYPE", type_name(product.a.element)?.into()),
        ("OUTPUT", type_name(product.out.element)?.into()),
        ("EPILOGUE", epilogue.into()),
    ];
    let (across, down) = (product.columns.div_ceil(TILE), product.rows.div_ceil(TILE));
    if down > MOST || u64::from(product.batch) > MOST {
        return Err(refused(format!(
            "products without cuBLASLt: expected at most {} rows and {MOST} matrices, got {} and {}",
            MOST * TILE,
            product.rows,
            product.batch
        )));
    }
    let at = KernelArgument::Pointer;
    let or_null = |place: Option<DevicePointer>| at(place.unwrap_or(DevicePointer(0)));
    let mut arguments = vec![
        at(places.a),
        at(places.b),
        or_null(places.added),
        or_null(places.bias),
        at(places.out),
        int(product.rows),
        int(product.columns),
        int(product.inner),
    ];
    arguments.extend(strides(&product.a));
    arguments.extend(strides(&product.b));
    let [row, _, batch] = strides(&product.out);
    arguments.extend([row, batch]);
    let plain = plane(across, down, THREADS);
    let extent = Extent {
        grid: [plain.grid[0], plain.grid[1], product.batch],
        ..plain
    };
    let function = tools.function(queue, "matmul", &settings)?;
    queue.launch(&function, extent, &arguments)
}

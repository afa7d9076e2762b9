//! Matrix products of single precision and bfloat16 by the processor's own kernels.
//!
//! NumPy knows no bfloat16: it would widen both matrices first. These read the bytes as they are.

use std::mem::size_of;

use assay_core::backend::{BackendError, DevicePointer, KernelArgument, Launch, Operation, Result};
use assay_cpu::device::{CpuKernel, KernelCall};
use assay_cpu::error::OpError;
use assay_cpu::ops::{Bf16, Context, Element, Epilogue, LinearShape, Matrix, linear, matmul};

/// A matrix in device memory; strides count elements.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub pointer: DevicePointer,
    pub row_stride: u64,
    pub column_stride: u64,
    /// Whether elements are bfloat16 instead of single precision.
    pub narrow: bool,
}

/// A product of an `m` by `k` and a `k` by `n` matrix, written row by row without gaps.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub a: Operand,
    pub b: Operand,
    pub out: Operand,
    pub m: u64,
    pub k: u64,
    pub n: u64,
}

const PARAMETERS: usize = 15;

impl Product {
    /// The launch of this product.
    pub fn launch(&self, kernel: assay_core::backend::KernelId) -> Launch {
        let mut arguments = Vec::with_capacity(PARAMETERS);
        for operand in [self.a, self.b, self.out] {
            arguments.push(KernelArgument::Pointer(operand.pointer));
            arguments.push(KernelArgument::U64(operand.row_stride));
            arguments.push(KernelArgument::U64(operand.column_stride));
            arguments.push(KernelArgument::U64(operand.narrow.into()));
        }
        arguments.extend([self.m, self.k, self.n].map(KernelArgument::U64));
        Launch {
            kernel,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            arguments,
        }
    }

    fn of(arguments: &[KernelArgument]) -> Option<Self> {
        let number = |at: usize| match arguments.get(at) {
            Some(KernelArgument::U64(value)) => Some(*value),
            _ => None,
        };
        let operand = |at: usize| match arguments.get(at) {
            Some(KernelArgument::Pointer(pointer)) => Some(Operand {
                pointer: *pointer,
                row_stride: number(at + 1)?,
                column_stride: number(at + 2)?,
                narrow: number(at + 3)? != 0,
            }),
            _ => None,
        };
        Some(Product {
            a: operand(0)?,
            b: operand(4)?,
            out: operand(8)?,
            m: number(12)?,
            k: number(13)?,
            n: number(14)?,
        })
    }
}

fn wrong(message: String) -> BackendError {
    BackendError::Driver {
        operation: Operation::Launch,
        message,
    }
}

/// How many elements a matrix reaches from its first on.
fn reach(operand: Operand, rows: u64, columns: u64) -> Result<usize> {
    let along = |extent: u64, stride: u64| extent.checked_sub(1)?.checked_mul(stride);
    along(rows, operand.row_stride)
        .zip(along(columns, operand.column_stride))
        .and_then(|(down, across)| down.checked_add(across)?.checked_add(1))
        .and_then(|elements| usize::try_from(elements).ok())
        .ok_or_else(|| {
            wrong(format!(
                "expected a matrix in memory, got {rows} x {columns}"
            ))
        })
}

/// The first element, after looking that all of them lie in one allocation.
fn first<T>(call: &KernelCall<'_>, operand: Operand, elements: usize) -> Result<*mut T> {
    let bytes = elements.saturating_mul(size_of::<T>()) as u64;
    let pointer = call.pointer(operand.pointer, bytes)?.cast::<T>();
    match pointer.is_aligned() {
        true => Ok(pointer),
        false => Err(wrong(
            "expected aligned elements, got an odd address".to_owned(),
        )),
    }
}

/// The elements of an operand that is read.
///
/// # Safety
///
/// Nothing may write to them while the slice is used: the order of streams sees to it.
unsafe fn slice<'a, T>(
    call: &'a KernelCall<'_>,
    operand: Operand,
    elements: usize,
) -> Result<&'a [T]> {
    let pointer = first::<T>(call, operand, elements)?;
    // SAFETY: the range lies in one live allocation, is aligned, and every bit pattern is a number.
    Ok(unsafe { std::slice::from_raw_parts(pointer, elements) })
}

/// What a launch needs, looked at before it is queued and again when it runs.
struct Checked {
    product: Product,
    sizes: [usize; 3],
    a: usize,
    b: usize,
    out: usize,
}

fn checked(call: &KernelCall<'_>) -> Result<Checked> {
    let product = Product::of(call.arguments())
        .ok_or_else(|| wrong("expected the arguments of a product, got others".to_owned()))?;
    let Product { a, b, out, m, k, n } = product;
    let (a_elements, b_elements) = (reach(a, m, k)?, reach(b, k, n)?);
    let out_elements = reach(out, m, n)?;
    for (operand, elements) in [(a, a_elements), (b, b_elements), (out, out_elements)] {
        match operand.narrow {
            true => first::<Bf16>(call, operand, elements).map(|_| ())?,
            false => first::<f32>(call, operand, elements).map(|_| ())?,
        }
    }
    let size = |extent: u64| usize::try_from(extent).unwrap_or(usize::MAX);
    Ok(Checked {
        product,
        sizes: [m, k, n].map(size),
        a: a_elements,
        b: b_elements,
        out: out_elements,
    })
}

impl Checked {
    fn run(&self, call: &KernelCall<'_>) -> Result<()> {
        let Operand { narrow, .. } = self.product.out;
        let elements = self.out;
        if narrow {
            let mut wide = vec![0.0; elements];
            self.multiply(call, &mut wide)?;
            let pointer = first::<Bf16>(call, self.product.out, elements)?;
            // SAFETY: checked as in `slice`; the memory is this launch's own to write, by the
            // order of streams.
            let out = unsafe { std::slice::from_raw_parts_mut(pointer, elements) };
            for (to, from) in out.iter_mut().zip(&wide) {
                *to = Bf16::from(*from);
            }
            return Ok(());
        }
        let pointer = first::<f32>(call, self.product.out, elements)?;
        // SAFETY: as above.
        self.multiply(call, unsafe {
            std::slice::from_raw_parts_mut(pointer, elements)
        })
    }

    fn multiply(&self, call: &KernelCall<'_>, out: &mut [f32]) -> Result<()> {
        let Product { a, b, .. } = self.product;
        // SAFETY: work that writes these comes before or after this launch, by the order of streams.
        unsafe {
            match (a.narrow, b.narrow) {
                (false, false) => self.of_types::<f32, f32>(call, out),
                (false, true) => self.of_types::<f32, Bf16>(call, out),
                (true, false) => self.of_types::<Bf16, f32>(call, out),
                (true, true) => self.of_types::<Bf16, Bf16>(call, out),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`slice`].
    unsafe fn of_types<A: Element, B: Element>(
        &self,
        call: &KernelCall<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        let Product { a, b, .. } = self.product;
        let [rows, inner, columns] = self.sizes;
        // SAFETY: the caller vouches for it.
        let left: &[A] = unsafe { slice(call, a, self.a)? };
        // SAFETY: as above.
        let right: &[B] = unsafe { slice(call, b, self.b)? };
        let rows_lie_in_order = a.column_stride == 1 && a.row_stride == inner as u64;
        let columns_lie_in_order = b.row_stride == 1 && b.column_stride == inner as u64;
        let outcome = if rows_lie_in_order && columns_lie_in_order {
            // The product with a transposed matrix, as in a linear layer: it is streamed once.
            let wide: Vec<f32> = left.iter().map(|&value| value.into()).collect();
            let shape = LinearShape {
                rows,
                inputs: inner,
                outputs: columns,
            };
            linear(
                Context::best(),
                &wide,
                right,
                shape,
                Epilogue::default(),
                out,
            )
        } else {
            let left = matrix(left, rows, inner, a);
            let right = matrix(right, inner, columns, b);
            matmul(Context::best(), left, right, out)
        };
        outcome.map_err(|error: OpError| wrong(error.to_string()))
    }
}

fn matrix<T>(data: &[T], rows: usize, columns: usize, operand: Operand) -> Matrix<'_, T> {
    Matrix {
        data,
        rows,
        columns,
        row_stride: operand.row_stride as usize,
        column_stride: operand.column_stride as usize,
    }
}

/// The kernel of products.
pub(super) fn kernel() -> CpuKernel {
    CpuKernel {
        name: "product".to_owned(),
        parameters: PARAMETERS,
        check: Some(Box::new(|call| checked(call).map(|_| ()))),
        body: Box::new(|call| checked(call)?.run(call)),
    }
}

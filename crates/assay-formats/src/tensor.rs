//! Tensors as ranges of a file.

use std::ops::Range;

use crate::error::{Fault, FormatError, Result, quoted};
use assay_operations::ElementFormat;

/// Name, format, shape and byte range of one tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// Its name, unique in the file.
    pub name: String,
    /// Its element format.
    pub format: ElementFormat,
    /// Its shape, slowest dimension first, as in NumPy.
    pub shape: Vec<u64>,
    /// Its bytes in the file; ranges do not overlap.
    pub range: Range<usize>,
}

/// Bytes of a tensor; `field` names it in errors.
pub(crate) fn sizes(field: &str, format: ElementFormat, shape: &[u64]) -> Result<u64> {
    let values = shape
        .iter()
        .try_fold(1_u64, |product, extent| product.checked_mul(*extent))
        .ok_or_else(|| {
            FormatError::new(
                Fault::Shape,
                format_args!("{field} shape"),
                "a number of elements below 2^64",
                format_args!("{shape:?}"),
            )
        })?;
    // Blocks do not cross rows, so the fastest dimension must fill whole blocks.
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(format.block_values()) {
        return Err(FormatError::new(
            Fault::Shape,
            format_args!("{field} shape"),
            format_args!("rows of a multiple of {} elements for {format}", format.block_values()),
            format_args!("{shape:?}"),
        ));
    }
    format.bytes(values).ok_or_else(|| {
        FormatError::new(
            Fault::Shape,
            format_args!("{field} shape"),
            "a number of bytes below 2^64",
            format_args!("{shape:?} of {format}"),
        )
    })
}

/// Refuses tensors that share bytes.
pub(crate) fn check_overlaps(tensors: &[Tensor]) -> Result<()> {
    let mut order: Vec<&Tensor> =
        tensors.iter().filter(|tensor| !tensor.range.is_empty()).collect();
    order.sort_by_key(|tensor| tensor.range.start);
    for pair in order.windows(2) {
        if pair[0].range.end > pair[1].range.start {
            return Err(FormatError::new(
                Fault::Overlap,
                format_args!("tensor {} offset", quoted(&pair[1].name)),
                format_args!(
                    "byte {} or later, where tensor {} ends",
                    pair[0].range.end,
                    quoted(&pair[0].name)
                ),
                format_args!("byte {}", pair[1].range.start),
            ));
        }
    }
    Ok(())
}

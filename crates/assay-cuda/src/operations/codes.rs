//! `codes.cuh`: the enumerations that kernels share with Rust and Python, generated from their tables.

use super::packed_layout::{BLOCKS, ScaleFormat, WeightFormat};
use super::type_names::element_type;
use assay_operations::{Activation, ElementFormat};
use std::fmt::Debug;

fn joined<T>(items: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    let texts: Vec<String> = items.into_iter().map(text).collect();
    texts.join(", ")
}

/// A scoped enumeration: its values do not compare with those of another.
fn enumeration<T: Debug>(name: &str, variants: impl IntoIterator<Item = T>) -> String {
    let names = joined(variants, |variant| format!("{variant:?}"));
    format!("enum class {name} {{ {names} }};\n")
}

/// The text of the header.
pub(crate) fn header() -> String {
    let sizes =
        joined(BLOCKS, |format| format!("{{{}, {}}}", format.block_values(), format.block_bytes()));
    // Kernels get the formats of array elements as integers, at run time.
    let elements = ElementFormat::ALL.iter().filter_map(|&format| {
        let name = format.name().to_uppercase();
        Some((name, format.code(), element_type(format)?))
    });
    let codes = joined(elements.clone(), |(name, code, _)| format!("{name} = {code}"));
    let cases: String =
        elements.map(|(name, _, element)| format!(" CASE({name}, {element})")).collect();
    [
        "#pragma once\n",
        &enumeration("WeightFormat", WeightFormat::ALL),
        &enumeration("ScaleFormat", ScaleFormat::ALL),
        &enumeration("BlockFormat", BLOCKS),
        "struct BlockSize {\n    int weights, bytes;\n};\n",
        &format!("constexpr BlockSize BLOCK_SIZES[] = {{{sizes}}};\n"),
        &enumeration("Activation", Activation::ALL),
        &format!("enum ElementFormat {{ {codes} }};\n"),
        &format!("#define EVERY_FORMAT(CASE){cases}\n"),
    ]
    .concat()
}

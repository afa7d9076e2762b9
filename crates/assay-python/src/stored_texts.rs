//! A list of strings in a mapped file, read on demand.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use assay_formats::Mapping;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::runtime::errors;

/// A list of strings in a mapped file.
#[pyclass(module = "assay._native", frozen)]
pub(crate) struct StoredTexts {
    mapping: Arc<Mapping>,
    key: String,
    ranges: Vec<Range<usize>>,
}

impl StoredTexts {
    /// Stores the ranges of strings of a mapping.
    pub(crate) fn new<'a>(
        mapping: &'a Arc<Mapping>,
        key: &str,
        texts: impl Iterator<Item = &'a str>,
    ) -> Self {
        let first = mapping.bytes().as_ptr().addr();
        let range = |text: &str| {
            let start = text.as_ptr().addr() - first;
            start..start + text.len()
        };
        StoredTexts {
            mapping: Arc::clone(mapping),
            key: key.to_owned(),
            ranges: texts.map(range).collect(),
        }
    }

    fn text(&self, index: usize) -> PyResult<&str> {
        let Some(range) = self.ranges.get(index) else {
            return Err(PyIndexError::new_err(index));
        };
        // Validated when the file was opened: fails only if the file was modified since.
        std::str::from_utf8(&self.mapping.bytes()[range.clone()])
            .map_err(|error| self.wrong(index, "text", &error.to_string()))
    }

    fn wrong(&self, index: usize, expected: &str, got: &str) -> PyErr {
        let text = format!("{} {index}: expected {expected}, got {got}", self.key);
        errors::of_class("InputError", "text", &text)
    }
}

#[pymethods]
impl StoredTexts {
    fn __len__(&self) -> usize {
        self.ranges.len()
    }

    fn __getitem__(&self, index: usize) -> PyResult<&str> {
        self.text(index)
    }

    /// The index of each text; a repeated text has its last index.
    ///
    /// With `within`, only texts that are substrings of it.
    #[pyo3(signature = (within = None))]
    fn indices<'py>(&self, py: Python<'py>, within: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
        let indices = PyDict::new(py);
        let within = within.map(Haystack::new);
        for index in 0..self.ranges.len() {
            let text = self.text(index)?;
            if within.as_ref().is_none_or(|within| within.has(&[text])) {
                indices.set_item(text, index)?;
            }
        }
        Ok(indices)
    }

    /// A repeated text, or None.
    fn repeated(&self) -> PyResult<Option<&str>> {
        let mut known = HashSet::with_capacity(self.ranges.len());
        for index in 0..self.ranges.len() {
            let text = self.text(index)?;
            if !known.insert(text) {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// The texts, each split at its first space after the first character.
    ///
    /// With `within`, only pairs whose concatenation is a substring of it.
    #[pyo3(signature = (within = None))]
    fn pairs<'py>(&self, py: Python<'py>, within: Option<&str>) -> PyResult<Bound<'py, PyList>> {
        let mut pairs = Vec::new();
        let within = within.map(Haystack::new);
        for index in 0..self.ranges.len() {
            let text = self.text(index)?;
            let space = text.bytes().skip(1).position(|byte| byte == b' ');
            let Some(at) = space.map(|at| at + 1) else {
                return Err(self.wrong(index, "two texts and a space", &format!("{text:?}")));
            };
            let (first, second) = (&text[..at], &text[at + 1..]);
            let within = within.as_ref();
            if within.is_none_or(|within| within.has(&[first, second])) {
                pairs.push((first, second).into_pyobject(py)?);
            }
        }
        PyList::new(py, pairs)
    }
}

/// A text that is searched for substrings.
struct Haystack<'a> {
    text: &'a str,
    /// The bytes that occur in it: most texts of a vocabulary have another one and are skipped.
    bytes: [bool; 256],
}

impl<'a> Haystack<'a> {
    fn new(text: &'a str) -> Self {
        let mut bytes = [false; 256];
        for byte in text.bytes() {
            bytes[usize::from(byte)] = true;
        }
        Haystack { text, bytes }
    }

    /// Whether the concatenation of some parts is a substring of it.
    fn has(&self, parts: &[&str]) -> bool {
        let possible = |part: &&str| part.bytes().all(|byte| self.bytes[usize::from(byte)]);
        parts.iter().all(possible) && self.text.contains(&parts.concat())
    }
}

//! Elementwise operators by name, called through cached kernel plans.
//!
//! Other devices, broadcasting, tenants and types without a kernel fall back to Python.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use super::array::PyArray;
use super::array_operators::{self, Operators};
use super::errors;
use super::kernel_plan::{Input, PyPlan};
use super::panic_guard::guarded;
use super::stream::current_stream;

/// The size limit of the plan cache, which is cleared when full.
const MAX_CACHED_PLANS: usize = 4_096;

/// The object that the operators of arrays call.
static SHARED: OnceLock<Py<PyOperators>> = OnceLock::new();

fn shared() -> PyResult<&'static PyOperators> {
    let found = SHARED.get().map(Py::get);
    found.ok_or_else(|| errors::invalid("operators: expected them to be there, got none"))
}

/// An operand as the plan cache distinguishes them.
#[derive(Clone, Copy)]
enum Operand<'a, 'py> {
    Array(&'a PyArray),
    Integer(&'a Bound<'py, PyAny>),
    Float(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Operand<'a, 'py> {
    fn new(object: &'a Bound<'py, PyAny>) -> Option<Self> {
        if let Ok(array) = object.cast::<PyArray>() {
            return Some(Operand::Array(array.get()));
        }
        if object.is_exact_instance_of::<PyFloat>() {
            return Some(Operand::Float(object));
        }
        let integer = object.is_exact_instance_of::<PyInt>();
        integer.then_some(Operand::Integer(object))
    }

    /// A code below 128: the element format of an array, or that of a scalar.
    fn kind(self) -> u64 {
        match self {
            Operand::Array(array) => u64::from(array.element().code()),
            Operand::Integer(_) => 126,
            Operand::Float(_) => 127,
        }
    }

    fn array(self) -> Option<&'a PyArray> {
        match self {
            Operand::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The plan's input for this operand, if it is representable.
    fn input(self, plan: &PyPlan) -> Option<Input<'a>> {
        match self {
            Operand::Array(array) => Some(Input::Array(array)),
            Operand::Integer(number) | Operand::Float(number) => {
                plan.bits(number).map(Input::Number)
            }
        }
    }
}

/// The address of the operation's interned name, combined with the kinds of its operands.
type Key = u64;

fn key(name: &Bound<'_, PyString>, first: Operand<'_, '_>, second: Option<Operand<'_, '_>>) -> Key {
    // User-space addresses have 47 bits, and objects are aligned to 16 bytes.
    let address = name.as_ptr().addr() as u64 >> 4;
    address << 16 | first.kind() << 8 | second.map_or(255, Operand::kind)
}

/// Spreads the bits of a key.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A plan, if any; the reference to the name keeps its address, and so the key, valid.
struct CachedPlan {
    plan: Option<Py<PyPlan>>,
    _name: Py<PyString>,
}

/// The elementwise operators of arrays.
#[pyclass(name = "NativeOperators", module = "assay._native", frozen)]
pub(super) struct PyOperators {
    plans: Mutex<HashMap<Key, CachedPlan, BuildHasherDefault<KeyHasher>>>,
    /// Returns the plan for a name and operands, or None.
    plan: Py<PyAny>,
    /// The fallbacks for calls without a plan.
    unary: Py<PyAny>,
    binary: Py<PyAny>,
}

#[pymethods]
impl PyOperators {
    #[new]
    fn new(plan: Py<PyAny>, unary: Py<PyAny>, binary: Py<PyAny>) -> Self {
        PyOperators { plans: Mutex::default(), plan, unary, binary }
    }

    /// Install this as the array operators; only the first call has an effect.
    fn install(slf: Py<Self>) {
        let _ = SHARED.set(slf);
        array_operators::install(Operators {
            binary: |name, first, second| shared()?.binary(name, first, second),
            unary: |name, x| shared()?.unary(name, x),
        });
    }

    /// Apply a unary elementwise operation.
    fn unary<'py>(
        &self,
        name: &Bound<'py, PyString>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.try_plan(name, x, None)? {
            Some(result) => Ok(result),
            None => self.unary.bind(name.py()).call1((name, x)),
        }
    }

    /// Apply a binary elementwise operation; NotImplemented for unsupported operands.
    fn binary<'py>(
        &self,
        name: &Bound<'py, PyString>,
        first: &Bound<'py, PyAny>,
        second: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.try_plan(name, first, Some(second))? {
            Some(result) => Ok(result),
            None => self.binary.bind(name.py()).call1((name, first, second)),
        }
    }
}

impl PyOperators {
    /// The result, if there is a plan for the operands.
    fn try_plan<'py>(
        &self,
        name: &Bound<'py, PyString>,
        first: &Bound<'py, PyAny>,
        second: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = name.py();
        let operand = second.map(|second| (second, Operand::new(second)));
        let (Some(one), other) = (Operand::new(first), operand.and_then(|(_, other)| other)) else {
            return Ok(None);
        };
        if second.is_some() && other.is_none() {
            return Ok(None);
        }
        let arrays = (one.array(), other.and_then(Operand::array));
        let Some(model) = arrays.0.or(arrays.1) else {
            return Ok(None);
        };
        let runtime = model.memory().runtime();
        if !runtime.is_gpu() || !runtime.has_no_accounts() {
            return Ok(None);
        }
        if let (Some(first), Some(second)) = arrays
            && !first.device().is(second.device())
        {
            return Ok(None);
        }
        let Some(plan) = self.plan(key(name, one, other), name, first, second)? else {
            return Ok(None);
        };
        let plan = plan.get();
        let Some(input) = one.input(plan) else {
            return Ok(None);
        };
        let next = match other {
            None => None,
            Some(other) => match other.input(plan) {
                Some(input) => Some(input),
                None => return Ok(None),
            },
        };
        guarded(plan.label(), || {
            let stream = current_stream(py, runtime, model.device())?;
            plan.apply(py, runtime, stream, model, [Some(input), next])
        })
    }

    /// The cached plan for operands of these kinds.
    fn plan(
        &self,
        key: Key,
        name: &Bound<'_, PyString>,
        first: &Bound<'_, PyAny>,
        second: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Py<PyPlan>>> {
        let py = name.py();
        let lock = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(known.plan.as_ref().map(|plan| plan.clone_ref(py)));
        }
        let plan: Option<Py<PyPlan>> =
            self.plan.bind(py).call1((name, first, second))?.extract()?;
        let interned = PyString::intern(py, name.to_str()?);
        // A name that is not interned may be freed and its address reused.
        if interned.is(name) {
            let mut plans = lock();
            if plans.len() >= MAX_CACHED_PLANS {
                plans.clear();
            }
            let remembered = CachedPlan {
                plan: plan.as_ref().map(|plan| plan.clone_ref(py)),
                _name: interned.unbind(),
            };
            plans.insert(key, remembered);
        }
        Ok(plan)
    }
}

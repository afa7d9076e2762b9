//! Elementwise operations by name: straight to their kernel where there is a plan for it.
//!
//! Everything else (other devices, shapes that stretch, tenants, types without a kernel) is
//! Python's to do.

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

/// Plans that are kept; when there are more, all are asked for again.
const MAX_CACHED_PLANS: usize = 4_096;

/// The object that the operators of arrays call.
static SHARED: OnceLock<Py<PyOperators>> = OnceLock::new();

fn shared() -> PyResult<&'static PyOperators> {
    let found = SHARED.get().map(Py::get);
    found.ok_or_else(|| errors::invalid("operators: expected them to be there, got none"))
}

/// An operand as plans tell them apart.
#[derive(Clone, Copy)]
enum Operand<'a, 'py> {
    Array(&'a PyArray),
    Integer(&'a Bound<'py, PyAny>),
    Float(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Operand<'a, 'py> {
    fn new(given: &'a Bound<'py, PyAny>) -> Option<Self> {
        if let Ok(array) = given.cast::<PyArray>() {
            return Some(Operand::Array(array.get()));
        }
        if given.is_exact_instance_of::<PyFloat>() {
            return Some(Operand::Float(given));
        }
        let whole = given.is_exact_instance_of::<PyInt>();
        whole.then_some(Operand::Integer(given))
    }

    /// A number for its kind below 128: the format of an array's elements, or that of a number.
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

    /// As the plan computes with it, if it fits.
    fn input(self, plan: &PyPlan) -> Option<Input<'a>> {
        match self {
            Operand::Array(array) => Some(Input::Array(array)),
            Operand::Integer(number) | Operand::Float(number) => {
                plan.bits(number).map(Input::Number)
            }
        }
    }
}

/// An operation by the address of its name, which is interned, and the kinds of its operands.
type Key = u64;

fn key(name: &Bound<'_, PyString>, first: Operand<'_, '_>, second: Option<Operand<'_, '_>>) -> Key {
    // A process gets addresses of 47 bits, and objects lie at multiples of 16.
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

/// A plan, if there is one, and the name that keeps its key good.
struct CachedPlan {
    plan: Option<Py<PyPlan>>,
    _name: Py<PyString>,
}

/// The operations of arrays.
#[pyclass(name = "NativeOperators", module = "assay._native", frozen)]
pub(super) struct PyOperators {
    plans: Mutex<HashMap<Key, CachedPlan, BuildHasherDefault<KeyHasher>>>,
    /// Gives the plan for a name and operands, or None.
    plan: Py<PyAny>,
    /// Do what has no plan.
    unary: Py<PyAny>,
    binary: Py<PyAny>,
}

#[pymethods]
impl PyOperators {
    #[new]
    fn new(plan: Py<PyAny>, unary: Py<PyAny>, binary: Py<PyAny>) -> Self {
        PyOperators {
            plans: Mutex::default(),
            plan,
            unary,
            binary,
        }
    }

    /// Have the operators of arrays come here; only the first has a say.
    fn install(slf: Py<Self>) {
        let _ = SHARED.set(slf);
        array_operators::install(Operators {
            binary: |name, first, second| shared()?.binary(name, first, second),
            unary: |name, x| shared()?.unary(name, x),
        });
    }

    /// Apply an elementwise operation of one operand.
    fn unary<'py>(
        &self,
        name: &Bound<'py, PyString>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.try_plan(name, x, None)? {
            Some(made) => Ok(made),
            None => self.unary.bind(name.py()).call1((name, x)),
        }
    }

    /// Apply an elementwise operation of two operands; NotImplemented for what is no operand.
    fn binary<'py>(
        &self,
        name: &Bound<'py, PyString>,
        first: &Bound<'py, PyAny>,
        second: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.try_plan(name, first, Some(second))? {
            Some(made) => Ok(made),
            None => self.binary.bind(name.py()).call1((name, first, second)),
        }
    }
}

impl PyOperators {
    /// The result, where there is a plan for it.
    fn try_plan<'py>(
        &self,
        name: &Bound<'py, PyString>,
        first: &Bound<'py, PyAny>,
        second: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = name.py();
        let given = second.map(|second| (second, Operand::new(second)));
        let (Some(one), other) = (Operand::new(first), given.and_then(|(_, other)| other)) else {
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

    /// The plan for operands of these kinds, asked for once.
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
        // A name made by hand may give its address to another.
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

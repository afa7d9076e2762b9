//! Weight files for Python: metadata, and a zero-copy view of each tensor's bytes.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use assay_formats::gguf::{Array, Kind, Scalar, Value};
use assay_formats::{
    Ctranslate2, FormatError, GgmlWhisper, Gguf, Mapping, SafeTensors, Sound, Tensor,
};
use pyo3::exceptions::{PyBufferError, PyKeyError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::runtime::errors;
use crate::stored_texts::StoredTexts;

/// Adds the names of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GgufFile>()?;
    module.add_class::<SafeTensorsFile>()?;
    module.add_class::<Ctranslate2File>()?;
    module.add_class::<GgmlWhisperFile>()?;
    module.add_class::<SoundFile>()?;
    module.add_class::<StoredTensor>()?;
    module.add_class::<StoredTexts>()
}

pub(crate) fn refused(error: &FormatError) -> PyErr {
    errors::of_class("InputError", error.code(), &error.to_string())
}

/// One tensor of a mapped file.
#[pyclass(module = "assay._native", frozen)]
pub(crate) struct StoredTensor {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) tensor: Tensor,
}

#[pymethods]
impl StoredTensor {
    /// Its name in the file.
    #[getter]
    fn name(&self) -> &str {
        &self.tensor.name
    }

    /// Its storage format.
    #[getter]
    fn format(&self) -> &'static str {
        self.tensor.format.name()
    }

    /// Its shape, slowest axis first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.tensor.shape)
    }

    /// Its size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.tensor.range.len()
    }

    /// Its byte offset in the file.
    #[getter]
    fn offset(&self) -> usize {
        self.tensor.range.start
    }

    /// # Safety
    ///
    /// `view` must be a `Py_buffer` that this call may fill in, as the buffer protocol specifies.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err(
                "buffer: expected memory to write to, got a file mapped for reading",
            ));
        }
        let stored = slf.get();
        let bytes = &stored.mapping.bytes()[stored.tensor.range.clone()];
        // SAFETY: Python passes a `Py_buffer` to fill in. The bytes are read-only and live as long
        // as the mapping; this object holds the mapping, and the view holds this object.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr().cast::<c_void>().cast_mut(),
                bytes.len() as ffi::Py_ssize_t,
                1,
                flags,
            )
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        let Tensor { name, format, shape, .. } = &self.tensor;
        format!("StoredTensor({name:?}, {format}, {shape:?})")
    }
}

fn stored(mapping: &Arc<Mapping>, tensors: &[Tensor]) -> Vec<StoredTensor> {
    let one =
        |tensor: &Tensor| StoredTensor { mapping: Arc::clone(mapping), tensor: tensor.clone() };
    tensors.iter().map(one).collect()
}

/// A memory-mapped, validated GGUF file.
#[pyclass(module = "assay._native", frozen)]
struct GgufFile(Gguf);

#[pymethods]
impl GgufFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Gguf::open(&path)).map(GgufFile).map_err(|error| refused(&error))
    }

    /// The version of the format.
    #[getter]
    fn version(&self) -> u32 {
        self.0.version()
    }

    /// The alignment of tensor offsets.
    #[getter]
    fn alignment(&self) -> u64 {
        self.0.alignment()
    }

    /// The metadata keys, in file order.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.metadata().iter().map(|(key, _)| key))
    }

    /// The value of a metadata key: a number, bool, string, or list of them.
    fn value<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.0.value(key) {
            Some(Value::Scalar(value)) => scalar(py, value),
            Some(Value::Array(array)) => Ok(self.list(py, array)?.into_any()),
            None => Err(PyKeyError::new_err(key.to_owned())),
        }
    }

    /// The length of a key's list; None if it is not a list.
    fn count(&self, key: &str) -> Option<usize> {
        match self.0.value(key) {
            Some(Value::Array(array)) => Some(array.count),
            _ => None,
        }
    }

    /// The strings of a key's list, read from the file on demand.
    fn texts(&self, key: &str) -> PyResult<StoredTexts> {
        let texts = self.0.texts(self.texts_of(key)?);
        Ok(StoredTexts::new(self.0.mapping(), key, texts))
    }

    /// The tensors, in file order.
    fn tensors(&self) -> Vec<StoredTensor> {
        stored(self.0.mapping(), self.0.tensors())
    }
}

impl GgufFile {
    fn texts_of(&self, key: &str) -> PyResult<&Array> {
        let found = match self.0.value(key) {
            None => return Err(PyKeyError::new_err(key.to_owned())),
            Some(Value::Array(array)) if array.kind == Kind::Text => return Ok(array),
            Some(other) => other.type_name(),
        };
        let text = format!("{key}: expected an array of text, got {found}");
        Err(errors::of_class("InputError", "type", &text))
    }

    fn list<'py>(&self, py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyList>> {
        if array.kind == Kind::Text {
            let texts = self.0.texts(array).map(|text| PyString::new(py, text));
            return PyList::new(py, texts.collect::<Vec<_>>());
        }
        let values = self.0.array_bytes(array).chunks_exact(array.kind.bytes());
        let values = values
            .filter_map(|bytes| Scalar::from_bytes(array.kind, bytes))
            .map(|value| scalar(py, &value));
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }
}

fn scalar<'py>(py: Python<'py>, value: &Scalar) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Scalar::U8(number) => number.into_pyobject(py)?.into_any(),
        Scalar::I8(number) => number.into_pyobject(py)?.into_any(),
        Scalar::U16(number) => number.into_pyobject(py)?.into_any(),
        Scalar::I16(number) => number.into_pyobject(py)?.into_any(),
        Scalar::U32(number) => number.into_pyobject(py)?.into_any(),
        Scalar::I32(number) => number.into_pyobject(py)?.into_any(),
        Scalar::F32(number) => number.into_pyobject(py)?.into_any(),
        Scalar::Bool(truth) => truth.into_pyobject(py)?.to_owned().into_any(),
        Scalar::Text(text) => PyString::new(py, text).into_any(),
        Scalar::U64(number) => number.into_pyobject(py)?.into_any(),
        Scalar::I64(number) => number.into_pyobject(py)?.into_any(),
        Scalar::F64(number) => number.into_pyobject(py)?.into_any(),
    })
}

/// A memory-mapped, validated safetensors file.
#[pyclass(module = "assay._native", frozen)]
struct SafeTensorsFile(SafeTensors);

#[pymethods]
impl SafeTensorsFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| SafeTensors::open(&path)).map(SafeTensorsFile).map_err(|error| refused(&error))
    }

    /// The free-form string metadata of the header.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (key, value) in self.0.metadata() {
            metadata.set_item(key, value)?;
        }
        Ok(metadata)
    }

    /// The tensors, in the order of the header.
    fn tensors(&self) -> Vec<StoredTensor> {
        stored(self.0.mapping(), self.0.tensors())
    }
}

/// A memory-mapped, validated model of CTranslate2.
#[pyclass(module = "assay._native", frozen)]
struct Ctranslate2File(Ctranslate2);

#[pymethods]
impl Ctranslate2File {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Ctranslate2::open(&path)).map(Ctranslate2File).map_err(|error| refused(&error))
    }

    /// The name of the model's specification.
    #[getter]
    fn spec(&self) -> &str {
        self.0.spec()
    }

    /// The revision of the specification.
    #[getter]
    fn revision(&self) -> u32 {
        self.0.revision()
    }

    /// Other names of variables, each with the name it stands for.
    fn aliases<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let aliases = PyDict::new(py);
        for (alias, target) in self.0.aliases() {
            aliases.set_item(alias, target)?;
        }
        Ok(aliases)
    }

    /// The variables, in file order.
    fn tensors(&self) -> Vec<StoredTensor> {
        stored(self.0.mapping(), self.0.tensors())
    }
}

/// A memory-mapped, validated ggml file of a Whisper model.
#[pyclass(module = "assay._native", frozen)]
struct GgmlWhisperFile(GgmlWhisper);

#[pymethods]
impl GgmlWhisperFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| GgmlWhisper::open(&path)).map(GgmlWhisperFile).map_err(|error| refused(&error))
    }

    /// The numbers at the head of the file, by name.
    fn hyperparameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let head = self.0.hyperparameters();
        let numbers = PyDict::new(py);
        for (name, number) in [
            ("vocabulary", head.vocabulary),
            ("audio_context", head.audio_context),
            ("audio_state", head.audio_state),
            ("audio_heads", head.audio_heads),
            ("audio_layers", head.audio_layers),
            ("text_context", head.text_context),
            ("text_state", head.text_state),
            ("text_heads", head.text_heads),
            ("text_layers", head.text_layers),
            ("mels", head.mels),
            ("file_type", head.file_type),
        ] {
            numbers.set_item(name, number)?;
        }
        Ok(numbers)
    }

    /// The bytes of each token; special ones are not in the file.
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.tokens().map(|token| PyBytes::new(py, token)).collect::<Vec<_>>())
    }

    /// The tensors, in file order.
    fn tensors(&self) -> Vec<StoredTensor> {
        stored(self.0.mapping(), self.0.tensors())
    }
}

/// A recording: WAV or FLAC.
#[pyclass(module = "assay._native", frozen)]
struct SoundFile(Sound);

#[pymethods]
impl SoundFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Sound::open(&path)).map(SoundFile).map_err(|error| refused(&error))
    }

    /// A recording in memory.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        py.detach(|| Sound::from_bytes(data.to_vec()))
            .map(SoundFile)
            .map_err(|error| refused(&error))
    }

    /// Samples a second, of each channel.
    #[getter]
    fn rate(&self) -> u32 {
        self.0.rate()
    }

    /// Channels of the file.
    #[getter]
    fn channels(&self) -> u16 {
        self.0.channels()
    }

    /// Samples of each channel.
    #[getter]
    fn frames(&self) -> usize {
        self.0.frames()
    }

    /// How samples are stored.
    #[getter]
    fn encoding(&self) -> &str {
        self.0.encoding()
    }

    /// Samples averaged over the channels, as float32.
    fn mono<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let samples = py.detach(|| self.0.mono(start, count)).map_err(|error| refused(&error))?;
        PyBytes::new_with(py, samples.len() * 4, |bytes| {
            for (place, sample) in bytes.chunks_exact_mut(4).zip(&samples) {
                place.copy_from_slice(&sample.to_le_bytes());
            }
            Ok(())
        })
    }
}

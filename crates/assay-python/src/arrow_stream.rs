//! Tables as streams of Arrow's C data interface, which share the memory of the columns.
//!
//! See <https://arrow.apache.org/docs/format/CDataInterface.html> and `CStreamInterface.html`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use assay_trace::columns::{Column, Data, Strings, zeros};
use assay_trace::schema::{DataType, FIELDS, Field};
use assay_trace::{Batch, TraceTable};

const NULLABLE: i64 = 2;

/// `struct ArrowSchema`.
#[repr(C)]
pub(crate) struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
pub(crate) struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub(crate) struct ArrowArrayStream {
    get_schema: unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int,
    get_next: unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

// SAFETY: what it points to is owned by it alone, and columns are shared by atomic counts.
unsafe impl Send for ArrowArrayStream {}

/// What a stream hands out.
type Contents = std::vec::IntoIter<Batch>;

impl ArrowArrayStream {
    /// The batches of a table.
    pub(crate) fn new(table: &TraceTable) -> Self {
        let contents: Box<Contents> = Box::new(table.batches().to_vec().into_iter());
        ArrowArrayStream {
            get_schema,
            get_next,
            get_last_error,
            release: Some(release_stream),
            private_data: Box::into_raw(contents).cast(),
        }
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: nobody took the stream, so it is still to be released, once.
            unsafe { release(self) };
        }
    }
}

unsafe extern "C" fn get_schema(_: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the caller passes room for a schema.
    unsafe { out.write(table_schema()) };
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: the caller passes a stream that is not released, and room for an array.
    unsafe {
        let contents = &mut *(*stream).private_data.cast::<Contents>();
        out.write(match contents.next() {
            Some(batch) => batch_array(&batch),
            // A released array marks the end.
            None => ArrowArray { release: None, ..array(0, 0, Vec::new(), Vec::new(), None, None) },
        });
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    null()
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: called once, with what `new` made.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Contents>()));
        (*stream).release = None;
    }
}

/// What a schema points to.
struct SchemaParts {
    _format: CString,
    _name: CString,
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
}

fn schema(
    format: &str,
    name: &str,
    nullable: bool,
    children: Vec<ArrowSchema>,
    dictionary: Option<ArrowSchema>,
) -> ArrowSchema {
    // Formats and names are our own, without zeros.
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let (format, name) = (text(format), text(name));
    let pointer = |schema| Box::into_raw(Box::new(schema));
    let mut parts = Box::new(SchemaParts {
        children: children.into_iter().map(pointer).collect(),
        dictionary: dictionary.map_or(null_mut(), pointer),
        _format: format,
        _name: name,
    });
    ArrowSchema {
        format: parts._format.as_ptr(),
        name: parts._name.as_ptr(),
        metadata: null(),
        flags: if nullable { NULLABLE } else { 0 },
        n_children: parts.children.len() as i64,
        children: parts.children.as_mut_ptr(),
        dictionary: parts.dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(parts).cast(),
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: called once, with what `schema` made; children may have been taken before.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for &part in parts.children.iter().chain([&parts.dictionary]) {
            if !part.is_null() {
                if let Some(release) = (*part).release {
                    release(part);
                }
                drop(Box::from_raw(part));
            }
        }
        (*schema).release = None;
    }
}

fn table_schema() -> ArrowSchema {
    let column = |field: &Field| {
        let leaf = |format, name, nullable| schema(format, name, nullable, Vec::new(), None);
        match field.kind {
            DataType::Int32 => leaf("i", field.name, field.nullable),
            DataType::Int64 => leaf("l", field.name, field.nullable),
            DataType::Float64 => leaf("g", field.name, field.nullable),
            DataType::LongTexts => leaf("u", field.name, field.nullable),
            DataType::Texts => {
                let texts = leaf("u", "", false);
                schema("I", field.name, field.nullable, Vec::new(), Some(texts))
            }
            DataType::Dimensions => {
                let item = leaf("i", "item", false);
                schema("+w:3", field.name, field.nullable, vec![item], None)
            }
        }
    };
    let columns = FIELDS.iter().map(column).collect();
    schema("+s", "", false, columns, None)
}

/// What an array points to, and the column that owns the memory.
struct ArrayParts {
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
    _column: Option<Arc<Column>>,
}

fn array(
    length: usize,
    nulls: usize,
    buffers: Vec<*const c_void>,
    children: Vec<ArrowArray>,
    dictionary: Option<ArrowArray>,
    column: Option<&Arc<Column>>,
) -> ArrowArray {
    let pointer = |array| Box::into_raw(Box::new(array));
    let mut parts = Box::new(ArrayParts {
        buffers,
        children: children.into_iter().map(pointer).collect(),
        dictionary: dictionary.map_or(null_mut(), pointer),
        _column: column.cloned(),
    });
    ArrowArray {
        length: length as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: parts.buffers.len() as i64,
        n_children: parts.children.len() as i64,
        buffers: parts.buffers.as_mut_ptr(),
        children: parts.children.as_mut_ptr(),
        dictionary: parts.dictionary,
        release: Some(release_array),
        private_data: Box::into_raw(parts).cast(),
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: called once, with what `array` made; children may have been taken before.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for &part in parts.children.iter().chain([&parts.dictionary]) {
            if !part.is_null() {
                if let Some(release) = (*part).release {
                    release(part);
                }
                drop(Box::from_raw(part));
            }
        }
        (*array).release = None;
    }
}

fn batch_array(batch: &Batch) -> ArrowArray {
    let columns = batch.columns().iter().map(column_array).collect();
    array(batch.rows(), 0, vec![null()], columns, None, None)
}

fn column_array(column: &Arc<Column>) -> ArrowArray {
    let (rows, nulls) = (column.rows(), column.nulls());
    let valid = column.validity().map_or(null(), |bits| bits.as_ptr().cast());
    // Values that are not stored, since no row has one, are zeros.
    let absent = rows > 0 && nulls == rows;
    let values = |stored: *const c_void| {
        if absent { zeros().as_ptr().cast() } else { stored }
    };
    let leaf = |stored: *const c_void| {
        let buffers = vec![valid, values(stored)];
        array(rows, nulls, buffers, Vec::new(), None, Some(column))
    };
    match column.data() {
        Data::Int32(stored) => leaf(stored.as_ptr().cast()),
        Data::Int64(stored) => leaf(stored.as_ptr().cast()),
        Data::Float64(stored) => leaf(stored.as_ptr().cast()),
        Data::LongTexts(texts) => {
            let offsets = values(texts.offsets.as_ptr().cast());
            let buffers = vec![valid, offsets, texts.bytes.as_ptr().cast()];
            array(rows, nulls, buffers, Vec::new(), None, Some(column))
        }
        Data::Texts(keys, texts) => {
            let buffers = vec![valid, values(keys.as_ptr().cast())];
            let dictionary = texts_array(texts, column);
            array(rows, nulls, buffers, Vec::new(), Some(dictionary), Some(column))
        }
        Data::Dimensions(stored) => {
            let sizes = vec![null(), values(stored.as_ptr().cast())];
            let sizes = array(3 * rows, 0, sizes, Vec::new(), None, Some(column));
            array(rows, nulls, vec![valid], vec![sizes], None, Some(column))
        }
    }
}

fn texts_array(texts: &Strings, column: &Arc<Column>) -> ArrowArray {
    let offsets = texts.offsets.as_ptr().cast();
    let buffers = vec![null(), offsets, texts.bytes.as_ptr().cast()];
    array(texts.len(), 0, buffers, Vec::new(), None, Some(column))
}

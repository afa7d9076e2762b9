//! What is compiled, and what comes out.

/// What is compiled.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// What messages call it, such as `gemv.cu`.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// Files that the text may include, by name.
    pub headers: &'a [(&'a str, &'a str)],
    /// Options of NVRTC besides architecture and language version, such as `-DROWS=4`.
    pub options: &'a [String],
}

/// Machine code that a driver can load: a cubin, or PTX where NVRTC is older than the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// The bytes, which for PTX end in a zero.
    pub bytes: Vec<u8>,
    /// What the compiler remarked, if anything.
    pub log: String,
}

//! Sources and compiled images.

/// A CUDA C++ source.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// The name in messages, such as `gemv.cu`.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// Headers that the text may include, by name.
    pub headers: &'a [(&'a str, &'a str)],
    /// Options of NVRTC besides architecture and language version, such as `-DROWS=4`.
    pub options: &'a [String],
}

/// An image that the driver can load: a cubin, or PTX where NVRTC is older than the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// The bytes; PTX is zero-terminated.
    pub bytes: Vec<u8>,
    /// The compiler's log.
    pub log: String,
}

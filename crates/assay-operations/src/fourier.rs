//! Kinds of Fourier transforms and of the values of frames; their codes in calls are their places.

use assay_collections::named;

named! {
    /// What is transformed into what; complex numbers are interleaved pairs.
    pub enum FourierKind {
        /// Complex to complex.
        Complex = "fft",
        /// Complex to complex, with positive exponents.
        Inverse = "ifft",
        /// Real to the first length / 2 + 1 complex numbers; the others are their conjugates.
        RealToComplex = "rfft",
        /// Those back to real; the imaginary parts of the first and, for even lengths, of the last do not count.
        ComplexToReal = "irfft",
    }
}

named! {
    /// What is stored for each frequency of a frame; its code is the CUDA kernels' `VALUE`.
    pub enum FrameValue {
        /// The complex number.
        Complex = "complex",
        /// Its magnitude.
        Magnitude = "magnitude",
        /// Its square.
        Power = "power",
    }
}

impl FrameValue {
    /// Floats of a value.
    pub const fn width(self) -> usize {
        match self {
            FrameValue::Complex => 2,
            FrameValue::Magnitude | FrameValue::Power => 1,
        }
    }
}

//! WAV: RIFF chunks, of which one describes the samples and one holds them.

use std::ops::Range;

use super::{Opened, Samples};
use crate::cursor::Cursor;
use crate::error::{Fault, FormatError, Result};

/// The tail of the identifier of formats that also have a number.
const GUID_TAIL: [u8; 14] =
    [0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x80, 0x00, 0x00, 0xaa, 0x00, 0x38, 0x9b, 0x71];
/// A size that a program wrote which could not return to the head of its output.
const UNKNOWN_SIZE: u32 = u32::MAX;

#[derive(Clone, Copy)]
enum Coding {
    Pcm8,
    Pcm16,
    Pcm24,
    Pcm32,
    Float32,
    Float64,
    ALaw,
    MuLaw,
}

impl Coding {
    const fn bytes(self) -> usize {
        match self {
            Coding::Pcm8 | Coding::ALaw | Coding::MuLaw => 1,
            Coding::Pcm16 => 2,
            Coding::Pcm24 => 3,
            Coding::Pcm32 | Coding::Float32 => 4,
            Coding::Float64 => 8,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Coding::Pcm8 => "pcm 8",
            Coding::Pcm16 => "pcm 16",
            Coding::Pcm24 => "pcm 24",
            Coding::Pcm32 => "pcm 32",
            Coding::Float32 => "float 32",
            Coding::Float64 => "float 64",
            Coding::ALaw => "A-law",
            Coding::MuLaw => "mu-law",
        }
    }

    /// A sample from -1 to 1; floats may be beyond.
    fn value(self, bytes: &[u8]) -> f64 {
        match (self, bytes) {
            (Coding::Pcm8, [byte]) => (f64::from(*byte) - 128.0) / 128.0,
            (Coding::ALaw, [byte]) => f64::from(a_law(*byte)) / 32768.0,
            (Coding::MuLaw, [byte]) => f64::from(mu_law(*byte)) / 32768.0,
            (Coding::Pcm16, [low, high]) => f64::from(i16::from_le_bytes([*low, *high])) / 32768.0,
            (Coding::Pcm24, [low, middle, high]) => {
                f64::from(i32::from_le_bytes([0, *low, *middle, *high])) / 2_147_483_648.0
            }
            (Coding::Pcm32, [a, b, c, d]) => {
                f64::from(i32::from_le_bytes([*a, *b, *c, *d])) / 2_147_483_648.0
            }
            (Coding::Float32, [a, b, c, d]) => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
            (Coding::Float64, [a, b, c, d, e, f, g, h]) => {
                f64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])
            }
            // Chunks are of `bytes` of the coding.
            _ => f64::NAN,
        }
    }
}

/// ITU-T G.711, A-law: a sign, an exponent and four bits of mantissa, every other bit inverted.
fn a_law(byte: u8) -> i16 {
    let code = byte ^ 0x55;
    let mantissa = i16::from(code & 0x0f) << 4;
    let exponent = (code >> 4) & 7;
    let magnitude = match exponent {
        0 => mantissa + 8,
        _ => (mantissa + 0x108) << (exponent - 1),
    };
    if code & 0x80 == 0 { -magnitude } else { magnitude }
}

/// ITU-T G.711, mu-law: all bits inverted, the magnitude biased by 132.
fn mu_law(byte: u8) -> i16 {
    let code = !byte;
    let magnitude = (((i16::from(code & 0x0f) << 3) + 132) << ((code >> 4) & 7)) - 132;
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// Samples in the file.
pub(super) struct Stored {
    coding: Coding,
    channels: usize,
    range: Range<usize>,
}

impl Stored {
    pub(super) fn frames(&self) -> usize {
        self.range.len() / (self.coding.bytes() * self.channels)
    }

    /// A range of frames, averaged over the channels.
    pub(super) fn mono(&self, bytes: &[u8], frames: Range<usize>) -> Result<Vec<f32>> {
        let size = self.coding.bytes();
        let frame = size * self.channels;
        let data = &bytes[self.range.start + frames.start * frame..][..frames.len() * frame];
        let mut samples = Vec::with_capacity(frames.len());
        for (index, stored) in data.chunks_exact(frame).enumerate() {
            let sum: f64 = stored.chunks_exact(size).map(|bytes| self.coding.value(bytes)).sum();
            let mean = (sum / self.channels as f64) as f32;
            if !mean.is_finite() {
                return Err(FormatError::new(
                    Fault::Range,
                    format_args!("frame {}", frames.start + index),
                    "finite samples",
                    mean,
                ));
            }
            samples.push(mean);
        }
        Ok(samples)
    }
}

pub(super) fn is_wav(bytes: &[u8]) -> bool {
    matches!(bytes.get(..4), Some(b"RIFF" | b"RF64" | b"BW64")) && bytes.get(8..12) == Some(b"WAVE")
}

/// The description of the samples, from its chunk.
struct Described {
    coding: Coding,
    channels: u16,
    rate: u32,
}

pub(super) fn open(bytes: &[u8]) -> Result<Opened> {
    let mut cursor = Cursor::new(bytes);
    cursor.take("head", 12)?;
    let mut described = None;
    let mut long_size = None;
    while cursor.remaining() > 0 {
        let name = cursor.take("chunk name", 4)?;
        let field = format!("chunk \"{}\"", name.escape_ascii());
        let size = cursor.u32(&format!("{field} size"))?;
        match name {
            b"fmt " => {
                let chunk = cursor.take(&field, u64::from(size))?;
                described = Some(describe(chunk)?);
            }
            b"ds64" => {
                let chunk = cursor.take(&field, u64::from(size))?;
                let mut inner = Cursor::new(chunk);
                inner.u64("ds64 size of the file")?;
                long_size = Some(inner.u64("ds64 size of the data")?);
            }
            b"data" => {
                let described = described.ok_or_else(|| {
                    FormatError::new(
                        Fault::Json,
                        "chunk \"data\"",
                        "a chunk \"fmt \" before it",
                        "none",
                    )
                })?;
                return samples(&mut cursor, size, long_size, described);
            }
            _ => {
                cursor.take(&field, u64::from(size))?;
            }
        }
        if size % 2 == 1 && cursor.remaining() > 0 {
            cursor.take("padding", 1)?;
        }
    }
    Err(FormatError::new(
        Fault::Truncated,
        "chunk \"data\"",
        "samples",
        "the end of the file before them",
    ))
}

fn samples(
    cursor: &mut Cursor<'_>,
    size: u32,
    long_size: Option<u64>,
    described: Described,
) -> Result<Opened> {
    let left = cursor.remaining() as u64;
    let size = match (size, long_size) {
        (UNKNOWN_SIZE, Some(size)) => size,
        // A stream: its samples end where it ends.
        (UNKNOWN_SIZE | 0, None) => left,
        (size, _) => u64::from(size),
    };
    let start = cursor.position();
    cursor.take("chunk \"data\"", size)?;
    let channels = usize::from(described.channels);
    let stored = Stored { coding: described.coding, channels, range: start..cursor.position() };
    Ok(Opened {
        rate: described.rate,
        channels: described.channels,
        encoding: described.coding.name().to_owned(),
        samples: Samples::Stored(stored),
    })
}

fn describe(chunk: &[u8]) -> Result<Described> {
    let mut cursor = Cursor::new(chunk);
    let mut tag = cursor.u16("format")?;
    let channels = cursor.u16("channels")?;
    let rate = cursor.u32("sample rate")?;
    cursor.u32("bytes a second")?;
    let frame = cursor.u16("bytes of a frame")?;
    let bits = cursor.u16("bits of a sample")?;
    if tag == 0xfffe {
        cursor.take("extended format", 2 + 2 + 4)?;
        tag = cursor.u16("extended format")?;
        let tail = cursor.take("extended format", GUID_TAIL.len() as u64)?;
        if tail != GUID_TAIL {
            return Err(FormatError::new(
                Fault::Type,
                "extended format",
                "PCM, floats, A-law or mu-law",
                format_args!("\"{}\"", tail.escape_ascii()),
            ));
        }
    }
    let coding = match (tag, bits) {
        (1, 8) => Coding::Pcm8,
        (1, 16) => Coding::Pcm16,
        (1, 24) => Coding::Pcm24,
        (1, 32) => Coding::Pcm32,
        (3, 32) => Coding::Float32,
        (3, 64) => Coding::Float64,
        (6, 8) => Coding::ALaw,
        (7, 8) => Coding::MuLaw,
        _ => {
            return Err(FormatError::new(
                Fault::Type,
                "format",
                "PCM of 8, 16, 24 or 32 bits, floats of 32 or 64, A-law or mu-law",
                format_args!("format {tag} of {bits} bits"),
            ));
        }
    };
    let expected = coding.bytes() * usize::from(channels);
    if channels == 0 || usize::from(frame) != expected {
        return Err(FormatError::new(
            Fault::Shape,
            "bytes of a frame",
            format_args!("1 or more channels of {} bytes", coding.bytes()),
            format_args!("{channels} channels in {frame} bytes"),
        ));
    }
    Ok(Described { coding, channels, rate })
}

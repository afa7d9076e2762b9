//! Recordings: WAV and FLAC, as samples from -1 to 1 averaged over their channels.

mod bits;
mod flac;
mod subframe;
mod wav;

use std::path::Path;

use crate::error::{Fault, FormatError, Result};
use crate::mapping::Mapping;

/// Rates of samples, in Hz, that a recording may have.
const LARGEST_RATE: u32 = 1_000_000;

/// A recording.
pub struct Sound {
    mapping: Mapping,
    rate: u32,
    channels: u16,
    encoding: String,
    samples: Samples,
}

enum Samples {
    /// A range of the file, decoded on demand.
    Stored(wav::Stored),
    /// Decoded as the file was opened, averaged over its channels.
    Decoded(Vec<f32>),
}

/// What the reader of a format finds.
struct Opened {
    rate: u32,
    channels: u16,
    encoding: String,
    samples: Samples,
}

impl Sound {
    /// Maps a file and validates it.
    pub fn open(path: &Path) -> Result<Self> {
        Sound::from_mapping(Mapping::open(path)?).map_err(|error| error.in_file(path))
    }

    /// Validates bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Sound::from_mapping(Mapping::from_bytes(bytes))
    }

    fn from_mapping(mapping: Mapping) -> Result<Self> {
        let bytes = mapping.bytes();
        let opened = if let Some(start) = flac::start(bytes) {
            flac::open(bytes, start)?
        } else if wav::is_wav(bytes) {
            wav::open(bytes)?
        } else {
            let start = &bytes[..bytes.len().min(4)];
            return Err(FormatError::new(
                Fault::Magic,
                "first bytes",
                "a WAV (RIFF, RF64) or FLAC file",
                if start.is_empty() {
                    "an empty file".to_owned()
                } else {
                    format!("\"{}\"", start.escape_ascii())
                },
            ));
        };
        if !(1..=LARGEST_RATE).contains(&opened.rate) {
            return Err(FormatError::new(
                Fault::Count,
                "sample rate",
                format_args!("1 to {LARGEST_RATE} Hz"),
                opened.rate,
            ));
        }
        let Opened { rate, channels, encoding, samples } = opened;
        Ok(Sound { mapping, rate, channels, encoding, samples })
    }

    /// Samples a second, of each channel.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Channels of the file.
    pub fn channels(&self) -> u16 {
        self.channels
    }

    /// How samples are stored, such as `pcm 16`.
    pub fn encoding(&self) -> &str {
        &self.encoding
    }

    /// Samples of each channel.
    pub fn frames(&self) -> usize {
        match &self.samples {
            Samples::Stored(stored) => stored.frames(),
            Samples::Decoded(samples) => samples.len(),
        }
    }

    /// `count` samples from `start` on, fewer at the end, averaged over the channels.
    pub fn mono(&self, start: usize, count: usize) -> Result<Vec<f32>> {
        let start = start.min(self.frames());
        let end = self.frames().min(start.saturating_add(count));
        match &self.samples {
            Samples::Stored(stored) => stored.mono(self.mapping.bytes(), start..end),
            Samples::Decoded(samples) => Ok(samples[start..end].to_vec()),
        }
    }
}

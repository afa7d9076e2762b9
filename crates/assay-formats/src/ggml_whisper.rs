//! Whisper models of whisper.cpp: hyperparameters, mel filters, tokens, then tensors.
//!
//! The layout is that of `models/convert-pt-to-ggml.py` in whisper.cpp. It has no count of tensors:
//! they follow each other to the end of the file.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::{Fault, FormatError, Result, quoted};
use crate::mapping::Mapping;
use crate::tensor::{Tensor, sizes};
use assay_operations::ElementFormat;

/// `ggml` as a number.
const MAGIC: u32 = 0x6767_6d6c;
const MOST_DIMENSIONS: u32 = 4;
const LONGEST_NAME: u32 = 255;
/// No mel filter bank, width or vocabulary of a Whisper model is as large.
const LARGEST: u32 = 1 << 20;

/// The numbers at the head of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hyperparameters {
    /// Tokens of the vocabulary, special ones included.
    pub vocabulary: u32,
    /// Positions of the encoder.
    pub audio_context: u32,
    /// Width of the encoder.
    pub audio_state: u32,
    /// Heads of the encoder.
    pub audio_heads: u32,
    /// Layers of the encoder.
    pub audio_layers: u32,
    /// Positions of the decoder.
    pub text_context: u32,
    /// Width of the decoder.
    pub text_state: u32,
    /// Heads of the decoder.
    pub text_heads: u32,
    /// Layers of the decoder.
    pub text_layers: u32,
    /// Mel bands of the features.
    pub mels: u32,
    /// The number of the file's element format.
    pub file_type: u32,
}

/// A ggml file of a Whisper model, validated whole.
pub struct GgmlWhisper {
    mapping: Arc<Mapping>,
    hyperparameters: Hyperparameters,
    mel_filters: Tensor,
    tokens: Vec<Range<usize>>,
    tensors: Vec<Tensor>,
}

impl GgmlWhisper {
    /// Maps a file and validates it.
    pub fn open(path: &Path) -> Result<Self> {
        GgmlWhisper::from_mapping(Mapping::open(path)?).map_err(|error| error.in_file(path))
    }

    /// Validates bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        GgmlWhisper::from_mapping(Mapping::from_bytes(bytes))
    }

    fn from_mapping(mapping: Mapping) -> Result<Self> {
        let mut cursor = Cursor::new(mapping.bytes());
        let magic = cursor.u32("magic")?;
        if magic != MAGIC {
            return Err(FormatError::new(
                Fault::Magic,
                "magic",
                format_args!("{MAGIC:#x}, the first number of a ggml file"),
                format_args!("{magic:#x}"),
            ));
        }
        let hyperparameters = Hyperparameters::read(&mut cursor)?;
        let mel_filters = read_filters(&mut cursor)?;
        let tokens = read_tokens(&mut cursor)?;
        let mut names = HashSet::new();
        let mut tensors = Vec::new();
        while cursor.remaining() > 0 {
            let tensor = read_tensor(&mut cursor, tensors.len())?;
            if !names.insert(tensor.name.clone()) {
                return Err(FormatError::new(
                    Fault::Duplicate,
                    format_args!("tensor {} name", tensors.len()),
                    "a name that no other tensor has",
                    quoted(&tensor.name),
                ));
            }
            tensors.push(tensor);
        }
        Ok(GgmlWhisper {
            mapping: Arc::new(mapping),
            hyperparameters,
            mel_filters,
            tokens,
            tensors,
        })
    }

    /// The numbers at the head of the file.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyperparameters
    }

    /// The mel filters: bands by bins of the spectrum.
    pub fn mel_filters(&self) -> &Tensor {
        &self.mel_filters
    }

    /// The bytes of each token of the file, which lacks the special ones.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.tokens.iter().map(|range| &self.mapping.bytes()[range.clone()])
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The file's mapping, which may outlive this value.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl Hyperparameters {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut number = |field: &str| {
            let number = cursor.u32(field)?;
            if (1..=LARGEST).contains(&number) {
                return Ok(number);
            }
            let expected = format!("1 to {LARGEST}");
            Err(FormatError::new(Fault::Count, field, expected, number))
        };
        let mut read = Hyperparameters {
            vocabulary: number("n_vocab")?,
            audio_context: number("n_audio_ctx")?,
            audio_state: number("n_audio_state")?,
            audio_heads: number("n_audio_head")?,
            audio_layers: number("n_audio_layer")?,
            text_context: number("n_text_ctx")?,
            text_state: number("n_text_state")?,
            text_heads: number("n_text_head")?,
            text_layers: number("n_text_layer")?,
            mels: number("n_mels")?,
            file_type: 0,
        };
        read.file_type = cursor.u32("ftype")?;
        Ok(read)
    }
}

fn read_filters(cursor: &mut Cursor<'_>) -> Result<Tensor> {
    let shape = vec![u64::from(cursor.u32("mel bands")?), u64::from(cursor.u32("mel bins")?)];
    let bytes = sizes("mel filters", ElementFormat::F32, &shape)?;
    let start = cursor.position();
    cursor.take("mel filters", bytes)?;
    Ok(Tensor {
        name: "mel_filters".to_owned(),
        format: ElementFormat::F32,
        shape,
        range: start..cursor.position(),
    })
}

fn read_tokens(cursor: &mut Cursor<'_>) -> Result<Vec<Range<usize>>> {
    let count = cursor.u32("number of tokens")?;
    cursor.check_count("number of tokens", u64::from(count), 4)?;
    let mut tokens = Vec::new();
    for index in 0..count {
        let field = format!("token {index}");
        let length = cursor.u32(&field)?;
        let start = cursor.position();
        cursor.take(&field, u64::from(length))?;
        tokens.push(start..cursor.position());
    }
    Ok(tokens)
}

fn read_tensor(cursor: &mut Cursor<'_>, index: usize) -> Result<Tensor> {
    let dimensions = cursor.u32(&format!("tensor {index} dimensions"))?;
    let length = cursor.u32(&format!("tensor {index} name length"))?;
    let code = cursor.u32(&format!("tensor {index} type"))?;
    if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
        return Err(FormatError::new(
            Fault::Count,
            format_args!("tensor {index} dimensions"),
            format_args!("1 to {MOST_DIMENSIONS}"),
            dimensions,
        ));
    }
    if !(1..=LONGEST_NAME).contains(&length) {
        return Err(FormatError::new(
            Fault::Text,
            format_args!("tensor {index} name length"),
            format_args!("1 to {LONGEST_NAME} bytes"),
            length,
        ));
    }
    let mut shape = Vec::with_capacity(dimensions as usize);
    for dimension in 0..dimensions {
        let field = format!("tensor {index} extent {dimension}");
        let extent = cursor.u32(&field)?;
        if extent == 0 {
            return Err(FormatError::new(Fault::Shape, field, "1 or more", extent));
        }
        shape.push(u64::from(extent));
    }
    // The file lists the fastest extent first.
    shape.reverse();
    let name = cursor.text_of(&format!("tensor {index} name"), u64::from(length))?.to_owned();
    let field = format!("tensor {}", quoted(&name));
    let format = ElementFormat::from_gguf_code(code).ok_or_else(|| {
        FormatError::new(
            Fault::Type,
            format_args!("{field} type"),
            "the number of a type of ggml",
            code,
        )
    })?;
    let bytes = sizes(&field, format, &shape)?;
    let start = cursor.position();
    cursor.take(&field, bytes)?;
    Ok(Tensor { name, format, shape, range: start..cursor.position() })
}

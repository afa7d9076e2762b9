//! The binary format of tapes, for a cache on disk.
//!
//! Everything is little-endian: a magic word, a version, the length and checksum of the body,
//! then the program. A reader trusts nothing: counts are checked against the bytes that are
//! left before anything is allocated, and the program is validated like any other.

use super::error::{Place, TapeError};
use super::op::Op;
use super::program::{Block, Instruction, Method, Program};
use super::tape::Tape;

const MAGIC: [u8; 4] = *b"ASTP";
const VERSION: u32 = 1;
const HEADER_LENGTH: usize = 24;
const INSTRUCTION_LENGTH: usize = 16;
const NEWTON: u32 = 0;
const FIXED_POINT: u32 = 1;

impl Tape {
    /// The tape in the stored format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        write_program(&mut body, &self.program);
        let mut bytes = Vec::with_capacity(HEADER_LENGTH + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&checksum(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Reads what [`Tape::to_bytes`] wrote; anything else is an error.
    pub fn from_bytes(bytes: &[u8]) -> Result<Tape, TapeError> {
        let mut reader = Reader { bytes, offset: 0 };
        reader.expect("the magic word ASTP", u32::from_le_bytes(MAGIC).into(), |r| {
            r.u32().map(u64::from)
        })?;
        reader.expect("format version 1", VERSION.into(), |r| r.u32().map(u64::from))?;
        let body_length = bytes.len().saturating_sub(HEADER_LENGTH) as u64;
        reader.expect("the length of the body", body_length, Reader::u64)?;
        let body = bytes.get(HEADER_LENGTH..).unwrap_or_default();
        reader.expect("the checksum of the body", checksum(body), Reader::u64)?;
        let program = reader.program(None)?;
        if reader.offset != bytes.len() {
            return Err(reader.corrupt("the end", "more bytes".into()));
        }
        Tape::new(&program)
    }
}

/// Instructions from packed little-endian quadruples of operation code, a, b, c.
///
/// `block` names the inner program in errors, as in [`Place`].
pub fn decode_instructions(
    code: &[u8],
    block: Option<usize>,
) -> Result<Vec<Instruction>, TapeError> {
    if !code.len().is_multiple_of(INSTRUCTION_LENGTH) {
        return Err(TapeError::Corrupt {
            offset: code.len() - code.len() % INSTRUCTION_LENGTH,
            expected: "instructions of 16 bytes".into(),
            got: format!("{} bytes", code.len() % INSTRUCTION_LENGTH),
        });
    }
    code.chunks_exact(INSTRUCTION_LENGTH)
        .enumerate()
        .map(|(index, words)| {
            let word = |number: usize| {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(&words[number * 4..number * 4 + 4]);
                u32::from_le_bytes(bytes)
            };
            let place = Place { block, instruction: index };
            let op = Op::from_code(word(0))
                .ok_or(TapeError::UnknownOperation { place, code: word(0) })?;
            Ok(Instruction { op, a: word(1), b: word(2), c: word(3) })
        })
        .collect()
}

/// FNV-1a over 64 bits: every single changed byte changes it.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn write_u32(body: &mut Vec<u8>, value: u32) {
    body.extend_from_slice(&value.to_le_bytes());
}

fn write_f64(body: &mut Vec<u8>, value: f64) {
    body.extend_from_slice(&value.to_le_bytes());
}

/// A validated program has fewer than 2^32 of anything it counts in value numbers.
fn write_count(body: &mut Vec<u8>, count: usize) {
    body.extend_from_slice(&(count as u64).to_le_bytes());
}

fn write_numbers(body: &mut Vec<u8>, numbers: &[u32]) {
    write_count(body, numbers.len());
    numbers.iter().for_each(|&number| write_u32(body, number));
}

fn write_floats(body: &mut Vec<u8>, floats: &[f64]) {
    write_count(body, floats.len());
    floats.iter().for_each(|&value| write_f64(body, value));
}

fn write_program(body: &mut Vec<u8>, program: &Program) {
    write_count(body, program.input_count);
    write_floats(body, &program.constants);
    write_count(body, program.code.len());
    for step in &program.code {
        for word in [step.op as u32, step.a, step.b, step.c] {
            write_u32(body, word);
        }
    }
    write_numbers(body, &program.outputs);
    write_count(body, program.blocks.len());
    for block in &program.blocks {
        write_numbers(body, &block.start);
        write_numbers(body, &block.externals);
        let (method, damping) = match block.method {
            Method::Newton => (NEWTON, 1.0),
            Method::FixedPoint { damping } => (FIXED_POINT, damping),
        };
        write_u32(body, method);
        write_f64(body, damping);
        write_f64(body, block.relative_tolerance);
        write_f64(body, block.absolute_tolerance);
        write_u32(body, block.max_iterations);
        write_floats(body, &block.lower);
        write_floats(body, &block.upper);
        write_program(body, &block.inner);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl Reader<'_> {
    fn corrupt(&self, expected: &str, got: String) -> TapeError {
        TapeError::Corrupt { offset: self.offset, expected: expected.into(), got }
    }

    fn take(&mut self, length: usize) -> Result<&[u8], TapeError> {
        let left = self.bytes.len() - self.offset;
        if length > left {
            return Err(self.corrupt(&format!("{length} more bytes"), format!("{left}")));
        }
        let start = self.offset;
        self.offset += length;
        Ok(&self.bytes[start..self.offset])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TapeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, TapeError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, TapeError> {
        self.array().map(u64::from_le_bytes)
    }

    fn f64(&mut self) -> Result<f64, TapeError> {
        self.array().map(f64::from_le_bytes)
    }

    fn expect(
        &mut self,
        what: &str,
        expected: u64,
        read: impl Fn(&mut Self) -> Result<u64, TapeError>,
    ) -> Result<(), TapeError> {
        let offset = self.offset;
        let got = read(self)?;
        if got == expected {
            return Ok(());
        }
        let expected = format!("{what} ({expected:#x})");
        Err(TapeError::Corrupt { offset, expected, got: format!("{got:#x}") })
    }

    /// A count of items of `size` bytes each, checked against the bytes left.
    fn count(&mut self, size: usize) -> Result<usize, TapeError> {
        let left = self.bytes.len() - self.offset;
        let count = self.u64()?;
        match usize::try_from(count).ok().filter(|count| *count <= left / size) {
            Some(count) => Ok(count),
            None => Err(self.corrupt(
                &format!("at most {} entries of {size} bytes", left / size),
                count.to_string(),
            )),
        }
    }

    fn numbers(&mut self) -> Result<Vec<u32>, TapeError> {
        (0..self.count(4)?).map(|_| self.u32()).collect()
    }

    fn floats(&mut self) -> Result<Vec<f64>, TapeError> {
        (0..self.count(8)?).map(|_| self.f64()).collect()
    }

    fn program(&mut self, block: Option<usize>) -> Result<Program, TapeError> {
        let input_count = self.u64()?;
        let input_count = usize::try_from(input_count)
            .map_err(|_| self.corrupt("a number of inputs", input_count.to_string()))?;
        let constants = self.floats()?;
        let code_length = self.count(INSTRUCTION_LENGTH)? * INSTRUCTION_LENGTH;
        let code = decode_instructions(self.take(code_length)?, block)?;
        let outputs = self.numbers()?;
        let block_count = self.count(HEADER_LENGTH)?;
        let blocks = match block {
            Some(block) if block_count > 0 => return Err(TapeError::NestedBlock { block }),
            _ => (0..block_count).map(|index| self.block(index)).collect::<Result<_, _>>()?,
        };
        Ok(Program { input_count, constants, code, outputs, blocks })
    }

    fn block(&mut self, index: usize) -> Result<Block, TapeError> {
        let start = self.numbers()?;
        let externals = self.numbers()?;
        let method = self.u32()?;
        let damping = self.f64()?;
        let method = match method {
            NEWTON => Method::Newton,
            FIXED_POINT => Method::FixedPoint { damping },
            other => return Err(self.corrupt("method 0 or 1", other.to_string())),
        };
        Ok(Block {
            start,
            externals,
            method,
            relative_tolerance: self.f64()?,
            absolute_tolerance: self.f64()?,
            max_iterations: self.u32()?,
            lower: self.floats()?,
            upper: self.floats()?,
            inner: self.program(Some(index))?,
        })
    }
}

//! FLAC (RFC 9639): metadata blocks, then frames of a block of samples for each channel.

use super::bits::Bits;
use super::subframe;
use super::{Opened, Samples};
use crate::cursor::Cursor;
use crate::error::{Fault, FormatError, Result};

const MAGIC: &[u8] = b"fLaC";
/// A tag that programs put before the file, and the bytes of its head.
const TAG: &[u8] = b"ID3";
const TAG_HEAD: usize = 10;
/// Six hours at 96 kHz. Silence takes a few bytes of a file, so its size bounds nothing.
const MOST_FRAMES: usize = 1 << 31;

/// What STREAMINFO says.
struct Stream {
    rate: u32,
    channels: u16,
    bits: u32,
    /// None where the encoder did not know.
    frames: Option<u64>,
}

/// Where the file itself starts, if it is FLAC.
pub(super) fn start(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    if bytes.starts_with(TAG) {
        let size = bytes.get(6..TAG_HEAD)?;
        let size = size.iter().fold(0, |size, byte| size << 7 | usize::from(byte & 0x7f));
        start = TAG_HEAD + size;
    }
    bytes.get(start..)?.starts_with(MAGIC).then_some(start)
}

pub(super) fn open(bytes: &[u8], start: usize) -> Result<Opened> {
    let mut cursor = Cursor::new(&bytes[start..]);
    cursor.take("magic", MAGIC.len() as u64)?;
    let mut stream = None;
    loop {
        let head = cursor.take("metadata block", 4)?;
        let size = u64::from(u32::from_be_bytes([0, head[1], head[2], head[3]]));
        let block = cursor.take("metadata block", size)?;
        if head[0] & 0x7f == 0 {
            stream = Some(stream_info(block)?);
        }
        if head[0] & 0x80 != 0 {
            break;
        }
    }
    let stream = stream
        .ok_or_else(|| FormatError::new(Fault::Json, "metadata blocks", "a STREAMINFO", "none"))?;
    let samples = decode(&bytes[start..], cursor.position(), &stream)?;
    Ok(Opened {
        rate: stream.rate,
        channels: stream.channels,
        encoding: format!("FLAC {}", stream.bits),
        samples: Samples::Decoded(samples),
    })
}

fn stream_info(block: &[u8]) -> Result<Stream> {
    let mut bits = Bits::new(block, 0);
    // Smallest and largest block and frame, which frames say themselves.
    bits.unsigned(32)?;
    bits.unsigned(48)?;
    let rate = bits.unsigned(20)? as u32;
    let channels = bits.unsigned(3)? as u16 + 1;
    let depth = bits.unsigned(5)? as u32 + 1;
    let frames = bits.unsigned(36)?;
    if depth < 4 {
        return Err(FormatError::new(Fault::Count, "bits of a sample", "4 to 32", depth));
    }
    Ok(Stream { rate, channels, bits: depth, frames: (frames > 0).then_some(frames) })
}

/// All samples, averaged over the channels.
fn decode(bytes: &[u8], first: usize, stream: &Stream) -> Result<Vec<f32>> {
    let mut samples = Vec::new();
    let mut channels: Vec<Vec<i64>> = vec![Vec::new(); usize::from(stream.channels)];
    let scale = 1.0 / (f64::from(stream.channels) * 2_f64.powi(stream.bits as i32 - 1));
    let mut at = first;
    while at < bytes.len() && stream.frames.is_none_or(|frames| (samples.len() as u64) < frames) {
        at = frame(bytes, at, stream, &mut channels)?;
        let length = channels[0].len();
        if samples.len() + length > MOST_FRAMES {
            return Err(FormatError::new(
                Fault::Count,
                "samples of a channel",
                format_args!("at most {MOST_FRAMES}"),
                "more",
            ));
        }
        samples.extend((0..length).map(|place| {
            // Samples of damaged frames that their checksum does not tell may be of any size.
            let sum = channels.iter().fold(0_i64, |sum, channel| sum.wrapping_add(channel[place]));
            (sum as f64 * scale) as f32
        }));
    }
    match stream.frames {
        Some(frames) if samples.len() as u64 != frames => {
            Err(FormatError::new(Fault::Truncated, "samples of a channel", frames, samples.len()))
        }
        _ => Ok(samples),
    }
}

/// Decodes a frame into `channels`; returns where the next one starts.
fn frame(bytes: &[u8], at: usize, stream: &Stream, channels: &mut [Vec<i64>]) -> Result<usize> {
    let mut bits = Bits::new(bytes, at);
    let (size, assignment) = header(bytes, at, stream, &mut bits)?;
    for (index, channel) in channels.iter_mut().enumerate() {
        // A difference of two channels takes a bit more.
        let is_side = matches!((assignment, index), (8 | 10, 1) | (9, 0));
        subframe::decode(&mut bits, size, stream.bits + u32::from(is_side), channel)?;
    }
    bits.align();
    let end = bits.byte();
    let stored = bits.unsigned(16)? as u16;
    let computed = crc16(&bytes[at..end]);
    if stored != computed {
        return Err(checksum(at, stored, computed));
    }
    if let ([first, second], 8..=10) = (&mut *channels, assignment) {
        restore_sides(assignment, first, second);
    }
    Ok(bits.byte())
}

/// Left and right from what a frame of two channels stores.
fn restore_sides(assignment: u64, first: &mut [i64], second: &mut [i64]) {
    for (first, second) in first.iter_mut().zip(second) {
        match assignment {
            8 => *second = first.wrapping_sub(*second),
            9 => *first = first.wrapping_add(*second),
            _ => {
                let (middle, side) = (*first << 1 | (*second & 1), *second);
                *first = middle.wrapping_add(side) >> 1;
                *second = middle.wrapping_sub(side) >> 1;
            }
        }
    }
}

/// The samples of the frame and how its channels are stored.
fn header(bytes: &[u8], at: usize, stream: &Stream, bits: &mut Bits<'_>) -> Result<(usize, u64)> {
    let wrong = |what: &str, expected: &str, got: u64| {
        FormatError::new(Fault::Type, format_args!("frame at byte {at} {what}"), expected, got)
    };
    let sync = bits.unsigned(15)?;
    if sync != 0x7ffc {
        return Err(wrong("start", "the bits 111111111111100", sync));
    }
    bits.unsigned(1)?;
    let size = bits.unsigned(4)?;
    let rate = bits.unsigned(4)?;
    let assignment = bits.unsigned(4)?;
    let depth = bits.unsigned(3)?;
    bits.unsigned(1)?;
    // The number of the frame, coded as UTF-8 codes characters.
    let lead = bits.unsigned(8)? as u8;
    for _ in 1..lead.leading_ones() {
        bits.unsigned(8)?;
    }
    let size = match size {
        0 => return Err(wrong("block size", "a code from 1", size)),
        1 => 192,
        2..=5 => 576 << (size - 2),
        6 => bits.unsigned(8)? + 1,
        7 => bits.unsigned(16)? + 1,
        _ => 256 << (size - 8),
    };
    match rate {
        12 => bits.unsigned(8)?,
        13 | 14 => bits.unsigned(16)?,
        15 => return Err(wrong("rate", "a code below 15", rate)),
        _ => 0,
    };
    let channels = if assignment < 8 { assignment + 1 } else { 2 };
    if assignment > 10 || channels != u64::from(stream.channels) {
        return Err(wrong("channels", &format!("{} channels", stream.channels), assignment));
    }
    let stored = match depth {
        0 => stream.bits,
        1 => 8,
        2 => 12,
        4 => 16,
        5 => 20,
        6 => 24,
        7 => 32,
        _ => return Err(wrong("sample size", "another code than 3", depth)),
    };
    if stored != stream.bits {
        return Err(wrong("sample size", &format!("{} bits", stream.bits), u64::from(stored)));
    }
    let computed = crc8(&bytes[at..bits.byte()]);
    let stored = bits.unsigned(8)? as u8;
    if stored != computed {
        return Err(checksum(at, u16::from(stored), u16::from(computed)));
    }
    Ok((size as usize, assignment))
}

fn checksum(at: usize, stored: u16, computed: u16) -> FormatError {
    FormatError::new(
        Fault::Checksum,
        format_args!("frame at byte {at}"),
        format_args!("a checksum of {computed:#06x}"),
        format_args!("{stored:#06x}"),
    )
}

fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| {
        (0..8).fold(sum ^ byte, |sum, _| if sum & 0x80 == 0 { sum << 1 } else { sum << 1 ^ 0x07 })
    })
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x8005 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| sum << 8 ^ CRC16[usize::from((sum >> 8) as u8 ^ byte)])
}

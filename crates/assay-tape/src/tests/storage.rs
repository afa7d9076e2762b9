//! Tapes as bytes: what is written is read, and nothing else is.

use proptest::prelude::*;

use super::blocks::square_root_program;
use super::programs::any_program;
use crate::{Tape, TapeError};

/// Bytes with the length and checksum of their body put right, so that a change gets further.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 24 {
        let hash = bytes[24..].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let length = bytes.len() as u64 - 24;
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..24].copy_from_slice(&hash.to_le_bytes());
    }
    bytes
}

proptest! {
    #[test]
    fn serialization_round_trips(program in any_program()) {
        let tape = Tape::new(&program).unwrap();
        let bytes = tape.to_bytes();
        let again = Tape::from_bytes(&bytes).unwrap();
        prop_assert_eq!(again.to_bytes(), bytes);
    }

    #[test]
    fn arbitrary_bytes_are_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Tape::from_bytes(&bytes).is_err());
    }

    #[test]
    fn any_changed_byte_is_detected(at in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let mut bytes = Tape::new(&square_root_program()).unwrap().to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(Tape::from_bytes(&bytes).is_err());
    }

    #[test]
    fn hostile_bytes_give_a_tape_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        keep in any::<prop::sample::Index>(),
        truncate in any::<bool>(),
    ) {
        let mut bytes = Tape::new(&square_root_program()).unwrap().to_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if truncate {
            bytes.truncate(keep.index(bytes.len()));
        }
        // Not panicking and not exhausting memory is what is asked; either result will do.
        if let Ok(tape) = Tape::from_bytes(&resealed(bytes)) {
            prop_assert!(Tape::from_bytes(&tape.to_bytes()).is_ok());
        }
    }
}

#[test]
fn huge_count_is_rejected_before_allocation() {
    let mut bytes = Tape::new(&square_root_program()).unwrap().to_bytes();
    // The number of constants follows the number of inputs.
    bytes[32..40].copy_from_slice(&(u64::MAX / 16).to_le_bytes());
    let error = Tape::from_bytes(&resealed(bytes)).unwrap_err();
    assert!(matches!(error, TapeError::Corrupt { offset: 40, .. }), "{error}");
}

#[test]
fn huge_input_count_allocates_nothing() {
    let mut bytes = Tape::new(&super::programs::Builder::new(0, &[]).0).unwrap().to_bytes();
    bytes[24..32].copy_from_slice(&(1_u64 << 31).to_le_bytes());
    assert_eq!(Tape::from_bytes(&resealed(bytes)).unwrap().input_count(), 1 << 31);
}

#[test]
fn messages_name_the_byte_offset() {
    let bytes = Tape::new(&square_root_program()).unwrap().to_bytes();
    let message = |bytes: &[u8]| Tape::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(
        message(&bytes[..3]),
        "stored tape, byte 0: expected 4 more bytes, got 3\nhint: delete it and compile again"
    );
    let mut newer = bytes.clone();
    newer[4] = 2;
    assert_eq!(
        message(&newer),
        "stored tape, byte 4: expected format version 1 (0x1), got 0x2\n\
         hint: delete it and compile again"
    );
}

//! Decimal numbers as exact integers.

/// The integer of a word, or None if it is none of 64 bits.
pub(crate) fn integer(word: &str) -> Option<i64> {
    // `parse` takes a plus sign, which JSON has not; the scanner refuses it before.
    word.parse().ok()
}

/// A number times 1,000, rounded half away from zero: microseconds as nanoseconds.
///
/// None for NaN, infinities and numbers beyond 64 bits. Exact for any count of digits, as a double
/// is not: 3845985858698.706 has 16.
pub(crate) fn thousandfold(word: &str) -> Option<i64> {
    thousandths(word).or_else(|| any_thousandfold(word))
}

/// The common case: digits with at most three behind the point, of which no sum overflows.
fn thousandths(word: &str) -> Option<i64> {
    let bytes = word.as_bytes();
    if bytes.len() > 17 {
        return None;
    }
    let (mut value, mut places) = (0_i64, None);
    for &byte in bytes {
        match byte {
            b'0'..=b'9' => {
                value = value * 10 + i64::from(byte - b'0');
                places = places.map(|places| places + 1);
            }
            b'.' if places.is_none() => places = Some(0),
            _ => return None,
        }
    }
    match places {
        Some(3) => Some(value),
        Some(2) => Some(value * 10),
        Some(1) => Some(value * 100),
        None if bytes.len() <= 15 && !bytes.is_empty() => Some(value * 1000),
        _ => None,
    }
}

fn any_thousandfold(word: &str) -> Option<i64> {
    let (negative, rest) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        // An exponent beyond 32 bits: far too large, or zero.
        Some((mantissa, exponent)) => (
            mantissa,
            exponent.parse().unwrap_or(if exponent.starts_with('-') { i32::MIN } else { i32::MAX }),
        ),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // A number in quotes was not checked by the scanner.
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    // Digits before the point once the number is multiplied.
    let point = i64::from(exponent) + 3 + whole.len() as i64;
    let digits = whole.bytes().chain(fraction.bytes());
    let (mut value, mut up) = (0_u64, false);
    let mut taken = 0;
    for (place, digit) in digits.enumerate() {
        let digit = u64::from(digit - b'0');
        if (place as i64) < point {
            value = value.checked_mul(10)?.checked_add(digit)?;
            taken = place as i64 + 1;
        } else {
            up = place as i64 == point && digit >= 5;
            break;
        }
    }
    if value > 0 {
        for _ in taken..point {
            value = value.checked_mul(10)?;
        }
    }
    let value = value.checked_add(u64::from(up))?;
    let signed = i64::try_from(value).ok()?;
    Some(if negative { -signed } else { signed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn microseconds_are_exact() {
        let cases = [
            ("3845985858698.706", Some(3_845_985_858_698_706)),
            ("0", Some(0)),
            ("-0.0", Some(0)),
            ("12", Some(12_000)),
            ("0.0004", Some(0)),
            ("0.0005", Some(1)),
            ("-0.0005", Some(-1)),
            ("0.00049999999999999999999999", Some(0)),
            ("1.5e3", Some(1_500_000)),
            ("1.5E+3", Some(1_500_000)),
            ("15e-4", Some(2)),
            ("5e-4", Some(1)),
            ("4e-4", Some(0)),
            ("9e-5", Some(0)),
            ("0e400", Some(0)),
            ("1e400", None),
            ("1e99999999999", None),
            ("1e-99999999999", Some(0)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("NaN", None),
            ("Infinity", None),
            ("-Infinity", None),
            ("null", None),
            ("", None),
            (".", None),
            ("1.x", None),
            ("1e", None),
            ("99999999999999.9", Some(99_999_999_999_999_900)),
            ("9999999999999999.9", None),
        ];
        for (word, expected) in cases {
            assert_eq!(thousandfold(word), expected, "{word}");
        }
    }

    proptest! {
        #[test]
        fn any_nanoseconds_come_back(value in -i64::MAX..=i64::MAX) {
            let (sign, magnitude) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
            let text = format!("{sign}{}.{:03}", magnitude / 1000, magnitude % 1000);
            prop_assert_eq!(thousandfold(&text), Some(value));
            let text = format!("{sign}{magnitude}e-3");
            prop_assert_eq!(thousandfold(&text), Some(value));
        }

        #[test]
        fn any_digits_agree_with_a_double(whole in 0_u64..1_000_000_000, fraction in "[0-9]{0,12}", exponent in -9_i32..3) {
            let text = if fraction.is_empty() { format!("{whole}e{exponent}") } else { format!("{whole}.{fraction}e{exponent}") };
            let double: f64 = text.parse().unwrap();
            let got = thousandfold(&text).unwrap() as f64;
            prop_assert!((got - double * 1000.0).abs() <= 0.5 + double * 1e-12);
        }
    }
}

//! Walks JSON text without building values.

use memchr::memchr2;

/// Values may nest this deep; Python's reader gives up earlier.
const DEPTH_LIMIT: usize = 1024;

/// Values that are neither numbers nor strings; some writers leave the last three.
const WORDS: [&[u8]; 6] = [b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity"];

/// Bytes that end a number or word.
const DELIMITERS: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = b",}] \n\r\t:\"{[";
    let mut index = 0;
    while index < bytes.len() {
        table[bytes[index] as usize] = true;
        index += 1;
    }
    table
};

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The text ends inside the value.
    End,
    /// The text is not JSON at this place.
    Wrong {
        /// The byte in the text.
        place: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// Values nest too deep at this place.
    Deep(usize),
}

/// The result of reading a value.
pub(crate) type Scan<T> = Result<T, Stop>;

/// A string between its quotes, as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quoted<'a> {
    /// The text between the quotes.
    pub raw: &'a str,
    /// Whether it has escapes.
    pub escaped: bool,
}

/// A place in a text.
#[derive(Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    place: usize,
}

impl<'a> Scanner<'a> {
    /// The start of a text.
    pub(crate) fn new(text: &'a str) -> Self {
        Scanner { text, place: 0 }
    }

    /// The next byte's place.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// The text from a place up to here. Both are at an ASCII character.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.place]
    }

    /// The next byte that is not white space.
    #[inline]
    pub(crate) fn next(&mut self) -> Scan<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.place) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.place += 1,
                _ => return Ok(byte),
            }
        }
        Err(Stop::End)
    }

    /// Steps over a byte that `next` returned.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.place += 1;
    }

    /// Steps over a byte that must come next.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, expected: &'static str) -> Scan<()> {
        if self.next()? == byte {
            self.place += 1;
            return Ok(());
        }
        Err(self.wrong(expected))
    }

    /// An error at this place.
    pub(crate) fn wrong(&self, expected: &'static str) -> Stop {
        Stop::Wrong { place: self.place, expected }
    }

    /// A string, its escapes checked but not replaced.
    #[inline]
    pub(crate) fn string(&mut self, expected: &'static str) -> Scan<Quoted<'a>> {
        self.expect(b'"', expected)?;
        let start = self.place;
        let mut escaped = false;
        let bytes = self.text.as_bytes();
        loop {
            let Some(found) = quote_or_backslash(&bytes[self.place..]) else {
                return Err(Stop::End);
            };
            self.place += found;
            if bytes[self.place] == b'"' {
                let raw = &self.text[start..self.place];
                self.place += 1;
                return Ok(Quoted { raw, escaped });
            }
            escaped = true;
            self.escape()?;
        }
    }

    /// Steps over an escape.
    fn escape(&mut self) -> Scan<()> {
        let bytes = self.text.as_bytes();
        let length = match bytes.get(self.place + 1) {
            None => return Err(Stop::End),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => match bytes.get(self.place + 2..self.place + 6) {
                None => return Err(Stop::End),
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => 6,
                Some(_) => return Err(self.wrong("\\u and four hexadecimal digits")),
            },
            Some(_) => return Err(self.wrong("an escape of JSON")),
        };
        self.place += length;
        Ok(())
    }

    /// A number or a word (true, false, null, NaN, Infinity).
    #[inline]
    pub(crate) fn scalar(&mut self) -> Scan<&'a str> {
        self.next()?;
        let bytes = &self.text.as_bytes()[self.place..];
        let delimits = |byte: &u8| DELIMITERS[usize::from(*byte)];
        let Some(length) = bytes.iter().position(delimits) else {
            return Err(Stop::End);
        };
        let word = &bytes[..length];
        if !is_number(word) && !WORDS.contains(&word) {
            return Err(self.wrong("a value"));
        }
        let start = self.place;
        self.place += length;
        Ok(self.since(start))
    }

    /// Any value, as the file has it.
    pub(crate) fn value(&mut self) -> Scan<&'a str> {
        let first = self.next()?;
        let start = self.place;
        match first {
            b'"' => drop(self.string("a value")?),
            b'{' | b'[' => self.nested()?,
            _ => return self.scalar(),
        }
        Ok(self.since(start))
    }

    /// An array or object.
    fn nested(&mut self) -> Scan<()> {
        // Whether each open value is an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            // A value is due.
            let first = self.next()?;
            let mut complete = true;
            match first {
                b'{' | b'[' => {
                    if open.len() == DEPTH_LIMIT {
                        return Err(Stop::Deep(self.place));
                    }
                    let object = first == b'{';
                    self.step();
                    open.push(object);
                    let close = if object { b'}' } else { b']' };
                    complete = self.next()? == close;
                    if complete {
                        self.step();
                        open.pop();
                    } else if object {
                        self.key()?;
                    }
                }
                b'"' => drop(self.string("a value")?),
                _ => drop(self.scalar()?),
            }
            // Behind a value: close what ends here, up to the next value.
            while complete {
                let Some(&object) = open.last() else {
                    return Ok(());
                };
                match (self.next()?, object) {
                    (b',', _) => {
                        self.step();
                        if object {
                            self.key()?;
                        }
                        complete = false;
                    }
                    (b'}', true) | (b']', false) => {
                        self.step();
                        open.pop();
                    }
                    (_, true) => return Err(self.wrong(", or }")),
                    (_, false) => return Err(self.wrong(", or ]")),
                }
            }
        }
    }

    /// A key and its colon.
    fn key(&mut self) -> Scan<()> {
        self.string("a key in quotes")?;
        self.expect(b':', ":")
    }
}

/// The place of the first quote or backslash.
///
/// Keys and most values are a few bytes long: eight at a time beat the set-up of a vector search,
/// which takes over for kernel names.
#[inline]
fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // The lowest byte that is zero has its high bit set; higher ones may be wrong.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().take(4).enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = zeros(word ^ (ONES * u64::from(b'"')));
        let found = quote | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    let searched = 8 * words.len().min(4);
    memchr2(b'"', b'\\', &bytes[searched..]).map(|found| searched + found)
}

/// Whether a word is a number of JSON.
fn is_number(word: &[u8]) -> bool {
    if word.iter().all(u8::is_ascii_digit) && !word.is_empty() {
        return word.len() == 1 || word[0] != b'0';
    }
    let digits = |word: &[u8]| word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some((b'e' | b'E', exponent)) = rest.split_first() {
        let exponent = match exponent.split_first() {
            Some((b'+' | b'-', digits)) => digits,
            _ => exponent,
        };
        let count = digits(exponent);
        return count > 0 && count == exponent.len();
    }
    rest.is_empty()
}

impl Quoted<'_> {
    /// The text, escapes replaced, at the end of `out`; counts surrogates without their other half.
    pub(crate) fn unescape(&self, out: &mut String) -> u64 {
        let mut lone = 0;
        let mut rest = self.raw;
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            out.push_str(&rest[..at]);
            let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
            rest = rest.get(at + 2..).unwrap_or("");
            match escape {
                b'b' => out.push('\u{8}'),
                b'f' => out.push('\u{c}'),
                b'n' => out.push('\n'),
                b'r' => out.push('\r'),
                b't' => out.push('\t'),
                b'u' => {
                    let (character, length) = character(rest);
                    lone += u64::from(character.is_none());
                    out.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
                    rest = rest.get(length..).unwrap_or("");
                }
                other => out.push(char::from(other)),
            }
        }
        out.push_str(rest);
        lone
    }
}

/// The character of the digits behind `\u`, and how many bytes it takes; None for half a pair.
fn character(rest: &str) -> (Option<char>, usize) {
    let unit =
        |at: usize| rest.get(at..at + 4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match unit(0) {
        Some(high @ 0xd800..=0xdbff) if rest.get(4..6) == Some("\\u") => match unit(6) {
            Some(low @ 0xdc00..=0xdfff) => {
                let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                (char::from_u32(code), 10)
            }
            _ => (None, 4),
        },
        Some(code) => (char::from_u32(code), 4),
        None => (None, 4),
    }
}

/// A value with control characters in its strings escaped and white space as blanks.
///
/// Some writers leave line breaks in names; what is stored must be JSON.
pub(crate) fn escape_controls(text: &str, out: &mut String) {
    let (mut quoted, mut escaped) = (false, false);
    for character in text.chars() {
        match character {
            '\0'..='\u{1f}' if quoted => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            '\0'..='\u{1f}' => out.push(' '),
            _ => out.push(character),
        }
        quoted ^= character == '"' && !escaped;
        escaped = character == '\\' && !escaped && quoted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Scan<&str> {
        Scanner::new(text).value()
    }

    #[test]
    fn values_are_delimited() {
        for text in
            ["{}", "[]", "\"a\\\"b\"", "{\"a\": [1, {\"b\": null}], \"c\": -1.5e-3}", "[[], [1]]"]
        {
            assert_eq!(read(&format!(" {text} ,")), Ok(text));
            for cut in 1..text.len() {
                assert_eq!(read(&text[..cut]), Err(Stop::End), "{}", &text[..cut]);
            }
        }
        assert_eq!(read("-12.5]"), Ok("-12.5"));
        assert_eq!(read("NaN,"), Ok("NaN"));
    }

    #[test]
    fn what_is_not_json_is_refused_at_its_place() {
        let cases = [
            ("[1 2]", 3, ", or ]"),
            ("{\"a\" 1}", 5, ":"),
            ("{1: 2}", 1, "a key in quotes"),
            ("[1}", 2, ", or ]"),
            ("{\"a\": 01}", 6, "a value"),
            ("[1.]", 1, "a value"),
            ("[+1]", 1, "a value"),
            ("[nul]", 1, "a value"),
            ("\"\\x\"", 1, "an escape of JSON"),
            ("\"\\u12G4\"", 1, "\\u and four hexadecimal digits"),
            ("[,]", 1, "a value"),
        ];
        for (text, place, expected) in cases {
            assert_eq!(read(text), Err(Stop::Wrong { place, expected }), "{text}");
        }
        assert_eq!(read(&"[".repeat(2000)), Err(Stop::Deep(DEPTH_LIMIT)));
    }

    #[test]
    fn control_characters_become_escapes() {
        let mut out = String::new();
        escape_controls("\"a\nb\": [1,\n\"\\\"\t\"]", &mut out);
        assert_eq!(out, "\"a\\u000ab\": [1, \"\\\"\\u0009\"]");
    }

    proptest! {
        #[test]
        fn quotes_are_found(bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(b'#'), any::<u8>()], 0..60)) {
            let first = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            prop_assert_eq!(quote_or_backslash(&bytes), first);
            let plain: Vec<u8> = bytes.iter().map(|byte| byte & 0x5d | 1).collect();
            let first = plain.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            prop_assert_eq!(quote_or_backslash(&plain), first);
        }

        /// serde_json is the oracle: what it reads is one value, and escapes mean the same.
        #[test]
        fn agrees_with_serde_json(text in "[\\[\\]{}:,\"0-9a.eE+ \\\\nu-]{0,24}") {
            let with_end = format!("{text} ,");
            let ours = read(&with_end);
            match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(_) => prop_assert_eq!(ours, Ok(text.trim())),
                // It refuses numbers beyond f64 and lone surrogates, which a file may have.
                Err(error) if error.to_string().contains("out of range") => {}
                Err(error) if error.to_string().contains("surrogate") => {}
                Err(_) => prop_assert_ne!(ours, Ok(text.trim())),
            }
        }

        #[test]
        fn escapes_are_replaced(text in any::<String>()) {
            let escaped = serde_json::to_string(&text).unwrap();
            let quoted = Scanner::new(&escaped).string("a string").unwrap();
            let mut out = String::new();
            prop_assert_eq!(quoted.unescape(&mut out), 0);
            prop_assert_eq!(out, text);
        }
    }
}

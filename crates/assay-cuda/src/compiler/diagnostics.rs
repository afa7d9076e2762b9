//! Parsing of NVRTC's diagnostics: location, message, source line and caret.

use std::fmt;

/// One diagnostic of the compiler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The name of the source.
    pub file: String,
    /// The line, counted from one.
    pub line: u32,
    /// Whether it is an error; else a warning.
    pub is_error: bool,
    /// The message.
    pub message: String,
    /// The line of source and the caret below it, as the compiler prints them.
    pub excerpt: Vec<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_error { "error" } else { "warning" };
        write!(f, "{}:{}: {kind}: {}", self.file, self.line, self.message)?;
        for line in &self.excerpt {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}

/// The diagnostics in a log of NVRTC, errors first.
///
/// ```
/// let log = "k.cu(2): error: identifier \"x\" is undefined\n      y = x;\n          ^\n\n1 error detected in the compilation of \"k.cu\".\n";
/// let found = assay_cuda::compiler::diagnostics(log);
/// assert_eq!(found.len(), 1);
/// assert_eq!((found[0].line, found[0].excerpt[1].as_str()), (2, "          ^"));
/// ```
pub fn diagnostics(log: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut open = false;
    for line in log.lines() {
        if let Some(begun) = head(line) {
            found.push(begun);
            open = true;
        } else if open && !line.trim().is_empty() {
            if let Some(last) = found.last_mut() {
                last.excerpt.push(line.to_owned());
            }
        } else {
            open = false;
        }
    }
    found.sort_by_key(|one| !one.is_error);
    found
}

/// The first line of a diagnostic: `file(line): kind: message`.
fn head(line: &str) -> Option<Diagnostic> {
    let (location, rest) = line.split_once("): ")?;
    let (file, number) = location.rsplit_once('(')?;
    let (kind, message) = rest.split_once(": ")?;
    // `error`, `error #20`, `catastrophic error`, `warning #177-D` and the like.
    let is_error = kind.contains("error");
    if !is_error && !kind.starts_with("warning") {
        return None;
    }
    Some(Diagnostic {
        file: file.to_owned(),
        line: number.parse().ok()?,
        is_error,
        message: message.trim_end().to_owned(),
        excerpt: Vec::new(),
    })
}

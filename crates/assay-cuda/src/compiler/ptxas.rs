//! Errors of ptxas in inline assembly.
//!
//! ptxas reports lines of PTX. The instruction that it names is searched in the source, so that the
//! diagnostic shows the user's line.

use super::diagnostics::Diagnostic;
use super::source::Source;

/// The ptxas errors in a log of NVRTC.
pub(super) fn ptxas_errors(log: &str, source: &Source<'_>) -> Vec<Diagnostic> {
    log.lines().filter_map(|line| error(line, source)).collect()
}

/// `ptxas application ptx input, line 27; error   : message`, with the instruction in quotes.
fn error(line: &str, source: &Source<'_>) -> Option<Diagnostic> {
    let (location, rest) = line.strip_prefix("ptxas ")?.split_once(';')?;
    let message = rest.trim_start().strip_prefix("error")?;
    let message = message.trim_start().strip_prefix(':')?.trim();
    let (_, number) = location.rsplit_once("line ")?;
    let found = Diagnostic {
        file: format!("{} (PTX)", source.name),
        line: number.trim().parse().ok()?,
        is_error: true,
        message: message.to_owned(),
        excerpt: Vec::new(),
    };
    Some(match message.split('\'').nth(1).and_then(|word| only_line(source.text, word)) {
        Some((line, text, column)) => Diagnostic {
            file: source.name.to_owned(),
            line,
            excerpt: vec![text.to_owned(), format!("{}^", " ".repeat(column))],
            ..found
        },
        None => found,
    })
}

/// The only line with a word: its number from 1, text and column; `None` if several lines have it.
fn only_line<'s>(text: &'s str, word: &str) -> Option<(u32, &'s str, usize)> {
    let mut lines = text.lines().zip(1..).filter_map(|(line, number)| {
        let at = line.find(word)?;
        Some((number, line, line[..at].chars().count()))
    });
    let first = lines.next()?;
    lines.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors_of(text: &str, log: &str) -> Vec<String> {
        let source = Source { name: "k.cu", text, headers: &[], options: &[] };
        let errors = ptxas_errors(log, &source);
        errors.iter().map(ToString::to_string).collect()
    }

    const LOG: &str = "ptxas application ptx input, line 27; error   : Instruction 'wgmma.fence' \
        not supported on .target 'sm_90'\nptxas fatal   : Ptx assembly aborted due to errors\n";

    #[test]
    fn ptxas_error_shows_the_source_line_of_the_instruction() {
        assert_eq!(
            errors_of("void f() {\n  asm(\"wgmma.fence;\");\n}", LOG),
            ["k.cu:2: error: Instruction 'wgmma.fence' not supported on .target 'sm_90'\n  \
                 asm(\"wgmma.fence;\");\n       ^"]
        );
    }

    #[test]
    fn ambiguous_or_missing_instruction_shows_the_ptx_line() {
        for text in ["", "wgmma.fence\nwgmma.fence"] {
            assert_eq!(
                errors_of(text, LOG),
                [
                    "k.cu (PTX):27: error: Instruction 'wgmma.fence' not supported on .target 'sm_90'"
                ]
            );
        }
    }
}

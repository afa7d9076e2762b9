//! Compilation with NVRTC, through the cubin cache.

use super::architecture::Architecture;
use super::cache::{self, CubinCache};
use super::error::CompileError;
use super::program::{self, Program};
use super::source::{Image, Source};
use crate::discovery::{Installation, discover};

/// C++17 has `if constexpr` and fold expressions, and every NVRTC of majors 12 and 13 supports it.
const LANGUAGE: &str = "--std=c++17";

/// Compiles for one architecture.
///
/// No GPU is needed, only NVRTC.
pub fn compile(source: &Source<'_>, architecture: Architecture) -> Result<Image, CompileError> {
    let found = discover();
    let Some(nvrtc) = &found.compiler_functions else {
        return Err(no_compiler(found));
    };
    let target = architecture.target(&program::supported(nvrtc));
    let mut options = vec![format!("--gpu-architecture={}", target.name()), LANGUAGE.to_owned()];
    options.extend(source.options.iter().cloned());
    let program = Program::new(nvrtc, source)?;
    program.compile(source, &options)?;
    Ok(Image { bytes: program.image(source, &target)?, log: program.log() })
}

/// The cache key of a source: a hash of source, options, architecture and compiler version.
pub fn source_key(source: &Source<'_>, architecture: Architecture) -> Result<String, CompileError> {
    let found = discover();
    match &found.compiler {
        Ok(compiler) => Ok(cache::key(source, architecture, compiler.version)),
        Err(_) => Err(no_compiler(found)),
    }
}

/// Compiles, or reads the cache.
pub fn compile_cached(
    source: &Source<'_>,
    architecture: Architecture,
    cache: Option<&CubinCache>,
) -> Result<Image, CompileError> {
    let Some(cache) = cache else {
        return compile(source, architecture);
    };
    let key = source_key(source, architecture)?;
    if let Some(bytes) = cache.read(&key) {
        let log = String::new();
        return Ok(Image { bytes, log });
    }
    let image = compile(source, architecture)?;
    cache.write(&key, &image.bytes);
    Ok(image)
}

fn no_compiler(found: &Installation) -> CompileError {
    match &found.compiler {
        Err(missing) => CompileError::NoCompiler(missing.clone()),
        // The functions exist exactly when the compiler does.
        Ok(_) => CompileError::Refused { name: "NVRTC".to_owned(), status: 0 },
    }
}

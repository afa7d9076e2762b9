//! NVRTC without a GPU. Skipped, with the reason printed, where there is no NVRTC.

use assay_cuda::compiler::{
    Architecture, CompileError, CubinCache, Source, compile, compile_cached,
};
use assay_cuda::discovery::discover;

const ADD: &str = r#"
#include "sizes.cuh"
extern "C" __global__ void add(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += b[i] * SCALE + OFFSET;
}
"#;

fn has_compiler() -> bool {
    match &discover().compiler {
        Ok(_) => true,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            false
        }
    }
}

fn source<'a>(text: &'a str, options: &'a [String]) -> Source<'a> {
    Source { name: "add.cu", text, headers: &[("sizes.cuh", "#define OFFSET 1.0f\n")], options }
}

#[test]
fn missing_nvrtc_has_the_documented_message() {
    if discover().compiler.is_ok() {
        return;
    }
    let error = compile(&source(ADD, &[]), Architecture::of_device(80)).unwrap_err();
    assert_eq!(error.code(), "no_nvrtc");
    assert!(error.to_string().starts_with("NVRTC JIT compiler not available\n"));
}

#[test]
fn every_supported_architecture_compiles_to_a_cubin() {
    if !has_compiler() {
        return;
    }
    let options = ["-DSCALE=2.0f".to_owned()];
    for name in ["sm_80", "sm_90a", "sm_120"] {
        let architecture = Architecture::parse(name).unwrap();
        let image = compile(&source(ADD, &options), architecture).unwrap();
        assert_eq!(&image.bytes[..4], b"\x7fELF", "{name}");
    }
}

#[test]
fn errors_show_the_line_and_a_caret() {
    if !has_compiler() {
        return;
    }
    let text = "extern \"C\" __global__ void f(float* a) {\n    a[0] = missing + 1;\n}\n";
    let error = compile(&source(text, &[]), Architecture::of_device(80)).unwrap_err();
    let CompileError::Source { diagnostics, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((diagnostics[0].file.as_str(), diagnostics[0].line), ("add.cu", 2));
    let message = error.to_string();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[0], "add.cu:2: error: identifier \"missing\" is undefined");
    assert!(lines[1].contains("a[0] = missing + 1;"), "{message}");
    let caret = lines[2].find('^').unwrap();
    assert_eq!(lines[1].find("missing"), Some(caret), "{message}");
}

#[test]
fn unknown_nvrtc_options_are_reported() {
    if !has_compiler() {
        return;
    }
    let options = ["--no-such-option".to_owned()];
    let error = compile(&source(ADD, &options), Architecture::of_device(80)).unwrap_err();
    assert_eq!(error.code(), "compile_options");
    assert!(error.to_string().contains("no-such-option"), "{error}");
    let zero = compile(&source("\0", &[]), Architecture::of_device(80)).unwrap_err();
    assert_eq!(zero.code(), "zero_byte");
}

#[test]
fn damaged_cache_entry_is_recompiled_with_a_notice() {
    if !has_compiler() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("assay-cubins-{}", std::process::id()));
    let cache = CubinCache::new(folder.clone());
    let options = ["-DSCALE=2.0f".to_owned()];
    let architecture = Architecture::of_device(80);
    let once = || compile_cached(&source(ADD, &options), architecture, Some(&cache)).unwrap();
    let first = once();
    let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    // What is on disk is what is returned.
    assert_eq!(once().bytes, first.bytes);
    assert_eq!(cache.take_notices(), Vec::<String>::new());
    std::fs::write(&file, b"damaged").unwrap();
    assert_eq!(once().bytes, first.bytes);
    let notices = cache.take_notices();
    assert_eq!(notices.len(), 1);
    assert!(notices[0].contains("compiled again"), "{notices:?}");
    assert_eq!(once().bytes, first.bytes);
    assert_eq!(cache.take_notices(), Vec::<String>::new());
    std::fs::remove_dir_all(folder).unwrap();
}

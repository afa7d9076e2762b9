//! Embeds every source under `kernels/` in the library, so that a new file need not be listed.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Collects the CUDA sources of a folder and of its subfolders.
///
/// Cargo watches every folder as well: a file added to one changes no file that it knows.
fn collect_sources(folder: &Path, sources: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            collect_sources(&path, sources)?;
        } else if matches!(extension, Some("cu" | "cuh")) {
            println!("cargo::rerun-if-changed={}", path.display());
            sources.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    // Asked at run time: a target folder may serve several checkouts.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?;
    let folder = Path::new(&manifest).join("../../kernels");
    let mut paths = Vec::new();
    collect_sources(&folder, &mut paths)?;
    let mut sources: Vec<(String, PathBuf)> = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        sources.push((name.into_owned(), path.canonicalize()?));
    }
    sources.sort();
    // `#include` and the compiler know a source by its file name, whatever its folder.
    if let Some(pair) = sources.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let (first, second) = (pair[0].1.display(), pair[1].1.display());
        return Err(io::Error::other(format!(
            "kernels/: expected unique file names, got {first} and {second}"
        )));
    }
    let mut text = String::from("&[\n");
    for (name, path) in sources {
        let path = path.display().to_string();
        text += &format!("    ({name:?}, include_str!({path:?})),\n");
    }
    text += "]\n";
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&out).join("sources.rs"), text)
}

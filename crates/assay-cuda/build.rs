//! Lists the kernels' sources, so that a file added there is in the library without being named.

use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels");
    println!("cargo::rerun-if-changed={}", folder.display());
    let listed: io::Result<Vec<_>> = fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect();
    let mut sources: Vec<_> = listed?
        .into_iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "cu" || end == "cuh")
        })
        .collect();
    sources.sort();
    let mut text = String::from("&[\n");
    for path in sources {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let place = path.canonicalize()?;
        text += &format!(
            "    ({name:?}, include_str!({:?})),\n",
            place.display().to_string()
        );
    }
    text += "]\n";
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&out).join("sources.rs"), text)
}

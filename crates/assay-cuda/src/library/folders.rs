//! Search paths of NVRTC, cuBLASLt and CUPTI: wheels, then a toolkit, then the system.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Supported CUDA majors, newest first.
const MAJORS: [u32; 2] = [13, 12];

static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Sets the folders of NVIDIA's wheels, which contain `libnvrtc.so.*` or `libcublasLt.so.*`; only the
/// first call has an effect.
pub fn set_library_folders(folders: Vec<PathBuf>) {
    // A later call names the same wheels of the same interpreter.
    let _ = FOLDERS.set(folders);
}

/// Folders to search, best first: `ASSAY_CUDA_LIBRARIES`, the wheels, the toolkit.
fn folders() -> Vec<PathBuf> {
    let chosen = env::var_os("ASSAY_CUDA_LIBRARIES");
    let mut found: Vec<PathBuf> = chosen.iter().flat_map(env::split_paths).collect();
    found.extend(FOLDERS.get().into_iter().flatten().cloned());
    for name in ["CUDA_PATH", "CUDA_HOME"] {
        if let Some(toolkit) = env::var_os(name).map(PathBuf::from) {
            found.push(toolkit.join("lib64"));
            found.push(toolkit.join("lib"));
        }
    }
    found
}

/// Majors to try: the driver's first, since an older driver may not load newer code.
fn majors(driver_major: Option<u32>) -> Vec<u32> {
    let mut majors = MAJORS.to_vec();
    if let Some(driver) = driver_major {
        majors.sort_by_key(|major| (*major > driver, driver.abs_diff(*major)));
    }
    majors
}

/// `name.13` and the like, in every folder and then in the system's search path.
fn candidates(name: &str, folders: &[PathBuf], driver_major: Option<u32>) -> Vec<PathBuf> {
    let names: Vec<String> =
        majors(driver_major).iter().map(|major| format!("{name}.{major}")).collect();
    let in_folders = folders
        .iter()
        .flat_map(|folder| names.iter().map(|name| folder.join(name)))
        .filter(|path| path.is_file());
    in_folders.chain(names.iter().map(PathBuf::from)).collect()
}

/// Files that may be NVRTC, best first.
pub(crate) fn nvrtc_candidates(driver_major: Option<u32>) -> Vec<PathBuf> {
    candidates("libnvrtc.so", &folders(), driver_major)
}

/// Files that may be cuBLASLt, best first.
pub(crate) fn cublaslt_candidates(driver_major: Option<u32>) -> Vec<PathBuf> {
    candidates("libcublasLt.so", &folders(), driver_major)
}

/// Files that may be CUPTI, best first; none of a later CUDA major than the driver's.
pub(crate) fn cupti_candidates(driver_major: u32) -> Vec<PathBuf> {
    let mut folders = folders();
    for name in ["CUDA_PATH", "CUDA_HOME"] {
        let toolkit = env::var_os(name).map(PathBuf::from);
        folders.extend(toolkit.map(|toolkit| toolkit.join("extras/CUPTI/lib64")));
    }
    usable_libraries(&candidates("libcupti.so", &folders, Some(driver_major)), driver_major)
}

/// Libraries whose names end with a CUDA major not later than the driver's, in order.
pub(crate) fn usable_libraries(paths: &[PathBuf], driver_major: u32) -> Vec<PathBuf> {
    let usable = |path: &&PathBuf| {
        let major = path.extension().and_then(|major| major.to_str()?.parse().ok());
        major.is_some_and(|major: u32| major <= driver_major)
    };
    paths.iter().filter(usable).cloned().collect()
}

/// The file of a library that this process has loaded, by the start of its name.
pub(crate) fn loaded_library(start: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let path = &line[line.find('/')?..];
        let name = path.rsplit('/').next()?;
        name.starts_with(start).then(|| PathBuf::from(path))
    })
}

/// NVRTC's builtins library, next to NVRTC.
pub(crate) fn nvrtc_builtins(nvrtc: &Path) -> Option<PathBuf> {
    let folder = nvrtc.parent().filter(|folder| folder.is_dir())?;
    let listed = std::fs::read_dir(folder).ok()?;
    let mut found: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("libnvrtc-builtins.so."))
        })
        .collect();
    found.sort();
    found.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_prefer_the_driver_and_then_older_ones() {
        assert_eq!(majors(None), [13, 12]);
        assert_eq!(majors(Some(13)), [13, 12]);
        assert_eq!(majors(Some(12)), [12, 13]);
        assert_eq!(majors(Some(14)), [13, 12]);
    }

    #[test]
    fn cupti_is_never_newer_than_the_driver() {
        assert_eq!(cupti_candidates(12), [PathBuf::from("libcupti.so.12")]);
        assert_eq!(cupti_candidates(13), ["libcupti.so.13", "libcupti.so.12"].map(PathBuf::from));
    }

    #[test]
    fn a_loaded_library_is_found_by_the_start_of_its_name() {
        let found = loaded_library("libc.so").unwrap();
        assert!(found.is_file());
        assert_eq!(loaded_library("libabsent.so"), None);
    }

    #[test]
    fn candidates_are_existing_files_then_bare_names() {
        let folder = env::temp_dir().join(format!("assay-cuda-folders-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libnvrtc.so.12"), b"").unwrap();
        let absent = folder.join("absent");
        let found = candidates("libnvrtc.so", &[absent, folder.clone()], Some(13));
        std::fs::remove_dir_all(&folder).unwrap();
        let expected = [
            folder.join("libnvrtc.so.12"),
            PathBuf::from("libnvrtc.so.13"),
            PathBuf::from("libnvrtc.so.12"),
        ];
        assert_eq!(found, expected);
    }
}

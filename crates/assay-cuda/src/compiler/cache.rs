//! The cubin cache on disk: one file per source, options, architecture and compiler version.
//!
//! A file starts with a line that has the hash of the rest. Files are private to their owner, because
//! their contents run on the GPU. A damaged file, or one that others may write, counts as absent and
//! is replaced; [`CubinCache::take_notices`] reports it.

use super::architecture::Architecture;
use super::source::Source;
use crate::notices::Notices;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MAGIC: &str = "assay-cubin-1";

/// A folder of cubins.
#[derive(Debug)]
pub struct CubinCache {
    folder: PathBuf,
    notices: Notices,
    /// Whether a failed write was reported already; every kernel would repeat it.
    reported_write_error: AtomicBool,
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The cache key of a source.
pub(super) fn key(source: &Source<'_>, architecture: Architecture, version: (u32, u32)) -> String {
    let mut hash = Sha256::new();
    // Each field is preceded by its length, so that distinct lists hash differently.
    let mut add = |part: &str| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    };
    add(&architecture.to_string());
    add(&format!("{}.{}", version.0, version.1));
    add(source.name);
    add(source.text);
    add(&source.headers.len().to_string());
    for (name, text) in source.headers {
        add(name);
        add(text);
    }
    source.options.iter().for_each(|option| add(option));
    hexadecimal(&hash.finalize())
}

/// The header line of a file with this content.
fn header(bytes: &[u8]) -> String {
    format!("{MAGIC} {}\n", hexadecimal(&Sha256::digest(bytes)))
}

impl CubinCache {
    /// A cache in this folder, which is created by the first write.
    pub fn new(folder: PathBuf) -> Self {
        CubinCache {
            folder,
            notices: Notices::default(),
            reported_write_error: AtomicBool::new(false),
        }
    }

    /// Problems with cache files since the last call.
    pub fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.cubin"))
    }

    /// The cubin of this key, if it exists and is intact.
    pub(super) fn read(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        match read_verified(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.notices.add(format!(
                    "kernel cache: {} is unusable and is compiled again: {error}",
                    path.display()
                ));
                None
            }
        }
    }

    /// Stores a cubin under this key, atomically.
    pub(super) fn write(&self, key: &str, bytes: &[u8]) {
        if let Err(error) = self.write_atomically(key, bytes)
            && !self.reported_write_error.swap(true, Ordering::AcqRel)
        {
            self.notices
                .add(format!("kernel cache: {} cannot be written: {error}", self.folder.display()));
        }
    }

    fn write_atomically(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!(".{key}.{}.{number}", std::process::id()));
        let written =
            write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, self.path(key)));
        if written.is_err() {
            // Best effort: a partial temporary file is useless.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(header(bytes).as_bytes())?;
    file.write_all(bytes)
}

fn read_verified(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o022 != 0 {
        return Err(io::Error::other("others may write it"));
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let end = content.iter().position(|byte| *byte == b'\n');
    let (first, bytes) = content.split_at(end.map_or(0, |end| end + 1));
    match first == header(bytes).as_bytes() {
        true => Ok(bytes.to_vec()),
        false => Err(io::Error::other("it is damaged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let unique = format!("assay-cuda-cache-{name}-{}", std::process::id());
        std::env::temp_dir().join(unique)
    }

    #[test]
    fn cached_cubin_round_trips_and_is_private() {
        let folder = folder("whole");
        let cache = CubinCache::new(folder.join("inner"));
        assert_eq!(cache.read("a"), None);
        cache.write("a", b"code\nwith lines");
        assert_eq!(cache.read("a").as_deref(), Some(&b"code\nwith lines"[..]));
        let mode = fs::metadata(cache.path("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(cache.take_notices(), Vec::<String>::new());
        let files = fs::read_dir(folder.join("inner")).unwrap().count();
        assert_eq!(files, 1, "no temporary file is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn damaged_and_writable_files_count_as_absent_with_a_notice() {
        let folder = folder("damaged");
        let cache = CubinCache::new(folder.clone());
        let damages: [fn(&Path); 4] = [
            |path| fs::write(path, b"").unwrap(),
            |path| fs::write(path, b"assay-cubin-1 00\ncode").unwrap(),
            |path| {
                let mut content = fs::read(path).unwrap();
                *content.last_mut().unwrap() ^= 1;
                fs::write(path, content).unwrap();
            },
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap(),
        ];
        for damage in damages {
            cache.write("a", b"code");
            damage(&cache.path("a"));
            assert_eq!(cache.read("a"), None);
            assert_eq!(cache.take_notices().len(), 1);
            // The replacement is private again.
            cache.write("a", b"code");
            assert_eq!(cache.read("a").as_deref(), Some(&b"code"[..]));
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn unwritable_folder_gives_one_notice() {
        let folder = folder("refused");
        fs::write(&folder, b"a file").unwrap();
        let cache = CubinCache::new(folder.join("inner"));
        for key in ["a", "b"] {
            cache.write(key, b"code");
        }
        assert_eq!(cache.take_notices().len(), 1, "two kernels, one notice");
        assert_eq!(cache.take_notices(), Vec::<String>::new());
        fs::remove_file(folder).unwrap();
    }

    #[test]
    fn every_field_changes_the_key() {
        let options = ["-DROWS=1".to_owned()];
        let source = Source { name: "a.cu", text: "text", headers: &[], options: &[] };
        let sm80 = Architecture::of_device(80);
        let keys = [
            key(&source, sm80, (13, 0)),
            key(&source, sm80, (13, 1)),
            key(&source, Architecture::of_device(90), (13, 0)),
            key(&Source { text: "other", ..source.clone() }, sm80, (13, 0)),
            key(&Source { options: &options, ..source.clone() }, sm80, (13, 0)),
            key(&Source { headers: &[("h", "")], ..source.clone() }, sm80, (13, 0)),
            key(&Source { name: "b.cu", ..source.clone() }, sm80, (13, 0)),
        ];
        let mut distinct = keys.to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len());
    }
}

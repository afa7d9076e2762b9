//! The folder of control file and shards, opened once and checked: nobody else may write to it.

use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A control file is a few hundred bytes.
const MOST_CONTROL_BYTES: u64 = 1 << 16;
/// Write permission of group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Write permission of others.
const WORLD_WRITE: u32 = 0o002;
/// Only the owner of a file may rename or delete it.
const STICKY: u32 = 0o1000;

fn refuse(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {why}", path.display()))
}

fn effective_user() -> u32 {
    // SAFETY: it has no preconditions.
    unsafe { libc::geteuid() }
}

/// Refuses what another user owns or may write.
fn check_owner(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let user = effective_user();
    if metadata.uid() != user && metadata.uid() != 0 {
        return Err(refuse(
            path,
            &format!("expected a file of user {user}, got one of user {}", metadata.uid()),
        ));
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return Err(refuse(path, "others may write to it"));
    }
    Ok(())
}

/// Refuses a path through a folder where others may put something else in its place.
fn check_ancestors(path: &Path) -> io::Result<()> {
    for folder in path.ancestors().skip(1) {
        let metadata = folder.symlink_metadata()?;
        let user = effective_user();
        if metadata.uid() != user && metadata.uid() != 0 {
            return Err(refuse(folder, "belongs to another user"));
        }
        if metadata.mode() & WORLD_WRITE != 0 && metadata.mode() & STICKY == 0 {
            return Err(refuse(folder, "everybody may write to it"));
        }
    }
    Ok(())
}

/// Refuses a file that others may write, or may replace.
pub fn check_file(path: &Path) -> io::Result<()> {
    let real = path.canonicalize()?;
    check_owner(&real, &real.symlink_metadata()?)?;
    check_ancestors(&real)
}

/// When and what a file was; another version differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64, i64, i64, i64);

/// A folder that only this user may write, held open.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: File,
}

impl Folder {
    /// Opens a folder, or says why it is not safe.
    pub fn open(path: &Path) -> io::Result<Folder> {
        if !path.is_absolute() {
            return Err(refuse(path, "expected an absolute path"));
        }
        let handle = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)?;
        check_owner(path, &handle.metadata()?)?;
        check_ancestors(&path.canonicalize()?)?;
        Ok(Folder { path: path.to_owned(), handle })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_at(&self, name: &str, flags: libc::c_int, mode: libc::c_uint) -> io::Result<File> {
        let name = CString::new(name)?;
        let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the handle is open, and the name ends with a zero byte.
        let handle = unsafe { libc::openat(self.handle.as_raw_fd(), name.as_ptr(), flags, mode) };
        if handle < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: openat just returned it.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(handle) }))
    }

    /// What a file of the folder is now, without opening it.
    pub fn stamp(&self, name: &str) -> io::Result<Stamp> {
        let name = CString::new(name)?;
        // SAFETY: an all-zero stat is a value of it; the system fills it.
        let found = unsafe {
            let mut found: libc::stat = std::mem::zeroed();
            let handle = self.handle.as_raw_fd();
            let flags = libc::AT_SYMLINK_NOFOLLOW;
            if libc::fstatat(handle, name.as_ptr(), &raw mut found, flags) != 0 {
                return Err(io::Error::last_os_error());
            }
            found
        };
        Ok(Stamp(found.st_ino, found.st_mtime, found.st_mtime_nsec, found.st_size))
    }

    /// The text of a small file of the folder that only this user may write.
    pub fn read(&self, name: &str) -> io::Result<String> {
        let file = self.open_at(name, libc::O_RDONLY | libc::O_NONBLOCK, 0)?;
        let metadata = file.metadata()?;
        let path = self.path.join(name);
        if !metadata.is_file() {
            return Err(refuse(&path, "expected a plain file"));
        }
        check_owner(&path, &metadata)?;
        if metadata.len() > MOST_CONTROL_BYTES {
            return Err(refuse(&path, "expected at most 64 KiB"));
        }
        let mut text = String::new();
        file.take(MOST_CONTROL_BYTES).read_to_string(&mut text)?;
        Ok(text)
    }

    /// A new file of the folder that only this user may read; it must not exist.
    pub fn create(&self, name: &str) -> io::Result<File> {
        self.open_at(name, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o600)
    }

    /// Replaces a file of the folder at once: a reader sees the old text or the new one.
    pub fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        use std::io::Write;
        let staging = format!(".{name}.{}", std::process::id());
        let rename = || -> io::Result<()> {
            self.create(&staging)?.write_all(text.as_bytes())?;
            let (from, to) = (CString::new(staging.as_str())?, CString::new(name)?);
            let handle = self.handle.as_raw_fd();
            // SAFETY: the handle is open, and both names end with a zero byte.
            let status = unsafe { libc::renameat(handle, from.as_ptr(), handle, to.as_ptr()) };
            if status != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        };
        rename().map_err(|error| {
            let path = self.path.join(name);
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{DirBuilder, Permissions, set_permissions};
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir()
            .canonicalize()
            .unwrap()
            .join(format!("assay-inject-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        path
    }

    fn refused(path: &Path) -> String {
        Folder::open(path).unwrap_err().to_string()
    }

    #[test]
    fn folders_that_others_may_write_are_refused() {
        let path = scratch("modes");
        Folder::open(&path).unwrap();
        for mode in [0o777, 0o722, 0o720, 0o1777] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(refused(&path).contains("others may write to it"), "{mode:o}");
        }
        set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let inner = path.join("inner");
        DirBuilder::new().mode(0o700).create(&inner).unwrap();
        assert!(refused(&inner).contains("everybody may write to it"));
        assert!(refused(Path::new("relative")).contains("absolute"));
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn links_are_not_followed() {
        let path = scratch("links");
        let link = path.join("link");
        symlink(&path, &link).unwrap();
        assert!(Folder::open(&link).is_err());
        let folder = Folder::open(&path).unwrap();
        std::fs::write(path.join("target"), "{}").unwrap();
        symlink(path.join("target"), path.join("control.json")).unwrap();
        assert!(folder.read("control.json").is_err());
        symlink("elsewhere", path.join("shard")).unwrap();
        assert!(folder.create("shard").is_err());
        assert!(!path.join("elsewhere").exists());
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_file_is_replaced_at_once_and_its_stamp_changes() {
        let path = scratch("replace");
        let folder = Folder::open(&path).unwrap();
        folder.replace("control.json", "one").unwrap();
        let before = folder.stamp("control.json").unwrap();
        folder.replace("control.json", "two").unwrap();
        assert_ne!(folder.stamp("control.json").unwrap(), before);
        assert_eq!(folder.read("control.json").unwrap(), "two");
        let mode = std::fs::metadata(path.join("control.json")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        set_permissions(path.join("control.json"), Permissions::from_mode(0o666)).unwrap();
        assert!(folder.read("control.json").unwrap_err().to_string().contains("others may write"));
        std::fs::remove_dir_all(&path).unwrap();
    }
}

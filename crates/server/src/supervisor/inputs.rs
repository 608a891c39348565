//! Input files that a server receives from its supervisor instead of reading them.
//!
//! A configuration, profile, description or certificate may be on the attached device itself once that is mounted over its directory: a
//! restarted server that read it would wait for itself. It may also have changed, and the device cannot continue with another size or block
//! size. The process that becomes a supervisor therefore keeps the content of each input that it reads, and its servers inherit all of them
//! in sealed memory (memfd_create(2)).

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};

use crate::descriptor_store::{SUPERVISOR, take_inputs};

const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW);

/// Files by the path that names them. Without content: there was no such file.
type Files = BTreeMap<PathBuf, Option<Vec<u8>>>;

struct Inputs {
    /// These come from a supervisor: they are not read again.
    received: bool,
    files: Files,
}

static INPUTS: LazyLock<Mutex<Inputs>> = LazyLock::new(|| {
    let received = env::var(SUPERVISOR).ok().and_then(|text| take_inputs(&text)).and_then(receive);
    Mutex::new(Inputs { received: received.is_some(), files: received.unwrap_or_default() })
});

/// The content of the input file at `path`: what the supervisor of this process has read, or else the result of `read`.
///
/// # Errors
/// The error of `read`, or that there was no such file.
pub fn input(path: &Path, read: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    let inputs = || INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    let received = Some(inputs()).filter(|inputs| inputs.received);
    if let Some(kept) = received.and_then(|inputs| inputs.files.get(path).cloned()) {
        return kept.ok_or_else(|| io::ErrorKind::NotFound.into());
    }
    let result = read();
    let kept = match &result {
        Ok(bytes) => Some(bytes.clone()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => return result,
    };
    inputs().files.insert(path.to_path_buf(), kept);
    result
}

/// The content of a file, cut after so many bytes: a device such as `/dev/zero` has no end.
///
/// # Errors
/// It cannot be read.
pub fn read_at_most(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(bytes).read_to_end(&mut content)?;
    Ok(content)
}

/// All inputs so far in sealed memory, which programs that this process starts inherit.
pub(super) fn for_servers() -> io::Result<OwnedFd> {
    let inputs = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = memfd_create("dwell-inputs", MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(memory);
    file.write_all(&encode(&inputs.files))?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

/// Reads what a supervisor left in the descriptor; none if it is anything but sealed memory.
fn receive(memory: OwnedFd) -> Option<Files> {
    if !fcntl_get_seals(&memory).is_ok_and(|seals| seals.contains(SEALS)) {
        return None;
    }
    let file = File::from(memory);
    let mut bytes = vec![0; usize::try_from(file.metadata().ok()?.len()).ok()?];
    // At an offset: all servers share the file's position.
    file.read_exact_at(&mut bytes, 0).ok()?;
    decode(&bytes)
}

/// For each file: the path, whether there is content, and the content; strings with their lengths.
fn encode(files: &Files) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut text = |text: &[u8], present: bool| {
        bytes.push(u8::from(present));
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text);
    };
    for (path, content) in files {
        text(path.as_os_str().as_bytes(), true);
        text(content.as_deref().unwrap_or_default(), content.is_some());
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Option<Files> {
    let mut text = || -> Option<Option<Vec<u8>>> {
        let (present, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        bytes = rest;
        Some((*present == 1).then(|| text.to_vec()))
    };
    let mut files = Files::new();
    while let Some(path) = text() {
        files.insert(PathBuf::from(OsString::from_vec(path?)), text()?);
    }
    bytes.is_empty().then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_receive_what_was_read() {
        let files: Files = [
            (PathBuf::from("/etc/dwell.toml"), None),
            (PathBuf::from("empty"), Some(Vec::new())),
            (PathBuf::from(OsString::from_vec(vec![b'x', 0xff])), Some(vec![0, 1, 255])),
        ]
        .into();
        let bytes = encode(&files);
        assert_eq!(decode(&bytes), Some(files));
        assert_eq!(decode(&[]), Some(Files::new()));
        for length in 1..bytes.len() {
            // A cut between two files is a shorter list.
            assert!(decode(&bytes[..length]).is_none_or(|files| files.len() < 3), "{length}");
        }
    }

    #[test]
    fn only_sealed_memory_is_received() {
        assert!(receive(File::open("/dev/null").unwrap().into()).is_none());
        assert!(receive(memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap()).is_none());
        let path = Path::new("/nonexistent/dwell-inputs");
        assert!(input(path, || std::fs::read(path)).is_err());
        assert_eq!(receive(for_servers().unwrap()).unwrap().get(path), Some(&None));
    }
}

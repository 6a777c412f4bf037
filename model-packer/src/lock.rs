//! What a lock holds against what the source has now.

use artifact::{PackageFile, SourceLock};

use crate::gather::Gathered;
use crate::sources::HubHash;

/// Every difference, in words; none when the source is what the lock holds.
pub fn moved(lock: &SourceLock, gathered: &Gathered) -> Vec<String> {
    let snapshot = &gathered.snapshot;
    let mut found = Vec::new();
    if lock.hub != snapshot.hub || lock.id != snapshot.id {
        found.push(format!(
            "it is of {}, the source is {}",
            lock.source().unwrap_or_else(|| lock.hub.clone()),
            snapshot.name()
        ));
    }
    // ModelScope has no commit to ask for: there the files alone are the pin.
    if let (Some(locked), Some(present), "hf") = (&lock.commit, &snapshot.commit, snapshot.hub)
        && locked != present
    {
        found.push(format!("it holds commit {locked}, the source has {present}"));
    }
    for file in &lock.files {
        let path = file.path.as_str();
        let Some(listed) = snapshot.file(path) else {
            found.push(format!("{path} is gone"));
            continue;
        };
        if listed.size != file.size {
            found.push(format!("{path} had {} bytes and has {}", file.size, listed.size));
        }
        let same = match &listed.hash {
            HubHash::Sha256(digest) => file.sha256.as_ref().is_none_or(|locked| locked == digest),
            HubHash::GitSha1(name) => file.git_sha1.as_ref().is_none_or(|locked| locked == name),
            HubHash::Unknown => true,
        };
        if !same {
            found.push(format!("{path} has other content"));
        }
    }
    for taken in &gathered.selection.taken {
        if !lock.files.iter().any(|file| file.path == taken.path) {
            found.push(format!("{} is new", taken.path));
        }
    }
    found
}

/// The same for content that only packing could hash: files of a folder.
pub fn changed(lock: &SourceLock, files: &[PackageFile]) -> Vec<String> {
    let differs = |file: &&PackageFile| {
        let locked = lock
            .files
            .iter()
            .find(|locked| locked.path == file.path)
            .and_then(|locked| locked.sha256.as_ref());
        locked.is_some_and(|locked| *locked != file.digest)
    };
    files
        .iter()
        .filter(differs)
        .map(|file| format!("{} has other content", file.path))
        .collect()
}

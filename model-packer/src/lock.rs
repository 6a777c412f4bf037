//! What a lock holds against what the source has now.

use artifact::{LockedFile, PackageFile, SourceLock};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::content::{LayerPart, hash_parts};
use crate::error::PackError;
use crate::gather::Gathered;
use crate::sources::{HubHash, ListedFile};

/// Files that are read at the same time when no listing proves them.
const READ_AT_ONCE: usize = 2;

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
        if agrees(file, listed) == Some(false) {
            found.push(other_content(path));
        }
    }
    for taken in &gathered.selection.taken {
        if !lock.files.iter().any(|file| file.path == taken.path) {
            found.push(format!("{} is new", taken.path));
        }
    }
    found
}

/// Whether the source's own hash is the locked one; `None` when the two cannot be compared.
fn agrees(locked: &LockedFile, listed: &ListedFile) -> Option<bool> {
    match &listed.hash {
        HubHash::Sha256(digest) => Some(locked.sha256.as_ref()? == digest),
        HubHash::GitSha1(name) => Some(locked.git_sha1.as_ref()? == name),
        HubHash::Unknown => None,
    }
}

fn other_content(path: &str) -> String {
    format!("{path} has other content")
}

/// The same for content that packing has hashed: that of a folder, and of files that a hub lists without a hash.
pub fn changed(lock: &SourceLock, files: &[PackageFile]) -> Vec<String> {
    let differs = |file: &&PackageFile| {
        let locked = lock
            .files
            .iter()
            .find(|locked| locked.path == file.path)
            .and_then(|locked| locked.sha256.as_ref());
        locked.is_some_and(|locked| *locked != file.digest)
    };
    let paths = files.iter().filter(differs).map(|file| file.path.as_str());
    paths.map(other_content).collect()
}

/// The same where nothing is packed: files of which the listing proves nothing are read, as nothing else can tell.
pub async fn changed_unseen(lock: &SourceLock, gathered: &Gathered) -> Result<Vec<String>, PackError> {
    let unseen = lock.files.iter().filter_map(|locked| {
        let listed = gathered.snapshot.file(locked.path.as_str())?;
        let digest = locked.sha256.as_ref()?;
        agrees(locked, listed).is_none().then_some((digest, listed))
    });
    let compared = futures::stream::iter(unseen).map(|(locked, listed)| async move {
        let file = LayerPart::plain(gathered.reader(listed), None);
        let (digests, _) = hash_parts(std::slice::from_ref(&file)).await?;
        Ok::<_, PackError>((digests != [locked.clone()]).then(|| other_content(&listed.path)))
    });
    let found: Vec<Option<String>> = compared.buffered(READ_AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

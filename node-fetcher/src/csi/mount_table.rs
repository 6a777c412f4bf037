//! Reading the kernel's mount table: it is the only record of who has which artifact mounted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use artifact::Digest;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The folder of its file system that is shown.
    pub root: PathBuf,
    /// Where it is shown.
    pub target: PathBuf,
    /// Whether it can be written through.
    pub read_only: bool,
}

impl Mounted {
    /// The artifact whose view this is, if it is one.
    pub fn artifact(&self) -> Option<Digest> {
        let view = self
            .root
            .parent()
            .filter(|_| self.root.file_name().is_some_and(|name| name == "files"))?;
        let inside = view.parent()?.file_name().is_some_and(|name| name == "views");
        let hex = view.file_name()?.to_str()?;
        inside.then(|| format!("sha256:{hex}").parse().ok()).flatten()
    }
}

/// Reads the text of `/proc/self/mountinfo`; lines of another form are left out.
pub fn parse_mount_table(text: &str) -> Vec<Mounted> {
    text.lines().filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /target ro,nosuid shared:1 - ext4 /dev/sda rw`
fn parse_line(line: &str) -> Option<Mounted> {
    let mut words = line.split(' ').skip(3);
    let (root, target, options) = (words.next()?, words.next()?, words.next()?);
    let read_only = options.split(',').any(|option| option == "ro");
    Some(Mounted {
        root: unescape(root),
        target: unescape(target),
        read_only,
    })
}

/// Spaces, tabs, line ends and backslashes are written as `\040` and the like.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        plain.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(plain))
}

/// The last mount on a target: the one that is seen.
pub(super) fn mounted_at<'a>(mounts: &'a [Mounted], target: &Path) -> Option<&'a Mounted> {
    mounts.iter().rev().find(|mounted| mounted.target == target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_recognised_wherever_the_store_lies() {
        let digest = Digest::of(b"m");
        let hex = digest.hex();
        let table = format!(
            "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
             40 22 254:0 /nodes/1/plimsoll/views/{hex}/files /var/lib/kubelet/pods/a/volumes/kubernetes.io~csi/my\\040model/mount ro,nosuid,nodev - ext4 /dev/vda rw\n\
             41 22 254:0 /nodes/1/plimsoll/views/{hex} /elsewhere rw - ext4 /dev/vda rw\n\
             garbage\n"
        );
        let mounts = parse_mount_table(&table);
        assert_eq!(mounts.len(), 3);
        let target = Path::new("/var/lib/kubelet/pods/a/volumes/kubernetes.io~csi/my model/mount");
        let found = mounted_at(&mounts, target).unwrap();
        assert_eq!((found.artifact(), found.read_only), (Some(digest), true));
        assert_eq!(mounts[0].artifact(), None);
        assert_eq!(mounts[2].artifact(), None, "only the files of a view are mounted by us");
    }
}

//! Mounting, behind a trait, so that the driver can be tested without being root.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};

use super::mount_table::{Mounted, mounted_at, parse_mount_table};

/// What the driver needs of the kernel.
pub trait Mounter: fmt::Debug + Send + Sync {
    /// All mounts that this process sees.
    fn mounts(&self) -> io::Result<Vec<Mounted>>;

    /// Shows the folder of a view, relative to the folder of all views, at a target, read-only from the first moment.
    fn bind_read_only(&self, view: &Path, target: &Path) -> io::Result<()>;

    /// Takes the mount at a target away.
    fn unmount(&self, target: &Path) -> io::Result<()>;
}

/// The real one.
///
/// A read-only bind mount takes two steps, and the second one does not propagate from a container's mount namespace to
/// the node's: the pod would get a writable mount. So the folder of all views is first bound, read-only, to a place of
/// its own; a bind of a read-only mount is read-only in every namespace from the start.
#[derive(Debug)]
pub struct KernelMounter {
    exposed: PathBuf,
}

impl KernelMounter {
    /// Prepares the read-only folder of all views.
    pub fn prepare(views: &Path, exposed: &Path) -> io::Result<Self> {
        let mounter = Self {
            exposed: exposed.to_owned(),
        };
        fs::create_dir_all(exposed)?;
        if let Some(mounted) = mounted_at(&mounter.mounts()?, exposed) {
            if mounted.read_only {
                return Ok(mounter);
            }
            unmount(exposed, UnmountFlags::DETACH)?;
        }
        mount_bind(views, exposed)?;
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount_remount(exposed, flags, c"")?;
        Ok(mounter)
    }

    /// Takes the read-only folder of all views away; mounts made from it stay.
    pub fn close(&self) -> io::Result<()> {
        Ok(unmount(&self.exposed, UnmountFlags::DETACH)?)
    }
}

impl Mounter for KernelMounter {
    fn mounts(&self) -> io::Result<Vec<Mounted>> {
        fs::read_to_string("/proc/self/mountinfo").map(|text| parse_mount_table(&text))
    }

    fn bind_read_only(&self, view: &Path, target: &Path) -> io::Result<()> {
        mount_bind(self.exposed.join(view), target)?;
        let writable = mounted_at(&self.mounts()?, target).is_none_or(|mounted| !mounted.read_only);
        if writable {
            unmount(target, UnmountFlags::DETACH)?;
            return Err(io::Error::other("the mount did not become read-only"));
        }
        Ok(())
    }

    fn unmount(&self, target: &Path) -> io::Result<()> {
        match unmount(target, UnmountFlags::NOFOLLOW) {
            // A process that hangs in the folder must not keep the pod from going away.
            Err(rustix::io::Errno::BUSY) => Ok(unmount(target, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?),
            other => Ok(other?),
        }
    }
}

//! Getting a component: from the cache, else from a folder of prebuilt ones, else from source.

mod pins;
mod prebuilt;
mod source;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

pub use pins::{Component, PINS, Recipe};

use crate::error::Error;
use crate::layout::cache_folder;
use crate::report::Reporter;

/// Where a component would come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is in the cache.
    Cache,
    /// It is in the folder of prebuilt components.
    Prebuilt,
    /// It has to be built.
    Source,
}

/// Components on disk. Cheap to clone; safe to use from several threads and programs at once.
#[derive(Clone)]
pub struct ComponentStore {
    cache: PathBuf,
    prebuilt: Option<PathBuf>,
    reporter: Reporter,
}

impl ComponentStore {
    /// The store that `PLIMSOLL_CACHE` and `PLIMSOLL_PREBUILT` name.
    pub fn from_environment(reporter: Reporter) -> Self {
        let prebuilt = std::env::var_os("PLIMSOLL_PREBUILT").filter(|folder| !folder.is_empty());
        Self::new(cache_folder(), prebuilt.map(PathBuf::from), reporter)
    }

    /// A store in `cache`, with an optional folder of prebuilt components.
    pub fn new(cache: PathBuf, prebuilt: Option<PathBuf>, reporter: Reporter) -> Self {
        Self {
            cache,
            prebuilt,
            reporter,
        }
    }

    /// Where this component would come from now.
    pub fn origin(&self, name: &str) -> Result<Origin, Error> {
        let component = find(name)?;
        if self.program(component).is_file() {
            return Ok(Origin::Cache);
        }
        let prebuilt = self
            .prebuilt
            .as_deref()
            .is_some_and(|folder| prebuilt::offers(folder, component));
        Ok(if prebuilt { Origin::Prebuilt } else { Origin::Source })
    }

    /// The path of a component's program, which is made first where needed.
    pub fn ensure(&self, name: &str) -> Result<PathBuf, Error> {
        let component = find(name)?;
        let program = self.program(component);
        if program.is_file() {
            return Ok(program);
        }
        let folder = program.parent().unwrap_or(&self.cache).to_owned();
        fs::create_dir_all(&folder).map_err(Error::io("make folder", &folder))?;
        let _making = lock(&folder)?;
        if !program.is_file() {
            self.make(component, &folder, &program)?;
        }
        Ok(program)
    }

    /// Makes several components, two at a time. Those that are built from one Go module are built one after the other: they
    /// share most of their packages, and two builds at once would compile them twice.
    pub fn ensure_all(&self, names: &[&str]) -> Result<(), Error> {
        let groups = Mutex::new(self.groups(names)?);
        let next = || groups.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || {
            while let Some(group) = next() {
                group.iter().try_for_each(|name| self.ensure(name).map(drop))?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(work);
            let own = work();
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            own.and(other)
        })
    }

    fn groups<'n>(&self, names: &[&'n str]) -> Result<VecDeque<Vec<&'n str>>, Error> {
        let mut groups: VecDeque<(Option<&str>, Vec<&str>)> = VecDeque::new();
        for name in names {
            let module = match find(name)?.recipe {
                Recipe::Go { module, .. } if self.origin(name)? == Origin::Source => Some(module),
                _ => None,
            };
            match groups
                .iter_mut()
                .find(|(other, _)| module.is_some() && *other == module)
            {
                Some((_, group)) => group.push(name),
                None => groups.push_back((module, vec![name])),
            }
        }
        Ok(groups.into_iter().map(|(_, group)| group).collect())
    }

    fn make(&self, component: &Component, folder: &Path, program: &Path) -> Result<(), Error> {
        let started = Instant::now();
        let fresh = folder.join("new");
        let origin = self.origin(component.name)?;
        match (&self.prebuilt, origin) {
            (Some(prebuilt), Origin::Prebuilt) => prebuilt::unpack(prebuilt, component, &fresh)?,
            _ => source::Build::new(component, folder, &self.cache, &self.reporter).run(&fresh)?,
        }
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).map_err(Error::io("make executable", &fresh))?;
        fs::rename(&fresh, program).map_err(Error::io("install", program))?;
        let how = if origin == Origin::Prebuilt {
            "unpacked"
        } else {
            "built from source"
        };
        let seconds = started.elapsed().as_secs_f32();
        self.reporter.line(format!(
            "{} {} {how} in {seconds:.1} s",
            component.name, component.version
        ));
        Ok(())
    }

    fn program(&self, component: &Component) -> PathBuf {
        self.cache.join("components").join(key(component)).join(component.name)
    }
}

fn find(name: &str) -> Result<&'static Component, Error> {
    Component::find(name).ok_or_else(|| Error::UnknownComponent { name: name.into() })
}

/// Name, version and recipe: a changed recipe is another component.
fn key(component: &Component) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{:?} {}", component.recipe, std::env::consts::ARCH));
    for file in source::recipe_files(component) {
        hash.update(fs::read(file).unwrap_or_default());
    }
    let digest = hexadecimal(&hash.finalize());
    format!("{}-{}-{}", component.name, component.version, &digest[..12])
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(Error::io("open", &path))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| Error::io("lock", &path)(error.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests;

//! Health, switched by a control file.
//!
//! The file lists the unhealthy devices, one id a line; `all` stands for every device, `#` starts a comment.
//! No file, or an empty one, means that all are healthy.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// What a control file says.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Health {
    /// The devices that are announced as unhealthy.
    pub unhealthy: BTreeSet<String>,
    /// Lines that name no device of this plugin.
    pub unknown: Vec<String>,
}

/// Reads the control file; a missing one means that all devices are healthy.
pub fn read(path: &Path, ids: &[String]) -> io::Result<Health> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(parse(&text, ids)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Health::default()),
        Err(error) => Err(error),
    }
}

/// What the text of a control file says about the devices `ids`.
pub fn parse(text: &str, ids: &[String]) -> Health {
    let mut health = Health::default();
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    for line in lines.filter(|line| !line.is_empty()) {
        if line == "all" {
            health.unhealthy.extend(ids.iter().cloned());
        } else if ids.iter().any(|id| id == line) {
            health.unhealthy.insert(line.to_owned());
        } else {
            health.unknown.push(line.to_owned());
        }
    }
    health
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lists_the_unhealthy_devices() {
        let ids = ["gcu-0".to_owned(), "gcu-1".to_owned()];
        let cases: [(&str, &[&str], &[&str]); 6] = [
            ("", &[], &[]),
            ("gcu-1\n", &["gcu-1"], &[]),
            ("# gcu-0\n  gcu-1  # overheated\n", &["gcu-1"], &[]),
            ("all", &["gcu-0", "gcu-1"], &[]),
            ("gcu-1\ngcu-1", &["gcu-1"], &[]),
            ("gcu-7", &[], &["gcu-7"]),
        ];
        for (text, unhealthy, unknown) in cases {
            let health = parse(text, &ids);
            assert_eq!(
                health.unhealthy.iter().map(String::as_str).collect::<Vec<_>>(),
                unhealthy,
                "{text:?}"
            );
            assert_eq!(health.unknown, unknown, "{text:?}");
        }
    }

    #[test]
    fn a_missing_file_means_healthy_and_an_unreadable_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(&folder.path().join("absent"), &[]).unwrap(), Health::default());
        assert!(read(folder.path(), &[]).is_err());
    }
}

//! Certificates that are trusted besides the system's, and where the user named them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reqwest::Certificate;

use super::SourceError;
use crate::text::with_causes;

/// A PEM file, or a folder of such files as Python's clients take one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrustedCertificates {
    pub(crate) path: PathBuf,
    /// Flag or variable.
    pub(crate) origin: &'static str,
}

impl TrustedCertificates {
    /// By the flag.
    pub(crate) fn of_flag(path: PathBuf) -> Self {
        Self {
            path,
            origin: "--ca-file",
        }
    }

    /// By the variables that users of the hubs know.
    pub(crate) fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let named = |origin: &&'static str| variable(origin).is_some_and(|path| !path.is_empty());
        let origin = ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"]
            .into_iter()
            .find(named)?;
        let path = variable(origin)?.into();
        Some(Self { path, origin })
    }

    /// The content of each file.
    pub(crate) fn pem_files(&self) -> Result<Vec<Vec<u8>>, SourceError> {
        let files = files_of(&self.path).map_err(|error| self.refuse(&error))?;
        let read = |file: PathBuf| fs::read(file).map_err(|error| self.refuse(&error));
        files.into_iter().map(read).collect()
    }

    pub(crate) fn read(&self) -> Result<Vec<Certificate>, SourceError> {
        let mut certificates = Vec::new();
        for pem in self.pem_files()? {
            certificates.extend(Certificate::from_pem_bundle(&pem).map_err(|error| self.refuse(&error))?);
        }
        if certificates.is_empty() {
            return Err(self.refused("there is no PEM certificate in it".into()));
        }
        Ok(certificates)
    }

    /// The error of whoever could not use them, with all its causes.
    pub(crate) fn refuse(&self, error: &(dyn std::error::Error + 'static)) -> SourceError {
        self.refused(with_causes(error))
    }

    fn refused(&self, problem: String) -> SourceError {
        SourceError::Certificates {
            path: self.path.clone(),
            origin: self.origin,
            problem,
        }
    }
}

fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for item in fs::read_dir(path)? {
        let file = item?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{HubSettings, SourceAddress, connect};

    /// What is said of certificates that a variable names.
    fn said(path: &Path) -> Option<String> {
        let settings = HubSettings::from_environment(&|name| match name {
            "REQUESTS_CA_BUNDLE" => Some(path.display().to_string()),
            _ => None,
        });
        let address: SourceAddress = "ms://a/b".parse().unwrap();
        let error = connect(&address, &settings.unwrap()).err()?;
        assert!(error.hint().unwrap().contains("REQUESTS_CA_BUNDLE"), "{error}");
        Some(error.to_string().replace(&path.display().to_string(), "PATH"))
    }

    #[test]
    fn certificates_that_cannot_be_used_are_named_with_the_variable_that_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, content: &str| {
            let place = folder.path().join(name);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, content).unwrap();
            place
        };
        let garbage = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        for (path, problem) in [
            (folder.path().join("missing"), "No such file"),
            (place("text", "hello"), "no PEM certificate"),
            (place("half", "-----BEGIN CERTIFICATE-----\naGVs"), ""),
            (place("garbage", garbage), ""),
            (
                place("folder/text", "hello").parent().unwrap().to_owned(),
                "no PEM certificate",
            ),
        ] {
            let said = said(&path).unwrap_or_else(|| panic!("{} is taken", path.display()));
            assert!(
                said.starts_with("the certificates in PATH, from REQUESTS_CA_BUNDLE, cannot be used: "),
                "{said}"
            );
            assert!(said.contains(problem) && !said.ends_with("builder error"), "{said}");
        }
    }
}

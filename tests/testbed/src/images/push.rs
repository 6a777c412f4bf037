//! Pushing an image to a registry that speaks plain HTTP.

use std::time::Duration;

use crate::error::Error;
use crate::http::{Request, Response};

use super::{Blob, Image, MANIFEST_TYPE};

/// Pushes what the registry does not have; returns the number of bytes sent.
pub fn push(registry: &str, repository: &str, tag: &str, image: &Image) -> Result<u64, Error> {
    let base = format!("http://{registry}/v2/{repository}");
    let mut sent = 0;
    for blob in [&image.layer, &image.config] {
        sent += push_blob(&base, blob)?;
    }
    let url = format!("{base}/manifests/{tag}");
    let request = Request::new("PUT", &url)
        .header("Content-Type", MANIFEST_TYPE)
        .body(&image.manifest.bytes);
    expect("push a manifest", &url, request.send()?, 201)?;
    Ok(sent)
}

fn push_blob(base: &str, blob: &Blob) -> Result<u64, Error> {
    let url = format!("{base}/blobs/{}", blob.digest);
    if Request::new("HEAD", &url).send()?.status == 200 {
        return Ok(0);
    }
    let uploads = format!("{base}/blobs/uploads/");
    let started = expect("start an upload", &uploads, Request::new("POST", &uploads).send()?, 202)?;
    let location = started.header("location").unwrap_or_default();
    let target = upload_target(base, location, &blob.digest);
    let request = Request::new("PUT", &target)
        .header("Content-Type", "application/octet-stream")
        .body(&blob.bytes)
        .limit(Duration::from_mins(2));
    expect("push a blob", &target, request.send()?, 201)?;
    Ok(blob.bytes.len() as u64)
}

/// The registry may answer with a path or a whole address, with or without a query.
fn upload_target(base: &str, location: &str, digest: &str) -> String {
    let root = base.split("/v2/").next().unwrap_or(base);
    let absolute = if location.starts_with("http://") {
        location.to_owned()
    } else {
        format!("{root}{location}")
    };
    let separator = if absolute.contains('?') { '&' } else { '?' };
    format!("{absolute}{separator}digest={digest}")
}

fn expect(step: &str, url: &str, response: Response, status: u16) -> Result<Response, Error> {
    if response.status == status {
        return Ok(response);
    }
    let body: String = response.text().chars().take(500).collect();
    Err(Error::Http {
        step: step.into(),
        url: url.into(),
        status: response.status,
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_goes_where_the_registry_said() {
        let base = "http://r:5000/v2/a/b";
        let cases = [
            (
                "/v2/a/b/blobs/uploads/1?_state=x",
                "http://r:5000/v2/a/b/blobs/uploads/1?_state=x&digest=sha256:d",
            ),
            (
                "http://r:5000/v2/a/b/blobs/uploads/1",
                "http://r:5000/v2/a/b/blobs/uploads/1?digest=sha256:d",
            ),
        ];
        for (location, expected) in cases {
            assert_eq!(upload_target(base, location, "sha256:d"), expected);
        }
    }
}

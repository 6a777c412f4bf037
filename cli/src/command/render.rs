//! `plimsoll matrix render`: the objects that carry a matrix into a cluster.

use crds::{DocumentEncoding, MatrixChannel, MatrixChannelSpec, MatrixRevision, MatrixRevisionSpec};

use serde::Serialize;

use crate::{
    arguments::Render,
    documents::Loaded,
    fault::Answer,
    output::{self, Format},
};

/// Room for the text in one object of the API server: the schema's own limit.
const PLAIN_LIMIT: usize = 1_000_000;

/// Several objects as one, as `kubectl` reads and prints them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    api_version: &'static str,
    kind: &'static str,
    items: (MatrixRevision, MatrixChannel),
}

pub(crate) fn run(own: &Render, loaded: &Loaded, format: Format) -> anyhow::Result<Answer> {
    let frozen = loaded.matrix.revision();
    let name = format!("matrix-{}", frozen.short());
    let (encoding, documents) = encoded(&frozen.text)?;
    let revision = MatrixRevision::new(
        &name,
        MatrixRevisionSpec {
            digest: frozen.digest.clone(),
            encoding,
            documents,
        },
    );
    let channel = MatrixChannel::new(&own.channel, MatrixChannelSpec { revision: name });
    if format == Format::Json {
        let list = List {
            api_version: "v1",
            kind: "List",
            items: (revision, channel),
        };
        output::print(format, &list, String::new)?;
    } else {
        output::write(&format!("{}---\n{}", output::yaml(&revision)?, output::yaml(&channel)?))?;
    }
    Ok(Answer::Yes)
}

/// The text itself where it fits into one object; else compressed.
fn encoded(text: &str) -> anyhow::Result<(DocumentEncoding, String)> {
    if text.len() <= PLAIN_LIMIT {
        return Ok((DocumentEncoding::Plain, text.to_owned()));
    }
    Ok((DocumentEncoding::ZstdBase64, compressed(text)?))
}

fn compressed(text: &str) -> anyhow::Result<String> {
    use base64::Engine as _;
    let packed = zstd::encode_all(text.as_bytes(), 19);
    let packed = packed.map_err(|error| crate::fault::Ours(format!("compressing the matrix: {error}")))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(packed))
}

/// The text of a compressed revision; `None` when it is not one.
pub(crate) fn decompressed(documents: &str) -> Option<String> {
    use base64::Engine as _;
    use std::io::Read as _;
    /// No real matrix is larger, and a hostile object must not fill the memory.
    const MOST: u64 = 256 << 20;
    let packed = base64::engine::general_purpose::STANDARD
        .decode(documents.trim())
        .ok()?;
    let mut text = String::new();
    zstd::Decoder::new(packed.as_slice())
        .ok()?
        .take(MOST)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

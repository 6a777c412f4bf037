//! Mending the requests of a kubelet that names no host.
//!
//! The kubelet's plugin manager dials the registration socket without an authority, so its gRPC library sends the escaped
//! path of the socket as one: `%2Fvar%2Flib%2Fkubelet%2F…`. That is no valid authority, and the HTTP/2 library here resets
//! such a stream before anybody sees it. So the bytes on their way in are read frame by frame, and an authority in a block
//! of headers is replaced by `localhost`; everything else passes unchanged. The dynamic table of the header compression
//! stays in step: one entry is replaced by one entry.

use std::io;

use futures::{Stream, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::UnixStream;

/// What a client sends first.
const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
/// Larger blocks of headers than this are no registration.
const LIMIT: usize = 64 << 10;
const HEADERS: u8 = 1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Place of `:authority` in the static table.
const AUTHORITY: usize = 1;
const HOST: &[u8] = b"localhost";

/// The connections of a listener, with their requests mended.
pub(super) fn mended(
    connections: impl Stream<Item = io::Result<UnixStream>>,
) -> impl Stream<Item = io::Result<DuplexStream>> {
    connections.map(|connection| {
        let (near, far) = tokio::io::duplex(LIMIT);
        tokio::spawn(relay(connection?, near));
        Ok(far)
    })
}

/// Moves bytes both ways until one side ends.
async fn relay(connection: UnixStream, server: DuplexStream) {
    let (mut from_kubelet, mut to_kubelet) = connection.into_split();
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let requests = async {
        let ended = mend_requests(&mut from_kubelet, &mut to_server).await;
        // The server must see the end of the requests, or it would wait for more.
        to_server.shutdown().await.and(ended)
    };
    let answers = async {
        let ended = tokio::io::copy(&mut from_server, &mut to_kubelet).await;
        to_kubelet.shutdown().await.and(ended.map(drop))
    };
    if let Err(error) = tokio::try_join!(requests, answers) {
        tracing::debug!(%error, "a connection for registration ended");
    }
}

async fn mend_requests<R, W>(from: &mut R, to: &mut W) -> io::Result<()>
where
    R: tokio::io::AsyncRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
{
    let mut preface = [0; PREFACE];
    from.read_exact(&mut preface).await?;
    to.write_all(&preface).await?;
    let mut head = [0; FRAME_HEAD];
    while read_or_end(from, &mut head).await? {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        if length > LIMIT {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a frame is too long for a registration",
            ));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await?;
        if head[3] == HEADERS
            && let Some(better) = mend_payload(head[4], &payload)
        {
            payload = better;
            let [.., high, middle, low] = payload.len().to_be_bytes();
            head[..3].copy_from_slice(&[high, middle, low]);
        }
        to.write_all(&head).await?;
        to.write_all(&payload).await?;
    }
    Ok(())
}

/// Fills the buffer; false at a clean end before its first byte.
async fn read_or_end(from: &mut (impl tokio::io::AsyncRead + Unpin), buffer: &mut [u8]) -> io::Result<bool> {
    if from.read(&mut buffer[..1]).await? == 0 {
        return Ok(false);
    }
    from.read_exact(&mut buffer[1..]).await?;
    Ok(true)
}

/// The payload of a frame of headers with a better authority; `None` when it is to pass as it is.
fn mend_payload(flags: u8, payload: &[u8]) -> Option<Vec<u8>> {
    // A block that goes on in another frame, or is padded, is nothing that a kubelet sends.
    if flags & END_HEADERS == 0 || flags & PADDED != 0 {
        return None;
    }
    let priority = if flags & PRIORITY == 0 { 0 } else { 5 };
    let (before, block) = payload.split_at_checked(priority)?;
    let mut mended = before.to_vec();
    mended.extend(mend_block(block)?);
    Some(mended)
}

/// A block of compressed headers (RFC 7541, section 6) with a better authority; `None` when it cannot be read.
fn mend_block(mut block: &[u8]) -> Option<Vec<u8>> {
    let mut mended = Vec::with_capacity(block.len());
    while let Some(&first) = block.first() {
        let (prefix, is_literal) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let (index, mut length) = integer(block, prefix)?;
        if is_literal && index == 0 {
            length += text_length(block.get(length..)?)?;
        }
        let (name, rest) = block.split_at_checked(length)?;
        let (value, rest) = rest.split_at_checked(if is_literal { text_length(rest)? } else { 0 })?;
        mended.extend(name);
        if is_literal && index == AUTHORITY {
            mended.push(u8::try_from(HOST.len()).ok()?);
            mended.extend(HOST);
        } else {
            mended.extend(value);
        }
        block = rest;
    }
    Some(mended)
}

/// An integer whose first byte has so many bits for it (section 5.1), and how many bytes it takes.
fn integer(bytes: &[u8], prefix: u32) -> Option<(usize, usize)> {
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(*bytes.first()?) & most;
    if value < most {
        return Some((value, 1));
    }
    for (place, &byte) in bytes.get(1..)?.iter().enumerate().take(4) {
        value += usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, place + 2));
        }
    }
    None
}

/// How many bytes a text takes with its length (section 5.2), in plain or in Huffman's code.
fn text_length(bytes: &[u8]) -> Option<usize> {
    let (length, head) = integer(bytes, 7)?;
    Some(head + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csi::protocol::registration::registration_server::RegistrationServer;
    use crate::csi::registration::RegistrationService;
    use tokio::net::UnixListener;
    use tokio_stream::wrappers::UnixListenerStream;

    const SOCKET: &str = "/var/lib/kubelet/plugins_registry/weights.plimsoll.dev-reg.sock";

    fn text(value: &str) -> Vec<u8> {
        [&[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat()
    }

    /// The block that grpc-go sends: `:method` and `:scheme` from the static table, the rest as literals.
    fn block(authority: &str) -> Vec<u8> {
        let path = text("/pluginregistration.Registration/GetInfo");
        let content = [text("content-type"), text("application/grpc")].concat();
        [
            &[0x83, 0x86, 0x45][..],
            &path,
            &[0x41],
            &text(authority),
            &[0x40],
            &content,
            &[0x40],
            &text("te"),
            &text("trailers"),
        ]
        .concat()
    }

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
    }

    #[test]
    fn only_the_authority_is_replaced() {
        let escaped = SOCKET.replace('/', "%2F");
        assert_eq!(mend_block(&block(&escaped)), Some(block("localhost")));
        assert_eq!(mend_block(&block("localhost")), Some(block("localhost")));
        let later = [0x83, 0xbf, 0x3f, 0xe1, 0x1f, 0x10, 1, b'a', 2, b'b', b'c'];
        assert_eq!(
            mend_block(&later),
            Some(later.to_vec()),
            "indexed headers, a new table size, a literal of its own name"
        );
    }

    #[test]
    fn what_cannot_be_read_passes_as_it_is() {
        for broken in [
            &[0x41][..],
            &[0x41, 5, b'a'],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x40, 3, b'a'],
        ] {
            assert_eq!(mend_block(broken), None, "{broken:?}");
        }
        assert_eq!(mend_payload(0, &block("a")), None);
        assert_eq!(mend_payload(END_HEADERS | PADDED, &block("a")), None);
        assert_eq!(mend_payload(END_HEADERS | PRIORITY, &[0; 3]), None);
    }

    #[tokio::test]
    async fn a_kubelet_that_names_the_socket_as_its_host_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reg.sock");
        let incoming = mended(UnixListenerStream::new(UnixListener::bind(&path).unwrap()));
        let service = RegistrationServer::new(RegistrationService {
            endpoint: "/csi.sock".into(),
        });
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );

        let mut kubelet = UnixStream::connect(&path).await.unwrap();
        let headers = frame(HEADERS, END_HEADERS, 1, &block(&SOCKET.replace('/', "%2F")));
        let request = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(4, 0, 0, &[]),
            headers,
            frame(0, 1, 1, &[0; 5]),
        ];
        kubelet.write_all(&request.concat()).await.unwrap();
        let mut answer = Vec::new();
        let seen = |answer: &[u8]| answer.windows(9).any(|window| window == b"CSIPlugin");
        while !seen(&answer) {
            let read = tokio::time::timeout(std::time::Duration::from_secs(5), kubelet.read_buf(&mut answer)).await;
            assert_ne!(
                read.expect("an answer in time").unwrap(),
                0,
                "the server hung up: {answer:?}"
            );
        }
    }
}

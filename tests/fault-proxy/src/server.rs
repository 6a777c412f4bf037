//! A small server on loopback: one handler, any body, and the right to break a connection.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A body that may fail: its failure breaks the connection.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The connection is to be broken without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is broken on purpose")]
pub(crate) struct Broken;

/// A running server, stopped when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// Accepts connections until it is dropped; each request goes to the handler.
pub(crate) fn serve<Handler, Answer>(listener: TcpListener, handler: Handler) -> std::io::Result<Server>
where
    Handler: Fn(Request<Incoming>) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Response<Body>, Broken>> + Send + 'static,
{
    let address = listener.local_addr()?;
    let handler = Arc::new(handler);
    let task = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            // Head and body of an answer are two writes, between which a client would wait for its own acknowledgement.
            let _ = stream.set_nodelay(true);
            let handler = handler.clone();
            connections.spawn(async move {
                let service = service_fn(move |request| handler(request));
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // A broken connection is what this server is for.
                let _ = connection.await;
            });
            while connections.try_join_next().is_some() {}
        }
    });
    Ok(Server { address, task })
}

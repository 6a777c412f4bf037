//! The pages of the daemon: `/metrics`, `/healthz`, `/readyz`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// What the pages tell.
#[derive(Debug, Clone)]
struct Pages {
    metrics: Arc<Metrics>,
    announced: PathBuf,
}

/// Serves until it is stopped; without an address there is nothing to serve. Ready means that the kubelet can find the
/// driver, at the path `announced`.
pub async fn serve(
    address: Option<SocketAddr>,
    metrics: Arc<Metrics>,
    announced: PathBuf,
    stop: CancellationToken,
) -> io::Result<()> {
    let Some(address) = address else { return Ok(()) };
    let listener = tokio::net::TcpListener::bind(address).await?;
    let router = Router::new()
        .route("/metrics", get(text))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(Pages { metrics, announced });
    // No grace for open connections: a prober that keeps one must not hold the stop up.
    tokio::select! {
        served = axum::serve(listener, router).into_future() => served,
        () = stop.cancelled() => Ok(()),
    }
}

async fn ready(State(pages): State<Pages>) -> (StatusCode, &'static str) {
    if tokio::fs::try_exists(&pages.announced).await.unwrap_or(false) {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the driver is not announced to the kubelet\n",
        )
    }
}

async fn text(State(pages): State<Pages>) -> impl IntoResponse {
    (
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        pages.metrics.text(),
    )
}

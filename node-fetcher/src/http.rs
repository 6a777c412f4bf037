//! The two pages of the daemon: `/metrics` and `/healthz`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// Serves until it is stopped; without an address there is nothing to serve.
pub async fn serve(address: Option<SocketAddr>, metrics: Arc<Metrics>, stop: CancellationToken) -> io::Result<()> {
    let Some(address) = address else { return Ok(()) };
    let listener = tokio::net::TcpListener::bind(address).await?;
    let router = Router::new()
        .route("/metrics", get(text))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(metrics);
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

async fn text(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    (
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        metrics.text(),
    )
}

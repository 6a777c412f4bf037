//! The small HTTP server for the kubelet and for Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// What the endpoints answer from.
#[derive(Clone)]
pub struct Health {
    /// The numbers.
    pub metrics: Arc<Metrics>,
    /// True once all caches have been filled; followers are ready too.
    pub ready: Arc<AtomicBool>,
}

/// Serves `/healthz`, `/readyz` and `/metrics` until the process ends.
pub async fn serve(address: SocketAddr, health: Health) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, router(health)).await
}

fn router(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(answer_ready))
        .route("/metrics", get(answer_metrics))
        .with_state(health)
}

async fn answer_ready(State(health): State<Health>) -> impl IntoResponse {
    if health.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the caches are being filled\n")
    }
}

async fn answer_metrics(State(health): State<Health>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], health.metrics.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt as _;

    #[tokio::test]
    async fn ready_only_after_the_caches_are_filled() {
        let ready = Arc::new(AtomicBool::new(false));
        let health = Health {
            metrics: Arc::default(),
            ready: Arc::clone(&ready),
        };
        let ask = |health| router(health).oneshot(Request::get("/readyz").body(Body::empty()).unwrap());
        assert_eq!(
            ask(health.clone()).await.unwrap().status(),
            StatusCode::SERVICE_UNAVAILABLE
        );
        ready.store(true, Ordering::Relaxed);
        assert_eq!(ask(health).await.unwrap().status(), StatusCode::OK);
    }
}

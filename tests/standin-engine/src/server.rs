//! The HTTP surface.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;

use crate::requests::Requests;

/// What all requests share.
#[derive(Debug)]
struct Engine {
    served_names: Vec<String>,
    requests: Requests,
}

/// The routes of a stand-in that answers to `served_names`.
pub fn router(served_names: Vec<String>) -> Router {
    let engine = Arc::new(Engine {
        served_names,
        requests: Requests::default(),
    });
    Router::new()
        .route("/health", get(async || StatusCode::OK))
        .route("/v1/models", get(models))
        .route("/metrics", get(metrics))
        .route("/v1/chat/completions", post(refuse))
        .route("/v1/completions", post(refuse))
        .with_state(engine)
}

async fn models(State(engine): State<Arc<Engine>>) -> Response {
    let one = |name: &String| json!({"id": name, "object": "model", "owned_by": "standin-engine"});
    let data: Vec<_> = engine.served_names.iter().map(one).collect();
    Json(json!({"object": "list", "data": data})).into_response()
}

async fn metrics(State(engine): State<Arc<Engine>>) -> Response {
    let name = engine.served_names.first().map_or("", String::as_str);
    let text = engine.requests.metrics(name);
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response()
}

async fn refuse(State(engine): State<Arc<Engine>>) -> Response {
    let _running = engine.requests.start();
    let message = "this is a stand-in for a vendor's engine image: it owns no model and generates nothing";
    let error = json!({"error": {"message": message, "type": "not_implemented", "code": 501}});
    (StatusCode::NOT_IMPLEMENTED, Json(error)).into_response()
}

//! Logins: passwords, and tokens that expire.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, Response};
use serde_json::json;

use super::Shared;
use super::reply::{query_value, query_values, refuse, reply, with};
use crate::server::Body;

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Everybody everything.
    Open,
    /// User name and password with each request.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: String,
    },
    /// Tokens of the registry's own token service.
    Bearer {
        /// The user name.
        username: String,
        /// The password, also taken as a refresh token.
        password: String,
        /// Whether a token without a login may read.
        anonymous_pull: bool,
        /// Whether an expired token is answered with 403 and a sentence instead of 401.
        expired_as_403: bool,
    },
}

impl Auth {
    /// Tokens for `user` with `pass`, nothing for anybody else.
    pub fn bearer() -> Self {
        Self::Bearer {
            username: "user".to_owned(),
            password: "pass".to_owned(),
            anonymous_pull: false,
            expired_as_403: false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tokens {
    valid: Mutex<BTreeMap<String, Token>>,
    issued: Mutex<u32>,
}

#[derive(Debug)]
struct Token {
    scopes: Vec<String>,
    ends: Instant,
}

impl Tokens {
    pub(crate) fn expire(&self) {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn issued(&self) -> u32 {
        *self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn issue(&self, scopes: Vec<String>, ends: Instant) -> String {
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        *issued += 1;
        let token = format!("token-{issued}");
        self.valid
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(token.clone(), Token { scopes, ends });
        token
    }

    fn allows(&self, token: &str, repository: &str, action: &str) -> Option<bool> {
        let valid = self.valid.lock().unwrap_or_else(PoisonError::into_inner);
        let token = valid.get(token).filter(|token| Instant::now() < token.ends)?;
        let prefix = format!("repository:{repository}:");
        let granted = token.scopes.iter().filter_map(|scope| scope.strip_prefix(&prefix));
        Some(
            repository.is_empty()
                || granted
                    .flat_map(|actions| actions.split(','))
                    .any(|granted| granted == action),
        )
    }
}

/// `Some` when the request is refused.
pub(crate) fn check(shared: &Shared, head: &Parts, repository: &str) -> Option<Response<Body>> {
    let sent = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match &shared.config.auth {
        Auth::Open => None,
        Auth::Basic { username, password } => {
            let good = sent == Some(basic(username, password).as_str());
            (!good).then(|| {
                with(
                    refuse(401, "UNAUTHORIZED", "who are you"),
                    "www-authenticate",
                    "Basic realm=\"fake\"",
                )
            })
        }
        Auth::Bearer { expired_as_403, .. } => {
            let token = sent.and_then(|sent| sent.strip_prefix("Bearer "));
            match token.map(|token| allowed(shared, head, token, repository)) {
                Some(Some(true)) => None,
                Some(Some(false)) => Some(refuse(403, "DENIED", "requested access to the resource is denied")),
                Some(None) if *expired_as_403 => Some(reply(
                    403,
                    "Your authorization token has expired. Reauthenticate and try again.",
                )),
                _ => Some(challenge(head, repository)),
            }
        }
    }
}

fn allowed(shared: &Shared, head: &Parts, token: &str, repository: &str) -> Option<bool> {
    let own = shared.tokens.allows(token, repository, action_of(head))?;
    let from = query_value(head.uri.query().unwrap_or_default(), "from");
    Some(own && from.is_none_or(|from| shared.tokens.allows(token, &from, "pull") == Some(true)))
}

fn action_of(head: &Parts) -> &'static str {
    let upload = head.uri.path().contains("/blobs/uploads/");
    match head.method {
        Method::DELETE if !upload => "delete",
        Method::GET | Method::HEAD if !upload => "pull",
        _ => "push",
    }
}

fn challenge(head: &Parts, repository: &str) -> Response<Body> {
    let host = head
        .headers
        .get("host")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let action = action_of(head);
    let scope = if repository.is_empty() {
        String::new()
    } else {
        format!(",scope=\"repository:{repository}:{action}\"")
    };
    let value = format!("Bearer realm=\"http://{host}/token\",service=\"fake\"{scope}");
    with(refuse(401, "UNAUTHORIZED", "who are you"), "www-authenticate", &value)
}

/// The token service.
pub(crate) fn token(shared: &Shared, head: &Parts, form: &str) -> Response<Body> {
    let Auth::Bearer {
        username,
        password,
        anonymous_pull,
        ..
    } = &shared.config.auth
    else {
        return reply(404, "");
    };
    let query = if head.method == Method::POST {
        form
    } else {
        head.uri.query().unwrap_or_default()
    };
    let asked: Vec<String> = query_values(query, "scope")
        .iter()
        .flat_map(|scopes| scopes.split(' '))
        .map(str::to_owned)
        .collect();
    let sent = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let refreshed = query_value(form, "refresh_token").is_some_and(|token| token == *password);
    let scopes = match sent {
        Some(sent) if sent == basic(username, password) => asked,
        Some(_) => return refuse(401, "UNAUTHORIZED", "wrong password"),
        None if refreshed => asked,
        None if *anonymous_pull => asked.iter().filter_map(|scope| pull_only(scope)).collect(),
        None => return refuse(401, "UNAUTHORIZED", "who are you"),
    };
    let life = shared.config.token_life;
    let token = shared.tokens.issue(scopes, Instant::now() + life);
    reply(200, json!({"token": token, "expires_in": life.as_secs()}).to_string())
}

fn pull_only(scope: &str) -> Option<String> {
    scope.rsplit_once(':').map(|(resource, _)| format!("{resource}:pull"))
}

fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
}

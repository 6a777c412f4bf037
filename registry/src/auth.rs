//! Tokens: one per registry and scope, fetched once for everybody who waits for it, renewed before they expire.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::challenge::Challenge;
use crate::credentials::{Credentials, Login};
use crate::error::ErrorKind;
use crate::failure::failure_of;
use crate::transport::{Transport, origin_text};

/// The specification's default when a token service does not say, and the least that a token is given: some services say 0 of
/// tokens that live for minutes. A token that does end sooner is refused, and another one fetched.
const LEAST_LIFE: Duration = Duration::from_mins(1);
const TOKEN_LIMIT: usize = 256 << 10;

/// What a request needs to be allowed to do, as the token service spells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    repository: String,
    text: String,
}

impl Scope {
    pub(crate) fn pull(repository: &str) -> Self {
        Self {
            repository: repository.to_owned(),
            text: format!("repository:{repository}:pull"),
        }
    }

    pub(crate) fn push(repository: &str) -> Self {
        Self {
            repository: repository.to_owned(),
            text: format!("repository:{repository}:pull,push"),
        }
    }

    pub(crate) fn delete(repository: &str) -> Self {
        Self {
            repository: repository.to_owned(),
            text: format!("repository:{repository}:delete,pull,push"),
        }
    }

    /// Writing to one repository and reading another of the same registry.
    pub(crate) fn mount(repository: &str, from: &str) -> Self {
        let text = format!("repository:{repository}:pull,push repository:{from}:pull");
        Self {
            repository: repository.to_owned(),
            text,
        }
    }
}

/// What was sent, to tell a renewed token from the refused one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Granted {
    pub(crate) header: Option<HeaderValue>,
    /// Whether somebody's login is behind it; tokens are given to anybody too.
    login: bool,
    generation: u64,
}

impl Granted {
    /// What may be sent to an address: nothing to one that is not the registry's own.
    pub(crate) fn header_for(&self, home: bool) -> Option<&HeaderValue> {
        self.header.as_ref().filter(|_| home)
    }

    /// Whether a refusal at such an address is one of a login.
    pub(crate) fn login_for(&self, home: bool) -> bool {
        self.login && self.header_for(home).is_some()
    }
}

#[derive(Default)]
struct Slot {
    granted: Granted,
    renew_at: Option<Instant>,
}

type Slots = HashMap<(String, Scope), Arc<tokio::sync::Mutex<Slot>>>;

/// All tokens of a client.
pub(crate) struct Tokens {
    credentials: Credentials,
    slots: Mutex<Slots>,
    challenges: Mutex<HashMap<String, Challenge>>,
}

impl Tokens {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            slots: Mutex::default(),
            challenges: Mutex::default(),
        }
    }

    /// What to send now: nothing before the first challenge of a host, a fresh token when the old one is near its end.
    pub(crate) async fn current(&self, transport: &Transport, host: &str, scope: &Scope) -> Result<Granted, ErrorKind> {
        let Some(challenge) = self.challenge(host) else {
            return Ok(Granted::default());
        };
        let slot = self.slot(host, scope);
        let mut slot = slot.lock().await;
        let fresh = slot.renew_at.is_none_or(|at| Instant::now() < at);
        if slot.granted.header.is_some() && fresh {
            return Ok(slot.granted.clone());
        }
        self.fill(transport, host, scope, &challenge, &mut slot).await
    }

    /// After a refusal: another token than the refused one. Who comes second takes what the first one fetched.
    pub(crate) async fn renew(
        &self,
        transport: &Transport,
        host: &str,
        scope: &Scope,
        refused: &Granted,
        challenge: Option<Challenge>,
    ) -> Result<Granted, ErrorKind> {
        let known = challenge
            .inspect(|challenge| self.remember(host, challenge.clone()))
            .or_else(|| self.challenge(host));
        let had_credentials = refused.login;
        let challenge = known.ok_or_else(|| ErrorKind::Unauthorized {
            host: host.to_owned(),
            had_credentials,
        })?;
        let slot = self.slot(host, scope);
        let mut slot = slot.lock().await;
        if slot.granted.generation > refused.generation && slot.granted.header.is_some() {
            return Ok(slot.granted.clone());
        }
        self.fill(transport, host, scope, &challenge, &mut slot).await
    }

    async fn fill(
        &self,
        transport: &Transport,
        host: &str,
        scope: &Scope,
        challenge: &Challenge,
        slot: &mut Slot,
    ) -> Result<Granted, ErrorKind> {
        let login = self.credentials.login(host, &scope.repository).await?;
        let (header, life) = match challenge {
            Challenge::Basic => (basic_header(host, login.as_ref())?, None),
            Challenge::Bearer {
                realm,
                service,
                scope: asked,
            } => {
                let scopes = scopes_of(scope, asked.as_deref());
                let request = TokenRequest {
                    host,
                    realm,
                    service: service.as_deref(),
                    scopes: &scopes,
                    login: login.as_ref(),
                };
                let (token, life) = request.fetch(transport).await?;
                (secret_header(host, &format!("Bearer {token}"))?, Some(life))
            }
        };
        slot.granted = Granted {
            header: Some(header),
            login: login.is_some(),
            generation: slot.granted.generation + 1,
        };
        // At four fifths of its life, so that no request starts with a token about to end.
        slot.renew_at = life.map(|life| Instant::now() + life * 4 / 5);
        Ok(slot.granted.clone())
    }

    fn slot(&self, host: &str, scope: &Scope) -> Arc<tokio::sync::Mutex<Slot>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry((host.to_owned(), scope.clone())).or_default().clone()
    }

    fn challenge(&self, host: &str) -> Option<Challenge> {
        self.challenges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(host)
            .cloned()
    }

    fn remember(&self, host: &str, challenge: Challenge) {
        // The scope belongs to one request, the service to the host.
        let challenge = match challenge {
            Challenge::Bearer { realm, service, .. } => Challenge::Bearer {
                realm,
                service,
                scope: None,
            },
            Challenge::Basic => Challenge::Basic,
        };
        self.challenges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(host.to_owned(), challenge);
    }
}

/// The token by either of its names, and its life. A field that is `null` or makes no sense is one that is not there.
fn token_of(answer: &Map<String, Value>) -> Option<(String, Duration)> {
    let token = ["token", "access_token"]
        .iter()
        .find_map(|name| answer.get(*name)?.as_str().filter(|token| !token.is_empty()))?;
    let said = answer.get("expires_in").and_then(Value::as_u64).unwrap_or_default();
    Some((token.to_owned(), Duration::from_secs(said).max(LEAST_LIFE)))
}

/// What this request needs, and what the registry named on top.
fn scopes_of(scope: &Scope, asked: Option<&str>) -> Vec<String> {
    let mut scopes: Vec<String> = scope.text.split(' ').map(str::to_owned).collect();
    for extra in asked.unwrap_or_default().split(' ').filter(|extra| !extra.is_empty()) {
        let (resource, _) = extra.rsplit_once(':').unwrap_or((extra, ""));
        let known = scopes.iter().any(|scope| scope.starts_with(&format!("{resource}:")));
        if !known {
            scopes.push(extra.to_owned());
        }
    }
    scopes
}

fn basic_header(host: &str, login: Option<&Login>) -> Result<HeaderValue, ErrorKind> {
    let (username, password) = match login {
        Some(Login::Basic { username, password }) => (username.as_str(), password),
        // By convention, a token where a password is asked for goes with this user name.
        Some(Login::Identity(token)) => ("<token>", token),
        None => {
            return Err(ErrorKind::Unauthorized {
                host: host.to_owned(),
                had_credentials: false,
            });
        }
    };
    secret_header(
        host,
        &format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.reveal()))),
    )
}

fn secret_header(host: &str, text: &str) -> Result<HeaderValue, ErrorKind> {
    let mut header = HeaderValue::from_str(text).map_err(|_| ErrorKind::Credentials {
        host: host.to_owned(),
        problem: "they hold characters that cannot be sent".to_owned(),
    })?;
    header.set_sensitive(true);
    Ok(header)
}

struct TokenRequest<'a> {
    host: &'a str,
    realm: &'a str,
    service: Option<&'a str>,
    scopes: &'a [String],
    login: Option<&'a Login>,
}

impl TokenRequest<'_> {
    async fn fetch(&self, transport: &Transport) -> Result<(String, Duration), ErrorKind> {
        let realm_text = self.realm.split(['?', '#']).next().unwrap_or_default().to_owned();
        self.ask(transport).await.map_err(|error| match error {
            // "Who are you" from the token service is an answer about the login, not about the service.
            ErrorKind::Unauthorized { .. } | ErrorKind::Denied { .. } => ErrorKind::Unauthorized {
                host: self.host.to_owned(),
                had_credentials: self.login.is_some(),
            },
            other => ErrorKind::Token {
                realm: realm_text,
                source: Box::new(other),
            },
        })
    }

    async fn ask(&self, transport: &Transport) -> Result<(String, Duration), ErrorKind> {
        let url = reqwest::Url::parse(self.realm).map_err(|_| self.breaks("the token service has no valid address"))?;
        // A password must not leave in the clear because a registry reached by https says so.
        if url.scheme() != "https" && !transport.is_plain(self.host) {
            return Err(ErrorKind::Redirect(format!(
                "the token service {} does not use https",
                origin_text(&url)
            )));
        }
        let request = match self.login {
            Some(Login::Identity(token)) => self.refresh(transport, url, token.reveal()),
            Some(Login::Basic { .. }) => self
                .query(transport, url)
                .header(http::header::AUTHORIZATION, basic_header(self.host, self.login)?),
            None => self.query(transport, url),
        };
        let response = transport.answer(request).await?;
        if !response.status().is_success() {
            return Err(failure_of(self.host, response, self.login.is_some()).await.kind);
        }
        let body = transport.read_limited(response, TOKEN_LIMIT).await?;
        let answer: Map<String, Value> =
            serde_json::from_slice(&body).map_err(|_| self.breaks("its token service sends no JSON object"))?;
        token_of(&answer).ok_or_else(|| self.breaks("its token service sends no token"))
    }

    fn query(&self, transport: &Transport, mut url: reqwest::Url) -> reqwest::RequestBuilder {
        {
            let mut pairs = url.query_pairs_mut();
            if let Some(service) = self.service {
                pairs.append_pair("service", service);
            }
            for scope in self.scopes {
                pairs.append_pair("scope", scope);
            }
        }
        transport.request(http::Method::GET, url)
    }

    fn refresh(&self, transport: &Transport, url: reqwest::Url, token: &str) -> reqwest::RequestBuilder {
        let mut form = reqwest::Url::parse("http://form/").unwrap_or_else(|_| url.clone());
        form.query_pairs_mut()
            .append_pair("grant_type", "refresh_token")
            .append_pair("service", self.service.unwrap_or_default())
            .append_pair("client_id", "plimsoll")
            .append_pair("scope", &self.scopes.join(" "))
            .append_pair("refresh_token", token);
        let body = form.query().unwrap_or_default().to_owned();
        transport
            .request(http::Method::POST, url)
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body)
    }

    fn breaks(&self, problem: &str) -> ErrorKind {
        ErrorKind::Protocol {
            host: self.host.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_every_answer_that_has_one() {
        let cases = [
            (r#"{"token":"t","expires_in":300}"#, Some(("t", 300))),
            (r#"{"token":"t"}"#, Some(("t", 60))),
            (r#"{"access_token":"t","token":"","expires_in":0}"#, Some(("t", 60))),
            (r#"{"token":"t","access_token":null,"expires_in":-1}"#, Some(("t", 60))),
            (
                r#"{"token":null,"access_token":"t","expires_in":null}"#,
                Some(("t", 60)),
            ),
            (r#"{"token":"t","expires_in":"soon"}"#, Some(("t", 60))),
            (r#"{"token":null}"#, None),
            ("{}", None),
        ];
        for (text, expected) in cases {
            let read = token_of(&serde_json::from_str(text).unwrap());
            let expected = expected.map(|(token, life)| (token.to_owned(), Duration::from_secs(life)));
            assert_eq!(read, expected, "{text}");
        }
    }
}

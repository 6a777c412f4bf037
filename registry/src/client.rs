//! The client: settings, and one request with its login, its redirects and its retries.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use http::{HeaderMap, Method};
use reqwest::{Response, Url};

use crate::auth::{Granted, Scope, Tokens};
use crate::challenge::Challenge;
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind};
use crate::failure::{Failure, failure_of};
use crate::profile::Profiles;
use crate::reference::Reference;
use crate::transport::Transport;

/// Time limits. There is none on a whole transfer: a terabyte takes as long as it takes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Until a connection stands.
    pub connect: Duration,
    /// Until the head of an answer comes.
    pub answer: Duration,
    /// Between two pieces of a body.
    pub idle: Duration,
    /// Bytes per second that a body must reach over [`Self::rate_window`]; zero switches it off.
    pub min_rate: u64,
    /// Over which the rate is measured.
    pub rate_window: Duration,
    /// For the registry to store a finished upload: large blobs are copied or hashed again then.
    pub commit: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_mins(1),
            idle: Duration::from_secs(30),
            min_rate: 1024,
            rate_window: Duration::from_mins(1),
            commit: Duration::from_mins(30),
        }
    }
}

/// How often and how long to try again.
#[derive(Debug, Clone)]
pub struct Retry {
    /// Tries after the first one, without progress between them.
    pub times: usize,
    /// First wait.
    pub min_delay: Duration,
    /// Longest wait that this client chooses by itself.
    pub max_delay: Duration,
    /// Longest wait that a registry may ask for; longer ones are returned as an error.
    pub max_asked: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            times: 5,
            min_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            max_asked: Duration::from_mins(5),
        }
    }
}

impl Retry {
    /// Waits with jitter, one per further try.
    pub(crate) fn delays(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        ExponentialBuilder::default()
            .with_min_delay(self.min_delay)
            .with_max_delay(self.max_delay)
            .with_max_times(self.times)
            .with_jitter()
            .build()
    }
}

type TellWait = dyn Fn(&ErrorKind, Duration) + Send + Sync;

/// Told of each wait before a further try, and of its cause.
#[derive(Clone, Default)]
pub struct WaitObserver(Option<Arc<TellWait>>);

impl WaitObserver {
    /// Calls this.
    pub fn new(tell: impl Fn(&ErrorKind, Duration) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }
}

impl std::fmt::Debug for WaitObserver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WaitObserver").finish_non_exhaustive()
    }
}

/// Settings of a client.
#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    /// Hosts (`host` or `host:port`) that speak plain http. Nothing is assumed, not even about loopback.
    pub plain_http: Vec<String>,
    /// Who asks.
    pub credentials: Credentials,
    /// `User-Agent`.
    pub user_agent: String,
    /// Certificates of private authorities, PEM, beside the system's.
    pub extra_roots: Vec<Vec<u8>>,
    /// Time limits.
    pub limits: Limits,
    /// Tries.
    pub retry: Retry,
    /// What is known about registries.
    pub profiles: Profiles,
    /// Who hears of waits.
    pub on_wait: WaitObserver,
}

/// A client of any number of registries. Cloning is cheap and shares connections and tokens.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) transport: Transport,
    pub(crate) tokens: Tokens,
    pub(crate) retry: Retry,
    pub(crate) profiles: Profiles,
    on_wait: WaitObserver,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

/// A request without a body, or with a small one that can be sent again.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) host: &'a str,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) scope: &'a Scope,
    pub(crate) body: bytes::Bytes,
}

impl Client {
    /// A client with these settings.
    pub fn new(config: ClientConfig) -> Result<Self, Error> {
        let transport = Transport::new(&config).map_err(|kind| Error::new("set up", "the registry client", kind))?;
        let ClientConfig {
            credentials,
            retry,
            profiles,
            on_wait,
            ..
        } = config;
        Ok(Self {
            inner: Arc::new(Inner {
                transport,
                tokens: Tokens::new(credentials),
                retry,
                profiles,
                on_wait,
            }),
        })
    }

    /// What is known about the registry of this reference.
    pub fn profile(&self, reference: &Reference) -> crate::Profile {
        self.inner.profiles.of(reference.api_host())
    }

    /// Asks whether the registry answers and accepts the login: `GET /v2/`.
    pub async fn ping(&self, reference: &Reference) -> Result<(), Error> {
        let fail = |kind| Error::new("reach", reference.registry(), kind);
        let host = reference.api_host();
        let url = self.inner.transport.url(host, "").map_err(fail)?;
        let scope = Scope::pull(reference.repository());
        let call = Call::get(host, url, &scope);
        self.inner.call(&call).await.map(drop).map_err(fail)
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(method: Method, host: &'a str, url: Url, scope: &'a Scope) -> Self {
        Self {
            method,
            host,
            url,
            headers: HeaderMap::new(),
            scope,
            body: bytes::Bytes::new(),
        }
    }

    pub(crate) fn get(host: &'a str, url: Url, scope: &'a Scope) -> Self {
        Self::new(Method::GET, host, url, scope)
    }

    pub(crate) fn head(host: &'a str, url: Url, scope: &'a Scope) -> Self {
        Self::new(Method::HEAD, host, url, scope)
    }
}

impl Inner {
    /// The answer to a request, tried again while that can help.
    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Response, ErrorKind> {
        self.retrying(|| async { self.call_once(call).await.map_err(|failure| failure.kind) })
            .await
    }

    /// One try: with a login renewed at most once.
    pub(crate) async fn call_once(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let granted = self.tokens.current(&self.transport, call.host, call.scope).await?;
        let failure = match self.send(call, &granted).await? {
            Ok(response) => return Ok(response),
            Err(failure) if failure.login_expired => failure,
            Err(failure) => return Err(failure),
        };
        let granted = self
            .login_again(call.host, call.scope, &granted, failure.challenge)
            .await?;
        self.send(call, &granted).await?
    }

    /// After a refusal that a fresh login can mend.
    pub(crate) async fn login_again(
        &self,
        host: &str,
        scope: &Scope,
        refused: &Granted,
        challenge: Option<Challenge>,
    ) -> Result<Granted, ErrorKind> {
        self.tokens
            .renew(&self.transport, host, scope, refused, challenge)
            .await
    }

    async fn send(&self, call: &Call<'_>, granted: &Granted) -> Result<Result<Response, Failure>, Failure> {
        let home = self.is_home(call.host, &call.url);
        let credential = granted.header_for(home);
        let response = if call.method == Method::GET || call.method == Method::HEAD {
            self.transport
                .follow(&call.method, call.url.clone(), &call.headers, credential)
                .await?
        } else {
            let mut request = self
                .transport
                .request(call.method.clone(), call.url.clone())
                .headers(call.headers.clone());
            if let Some(credential) = credential {
                request = request.header(http::header::AUTHORIZATION, credential);
            }
            self.transport.answer(request.body(call.body.clone())).await?
        };
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        Ok(Err(failure_of(call.host, response, granted.login_for(home)).await))
    }

    /// Whether an address is the registry's own. Sessions may lead elsewhere; the login stays.
    pub(crate) fn is_home(&self, host: &str, url: &Url) -> bool {
        self.transport
            .url(host, "")
            .is_ok_and(|home| home.origin() == url.origin())
    }

    /// Runs a step until it succeeds, fails for good, or has failed too often.
    pub(crate) async fn retrying<T, Step: Future<Output = Result<T, ErrorKind>>>(
        &self,
        mut step: impl FnMut() -> Step,
    ) -> Result<T, ErrorKind> {
        let mut delays = self.retry.delays();
        loop {
            let error = match step().await {
                Err(error) if error.is_retryable() => error,
                done => return done,
            };
            match delays.next().and_then(|own| self.wait_for(&error, own)) {
                Some(delay) => self.wait(&error, delay).await,
                None => return Err(error),
            }
        }
    }

    /// Waits; not in silence, because a registry may ask for minutes.
    pub(crate) async fn wait(&self, cause: &ErrorKind, delay: Duration) {
        tracing::info!(%cause, delay_ms = delay.as_millis(), "waiting before the next try");
        if let WaitObserver(Some(tell)) = &self.on_wait {
            tell(cause, delay);
        }
        tokio::time::sleep(delay).await;
    }

    /// The wait that the registry asked for, when it is bearable, else our own.
    pub(crate) fn wait_for(&self, error: &ErrorKind, own: Duration) -> Option<Duration> {
        match error.retry_after() {
            Some(asked) => (asked <= self.retry.max_asked).then(|| asked.max(own)),
            None => Some(own),
        }
    }
}

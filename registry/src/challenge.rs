//! `WWW-Authenticate`: what a registry wants to see.

/// A challenge that this client can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User name and password with each request.
    Basic,
    /// A token of a token service.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Challenge {
    /// The best of the challenges in these header values: a token before a password.
    pub(crate) fn of<'a>(values: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut basic = None;
        for value in values {
            match parse(value) {
                Some(bearer @ Self::Bearer { .. }) => return Some(bearer),
                Some(Self::Basic) => basic = Some(Self::Basic),
                None => {}
            }
        }
        basic
    }
}

fn parse(value: &str) -> Option<Challenge> {
    let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameters = parameters(rest);
    let get = |name: &str| {
        parameters
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.clone())
    };
    Some(Challenge::Bearer {
        realm: get("realm")?,
        service: get("service"),
        scope: get("scope"),
    })
}

/// `key="value",key=value`; a quoted value may hold commas and escaped quotes.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, after) = value(after);
        found.push((key.trim_matches([' ', ',']).to_owned(), value));
        rest = after.trim_start_matches([' ', ',']);
    }
    found
}

fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut escaped = false;
    for (at, character) in quoted.char_indices() {
        match character {
            _ if escaped => {
                value.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        let (service, scope) = (service.map(str::to_owned), scope.map(str::to_owned));
        Challenge::Bearer {
            realm: realm.to_owned(),
            service,
            scope,
        }
    }

    #[test]
    fn challenges_of_real_registries_are_read() {
        type Case = (&'static [&'static str], Option<Challenge>);
        let cases: [Case; 8] = [
            (
                &[
                    r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#,
                ],
                Some(bearer(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:a/b:pull,push"),
                )),
            ),
            (
                &[r#"bearer service="x", realm="https://a/t?x=1""#],
                Some(bearer("https://a/t?x=1", Some("x"), None)),
            ),
            (
                &["Bearer realm=https://a/t,service=x"],
                Some(bearer("https://a/t", Some("x"), None)),
            ),
            (&[r#"Basic realm="Registry \"R\"""#], Some(Challenge::Basic)),
            (
                &["Basic", r#"Bearer realm="https://a""#],
                Some(bearer("https://a", None, None)),
            ),
            (&["Negotiate", "Basic realm=x"], Some(Challenge::Basic)),
            (&["Bearer service=x"], None),
            (&["", "=\"", "Digest realm=x"], None),
        ];
        for (values, challenge) in cases {
            assert_eq!(Challenge::of(values.iter().copied()), challenge, "{values:?}");
        }
    }
}

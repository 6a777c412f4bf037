//! Proxies of the environment.

/// `NO_PROXY=*` switches proxies off, as for curl and Python's clients; the HTTP library takes it for a name. Names, addresses and
/// networks in that variable are read by the library itself.
pub fn mind_no_proxy(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    let listed = ["NO_PROXY", "no_proxy"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    if all_are_excepted(&listed.unwrap_or_default()) {
        builder.no_proxy()
    } else {
        builder
    }
}

fn all_are_excepted(listed: &str) -> bool {
    listed.split(',').any(|item| item.trim() == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_star_by_itself_means_everything() {
        for (listed, all) in [
            ("*", true),
            ("localhost, *", true),
            ("", false),
            ("*.example.com", false),
            ("10.0.0.0/8,.cluster.local", false),
        ] {
            assert_eq!(all_are_excepted(listed), all, "{listed}");
        }
    }
}

//! A small HTTP/1.1 client for plain connections inside the bed: readiness, metrics, the registry.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::Error;

/// An answer, with lower-case header names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case, in the order of the answer.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A request under construction.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    method: &'a str,
    url: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    body: &'a [u8],
    limit: Duration,
}

impl<'a> Request<'a> {
    /// A request without a body to an `http://` address.
    pub fn new(method: &'a str, url: &'a str) -> Self {
        Self {
            method,
            url,
            headers: Vec::new(),
            body: &[],
            limit: Duration::from_secs(30),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'a str, value: &'a str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: &'a [u8]) -> Self {
        self.body = body;
        self
    }

    /// How long one read or write may take.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sends it and reads the whole answer.
    pub fn send(&self) -> Result<Response, Error> {
        self.exchange().map_err(Error::io(self.method, self.url))
    }

    fn exchange(&self) -> std::io::Result<Response> {
        let (host, path) = split(self.url)?;
        let mut stream = connect(host, self.limit)?;
        let mut head = format!(
            "{} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n",
            self.method
        );
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !self.body.is_empty() || !matches!(self.method, "GET" | "HEAD") {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(self.body)?;
        read_response(&mut BufReader::new(stream), self.method == "HEAD")
    }
}

/// Whether an address answers a GET with success.
pub fn is_ok(url: &str) -> bool {
    let request = Request::new("GET", url).limit(Duration::from_secs(2));
    request
        .send()
        .is_ok_and(|response| (200..300).contains(&response.status))
}

fn connect(host: &str, limit: Duration) -> std::io::Result<TcpStream> {
    use std::net::ToSocketAddrs;
    let with_port = if host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let address = with_port
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| bad("the host has no address"))?;
    let stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(stream)
}

fn split(url: &str) -> std::io::Result<(&str, &str)> {
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| bad("only http:// addresses are used inside the bed"))?;
    Ok(rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash)))
}

fn read_response(reader: &mut impl BufRead, head_only: bool) -> std::io::Result<Response> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| bad("no status line"))?;
    let headers = read_headers(reader)?;
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    if !head_only && status != 204 {
        response.body = read_body(reader, &response)?;
    }
    Ok(response)
}

fn read_headers(reader: &mut impl BufRead) -> std::io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => return Ok(headers),
        }
    }
}

fn read_body(reader: &mut impl BufRead, response: &Response) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if response
        .header("transfer-encoding")
        .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    {
        read_chunks(reader, &mut body)?;
    } else if let Some(length) = response.header("content-length").and_then(|length| length.parse().ok()) {
        reader.take(length).read_to_end(&mut body)?;
        if body.len() as u64 != length {
            return Err(bad("the body ended early"));
        }
    } else {
        reader.read_to_end(&mut body)?;
    }
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> std::io::Result<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let digits = line.trim().split(';').next().unwrap_or_default();
        let length = u64::from_str_radix(digits, 16).map_err(|_| bad("a chunk without a length"))?;
        if length == 0 {
            return Ok(());
        }
        let before = body.len() as u64;
        reader.by_ref().take(length).read_to_end(body)?;
        if body.len() as u64 != before + length {
            return Err(bad("a chunk ended early"));
        }
        reader.read_line(&mut String::new())?;
    }
}

fn bad(text: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::io::Result<Response> {
        read_response(&mut text.as_bytes(), false)
    }

    #[test]
    fn a_chunked_body_is_put_together() {
        let response =
            read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
        assert_eq!(response.unwrap().text(), "abcde");
    }

    #[test]
    fn a_short_body_is_an_error_and_not_a_short_answer() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
            "",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_splits_into_host_and_path() {
        assert_eq!(split("http://10.0.0.1:5000/v2/").unwrap(), ("10.0.0.1:5000", "/v2/"));
        assert_eq!(split("http://localhost").unwrap(), ("localhost", "/"));
        assert!(split("https://localhost/").is_err());
    }
}

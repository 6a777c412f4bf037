//! The few flags of an engine's command line that a stand-in needs; all others are accepted and ignored.

use std::net::{IpAddr, Ipv4Addr};

use thiserror::Error;

/// What the stand-in takes from an engine's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// The address to listen on, from `--host`.
    pub host: IpAddr,
    /// The port to listen on, from `--port`.
    pub port: u16,
    /// The names that clients may use, from `--served-model-name`, else from `--model`.
    pub served_names: Vec<String>,
}

/// Why a command line cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArgumentsError {
    /// A flag at the end, or before another flag.
    #[error("{flag} has no value")]
    NoValue {
        /// The flag.
        flag: String,
    },
    /// A value of the wrong kind.
    #[error("{flag} cannot be {value:?}: {reason}")]
    BadValue {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// What it should be.
        reason: &'static str,
    },
    /// Neither `--served-model-name` nor `--model`.
    #[error("the command line names no model: give --served-model-name or --model")]
    NoModel,
}

impl Arguments {
    /// Reads the command line without the program's own name.
    ///
    /// Both `--flag value` and `--flag=value` are understood, and the last of several wins, as in vLLM.
    pub fn parse(words: &[String]) -> Result<Self, ArgumentsError> {
        let names = values(words, "--served-model-name")?;
        let served_names = if names.is_empty() {
            values(words, "--model")?.into_iter().take(1).collect()
        } else {
            names
        };
        if served_names.is_empty() {
            return Err(ArgumentsError::NoModel);
        }
        Ok(Self {
            host: host(words)?,
            port: port(words)?,
            served_names,
        })
    }
}

fn host(words: &[String]) -> Result<IpAddr, ArgumentsError> {
    let Some(value) = values(words, "--host")?.into_iter().next() else {
        return Ok(Ipv4Addr::UNSPECIFIED.into());
    };
    let reason = "it must be an IP address";
    value.parse().map_err(|_| ArgumentsError::BadValue {
        flag: "--host",
        value,
        reason,
    })
}

fn port(words: &[String]) -> Result<u16, ArgumentsError> {
    let Some(value) = values(words, "--port")?.into_iter().next() else {
        return Ok(8000);
    };
    let reason = "it must be a port number";
    value.parse().map_err(|_| ArgumentsError::BadValue {
        flag: "--port",
        value,
        reason,
    })
}

/// The values of the last occurrence of a flag: up to the next flag, since vLLM takes several served names.
fn values(words: &[String], flag: &str) -> Result<Vec<String>, ArgumentsError> {
    let is_flag = |word: &String| word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='));
    let Some(position) = words.iter().rposition(is_flag) else {
        return Ok(Vec::new());
    };
    if let Some((_, value)) = words[position].split_once('=') {
        return Ok(vec![value.to_owned()]);
    }
    let following = words[position + 1..].iter().take_while(|word| !word.starts_with('-'));
    let values: Vec<String> = following.cloned().collect();
    if values.is_empty() {
        return Err(ArgumentsError::NoValue { flag: flag.to_owned() });
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, ArgumentsError> {
        Arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn expected(host: &str, port: u16, names: &[&str]) -> Arguments {
        let served_names = names.iter().map(|&name| name.to_owned()).collect();
        Arguments {
            host: host.parse().unwrap(),
            port,
            served_names,
        }
    }

    #[test]
    fn the_command_line_of_an_engine_is_understood_as_far_as_needed() {
        let full = "-m vllm.entrypoints.openai.api_server --model /models --port 8001 --host 0.0.0.0 \
                    --served-model-name qwen3-8b --tensor-parallel-size 1 --device gcu --trust-remote-code";
        let cases = [
            (full, Ok(expected("0.0.0.0", 8001, &["qwen3-8b"]))),
            ("serve --model=/models", Ok(expected("0.0.0.0", 8000, &["/models"]))),
            ("--model a --port=9 --port 10", Ok(expected("0.0.0.0", 10, &["a"]))),
            (
                "--served-model-name a b --port 9",
                Ok(expected("0.0.0.0", 9, &["a", "b"])),
            ),
            ("--model a --portal 1", Ok(expected("0.0.0.0", 8000, &["a"]))),
            ("--model a --host ::1", Ok(expected("::1", 8000, &["a"]))),
            ("--port 9", Err(ArgumentsError::NoModel)),
            (
                "--model a --port",
                Err(ArgumentsError::NoValue { flag: "--port".into() }),
            ),
            (
                "--model --port 9",
                Err(ArgumentsError::NoValue { flag: "--model".into() }),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn a_bad_value_is_named_with_its_flag() {
        let text = |line: &str| parse(line).unwrap_err().to_string();
        assert_eq!(
            text("--model a --port 70000"),
            "--port cannot be \"70000\": it must be a port number"
        );
        assert_eq!(
            text("--model a --host localhost"),
            "--host cannot be \"localhost\": it must be an IP address"
        );
    }
}

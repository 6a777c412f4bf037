//! A content digest, always sha256: the only algorithm that registries, hubs and readers of models all speak.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";
const HEX_LENGTH: usize = 64;

/// `sha256:` and 64 lower-case hexadecimal digits. A value of this type is well formed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Digest(String);

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// An algorithm that models are not addressed by.
    #[error("digest `{0}` is not sha256: models are addressed by sha256 only")]
    Algorithm(String),
    /// Not 64 lower-case hexadecimal digits.
    #[error("digest `{0}` does not have 64 lower-case hexadecimal digits after `sha256:`")]
    Form(String),
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_raw(&Sha256::digest(bytes).into())
    }

    /// From the 32 bytes that a hasher returns.
    pub fn from_raw(raw: &[u8; 32]) -> Self {
        let mut text = String::with_capacity(PREFIX.len() + HEX_LENGTH);
        text.push_str(PREFIX);
        for byte in raw {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// From the 64 hexadecimal digits that a hub publishes; upper case is accepted, the value is lower case.
    pub fn from_hex(hex: &str) -> Result<Self, DigestError> {
        format!("{PREFIX}{}", hex.to_ascii_lowercase()).parse()
    }

    /// `sha256:…`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hexadecimal digits alone.
    pub fn hex(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    /// The 32 bytes.
    pub fn to_raw(&self) -> [u8; 32] {
        let mut raw = [0; 32];
        for (byte, pair) in raw.iter_mut().zip(self.hex().as_bytes().chunks_exact(2)) {
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        raw
    }
}

/// The value of a lower-case hexadecimal digit, which the constructor has already proven it to be.
fn nibble(digit: u8) -> u8 {
    if digit.is_ascii_digit() {
        digit - b'0'
    } else {
        digit.wrapping_sub(b'a').wrapping_add(10)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text
            .strip_prefix(PREFIX)
            .ok_or_else(|| DigestError::Algorithm(text.to_owned()))?;
        let well_formed = hex.len() == HEX_LENGTH && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(DigestError::Form(text.to_owned()))
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for Digest {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn the_digest_of_nothing_is_the_well_known_one() {
        assert_eq!(Digest::of(b"").as_str(), EMPTY);
    }

    #[test]
    fn raw_bytes_survive_the_way_there_and_back() {
        let digest = Digest::of(b"plimsoll");
        assert_eq!(Digest::from_raw(&digest.to_raw()), digest);
        assert_eq!(Digest::from_hex(&digest.hex().to_uppercase()), Ok(digest));
    }

    #[test]
    fn other_algorithms_lengths_and_cases_are_refused() {
        for text in [
            "",
            "md5:00",
            "sha512:aa",
            "e3b0c442",
            "sha256:",
            "sha256:abc",
            "sha256:../../etc/passwd",
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
        assert!(EMPTY.to_uppercase().replace("SHA", "sha").parse::<Digest>().is_err());
    }
}

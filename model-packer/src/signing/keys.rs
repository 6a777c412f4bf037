//! Key files: what `cosign generate-key-pair` writes, and plain PKCS#8.

use std::path::{Path, PathBuf};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::secret_box;

/// Header of a P-256 key in the public form (RFC 5280); the point follows.
const PUBLIC_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// scrypt with more than this takes gigabytes.
const COST_LIMIT: u64 = 1 << 20;

/// A key that signs.
pub struct SigningKey {
    pair: EcdsaKeyPair,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SigningKey(…)")
    }
}

/// A key that verifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    point: Vec<u8>,
}

/// A key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key {}", path.display())]
    File {
        /// Path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// Another kind of file, or a broken one.
    #[error("{} is no usable key: {problem}", path.display())]
    Form {
        /// Path.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The password does not open it.
    #[error("the password does not open the key {}", path.display())]
    Password {
        /// Path.
        path: PathBuf,
    },
    /// The library could not sign.
    #[error("the signature cannot be made")]
    Sign,
}

impl KeyError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Password { .. } => "set COSIGN_PASSWORD to the password of the key",
            _ => "make a pair with `cosign generate-key-pair`, or a P-256 key in PKCS#8 with openssl",
        }
    }
}

#[derive(Deserialize)]
struct Encrypted {
    kdf: Derivation,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct Derivation {
    name: String,
    params: Cost,
    salt: String,
}

#[derive(Deserialize)]
struct Cost {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct Cipher {
    name: String,
    nonce: String,
}

impl SigningKey {
    /// Reads a private key; the password opens the encrypted form of cosign.
    pub fn read(path: &Path, password: &str) -> Result<Self, KeyError> {
        let (label, body) = read_pem(path)?;
        let form = |problem: &str| KeyError::Form {
            path: path.to_owned(),
            problem: problem.to_owned(),
        };
        let pkcs8 = match label.as_str() {
            "PRIVATE KEY" => body,
            "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" => decrypt(path, &body, password)?,
            "PUBLIC KEY" => return Err(form("it is the public half")),
            other => return Err(form(&format!("`{other}` is not read"))),
        };
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8)
            .map_err(|_| form("it holds no P-256 key"))?;
        Ok(Self { pair })
    }

    /// The signature over these bytes, ASN.1.
    pub fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self
            .pair
            .sign(&SystemRandom::new(), bytes)
            .map_err(|_| KeyError::Sign)?;
        Ok(signature.as_ref().to_vec())
    }

    /// The public half.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey {
            point: self.pair.public_key().as_ref().to_vec(),
        }
    }
}

impl VerifyingKey {
    /// Reads a public key in PEM.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let (label, body) = read_pem(path)?;
        match body.strip_prefix(&PUBLIC_PREFIX) {
            Some(point) if label == "PUBLIC KEY" && point.len() == 65 => Ok(Self { point: point.to_vec() }),
            _ => Err(KeyError::Form {
                path: path.to_owned(),
                problem: "it holds no public P-256 key".into(),
            }),
        }
    }

    /// Whether this key made the signature over these bytes.
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point)
            .verify(bytes, signature)
            .is_ok()
    }
}

fn read_pem(path: &Path) -> Result<(String, Vec<u8>), KeyError> {
    let text = std::fs::read_to_string(path).map_err(|source| KeyError::File {
        path: path.to_owned(),
        source,
    })?;
    let form = || KeyError::Form {
        path: path.to_owned(),
        problem: "it is no PEM file".into(),
    };
    let (_, rest) = text.split_once("-----BEGIN ").ok_or_else(form)?;
    let (label, rest) = rest.split_once("-----").ok_or_else(form)?;
    let (body, _) = rest.split_once("-----END ").ok_or_else(form)?;
    let body: String = body.split_whitespace().collect();
    Ok((label.to_owned(), STANDARD.decode(body).map_err(|_| form())?))
}

fn decrypt(path: &Path, body: &[u8], password: &str) -> Result<Vec<u8>, KeyError> {
    let form = |problem: &str| KeyError::Form {
        path: path.to_owned(),
        problem: problem.to_owned(),
    };
    let encrypted: Encrypted = serde_json::from_slice(body).map_err(|error| form(&error.to_string()))?;
    let Encrypted {
        kdf,
        cipher,
        ciphertext,
    } = encrypted;
    if kdf.name != "scrypt" || cipher.name != "nacl/secretbox" {
        return Err(form(&format!("{} with {} is not read", kdf.name, cipher.name)));
    }
    let Cost { n, r, p } = kdf.params;
    if !n.is_power_of_two() || n > COST_LIMIT || r > 32 || p > 16 {
        return Err(form("its scrypt parameters are out of bounds"));
    }
    let log_n = u8::try_from(n.ilog2()).unwrap_or(0);
    let cost = scrypt::Params::new(log_n, r, p).map_err(|error| form(&error.to_string()))?;
    let decode = |text: &str| STANDARD.decode(text).map_err(|_| form("a part of it is no base64"));
    let (salt, nonce, ciphertext) = (decode(&kdf.salt)?, decode(&cipher.nonce)?, decode(&ciphertext)?);
    let mut key = [0; 32];
    scrypt::scrypt(password.as_bytes(), &salt, &cost, &mut key).map_err(|error| form(&error.to_string()))?;
    let nonce = nonce.try_into().map_err(|_| form("its nonce has another length"))?;
    secret_box::open(&key, &nonce, &ciphertext).ok_or_else(|| KeyError::Password { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name)
    }

    #[test]
    fn cosigns_encrypted_key_and_the_plain_one_are_the_same_key() {
        let plain = SigningKey::read(&key("plain.key"), "").unwrap();
        let encrypted = SigningKey::read(&key("cosign.key"), "test password").unwrap();
        let public = VerifyingKey::read(&key("cosign.pub")).unwrap();
        assert_eq!(plain.verifying_key(), public);
        let signature = encrypted.sign(b"payload").unwrap();
        assert!(public.verifies(b"payload", &signature));
        assert!(!public.verifies(b"another", &signature));
        assert!(
            !VerifyingKey::read(&key("other.pub"))
                .unwrap()
                .verifies(b"payload", &signature)
        );
    }

    #[test]
    fn a_wrong_password_and_a_wrong_file_have_their_own_errors() {
        let wrong = SigningKey::read(&key("cosign.key"), "guess").unwrap_err();
        assert!(matches!(wrong, KeyError::Password { .. }), "{wrong}");
        assert!(
            SigningKey::read(&key("cosign.pub"), "")
                .unwrap_err()
                .to_string()
                .contains("the public half")
        );
        assert!(VerifyingKey::read(&key("plain.key")).is_err());
        assert!(
            SigningKey::read(&key("README.md"), "")
                .unwrap_err()
                .to_string()
                .contains("no PEM file")
        );
    }
}

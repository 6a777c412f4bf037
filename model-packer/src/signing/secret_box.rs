//! The secret box of `NaCl`, opened: `XSalsa20` with Poly1305.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit as _;
use salsa20::XSalsa20;
use salsa20::cipher::{KeyIvInit as _, StreamCipher as _};

const TAG: usize = 16;

/// The content, when key and nonce are those of the box.
pub(super) fn open(key: &[u8; 32], nonce: &[u8; 24], sealed: &[u8]) -> Option<Vec<u8>> {
    let (tag, ciphertext) = sealed.split_at_checked(TAG)?;
    let mut cipher = XSalsa20::new(key.into(), nonce.into());
    // The first 32 bytes of the stream are the key of the tag.
    let mut tag_key = [0; 32];
    cipher.apply_keystream(&mut tag_key);
    let expected = Poly1305::new((&tag_key).into()).compute_unpadded(ciphertext);
    verify_slices_are_equal(&expected, tag).ok()?;
    let mut content = ciphertext.to_vec();
    cipher.apply_keystream(&mut content);
    Some(content)
}

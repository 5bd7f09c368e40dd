//! Encrypts stored responses, so that the database holds no token in clear text. The key derives from the
//! caller's token, of which the database has only a hash.

use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use sha2::Sha256;
use uuid::Uuid;

/// Encrypts the response of `holder`; `None` only if the cipher fails.
pub fn encrypt(token: &str, holder: Uuid, body: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = body.to_vec();
    key(token, holder)?
        .seal_in_place_append_tag(nonce(), Aad::empty(), &mut sealed)
        .ok()?;
    Some(sealed)
}

/// Decrypts a response; `None` if it was encrypted under another token or for another holder.
pub fn decrypt(token: &str, holder: Uuid, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
    let length = key(token, holder)?
        .open_in_place(nonce(), Aad::empty(), &mut sealed)
        .ok()?
        .len();
    sealed.truncate(length);
    Some(sealed)
}

/// Derives a key. A holder's id is random and serves one answer, so each key encrypts once.
fn key(token: &str, holder: Uuid) -> Option<LessSafeKey> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).ok()?;
    mac.update(b"ralph idempotency answer");
    mac.update(holder.as_bytes());
    let key = UnboundKey::new(&CHACHA20_POLY1305, &mac.finalize().into_bytes()).ok()?;
    Some(LessSafeKey::new(key))
}

/// A constant nonce suffices, since each key is used once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_the_senders_token_decrypts_a_stored_response() {
        let holder = Uuid::now_v7();
        let sealed = encrypt("token", holder, b"answer").unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"answer"));
        assert_eq!(decrypt("token", holder, sealed.clone()).unwrap(), b"answer");
        assert_eq!(decrypt("other", holder, sealed.clone()), None);
        assert_eq!(decrypt("token", Uuid::now_v7(), sealed), None);
    }
}

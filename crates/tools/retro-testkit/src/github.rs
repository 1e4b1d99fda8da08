//! Signs webhook bodies as GitHub does.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Returns the value of the `X-Hub-Signature-256` header that GitHub would send for this body and secret.
pub fn sign_webhook(secret: &str, body: &[u8]) -> String {
    let keyed: Hmac<Sha256> =
        Hmac::new_from_slice(secret.as_bytes()).expect("a key of any length makes an HMAC");
    let signature = keyed.chain_update(body).finalize().into_bytes();
    let digits: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

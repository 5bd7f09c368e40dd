//! TLS of HTTP clients.

/// Makes *ring* the process's provider of cryptography, which every HTTP client needs before it is built; the broker's client
/// uses it already, so no second library is compiled. Safe to call often.
pub fn install() {
    // Somebody installed one before: that one serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

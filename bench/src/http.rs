//! A minimal HTTP client, so that no client's own work is measured.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(Debug, Clone)]
pub struct Api {
    pub address: SocketAddr,
    /// A token for all operations.
    pub token: String,
}

impl Api {
    /// Sends a request and returns the body of the response.
    pub async fn request(&self, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
        let mut stream = self.send(method, path, body).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        ensure!(
            answer.starts_with("HTTP/1.1 20"),
            "{method} {path} was refused: {}",
            answer.chars().take(1_000).collect::<String>()
        );
        let (_, body) = answer
            .split_once("\r\n\r\n")
            .context("an answer without a body")?;
        Ok(body.to_owned())
    }

    /// Creates another token, and returns the same API with it.
    pub async fn with_new_token(&self, name: &str) -> anyhow::Result<Self> {
        let body = serde_json::json!({"name": name, "role": "read"}).to_string();
        let made: serde_json::Value = serde_json::from_str(&self.request("POST", "/tokens", &body).await?)?;
        let token = made["token"].as_str().context("an answer without a token")?;
        Ok(Self {
            token: token.to_owned(),
            ..self.clone()
        })
    }

    pub async fn events(&self, path: &str) -> anyhow::Result<Events> {
        Ok(Events {
            stream: self.send("GET", path, "").await?,
            read: Vec::new(),
        })
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> anyhow::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await?;
        let head = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        Ok(stream)
    }
}

/// A stream of events that stays open.
#[derive(Debug)]
pub struct Events {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Events {
    pub async fn next(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(at) = self.read.windows(5).position(|part| part == b"data:") {
                let rest = &self.read[at..];
                if let Some(end) = rest.windows(2).position(|part| part == b"\n\n") {
                    self.read.drain(..at + end + 2);
                    return Ok(());
                }
            }
            let count = self.stream.read(&mut buffer).await?;
            ensure!(
                count > 0,
                "a stream of events ended: {}",
                String::from_utf8_lossy(&self.read)
            );
            self.read.extend_from_slice(&buffer[..count]);
        }
    }
}

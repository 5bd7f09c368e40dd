//! Real listeners on loopback, which record the names of the attempts that reach them.

use std::collections::BTreeSet;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

/// The last line to each listener: it arrives after everything that was sent before.
const END: &str = "end\n";

/// Listeners for TCP and UDP, and one that plays the proxy.
pub struct Listeners {
    ports: [u16; 3],
    heard: [JoinHandle<BTreeSet<String>>; 3],
}

impl Listeners {
    pub async fn open() -> Self {
        let (tcp, proxy) = (bound().await, bound().await);
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let ports = [tcp.local_addr(), udp.local_addr(), proxy.local_addr()].map(|at| at.unwrap().port());
        let heard = [
            tokio::spawn(accept(tcp)),
            tokio::spawn(receive(udp)),
            tokio::spawn(accept(proxy)),
        ];
        Self { ports, heard }
    }

    /// Ports of TCP, UDP and the proxy.
    pub fn ports(&self) -> [u16; 3] {
        self.ports
    }

    /// Names of the attempts that arrived, once everybody has finished.
    pub async fn reached(self) -> BTreeSet<String> {
        let [tcp, udp, proxy] = self.ports;
        for port in [tcp, proxy] {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            stream.write_all(END.as_bytes()).await.unwrap();
        }
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(END.as_bytes(), ("127.0.0.1", udp)).await.unwrap();
        let mut reached = BTreeSet::new();
        for heard in self.heard {
            reached.extend(heard.await.unwrap());
        }
        reached
    }
}

async fn bound() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Accepts one connection after the other and reads a line from each, which may be a request to a proxy.
async fn accept(listener: TcpListener) -> BTreeSet<String> {
    let mut heard = BTreeSet::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = Vec::new();
        while !text.contains(&b'\n') && stream.read_buf(&mut text).await.is_ok_and(|count| count > 0) {}
        let line = String::from_utf8_lossy(&text);
        let line = line.split_inclusive('\n').next().unwrap_or_default();
        if line == END {
            return heard;
        }
        match line.split_whitespace().nth(1) {
            None => heard.insert(line.trim().to_owned()),
            Some(address) => {
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.write_all(answer.as_bytes()).await.unwrap();
                heard.insert(address.replace("http://model.invalid/", ""))
            }
        };
    }
}

async fn receive(socket: UdpSocket) -> BTreeSet<String> {
    let mut heard = BTreeSet::new();
    let mut buffer = [0; 256];
    loop {
        let count = socket.recv(&mut buffer).await.unwrap();
        let line = String::from_utf8_lossy(&buffer[..count]);
        if line == END {
            return heard;
        }
        heard.insert(line.trim().to_owned());
    }
}

//! As much of an HTTP/1.1 server as `GET /metrics` takes.
//!
//! A client's use of resources is bounded: a request has [`MOST_BYTES`], an exchange [`LONGEST`], and there are
//! [`MOST`] of them at a time; when one more comes, the oldest is given up. Every answer closes its connection.

use crate::metrics::Report;
use crate::server::Server;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// Bytes of a request's head.
const MOST_BYTES: usize = 8 << 10;
/// Exchanges at a time.
const MOST: usize = 32;
/// Time from a connection to its end.
const LONGEST: Duration = Duration::from_secs(5);
/// How soon an end of the server, or of an exchange's time, is noticed.
const TICK: Duration = Duration::from_millis(100);
const LISTENER: Token = Token(0);

/// Answers at `listener` until the server stops.
///
/// # Errors
/// When the system refuses to poll.
pub(crate) fn serve(
    mut listener: TcpListener,
    server: &Server,
    report: &mut Report,
) -> io::Result<()> {
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(64);
    let mut exchanges = Exchanges::default();
    while !server.stopping() {
        match poll.poll(&mut events, Some(TICK)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            exchanges.go_on(event.token().0, report);
        }
        // Also without an event: there may be descriptors again.
        while let Ok((stream, _)) = listener.accept() {
            exchanges.begin(stream, &poll, report);
        }
        exchanges.end_late(Instant::now());
    }
    Ok(())
}

/// Connections by their tokens, which are in the order of their times.
#[derive(Default)]
struct Exchanges {
    open: BTreeMap<usize, Exchange>,
    last: usize,
}

struct Exchange {
    stream: TcpStream,
    since: Instant,
    request: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
}

impl Exchanges {
    fn begin(&mut self, mut stream: TcpStream, poll: &Poll, report: &mut Report) {
        if self.open.len() == MOST {
            self.open.pop_first();
        }
        self.last += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if poll.registry().register(&mut stream, Token(self.last), interest).is_err() {
            return;
        }
        let (request, answer) = (Vec::new(), Vec::new());
        let exchange = Exchange { stream, since: Instant::now(), request, answer, sent: 0 };
        self.open.insert(self.last, exchange);
        self.go_on(self.last, report);
    }

    /// Reads and writes as much as is possible now.
    fn go_on(&mut self, token: usize, report: &mut Report) {
        if let Some(exchange) = self.open.get_mut(&token)
            && !exchange.go_on(report).is_ok_and(|more| more)
        {
            self.open.remove(&token);
        }
    }

    fn end_late(&mut self, now: Instant) {
        self.open.retain(|_, exchange| now.saturating_duration_since(exchange.since) < LONGEST);
    }
}

impl Exchange {
    /// Whether there is more to do, later.
    fn go_on(&mut self, report: &mut Report) -> io::Result<bool> {
        while self.answer.is_empty() {
            let mut piece = [0; 1024];
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(false),
                Ok(read) => self.request.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if is_whole(&self.request) || self.request.len() > MOST_BYTES {
                self.answer = answer(&self.request, report);
            }
        }
        while self.sent < self.answer.len() {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(0) => return Ok(false),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// Whether a request's head has arrived: it ends with an empty line.
fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|end| end == b"\r\n\r\n") || request.windows(2).any(|end| end == b"\n\n")
}

/// The whole answer to a request.
fn answer(request: &[u8], report: &mut Report) -> Vec<u8> {
    if request.len() > MOST_BYTES {
        return plain("431 Request Header Fields Too Large", "the request is too large\n");
    }
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else {
        return plain("400 Bad Request", "this is no request of HTTP\n");
    };
    if !version.starts_with(b"HTTP/1.") {
        return plain("505 HTTP Version Not Supported", "ask with HTTP/1.1\n");
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => {
            let text = report();
            let head = head("200 OK", "text/plain; version=0.0.4; charset=utf-8", text.len());
            let body = if method == b"HEAD" { "" } else { &text };
            [head.as_bytes(), body.as_bytes()].concat()
        }
        (b"GET" | b"HEAD", _) => plain("404 Not Found", "metrics are at /metrics\n"),
        _ => plain("405 Method Not Allowed", "only GET and HEAD are answered\n"),
    }
}

fn plain(status: &str, text: &str) -> Vec<u8> {
    let head = head(status, "text/plain; charset=utf-8", text.len());
    [head.as_bytes(), text.as_bytes()].concat()
}

fn head(status: &str, kind: &str, len: usize) -> String {
    // RFC 9110 wants 405 to name the allowed methods; it does no harm elsewhere.
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Allow: GET, HEAD\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &[u8]) -> String {
        let mut report: Report = Box::new(|| "perdura_up 1\n".to_owned());
        String::from_utf8(answer(request, &mut report)).unwrap()
    }

    #[test]
    fn only_the_metrics_are_there() {
        let text = ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nperdura_up 1\n")
        );
        assert!(text.contains("Content-Length: 13\r\n"));
        assert!(ask(b"GET /metrics?x=1 HTTP/1.0\n\n").contains("200 OK"));
        assert!(ask(b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(b"GET / HTTP/1.1\r\n\r\n").contains("404"));
        assert!(ask(b"POST /metrics HTTP/1.1\r\n\r\n").contains("405"));
        assert!(ask(b"GET /metrics HTTP/2\r\n\r\n").contains("505"));
    }

    #[test]
    fn refuses_non_requests() {
        for request in
            [&b"\r\n\r\n"[..], b"GET\r\n\r\n", b"\0\xff\n\n", b"GET  /metrics HTTP/1.1\n\n"]
        {
            assert!(ask(request).contains("400 Bad"), "{request:?}");
        }
        assert!(ask(&vec![b'x'; MOST_BYTES + 1]).contains("431"));
        assert!(is_whole(b"GET / HTTP/1.1\r\na: b\r\n\r\n") && !is_whole(b"GET / HTTP/1.1\r\n"));
    }
}

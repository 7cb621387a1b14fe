//! A client: requests, replies, and a cluster's redirections.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A reply. Maps and sets are lists.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(crate) enum Value {
    Nil,
    Text(String),
    Number(i64),
    Error(String),
    List(Vec<Value>),
}

impl Value {
    pub(crate) fn text(self) -> String {
        match self {
            Value::Text(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }

    pub(crate) fn number(self) -> i64 {
        match self {
            Value::Number(number) => number,
            Value::Text(text) => text.parse().unwrap_or_else(|_| panic!("no number: {text}")),
            Value::Nil => 0,
            other => panic!("no number: {other:?}"),
        }
    }

    pub(crate) fn list(self) -> Vec<Value> {
        match self {
            Value::List(list) => list,
            Value::Nil => Vec::new(),
            other => panic!("no list: {other:?}"),
        }
    }

    fn is_error(&self, code: &str) -> bool {
        matches!(self, Value::Error(text) if text.starts_with(code))
    }
}

/// A connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Client(BufReader::new(socket)))
    }

    pub(crate) fn send(&mut self, args: &[&str]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
        }
        self.0.get_mut().write_all(&bytes)
    }

    /// Sends requests without a wait for replies.
    pub(crate) fn send_all<'a>(
        &mut self,
        requests: impl Iterator<Item = &'a Vec<String>>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
            for arg in request {
                bytes.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
            }
        }
        self.0.get_mut().write_all(&bytes)
    }

    pub(crate) fn receive(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let rest = line.get(1..).unwrap_or_default().to_owned();
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        Ok(match line.as_bytes().first() {
            Some(b'+') => Value::Text(rest),
            Some(b'-') => Value::Error(rest),
            Some(b':') => Value::Number(number()?),
            Some(b',') => Value::Text(rest),
            Some(b'#') => Value::Number((rest == "t").into()),
            Some(b'_') => Value::Nil,
            Some(b'$' | b'=') => match usize::try_from(number()?) {
                Err(_) => Value::Nil,
                Ok(len) => {
                    let mut bytes = vec![0; len + 2];
                    self.0.read_exact(&mut bytes)?;
                    Value::Text(String::from_utf8_lossy(&bytes[..len]).into_owned())
                }
            },
            Some(kind @ (b'*' | b'~' | b'%' | b'>')) => match usize::try_from(number()?) {
                Err(_) => Value::Nil,
                Ok(len) => {
                    let len = if *kind == b'%' { 2 * len } else { len };
                    Value::List((0..len).map(|_| self.receive()).collect::<io::Result<_>>()?)
                }
            },
            _ => return Err(io::Error::other(format!("malformed: {line:?}"))),
        })
    }

    pub(crate) fn ask(&mut self, args: &[&str]) -> io::Result<Value> {
        self.send(args)?;
        self.receive()
    }

    /// A command given as words.
    pub(crate) fn run(&mut self, words: &str) -> Value {
        let args: Vec<&str> = words.split(' ').collect();
        self.ask(&args).unwrap_or_else(|error| panic!("{words}: {error}"))
    }
}

/// A client of a cluster: goes where it is sent, and keeps trying other nodes.
pub(crate) struct ClusterClient {
    ports: Vec<u16>,
    connections: HashMap<u16, Client>,
    at: u16,
}

impl ClusterClient {
    pub(crate) fn new(ports: &[u16]) -> Self {
        ClusterClient { ports: ports.to_vec(), connections: HashMap::new(), at: ports[0] }
    }

    fn connection(&mut self, port: u16) -> io::Result<&mut Client> {
        Ok(match self.connections.entry(port) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Client::connect(port)?),
        })
    }

    /// Sends requests to the node that has their keys, all to one connection, and returns the replies; `None` if it is
    /// not known whether they were done.
    pub(crate) fn all(&mut self, requests: &[&[&str]]) -> Option<Vec<Value>> {
        let mut asking = false;
        for attempt in 0..400 {
            let port = self.at;
            let done = self.connection(port).and_then(|client| {
                let mut replies = Vec::new();
                for request in requests {
                    if asking {
                        client.ask(&["asking"])?;
                    }
                    let reply = client.ask(request)?;
                    let is_over =
                        ["MOVED", "ASK ", "CLUSTERDOWN", "LOADING", "TRYAGAIN", "MASTERDOWN"]
                            .iter()
                            .any(|code| reply.is_error(code));
                    replies.push(reply);
                    if is_over {
                        let _ = client.ask(&["discard"]);
                        break;
                    }
                }
                Ok(replies)
            });
            asking = false;
            match done {
                Ok(replies) => match replies.last() {
                    Some(Value::Error(text))
                        if text.starts_with("MOVED") || text.starts_with("ASK ") =>
                    {
                        asking = text.starts_with("ASK ");
                        let port = text.rsplit(':').next().and_then(|port| port.parse().ok());
                        self.at = port.expect("a port");
                        continue;
                    }
                    Some(Value::Error(text))
                        if ["CLUSTERDOWN", "LOADING", "TRYAGAIN", "MASTERDOWN"]
                            .iter()
                            .any(|code| text.starts_with(code)) => {}
                    _ => return Some(replies),
                },
                Err(error) => {
                    self.connections.remove(&port);
                    self.at = self.ports[attempt % self.ports.len()];
                    // A request that may have arrived is not sent again.
                    if error.kind() != io::ErrorKind::ConnectionRefused {
                        return None;
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(50));
            self.at = self.ports[attempt % self.ports.len()];
        }
        None
    }
}

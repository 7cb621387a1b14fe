//! The part of the Redis protocol that the test's clients need.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than any reply takes; a server that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection.
pub struct Client(BufReader<TcpStream>);

/// A server's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A text, or a number in digits.
    Text(String),
    /// Null.
    Null,
    /// An array.
    Many(Vec<Reply>),
    /// An error.
    Error(String),
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When the server does not listen.
    pub fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Sends commands, all at once.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn send(&mut self, commands: &[Vec<String>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            write!(bytes, "*{}\r\n", command.len())?;
            for part in command {
                write!(bytes, "${}\r\n{part}\r\n", part.len())?;
            }
        }
        self.0.get_mut().write_all(&bytes)
    }

    /// The next reply.
    ///
    /// # Errors
    /// When the server is gone, or violates the protocol.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let strange = || io::Error::other(format!("the server answered '{}'", line.trim_end()));
        let (kind, rest) = line.trim_end().split_at_checked(1).ok_or_else(strange)?;
        let number = || rest.parse::<i64>().map_err(|_| strange());
        Ok(match kind {
            "+" | ":" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            "$" => match number()? {
                len @ 0.. => {
                    let mut bytes = vec![0; len as usize + 2];
                    self.0.read_exact(&mut bytes)?;
                    bytes.truncate(len as usize);
                    Reply::Text(String::from_utf8(bytes).map_err(|_| strange())?)
                }
                _ => Reply::Null,
            },
            "*" => match number()? {
                len @ 0.. => {
                    Reply::Many((0..len).map(|_| self.receive()).collect::<Result<_, _>>()?)
                }
                _ => Reply::Null,
            },
            _ => return Err(strange()),
        })
    }
}

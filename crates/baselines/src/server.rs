//! Servers that speak the Redis protocol, started as child processes.

use crate::child::Guard;
use crate::{Error, Result};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to answer its first `PING`.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to answer one of our few own requests.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A server that is listening; it ends when this is dropped.
pub struct Server {
    name: String,
    address: SocketAddr,
    process: Guard,
}

/// How to start a server.
pub struct Launch {
    /// Its name in tables.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// What to do if there is no such program.
    pub advice: &'static str,
    /// Its arguments; `{port}` and `{dir}` are replaced.
    pub arguments: Vec<String>,
}

impl Launch {
    /// `redis-server` that syncs its append-only file before every reply.
    pub fn redis() -> Self {
        let arguments = "--port {port} --bind 127.0.0.1 --dir {dir} --appendonly yes \
                         --appendfsync always --loglevel warning --daemonize no --save";
        let mut arguments: Vec<_> = arguments.split_whitespace().map(str::to_owned).collect();
        // No snapshots: they do not make a reply durable.
        arguments.push(String::new());
        Launch {
            name: redis_name(),
            program: "redis-server".into(),
            advice: "install redis-server",
            arguments,
        }
    }

    /// Starts it with its files in `folder`, and waits until it answers.
    ///
    /// # Errors
    /// `Unavailable` when there is no such program; `Failed` when it does not answer.
    pub fn start(&self, folder: &Path) -> Result<Server> {
        let port = free_port()?;
        let dir = folder.to_string_lossy();
        let fill = |text: &String| text.replace("{port}", &port.to_string()).replace("{dir}", &dir);
        let log = folder.join("server.log");
        let log_file =
            std::fs::File::create(&log).map_err(Error::io("cannot make the server's log"))?;
        let mut command = Command::new(&self.program);
        command.args(self.arguments.iter().map(fill)).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log_file);
        let mut process = Guard::spawn(&mut command, &self.name, self.advice)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        self.await_answer(address, &mut process, &log)?;
        Ok(Server { name: self.name.clone(), address, process })
    }

    fn await_answer(&self, address: SocketAddr, process: &mut Guard, log: &Path) -> Result<()> {
        let start = Instant::now();
        loop {
            if ask(address, "PING").is_ok_and(|answer| answer == "+PONG") {
                return Ok(());
            }
            if let Some(status) = process.ended() {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                let why = format!("it ended with {status}: {}", said.trim());
                return Err(Error::failed(&self.name, why));
            }
            if start.elapsed() > START_LIMIT {
                return Err(Error::failed(&self.name, "it does not answer PING"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Server {
    /// Its name in tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process's identifier.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The port that it listens on, on the loopback address.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its reply to a command whose arguments need no quoting: the first line of it, or of a bulk string's contents.
    ///
    /// # Errors
    /// `Failed` when it does not answer.
    pub fn ask(&self, command: &str) -> Result<String> {
        ask(self.address, command)
            .map_err(|error| Error::failed(&self.name, format!("no answer to {command}: {error}")))
    }
}

fn ask(address: SocketAddr, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut lines = BufReader::new(stream).lines();
    let mut next = || lines.next().unwrap_or_else(|| Err(std::io::ErrorKind::UnexpectedEof.into()));
    let first = next()?;
    if first.starts_with('$') && first != "$-1" { next() } else { Ok(first) }
}

fn redis_name() -> String {
    let printed = Command::new("redis-server").arg("--version").output();
    let printed = printed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = printed.unwrap_or_default();
    let version = version.split_whitespace().find_map(|word| word.strip_prefix("v="));
    version.map_or_else(|| "Redis".to_owned(), |version| format!("Redis {version}"))
}

/// A port that is free right now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(Error::io("cannot find a free port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_says_what_to_install() {
        let launch = Launch {
            name: "Nobody".into(),
            program: "no-such-server-here".into(),
            advice: "install nothing",
            arguments: Vec::new(),
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        match launch.start(folder.path()) {
            Err(Error::Unavailable(why)) => assert!(why.contains("install nothing"), "{why}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it started"),
        }
    }

    #[test]
    fn a_server_that_ends_is_reported_with_its_last_words() {
        let launch = Launch {
            name: "Shell".into(),
            program: "sh".into(),
            advice: "",
            arguments: vec!["-c".into(), "echo no room >&2; exit 3".into()],
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = launch.start(folder.path()).err().expect("it ended").to_string();
        assert!(error.contains("no room") && error.contains('3'), "{error}");
    }

    /// Skipped if Redis is not installed.
    #[test]
    fn redis_starts_answers_and_ends() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = match Launch::redis().start(folder.path()) {
            Err(Error::Unavailable(why)) => return eprintln!("skipped: {why}"),
            other => other.expect("Redis starts"),
        };
        assert_eq!(server.ask("SET a hello").expect("an answer"), "+OK");
        assert_eq!(server.ask("GET a").expect("an answer"), "hello");
        assert_eq!(server.ask("CONFIG GET appendfsync").expect("an answer"), "*2");
        let port = server.port();
        drop(server);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    }
}

//! Where clients come in: TLS, sockets of the Unix domain, several addresses, protected mode.

use crate::common::{Frame, Running, encode, show};
use perdura_server::{ClientCertificates, Listener, Options, Server, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

pub(crate) fn files(name: &str, clients: ClientCertificates) -> TlsFiles {
    TlsFiles {
        cert_file: certificate(&format!("{name}.pem")),
        key_file: certificate(&format!("{name}.key")),
        ca_file: Some(certificate("ca.pem")),
        clients,
    }
}

fn any() -> Vec<SocketAddr> {
    vec!["127.0.0.1:0".parse().unwrap()]
}

/// A server at these sockets and one of TCP; and where it speaks TLS, if it does.
pub(crate) fn start(more: Listener, options: Options) -> (Running, Option<SocketAddr>) {
    let folder = tempfile::tempdir().unwrap();
    let pool = perdura::Options::new().size(64 << 20).domain(Some(perdura::Domain::Process));
    let pool = pool.open_or_create(folder.path().join("pool")).unwrap();
    let listener = Listener::bind(&any()).unwrap().and(more).unwrap();
    let server = Server::with(&pool, listener, options.threads(2)).unwrap();
    let tls = server.tls_addrs().first().copied();
    let mut running = Running::run(pool, server);
    running.adopt(Some(folder));
    (running, tls)
}

fn start_tls(clients: ClientCertificates) -> (Running, SocketAddr) {
    let tls = Listener::bind_tls(&any()).unwrap();
    let (running, address) = start(tls, Options::new().tls(files("server", clients)));
    (running, address.unwrap())
}

/// A client that speaks over any stream.
struct Speaker<S>(S);

impl<S: Read + Write> Speaker<S> {
    /// The answer to a request; nothing, if the connection ends.
    fn ask(&mut self, request: &str) -> Option<String> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        self.0.write_all(&encode(&args)).ok()?;
        self.receive().map(|frame| show(&frame))
    }

    fn receive(&mut self) -> Option<Frame> {
        let mut bytes = Vec::new();
        loop {
            if let Some((frame, used)) = Frame::decode(&bytes) {
                assert_eq!(used, bytes.len());
                return Some(frame);
            }
            let mut piece = vec![0; 1 << 16];
            match self.0.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(read) => bytes.extend_from_slice(&piece[..read]),
            }
        }
    }
}

type Secure = Speaker<StreamOwned<ClientConnection, TcpStream>>;

/// A client that trusts the authority, with a certificate of this name.
fn secure(address: SocketAddr, own: Option<&str>) -> Secure {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(name) => {
            let chain = CertificateDer::from_pem_file(certificate(&format!("{name}.pem")));
            let key = PrivateKeyDer::from_pem_file(certificate(&format!("{name}.key")));
            config.with_client_auth_cert(vec![chain.unwrap()], key.unwrap()).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    Speaker(StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream))
}

#[test]
fn clients_speak_tls() {
    let (server, tls) = start_tls(ClientCertificates::Ignored);
    let mut clients: Vec<_> = (0..10).map(|_| secure(tls, None)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("SET key:{number} {number}")).unwrap(), "OK");
    }
    // More than the buffers of TLS and of the socket hold, both ways, in requests that come together.
    let value = "v".repeat(3 << 20);
    assert_eq!(clients[0].ask(&format!("SET large {value}")).unwrap(), "OK");
    assert_eq!(clients[1].ask("GET large").unwrap(), value);
    let requests = encode(&[b"GET", b"large"]).repeat(20);
    clients[2].0.write_all(&requests).unwrap();
    // Its replies do not all fit anywhere while it does not read.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(clients[3].ask("GET key:3").unwrap(), "3");
    let mut bytes = vec![0; 20 * (value.len() + "$3145728\r\n\r\n".len())];
    clients[2].0.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes.iter().filter(|&&byte| byte == b'v').count(), 20 * value.len());
    let mut plain = server.client();
    assert_eq!(plain.ask("DBSIZE"), "11");
    assert_eq!(plain.ask("CONFIG GET tls-port"), format!("[tls-port {}]", tls.port()));
    // The last words arrive, and then the end.
    assert_eq!(clients[4].ask("QUIT").unwrap(), "OK");
    assert_eq!(clients[4].0.read(&mut [0]).unwrap(), 0);
}

#[test]
fn clients_show_certificates_where_they_must() {
    use ClientCertificates::{Ignored, Optional, Required};
    for (clients, own, expected) in [
        (Required, Some("client"), true),
        (Required, Some("stranger"), false),
        (Required, None, false),
        (Optional, Some("client"), true),
        (Optional, Some("stranger"), false),
        (Optional, None, true),
        (Ignored, Some("stranger"), true),
    ] {
        let (_server, tls) = start_tls(clients);
        let answer = secure(tls, own).ask("PING");
        assert_eq!(answer.is_some(), expected, "{clients:?}, {own:?}");
    }
}

#[test]
fn certificates_are_replaced_while_the_server_runs() {
    let (server, tls) = start_tls(ClientCertificates::Ignored);
    let shown = |client: &mut Secure| {
        assert_eq!(client.ask("PING").unwrap(), "PONG");
        let chain = client.0.conn.peer_certificates().unwrap();
        chain[0].as_ref().to_vec()
    };
    let of = |name: &str| {
        let found = CertificateDer::from_pem_file(certificate(name)).unwrap();
        found.as_ref().to_vec()
    };
    let mut old = secure(tls, None);
    assert_eq!(shown(&mut old), of("server.pem"));
    let mut plain = server.client();
    let path = |name: &str| certificate(name).display().to_string();
    let failed = "ERR CONFIG SET failed (possibly related to argument 'tls-key-file') - Unable to update TLS \
                  configuration. Check server logs.";
    // A key of another certificate.
    let set = format!("CONFIG SET maxclients 77 tls-key-file {}", path("other.key"));
    assert_eq!(plain.ask(&set), failed);
    assert_eq!(plain.ask("CONFIG GET maxclients"), "[maxclients 10000]");
    let set = format!(
        "CONFIG SET tls-cert-file {} tls-key-file {}",
        path("other.pem"),
        path("other.key")
    );
    assert_eq!(plain.ask(&set), "OK");
    assert_eq!(shown(&mut secure(tls, None)), of("other.pem"));
    assert_eq!(shown(&mut old), of("server.pem"));
    assert_eq!(plain.ask("CONFIG SET tls-auth-clients yes"), "OK");
    assert_eq!(secure(tls, None).ask("PING"), None);
    assert!(secure(tls, Some("client")).ask("PING").is_some());
    assert!(plain.ask("CONFIG SET tls-auth-clients perhaps").contains("one of the following: yes"));
}

/// Half a handshake, and bytes that are none, end by themselves and keep nobody waiting.
#[test]
fn bad_peers_of_tls_harm_nobody() {
    let (server, tls) = start_tls(ClientCertificates::Ignored);
    let started = Instant::now();
    let connect = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(tls).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    // The beginning of a message that is never completed, and silence.
    let halves = [connect(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]), connect(&[])];
    let mut random = crate::common::Random::new(1);
    for round in 0..50 {
        let garbage: Vec<u8> = (0..round * 40).map(|_| random.next() as u8).collect();
        let mut garbage = connect(&garbage);
        let _ = garbage.shutdown(std::net::Shutdown::Write);
        let _ = garbage.read_to_end(&mut Vec::new());
    }
    for request in ["PING\r\n", "GET / HTTP/1.1\r\n\r\n", "*1\r\n$4\r\nPING\r\n"] {
        let mut wrong = connect(request.as_bytes());
        let mut rest = Vec::new();
        let _ = wrong.read_to_end(&mut rest);
        assert!(!rest.windows(4).any(|four| four == b"PONG"), "{request:?}");
    }
    let mut client = secure(tls, None);
    assert_eq!(client.ask("PING").unwrap(), "PONG");
    for mut half in halves {
        let _ = half.read_to_end(&mut Vec::new());
    }
    let took = started.elapsed();
    assert!(took > Duration::from_secs(8) && took < Duration::from_secs(25), "{took:?}");
    // Those that could speak stay.
    assert_eq!(client.ask("PING").unwrap(), "PONG");
    let mut plain = server.client();
    assert_eq!(plain.ask("CLIENT LIST").lines().count(), 2);
}

/// Bytes that arrive one by one are a handshake as well.
#[test]
fn slow_handshakes_are_completed() {
    let (_server, tls) = start_tls(ClientCertificates::Ignored);
    let mut slow = secure(tls, None);
    let StreamOwned { conn, sock } = &mut slow.0;
    let mut hello = Vec::new();
    conn.write_tls(&mut hello).unwrap();
    sock.set_nodelay(true).unwrap();
    for byte in hello {
        sock.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(slow.ask("PING").unwrap(), "PONG");
}

#[test]
fn files_of_tls_are_checked() {
    let good = files("server", ClientCertificates::Required);
    let cases = [
        (
            TlsFiles { cert_file: "/nothing".into(), ..good.clone() },
            "/nothing: no certificates in PEM",
        ),
        (TlsFiles { key_file: certificate("ca.pem"), ..good.clone() }, "no private key in PEM"),
        (TlsFiles { cert_file: certificate("server.key"), ..good.clone() }, "it has none"),
        (TlsFiles { ca_file: None, ..good.clone() }, "without tls-ca-cert-file"),
        (TlsFiles { key_file: certificate("other.key"), ..good.clone() }, "server.pem: "),
    ];
    for (files, expected) in cases {
        let error = perdura_server::check_files(&Options::new().tls(files)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(perdura_server::check_files(&Options::new().tls(good)).is_ok());
}

#[test]
fn a_socket_has_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // One that a server that has died left there.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (server, _) = start(Listener::bind_unix(&path, Some(0o600)).unwrap(), Options::new());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut local = Speaker(UnixStream::connect(&path).unwrap());
    assert_eq!(local.ask("SET a 1").unwrap(), "OK");
    let mut client = server.client();
    assert_eq!(client.ask("GET a"), "1");
    assert_eq!(client.ask("CONFIG GET unixsocket"), format!("[unixsocket {}]", path.display()));
    let list = client.ask("CLIENT LIST");
    let shown = format!("addr={0}:0 laddr={0}:0", path.display());
    assert!(list.contains(&shown), "{list}");
    // Another server finds it in use.
    assert!(Listener::bind_unix(&path, None).is_err());
    // To find that out it has connected.
    while client.ask("CLIENT LIST").matches(&shown).count() > 1 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(client.ask(&format!("CLIENT KILL ADDR {}:0", path.display())), "1");
    assert_eq!(local.ask("PING"), None);
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    assert!(Listener::bind_unix(&path, None).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
}

#[test]
fn several_addresses_are_listened_at() {
    let other = Listener::bind(&["127.0.0.2:0".parse().unwrap()]).unwrap();
    let address = other.local_addr().unwrap();
    let (server, _) = start(other, Options::new());
    let mut one = server.client();
    let mut two = crate::common::Client::connect(address);
    assert_eq!((one.ask("SET a 1"), two.ask("GET a")), ("OK".into(), "1".into()));
    assert_eq!(one.ask("CONFIG GET bind"), "[bind 127.0.0.1 127.0.0.2]");
}

/// An address of this machine that is not its loopback's.
fn outer() -> Option<SocketAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent.
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback()).then(|| SocketAddr::new(ip, 0))
}

#[test]
fn strangers_are_refused_while_nobody_needs_a_password() {
    let Some(outer) = outer() else {
        println!("not tested: this machine has no address but its loopback's");
        return;
    };
    let listener = Listener::bind(&[outer]).unwrap();
    let address = listener.local_addr().unwrap();
    let (server, _) = start(listener, Options::new());
    let mut local = server.client();
    let ask = |request: &str| crate::common::Client::connect(address).rest_after(request);
    assert!(
        ask("PING\r\nQUIT\r\n").starts_with("-DENIED Redis is running in protected mode because")
    );
    assert_eq!(local.ask("CONFIG SET protected-mode no"), "OK");
    assert_eq!(ask("PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
    assert_eq!(local.ask("CONFIG SET protected-mode yes"), "OK");
    assert!(ask("PING\r\nQUIT\r\n").starts_with("-DENIED "));
    assert_eq!(local.ask("CONFIG SET requirepass secret"), "OK");
    assert_eq!(ask("AUTH secret\r\nQUIT\r\n"), "+OK\r\n+OK\r\n");
}

//! TLS: certificates, which can be replaced while the server runs, and connections whose handshakes are a part of their
//! worker's turns: nothing here waits.

use crate::replication::Wire;
use mio::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme,
};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether clients must have a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Each must, signed by one of `ca_file`.
    #[default]
    Required,
    /// A client may; one that it has must be signed so.
    Optional,
    /// They are not asked for.
    Ignored,
}

impl ClientCertificates {
    /// The words of `tls-auth-clients`.
    pub const NAMES: [&str; 3] = ["yes", "optional", "no"];
    const ALL: [ClientCertificates; 3] =
        [ClientCertificates::Required, ClientCertificates::Optional, ClientCertificates::Ignored];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl std::str::FromStr for ClientCertificates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = Self::NAMES.iter().position(|name| name.eq_ignore_ascii_case(text));
        let names = Self::NAMES.join(", ");
        Ok(Self::ALL[at.ok_or_else(|| format!("'{text}' is none of {names}"))?])
    }
}

/// The files that TLS needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, with those that lead to its root, in PEM.
    pub cert_file: PathBuf,
    /// Its private key, in PEM, without a password.
    pub key_file: PathBuf,
    /// Certificates of those who sign clients' certificates, in PEM.
    pub ca_file: Option<PathBuf>,
    /// Whether clients must have a certificate.
    pub clients: ClientCertificates,
}

impl TlsFiles {
    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong = |path: &Path, what: &str| format!("{}: {what}", path.display());
        let certificates = certificates(&self.cert_file)?;
        let key = PrivateKeyDer::from_pem_file(&self.key_file)
            .map_err(|error| wrong(&self.key_file, &format!("no private key in PEM: {error}")))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match (self.clients, &self.ca_file) {
            (ClientCertificates::Ignored, _) => builder.with_no_client_auth(),
            (_, None) => {
                return Err(
                    "clients' certificates cannot be checked without tls-ca-cert-file: give \
                            it, or set tls-auth-clients to no"
                        .into(),
                );
            }
            (clients, Some(path)) => {
                let roots = roots(path)?;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match clients {
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier.build().map_err(|error| wrong(path, &error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(certificates, key);
        config.map(Arc::new).map_err(|error| wrong(&self.cert_file, &error.to_string()))
    }

    /// For connections to a master: with the server's own certificate, and as Redis has it, that of the master must be signed
    /// by one of `ca_file`, and its name is not looked at.
    ///
    /// # Errors
    /// What is wrong with one of the files.
    pub(crate) fn read_for_master(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let Some(ca_file) = &self.ca_file else {
            return Err(
                "another server's certificate cannot be checked without tls-ca-cert-file".into()
            );
        };
        let wrong = |path: &Path, what: &str| format!("{}: {what}", path.display());
        let key = PrivateKeyDer::from_pem_file(&self.key_file)
            .map_err(|error| wrong(&self.key_file, &format!("no private key in PEM: {error}")))?;
        let roots = roots(ca_file)?;
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(MasterVerifier { roots, provider }))
            .with_client_auth_cert(certificates(&self.cert_file)?, key);
        config.map(Arc::new).map_err(|error| wrong(&self.cert_file, &error.to_string()))
    }
}

/// The certificates of a file, as those of signers.
fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(path)?);
    match added {
        0 => Err(format!("{}: none of its certificates can be used", path.display())),
        _ => Ok(roots),
    }
}

/// Checks who has signed a master's certificate.
#[derive(Debug)]
struct MasterVerifier {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for MasterVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The certificates of a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: String| format!("{}: no certificates in PEM: {error}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() { Err(wrong("it has none".into())) } else { Ok(all) }
}

/// What a server's TLS connections share.
pub(crate) struct Tls(Mutex<Current>);

/// The files that hold.
struct Current {
    files: TlsFiles,
    config: Arc<ServerConfig>,
    /// How often they were set.
    edition: u64,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, String> {
        let config = files.read()?;
        Ok(Tls(Mutex::new(Current { files: files.clone(), config, edition: 0 })))
    }

    fn inner(&self) -> MutexGuard<'_, Current> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For connections that are made from now on.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.inner().config)
    }

    pub(crate) fn files(&self) -> TlsFiles {
        self.inner().files.clone()
    }

    /// How often the files were set: another number since then says that connections made before may be trusted no longer.
    pub(crate) fn edition(&self) -> u64 {
        self.inner().edition
    }

    /// Reads other files, or the same again.
    ///
    /// # Errors
    /// What is wrong with one of them; those that were read before hold.
    pub(crate) fn set(&self, files: TlsFiles) -> Result<(), String> {
        let config = files.read()?;
        let mut inner = self.inner();
        let edition = inner.edition + 1;
        *inner = Current { files, config, edition };
        Ok(())
    }
}

/// A connection with TLS.
pub(crate) struct TlsSocket {
    stream: TcpStream,
    session: ServerConnection,
    /// It has failed: nothing more is read or written.
    failed: bool,
}

impl TlsSocket {
    pub(crate) fn new(stream: TcpStream, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(TlsSocket { stream, session: ServerConnection::new(config)?, failed: false })
    }

    /// The connection for a thread of its own.
    pub(crate) fn into_wire(self) -> Wire {
        Wire::secured(self.stream.into(), self.session.into())
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether bytes wait for room in the socket.
    pub(crate) fn is_pending(&self) -> bool {
        !self.failed && self.session.wants_write()
    }

    /// Sends what the session has, as far as there is room.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.is_pending() {
            self.session.write_tls(&mut self.stream)?;
        }
        Ok(())
    }

    /// Tells the peer that nothing more follows.
    pub(crate) fn close(&mut self) {
        if !self.failed {
            self.session.send_close_notify();
            // The peer may not read any more.
            let _ = self.flush();
        }
    }

    pub(crate) fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.failed {
                return Err(ErrorKind::InvalidData.into());
            }
            match self.session.reader().read(to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // One that ends without saying so could have been cut off: it only ends.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let ended = self.session.read_tls(&mut self.stream)? == 0;
            let processed = self.session.process_new_packets();
            // Its part of the handshake, or the alert that says what is wrong.
            let flushed = self.flush();
            if let Err(error) = processed {
                self.failed = true;
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
            flushed.or_else(|error| match error.kind() {
                ErrorKind::WouldBlock => Ok(()),
                _ => Err(error),
            })?;
            if ended && self.session.is_handshaking() {
                return Ok(0);
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let written = self.session.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            // As long as the session takes none, there is no room in the socket.
            _ if written == 0 && !bytes.is_empty() => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(written),
        }
    }
}

//! Tests of the handshake: every mode with every kind of certificate, old servers, silent servers. The tests themselves
//! act as the servers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, date_time_ymd};

use super::testing::{Authority, Identity, serve, write_secret};
use super::*;

const LONG: Duration = Duration::from_secs(20);
const MODES: [SslMode; 4] = [SslMode::Prefer, SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull];

fn plain() -> Security {
    Security { mode: SslMode::Require, ..Security::default() }
}

/// Makes a handshake with a server that has this certificate, and reads a word from it. Returns the stream, or the text
/// of the refusal.
fn handshake(identity: Identity, security: &Security, host: &str) -> Result<Tls, String> {
    let (address, server) = serve(1, move |socket, _| {
        if let Some(mut stream) = identity.accept(socket, None) {
            stream.write_all(b"word").and_then(|()| stream.flush()).expect("the client reads");
            let _ = stream.read(&mut [0]);
        }
    });
    let client = TlsClient::of(security, host).expect("the files are there").expect("TLS is on");
    let socket = TcpStream::connect(address).expect("it listens");
    let made = client.handshake(socket, Patience::of(LONG)).map_err(|error| error.to_string()).map(|mut tls| {
        let mut word = [0; 4];
        tls.read_exact(&mut word).expect("it is sent");
        assert_eq!(&word, b"word");
        tls
    });
    if let Ok(tls) = &made {
        tls.socket().shutdown(std::net::Shutdown::Write).expect("it is open");
    }
    server.join().expect("no panic");
    made
}

#[test]
fn every_mode_accepts_and_refuses_certificates_as_libpq_does() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let namesake = Authority::new("ours");
    let not_signed = format!("the server's certificate is not signed by a certificate of {}", ours.root_cert.display());
    type Edit = fn(&mut CertificateParams);
    let nothing: Edit = |_| {};
    let cn_alone: Edit = |params| {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Localhost");
    };
    let expired: Edit = |params| params.not_after = date_time_ymd(2020, 3, 4);
    let early: Edit = |params| params.not_before = date_time_ymd(2099, 3, 4);
    let is_ca: Edit = |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // The authority that signs a certificate, the names in it and a change of it; then the answers with verify-ca and
    // with verify-full.
    let table: [(&Authority, &[&str], Edit, &str, &str); 10] = [
        (&ours, &["localhost"], nothing, "", ""),
        (&ours, &["*.example", "127.0.0.1", "localhost"], nothing, "", ""),
        (
            &ours,
            &["db.example", "127.0.0.2"],
            nothing,
            "",
            "the server's certificate is for db.example, 127.0.0.2, not for localhost",
        ),
        (&ours, &[], cn_alone, "", "the server's certificate names localhost in its CN alone, which is no name"),
        (&ours, &[], nothing, "", "the server's certificate is for no name, not for localhost"),
        (&ours, &["db"], cn_alone, "", "the server's certificate is for db, not for localhost"),
        (
            &ours,
            &["localhost"],
            expired,
            "the server's certificate expired on 2020-03-04",
            "the server's certificate expired on 2020-03-04",
        ),
        (
            &ours,
            &["localhost"],
            early,
            "the server's certificate is not valid before 2099-03-04",
            "the server's certificate is not valid before 2099-03-04",
        ),
        (&other, &["localhost"], nothing, &not_signed, &not_signed),
        (&namesake, &["localhost"], nothing, &not_signed, &not_signed),
    ];
    for (authority, names, edit, by_ca, by_name) in table {
        for mode in MODES {
            let expected = if mode == SslMode::VerifyFull { by_name } else { by_ca };
            let said = handshake(authority.sign(names, edit), &ours.security(mode), "localhost");
            assert_eq!(said.as_ref().map_or_else(String::as_str, |_| ""), expected, "{names:?} {mode}");
            assert!(said.is_ok_and(|tls| tls.is_verified()) == expected.is_empty());
        }
        // Without a root certificate the client verifies nothing.
        let tls = handshake(authority.sign(names, edit), &plain(), "localhost").expect("anything will do");
        assert!(!tls.is_verified() && tls.endpoint().is_some());
    }
    let said = handshake(ours.sign(&["localhost"], is_ca), &ours.security(SslMode::VerifyCa), "localhost");
    assert!(said.err().is_some_and(|said| said.contains("cannot be used")), "webpki takes no authority as a server");
}

#[test]
fn a_self_signed_certificate_is_its_own_authority() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let said = handshake(ours.itself(), &ours.security(SslMode::VerifyCa), "localhost");
    assert!(said.expect("it is the root certificate itself").is_verified());
    let said =
        handshake(ours.itself(), &ours.security(SslMode::VerifyFull), "localhost").err().expect("it has no name");
    assert_eq!(said, "the server's certificate is for no name, not for localhost");
    let said = handshake(other.itself(), &ours.security(SslMode::VerifyCa), "localhost").err().expect("another");
    assert!(said.starts_with("the server's certificate is not signed by a certificate of "), "{said}");
}

#[test]
fn an_address_is_found_in_the_certificate_and_a_host_that_is_no_name_in_none() {
    let ours = Authority::new("ours");
    let full = ours.security(SslMode::VerifyFull);
    handshake(ours.sign(&["127.0.0.1"], |_| {}), &full, "127.0.0.1").expect("it names the address");
    for host in ["127.0.0.2", "not a name", ""] {
        let said = handshake(ours.sign(&["localhost"], |_| {}), &full, host).err().expect("it is another");
        assert_eq!(said, format!("the server's certificate is for localhost, not for {host}"));
    }
}

/// Returns the client's error for a server that answers the client's hello with these bytes, and then closes the
/// connection.
fn said_to(answer: &'static [u8]) -> String {
    let (address, server) = serve(1, move |mut socket, _| {
        socket.read_exact(&mut [0; 64]).expect("a hello");
        socket.write_all(answer).expect("it reads");
        socket.shutdown(std::net::Shutdown::Write).expect("it is open");
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let client = TlsClient::of(&plain(), "localhost").expect("no files").expect("TLS is on");
    let error = client
        .handshake(TcpStream::connect(address).expect("it listens"), Patience::of(LONG))
        .err()
        .expect("it is no TLS");
    server.join().expect("no panic");
    assert!(matches!(error, TlsError::Refused(_)));
    error.to_string()
}

#[test]
fn old_versions_and_ciphers_are_refused_by_one_sentence_and_strangers_by_another() {
    let too_old = "the server offers TLS 1.1 at most, or only DHE ciphers, which are refused";
    // The server answers with the alerts protocol_version, handshake_failure and insufficient_security.
    for alert in [b"\x15\x03\x02\0\x02\x02\x46", b"\x15\x03\x03\0\x02\x02\x28", b"\x15\x03\x03\0\x02\x02\x47"] {
        assert_eq!(said_to(alert), too_old);
    }
    // A server's hello of TLS 1.1 with TLS_RSA_WITH_AES_128_CBC_SHA.
    let hello = b"\x16\x03\x02\0\x2a\x02\0\0\x26\x03\x02\
        01234567890123456789012345678901\0\0\x2f\0";
    assert_eq!(said_to(hello), too_old);
    // MySQL 5.7.22's answer, in plain text.
    assert_eq!(said_to(b"\x16\0\0\x02\xff\x13\x04#08S01Bad handshake"), too_old);
    for stranger in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n", b"\x15\x03\x03\0\x02\x02\x50"] {
        let said = said_to(stranger);
        assert!(said != too_old && said.contains("TLS handshake"), "{said}");
    }
}

#[test]
fn a_silent_half_of_a_handshake_ends_in_its_time_also_when_it_dribbles() {
    // The server sends nothing, or a record of 16 KiB byte by byte.
    for header in [&b""[..], b"\x16\x03\x03\x40\0"] {
        let (address, server) = serve(1, move |mut socket, _| {
            for at in 0..200 {
                let byte = if header.is_empty() { &[][..] } else { header.get(at..=at).unwrap_or(b"\0") };
                if socket.write_all(byte).is_err() || has_left(&socket) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let client = TlsClient::of(&plain(), "localhost").expect("no files").expect("TLS is on");
        let begun = Instant::now();
        let socket = TcpStream::connect(address).expect("it listens");
        let error = client.handshake(socket, Patience::of(Duration::from_millis(300))).err().expect("it does not come");
        assert!(matches!(error, TlsError::Silent(_)), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(3));
        server.join().expect("no panic");
    }
}

/// Returns true when the other end has closed the connection: then a read returns the end or an error without waiting.
fn has_left(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).expect("it is open");
    let mut all = Vec::new();
    let left = match (&mut &*socket).read_to_end(&mut all) {
        Err(error) => error.kind() != ErrorKind::WouldBlock,
        Ok(_) => true,
    };
    socket.set_nonblocking(false).expect("it is open");
    left
}

#[test]
fn a_client_shows_its_certificate_where_the_server_wants_one() {
    for (shown, is_accepted) in [(None, false), (Some("theirs"), true), (Some("other"), false)] {
        let (theirs, signer) = (Authority::new("theirs"), Authority::new("other"));
        let signer = if shown == Some("theirs") { &theirs } else { &signer };
        let server = theirs.sign(&["localhost"], |_| {});
        let own = signer.sign(&["client"], |_| {});
        let mut security = plain();
        if shown.is_some() {
            (security.cert, security.key) = (Some(own.cert.clone()), Some(own.key.clone()));
        }
        let tls = TlsClient::of(&security, "localhost").expect("the files are there").expect("TLS is on");
        let (address, thread) = serve(1, move |socket, _| {
            if let Some(mut stream) = server.accept(socket, Some(&theirs)) {
                stream.write_all(b"w").and_then(|()| stream.flush()).expect("the client reads");
            }
        });
        let made = tls.handshake(TcpStream::connect(address).expect("it listens"), Patience::of(LONG));
        // In TLS 1.3 the client has finished the handshake before the server checks the client's certificate.
        let read = made.map(|mut tls| tls.read_exact(&mut [0]));
        assert_eq!(matches!(read, Ok(Ok(()))), is_accepted, "{shown:?}");
        thread.join().expect("no panic");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let ours = Authority::new("ours");
    let own = ours.sign(&["client"], |_| {});
    let place = tempfile::tempdir().expect("a directory");
    let empty = place.path().join("empty");
    write_secret(&empty, "");
    let with = |root: Option<&Path>, cert: Option<&Path>, key: Option<&Path>| {
        let [root_cert, cert, key] = [root, cert, key].map(|path| path.map(Path::to_path_buf));
        let security = Security { mode: SslMode::VerifyCa, root_cert, cert, key, ..Security::default() };
        TlsClient::of(&security, "db").err().map(|refusal| refusal.what)
    };
    let (root, cert, key) = (Some(&*ours.root_cert), Some(&*own.cert), Some(&*own.key));
    assert_eq!(with(root, cert, key), None);
    assert_eq!(
        with(None, None, None).as_deref(),
        Some("sslmode=verify-ca needs the certificate that signed the server's")
    );
    for (root, cert, key, word) in [
        (Some(&*empty), None, None, "holds no certificate"),
        (Some(Path::new("/nowhere")), None, None, "/nowhere"),
        (root, cert, None, "sslcert is given without sslkey"),
        (root, None, key, "sslkey is given without sslcert"),
        (root, cert, Some(&*empty), "sslkey"),
        (root, Some(&*ours.root_cert), key, "sslcert and sslkey cannot be used"),
    ] {
        let said = with(root, cert, key).expect("it cannot be used");
        assert!(said.contains(word), "{said}");
    }
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&own.key, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    assert!(with(root, cert, key).is_some_and(|said| said.contains("others may read it")));
    assert!(TlsClient::of(&Security::default(), "db").expect("nothing is read").is_none(), "no TLS is asked for");
}

#[test]
fn messages_of_tls_itself_are_no_input() {
    let ours = Authority::new("ours");
    let server = ours.sign(&["localhost"], |_| {});
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let (address, thread) = serve(1, move |socket, _| {
        let mut stream = server.accept(socket, None).expect("a client");
        wait.recv().expect("the test goes on");
        stream.write_all(b"abc").and_then(|()| stream.flush()).expect("the client reads");
        wait.recv().expect("the test goes on");
    });
    let client = TlsClient::of(&plain(), "localhost").expect("no files").expect("TLS is on");
    let mut tls = client
        .handshake(TcpStream::connect(address).expect("it listens"), Patience::of(LONG))
        .expect("anything will do");
    // After the handshake of TLS 1.3 the server sends session tickets.
    for _ in 0..20 {
        assert!(!tls.has_input());
        std::thread::sleep(Duration::from_millis(5));
    }
    go_on.send(()).expect("it waits");
    let begun = Instant::now();
    while !tls.has_input() {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(5));
    }
    tls.read_exact(&mut [0; 2]).expect("it came");
    assert!(tls.has_input(), "a byte is left in the session, none in the socket");
    tls.read_exact(&mut [0]).expect("it came");
    assert!(!tls.has_input());
    go_on.send(()).expect("it waits");
    thread.join().expect("no panic");
    let begun = Instant::now();
    while !tls.has_input() {
        assert!(begun.elapsed() < LONG, "the end is input too");
    }
    assert_eq!(tls.read(&mut [0]).expect("an end, no error"), 0);
}

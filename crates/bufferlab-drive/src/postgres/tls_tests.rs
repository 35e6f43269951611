//! Tests of connections over TLS: modes, SCRAM's binding to the certificate, and refusals. The tests themselves act as
//! the servers.

use super::super::connection::tests::{error, welcome};
use super::super::wire::tests::message;
use super::*;
use crate::server::security::Security;
use crate::tls::testing::{Accepted, Authority, Identity, serve};

const ASK: [u8; 8] = [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f];
const VERIFY: SslMode = SslMode::VerifyFull;

fn target(port: u16, security: Security) -> Target {
    let place = Place::Tcp { host: "127.0.0.1".to_owned(), port };
    let [user, password, database] = ["user", "secret", "base"].map(str::to_owned);
    Target { place, user, password, database, security: Some(security) }
}

fn said(connected: Result<Connection, Failure>) -> String {
    connected.err().expect("it is refused").what
}

/// Answers the client's request for TLS with this byte.
fn answer(socket: &mut TcpStream, byte: &[u8]) {
    let mut asked = [0; 8];
    socket.read_exact(&mut asked).expect("a question");
    assert_eq!(asked, ASK);
    socket.write_all(byte).expect("the client reads");
}

/// Makes the handshake, and reads the client's first message, which has no type.
fn secured(identity: &Identity, mut socket: TcpStream) -> Option<Accepted> {
    answer(&mut socket, b"S");
    let mut stream = identity.accept(socket, None)?;
    startup(&mut stream);
    Some(stream)
}

fn startup(stream: &mut impl Read) {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a length");
    let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut rest).expect("a startup message");
    assert!(rest.starts_with(b"\0\x03\0\0user\0user\0"), "{rest:?}");
}

/// Returns the body of the client's next message, which must be an answer to a request of a login.
fn proof(stream: &mut impl Read) -> Vec<u8> {
    let mut header = [0; 5];
    stream.read_exact(&mut header).expect("a message");
    assert_eq!(header[0], b'p');
    let mut body = vec![0; u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize - 4];
    stream.read_exact(&mut body).expect("its body");
    body
}

fn send(stream: &mut impl Write, bytes: &[u8]) {
    // A client that has refused the server may have closed the connection.
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |part: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(part.get(at).copied().unwrap_or(0)));
        let digit = |at| if at <= part.len() { DIGITS[bits >> (18 - 6 * at) & 63] as char } else { '=' };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn scram_binds_to_the_certificate_where_the_server_knows_it() {
    // The mechanisms that the server offers, the one that the client chooses, and the beginning of its first message.
    for (offered, chosen, begin) in [
        (&b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"[..], SCRAM_SHA_256_PLUS, "p=tls-server-end-point,,"),
        (b"SCRAM-SHA-256\0\0", SCRAM_SHA_256, "y,,"),
    ] {
        let ours = Authority::new("ours");
        let identity = ours.sign(&["127.0.0.1"], |_| {});
        // rcgen signs certificates with ECDSA and SHA-256.
        let hash = ring::digest::digest(&ring::digest::SHA256, &identity.chain[0]).as_ref().to_vec();
        let (address, server) = serve(1, move |socket, _| {
            let mut stream = secured(&identity, socket).expect("a client");
            send(&mut stream, &message(b'R', &[&10i32.to_be_bytes()[..], offered].concat()));
            let first = proof(&mut stream);
            let expected = [chosen.as_bytes(), b"\0"].concat();
            assert!(first.starts_with(&expected), "{first:?}");
            let words = String::from_utf8(first[expected.len() + 4..].to_vec()).expect("text");
            let nonce = words.strip_prefix(begin).and_then(|rest| rest.strip_prefix("n=,r=")).expect("a nonce");
            let next = format!("r={nonce}more,s=QSXCR+Q6sek8bf92,i=4096");
            send(&mut stream, &message(b'R', &[&11i32.to_be_bytes()[..], next.as_bytes()].concat()));
            let last = String::from_utf8(proof(&mut stream)).expect("text");
            let bound = if chosen == SCRAM_SHA_256_PLUS { &hash[..] } else { &[] };
            let expected = format!("c={},r={nonce}more,p=", base64(&[begin.as_bytes(), bound].concat()));
            assert!(last.starts_with(&expected), "{last}");
            // This server cannot prove that it knows the password, and still accepts the client.
            send(&mut stream, &welcome());
        });
        let connected = connect(&target(address.port(), ours.security(VERIFY)), Silence::Fatal);
        assert!(said(connected).contains("unexpected message"), "it is not believed");
        server.join().expect("no panic");
    }
}

#[test]
fn a_session_over_tls_executes_statements_and_is_interrupted_over_tls() {
    let ours = Authority::new("ours");
    let identity = ours.sign(&["127.0.0.1"], |_| {});
    let (address, server) = serve(2, move |socket, number| {
        if number == 0 {
            let mut stream = secured(&identity, socket).expect("a client");
            send(&mut stream, &welcome());
            stream.read_exact(&mut [0; 5]).expect("a query");
            let row = message(b'D', b"\0\x01\0\0\0\x0215");
            send(&mut stream, &[row, message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat());
            return;
        }
        let mut socket = socket;
        answer(&mut socket, b"S");
        let mut stream = identity.accept(socket, None).expect("a client");
        let mut request = [0; 16];
        stream.read_exact(&mut request).expect("a request");
        assert_eq!(request[..8], [0, 0, 0, 16, 4, 0xd2, 0x16, 0x2e], "to cancel, protected like everything else");
    });
    let target = target(address.port(), ours.security(VERIFY));
    let mut connection = connect(&target, Silence::Fatal).expect("it is let in");
    assert_eq!(connection.query("SELECT").expect("it answers"), [[Some("15".to_owned())]]);
    let interrupter = super::super::interrupt::Interrupter::new(&target);
    interrupter.set(vec![connection.handle().expect("a socket")]);
    interrupter.interrupt();
    server.join().expect("no panic");
}

#[test]
fn certificates_and_answers_that_are_refused() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let identity = other.sign(&["127.0.0.1"], |_| {});
    let (address, server) = serve(1, move |socket, _| assert!(secured(&identity, socket).is_none()));
    let refused = said(connect(&target(address.port(), ours.security(VERIFY)), Silence::Fatal));
    assert!(refused.contains("the server's certificate is not signed by a certificate of"), "{refused}");
    server.join().expect("no panic");
    // After the answer "S" only TLS may follow: other bytes could come from an attacker between client and server.
    let injected = [b"S", &welcome()[..]].concat();
    for (byte, expected) in [
        (b"N".to_vec(), "the server does not offer TLS, and sslmode=verify-full requires it"),
        (b"E".to_vec(), "to the question whether it has TLS"),
        (injected, "TLS"),
        (Vec::new(), "it closed the connection when it was asked for TLS"),
    ] {
        let (address, server) = serve(1, move |mut socket, _| answer(&mut socket, &byte));
        let refused = said(connect(&target(address.port(), ours.security(VERIFY)), Silence::Fatal));
        assert!(refused.contains(expected), "{refused}");
        server.join().expect("no panic");
    }
}

#[test]
fn prefer_goes_on_without_tls_where_the_server_or_its_certificate_has_none() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    // The server has no TLS, or a certificate of another authority, or a line of pg_hba.conf that allows only
    // connections without TLS.
    for case in ["none", "other", "hostnossl"] {
        let identity = if case == "other" { &other } else { &ours }.sign(&["127.0.0.1"], |_| {});
        let (address, server) = serve(if case == "none" { 1 } else { 2 }, move |mut socket, number| {
            match (case, number) {
                ("none", _) => answer(&mut socket, b"N"),
                ("other", 0) => return assert!(secured(&identity, socket).is_none()),
                (_, 0) => {
                    let mut stream = secured(&identity, socket).expect("a client");
                    return send(&mut stream, &error("FATAL", NO_SUCH_LINE));
                }
                _ => {}
            }
            startup(&mut socket);
            send(&mut socket, &welcome());
            let _ = socket.read(&mut [0; 8]);
        });
        drop(connect(&target(address.port(), ours.security(SslMode::Prefer)), Silence::Fatal).expect("it is let in"));
        server.join().expect("no panic");
    }
    let (address, server) = serve(1, move |socket, _| {
        let mut stream = secured(&ours.sign(&["127.0.0.1"], |_| {}), socket).expect("a client");
        send(&mut stream, &message(b'R', &3i32.to_be_bytes()));
    });
    let security = Security { mode: SslMode::Prefer, ..Security::default() };
    let refused = said(connect(&target(address.port(), security), Silence::Fatal));
    assert!(refused.ends_with("the server asks for the password in clear text, which is refused"), "{refused}");
    server.join().expect("no panic");
}

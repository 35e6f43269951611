//! Tests of logins over loopback, Unix sockets and TLS. The tests themselves act as the servers, honest and hostile
//! ones.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::super::connection::{Conn, connect, connect_to_load};
use super::super::error::ANSWER_WITHIN;
use super::*;
use crate::failure::Failure;
use crate::server::target::Place;
use crate::tls::rsa::tests::{PUBLIC_KEY, decrypted};
use crate::tls::testing::{Authority, Identity, serve};

const NONCE: &[u8; 20] = b"abcdefghijklmnopqrst";
const PASSWORD: &str = "secret";
const ACCEPTED: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const UNVERIFIED: &str = "the server asks for the password itself, and nothing proves who it is";

/// The server's side of a conversation in packets: its socket, and the number of its next packet.
struct Peer<S>(S, u8);

impl<S: Read + Write> Peer<S> {
    fn send(&mut self, bytes: &[u8]) {
        let mut packet = (bytes.len() as u32).to_le_bytes().to_vec();
        packet[3] = self.1;
        packet.extend_from_slice(bytes);
        self.1 = self.1.wrapping_add(1);
        // A client that has refused the server may have closed the connection.
        let _ = self.0.write_all(&packet).and_then(|()| self.0.flush());
    }

    /// Returns the client's next packet; none when the client has left.
    fn hear(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 4];
        self.0.read_exact(&mut header).ok()?;
        let mut bytes = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
        self.0.read_exact(&mut bytes).ok()?;
        // The numbers of an exchange's packets continue, also after a change to TLS. The first packet of a command has
        // the number zero again.
        assert!(header[3] == self.1 || header[3] == 0, "{} after {}", header[3], self.1);
        self.1 = header[3].wrapping_add(1);
        Some(bytes)
    }

    /// Answers commands until the client leaves: a SELECT with a row, any other command with success.
    fn obey(&mut self) {
        self.send(ACCEPTED);
        while let Some(command) = self.hear() {
            if command.starts_with(b"\x03SELECT") {
                let column = b"\x03def\x01s\x01t\x01t\x01c\x01c\x0c\x3f\x00\x0b\x00\x00\x00\xfd\x00\x00\x00\x00\x00";
                let end = [0xfe, 0, 0, 2, 0];
                [&[1][..], column, &end, b"\x04word", &end].iter().for_each(|packet| self.send(packet));
            } else {
                self.send(ACCEPTED);
            }
        }
    }
}

/// Returns the greeting of a server that has all capabilities, and TLS if `tls`.
fn greeting(plugin: &str, tls: bool) -> Vec<u8> {
    let capabilities = if tls { u32::MAX } else { !SSL };
    let [a, b, c, d] = capabilities.to_le_bytes();
    let mut greeting = b"\x0a8.4.0\0\x07\0\0\0".to_vec();
    greeting.extend_from_slice(&NONCE[..8]);
    greeting.extend_from_slice(&[0, a, b, 45, 2, 0, c, d, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    greeting.extend_from_slice(&NONCE[8..]);
    greeting.push(0);
    greeting.extend_from_slice(plugin.as_bytes());
    greeting.push(0);
    greeting
}

fn target(place: Place, security: Option<Security>) -> Target {
    let (user, password, database) = ("user".to_owned(), PASSWORD.to_owned(), "base".to_owned());
    Target { place, user, password, database, security }
}

fn tcp(address: SocketAddr) -> Place {
    Place::Tcp { host: "localhost".to_owned(), port: address.port() }
}

fn switch(plugin: &str) -> Vec<u8> {
    [b"\xfe", plugin.as_bytes(), b"\0", &NONCE[..], b"\0"].concat()
}

/// Connects to a server that greets with a plugin and then does what `play` does. Returns the outcome, and the bytes
/// that the server received.
fn meet(
    plugin: &'static str,
    security: Option<Security>,
    mut play: impl FnMut(&mut Peer<TcpStream>) + Send + 'static,
) -> (Result<Conn, Failure>, Vec<Vec<u8>>) {
    let (heard, said) = std::sync::mpsc::channel();
    let (address, server) = serve(1, move |socket, _| {
        let mut peer = Peer(socket, 0);
        peer.send(&greeting(plugin, false));
        heard.send(peer.hear()).expect("the test waits");
        play(&mut peer);
        while let Some(more) = peer.hear() {
            heard.send(Some(more)).expect("the test waits");
        }
    });
    let mut target = target(tcp(address), security);
    // Use the address, because on some hosts the name's first address is ::1.
    target.place = Place::Tcp { host: "127.0.0.1".to_owned(), port: address.port() };
    let outcome = connect(&target).inspect(|conn| assert_eq!(conn.connection_id(), 7));
    if outcome.is_err() {
        server.join().expect("no panic");
    }
    (outcome, said.try_iter().flatten().collect())
}

fn refusal(outcome: Result<Conn, Failure>) -> String {
    outcome.err().expect("it is refused").what
}

#[test]
fn proofs_are_those_of_other_clients() {
    // The nonces and proofs are those of the tests of Go's MySQL driver: auth_test.go, TestAuthFastNativePassword and
    // TestScrambleSHA256Pass.
    let nonce = [70, 114, 92, 94, 1, 38, 11, 116, 63, 114, 23, 101, 126, 103, 26, 95, 81, 17, 24, 21];
    let expected = [53, 177, 140, 159, 251, 189, 127, 53, 109, 252, 172, 50, 211, 192, 240, 164, 26, 48, 207, 45];
    assert_eq!(Plugin::Native.proof(b"secret", &nonce), expected);
    let nonce = [10, 47, 74, 111, 75, 73, 34, 48, 88, 76, 114, 74, 37, 13, 3, 80, 82, 2, 23, 21];
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(
        hex(Plugin::CachingSha2.proof(b"secret", &nonce)),
        "f490e76f66d9d86665ce54d98c78d0acfe2fb0b08b423da807144873d30b312c"
    );
    assert_eq!(Plugin::Native.proof(b"", &nonce), b"");
}

#[test]
fn a_login_names_user_proof_database_and_plugin() {
    let (outcome, heard) = meet("mysql_native_password", None, |peer| peer.obey());
    let mut conn = outcome.expect("it is accepted");
    assert_eq!(conn.first("SELECT 1").expect("it answers").as_deref(), Some("word"));
    let proof = Plugin::Native.proof(PASSWORD.as_bytes(), NONCE);
    let expected = [b"user\0\x14", &proof[..], b"base\0mysql_native_password\0"].concat();
    assert!(heard[0][32..].starts_with(&expected), "{:?}", heard[0]);
    let capabilities = u32::from_le_bytes([heard[0][0], heard[0][1], heard[0][2], heard[0][3]]);
    assert_eq!(capabilities & (LOCAL_FILES | SSL), 0, "no file is offered, and no TLS");
}

#[test]
fn an_account_may_have_another_plugin_than_the_greeting_and_a_quick_login() {
    let (outcome, _) = meet("sha256_password", None, |peer| {
        peer.send(&switch("caching_sha2_password"));
        assert_eq!(peer.hear(), Some(Plugin::CachingSha2.proof(PASSWORD.as_bytes(), NONCE)));
        peer.send(&[MORE_DATA, FAST]);
        peer.obey();
    });
    outcome.expect("it is accepted");
}

#[test]
fn over_loopback_the_password_is_encrypted_with_the_key_that_the_server_sends() {
    let (outcome, _) = meet("caching_sha2_password", None, |peer| {
        peer.send(&[MORE_DATA, FULL]);
        assert_eq!(peer.hear(), Some(vec![ASK_FOR_KEY]));
        peer.send(&[&[MORE_DATA], PUBLIC_KEY.as_bytes()].concat());
        let mut text = decrypted(&peer.hear().expect("the password")).expect("it is by the key");
        text.iter_mut().zip(NONCE).for_each(|(byte, mask)| *byte ^= mask);
        assert_eq!(text, b"secret\0");
        peer.obey();
    });
    outcome.expect("it is accepted");
}

#[test]
fn a_key_from_a_file_is_used_unasked() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("key.pem");
    std::fs::write(&path, PUBLIC_KEY).expect("there is room");
    let security = Security { server_public_key: Some(path), ..Security::default() };
    let (outcome, _) = meet("caching_sha2_password", Some(security), |peer| {
        peer.send(&[MORE_DATA, FULL]);
        assert_eq!(decrypted(&peer.hear().expect("the password")).expect("it is by the key").len(), 7);
        peer.obey();
    });
    outcome.expect("it is accepted");
    let missing = Security { server_public_key: Some("/nowhere".into()), ..Security::default() };
    let (outcome, heard) = meet("caching_sha2_password", Some(missing), |peer| peer.send(&[MORE_DATA, FULL]));
    assert!(refusal(outcome).contains("/nowhere"));
    assert_eq!(heard.len(), 1);
}

#[test]
fn a_key_that_is_none_ends_the_login_and_not_the_process() {
    for key in
        [&b"\x01"[..], b"\x01no key", b"\x02", b"", b"\x01-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n"]
    {
        let (outcome, heard) = meet("caching_sha2_password", None, move |peer| {
            peer.send(&[MORE_DATA, FULL]);
            assert_eq!(peer.hear(), Some(vec![ASK_FOR_KEY]));
            peer.send(key);
        });
        let said = refusal(outcome);
        assert!(said.contains("key"), "{said}");
        assert_eq!(heard.len(), 1, "nothing else was sent");
    }
}

#[test]
fn the_password_itself_goes_only_where_the_user_lets_it() {
    let nothing = Security::default();
    let with = |get_server_public_key, allow_unverified_password| Security {
        get_server_public_key,
        allow_unverified_password,
        ..Security::default()
    };
    let file = Security { server_public_key: Some("/key".into()), ..Security::default() };
    let (verified, unverified) = (Channel::Tls { is_verified: true }, Channel::Tls { is_verified: false });
    let refused = || Err(Refusal::unverified_password());
    // The channel, whether it stays on this host, the user's permissions, and the form in which the client then sends
    // the password.
    let table = [
        (Channel::Unix, true, &nothing, Ok(Way::Plain)),
        (Channel::Tcp, true, &nothing, Ok(Way::ByKeyAsked)),
        (Channel::Tcp, false, &nothing, refused()),
        (Channel::Tcp, false, &with(true, false), Ok(Way::ByKeyAsked)),
        (Channel::Tcp, false, &with(false, true), refused()),
        (Channel::Tcp, false, &file, Ok(Way::ByKeyOf(Path::new("/key")))),
        (Channel::Tcp, true, &file, Ok(Way::ByKeyOf(Path::new("/key")))),
        (verified, false, &nothing, Ok(Way::Plain)),
        (unverified, true, &nothing, Ok(Way::Plain)),
        (unverified, false, &nothing, refused()),
        (unverified, false, &with(true, false), refused()),
        (unverified, false, &with(false, true), Ok(Way::Plain)),
        (unverified, false, &file, refused()),
    ];
    for (channel, is_local, security, expected) in table {
        assert_eq!(way(channel, is_local, security), expected, "{channel:?} {is_local} {security:?}");
    }
    assert_eq!(Refusal::unverified_password().what, UNVERIFIED);
}

#[test]
fn over_a_unix_socket_the_password_goes_as_it_is_and_no_mode_wants_tls() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("socket");
    let listener = UnixListener::bind(&path).expect("free");
    let server = std::thread::spawn(move || {
        let mut peer: Peer<UnixStream> = Peer(listener.accept().expect("the test connects").0, 0);
        peer.send(&greeting("caching_sha2_password", true));
        let response = peer.hear().expect("a login");
        peer.send(&[MORE_DATA, FULL]);
        assert_eq!(peer.hear().as_deref(), Some(&b"secret\0"[..]));
        peer.obey();
        response
    });
    let security = Security { mode: SslMode::VerifyFull, ..Security::default() };
    let target = target(Place::Socket(path.display().to_string()), Some(security));
    drop(connect_to_load(&target).expect("it is accepted"));
    let response = server.join().expect("no panic");
    let capabilities = u32::from_le_bytes([response[0], response[1], response[2], response[3]]);
    assert_eq!(capabilities & (LOCAL_FILES | SSL), LOCAL_FILES, "a loader offers its rows as a file");
}

#[test]
fn hostile_servers_are_refused_and_get_no_password() {
    let clear = "the server asks for the password in clear text, which is refused";
    // The packets that the server sends after the client's login, and the expected error.
    let table: [(Vec<u8>, &str); 12] = [
        (switch("mysql_clear_password"), clear),
        (switch("dialog"), clear),
        (switch("sha256_password"), "logs in by 'sha256_password'"),
        (switch("client_ed25519"), "logs in by 'client_ed25519'"),
        (vec![SWITCH], "logs in by 'mysql_old_password'"),
        (vec![SWITCH, 0], "which is not known here"),
        (vec![], "no step of a login"),
        (vec![MORE_DATA], "no step of a login"),
        (vec![MORE_DATA, FULL], "no step of a login"),
        (vec![MORE_DATA, 9], "no step of a login"),
        (b"\xfb/etc/passwd".to_vec(), "no step of a login"),
        (b"\xff\x15\x04#28000Access denied".to_vec(), "ERROR 1045 (28000): Access denied"),
    ];
    for (sent, expected) in table {
        let shown = format!("{sent:?}");
        let (outcome, heard) = meet("mysql_native_password", None, move |peer| peer.send(&sent));
        let said = refusal(outcome);
        assert!(said.contains(expected), "{said}: {shown}");
        assert_eq!(heard.len(), 1, "{shown}: {heard:?}");
    }
    let (outcome, heard) = meet("mysql_native_password", None, |peer| {
        peer.send(&switch("mysql_native_password"));
        peer.hear();
        peer.send(&switch("mysql_native_password"));
    });
    assert!(refusal(outcome).contains("no step of a login"), "one switch is enough");
    assert!(!heard.concat().windows(6).any(|bytes| bytes == PASSWORD.as_bytes()));
}

#[test]
fn greetings_that_are_none_are_refused() {
    let huge: &[u8] = b"\xff\xff\xff\0\x0a8.4";
    for (sent, expected) in [
        (huge, "nothing here reads"),
        (b"\x03\0\0\0\x09ab", "another protocol"),
        (b"\x05\0\0\0\x0a5\0\0\0", "ends too early"),
        (b"\x10\0\0\0\xff\x10\x04Too many conn", "ERROR 1040"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "nothing here reads"),
        (b"", "closed the connection"),
    ] {
        let (address, server) = serve(1, move |mut socket, _| {
            socket.write_all(sent).expect("the client reads");
            socket.shutdown(std::net::Shutdown::Write).expect("it is open");
            let _ = socket.read(&mut [0; 64]);
        });
        let place = Place::Tcp { host: "127.0.0.1".to_owned(), port: address.port() };
        let said = refusal(connect(&target(place, None)));
        assert!(said.contains(expected), "{said}");
        server.join().expect("no panic");
    }
}

#[test]
fn a_greeting_that_does_not_end_is_given_up_in_its_time() {
    // The server sends nothing, or 4 KiB byte by byte.
    for dribbles in [false, true] {
        let (address, server) = serve(1, move |mut socket, _| {
            let bytes = b"\0\x10\0\0".iter().chain(std::iter::repeat(&0)).take(if dribbles { 4_000 } else { 0 });
            for byte in bytes {
                if socket.write_all(&[*byte]).is_err() {
                    // The client has left.
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = socket.read(&mut [0]);
        });
        let mut wire = Wire::new(
            Stream::Tcp(TcpStream::connect(address).expect("it listens")),
            Patience::of(Duration::from_millis(200)),
        );
        let begun = Instant::now();
        let error = wire.login_packet().map(<[u8]>::len).expect_err("it does not come");
        assert!(matches!(&error, MysqlError::Io(error) if super::super::error::is_timeout(error)), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        drop(wire);
        server.join().expect("no panic");
    }
}

/// Greets the client, and makes the handshake of TLS if the client asks for it.
fn secured(identity: &Identity, socket: TcpStream) -> Option<Peer<crate::tls::testing::Accepted>> {
    let mut peer = Peer(socket, 0);
    peer.send(&greeting("caching_sha2_password", true));
    let request = peer.hear()?;
    assert_eq!(request.len(), 32, "a request for TLS names no user");
    let sequence = peer.1;
    identity.accept(peer.0, None).map(|stream| Peer(stream, sequence))
}

#[test]
fn a_login_and_its_statements_go_through_tls_and_verified_ones_send_the_password() {
    let ours = Authority::new("ours");
    let identity = ours.sign(&["localhost"], |_| {});
    let (address, server) = serve(1, move |socket, _| {
        let mut peer = secured(&identity, socket).expect("a client");
        let response = peer.hear().expect("a login");
        assert!(response[32..].starts_with(b"user\0"));
        peer.send(&[MORE_DATA, FULL]);
        assert_eq!(peer.hear().as_deref(), Some(&b"secret\0"[..]));
        peer.obey();
    });
    let mut conn = started(address, Some(ours.security(SslMode::VerifyFull))).expect("it is accepted");
    assert_eq!(conn.first("SELECT 1").expect("it answers").as_deref(), Some("word"));
    drop(conn);
    server.join().expect("no panic");
}

/// Logs in to the host named `localhost`, at an address that the test chooses.
fn started(address: SocketAddr, security: Option<Security>) -> Result<Conn, LoginError> {
    let target = target(tcp(address), security);
    let tls = match &target.security {
        Some(security) => TlsClient::of(security, "localhost").expect("the files are there"),
        None => None,
    };
    let socket = TcpStream::connect(address).expect("it listens");
    let patience = Patience::of(ANSWER_WITHIN);
    let purpose = Purpose::Work;
    let asked = Login { database: Some("base"), purpose, name: "bufferlab", patience, limit_bytes: usize::MAX };
    Conn::start(Stream::Tcp(socket), &target, &asked, tls)
}

#[test]
fn what_comes_before_tls_begins_is_refused() {
    let ours = Authority::new("ours");
    let (address, server) = serve(1, move |mut socket, _| {
        let mut both = Vec::new();
        for (number, packet) in [greeting("caching_sha2_password", true), ACCEPTED.to_vec()].iter().enumerate() {
            both.extend_from_slice(&(packet.len() as u32 | (number as u32) << 24).to_le_bytes());
            both.extend_from_slice(packet);
        }
        socket.write_all(&both).expect("the client reads");
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let Err(LoginError::Other(error)) = started(address, Some(ours.security(SslMode::VerifyFull))) else {
        panic!("it is refused");
    };
    assert!(error.to_string().contains("before TLS begins"), "{error}");
    server.join().expect("no panic");
}

#[test]
fn a_server_without_tls_is_refused_where_it_is_required_and_met_where_it_is_preferred() {
    let mode = |mode| Some(Security { mode, ..Security::default() });
    let (outcome, heard) = meet("mysql_native_password", mode(SslMode::Require), |_| {});
    let said = refusal(outcome);
    assert!(said.ends_with("the server does not offer TLS, and sslmode=require requires it"), "{said}");
    assert!(heard.is_empty(), "no login was sent");
    meet("mysql_native_password", mode(SslMode::Prefer), |peer| peer.obey()).0.expect("it is accepted");
}

#[test]
fn after_a_handshake_that_fails_prefer_goes_on_without_and_others_say_why() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    for mode in [SslMode::Prefer, SslMode::Require] {
        let identity = other.sign(&["localhost"], |_| {});
        let connections = if mode == SslMode::Prefer { 2 } else { 1 };
        let (address, server) = serve(connections, move |socket, number| {
            if number == 0 {
                assert!(secured(&identity, socket).is_none(), "its certificate is another's");
            } else {
                let mut peer = Peer(socket, 0);
                peer.send(&greeting("mysql_native_password", true));
                let response = peer.hear().expect("a login");
                assert!(response[32..].starts_with(b"user\0"));
                peer.obey();
            }
        });
        let place = Place::Tcp { host: "127.0.0.1".to_owned(), port: address.port() };
        let outcome = connect(&target(place, Some(ours.security(mode))));
        match mode {
            SslMode::Prefer => drop(outcome.expect("it goes on without TLS")),
            _ => {
                let said = refusal(outcome);
                assert!(said.contains("the server's certificate is not signed by a certificate of"), "{said}");
            }
        }
        server.join().expect("no panic");
    }
}

#[test]
fn a_request_for_a_file_is_refused_whatever_was_asked() {
    let (outcome, _) = meet("mysql_native_password", None, |peer| {
        peer.send(ACCEPTED);
        while let Some(command) = peer.hear() {
            peer.send(if command.starts_with(b"\x03SET") { ACCEPTED } else { b"\xfb/etc/passwd" });
        }
    });
    let mut conn = outcome.expect("it is accepted");
    let error = conn.rows("SELECT 1").expect_err("it is no answer");
    assert_eq!(error.to_string(), "the server asks for a file of this host (LOCAL INFILE), which is refused");
}

#[test]
fn a_load_sends_its_rows_when_the_server_asks_for_them() {
    let (outcome, _) = meet("mysql_native_password", None, |peer| {
        peer.send(ACCEPTED);
        while let Some(command) = peer.hear() {
            if !command.starts_with(b"\x03LOAD") {
                peer.send(ACCEPTED);
                continue;
            }
            peer.send(b"\xfbrows");
            let sent: Vec<Vec<u8>> = std::iter::from_fn(|| peer.hear().filter(|bytes| !bytes.is_empty())).collect();
            assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1 << 20, 5, 3]);
            peer.send(&[0, 2, 0, 2, 0, 1, 0]);
        }
    });
    let mut conn = outcome.expect("it is accepted");
    let mut rows = vec![vec![b'x'; 3], vec![b'x'; (1 << 20) + 5]];
    let end = conn.wire.load_local("LOAD DATA LOCAL", &mut || rows.pop()).expect("it takes them");
    assert_eq!((end.affected, end.warnings), (2, 1));
    let error = conn.wire.load_local("SELECT", &mut || None::<Vec<u8>>).expect_err("it wants no file");
    assert!(error.to_string().contains("does not take the file"), "{error}");
}

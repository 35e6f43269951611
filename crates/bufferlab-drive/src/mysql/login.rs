//! Logs in at a MySQL or MariaDB server: reads its greeting, starts TLS, and proves the password.
//!
//! Protocol: MySQL's "Connection Phase" and MariaDB's "Connecting". The password itself (instead of a proof) leaves
//! this host only over TLS with a verified certificate, or encrypted with a key that the user named. Without these it
//! is sent only with the user's explicit permission. (MySQL's client: sql-common/client_authentication.cc,
//! `caching_sha2_password_auth_client`.)

use std::path::Path;

use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::error::MysqlError;
use super::wire::{Bytes, Wire, broken};
use crate::server::patience::Patience;
use crate::server::refusal::Refusal;
use crate::server::security::{Security, SslMode};
use crate::server::stream::Stream;
use crate::server::target::Target;
use crate::tls::{RsaKey, TlsClient, TlsError};

/// The failure of a login.
#[derive(Debug)]
pub(super) enum LoginError {
    /// A failure of TLS. With the mode `prefer` the caller may try another connection without TLS.
    Tls(TlsError),
    /// Any other failure of the login: of the socket, the protocol, or the server's refusal.
    Other(MysqlError),
}

impl From<MysqlError> for LoginError {
    fn from(error: MysqlError) -> Self {
        LoginError::Other(error)
    }
}

/// Capabilities that every connection asks for (mysql's include/mysql_com.h).
const ALWAYS: u32 =
    LONG_PASSWORD | PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION | MULTI_RESULTS | PLUGIN_AUTH | CONNECT_ATTRS;
/// Capabilities that only connections for a workload's statements ask for.
const OF_WORKLOADS: u32 = FOUND_ROWS | MULTI_STATEMENTS | PS_MULTI_RESULTS;
/// A MariaDB server that has capabilities of MariaDB alone does not set this bit.
const LONG_PASSWORD: u32 = 1;
/// An update returns the number of rows that it found, including rows that already had the new values.
const FOUND_ROWS: u32 = 1 << 1;
const CONNECT_WITH_DB: u32 = 1 << 3;
const LOCAL_FILES: u32 = 1 << 7;
const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI_STATEMENTS: u32 = 1 << 16;
const MULTI_RESULTS: u32 = 1 << 17;
const PS_MULTI_RESULTS: u32 = 1 << 18;
const PLUGIN_AUTH: u32 = 1 << 19;
const CONNECT_ATTRS: u32 = 1 << 20;
/// A capability of MariaDB alone, in bits after the first 32: the server does not send unchanged definitions of columns
/// again.
const CACHE_METADATA: u32 = 1 << 4;

const PROTOCOL: u8 = 10;
/// Bytes of the longest packet that this client says it accepts.
const MOST_BYTES: u32 = 4 << 20;
const UTF8MB4_GENERAL_CI: u8 = 45;
const UTF8_GENERAL_CI: u8 = 33;
const NONCE_BYTES: usize = 20;

const OK: u8 = 0x00;
const MORE_DATA: u8 = 0x01;
const SWITCH: u8 = 0xfe;
/// The byte after [`MORE_DATA`]: the server has the password in its cache (`FAST`), or asks for the password itself
/// (`FULL`).
const FAST: u8 = 0x03;
const FULL: u8 = 0x04;
const ASK_FOR_KEY: u8 = 0x02;

/// The kind of a connection's statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A workload's statements.
    Work,
    /// A workload's statements, which may load a "file" that this client sends.
    Load,
    /// Control statements of Python: one at a time, whose text may have any UTF-8 character.
    Ask,
}

/// The parameters of a login.
pub(super) struct Login<'a> {
    /// The session's database, if it has one.
    pub database: Option<&'a str>,
    /// The kind of the session's statements.
    pub purpose: Purpose,
    /// The name of the session, which performance_schema's session_connect_attrs shows to other sessions.
    pub name: &'a str,
    /// The time limit of the whole login.
    pub patience: Patience,
    /// The most bytes of a packet after the login.
    pub limit_bytes: usize,
}

/// The parts of the server's first packet that a login needs.
#[derive(Debug)]
struct Greeting {
    id: u32,
    capabilities: u32,
    mariadb_capabilities: u32,
    charset: u8,
    nonce: Vec<u8>,
    plugin: Plugin,
}

impl Greeting {
    fn parse(packet: &[u8]) -> Result<Self, MysqlError> {
        let mut rest = Bytes(packet);
        if rest.u8()? != PROTOCOL {
            return Err(broken("a greeting of another protocol than MySQL's").into());
        }
        let version = String::from_utf8_lossy(rest.until_zero()).into_owned();
        let id = rest.u32()?;
        let mut nonce = rest.take(8)?.to_vec();
        rest.u8()?;
        let low = u32::from(rest.u16()?);
        let (_charset, _status, high) = (rest.u8()?, rest.u16()?, u32::from(rest.u16()?));
        let capabilities = high << 16 | low;
        if capabilities & PROTOCOL_41 == 0 {
            return Err(broken("a greeting of MySQL 4.0 or older").into());
        }
        let nonce_length = usize::from(rest.u8()?);
        rest.take(6)?;
        let mariadb = rest.u32()?;
        if capabilities & SECURE_CONNECTION != 0 {
            let length = nonce_length.saturating_sub(8).max(13);
            nonce.extend_from_slice(rest.take(length.min(rest.0.len()))?);
        }
        let plugin = if capabilities & PLUGIN_AUTH != 0 { rest.until_zero() } else { b"" };
        let is_mariadb = version.contains("MariaDB");
        Ok(Greeting {
            id,
            capabilities,
            mariadb_capabilities: if is_mariadb && capabilities & LONG_PASSWORD == 0 { mariadb } else { 0 },
            // Keep these character sets in later versions of bufferlab: another set would change the conversions in
            // measured statements.
            charset: if is_mariadb { UTF8_GENERAL_CI } else { UTF8MB4_GENERAL_CI },
            nonce: whole_nonce(&nonce),
            // A server may name any plugin in its greeting, because it asks for the account's plugin later.
            plugin: Plugin::of(plugin).unwrap_or(Plugin::Native),
        })
    }
}

fn whole_nonce(bytes: &[u8]) -> Vec<u8> {
    let mut nonce = bytes.to_vec();
    nonce.resize(NONCE_BYTES, 0);
    nonce
}

/// A way to prove a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plugin {
    Native,
    CachingSha2,
}

impl Plugin {
    /// Returns the plugin of this name; an error for plugins that send the password itself, and for unknown plugins.
    fn of(name: &[u8]) -> Result<Self, MysqlError> {
        match name {
            b"mysql_native_password" => Ok(Plugin::Native),
            b"caching_sha2_password" => Ok(Plugin::CachingSha2),
            b"mysql_clear_password" | b"dialog" => Err(MysqlError::Refused(Refusal::clear_text())),
            other => Err(MysqlError::Refused(Refusal::unknown_login(&String::from_utf8_lossy(other)))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Plugin::Native => "mysql_native_password",
            Plugin::CachingSha2 => "caching_sha2_password",
        }
    }

    /// Returns the proof that the client knows the password, for the server's `nonce`; no bytes for an empty password.
    fn proof(self, password: &[u8], nonce: &[u8]) -> Vec<u8> {
        match self {
            _ if password.is_empty() => Vec::new(),
            // SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))
            Plugin::Native => proof(&SHA1_FOR_LEGACY_USE_ONLY, password, |twice| [nonce, twice].concat()),
            // SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)
            Plugin::CachingSha2 => proof(&SHA256, password, |twice| [twice, nonce].concat()),
        }
    }
}

fn proof(hash: &'static Algorithm, password: &[u8], with_nonce: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let once = digest(hash, password);
    let twice = digest(hash, once.as_ref());
    let mask = digest(hash, &with_nonce(twice.as_ref()));
    once.as_ref().iter().zip(mask.as_ref()).map(|(byte, mask)| byte ^ mask).collect()
}

/// Logs in; returns the wire, and the connection's number at the server.
pub(super) fn login(
    stream: Stream,
    target: &Target,
    asked: &Login<'_>,
    tls: Option<TlsClient>,
) -> Result<(Wire, u32), LoginError> {
    let within = asked.patience.left();
    stream.set_timeouts(within, within).map_err(MysqlError::from)?;
    let mut wire = Wire::new(stream, asked.patience);
    let greeting = Greeting::parse(wire.login_packet()?)?;
    let mode = target.security.as_ref().map_or(SslMode::Disable, |security| security.mode);
    let tls = tls.filter(|_| greeting.capabilities & SSL != 0);
    if tls.is_none() && mode.requires_tls() && !matches!(wire.stream(), Stream::Unix(_)) {
        return Err(MysqlError::Refused(Refusal::no_tls(mode)).into());
    }
    let wanted = ALWAYS
        | if tls.is_some() { SSL } else { 0 }
        | if asked.purpose == Purpose::Load { LOCAL_FILES } else { 0 }
        | if asked.purpose == Purpose::Ask { 0 } else { OF_WORKLOADS }
        | if asked.database.is_some_and(|name| !name.is_empty()) { CONNECT_WITH_DB } else { 0 };
    let capabilities = greeting.capabilities & wanted;
    let head = head(&greeting, capabilities, asked.purpose);
    if let Some(tls) = tls {
        wire.reply(&head)?;
        wire = wire.exchange(|stream| match stream {
            Stream::Tcp(socket) => match tls.handshake(socket, asked.patience) {
                Ok(tls) => Ok(Stream::Tls(Box::new(tls))),
                Err(error) => Err(LoginError::Tls(error)),
            },
            other => Ok(other),
        })?;
        wire.stream().set_timeouts(within, within).map_err(MysqlError::from)?;
    }
    let password = target.password.as_bytes();
    let proof = greeting.plugin.proof(password, &greeting.nonce);
    wire.reply(&response(head, capabilities, target, asked, greeting.plugin, &proof))?;
    let security = target.security.clone().unwrap_or_default();
    prove(&mut wire, &security, password, greeting.plugin, greeting.nonce)?;
    // Only control sessions have a limit on the time of sending: a load may send more than a server receives within any
    // limit. The caller limits the time of reading.
    let sent_within = within.filter(|_| asked.purpose == Purpose::Ask);
    wire.stream().set_timeouts(within, sent_within).map_err(MysqlError::from)?;
    wire.logged_in(asked.limit_bytes);
    Ok((wire, greeting.id))
}

/// Returns the bytes with which both a request for TLS and a login begin. MariaDB takes its own capabilities from the
/// first of these two messages.
fn head(greeting: &Greeting, capabilities: u32, purpose: Purpose) -> Vec<u8> {
    let mut head = capabilities.to_le_bytes().to_vec();
    head.extend_from_slice(&MOST_BYTES.to_le_bytes());
    let asks = purpose == Purpose::Ask;
    head.push(if asks { UTF8MB4_GENERAL_CI } else { greeting.charset });
    head.extend_from_slice(&[0; 19]);
    let own_capabilities = if asks { 0 } else { greeting.mariadb_capabilities & CACHE_METADATA };
    head.extend_from_slice(&own_capabilities.to_le_bytes());
    head
}

fn response(
    head: Vec<u8>,
    capabilities: u32,
    target: &Target,
    asked: &Login<'_>,
    plugin: Plugin,
    proof: &[u8],
) -> Vec<u8> {
    let mut response = head;
    let zero_ended = |text: &str, response: &mut Vec<u8>| {
        response.extend(text.bytes().filter(|&byte| byte != 0));
        response.push(0);
    };
    zero_ended(&target.user, &mut response);
    response.push(proof.len() as u8);
    response.extend_from_slice(proof);
    if capabilities & CONNECT_WITH_DB != 0 {
        zero_ended(asked.database.unwrap_or_default(), &mut response);
    }
    if capabilities & PLUGIN_AUTH != 0 {
        zero_ended(plugin.name(), &mut response);
    }
    if capabilities & CONNECT_ATTRS != 0 {
        let pid = std::process::id().to_string();
        let mut attributes = Vec::new();
        for text in ["program_name", asked.name, "_pid", &pid] {
            attributes.push(text.len() as u8);
            attributes.extend_from_slice(text.as_bytes());
        }
        response.push(attributes.len() as u8);
        response.extend_from_slice(&attributes);
    }
    response
}

/// Proves the password by the plugins that the server asks for, until it accepts the login.
fn prove(
    wire: &mut Wire,
    security: &Security,
    password: &[u8],
    mut plugin: Plugin,
    mut nonce: Vec<u8>,
) -> Result<(), MysqlError> {
    let (mut switched, mut told) = (false, false);
    loop {
        match *wire.login_packet()? {
            [OK, ..] => return Ok(()),
            [SWITCH, ref rest @ ..] if !switched => {
                let mut rest = Bytes(rest);
                // A very old server asks for `mysql_old_password` by an empty packet.
                let name = if rest.0.is_empty() { &b"mysql_old_password"[..] } else { rest.until_zero() };
                plugin = Plugin::of(name)?;
                nonce = whole_nonce(rest.0);
                switched = true;
                wire.reply(&plugin.proof(password, &nonce))?;
            }
            [MORE_DATA, FAST] if plugin == Plugin::CachingSha2 && !told => told = true,
            [MORE_DATA, FULL] if plugin == Plugin::CachingSha2 && !told => {
                told = true;
                send_password(wire, security, password, &nonce)?;
            }
            _ => return Err(broken("no step of a login that is known here").into()),
        }
    }
}

/// The protection that a stream gives to a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Unix,
    Tcp,
    Tls { is_verified: bool },
}

/// The form in which the client sends the password itself.
#[derive(Debug, PartialEq, Eq)]
enum Way<'a> {
    Plain,
    ByKeyOf(&'a Path),
    ByKeyAsked,
}

/// Returns the form in which the user's [`Security`] allows to send the password; a refusal if it allows none.
fn way(channel: Channel, is_local: bool, security: &Security) -> Result<Way<'_>, Refusal> {
    match channel {
        Channel::Unix => Ok(Way::Plain),
        Channel::Tls { is_verified } if is_local || is_verified || security.allow_unverified_password => Ok(Way::Plain),
        // Over TLS a server does not accept a password that is encrypted with the server's key.
        Channel::Tls { .. } => Err(Refusal::unverified_password()),
        Channel::Tcp => match &security.server_public_key {
            Some(path) => Ok(Way::ByKeyOf(path)),
            None if is_local || security.get_server_public_key => Ok(Way::ByKeyAsked),
            None => Err(Refusal::unverified_password()),
        },
    }
}

/// Sends the password itself. A server asks for it if its cache does not have the password.
fn send_password(wire: &mut Wire, security: &Security, password: &[u8], nonce: &[u8]) -> Result<(), MysqlError> {
    let channel = match wire.stream() {
        Stream::Unix(_) => Channel::Unix,
        Stream::Tcp(_) => Channel::Tcp,
        Stream::Tls(tls) => Channel::Tls { is_verified: tls.is_verified() },
    };
    let mut text = password.to_vec();
    text.push(0);
    let key = match way(channel, wire.stream().is_local(), security).map_err(MysqlError::Refused)? {
        Way::Plain => return wire.reply(&text),
        Way::ByKeyOf(path) => std::fs::read(path).map_err(|error| {
            let what = format!("server_public_key: {} cannot be used: {error}", path.display());
            MysqlError::Refused(Refusal::new(what, PUBLIC_KEY_HINT))
        })?,
        Way::ByKeyAsked => {
            wire.reply(&[ASK_FOR_KEY])?;
            match wire.login_packet()? {
                [MORE_DATA, key @ ..] => key.to_vec(),
                _ => return Err(broken("no key where one was asked for").into()),
            }
        }
    };
    text.iter_mut().zip(nonce.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    let encrypted = RsaKey::from_pem(&key).and_then(|key| key.encrypt(&text)).ok_or_else(|| {
        let what = "the server's public key is no RSA key in PEM form, or too short for the password";
        MysqlError::Refused(Refusal::new(what, PUBLIC_KEY_HINT))
    })?;
    wire.reply(&encrypted)
}

const PUBLIC_KEY_HINT: &str =
    "name the file of the server's key: SHOW STATUS LIKE 'Caching_sha2_password_rsa_public_key'";

/// Returns true when the user's mode allows a connection without TLS after this failure of TLS.
pub(super) fn may_go_on_without(security: Option<&Security>, error: &LoginError) -> bool {
    matches!(error, LoginError::Tls(TlsError::Refused(_)))
        && security.is_some_and(|security| security.mode == SslMode::Prefer)
}

#[cfg(test)]
mod tests;

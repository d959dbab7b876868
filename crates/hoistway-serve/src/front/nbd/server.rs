//! The server: start and stop.

use super::handshake::{Offer, Security};
use super::negotiation::{HANDSHAKE_LIMIT, Negotiations, ServedExport};
use super::rules::{ClientMatch, ClientRule};
use super::tls::{Relays, Tls};
use super::wire::flags;
use crate::device::Device;
use crate::error::{ServeError, os};
use crate::front::{Export, View};
use crate::net::Listen;
use crate::net::listen::Bound;
use crate::net::server::{Acceptor, Limits, ListeningSocket};
use crate::net::socket_file::SocketFile;
use hoistway::Nanos;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

/// How a server is set up.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Rules for clients; the first that fits holds.
    pub clients: Vec<ClientRule>,
    /// TLS; `None`: not offered.
    pub tls: Option<Tls>,
    /// Serve without encryption beyond this machine.
    pub allow_plain_tcp: bool,
    /// Connections at once, those in their handshake included; 0: 4096. Further ones are closed.
    pub connections_max: usize,
    /// How long a client may take for its negotiation, however busily it dawdles; `None`: 30 s.
    pub handshake_limit: Option<Nanos>,
}

/// A running server. It stops when it is dropped.
pub struct Server {
    acceptor: Acceptor,
    relays: Option<Relays>,
    /// Clients have to use TLS.
    secure: bool,
    devices: Vec<Device>,
    addresses: Vec<Listen>,
    files: SocketFiles,
    names: Vec<String>,
}

/// Why plain TCP is for this machine alone.
const IN_THE_CLEAR: &str = "the connection is neither encrypted nor authenticated: require TLS, \
                            listen on 127.0.0.1 or a Unix socket, or allow it explicitly";

impl Server {
    /// Listens and serves.
    ///
    /// # Errors
    ///
    /// When there is no export, two have one name, an export does not fit its device, an address
    /// cannot be listened on, or TCP beyond this machine was not allowed.
    pub fn start(
        exports: Vec<Export>,
        listen: &[Listen],
        options: &ServerOptions,
    ) -> Result<Server, ServeError> {
        check_names(&exports)?;
        let security = options.tls.as_ref().map_or(Security::None, Tls::security);
        check_rules(options)?;
        let mut served = Vec::with_capacity(exports.len());
        for export in &exports {
            let view = export.view()?;
            let mut rules = Vec::with_capacity(options.clients.len());
            for rule in &options.clients {
                let (group, _) = export.device.set_group(&rule.group)?;
                rules.push((rule.who.clone(), group, rule.prio));
            }
            let (offer, device) = (offer(export, &view), export.device.clone());
            served.push(ServedExport { offer, view, size: export.size, device, rules });
        }
        let (mut listeners, files) = (Vec::new(), SocketFiles::default());
        let mut addresses = Vec::new();
        for place in listen {
            let local = security != Security::Required && !options.allow_plain_tcp;
            let Bound { socket, address, file } = place.bind(local.then_some(IN_THE_CLEAR))?;
            files.add(file);
            let unix = matches!(address, Listen::Unix(_));
            listeners.push(ListeningSocket { socket, unix });
            addresses.push(address);
        }
        let names = exports.iter().map(|e| e.name.clone()).collect();
        let devices = exports.into_iter().map(|e| e.device).collect();
        let most = if options.connections_max == 0 { 4096 } else { options.connections_max };
        let relays = options.tls.as_ref().map(Relays::start).transpose();
        let relays = relays.map_err(os("threads for TLS"))?;
        let time = options.handshake_limit.unwrap_or(HANDSHAKE_LIMIT);
        let limits = Limits { clients: most, replace_oldest: false, time };
        let negotiations = Negotiations::new(served, security, relays.clone());
        let acceptor = Acceptor::start("hoistway-nbd", negotiations, listeners, limits)?;
        let secure = security == Security::Required;
        Ok(Server { acceptor, relays, secure, devices, addresses, files, names })
    }

    /// Where it listens, in the order of asking; ports that were left open are filled in, and sockets
    /// that were passed on stand with their addresses.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// The NBD URI of an export.
    pub fn uri(&self, export: &str) -> Option<String> {
        if !self.names.iter().any(|n| n == export) {
            return None;
        }
        self.addresses.first().map(|address| uri(address, export, self.secure))
    }

    /// Takes no further connections and requests, answers what was taken, flushes every device and
    /// closes it. Clients have 10 s to take their last answers.
    ///
    /// # Errors
    ///
    /// The first of what [`Device::close`] said; the other devices are closed nevertheless.
    pub fn stop(&self) -> Result<(), ServeError> {
        if self.acceptor.stop() {
            self.devices.iter().for_each(Device::start_close);
            self.files.remove();
        }
        let mut result = Ok(());
        for device in &self.devices {
            result = result.and(device.close());
        }
        // Every session has handed its last answer to its relay.
        self.relays.iter().for_each(Relays::stop);
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Who wants to know how it ended stops it before.
        let _ = self.stop();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Socket files of our own. They go when the server stops, or has not come to start.
#[derive(Debug, Default)]
struct SocketFiles(Mutex<Vec<SocketFile>>);

impl SocketFiles {
    fn add(&self, file: Option<SocketFile>) {
        self.0.lock().expect("nobody panics while holding the lock").extend(file);
    }

    /// Once: another server may listen there afterwards.
    fn remove(&self) {
        for file in self.0.lock().expect("nobody panics while holding the lock").drain(..) {
            file.remove();
        }
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        self.remove();
    }
}

/// What a client is told of an export.
fn offer(export: &Export, view: &View) -> Offer {
    let facts = export.device.facts();
    // Every connection of an export talks to the same stack: a flush on one covers what completed
    // on all, and a cache between them there is none.
    let mut bits = flags::HAS_FLAGS | flags::CAN_MULTI_CONN | flags::SEND_CACHE;
    if view.read_only {
        bits |= flags::READ_ONLY;
    } else {
        bits |= flags::SEND_FLUSH | flags::SEND_FUA;
        bits |= flags::SEND_WRITE_ZEROES | flags::SEND_FAST_ZERO;
        bits |= if view.trim { flags::SEND_TRIM } else { 0 };
    }
    bits |= if facts.rotational { flags::ROTATIONAL } else { 0 };
    Offer {
        name: export.name.clone(),
        description: facts.summary.clone(),
        size: view.size,
        flags: bits,
        block: facts.block,
    }
}

/// The URI of an export at an address.
fn uri(address: &Listen, export: &str, secure: bool) -> String {
    let scheme = if secure { "nbds" } else { "nbd" };
    let name = uri_escaped(export);
    match address {
        Listen::Tcp(address) => format!("{scheme}://{address}/{name}"),
        Listen::Passed(_) => unreachable!("a passed socket is known by its address"),
        Listen::Unix(path) => {
            let path = uri_escaped(&path.to_string_lossy());
            format!("{scheme}+unix:///{name}?socket={path}")
        }
    }
}

/// `text` as a part of a URI: bytes that mean something there, or are no characters, as `%XX`.
pub fn uri_escaped(text: &str) -> String {
    let escaped = |byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escaped).collect()
}

fn check_names(exports: &[Export]) -> Result<(), ServeError> {
    if exports.is_empty() {
        return Err(ServeError::Refused("no export: nothing to serve".into()));
    }
    let mut taken = BTreeSet::new();
    for export in exports {
        if !taken.insert(&export.name) || export.name.len() > 4096 {
            return Err(ServeError::BadName(export.name.clone()));
        }
    }
    Ok(())
}

/// A rule that could never hold is a mistake: the client it means would get more than it should.
fn check_rules(options: &ServerOptions) -> Result<(), ServeError> {
    let verifies = options.tls.as_ref().is_some_and(Tls::verifies_clients);
    for rule in &options.clients {
        if let (ClientMatch::Certificate(name), false) = (&rule.who, verifies) {
            return Err(ServeError::Refused(format!(
                "the clients of certificate '{name}' are not known: certificates are not verified; \
                 turn TLS on and verify peers"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_escaped() {
        let at = Listen::Unix("/tmp/a b.sock".into());
        assert_eq!(uri(&at, "disk 1", false), "nbd+unix:///disk%201?socket=/tmp/a%20b.sock");
        let at = Listen::Tcp("127.0.0.1:10809".parse().unwrap());
        assert_eq!(uri(&at, "", false), "nbd://127.0.0.1:10809/");
        assert_eq!(uri(&at, "a", true), "nbds://127.0.0.1:10809/a");
    }

    #[test]
    fn a_server_that_cannot_start_leaves_no_socket_behind() {
        let device = Device::open(&crate::Target::Ram { size: 1 << 20 }, &Default::default());
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let path = std::env::temp_dir().join(format!("hoistway-nbd-{}.sock", std::process::id()));
        let listen = [Listen::Unix(path.clone()), Listen::Tcp(taken.local_addr().unwrap())];
        let exports = vec![Export::new("disk", device.unwrap())];
        let start =
            |listen: &[Listen]| Server::start(exports.clone(), listen, &ServerOptions::default());
        assert!(matches!(start(&listen), Err(ServeError::Os { .. })));
        assert!(!path.exists());
        // Stopping is over once: what is made there afterwards is somebody else's.
        let server = start(&listen[..1]).unwrap();
        assert!(path.exists());
        server.stop().unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        drop(server);
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
    }
}

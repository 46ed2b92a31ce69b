//! The component's request and access rights as texts.

use std::io::Read;

use wasip2::cli::environment::get_environment;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingRequest, Scheme};
use wasip2::sockets::network::IpAddressFamily;
use wasip2::sockets::tcp_create_socket::create_tcp_socket;

/// Reads the whole body of a request.
pub(crate) fn body(request: &IncomingRequest) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(body) = request.consume()
        && let Ok(mut stream) = body.stream()
    {
        let _ = stream.read_to_end(&mut bytes);
    }
    bytes
}

/// Formats a request.
pub(crate) fn describe(request: &IncomingRequest) -> String {
    let fields: Vec<String> = request.headers().entries().iter().map(shown).collect();
    let scheme = match request.scheme() {
        Some(Scheme::Http) => "http",
        Some(Scheme::Https) => "https",
        _ => "?",
    };
    format!(
        "{:?} {} {scheme} {}\n{}\nbody {}\n",
        request.method(),
        request.path_with_query().unwrap_or_default(),
        if request.authority().is_some() { "authority" } else { "none" },
        fields.join("\n"),
        body(request).len()
    )
}

fn shown((name, value): &(String, Vec<u8>)) -> String {
    format!("{name}: {}", String::from_utf8_lossy(value))
}

/// Returns environment variables and names of directories.
pub(crate) fn environment() -> String {
    let variables = get_environment().into_iter().map(|(name, value)| format!("{name}={value}\n"));
    let directories = get_directories().into_iter().map(|(_, name)| format!("{name}\n"));
    variables.chain(directories).collect()
}

/// Reads `DIRECTORY:FILE`.
pub(crate) fn read(query: &str) -> String {
    let read = || {
        let file = open(query, OpenFlags::empty(), DescriptorFlags::READ)?;
        let (bytes, _) = file.read(1 << 16, 0)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    text_of(read())
}

/// Writes to `DIRECTORY:FILE`.
pub(crate) fn write(query: &str) -> String {
    let write = || {
        let flags = OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let file = open(query, flags, DescriptorFlags::WRITE)?;
        file.write(b"written", 0).map(|count| format!("{count} bytes"))
    };
    text_of(write())
}

fn open(query: &str, how: OpenFlags, rights: DescriptorFlags) -> Result<Descriptor, ErrorCode> {
    let (directory, file) = query.split_once(':').ok_or(ErrorCode::Invalid)?;
    let directories = get_directories();
    let known = directories.iter().find(|(_, name)| name == directory);
    let (descriptor, _) = known.ok_or(ErrorCode::NoEntry)?;
    descriptor.open_at(PathFlags::empty(), file, how, rights)
}

fn text_of(result: Result<String, ErrorCode>) -> String {
    result.unwrap_or_else(|error| error.name().to_owned())
}

/// Sends a request to this host and port, which must fail.
pub(crate) fn fetch(authority: &str) -> String {
    let request = OutgoingRequest::new(Fields::new());
    let _ = request.set_scheme(Some(&Scheme::Http));
    let _ = request.set_authority(Some(authority));
    let _ = request.set_path_with_query(Some("/"));
    match outgoing_handler::handle(request, None) {
        Ok(response) => {
            response.subscribe().block();
            match response.get() {
                Some(Ok(Err(error))) => format!("{error:?}"),
                _ => "a response".to_owned(),
            }
        }
        Err(error) => format!("{error:?}"),
    }
}

/// Creates a socket, which must fail.
pub(crate) fn connect() -> String {
    match create_tcp_socket(IpAddressFamily::Ipv4) {
        Ok(_) => "a socket".to_owned(),
        Err(error) => error.name().to_owned(),
    }
}

//! A default `types` table, for running without a `mime.types` file.
//!
//! The media types are those registered with IANA, or what browsers and nginx users expect where
//! none is. Looking an extension up is the `types` directive's business, not this table's.

#[cfg(test)]
mod tests;

/// Media type, and the extensions that mean it, in lower case and without the dot.
pub const TYPES: &[(&str, &[&str])] = &[
    ("text/html", &["html", "htm", "shtml"]),
    ("text/css", &["css"]),
    ("text/xml", &["xml"]),
    ("image/gif", &["gif"]),
    ("image/jpeg", &["jpeg", "jpg"]),
    ("application/javascript", &["js", "mjs"]),
    ("application/atom+xml", &["atom"]),
    ("application/rss+xml", &["rss"]),
    ("text/mathml", &["mml"]),
    ("text/plain", &["txt"]),
    ("text/vnd.sun.j2me.app-descriptor", &["jad"]),
    ("text/vnd.wap.wml", &["wml"]),
    ("text/x-component", &["htc"]),
    ("text/markdown", &["md"]),
    ("text/csv", &["csv"]),
    ("text/calendar", &["ics"]),
    ("text/vtt", &["vtt"]),
    ("image/avif", &["avif"]),
    ("image/png", &["png"]),
    ("image/svg+xml", &["svg", "svgz"]),
    ("image/tiff", &["tif", "tiff"]),
    ("image/vnd.wap.wbmp", &["wbmp"]),
    ("image/webp", &["webp"]),
    ("image/x-icon", &["ico"]),
    ("image/x-jng", &["jng"]),
    ("image/x-ms-bmp", &["bmp"]),
    ("image/apng", &["apng"]),
    ("image/heic", &["heic"]),
    ("image/jxl", &["jxl"]),
    ("font/woff", &["woff"]),
    ("font/woff2", &["woff2"]),
    ("font/ttf", &["ttf"]),
    ("font/otf", &["otf"]),
    ("font/collection", &["ttc"]),
    ("application/java-archive", &["jar", "war", "ear"]),
    ("application/json", &["json", "map"]),
    ("application/ld+json", &["jsonld"]),
    ("application/manifest+json", &["webmanifest"]),
    ("application/mac-binhex40", &["hqx"]),
    ("application/msword", &["doc"]),
    ("application/pdf", &["pdf"]),
    ("application/postscript", &["ps", "eps", "ai"]),
    ("application/rtf", &["rtf"]),
    ("application/vnd.apple.mpegurl", &["m3u8"]),
    ("application/vnd.google-earth.kml+xml", &["kml"]),
    ("application/vnd.google-earth.kmz", &["kmz"]),
    ("application/vnd.ms-excel", &["xls"]),
    ("application/vnd.ms-fontobject", &["eot"]),
    ("application/vnd.ms-powerpoint", &["ppt"]),
    ("application/vnd.oasis.opendocument.graphics", &["odg"]),
    ("application/vnd.oasis.opendocument.presentation", &["odp"]),
    ("application/vnd.oasis.opendocument.spreadsheet", &["ods"]),
    ("application/vnd.oasis.opendocument.text", &["odt"]),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", &["pptx"]),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", &["xlsx"]),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", &["docx"]),
    ("application/vnd.wap.wmlc", &["wmlc"]),
    ("application/wasm", &["wasm"]),
    ("application/x-7z-compressed", &["7z"]),
    ("application/x-cocoa", &["cco"]),
    ("application/x-java-archive-diff", &["jardiff"]),
    ("application/x-java-jnlp-file", &["jnlp"]),
    ("application/x-makeself", &["run"]),
    ("application/x-perl", &["pl", "pm"]),
    ("application/x-pilot", &["prc", "pdb"]),
    ("application/x-rar-compressed", &["rar"]),
    ("application/x-redhat-package-manager", &["rpm"]),
    ("application/x-sea", &["sea"]),
    ("application/x-shockwave-flash", &["swf"]),
    ("application/x-stuffit", &["sit"]),
    ("application/x-tcl", &["tcl", "tk"]),
    ("application/x-x509-ca-cert", &["der", "pem", "crt"]),
    ("application/x-xpinstall", &["xpi"]),
    ("application/xhtml+xml", &["xhtml"]),
    ("application/xspf+xml", &["xspf"]),
    ("application/zip", &["zip"]),
    ("application/epub+zip", &["epub"]),
    ("application/gzip", &["gz", "tgz"]),
    ("application/zstd", &["zst"]),
    (
        "application/octet-stream",
        &["bin", "exe", "dll", "deb", "dmg", "iso", "img", "msi", "msp", "msm"],
    ),
    ("audio/midi", &["mid", "midi", "kar"]),
    ("audio/mpeg", &["mp3"]),
    ("audio/ogg", &["ogg", "oga", "opus"]),
    ("audio/aac", &["aac"]),
    ("audio/flac", &["flac"]),
    ("audio/wav", &["wav"]),
    ("audio/x-m4a", &["m4a"]),
    ("audio/x-realaudio", &["ra"]),
    ("video/3gpp", &["3gpp", "3gp"]),
    ("video/mp2t", &["ts"]),
    ("video/mp4", &["mp4"]),
    ("video/mpeg", &["mpeg", "mpg"]),
    ("video/ogg", &["ogv"]),
    ("video/quicktime", &["mov"]),
    ("video/webm", &["webm"]),
    ("video/x-flv", &["flv"]),
    ("video/x-m4v", &["m4v"]),
    ("video/x-matroska", &["mkv"]),
    ("video/x-mng", &["mng"]),
    ("video/x-ms-asf", &["asx", "asf"]),
    ("video/x-ms-wmv", &["wmv"]),
    ("video/x-msvideo", &["avi"]),
    ("application/dash+xml", &["mpd"]),
];

/// What nginx compiles in where there is no `types` block at all.
pub const TYPES_BUILT_IN: &[(&str, &[&str])] =
    &[("text/html", &["html"]), ("image/gif", &["gif"]), ("image/jpeg", &["jpg"])];

/// The type of an extension in any case, by a linear search: for tests and tools.
pub fn type_of(extension: &str) -> Option<&'static str> {
    let has = |extensions: &[&str]| extensions.iter().any(|e| e.eq_ignore_ascii_case(extension));
    TYPES.iter().find(|(_, extensions)| has(extensions)).map(|(media_type, _)| *media_type)
}

/// Appends the table as a `types { … }` block of a configuration.
pub fn write_types_block(out: &mut String) {
    out.push_str("types {\n");
    for (media_type, extensions) in TYPES {
        out.push_str("    ");
        out.push_str(media_type);
        for extension in *extensions {
            out.push(' ');
            out.push_str(extension);
        }
        out.push_str(";\n");
    }
    out.push_str("}\n");
}

//! The core module's settings at request time, from its directives: defaults and compiled texts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::error_page::{PRODUCT, PRODUCT_WITH_VERSION};
use tidegate_core::request_body::StoreOptions;
use tidegate_core::settings::{
    ErrorPage, IfModifiedSince, KEEPALIVE_DISABLE_MSIE6, Lingering, ServerSettings, Settings,
    Tokens, Types, full_path,
};
use tidegate_core::template::Template;

use super::conf::{BodyInFile, Conf, ServerTokens};
use crate::plan_builder::PlanBuilder;

const KIB: u64 = 1024;

/// Returns the settings of a server block.
pub fn server_settings(conf: &Conf) -> ServerSettings {
    let large = conf.large_client_header_buffers.unwrap_or((4, 8 * KIB));
    let parse = tidegate_codec::request::ParseOptions {
        ignore_invalid_headers: conf.ignore_invalid_headers.unwrap_or(true),
        underscores_in_headers: conf.underscores_in_headers.unwrap_or(false),
        headers_max: conf.max_headers.unwrap_or(1000) as usize,
        header_buffer_bytes: conf.client_header_buffer_size.unwrap_or(KIB) as usize,
        large_buffers: large.0 as usize,
        large_buffer_bytes: large.1 as usize,
        head_bytes_there: 0,
    };
    ServerSettings {
        client_header_timeout: conf.client_header_timeout.unwrap_or(seconds(60)),
        parse,
        merge_slashes: conf.merge_slashes.unwrap_or(true),
    }
}

/// Returns the settings of a location.
///
/// # Errors
/// For texts that cannot be compiled, and for error logs that cannot be opened.
pub fn settings(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Settings, Diagnostic> {
    let (root, alias, alias_length) = root(conf, plan)?;
    let keepalive = conf.keepalive_timeout.unwrap_or((seconds(75), None));
    Ok(Settings {
        root,
        alias,
        alias_length,
        internal: conf.internal.unwrap_or(false),
        types: types(conf),
        default_type: word_bytes(conf.default_type.as_ref(), "text/plain"),
        error_pages: error_pages(conf, plan)?,
        post_action: match &conf.post_action {
            Some(word) if word.bytes != b"off" => Some(plan.template(word)?),
            _ => None,
        },
        client_max_body_size: Some(conf.client_max_body_size.unwrap_or(KIB * KIB))
            .filter(|size| *size > 0),
        client_body_timeout: conf.client_body_timeout.unwrap_or(seconds(60)),
        body_store: body_store(conf, plan),
        satisfy_any: conf.satisfy_any.unwrap_or(false),
        auth_delay: conf.auth_delay.unwrap_or_default(),
        send_timeout: conf.send_timeout.unwrap_or(seconds(60)),
        postpone_output: conf.postpone_output.unwrap_or(1460) as usize,
        output_buffer_bytes: conf.output_buffers.map_or(32 * KIB, |(_, size)| size.max(1)) as usize,
        limit_rate: rate("limit_rate", conf.limit_rate.as_ref(), plan)?,
        limit_rate_after: rate("limit_rate_after", conf.limit_rate_after.as_ref(), plan)?,
        keepalive_timeout: keepalive.0,
        keepalive_header: keepalive.1,
        keepalive_min_timeout: conf.keepalive_min_timeout.unwrap_or_default(),
        keepalive_requests: conf.keepalive_requests.unwrap_or(1000),
        keepalive_time: conf.keepalive_time.unwrap_or(seconds(3600)),
        keepalive_disable: conf.keepalive_disable.unwrap_or(KEEPALIVE_DISABLE_MSIE6),
        lingering_close: conf.lingering_close.unwrap_or(Lingering::On),
        lingering_time: conf.lingering_time.unwrap_or(seconds(30)),
        lingering_timeout: conf.lingering_timeout.unwrap_or(seconds(5)),
        reset_timedout_connection: conf.reset_timedout_connection.unwrap_or(false),
        absolute_redirect: conf.absolute_redirect.unwrap_or(true),
        server_name_in_redirect: conf.server_name_in_redirect.unwrap_or(false),
        port_in_redirect: conf.port_in_redirect.unwrap_or(true),
        msie_padding: conf.msie_padding.unwrap_or(true),
        msie_refresh: conf.msie_refresh.unwrap_or(false),
        log_not_found: conf.log_not_found.unwrap_or(true),
        log_subrequest: conf.log_subrequest.unwrap_or(false),
        subrequest_output_bytes_max: conf.subrequest_output_buffer_size.unwrap_or(4 * KIB) as usize,
        recursive_error_pages: conf.recursive_error_pages.unwrap_or(false),
        tokens: tokens(conf, plan)?,
        if_modified_since: conf.if_modified_since.unwrap_or(IfModifiedSince::Exact),
        max_ranges: conf.max_ranges,
        chunked_transfer_encoding: conf.chunked_transfer_encoding.unwrap_or(true),
        etag: conf.etag.unwrap_or(true),
        tcp_nodelay: conf.tcp_nodelay.unwrap_or(true),
        sendfile: conf.sendfile.unwrap_or(false),
        sendfile_max_chunk: conf.sendfile_max_chunk.unwrap_or(2 * KIB * KIB),
        error_log: error_log(conf, plan)?,
        resolver: resolver(conf),
        resolver_timeout: conf.resolver_timeout.unwrap_or(seconds(30)),
    })
}

fn error_log(
    conf: &Conf,
    plan: &mut PlanBuilder<'_>,
) -> Result<tidegate_core::error_log::ErrorLog, Diagnostic> {
    match conf.error_logs.is_empty() {
        true => Ok(plan.main.error_log.clone()),
        false => plan.error_log(&conf.error_logs),
    }
}

fn root(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(Template, bool, usize), Diagnostic> {
    let Some(root) = &conf.root else {
        let path = format!("{}html", plan.environment.prefix);
        return Ok((Template::constant(path.as_bytes()), false, 0));
    };
    let mut bytes = tidegate_os::path::as_written(&root.text.bytes);
    if !root.alias && bytes.len() > 1 && bytes.ends_with(b"/") {
        bytes.pop();
    }
    // A text that starts with a variable is made absolute at request time.
    if !tidegate_os::path::is_absolute(&bytes) && !bytes.starts_with(b"$") {
        bytes.splice(0..0, plan.environment.prefix.bytes());
    }
    let text = plan.template_text(&bytes, root.text.span)?;
    let length = if root.alias_regex { usize::MAX } else { root.alias_length };
    Ok((text, root.alias, length))
}

fn types(conf: &Conf) -> Arc<Types> {
    let default = || {
        let common = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];
        let entries = common.iter();
        entries
            .map(|(name, kind)| (name.as_bytes().to_vec(), Bytes::from_static(kind.as_bytes())))
            .collect()
    };
    let types = conf.types.as_ref().map(|types| {
        let entries = types.iter();
        entries
            .map(|(name, kind)| {
                (name.bytes.to_ascii_lowercase(), Bytes::copy_from_slice(&kind.bytes))
            })
            .collect()
    });
    Arc::new(types.unwrap_or_else(default))
}

fn error_pages(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Arc<[ErrorPage]>, Diagnostic> {
    let mut pages = Vec::new();
    for page in &conf.error_pages {
        let target = plan.template(&page.target)?;
        pages.extend(page.codes.iter().map(|code| ErrorPage {
            code: *code,
            overwrite: page.overwrite,
            target: target.clone(),
        }));
    }
    Ok(pages.into())
}

fn body_store(conf: &Conf, plan: &PlanBuilder<'_>) -> StoreOptions {
    let in_file = conf.client_body_in_file_only.unwrap_or(BodyInFile::Off);
    let (path, levels) = match &conf.client_body_temp_path {
        Some(temp) => (temp.path.as_str(), temp.levels.clone()),
        None => (plan.environment.layout.body_temp, Vec::new()),
    };
    let temp_path = full_path(plan.environment.prefix, path);
    if !plan.in_stream() {
        plan.environment.resources.directory(&temp_path);
    }
    StoreOptions {
        memory_bytes_max: conf.client_body_buffer_size.unwrap_or(16 * KIB) as usize,
        temp_path,
        levels,
        in_file_only: in_file != BodyInFile::Off,
        clean: in_file == BodyInFile::Clean,
    }
}

fn rate(
    name: &str,
    word: Option<&Word>,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<Template>, Diagnostic> {
    let Some(word) = word else { return Ok(None) };
    let template = plan.template(word)?;
    if let Some(literal) = template.literal()
        && tidegate_conf::parse_size(literal).is_none()
    {
        let message = format!("\"{name}\" directive invalid value");
        let error = Diagnostic::emerg(message).at(word.span);
        return Err(error.label("expected a size such as `512`, `8k`, `1m` or `2g`"));
    }
    match template.literal() {
        Some(b"0") => Ok(None),
        _ => Ok(Some(template)),
    }
}

fn tokens(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Tokens, Diagnostic> {
    let fixed = |text: &'static str| Tokens::Fixed(Bytes::from_static(text.as_bytes()));
    Ok(match &conf.server_tokens {
        None | Some(ServerTokens::On | ServerTokens::Build) => fixed(PRODUCT_WITH_VERSION),
        Some(ServerTokens::Off) => fixed(PRODUCT),
        Some(ServerTokens::Text(word)) => {
            let template = plan.template(word)?;
            match template.literal() {
                Some(text) => Tokens::Fixed(Bytes::copy_from_slice(text)),
                None => Tokens::Dynamic(template),
            }
        }
    })
}

fn resolver(conf: &Conf) -> Arc<[String]> {
    let words = conf.resolver.iter().flatten();
    words.map(|word| word.display().into_owned()).collect()
}

fn word_bytes(word: Option<&Word>, default: &'static str) -> Bytes {
    match word {
        Some(word) => Bytes::copy_from_slice(&word.bytes),
        None => Bytes::from_static(default.as_bytes()),
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

//! The core module's settings at request time, from its directives: compiled texts, and the plain directives.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use tidegate_codec::request::ParseOptions;
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::error_log::ErrorLog;
use tidegate_core::error_page::{PRODUCT, PRODUCT_WITH_VERSION};
use tidegate_core::request_body::StoreOptions;
use tidegate_core::settings::{
    BodyInFile, ErrorPage, PlainSettings, ServerSettings, Settings, TagTemplates, Tokens, Types,
    full_path,
};
use tidegate_core::template::Template;

use super::conf::{Conf, ServerTokens};
use crate::plan_builder::PlanBuilder;

/// Returns the settings of a server block.
pub fn server_settings(conf: &Conf) -> ServerSettings {
    let plain = conf.plain_server.settings();
    let parse = ParseOptions {
        ignore_invalid_headers: plain.ignore_invalid_headers,
        underscores_in_headers: plain.underscores_in_headers,
        headers_max: plain.max_headers,
        header_buffer_bytes: plain.client_header_buffer_size,
        large_buffers: plain.large_client_header_buffers.count,
        large_buffer_bytes: plain.large_client_header_buffers.bytes,
        head_bytes_there: 0,
    };
    ServerSettings { plain, parse }
}

/// Returns the settings of a location. Locations that share their directives share them.
///
/// # Errors
/// For texts that cannot be compiled, and for error logs that cannot be opened.
pub fn settings(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Arc<Settings>, Diagnostic> {
    plan.made_of(conf, |plan| make(conf, plan))
}

fn make(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Settings, Diagnostic> {
    let (root, alias, alias_length) = root(conf, plan)?;
    let plain = conf.plain.settings();
    Ok(Settings {
        root,
        alias,
        alias_length,
        internal: conf.internal.unwrap_or(false),
        types: types(conf),
        error_pages: error_pages(conf, plan)?,
        post_action: match &conf.post_action {
            Some(word) if word.bytes != b"off" => Some(plan.template(word)?),
            _ => None,
        },
        body_store: body_store(conf, &plain, plan),
        limit_rate: rate("limit_rate", conf.limit_rate.as_ref(), plan)?,
        limit_rate_after: rate("limit_rate_after", conf.limit_rate_after.as_ref(), plan)?,
        tokens: tokens(conf, plan)?,
        // The module of HTTP/2 sets another.
        http2_chunk_bytes: 8192,
        error_log: error_log(conf, plan)?,
        error_log_tags: error_log_tags(conf, plan)?,
        resolver: resolver(conf),
        plain,
    })
}

fn error_log(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<ErrorLog, Diagnostic> {
    match conf.error_logs.is_empty() {
        true => Ok(plan.main.error_log.clone()),
        false => plan.error_log(&conf.error_logs),
    }
}

fn error_log_tags(
    conf: &Conf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<Arc<TagTemplates>>, Diagnostic> {
    if conf.error_log_words.is_empty() && conf.error_log_pairs.is_empty() {
        return Ok(None);
    }
    let words = plan.templates(&conf.error_log_words)?;
    let pairs = conf.error_log_pairs.iter();
    let pairs = pairs.map(|(name, value)| Ok((name.clone(), plan.template(value)?)));
    Ok(Some(Arc::new(TagTemplates { words, pairs: pairs.collect::<Result<_, Diagnostic>>()? })))
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
    static DEFAULT: LazyLock<Arc<Types>> = LazyLock::new(|| {
        let common = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];
        let entry = |(name, kind): (&str, &'static str)| {
            (name.as_bytes().to_vec(), Bytes::from_static(kind.as_bytes()))
        };
        Arc::new(common.into_iter().map(entry).collect())
    });
    conf.types.as_ref().unwrap_or(&DEFAULT).clone()
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

fn body_store(conf: &Conf, plain: &PlainSettings, plan: &PlanBuilder<'_>) -> StoreOptions {
    let in_file = plain.client_body_in_file_only;
    let (path, levels) = match &conf.client_body_temp_path {
        Some(temp) => (temp.path.as_str(), temp.levels.clone()),
        None => (plan.environment.layout.body_temp, Vec::new()),
    };
    let temp_path = full_path(plan.environment.prefix, path);
    if !plan.in_stream() {
        plan.environment.resources.directory(&temp_path);
    }
    StoreOptions {
        memory_bytes_max: plain.client_body_buffer_size,
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

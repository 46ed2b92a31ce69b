//! `load_module`: modules are built in, so nothing is loaded.
//!
//! Configurations load the modules of their packages (`include /etc/nginx/modules-enabled/*.conf;`), used or not, and
//! the files belong to nginx. So the file of a module with a known name may be missing: a directive of a module that
//! is not built in is refused where it is used. An unknown name is an error, as in nginx, unless the file exists.

#[cfg(test)]
mod tests;

use std::path::Path;

use tidegate_conf::{Diagnostic, Word, closest};
use tidegate_core::settings::full_path;

/// Files of nginx's dynamic modules, and of those that distributions package, without `.so`.
const KNOWN: &[&str] = &[
    "ndk_http_module",
    "ngx_http_acme_module",
    "ngx_http_array_var_module",
    "ngx_http_auth_jwt_module",
    "ngx_http_auth_ldap_module",
    "ngx_http_auth_pam_module",
    "ngx_http_auth_spnego_module",
    "ngx_http_brotli_filter_module",
    "ngx_http_brotli_static_module",
    "ngx_http_cache_purge_module",
    "ngx_http_dav_ext_module",
    "ngx_http_echo_module",
    "ngx_http_encrypted_session_module",
    "ngx_http_eval_module",
    "ngx_http_fancyindex_module",
    "ngx_http_flv_live_module",
    "ngx_http_form_input_module",
    "ngx_http_geoip2_module",
    "ngx_http_geoip_module",
    "ngx_http_headers_more_filter_module",
    "ngx_http_image_filter_module",
    "ngx_http_js_module",
    "ngx_http_lua_module",
    "ngx_http_memc_module",
    "ngx_http_modsecurity_module",
    "ngx_http_naxsi_module",
    "ngx_http_ndk_module",
    "ngx_http_passenger_module",
    "ngx_http_perl_module",
    "ngx_http_push_stream_module",
    "ngx_http_redis2_module",
    "ngx_http_redis_module",
    "ngx_http_set_misc_module",
    "ngx_http_shibboleth_module",
    "ngx_http_srcache_filter_module",
    "ngx_http_subs_filter_module",
    "ngx_http_upload_module",
    "ngx_http_uploadprogress_module",
    "ngx_http_upstream_fair_module",
    "ngx_http_vhost_traffic_status_module",
    "ngx_http_vod_module",
    "ngx_http_xslt_filter_module",
    "ngx_http_zip_module",
    "ngx_http_zstd_filter_module",
    "ngx_http_zstd_static_module",
    "ngx_mail_module",
    "ngx_nchan_module",
    "ngx_otel_module",
    "ngx_pagespeed",
    "ngx_rtmp_module",
    "ngx_ssl_ct_module",
    "ngx_stream_geoip2_module",
    "ngx_stream_geoip_module",
    "ngx_stream_js_module",
    "ngx_stream_lua_module",
    "ngx_stream_module",
    "ngx_stream_server_traffic_status_module",
];

/// Checks the files of `load_module`, relative to the prefix.
///
/// # Errors
/// For the first file that neither is known nor exists, in nginx's words.
pub(crate) fn check(modules: &[Word], prefix: &str) -> Result<(), Diagnostic> {
    let is_missing = |word: &&Word| {
        let name = word.display().to_string();
        !KNOWN.contains(&stem(&name)) && !full_path(prefix, &name).exists()
    };
    let Some(word) = modules.iter().find(is_missing) else { return Ok(()) };
    let name = word.display().to_string();
    let path = full_path(prefix, &name);
    let path = path.display();
    let message = format!(
        "dlopen() \"{path}\" failed ({path}: cannot open shared object file: No such file or directory)"
    );
    let error = Diagnostic::emerg(message).at(word.span);
    let meant = closest(stem(&name), KNOWN.iter().copied());
    Err(match meant.filter(|meant| differ_in_one_place(meant, stem(&name))) {
        Some(meant) => error.help(format!("did you mean `{meant}.so`?")),
        None => error.help("modules are built in: without this line nothing is missing"),
    })
}

/// Returns whether the names differ in one short part. All names have the same beginning and end, so that distance
/// alone would find a similar name for every mistake.
fn differ_in_one_place(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let before = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[before..], &other[before..]);
    let behind = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    one.len().max(other.len()) - behind <= LETTERS_WRONG_MAX
}

/// Most wrong letters of a name that is still suggested.
const LETTERS_WRONG_MAX: usize = 2;

/// Returns the file's name without directory and extension.
fn stem(name: &str) -> &str {
    Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(name)
}

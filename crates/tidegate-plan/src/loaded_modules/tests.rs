//! Known and unknown names of modules.

use super::*;

#[test]
fn known_modules_may_be_missing_and_others_may_not() {
    assert!(KNOWN.is_sorted());
    let check = |name: &str| {
        let (bytes, span) = (name.as_bytes().to_vec(), tidegate_conf::Span::NONE);
        let word = Word { bytes, span, quoted: false };
        check(&[word], "/absent/").map_err(|error| (error.message, error.help))
    };
    assert_eq!(check("modules/ngx_http_lua_module.so"), Ok(()));
    assert_eq!(check("/usr/lib/nginx/modules/ngx_stream_module.so"), Ok(()));
    let (message, help) = check("modules/ngx_http_gzip_moduel.so").unwrap_err();
    let file = "/absent/modules/ngx_http_gzip_moduel.so";
    let why = "cannot open shared object file: No such file or directory";
    assert_eq!(message, format!("dlopen() \"{file}\" failed ({file}: {why})"));
    assert_eq!(help, ["modules are built in: without this line nothing is missing"]);
    let (_, help) = check("ngx_http_geoip_modul.so").unwrap_err();
    assert_eq!(help, ["did you mean `ngx_http_geoip_module.so`?"]);
}

//! Statuses, the values of variables, the choice and the cache of keys, and errors of the configuration.

use crate::testing::Bench;

/// Made with the key `fantasticjwt`: `kid` is 0001; `iss`, `sub` (`ann`), `exp` in 2100, and others.
const GOOD: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IjAwMDEifQ.eyJpc3MiOiJpc3N1ZXIiLCJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImVtYWlsVmVyaWZpZWQiOnRydWUsInplcm8iOjAsImdyb3VwcyI6WyJhIiwiYiIsMyx0cnVlXSwiaW5mbyI6eyJlLW1haWwiOiJhbm5AZXhhbXBsZS5jb20iLCJqb2IgdGl0bGUiOiJjYXB0YWluIn19.HSGyvyHUYgXrZxbkG9pzsKydoPU515J6IWf2tqwu9X4";
/// `exp` was in 2011.
const EXPIRED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IjAwMDEifQ.eyJzdWIiOiJhbm4iLCJleHAiOjEzMDA4MTkzODB9.0uENN5Whosa4TpvTY3LncS30NU0L_FgoNgiazdd3uwM";
/// `nbf` is in 2100.
const FUTURE: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IjAwMDEifQ.eyJzdWIiOiJhbm4iLCJuYmYiOjQxMDI0NDQ4MDAuNX0.yL9r0qfAgNDNXt6cQjmLbmZBgLb-RzBPpsG48IR0k90";
/// Made with the same key; the header has no `kid`, and `sub` is `bob`.
const NAMELESS: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJib2IifQ.xNXLM02Zlk_79XTUm13rLi-KC9_iD9ZSovVNLRiuPms";
/// Made with the same key; `kid` is 0002.
const OTHER_NAME: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IjAwMDIifQ.eyJzdWIiOiJib2IifQ.aW-OHqQ5o3S0UvsdJacUI-PDWWMRbKC72jZnLqMdJFw";
/// Without a signature, with `sub` as `eve`.
const NONE: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJldmUifQ.";

const KEY: &str = r#"{"kty":"oct","k":"ZmFudGFzdGljand0","kid":"0001"}"#;
const KEYS: &str = r#"{"keys":[{"kty":"oct","k":"ZmFudGFzdGljand0","kid":"0001"}]}"#;
const OTHERS: &str = r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#;

const INVALID: &str = r#"Bearer realm="closed", error="invalid_token""#;

fn bench(config: &str) -> Bench {
    Bench::with_files(config, &[("keys.json", KEYS), ("key.jwk", KEY), ("others.json", OTHERS)])
}

/// Returns status and text of a response to a request with a bearer token.
fn get(bench: &Bench, path: &str, token: &str) -> (u16, String) {
    let reply = bench.get_with(path, &[&format!("Authorization: Bearer {token}")]);
    (reply.status, reply.text().to_owned())
}

#[test]
fn statuses_and_challenges() {
    let bench = bench(
        r#"server { auth_jwt closed; auth_jwt_key_file keys.json;
            location / { try_files /none @shown; }
            location @shown { return 200 $jwt_claim_sub; }
            location /off { auth_jwt off; try_files /none @shown; }
            location /off_by_variable { auth_jwt $arg_realm; try_files /none @shown; }
            location /leeway { auth_jwt_leeway 100y; try_files /none @shown; }
            location /keyless { auth_jwt_key_file others.json; try_files /none @shown; }
            location /broken { auth_jwt_key_file $arg_file; try_files /none @shown; }
         }"#,
    );
    for (path, token, status, text, challenge) in [
        ("/", GOOD, 200, "ann", "-"),
        ("/", NAMELESS, 200, "bob", "-"),
        ("/", EXPIRED, 401, "", INVALID),
        ("/", FUTURE, 401, "", INVALID),
        ("/", NONE, 401, "", INVALID),
        ("/", OTHER_NAME, 401, "", INVALID),
        ("/", "a.b", 401, "", INVALID),
        ("/", "", 401, "", r#"Bearer realm="closed""#),
        ("/off", NONE, 200, "", "-"),
        ("/off_by_variable?realm=off", NONE, 200, "", "-"),
        ("/off_by_variable?realm=on", NONE, 401, "", r#"Bearer realm="on", error="invalid_token""#),
        ("/leeway", EXPIRED, 200, "ann", "-"),
        ("/leeway", FUTURE, 200, "ann", "-"),
        ("/keyless", GOOD, 401, "", INVALID),
        ("/broken?file=keys.json", GOOD, 200, "ann", "-"),
        ("/broken?file=none.json", GOOD, 500, "", "-"),
        ("/broken?file=", GOOD, 500, "", "-"),
    ] {
        let reply = bench.get_with(path, &[&format!("Authorization: Bearer {token}")]);
        assert_eq!(reply.status, status, "{path} {token}");
        assert_eq!(reply.field("WWW-Authenticate"), challenge, "{path} {token}");
        assert!(status != 200 || reply.text() == text, "{path} {token}: {}", reply.text());
    }
    for fields in [&[][..], &["Authorization: Basic YTpi"], &["Authorization: Bearer"]] {
        assert_eq!(
            bench.get_with("/", fields).field("WWW-Authenticate"),
            r#"Bearer realm="closed""#
        );
    }
    let lower = format!("Authorization: bearer  {GOOD} ");
    assert_eq!(bench.get_with("/", &[&lower]).status, 200);
    let log = bench.read("logs/error.log");
    for line in [
        "the JSON Web Token is refused: it has expired",
        "the JSON Web Token is refused: it is not valid yet",
        "the JSON Web Token is refused: the algorithm \"none\" is not supported",
        "the JSON Web Token is refused: there is no key for it",
        "the JSON Web Token is refused: its signature is wrong",
        "none.json\" failed (2: No such file or directory)",
    ] {
        assert!(log.contains(line), "{line}");
    }
}

#[test]
fn tokens_of_variables_and_paths_of_claims() {
    let bench = bench(
        r#"auth_jwt_claim_set $mail info e-mail; auth_jwt_claim_set $job info "job title";
         auth_jwt_claim_set $list groups; auth_jwt_header_set $key kid;
         server { auth_jwt closed token=$arg_token; auth_jwt_key_file key.jwk;
            location / { try_files /none @shown; }
            location @shown { return 200 "$mail $job $list $key $jwt_header_alg $jwt_claim_emailverified $jwt_claim_zero
                $jwt_claim_none $jwt_claim_info $jwt_payload"; }
         }"#,
    );
    let text = "ann@example.com captain a,b,3,true 0001 HS256 true 0\n                  ";
    assert_eq!(bench.text(&format!("/?token={GOOD}")), text);
    assert_eq!(get(&bench, "/", GOOD).0, 401, "the field is not looked at");
}

/// Before the access phase variables have the values of a token as it was sent; later only those of a valid one.
#[test]
fn values_of_tokens_that_are_not_valid() {
    let bench = bench(
        r#"server { auth_jwt closed; auth_jwt_key_file keys.json; set $early $jwt_claim_sub;
            location / { error_page 401 @shown; }
            location @shown { add_header Early "<$early>" always; return 200 "<$jwt_claim_sub>"; }
            location /any { satisfy any; allow all; try_files /none @shown; }
            location /off { auth_jwt off; try_files /none @off; }
            location @off { auth_jwt off; add_header Early "<$early>" always; return 200 "<$jwt_claim_sub>"; }
            location /none { auth_jwt_require $jwt_claim_zero; error_page 401 @shown; }
         }"#,
    );
    let forged = format!("{}AAAAAA", &GOOD[..GOOD.len() - 6]);
    for path in ["/", "/any", "/off"] {
        let reply = bench.get_with(path, &[&format!("Authorization: Bearer {forged}")]);
        assert_eq!(reply.text(), "<>", "{path}");
        assert_eq!(reply.field("Early"), "<ann>", "{path}");
    }
    assert_eq!(get(&bench, "/none", GOOD).1, "<ann>");
    assert_eq!(get(&bench, "/any", GOOD).1, "<>", "the token was not checked");
}

#[test]
fn required_values() {
    let bench = bench(
        r#"map $jwt_claim_iss $known { issuer 1; }
         server { auth_jwt closed; auth_jwt_key_file keys.json; location @shown { return 200 ok; }
            location /a { auth_jwt_require $known; try_files /none @shown; }
            location /b { auth_jwt_require $known error=403; auth_jwt_require $jwt_claim_none; try_files /none @shown; }
            location /c { auth_jwt_require $known $jwt_claim_zero error=403; try_files /none @shown; }
            location /d { auth_jwt_require $jwt_claim_zero-1; try_files /none @shown; }
            location /e { satisfy any; deny all; auth_jwt_require $jwt_claim_none error=403; try_files /none @shown; }
         }"#,
    );
    for (path, token, status) in [
        ("/a", GOOD, 200),
        ("/a", NAMELESS, 401),
        ("/b", GOOD, 401),
        ("/b", NAMELESS, 403),
        ("/c", GOOD, 403),
        ("/d", GOOD, 200),
        ("/e", GOOD, 403),
    ] {
        assert_eq!(get(&bench, path, token).0, status, "{path}");
    }
    let reply = bench.get_with("/b", &[&format!("Authorization: Bearer {GOOD}")]);
    assert_eq!(reply.field("WWW-Authenticate"), INVALID);
}

#[test]
fn keys_of_subrequests() {
    let bench = bench(
        r#"server { auth_jwt closed; auth_jwt_key_request /keys; location @shown { return 200 $jwt_claim_sub; }
            location / { try_files /none @shown; }
            location = /keys { internal; default_type application/json; alias {dir}/keys.json; }
            location /both { auth_jwt_key_file others.json; auth_jwt_key_request /keys; try_files /none @shown; }
            location /by { auth_jwt_key_request /keys/$jwt_claim_iss?$jwt_header_kid; try_files /none @shown; }
            location /keys/issuer { return 200 '{"keys":[{"kty":"oct","k":"ZmFudGFzdGljand0","kid":"$args"}]}'; }
            location /keys/of { return 200 '{"keys":[{"kty":"oct","k":"ZmFudGFzdGljand0","kid":"$jwt_header_kid"}]}'; }
            location /shows { auth_jwt_key_request /keys/of; try_files /none @shown; }
            location /missing { auth_jwt_key_request /absent; try_files /none @shown; }
            location /absent { auth_jwt off; return 404; }
            location /text { auth_jwt_key_request /plain; try_files /none @shown; }
            location /plain { return 200 text; }
            location /loop { auth_jwt_key_request /loop; try_files /none =404; }
            location /one { auth_jwt_key_request /keys; auth_jwt_key_request /absent; try_files /none @shown; }
         }"#,
    );
    for (path, expected) in [
        ("/", (200, "ann")),
        ("/both", (200, "ann")),
        ("/by", (200, "ann")),
        ("/shows", (200, "ann")),
    ] {
        assert_eq!(get(&bench, path, GOOD), (expected.0, expected.1.to_owned()), "{path}");
    }
    for path in ["/missing", "/text", "/loop", "/one"] {
        assert_eq!(get(&bench, path, GOOD).0, 500, "{path}");
    }
    let log = bench.read("logs/error.log");
    assert!(log.contains("key request \"/absent\" unexpected status: 404"), "{log}");
    assert!(log.contains("\"/plain\" is no key set: it is not a JSON object"), "{log}");
}

#[test]
fn changed_files_apply_at_once_unless_they_are_cached() {
    let bench = bench(
        r#"server { auth_jwt closed; auth_jwt_key_file keys.json; location @shown { return 200 ok; }
            location / { try_files /none @shown; }
            location /cached { auth_jwt_key_file keys.json; auth_jwt_key_cache 1d; try_files /none @shown; }
            location /variable { auth_jwt_key_file $arg_file; auth_jwt_key_cache 1d; try_files /none @shown; }
         }"#,
    );
    for path in ["/", "/cached", "/variable?file=keys.json"] {
        assert_eq!(get(&bench, path, GOOD).0, 200, "{path}");
    }
    std::fs::write(bench.dir.path().join("keys.json"), OTHERS).expect("a file");
    for (path, status) in [("/", 401), ("/cached", 200), ("/variable?file=keys.json", 401)] {
        assert_eq!(get(&bench, path, GOOD).0, status, "{path}");
    }
    std::fs::write(bench.dir.path().join("keys.json"), "{}").expect("a file");
    assert_eq!(get(&bench, "/", GOOD).0, 500);
}

#[test]
fn settings_are_inherited() {
    let bench = bench(
        r#"auth_jwt closed; auth_jwt_key_file keys.json; auth_jwt_require $jwt_claim_iss;
         server { location @shown { return 200 ok; }
            location / { try_files /none @shown; location /in { auth_jwt_require $jwt_claim_sub; try_files /none @shown; } }
            location /own { auth_jwt_key_request /keys; try_files /none @shown; }
            location /keys { return 200 '{"keys":[]}'; }
            location /limited { limit_except POST { auth_jwt off; } try_files /none @shown; }
         }"#,
    );
    for (path, token, status) in [
        ("/", GOOD, 200),
        ("/", NAMELESS, 401),
        ("/in", NAMELESS, 200),
        ("/own", GOOD, 401),
        ("/limited", "", 404),
    ] {
        assert_eq!(get(&bench, path, token).0, status, "{path} {token}");
    }
    assert_eq!(
        bench.send("POST /limited HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status,
        401
    );
}

#[test]
fn encrypted_and_nested_tokens() {
    let bench = Bench::with_files(
        r#"server { auth_jwt closed; auth_jwt_key_file keys.json; location @shown { return 200 "$jwt_claim_sub $jwt_payload"; }
            location /jwe { auth_jwt_type encrypted; set $early $jwt_header_alg$jwt_claim_sub; try_files /none @early; }
            location @early { add_header Early $early; return 200 "$jwt_claim_sub $jwt_payload"; }
            location /nested { auth_jwt_type nested; try_files /none @shown; }
            location /jws { try_files /none @shown; }
         }"#,
        &[("keys.json", ALL_KEYS)],
    );
    let reply = bench.get_with("/jwe", &[&format!("Authorization: Bearer {ENCRYPTED}")]);
    assert_eq!(reply.text().split_once(' '), Some(("ann", CLAIMS)));
    assert_eq!(reply.field("Early"), "RSA-OAEP", "claims are readable once they are decrypted");
    assert_eq!(get(&bench, "/nested", NESTED).1, format!("ann {SIGNED}"));
    assert_eq!(get(&bench, "/jws", SIGNED).1, "ann ");
    for (path, token) in [
        ("/jwe", NESTED),
        ("/jwe", SIGNED),
        ("/nested", ENCRYPTED),
        ("/nested", SIGNED),
        ("/jws", NESTED),
    ] {
        assert_eq!(get(&bench, path, token).0, 401, "{path}");
    }
}

const CLAIMS: &str = r#"{"iss":"issuer","sub":"ann","exp":4102444800,"groups":["a","b"],"info":{"e-mail":"ann@example.com","job title":"captain"}}"#;
const SIGNED: &str = "eyJhbGciOiAiRVMyNTYiLCAia2lkIjogInAyNTYifQ.eyJpc3MiOiJpc3N1ZXIiLCJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDAsImdyb3VwcyI6WyJhIiwiYiJdLCJpbmZvIjp7ImUtbWFpbCI6ImFubkBleGFtcGxlLmNvbSIsImpvYiB0aXRsZSI6ImNhcHRhaW4ifX0.j0StgItBhsW7bNDB-nnjEhz2ak5nKHCVXcko3jrAbpudz-7_x3iezjz_ACC4OzxOR3IcCja1f-APNWy0WkrgTg";
const ENCRYPTED: &str = "eyJhbGciOiAiUlNBLU9BRVAiLCAiZW5jIjogIkExMjhHQ00iLCAia2lkIjogInJzYSJ9.rcjjyJxeK8EGhQQ8p_HcyKLNWZpKSOeN8qsYksVEhtt7mLYD-x9ivJxOP-0SZLO75qB-E9USuY0LNZlQDBCc-MYqeTBM5dlp_MKE0peuLxmoollLmilFA5rh65Sj-W46t3PbdCyRBvdcn1esgvR5qNnQg9eoROTDn2W5t3etjb6l4Tw-WXvdSJ3ra1dY5hQkKMQDAawRKU9gKF6PeNOBt2vOqJ3nx3xfWgWCOTni6k33l7Ug-P12vK1YverZDFdHKtU_e9VT7fc9sZSW728Kvg9ZO4yac47XOAWJXNeHU6V-AB08PspJ1ojC1ZiQYvu0-P6A112zhb-_CG6hE6KCOQ.xfTTD7sULaYCmicV.yXLvMB7A0pcScnOKmjtgkxMLEpYB_EnQKikP9NMytgndQTF6BsAqRTQDU8-f8h2K-U3W2yBUvEsaHBDuCAjsoTpDGK-NZxTR2zcmziYrruuDnEUj_h0KnUrsvVEjRxq-1vThJ7YCYiRBMxl_FW-M24pQYxYr5dmf7iI.3cgMUpZGiDZ7OTqbZIBK9w";
const NESTED: &str = "eyJhbGciOiAiQTEyOEtXIiwgImVuYyI6ICJBMTI4R0NNIiwgImtpZCI6ICJvY3QxMjgiLCAiY3R5IjogIkpXVCJ9.R28p3-OTkO_yWnFNzWpO5mZf1FZLe1F_.PDD3TkGy5VvbXSjs.HfT6rhCrOaQJBAiN_cExuwsFxY5cPO5cvoQapI5EzH_FRZx0bqSUFAB6NsqJKWvGhocqGGpvK0RYxpwTMcUNpu7Bty5LQjs1KwH3Yfo1AaZWkq_MTB_EJ_lM_sblSDdnXqkf1qi7n-4Yg5BtsPeddoVTutE6wcUyUk9V1OmtBSbWduc311leskbdSnT5NMXr9VUnAsrV9oRDKgYljpTuFzqcUgB6hsk7G_KhooavG7-KFFcK2n9XIpk2OZN47TFE62cVqbdC25OjF-uoVrlDcqefBe7YzE5S_eOo9MsOOZ5tOp9Snxrb1TUE-vPBfmsWly-mlwZH0PmcpTxOZPr-xz1n_CGsIeC0hs0OX0yc9hVoTFyliUnMejAebeZvhEoJqHeGlhU.bZLLX7RIE3EjPzUuVjtPPw";
const ALL_KEYS: &str = r#"{"keys":[{"d":"AbPRuch1PtiLFxMo4728nk9SePCl_K0H9VLhF83bXtrhdnWGz-p1UtdmiFt91mtEXCoIGHeWcGkaRrIMV14lLjyUZzvz3BRfGaCpz2OzeJ4Er4PMmCttKy9_By8WNnO8ejxP5S1EEn3x_12w865TMSy54uNNbhVTLpbZsNhm1GU2xAfbxmOQoFdmYRKWKdp7nf-eLcrLtixXtSSn14p7YOhm4H91mAj5CiqIEKyx_zKYEFuZ3gLqm02ILBfD0h4eEASTDz2gkOSEt5HhDsY9bvaSlAZuee6ovzTNUmRTWPdGKHUofLSHGwE5lzN-yK-U6H8I4NtMWvbz4ievQDIqgQ","dp":"TkOcjXl0gBfChlIN7foQqyJtxoAtG3i84Gn5a2ePAzluPBdCMMSGIUkKdVNCdKw8OzOSgl-ii607J1-tIn8WeqLLCwGgQQsyCn085IAEo4LB_BfdmGw19xi-G8xh7JYdQ1DKPFtJzTbCzUR4Rkl89ljHKIDB3KKbOnb85kFwHoE","dq":"ipbmaQJWWe4QqLAoaFLMSJkx-6uHVUnRvcsIHiOsaAIwU7G-Zt-DwQZH86hDNipLniJPWo8oQi1QCSaIReA6tJdPG_sNlBIseZmIQ6RBKJGeSwTAwmLGfuycRJL59XeCWm3XT4LfXFhbuFnX5FBheOptl_VaQBoyatInF6m4TYE","e":"AQAB","kid":"rsa","kty":"RSA","n":"yJiLjcEkCmWY6KQ04o4cjtbYE9jYA5kxOkl3VuALvgV8Pn_Ne3nN-AxqTVX5sv_l9ptSP7034B9uGERpl6bG05yxZJgF5_0LgZgW2n5TLbMXQjms9CJ9155WeZAnXuIkcKsYV80GbKGApkn5FUy2xYIw-pBNOeF35-WeGXMCTMykMmC6OQTJcN55mLQhkSFxYqStiIV-fvgfq0zLBKi5YpbytPcIfR5lqr2AYyeRp4wTf3c-v0haQj1Oz9xVsdhnFgYx5Hjst-osslhHE7AW7SjSl5Mo4JRDHxRmzOfV3sC7XMG7x4h59aRkwxCh1ZmOgjVR1_4TONL5J78uEszNlQ","p":"8YhyxtXU0EPs4bmNuA5BvQLzz8FbhG8zFDC5bCtUqN8uBS1zZAp_qQBJRlNST4wXCtjdsNk-AKwhnduyS6jtKrCmbc4VWG3JMbTE85H5xiDzyVdAFn4HFHpZQwHzFrZLPY2wZxCEaw4g70JF2xWwoLz-CdX7DNUIyfjbFBZzcCE","q":"1Jxi8qETJ1ZbB934F7_iP-OWRfpD41a3wIIMhPXmX8aeJEFOk9WvRatLtYCdzy6bwodFlxkjMi2_gupvfLH1AK7oVlpgWrN9rG2ytCNQCnezFX7S-qbieqY6NNNPoZEdEDR09ToAL-P0mDH0e7wmypH39dq3Qni6a8vy083avvU","qi":"U1iH83aHfvG5XPyMD2Eqa1loBe7MT2Oh6K-Jr1_--lpahXMqP4oeO6B6dywPDvx30LSpB89uA4hW2jM6KyT2_qK_zO7N1LFNQ-IOm4uIQPArlgvgrbsiAdGJVCSkniEdGERLdAoXkUqdcmx17PUreCfOUG8V1OlM0ncQs_7OMjM"},{"crv":"P-256","d":"yEMS7_KAPj7En2C9LSRL_97MIUus_mQa_V1beH0PHqo","kid":"p256","kty":"EC","x":"6O2x94sfj45aKGhbTGSkbsDddqMdgcI34xgJQVh5fqk","y":"vIwt-I7QzMUBRHYGiLBRpCqzUr3Cw6CPJevG5e9Roi8"},{"k":"E3yeo77t9U160VFyVSp9lg","kid":"oct128","kty":"oct"}]}"#;

#[test]
fn errors() {
    for (config, expected) in [
        ("auth_jwt a; auth_jwt b;", "\"auth_jwt\" directive is duplicate"),
        ("auth_jwt a token=b;", "invalid parameter \"token=b\""),
        ("auth_jwt a tokens=$b;", "invalid parameter \"tokens=$b\""),
        ("auth_jwt off token=$arg_a;", "invalid parameter \"token=$arg_a\""),
        ("auth_jwt_type jwe;", "invalid value \"jwe\""),
        ("auth_jwt_claim_set x y;", "invalid variable name \"x\""),
        ("auth_jwt_claim_set $uri y;", "the duplicate \"uri\" variable"),
        ("auth_jwt_require a;", "invalid parameter \"a\""),
        ("auth_jwt_require $uri error=404;", "invalid parameter \"error=404\""),
        ("auth_jwt_require error=403;", "\"auth_jwt_require\" directive has no value"),
        ("auth_jwt_leeway x;", "\"auth_jwt_leeway\" directive invalid value"),
        (
            "server { auth_jwt_claim_set $a b; }",
            "\"auth_jwt_claim_set\" directive is not allowed here",
        ),
        ("auth_jwt_key_file '';", "invalid value \"\""),
    ] {
        let found = &Bench::errors(config)[0];
        assert!(found.contains(expected), "{config}: {found}");
    }
    for (text, expected) in [
        ("[]", "is no key set: it is not a JSON object"),
        ("{}", "is no key set: it has no array \"keys\" of objects"),
        (
            r#"{"keys":[{"kty":"OKP","crv":"Ed448","kid":"a"}]}"#,
            "key 1 (\"a\") cannot be used: keys on the curve \"Ed448\" are not supported",
        ),
    ] {
        let config = "http { server { auth_jwt a; auth_jwt_key_file keys.json; } }";
        let errors = Bench::try_build(config, &[("keys.json", text)]).err().expect(text);
        assert!(errors[0].contains(expected), "{text}: {errors:?}");
    }
    let absent = Bench::new("server { auth_jwt a; auth_jwt_key_file absent.json; }");
    assert!(absent.warnings[0].contains("absent.json\" failed (2:"), "{:?}", absent.warnings);
}

//! nginx's configuration language: lexer, parser, spans, diagnostics, directive tables
#![forbid(unsafe_code)]

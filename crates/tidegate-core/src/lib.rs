//! Exchange, phases, filters, variables, templates, plan, error log
#![forbid(unsafe_code)]

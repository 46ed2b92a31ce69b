//! One folder for each nginx module, and the list of them
#![forbid(unsafe_code)]

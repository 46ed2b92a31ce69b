//! Tables for request heads.

//! Calls that fail: the server is started under a filter of the kernel (seccomp) that refuses some of its
//! calls, so that its disk fails though the machine's is well. It needs no privileges, and the
//! program is unchanged.
//!
//! `start failing read=EIO@1048576 create=EROFS`: reads from the first megabyte on, and new files. With
//! `@1000-2000` bytes after the range can be read, and without an offset only reads at a file's beginning
//! fail: the loader of programs reads by such calls, too.

use std::collections::BTreeMap;
use std::ops::Range;

use seccompiler::{
    BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::bell::Failure;

/// The failing operation, its error, and the range in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    operation: Operation,
    error: u32,
    /// The calls at these offsets of a file; `None`: see above.
    offsets: Option<Range<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// At an offset: the files of caches, and no logs.
    Read,
    Write,
    /// Files that must not be there yet. Directories are another matter: one that is there would be refused, too.
    Create,
    Rename,
    Sync,
}

impl Failing {
    /// Reads `OPERATION=ERROR[@FIRST[-END]]`.
    pub fn parse(text: &str) -> Result<Failing, Failure> {
        let unknown = || Failure::new(format!("`{text}` is not OPERATION=ERROR[@FIRST[-END]]"));
        let (operation, error) = text.split_once('=').ok_or_else(unknown)?;
        let (error, offsets) = match error.split_once('@') {
            Some((error, offsets)) => (error, Some(offsets)),
            None => (error, None),
        };
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| unknown());
        let offsets = offsets.map(|offsets| match offsets.split_once('-') {
            Some((first, end)) => Ok(number(first)?..number(end)?),
            None => Ok(number(offsets)?..u64::MAX),
        });
        let offsets = offsets.transpose()?;
        let operation = match operation {
            "read" => Operation::Read,
            "write" => Operation::Write,
            "create" => Operation::Create,
            "rename" => Operation::Rename,
            "sync" => Operation::Sync,
            _ => return Err(unknown()),
        };
        let error = match error {
            "EACCES" => libc::EACCES,
            "EIO" => libc::EIO,
            "ENOSPC" => libc::ENOSPC,
            "EROFS" => libc::EROFS,
            _ => return Err(unknown()),
        };
        Ok(Failing { operation, error: error.unsigned_abs(), offsets })
    }

    /// The calls that are refused, and the rules of which one must hold; none: always.
    fn calls(&self) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
        // All of these have the offset in the fourth place.
        let offset =
            |operator, value| SeccompCondition::new(3, SeccompCmpArgLen::Qword, operator, value);
        let there = || -> Result<_, BackendError> {
            match &self.offsets {
                Some(Range { start, end }) => {
                    let within =
                        [offset(SeccompCmpOp::Ge, *start)?, offset(SeccompCmpOp::Lt, *end)?];
                    Ok(vec![SeccompRule::new(within.into())?])
                }
                None if self.operation == Operation::Read => {
                    Ok(vec![SeccompRule::new(vec![offset(SeccompCmpOp::Eq, 0)?])?])
                }
                None => Ok(Vec::new()),
            }
        };
        let mut calls = BTreeMap::new();
        match self.operation {
            Operation::Read => {
                for call in [libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2] {
                    calls.insert(call, there()?);
                }
            }
            Operation::Write => {
                for call in [libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2] {
                    calls.insert(call, there()?);
                }
            }
            Operation::Create => {
                let new = (libc::O_CREAT | libc::O_EXCL).unsigned_abs().into();
                let is_new = SeccompCmpOp::MaskedEq(new);
                let flags = SeccompCondition::new(2, SeccompCmpArgLen::Dword, is_new, new)?;
                calls.insert(libc::SYS_openat, vec![SeccompRule::new(vec![flags])?]);
            }
            Operation::Rename => {
                calls.insert(libc::SYS_renameat, Vec::new());
                calls.insert(libc::SYS_renameat2, Vec::new());
                #[cfg(target_arch = "x86_64")]
                calls.insert(libc::SYS_rename, Vec::new());
            }
            Operation::Sync => {
                calls.insert(libc::SYS_fsync, Vec::new());
                calls.insert(libc::SYS_fdatasync, Vec::new());
            }
        }
        Ok(calls)
    }
}

/// Makes these calls fail from now on, for the calling thread and its children. This cannot be undone.
pub(crate) fn fail_here(failing: &[Failing]) -> Result<(), Failure> {
    failing.iter().try_for_each(|one| {
        let program = one.calls().and_then(|calls| {
            let refuse = SeccompAction::Errno(one.error);
            let filter = SeccompFilter::new(
                calls,
                SeccompAction::Allow,
                refuse,
                std::env::consts::ARCH.try_into()?,
            );
            seccompiler::BpfProgram::try_from(filter?)
        });
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("seccomp: {error}"));
        let program = program.map_err(|error| failed(&error))?;
        seccompiler::apply_filter(&program).map_err(|error| failed(&error))
    })
}

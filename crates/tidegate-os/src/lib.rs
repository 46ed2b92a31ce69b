//! Everything unsafe or particular to an operating system, behind safe calls

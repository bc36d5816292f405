//! The same requests to the server in memory and to a real one: the answers must be the same, or what
//! the whole daemons prove in virtual time is worth nothing. The rows are what docs/design.md 13
//! rests on, and more.

mod evictions;
mod leases;
mod nodes;
mod reads;
mod side;
mod watches;

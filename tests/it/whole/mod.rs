//! Whole daemons in virtual time: the real `daemon::start` and `run`, each on a host of its own below a
//! directory, with a fake logind, against the API server in memory. Hours take a moment, and whatever
//! can go wrong does so on request.
//!
//! A daemon dies by being dropped, a host reboots by a new boot id; I1 to I4, I9, I11 and I13 are judged
//! at every write that the server sees (`judge`).

mod adoption;
mod agree;
mod alerts;
mod annotations;
mod balancers;
mod budgets;
mod capacity;
mod clocks;
mod cluster;
mod commands;
mod conditions;
mod defaults;
mod escalate;
mod evictions;
mod explained;
mod faults;
mod fleet_lock;
mod guards;
mod hooks;
mod host;
mod known;
mod kured;
mod life;
mod live_patches;
mod log;
mod logind;
mod many;
mod metrics;
mod moments;
mod motd;
mod neighbours;
mod notices;
mod order;
mod outages;
mod packages;
mod patience;
mod proof;
mod protected;
mod quorum;
mod races;
mod rebootmgr;
mod reload;
mod rivals;
mod rolled_back;
mod room;
mod slow;
mod soft_reboots;
mod story;
mod tools;
mod unlock;
mod users;
mod watched;
mod windows;
mod world;

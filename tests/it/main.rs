mod fake_bus;
mod fake_units;
mod host_check;
mod host_logind;

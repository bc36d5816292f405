//! The packages that `packagers` installs on hosts, made one after another by one thread while the others have tests that
//! wait: its place in the alphabet lets it begin first.

use crate::packagers::{Packager, images};

#[test]
fn each_package_is_made_in_two_revisions() {
    for packager in [Packager::Apt, Packager::Dnf, Packager::Pacman] {
        for (revision, package) in (1..).zip(packager.revisions()) {
            let name = package.file_name().unwrap().to_string_lossy();
            let wanted = format!("{}-{revision}", env!("CARGO_PKG_VERSION"));
            assert!(name.contains(&wanted), "{name} is not of {wanted}");
        }
    }
}

#[test]
fn the_system_extension_is_made() {
    let name = images::IMAGE.get().file_name().unwrap().to_string_lossy();
    assert!(name.starts_with(concat!("kube-rebootd-", env!("CARGO_PKG_VERSION"))));
}

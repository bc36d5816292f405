//! `[[gates.prometheus]]` (I12).

use std::path::PathBuf;

use super::array;
use crate::alerts::{Asks, Login, Selection, Source};
use crate::config::file::{Item, Problem, Tables};
use crate::config::keys::{Table, prometheus as keys};
use crate::config::reader::Reader;

/// All of them, and how each was read.
pub(super) fn read(tables: &Tables, problems: &mut Vec<Problem>) -> (Vec<Source>, Vec<Table>) {
    array::read(tables, &keys::SECTION, problems, |r, item, name| {
        let source = source(r, item, name);
        (source.name.clone(), source)
    })
}

fn source(r: &mut Reader<'_>, item: &Item, name: &str) -> Source {
    let name = r.word_or(&keys::NAME, name);
    let url = r.word(&keys::URL_OF);
    if url.is_empty() && r.sound(&["url"]) {
        let reason = "is missing; write it like \"http://127.0.0.1:9090\"";
        if r.given(&keys::URL_OF) {
            r.fault(&keys::URL_OF, reason);
        } else {
            r.missing(&keys::URL_OF, &item.origin, reason);
        }
    }
    let selection = Selection {
        only: r.pattern(&keys::ALERTS),
        ignore: r.pattern(&keys::IGNORE),
        matchers: r.alert_conditions(&keys::MATCHERS),
        pending: r.flag(&keys::PENDING),
    };
    let query = r.maybe(&keys::QUERY_OF);
    let alertmanager = r.maybe(&keys::ALERTMANAGER);
    let others = [
        (keys::ALERTS.name, selection.only.is_some()),
        (keys::MATCHERS.name, !selection.matchers.is_empty()),
        (keys::PENDING.name, selection.pending),
        (keys::ALERTMANAGER.name, alertmanager.is_some()),
    ];
    if query.is_some()
        && let Some((other, _)) = others.into_iter().find(|(_, written)| *written)
    {
        let reason =
            format!("is there beside {other}, which is about alerts; write a table for each");
        r.fault(&keys::QUERY_OF, reason);
    }
    let ca = r.maybe(&keys::CA).map(PathBuf::from);
    let tls = |url: &str| url.starts_with("https://");
    let used = tls(&url) || alertmanager.as_deref().is_some_and(tls);
    if ca.is_some() && !used && r.sound(&["url", "alertmanager"]) {
        let reason = "is unused, as no URL begins with https; remove it";
        r.fault(&keys::CA, reason);
    }
    Source {
        name,
        url,
        asks: query.map_or(Asks::Alerts(selection), Asks::Query),
        alertmanager,
        ca,
        login: login(r),
        timeout: r.duration(&keys::TIMEOUT),
        on_error: r.choice(&keys::ON_ERROR),
    }
}

fn login(r: &mut Reader<'_>) -> Login {
    let token = r.maybe(&keys::TOKEN_FILE).map(PathBuf::from);
    let user = r.maybe(&keys::USERNAME);
    let file = r.maybe(&keys::PASSWORD_FILE).map(PathBuf::from);
    let sound = r.sound(&["token_file", "username", "password_file"]);
    match (token, user, file) {
        (Some(_), Some(_), _) if sound => {
            r.fault(
                &keys::USERNAME,
                "is there beside token_file; write one of them",
            );
            Login::Nobody
        }
        (_, Some(_), None) if sound => {
            r.fault(
                &keys::USERNAME,
                "is unused without password_file; write that or remove it",
            );
            Login::Nobody
        }
        (_, None, Some(_)) if sound => {
            r.fault(
                &keys::PASSWORD_FILE,
                "is unused without username; write that or remove it",
            );
            Login::Nobody
        }
        (Some(token), ..) => Login::Token(token),
        (None, Some(user), Some(file)) => Login::Password { user, file },
        (None, ..) => Login::Nobody,
    }
}

//! What time does to a drain: `timeout`, `stall`, silence, Jobs that take theirs.

use super::*;

#[test]
fn timeout_and_stall_end_it_as_the_policy_says() {
    let mut one = drain(&[pod("a")]);
    one.next(secs(0));
    one.heard(secs(599));
    assert!(matches!(one.next(secs(599)).state, State::Going { .. }));
    one.heard(secs(600));
    assert!(matches!(one.next(secs(600)).state, State::Failed { .. }));
    let mut reboot = Drain::new(
        Policy {
            on_timeout: OnTimeout::Reboot,
            ..policy()
        },
        secs(1790),
    );
    reboot.pods(&[pod("a")], secs(0));
    reboot.heard(secs(9));
    assert!(matches!(reboot.next(secs(9)).state, State::Going { .. }));
    reboot.heard(secs(10));
    assert!(
        matches!(reboot.next(secs(10)).state, State::Drained { leftover, .. } if leftover.len() == 1)
    );
}

/// Found by use: the watch reports silence up to 90 s late, and the drain ended meanwhile.
#[test]
fn i7_a_silence_that_is_not_reported_yet_ends_no_drain() {
    for on_timeout in [OnTimeout::Abort, OnTimeout::Reboot] {
        let mut drain = Drain::new(
            Policy {
                on_timeout,
                ..policy()
            },
            secs(1700),
        );
        drain.pods(&[pod("a")], secs(0));
        drain.heard(secs(20));
        let next = drain.next(secs(20));
        assert_eq!(next.wake, Some(secs(100)));
        // The server has gone at 30; the watch will say so at 110.
        let next = drain.next(secs(100));
        assert!(matches!(next.state, State::Going { .. }), "{next:?}");
        assert!(next.confirm && !drain.gave_up());
        drain.blind(true, secs(110));
        let next = drain.next(secs(9000));
        assert!(!next.confirm && next.evict.is_empty(), "{next:?}");
        drain.heard(secs(9001));
        drain.blind(false, secs(9001));
        assert_eq!(drain.spent(), secs(1720));
        assert!(matches!(drain.next(secs(9001)).state, State::Going { .. }));
        drain.heard(secs(9081));
        assert!(!matches!(drain.next(secs(9081)).state, State::Going { .. }));
    }
}

/// Found on real hosts: a short cut, after which what was on its way is answered late.
#[test]
fn i7_a_late_answer_does_not_vouch_for_the_time_it_took() {
    let mut drain = drain(&[pod("a")]);
    drain.next(secs(0));
    let full = || EvictAnswer::Budget("disruption budget b is full".to_owned());
    drain.answer("a", full(), secs(1));
    assert_eq!(uids(&drain.next(secs(3))), ["a"]);
    drain.answer("a", full(), secs(603));
    assert_eq!(drain.spent(), secs(3));
    drain.confirmed(secs(700), secs(712));
    assert_eq!(drain.spent(), secs(3));
    drain.confirmed(secs(720), secs(721));
    assert_eq!(drain.spent(), secs(12));
}

#[test]
fn i7_an_eviction_without_an_answer_is_silence_from_when_it_was_sent() {
    let mut drain = drain(&[pod("a"), pod("b")]);
    assert_eq!(uids(&drain.next(secs(0))), ["a", "b"]);
    drain.answer("b", EvictAnswer::Accepted, secs(1));
    let lost = || EvictAnswer::Unanswered {
        retry_after: None,
        why: "nothing within 15 s".to_owned(),
    };
    drain.answer("a", lost(), secs(15));
    // Asked again and again, without an answer: the clock stands at the last one.
    let mut asked = 0;
    for second in 16..7200 {
        let next = drain.next(secs(second));
        assert!(matches!(next.state, State::Going { .. }), "{next:?}");
        assert!(!next.confirm);
        for pod in next.evict {
            asked += 1;
            drain.answer(&pod.uid, lost(), secs(second));
        }
    }
    assert!(asked > 100, "{asked}");
    assert_eq!(drain.spent(), secs(1));
    // A budget's refusal is an answer: time goes on.
    let full = EvictAnswer::Budget("disruption budget b is full".to_owned());
    let asked = (7200..7300).find(|second| !drain.next(secs(*second)).evict.is_empty());
    let asked = asked.expect("asked again");
    drain.answer("a", full, secs(asked));
    drain.heard(secs(asked + 100));
    assert_eq!(drain.spent(), secs(101));
}

fn job(uid: &str) -> Pod {
    let mut job = pod(uid);
    owned(&mut job, "Job", "backup");
    job.restart_policy = RestartPolicy::Never;
    job
}

fn waiting(pods: &[Pod]) -> Drain {
    let jobs = Jobs::Wait;
    let mut drain = Drain::new(Policy { jobs, ..policy() }, Duration::ZERO);
    drain.pods(pods, secs(0));
    drain
}

#[test]
fn a_job_is_waited_for_beyond_stall_and_named() {
    let mut drain = waiting(&[job("j"), pod("a")]);
    assert_eq!(uids(&drain.next(secs(0))), ["a"]);
    drain.answer("a", EvictAnswer::Accepted, secs(1));
    drain.heard(secs(10));
    drain.pods(&[job("j")], secs(10));
    assert!(!drain.next(secs(700)).confirm);
    drain.heard(secs(1700));
    let next = drain.next(secs(1700));
    assert!(next.evict.is_empty() && !next.confirm);
    assert_eq!(
        describe(&next),
        "1 pod left, 1 waited for: pod shop/j of Job shop/backup has not finished"
    );
    assert_eq!(next.wake, Some(secs(1800)));
    let mut done = job("j");
    done.phase = PodPhase::Succeeded;
    drain.pods(&[done], secs(1750));
    let state = drain.next(secs(1750)).state;
    assert!(matches!(state, State::Drained { leftover, .. } if leftover.is_empty()));
}

#[test]
fn a_job_that_does_not_finish_ends_with_the_timeout() {
    let mut drain = waiting(&[job("j")]);
    drain.heard(secs(1800));
    let next = drain.next(secs(1800));
    assert!(matches!(next.state, State::Failed { .. }));
    let words = describe(&next);
    assert!(
        words.contains("of Job shop/backup has not finished"),
        "{words}"
    );
}

#[test]
fn beside_a_job_the_others_stall_as_ever() {
    let mut drain = waiting(&[job("j"), pod("a")]);
    drain.heard(secs(600));
    assert!(matches!(drain.next(secs(600)).state, State::Failed { .. }));
}

#[test]
fn a_job_that_finishes_leaves_the_others_the_whole_stall() {
    let mut drain = waiting(&[job("j"), pod("a")]);
    drain.heard(secs(599));
    drain.pods(&[pod("a")], secs(599));
    drain.heard(secs(1100));
    assert!(matches!(drain.next(secs(1100)).state, State::Going { .. }));
}

//! What hooks have done before a reboot is taken back by those of `undo.d`, on every way out, and nothing is begun that could
//! not be (I3, I4, I6, I8).

use super::*;

/// The trigger goes at each moment; what was begun is taken back, and nothing else is.
#[tokio::test(start_paused = true)]
async fn i3_what_is_withdrawn_is_taken_back() {
    for part in [DRAIN, REBOOT] {
        let world = hooked(1).await;
        says(&world, part, Unit::RUNNING);
        world.want(0);
        world
            .until("it runs", HOUR, |world| runs(world, part) == 1)
            .await;
        world.unwant(0);
        // That which hangs has ended first: what it does still would come after what takes it back.
        world.pass(30 * Duration::from_secs(1)).await;
        world.require(runs(&world, UNDO) == 0, "one runs still");
        world.require(world.holder("default").is_some(), "the slot is kept");
        world
            .until("it is given back", 3 * MINUTE, given_back)
            .await;
        world.require(runs(&world, UNDO) == 1 && world.boots(0) == 0, "once");
    }
}

/// Killed in each phase, with the daemon back at once or after a power loss.
#[tokio::test(start_paused = true)]
async fn i3_i6_killed_at_any_moment_what_hooks_have_done_is_taken_back() {
    type Moment = (&'static str, fn(&World) -> bool);
    let moments: [Moment; 8] = [
        ("the mark and the first hook", |world| {
            runs(world, DRAIN) == 1
        }),
        ("the cordon", |world| world.cordoned(0)),
        ("the next hook", |world| runs(world, REBOOT) == 1),
        ("the last look", |world| world.phase(0) == "Rebooting"),
        ("the boot", |world| world.boots(0) == 1),
        ("the proof", |world| world.phase(0) == "Verifying"),
        ("the uncordon", |world| {
            world.boots(0) == 1 && !world.cordoned(0)
        }),
        ("the undo", |world| runs(world, UNDO) == 1),
    ];
    for (what, moment) in moments {
        for order in [Order::Kill(Duration::from_secs(1)), Order::PowerLoss] {
            let world = hooked(1).await;
            world.want(0);
            self::moment(&world, what, moment).await;
            world.hosts[0].order(order);
            world
                .until(what, HOUR, |world| {
                    world.boots(0) > 0 && world.phase(0) == "Idle"
                })
                .await;
            world.pass(2 * MINUTE).await;
            world.at_rest();
            let ran = runs(&world, UNDO);
            world.require(ran >= 1, &format!("{what}, {order:?}: it ran {ran} times"));
            let last = {
                let knobs = world.hosts[0].logind();
                let mut hooks = knobs
                    .started
                    .iter()
                    .filter(|(one, _)| one.contains("-hooks-"));
                hooks.next_back().is_some_and(|(one, _)| one.contains(UNDO))
            };
            world.require(last, &format!("{what}, {order:?}: it is the last"));
        }
    }
}

/// It is run again without end; the slot is kept, and somebody is called.
#[tokio::test(start_paused = true)]
async fn i3_i4_while_a_hook_of_undo_fails_the_slot_is_kept_and_that_is_said() {
    let world = hooked(2).await;
    says(&world, UNDO, Unit::exited(1));
    world.want(0);
    world
        .until("it has failed", HOUR, |world| runs(world, UNDO) >= 1)
        .await;
    world.want(1);
    world.pass(3 * HOUR).await;
    world.require(
        world.holder("default").as_deref() == Some("n0"),
        "the slot is kept",
    );
    world.require(
        !world.cordoned(0) && world.boots(1) == 0,
        "all else is given back",
    );
    let ran = runs(&world, UNDO);
    world.require((8..=16).contains(&ran), &format!("it ran {ran} times"));
    let words = "hook undo.d/10-noout failed: exit code 1; the slot is kept until the hooks of undo.d end well";
    world.require(world.said(0, words), words);
    let node = world.node(0);
    let told = crate::memory::condition(&node, "RebootRequired").unwrap();
    world.require(told["reason"] == "UndoHookFailed", "the condition says it");
    let message = told["message"].as_str().unwrap().to_owned();
    world.require(message.contains("hook undo.d/10-noout failed"), &message);
    // Whoever takes the hook away has done by hand what it does.
    fs::remove_file(world.hosts[0].path("/etc/kube-rebootd/hooks/undo.d/10-noout")).unwrap();
    world.until_rebooted(&[0, 1], 1, HOUR).await;
}

/// As much as can be is taken back.
#[tokio::test(start_paused = true)]
async fn one_hook_of_undo_that_fails_keeps_the_others_from_nothing() {
    const NEXT: &str = "kube-rebootd-hooks-undo_d_20_lb-";
    let world = hooked(1).await;
    hook(&world, "undo.d/20-lb", 0o755);
    says(&world, NEXT, Unit::exited(0));
    says(&world, UNDO, Unit::exited(1));
    world.want(0);
    world
        .until("the second runs", HOUR, |world| runs(world, NEXT) == 1)
        .await;
    world.require(in_order(&world), "one after the other");
    says(&world, UNDO, Unit::exited(0));
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
}

/// Found by review: a hook that was not begun within five minutes was begun in no round, and the slot stayed held for ever.
#[tokio::test(start_paused = true)]
async fn i4_all_hooks_of_undo_run_however_long_they_take() {
    const NEXT: &str = "kube-rebootd-hooks-undo_d_20_lb-";
    let world = World::pair("[hooks]\ntimeout = \"10m\"\n").await;
    for (place, part) in [
        ("pre-drain.d/10-noout", DRAIN),
        ("undo.d/10-noout", UNDO),
        ("undo.d/20-lb", NEXT),
    ] {
        hook(&world, place, 0o755);
        says(&world, part, Unit::exited(0));
    }
    // Its time limit ends it.
    says(&world, UNDO, Unit::RUNNING);
    world.want(0);
    moment(&world, "the first runs", |world| runs(world, UNDO) == 1).await;
    world.pass(9 * MINUTE).await;
    world.require(runs(&world, NEXT) == 0, "one after the other");
    world
        .until("the second runs", 3 * MINUTE, |world| {
            runs(world, NEXT) == 1
        })
        .await;
}

/// `undrain --release`, as the removal of the package calls it.
#[tokio::test(start_paused = true)]
async fn i3_who_gives_all_back_takes_back_what_hooks_have_done() {
    for fails in [false, true] {
        let world = hooked(1).await;
        if fails {
            says(&world, UNDO, Unit::exited(1));
        }
        world.want(0);
        moment(&world, "the first runs", |world| runs(world, DRAIN) == 1).await;
        world.hosts[0].order(Order::Kill(10 * HOUR));
        world.pass(Duration::from_secs(1)).await;
        let done = world.hosts[0].release(Duration::from_secs(30)).await;
        world.require(runs(&world, UNDO) >= 1, "it ran");
        match done {
            Ok(_) => world.require(!fails && world.holder("default").is_none(), "given back"),
            Err(left) => {
                let why = "hook undo.d/10-noout failed: exit code 1";
                world.require(fails && left.trouble == why, &left.trouble);
                world.require(world.holder("default").is_some(), "the slot is kept");
            }
        }
    }
}

/// Found by review: each try ended the hook of the one before and began it anew.
#[tokio::test(start_paused = true)]
async fn i3_who_gives_all_back_lets_a_hook_end_that_takes_longer_than_the_limit() {
    let world = hooked(1).await;
    // Its time limit ends it, after a minute.
    says(&world, UNDO, Unit::RUNNING);
    world.want(0);
    moment(&world, "the first runs", |world| runs(world, DRAIN) == 1).await;
    not_given_back(&world).await;
    world.require(runs(&world, UNDO) == 1, "one round, to its end");
}

/// The daemon is gone, and `undrain --release` has the half minute of its default: a hook of undo.d does not end well.
async fn not_given_back(world: &World) {
    world.hosts[0].order(Order::Kill(10 * HOUR));
    world.pass(Duration::from_secs(1)).await;
    let left = world.hosts[0].release(Duration::from_secs(30)).await;
    let left = left.expect_err("it did not end well");
    world.require(
        left.trouble.contains("undo.d/10-noout failed"),
        &left.trouble,
    );
}

/// Nothing is begun that could not be taken back: by the mode of what would do it, or by whose it is.
#[tokio::test(start_paused = true)]
async fn i3_i8_what_could_not_be_taken_back_is_not_begun() {
    for (mode, cure) in [(0o644, "chmod +x"), (0o757, "chmod go-w")] {
        let world = hooked(1).await;
        hook(&world, "undo.d/10-noout", mode);
        world.want(0);
        world.until_phase(0, "Undoing", HOUR).await;
        world
            .until("it is given back", 2 * MINUTE, given_back)
            .await;
        world.pass(HOUR).await;
        world.require(rounds(&world) == [0, 0, 0], "none is run");
        let drained = world.phases(0).iter().any(|phase| phase == "Draining");
        world.require(!drained, "it was never cordoned");
        let path = format!("{cure} /etc/kube-rebootd/hooks/undo.d/10-noout");
        for words in ["what hooks do could not be taken back", &path] {
            world.require(world.said(0, words), words);
        }
        hook(&world, "undo.d/10-noout", 0o755);
        world.until_rebooted(&[0], 1, 6 * HOUR).await;
        world.require(rounds(&world) == [1, 1, 1], "once each");
    }
}

/// A node is not drained for hooks that would end its hold after that.
#[tokio::test(start_paused = true)]
async fn i3_i8_where_only_the_reboot_has_hooks_the_hold_ends_before_the_cordon_too() {
    let world = hooked(1).await;
    fs::remove_file(world.hosts[0].path("/etc/kube-rebootd/hooks/pre-drain.d/10-noout")).unwrap();
    hook(&world, "undo.d/10-noout", 0o644);
    world.want(0);
    world.until_phase(0, "Undoing", HOUR).await;
    world.pass(HOUR).await;
    let drained = world.phases(0).iter().any(|phase| phase == "Draining");
    world.require(!drained, "it was never cordoned");
    world.require(rounds(&world) == [0, 0, 0], "none is run");
    hook(&world, "undo.d/10-noout", 0o755);
    world.until_rebooted(&[0], 1, 6 * HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_without_hooks_asks_nothing_of_those_that_take_back() {
    let world = hooked(1).await;
    for place in ["pre-drain.d/10-noout", "pre-reboot.d/10-lb"] {
        let path = format!("/etc/kube-rebootd/hooks/{place}");
        fs::remove_file(world.hosts[0].path(&path)).unwrap();
    }
    hook(&world, "undo.d/10-noout", 0o757);
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// A hook that takes long has the time that is configured, before the cordon as for what takes back.
#[tokio::test(start_paused = true)]
async fn i7_a_hook_may_take_as_long_as_the_configuration_says() {
    let world = World::pair("[hooks]\ntimeout = \"10m\"\n").await;
    for (place, part) in [("pre-drain.d/10-noout", DRAIN), ("undo.d/10-noout", UNDO)] {
        hook(&world, place, 0o755);
        says(&world, part, Unit::RUNNING);
    }
    world.want(0);
    moment(&world, "it runs", |world| runs(world, DRAIN) == 1).await;
    world.pass(9 * MINUTE).await;
    world.require(world.phase(0) == "Claiming", "it may take longer");
    world.until_phase(0, "Undoing", 3 * MINUTE).await;
    moment(&world, "it is taken back", |world| runs(world, UNDO) == 1).await;
    not_given_back(&world).await;
    world.require(runs(&world, UNDO) == 2, "one round more, to its end");
}

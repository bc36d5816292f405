//! The hooks that change something: before the cordon, before the reboot, and what takes that back (I3, I4, I6, I7).
//!
//! That they may have run is on record before the first of them runs. So they are taken back however the hold ends, and whoever
//! finds the record; what was begun twice for a crash in between is theirs to bear.

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use super::context::{Context, Step};
use super::held::{Needs, undo};
use crate::backoff::doubled;
use crate::effect::Effect;
use crate::hook::{AGAIN, Hook, Last, Said, Stand, steady};
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Hold, Why};

/// How long a drained node keeps its slot for a hook that says not now.
const PASSES: Duration = Duration::from_secs(5 * 60);
/// Between two rounds that take back, at most.
const UNDO_MAX: Duration = Duration::from_secs(30 * 60);
/// What was not looked at yet is looked at by the next turn.
const LOOK: Duration = Duration::from_secs(1);
const LOOKING: &str = "looking whether hooks could be taken back";

/// All that is to be done before the cordon is done, or the step that does it or undoes. What would end the hold once the node
/// is drained ends it here.
pub(super) fn before_the_cordon(context: &Context, hold: &Hold) -> Needs<()> {
    let before = Before {
        hook: Hook::PreDrain,
        phase: Phase::Claiming,
        where_it_is: "the node is not cordoned yet",
        patience: Duration::ZERO,
    };
    if !context.facts.record.keeps() && !hold.hooked {
        match &context.facts.hooks.pre_reboot {
            Stand::None => {}
            Stand::Some { .. } => before.could_be_taken_back(context, hold)?,
            Stand::Unlooked => {
                return Break(before.waits(context, context.now.boot + LOOK, LOOKING));
            }
            Stand::Unknown(why) => return Break(undo(context, hold, Why::Hook(why.clone()))),
        }
    }
    before.done(context, hold, &context.facts.hooks.pre_drain)
}

/// The same between the drain and the reboot. A drained node waits a while for one that says not now.
pub(super) fn before_the_reboot(context: &Context, hold: &Hold) -> Needs<()> {
    let before = Before {
        hook: Hook::PreReboot,
        phase: Phase::Draining,
        where_it_is: "drained",
        patience: PASSES,
    };
    before.done(context, hold, &context.facts.hooks.pre_reboot)
}

/// What must be done before the hold goes on.
struct Before {
    hook: Hook,
    phase: Phase,
    where_it_is: &'static str,
    /// How long "not now" is waited for.
    patience: Duration,
}

impl Before {
    fn done(&self, context: &Context, hold: &Hold, stand: &Stand) -> Needs<()> {
        let directory = self.hook.directory();
        let running = format!("running the hooks of {directory}");
        let now = context.now.boot;
        let (running_now, last) = match stand {
            Stand::None => return Continue(()),
            Stand::Unlooked => return Break(self.waits(context, now + LOOK, &running)),
            Stand::Unknown(why) => return Break(undo(context, hold, Why::Hook(why.clone()))),
            Stand::Some { running, last } => (*running, last.as_ref()),
        };
        self.could_be_taken_back(context, hold)?;
        match last.map(|last| (last, &last.said)) {
            Some((_, Said::Well)) if !running_now => Continue(()),
            Some((last, Said::NotNow(why))) if now < last.first + self.patience => {
                let again = last.ended + AGAIN;
                if !running_now && now >= again {
                    return Break(self.run(context, why));
                }
                let until = again.max(now + LOOK);
                Break(self.waits(context, until, why))
            }
            _ if running_now => {
                let stays = context.stay(self.phase, "").wake;
                Break(self.waits(context, stays.unwrap_or(now), &running))
            }
            Some((_, Said::NotNow(why) | Said::Failed(why))) => {
                Break(undo(context, hold, Why::Hook(why.clone())))
            }
            Some((_, Said::Well)) | None => Break(self.run(context, &running)),
        }
    }

    /// Before the first of them: all hooks of `undo.d` could run.
    fn could_be_taken_back(&self, context: &Context, hold: &Hold) -> Needs<()> {
        if hold.hooked {
            return Continue(());
        }
        match &context.facts.hooks.undo {
            Stand::None | Stand::Some { .. } => Continue(()),
            Stand::Unlooked => Break(self.waits(context, context.now.boot + LOOK, LOOKING)),
            Stand::Unknown(why) => {
                let why = format!("what hooks do could not be taken back: {why}");
                Break(undo(context, hold, Why::Hook(why)))
            }
        }
    }

    fn waits(&self, context: &Context, until: Duration, why: &str) -> Step {
        let status = format!("{}: {why}", self.where_it_is);
        Step {
            waits: Some(steady(why).to_owned()),
            ..context.wait(self.phase, until, status)
        }
    }

    /// The mark is durable before the first of them runs (I6).
    fn run(&self, context: &Context, why: &str) -> Step {
        let mut record = context.facts.record.clone();
        if let Some(hold) = &mut record.hold {
            hold.hooked = true;
        }
        let status = format!("{}: {why}", self.where_it_is);
        Step {
            record,
            waits: Some(steady(why).to_owned()),
            ..context.step(self.phase, Effect::Hooks(self.hook), status)
        }
    }
}

/// What hooks have done in this hold is taken back; else the step that does it, without end: nobody else knows of it, and the
/// next node is not to do the same beside it. None: it is, or there was nothing.
pub(super) fn taken_back(
    context: &Context,
    hold: &Hold,
    phase: Phase,
    words: &str,
) -> Option<Step> {
    if !hold.hooked {
        return None;
    }
    let now = context.now.boot;
    let (running, last) = match &context.facts.hooks.undo {
        Stand::None => return None,
        Stand::Unlooked => return Some(context.wait(phase, now + LOOK, words)),
        Stand::Unknown(why) => {
            let step = context.wait(phase, now + AGAIN, format!("{words}; {why}"));
            return Some(failing(step, why));
        }
        Stand::Some { running, last } => (*running, last.as_ref()),
    };
    let no = last.and_then(|last| Some((last, last.said.no()?)));
    let Some((last, why)) = no else {
        if last.is_some() && !running {
            // On disk before the slot goes: a daemon that is killed then must not run them beside the next holder.
            let mut step = context.wait(phase, now, words);
            if let Some(hold) = &mut step.record.hold {
                hold.hooked = false;
            }
            return Some(step);
        }
        let what = "running the hooks of undo.d";
        let status = format!("{words}; {what}");
        let step = if running {
            context.stay(phase, status)
        } else {
            context.step(phase, Effect::Hooks(Hook::Undo), status)
        };
        let waits = Some(what.to_owned());
        return Some(Step { waits, ..step });
    };
    let again = again(last);
    let step = if running {
        context.stay(phase, format!("{words}; {why}; it is run again"))
    } else if now < again {
        let left = context.left(again);
        let status = format!("{words}; {why}; it is run again in {left}");
        context.wait(phase, again, status)
    } else {
        let status = format!("{words}; {why}; it is run again");
        context.step(phase, Effect::Hooks(Hook::Undo), status)
    };
    Some(failing(step, why))
}

fn again(last: &Last) -> Duration {
    last.ended + doubled(AGAIN, last.failures.saturating_sub(1), UNDO_MAX)
}

/// Somebody has to look.
fn failing(step: Step, why: &str) -> Step {
    Step {
        reason: Reason::UndoHookFailed,
        waits: Some(steady(why).to_owned()),
        ..step
    }
}

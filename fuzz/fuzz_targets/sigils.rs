//! Any agent text parses, yields a failure description, and contains no sigil once it is defused (SPEC 4,
//! 6.8).
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{
    CONTEXT_CHARS, Context, ERROR_CHARS, FailureFacts, Sigils, defuse, extract_failure, parse,
};

fuzz_target!(|text: &str| {
    let safe = defuse(text);
    assert_eq!(safe.chars().count(), text.chars().count());
    assert_eq!(defuse(&safe), safe);
    for kind in SessionKind::ALL {
        let context = Context {
            kind,
            task_id: "t-9f2c41aa07be",
            model_tiers: &[],
        };
        let sigils = parse(text, &context);
        assert!(sigils.task_done <= text.contains(context.task_id));
        assert_eq!(parse(&safe, &context), Sigils::default());
        assert_eq!(parse(&format!("{safe}\n{safe}"), &context), Sigils::default());
    }
    let failure = extract_failure(&FailureFacts {
        text,
        tool_output: text,
        ..FailureFacts::default()
    });
    assert!(!failure.error.is_empty() && failure.error.chars().count() <= ERROR_CHARS);
    assert!(failure.context.chars().count() <= CONTEXT_CHARS);
});

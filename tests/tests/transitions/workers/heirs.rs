//! Another worker can take the name of an absent worker, but not its dispatches.

use ralph_coordinator::store;
use ralph_shared::ids::Incarnation;
use ralph_shared::wire::{TranscriptBatch, TranscriptOrigin, WRITES};
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::turn;

async fn is_silent(world: &World) {
    sqlx::query("update workers set seen_at = now() - interval '1 hour'")
        .execute(&world.db)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_takes_a_dead_ones_name_gets_none_of_its_dispatches() {
    let world = World::calm().await.unwrap();
    let owner = Pool::join(&world).await;
    world
        .submit(
            "f",
            None,
            "- {key: a, title: A, max_retries: 0}",
            &FeatureOptions::default(),
        )
        .await
        .unwrap();
    let given = owner.claim(1).await.remove(0);
    let holder = async || -> Incarnation {
        let id: uuid::Uuid = sqlx::query_scalar("select incarnation from dispatches where state = 'live'")
            .fetch_one(&world.db)
            .await
            .unwrap();
        Incarnation(id)
    };
    let may_tell = async |incarnation: Incarnation| -> bool {
        let mut conn = world.db.acquire().await.unwrap();
        let holder = store::dispatch::transcript::holder(&mut conn, given.dispatch)
            .await
            .unwrap()
            .unwrap();
        holder.sent(&TranscriptBatch {
            v: WRITES,
            dispatch: given.dispatch,
            origin: Some(TranscriptOrigin {
                worker: "w".to_owned(),
                incarnation,
            }),
            entries: Vec::new(),
        })
    };
    is_silent(&world).await;
    let thief = Pool::join_from(&world, "elsewhere").await;
    thief.beat(&[&given], &[]).await;
    assert_eq!(
        holder().await,
        owner.incarnation,
        "the thief does not get the lease"
    );
    assert!(may_tell(owner.incarnation).await && !may_tell(thief.incarnation).await);
    thief
        .report(vec![thief.session(
            &given,
            turn(),
            "<task-done>{id}</task-done>",
            1,
        )])
        .await;
    assert_eq!(
        holder().await,
        owner.incarnation,
        "the thief's report settles nothing"
    );

    // The owner's next incarnation gets everything back, whoever had the name meanwhile.
    is_silent(&world).await;
    let heir = Pool::join(&world).await;
    heir.beat(&[&given], &[]).await;
    assert_eq!(holder().await, heir.incarnation);
    assert!(may_tell(heir.incarnation).await && !may_tell(thief.incarnation).await);
}
